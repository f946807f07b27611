//! Discord's REST API on the loopback address: an emulator that keeps its state and refuses what Discord refuses.
//!
//! Tests assert on what it stored ([`DiscordApi::sent`], [`DiscordApi::commands`]) and on what was asked of it
//! ([`DiscordApi::calls`]). It knows one application with its bot, the answers to interactions, messages of channels,
//! attachments, a guild's roles, and the application's own settings. An interaction can be answered after a test has said that
//! Annals responded to it ([`DiscordApi::responded`]); every channel exists, with the bot in it, unless a test says otherwise.
//!
//! Codes and words are those of <https://discord.com/developers/docs/topics/opcodes-and-status-codes>.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, Uri, header};
use axum::response::Response;
use ring::digest::{SHA256, digest};
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::Value;

use crate::server::Server;

mod application;
mod store;

pub use store::{APPLICATION_ID, BOT_TOKEN, Call, Interaction, Sent, Store};

/// A running emulator; it ends with this value.
pub struct DiscordApi {
    store: Arc<Mutex<Store>>,
    server: Server,
}

impl DiscordApi {
    /// Starts one at a free port of `127.0.0.1`.
    pub async fn start() -> Self {
        Self::start_at(0).await
    }

    /// Starts one at this port of `127.0.0.1`.
    pub async fn start_at(port: u16) -> Self {
        let store = Arc::new(Mutex::new(Store::default()));
        let router = Router::new().fallback(answer).with_state(Arc::clone(&store));
        let server = Server::start(port, router).await;
        store.lock().unwrap().base.clone_from(&server.url);
        Self { store, server }
    }

    /// `http://127.0.0.1:<port>/api/v10`, for `DISCORD_API_BASE`.
    pub fn base_url(&self) -> String {
        format!("{}/api/v10", self.server.url)
    }

    /// The address of an attachment of this emulator.
    pub fn file_url(&self, name: &str) -> String {
        format!("{}/attachments/1/2/{name}?ex=68c0ffee", self.server.url)
    }

    /// Changes what it holds and does.
    pub fn edit<T>(&self, change: impl FnOnce(&mut Store) -> T) -> T {
        change(&mut self.store())
    }

    /// The messages as people see them now, in the order of their making: answers to interactions, and the bot's own.
    pub fn sent(&self) -> Vec<Sent> {
        self.store().sent.clone()
    }

    /// The texts of [`DiscordApi::sent`].
    pub fn texts(&self) -> Vec<String> {
        self.sent().into_iter().map(|sent| sent.content).collect()
    }

    /// All calls, in order.
    pub fn calls(&self) -> Vec<Call> {
        self.store().calls.clone()
    }

    /// Returns the number of calls of this method and path, whose ids are written `*`.
    pub fn count(&self, call: &str) -> usize {
        self.calls().iter().filter(|made| made.name == call).count()
    }

    /// The registered commands.
    pub fn commands(&self) -> Vec<Value> {
        self.store().commands.clone()
    }

    /// The application's settings, as `GET /applications/@me` returns them.
    pub fn application(&self) -> Value {
        self.store().application()
    }

    /// Says that Annals responded to the interaction `call` with `response`: it can be answered from now on.
    pub fn responded(&self, call: &Value, response: &Value) {
        self.store().responded(call, response);
    }

    /// The bot may not write to this channel: 50001.
    pub fn expel(&self, channel_id: &str) {
        self.store().expelled.insert(channel_id.to_owned());
    }

    /// The bot may write to this channel again.
    pub fn admit(&self, channel_id: &str) {
        self.store().expelled.remove(channel_id);
    }

    /// The next `times` calls are answered 429, with this wait in seconds.
    pub fn rate_limit(&self, times: usize, retry_after: f64) {
        self.store().rate_limit = (times, retry_after);
    }

    /// The next `times` calls are answered with `status`, a proxy's page and no JSON.
    pub fn fail(&self, times: usize, status: u16) {
        self.store().fail = (times, status);
    }

    /// The next `times` calls are carried out, and not answered.
    pub fn hang(&self, times: usize) {
        self.store().hang = times;
    }

    /// Delays each answer; the call itself is carried out before.
    pub fn delay(&self, delay: Duration) {
        self.store().delay = delay;
    }

    /// Puts a channel in place of the default one, a text channel of a guild: an object of the API.
    pub fn set_channel(&self, channel: Value) {
        let id = channel["id"].as_str().unwrap().to_owned();
        self.store().channels.insert(id, channel);
    }

    /// Adds a message to a channel, as the API lists it.
    pub fn seed(&self, channel_id: &str, message: Value) {
        self.store().listed.entry(channel_id.to_owned()).or_default().push(message);
    }

    /// The owner of the guild, and a member with a role that may administer it.
    pub fn set_administrators(&self, owner: &str, member: &str) {
        self.store().administrators = (owner.to_owned(), member.to_owned());
    }

    /// The gateway is at this address.
    pub fn set_gateway(&self, url: &str) {
        url.clone_into(&mut self.store().gateway);
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap()
    }
}

/// Returns the application's public key, in hex.
pub fn public_key() -> String {
    hex::encode(key_pair().public_key().as_ref())
}

/// Returns the headers with which Discord signs `body`: name and value.
pub fn signed(body: &[u8]) -> [(&'static str, String); 2] {
    const TIMESTAMP: &str = "1764057600";
    let signature = key_pair().sign(&[TIMESTAMP.as_bytes(), body].concat());
    [
        ("x-signature-ed25519", hex::encode(signature.as_ref())),
        ("x-signature-timestamp", TIMESTAMP.to_owned()),
    ]
}

/// The pair of Annals' development secret, so that Annals can prove calls as this Discord's, too.
fn key_pair() -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(digest(&SHA256, b"dev-discord-key").as_ref()).unwrap()
}

async fn answer(
    State(store): State<Arc<Mutex<Store>>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (authorization, kind) = (text(header::AUTHORIZATION), text(header::CONTENT_TYPE));
    // Cloudflare is in front of the API.
    if !uri.path().starts_with("/attachments/") && !text(header::USER_AGENT).starts_with("DiscordBot (") {
        return store::error(403, 40_333, "internal network error").send(Duration::ZERO).await;
    }
    // Discord checks a new address before it keeps it.
    let answer = match application::endpoint_of(&method, &uri, &body) {
        Some(endpoint) if !application::is_valid(&endpoint).await => application::invalid_endpoint(),
        _ => store.lock().unwrap().answer(&method, &uri, authorization, kind, &body),
    };
    let delay = store.lock().unwrap().delay;
    answer.send(delay).await
}
