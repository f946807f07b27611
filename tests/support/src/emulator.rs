//! The base of the emulators of platforms: a server that notes its calls, and fails, hangs and limits as a test says.
//!
//! A platform implements [`Emulated`] for its state, with its rules. What else a test says and asks is in methods of the
//! [`Emulator`] of that.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::AsHeaderName;
use axum::http::{HeaderMap, Method, Uri};
use axum::response::Response;
use serde_json::{Value, json};

use crate::fault_proxy::Service;
pub use crate::server::{Answer, picture};
use crate::server::{Server, take};

/// A running emulator; it ends with this value.
pub struct Emulator<P> {
    store: Arc<Mutex<P>>,
    base_url: String,
    _server: Server,
}

/// The state of a platform, with the rules by which it takes and refuses calls.
pub trait Emulated: Default + Send + 'static {
    /// A message that was taken.
    type Sent: Clone;
    /// The path of the API.
    const PATH: &'static str = "";
    /// The names of the calls that send a message.
    const MESSAGES: &'static [&'static str];

    /// Returns the state that all platforms have.
    fn base(&mut self) -> &mut Base;

    /// Returns the messages that were taken, in order.
    fn sent(&self) -> &[Self::Sent];

    /// Returns the name of a call, by which tests find it.
    fn name(request: &Request) -> String;

    /// Carries a call out, or refuses it.
    fn answer(&mut self, name: &str, request: &Request) -> Answer;

    /// Returns the answer to a call too many, which may come again after `wait`, or after the next second.
    fn too_many(wait: Duration) -> Answer;

    /// Returns the answer of an API that fails inside.
    fn failure() -> Answer {
        Answer::json(502, &json!({}))
    }

    /// Returns true if [`Emulator::rate_limit`] concerns the calls of this name.
    fn is_limited(_name: &str) -> bool {
        true
    }

    /// Returns true if [`Emulator::fail`] concerns the calls of this name.
    fn can_fail(name: &str) -> bool {
        Self::is_limited(name)
    }

    /// Returns the answer to a request that does not become a call.
    fn intercept(_request: &Request) -> impl Future<Output = Option<Answer>> + Send {
        async { None }
    }
}

/// A request.
pub struct Request {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Request {
    /// Returns a header, or "" without it.
    pub(crate) fn header(&self, name: impl AsHeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Returns the body, or null if it is not JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// Returns `wait` in seconds, rounded up.
pub(crate) fn whole_secs(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

/// A call, taken or refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The name that its platform's emulator gives it.
    pub name: String,
    /// The HTTP status that it was answered with.
    pub status: u16,
    /// The `code` of the answer: 0 without one, -1 if it was a page.
    pub code: i64,
}

/// The state that all platforms have.
#[derive(Default)]
pub struct Base {
    /// `http://127.0.0.1:<port>`
    pub(crate) url: String,
    pub(crate) calls: Vec<Call>,
    /// By name: calls under way, and the most of them at once.
    under_way: HashMap<String, (usize, usize)>,
    rate_limit: (usize, Duration),
    fail: (usize, u16),
    garbage: usize,
    hang: usize,
    delay: Duration,
    /// Epoch milliseconds for [`Base::admits`].
    pub(crate) clock: Option<Box<dyn Fn() -> i64 + Send + Sync>>,
    /// Times and chats of the messages that it admitted.
    admitted: Vec<(i64, String)>,
}

impl Base {
    /// Admits a message to `chat` unless one of `limits` is reached: so many messages, in so many milliseconds, in the chat
    /// alone or in all. Without a clock there are none.
    pub(crate) fn admits(&mut self, chat: &str, limits: &[(usize, i64, bool)]) -> bool {
        let Some(now) = self.clock.as_ref().map(|now| now()) else { return true };
        let is_reached = |(most, millis, in_chat): &(usize, i64, bool)| {
            let is_near = |(at, of): &&(i64, String)| *at > now - millis && (!in_chat || of == chat);
            self.admitted.iter().filter(is_near).count() >= *most
        };
        let admits = !limits.iter().any(is_reached);
        if admits {
            self.admitted.push((now, chat.to_owned()));
        }
        admits
    }
}

impl<P: Emulated> Emulator<P> {
    /// Starts one at a free port of `127.0.0.1`.
    pub async fn start() -> Self {
        Self::start_at(0).await
    }

    /// Starts one at this port of `127.0.0.1`.
    pub async fn start_at(port: u16) -> Self {
        let store = Arc::<Mutex<P>>::default();
        let router = Router::new().fallback(answer::<P>).with_state(Arc::clone(&store));
        let server = Server::start(port, router).await;
        store.lock().unwrap().base().url.clone_from(&server.url);
        Self { store, base_url: format!("{}{}", server.url, P::PATH), _server: server }
    }

    /// Returns the address of the API, for `<PLATFORM>_API_BASE`.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// Returns the service that a proxy in front of it emulates, too.
    pub fn service(&self) -> Service {
        Service::Platform { failure: P::failure, too_many: P::too_many }
    }

    /// Changes what it holds and does.
    pub fn edit<T>(&self, change: impl FnOnce(&mut P) -> T) -> T {
        change(&mut self.store())
    }

    /// Returns the messages taken, in order.
    pub fn sent(&self) -> Vec<P::Sent> {
        self.store().sent().to_vec()
    }

    /// Returns all calls, in order.
    pub fn calls(&self) -> Vec<Call> {
        self.store().base().calls.clone()
    }

    /// Returns the statuses of the calls of this name, in order.
    pub fn statuses(&self, name: &str) -> Vec<u16> {
        self.calls().into_iter().filter(|call| call.name == name).map(|call| call.status).collect()
    }

    /// Returns the codes of the calls of this name, in order.
    pub fn codes(&self, name: &str) -> Vec<i64> {
        self.calls().into_iter().filter(|call| call.name == name).map(|call| call.code).collect()
    }

    /// Returns the number of calls of this name.
    pub fn count(&self, name: &str) -> usize {
        self.statuses(name).len()
    }

    /// Returns the most calls of this name that were under way at once.
    pub fn at_once(&self, name: &str) -> usize {
        self.store().base().under_way.get(name).map_or(0, |(_, most)| *most)
    }

    /// Limits the next `times` calls of those that [are limited](Emulated::is_limited), with this wait.
    pub fn rate_limit(&self, times: usize, wait_secs: f64) {
        self.store().base().rate_limit = (times, Duration::from_secs_f64(wait_secs));
    }

    /// Answers the next `times` calls, of those that [can fail](Emulated::can_fail), with `status`, a proxy's page and no
    /// JSON.
    pub fn fail(&self, times: usize, status: u16) {
        self.store().base().fail = (times, status);
    }

    /// Takes the next `times` messages, and answers 200 with a page of somebody else's.
    pub fn garble(&self, times: usize) {
        self.store().base().garbage = times;
    }

    /// Takes the next `times` messages, and does not answer.
    pub fn hang(&self, times: usize) {
        self.store().base().hang = times;
    }

    /// Delays each answer; the call itself is carried out before.
    pub fn delay(&self, delay: Duration) {
        self.store().base().delay = delay;
    }

    pub(crate) fn store(&self) -> MutexGuard<'_, P> {
        self.store.lock().unwrap()
    }
}

/// A call that is under way, until it is answered or given up.
struct UnderWay<P: Emulated>(Arc<Mutex<P>>, String);

impl<P: Emulated> UnderWay<P> {
    fn new(store: &Arc<Mutex<P>>, name: &str) -> Self {
        let mut guard = store.lock().unwrap();
        let (now, most) = guard.base().under_way.entry(name.to_owned()).or_default();
        *now += 1;
        *most = (*most).max(*now);
        Self(Arc::clone(store), name.to_owned())
    }
}

impl<P: Emulated> Drop for UnderWay<P> {
    fn drop(&mut self) {
        if let Ok(mut store) = self.0.lock() {
            store.base().under_way.get_mut(&self.1).unwrap().0 -= 1;
        }
    }
}

async fn answer<P: Emulated>(
    State(store): State<Arc<Mutex<P>>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let request = Request { method, uri, headers, body };
    if let Some(answer) = P::intercept(&request).await {
        return answer.send(Duration::ZERO).await;
    }
    let name = P::name(&request);
    let _under_way = UnderWay::new(&store, &name);
    let (answer, delay) = {
        let mut store = store.lock().unwrap();
        (answer_to(&mut *store, &name, &request), store.base().delay)
    };
    answer.send(delay).await
}

fn answer_to<P: Emulated>(store: &mut P, name: &str, request: &Request) -> Answer {
    let base = store.base();
    let mut answer = if P::can_fail(name) && take(&mut base.fail.0) {
        Answer::page(base.fail.1, "<html><h1>Bad Gateway</h1></html>")
    } else if P::is_limited(name) && take(&mut base.rate_limit.0) {
        P::too_many(base.rate_limit.1)
    } else {
        store.answer(name, request)
    };
    let base = store.base();
    if answer.status == 200 && P::MESSAGES.contains(&name) {
        if take(&mut base.garbage) {
            answer = Answer::page(200, "<html>Welcome to the hotel's network</html>");
        }
        answer.hangs = take(&mut base.hang);
    }
    base.calls.push(Call { name: name.to_owned(), status: answer.status, code: answer.code() });
    answer
}
