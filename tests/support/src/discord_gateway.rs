//! Discord's gateway on the loopback address: an emulator that keeps guilds, channels, messages and sessions, and checks
//! what Discord checks.
//!
//! A session collects events whether or not somebody is connected, and replays them after a RESUME. It ends if a client
//! closes with 1000 or 1001, or if a test says so. Without the intent `MESSAGE_CONTENT` messages come without their text,
//! unless they are direct, mention the bot or reply to it. `GET /gateway/bot` is at [`DiscordGateway::api_base`].
//!
//! Payloads and close codes are those of <https://discord.com/developers/docs/events/gateway>.
//!
//! # Layout
//!
//! - `connection.rs`: the protocol of one connection
//! - `session.rs`: sessions and their events
//! - `messages.rs`: guilds, channels, messages

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::{Notify, broadcast};
use tokio::task::JoinHandle;

use crate::server::Server;

mod connection;
mod messages;
mod session;

use connection::serve;
pub use messages::{Messages, Post};
use session::Session;

/// The token of the only bot, and its id, which is also its application's.
pub use crate::discord_api::{APPLICATION_ID as BOT_ID, BOT_TOKEN as TOKEN};

/// The intent `MESSAGE_CONTENT`.
pub const MESSAGE_CONTENT: u64 = 1 << 15;

/// A running emulator; it ends with this value.
pub struct DiscordGateway {
    shared: Arc<Shared>,
    server: Server,
    listening: JoinHandle<()>,
}

struct Shared {
    url: String,
    state: Mutex<World>,
    /// Told after every change.
    changed: Notify,
    commands: broadcast::Sender<Command>,
}

/// A command to all connections.
#[derive(Clone, Copy, Debug)]
pub enum Command {
    /// Drops the TCP connection without a close frame.
    Drop,
    /// Sends a close frame.
    Close(u16),
    /// Sends RECONNECT (opcode 7).
    Reconnect,
    /// Sends `INVALID_SESSION`.
    Invalid {
        /// True if the client may resume the session.
        resumable: bool,
    },
}

/// The gateway's state.
#[derive(Default)]
pub struct World {
    /// Guilds, channels and messages.
    pub messages: Messages,
    sessions: HashMap<String, Session>,
    /// Number of connections so far.
    accepted: usize,
    connections: usize,
    identifies: usize,
    resumes: usize,
    heartbeats: usize,
    client_closes: Vec<u16>,
    faults: Vec<String>,
    is_holding_back: bool,
    /// Leaves heartbeats unanswered, as a dead connection does.
    pub is_ignoring_heartbeats: bool,
    /// Refuses new connections.
    pub is_refusing_connections: bool,
    /// Number of IDENTIFYs that are left today.
    pub identifies_left: usize,
    /// Number of IDENTIFYs that are answered with `INVALID_SESSION`.
    pub invalid_identifies: usize,
}

impl DiscordGateway {
    /// Starts the gateway at the time `now`, in milliseconds since the epoch.
    pub async fn start(now: i64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}", listener.local_addr().unwrap());
        let mut world = World { identifies_left: 1_000, ..World::default() };
        world.messages.now = now;
        let (commands, _) = broadcast::channel(16);
        let shared = Arc::new(Shared { url, state: Mutex::new(world), changed: Notify::new(), commands });
        let router = Router::new().route("/gateway/bot", get(gateway_bot)).with_state(Arc::clone(&shared));
        let server = Server::start(0, router).await;
        let accepting = Arc::clone(&shared);
        let listening = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                if !accepting.world().is_refusing_connections {
                    tokio::spawn(serve(Arc::clone(&accepting), stream));
                }
            }
        });
        Self { shared, server, listening }
    }

    /// Returns the address at which `/gateway/bot` is answered.
    pub fn api_base(&self) -> &str {
        &self.server.url
    }

    /// Returns the address of the gateway itself.
    pub fn url(&self) -> &str {
        &self.shared.url
    }

    /// Closes all connections with `code`.
    pub fn close(&self, code: u16) {
        self.command(Command::Close(code));
    }

    /// Tells all clients that their session is invalid (opcode 9). If it is not `resumable`, it ends.
    pub fn send_invalid_session(&self, resumable: bool) {
        if !resumable {
            self.shared.world().sessions.clear();
        }
        self.command(Command::Invalid { resumable });
    }

    /// Ends all sessions, which their clients learn at their next RESUME, and drops their connections.
    pub fn forget_sessions(&self) {
        self.shared.world().sessions.clear();
        self.command(Command::Drop);
    }

    /// Keeps events back, or lets them go. They are in their sessions either way.
    pub fn hold_back(&self, is_holding_back: bool) {
        self.change(|world| world.is_holding_back = is_holding_back);
    }

    /// Returns the number of IDENTIFYs.
    pub fn identifies(&self) -> usize {
        self.shared.world().identifies
    }

    /// Returns the number of RESUMEs.
    pub fn resumes(&self) -> usize {
        self.shared.world().resumes
    }

    /// Returns the number of heartbeats.
    pub fn heartbeats(&self) -> usize {
        self.shared.world().heartbeats
    }

    /// Returns the number of open connections.
    pub fn connections(&self) -> usize {
        self.shared.world().connections
    }

    /// Returns the codes with which clients closed connections by themselves.
    pub fn client_closes(&self) -> Vec<u16> {
        self.shared.world().client_closes.clone()
    }

    /// Returns what clients did against the protocol.
    pub fn faults(&self) -> Vec<String> {
        self.shared.world().faults.clone()
    }

    /// Sends `command` to all connections.
    pub fn command(&self, command: Command) {
        // Nobody may be connected.
        drop(self.shared.commands.send(command));
    }

    /// Changes what it holds and does.
    pub fn change(&self, change: impl FnOnce(&mut World)) {
        change(&mut self.shared.world());
        self.shared.changed.notify_waiters();
    }
}

impl Drop for DiscordGateway {
    fn drop(&mut self) {
        self.listening.abort();
        self.command(Command::Drop);
    }
}

impl Shared {
    fn world(&self) -> MutexGuard<'_, World> {
        self.state.lock().unwrap()
    }
}

async fn gateway_bot(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    if !headers.contains_key("user-agent") {
        let body = json!({"message": "internal network error", "code": 40333});
        return (StatusCode::FORBIDDEN, Json(body)).into_response();
    }
    let authorization = headers.get("authorization").and_then(|value| value.to_str().ok());
    if authorization != Some(&format!("Bot {TOKEN}")) {
        let body = json!({"message": "401: Unauthorized", "code": 0});
        return (StatusCode::UNAUTHORIZED, Json(body)).into_response();
    }
    let remaining = shared.world().identifies_left;
    let limit =
        json!({"total": 1000, "remaining": remaining, "reset_after": 86_400_000, "max_concurrency": 1});
    Json(json!({"url": shared.url, "shards": 1, "session_start_limit": limit})).into_response()
}
