//! Lark's Open API on the loopback address: an emulator that keeps its state and refuses what Lark refuses.
//!
//! Tests assert on what it stored ([`LarkApi::sent`]) and on what was asked of it ([`LarkApi::calls`],
//! [`LarkApi::token_requests`]). It knows the app's token, the bot, and getting, listing, sending and answering
//! messages, their resources, and reactions to them. Every chat exists, with the bot in it, unless a test says otherwise; so does every message, of no chat in
//! particular until a test [seeds](LarkApi::seed) it. Its clock moves only by [`LarkApi::pass`].
//!
//! Codes and words are those of <https://open.larksuite.com/document/uAjLw4CM/ukTMukTMukTM/reference/im-v1/message/reply>.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, Uri, header};
use axum::response::Response;
use serde_json::Value;

use crate::server::Server;
pub use crate::server::picture;

mod store;

pub use store::{APP_ID, APP_SECRET, BOT_NAME, BOT_OPEN_ID, Call, Reaction, Sent, Store, Trouble};

/// A running emulator; it ends with this value.
pub struct LarkApi {
    store: Arc<Mutex<Store>>,
    server: Server,
}

impl LarkApi {
    /// Starts one at a free port of `127.0.0.1`.
    pub async fn start() -> Self {
        Self::start_at(0).await
    }

    /// Starts one at this port of `127.0.0.1`.
    pub async fn start_at(port: u16) -> Self {
        let store = Arc::<Mutex<Store>>::default();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&store));
        Self { server: Server::start(port, router).await, store }
    }

    /// `http://127.0.0.1:<port>`, for `LARK_API_BASE`.
    pub fn base_url(&self) -> &str {
        &self.server.url
    }

    /// Changes what it holds and does.
    pub fn edit<T>(&self, change: impl FnOnce(&mut Store) -> T) -> T {
        change(&mut self.store())
    }

    /// The messages taken, in order.
    pub fn sent(&self) -> Vec<Sent> {
        self.store().sent.clone()
    }

    /// The messages taken for one chat, in order.
    pub fn sent_to(&self, chat_id: &str) -> Vec<Sent> {
        self.sent().into_iter().filter(|sent| sent.chat_id == chat_id).collect()
    }

    /// All calls, in order.
    pub fn calls(&self) -> Vec<Call> {
        self.store().calls.clone()
    }

    /// The codes of the calls of one method, in order.
    pub fn codes(&self, method: &str) -> Vec<i64> {
        self.calls().into_iter().filter(|call| call.method == method).map(|call| call.code).collect()
    }

    /// Returns the number of requests for a token.
    pub fn token_requests(&self) -> usize {
        self.codes("token").len()
    }

    /// The most token requests that were under way at once.
    pub fn token_requests_at_once(&self) -> usize {
        self.store().token_requests.1
    }

    /// The bot's reactions, as they are now.
    pub fn reactions(&self) -> Vec<Reaction> {
        self.store().reactions.clone()
    }

    /// More than five messages a second in a chat, by this clock in epoch milliseconds, are answered 230020.
    pub fn police(&self, now: impl Fn() -> i64 + Send + Sync + 'static) {
        self.store().police = Some(Box::new(now));
    }

    /// Lets time pass: tokens end after two hours, a `uuid` is forgotten after one.
    pub fn pass(&self, time: Duration) {
        self.store().now += time;
    }

    /// No token is taken any more, whatever is given.
    pub fn refuse_tokens(&self, refuse: bool) {
        self.store().refuse_tokens = refuse;
    }

    /// A message as the API shows it: `message_id`, `chat_id`, `create_time` in milliseconds as a string, and what
    /// else the test wants; with an `upper_message_id` it is a part of a forwarded one.
    pub fn seed(&self, message: Value) {
        self.store().messages.push(message);
    }

    /// Gives this chat a fault.
    pub fn trouble(&self, chat_id: &str, trouble: Trouble) {
        self.store().troubles.insert(chat_id.to_owned(), trouble);
    }

    /// Removes the fault of this chat.
    pub fn restore(&self, chat_id: &str) {
        self.store().troubles.remove(chat_id);
    }

    /// This message was withdrawn: 230011.
    pub fn recall(&self, message_id: &str) {
        self.store().recalled.insert(message_id.to_owned());
    }

    /// The next `times` messages are refused with `code`.
    pub fn refuse(&self, times: usize, code: i64) {
        self.store().refuse = (times, code);
    }

    /// The next `times` calls but for tokens are answered 429 with 99991400, and with `x-ogw-ratelimit-reset` if
    /// there is one.
    pub fn rate_limit(&self, times: usize, reset_secs: Option<u64>) {
        self.store().rate_limit = (times, reset_secs);
    }

    /// The next `times` calls are answered with `status`, a proxy's page and no JSON; those for tokens too.
    pub fn fail(&self, times: usize, status: u16) {
        self.store().fail = (times, status);
    }

    /// The next `times` messages are taken, and not answered.
    pub fn hang(&self, times: usize) {
        self.store().hang = times;
    }

    /// These users own (the first) and manage this group.
    pub fn set_managers(&self, chat_id: &str, users: &[&str]) {
        let users = users.iter().map(|user| (*user).to_owned()).collect();
        self.store().managers.insert(chat_id.to_owned(), users);
    }

    /// Delays each answer; the request itself is carried out before.
    pub fn delay(&self, delay: Duration) {
        self.store().delay = delay;
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap()
    }
}

/// A token request that is under way, until it is answered or given up.
struct TokenRequest(Arc<Mutex<Store>>);

impl TokenRequest {
    fn new(shared: &Arc<Mutex<Store>>) -> Self {
        let mut store = shared.lock().unwrap();
        let (now, most) = store.token_requests;
        store.token_requests = (now + 1, most.max(now + 1));
        Self(Arc::clone(shared))
    }
}

impl Drop for TokenRequest {
    fn drop(&mut self) {
        self.0.lock().unwrap().token_requests.0 -= 1;
    }
}

async fn answer(
    State(store): State<Arc<Mutex<Store>>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let _under_way = uri.path().contains("/auth/v3/").then(|| TokenRequest::new(&store));
    let (answer, delay) = {
        let mut store = store.lock().unwrap();
        let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let answer = store.answer(&method, &uri, bearer.unwrap_or_default(), &body);
        (answer, store.delay)
    };
    answer.send(delay).await
}
