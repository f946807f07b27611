//! The protocol of one connection: [`serve`].

use std::sync::Arc;
use std::time::Duration;

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_websockets::{CloseCode, Message, ServerBuilder, WebSocketStream};

use super::{Command, MESSAGE_CONTENT, Shared, TOKEN, World};

/// The intents that exist.
const KNOWN_INTENTS: u64 = ((1 << 17) - 1) | (1 << 20) | (1 << 21) | (1 << 24) | (1 << 25);
/// Time between two heartbeats.
const HEARTBEAT_MILLIS: u64 = 400;
/// Time without a heartbeat after which a connection is dead. Longer than Discord's, since machines that test are slow.
const PATIENCE: Duration = Duration::from_secs(8);

struct Connection {
    shared: Arc<Shared>,
    number: usize,
    /// The session, and the sequence number up to which it was sent.
    session: Option<(String, usize)>,
    stream: WebSocketStream<TcpStream>,
}

/// The end of a connection.
enum End {
    /// The TCP connection is dropped.
    Drop,
    /// A close frame is sent first.
    Close(u16),
}

/// Serves the client at `stream` until one of the two leaves.
pub(super) async fn serve(shared: Arc<Shared>, stream: TcpStream) {
    let Ok((_, stream)) = ServerBuilder::new().accept(stream).await else { return };
    let number = {
        let mut world = shared.world();
        world.connections += 1;
        world.accepted += 1;
        world.accepted
    };
    let mut connection = Connection { shared: Arc::clone(&shared), number, session: None, stream };
    if let Some(End::Close(code)) = connection.talk().await {
        let code = CloseCode::try_from(code).unwrap();
        if connection.stream.send(Message::close(Some(code), "")).await.is_ok() {
            // Until the client has read it: data that it did not read would reset the connection.
            drop(
                timeout(Duration::from_secs(1), async {
                    while let Some(Ok(_)) = connection.stream.next().await {}
                })
                .await,
            );
        }
    }
    shared.world().connections -= 1;
    shared.changed.notify_waiters();
}

impl Connection {
    /// Returns how this end leaves; `None` if the client left.
    async fn talk(&mut self) -> Option<End> {
        let mut commands = self.shared.commands.subscribe();
        let shared = Arc::clone(&self.shared);
        let hello = json!({"heartbeat_interval": HEARTBEAT_MILLIS, "_trace": []});
        self.send(&json!({"t": null, "s": null, "op": 10, "d": hello})).await?;
        let mut dead_at = Instant::now() + PATIENCE;
        loop {
            let changed = shared.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(end) = self.send_events().await? {
                return Some(end);
            }
            tokio::select! {
                () = changed => {}
                () = sleep_until(dead_at) => {
                    shared.world().faults.push("no heartbeat in time".into());
                    return Some(End::Close(4009));
                }
                command = commands.recv() => match command {
                    Ok(Command::Close(code)) => return Some(End::Close(code)),
                    Ok(Command::Reconnect) => self.send(&json!({"t": null, "s": null, "op": 7, "d": null})).await?,
                    Ok(Command::Invalid { resumable }) => self.invalid_session(resumable).await?,
                    Ok(Command::Drop) | Err(_) => return Some(End::Drop),
                },
                frame = self.stream.next() => {
                    let frame = frame?.ok()?;
                    if let Some((code, _)) = frame.as_close() {
                        self.closed(code.into());
                        return None;
                    }
                    let Some(text) = frame.as_text() else { continue };
                    let frame: Value = serde_json::from_str(text).unwrap();
                    if frame["op"] == 1 {
                        dead_at = Instant::now() + PATIENCE;
                    }
                    if let Some(end) = self.answer(&frame).await? {
                        return Some(end);
                    }
                }
            }
        }
    }

    /// Sends the events of the session that were not sent yet. Outer `None`: the client left.
    async fn send_events(&mut self) -> Option<Option<End>> {
        loop {
            let event = {
                let world = self.shared.world();
                let Some((id, sent)) = &self.session else { return Some(None) };
                match world.sessions.get(id) {
                    // Another connection has resumed it.
                    Some(session) if session.connection != self.number => {
                        return Some(Some(End::Close(4000)));
                    }
                    Some(session) if !world.is_holding_back => session.after(*sent).cloned(),
                    _ => None,
                }
            };
            let Some(event) = event else { return Some(None) };
            self.stream.send(Message::text(event)).await.ok()?;
            if let Some((_, sent)) = &mut self.session {
                *sent += 1;
            }
        }
    }

    async fn answer(&mut self, frame: &Value) -> Option<Option<End>> {
        match frame["op"].as_u64() {
            Some(1) => {
                let is_ignored = {
                    let mut world = self.shared.world();
                    world.heartbeats += 1;
                    world.is_ignoring_heartbeats
                };
                if !is_ignored {
                    self.send(&json!({"t": null, "s": null, "op": 11})).await?;
                }
                Some(None)
            }
            Some(2) => self.identify(&frame["d"]).await,
            Some(6) => self.resume(&frame["d"]).await,
            other => {
                self.shared.world().faults.push(format!("unexpected opcode {other:?}"));
                Some(Some(End::Close(4001)))
            }
        }
    }

    async fn identify(&mut self, data: &Value) -> Option<Option<End>> {
        let intents = data["intents"].as_u64().unwrap_or(u64::MAX);
        let shared = Arc::clone(&self.shared);
        let is_refused = {
            let mut world = shared.world();
            if self.session.is_some() {
                world.faults.push("IDENTIFY in a session".into());
                return Some(Some(End::Close(4005)));
            }
            world.identifies += 1;
            world.identifies_left = world.identifies_left.saturating_sub(1);
            if data["token"] != format!("Bot {TOKEN}") && data["token"] != TOKEN {
                return Some(Some(End::Close(4004)));
            }
            if intents & !KNOWN_INTENTS != 0 {
                return Some(Some(End::Close(4013)));
            }
            if intents & MESSAGE_CONTENT != 0 && !world.messages.may_read_content {
                return Some(Some(End::Close(4014)));
            }
            let is_refused = world.invalid_identifies > 0;
            world.invalid_identifies = world.invalid_identifies.saturating_sub(1);
            if !is_refused {
                self.session = Some((world.begin(intents, self.number, &shared.url), 0));
            }
            is_refused
        };
        shared.changed.notify_waiters();
        if is_refused {
            self.invalid_session(false).await?;
        }
        Some(None)
    }

    async fn resume(&mut self, data: &Value) -> Option<Option<End>> {
        let (id, seq) = (data["session_id"].as_str().unwrap().to_owned(), data["seq"].as_u64().unwrap());
        let shared = Arc::clone(&self.shared);
        let is_resumed = {
            let mut world = shared.world();
            world.resumes += 1;
            if data["token"] != format!("Bot {TOKEN}") && data["token"] != TOKEN {
                return Some(Some(End::Close(4004)));
            }
            self.take_over(&mut world, id, usize::try_from(seq).unwrap())
        };
        shared.changed.notify_waiters();
        if !is_resumed {
            self.invalid_session(false).await?;
        }
        Some(None)
    }

    /// Takes a session over. RESUMED comes after the events that are replayed.
    fn take_over(&mut self, world: &mut World, id: String, seq: usize) -> bool {
        let Some(session) = world.sessions.get_mut(&id).filter(|session| seq <= session.seq()) else {
            return false;
        };
        session.connection = self.number;
        world.dispatch_to(&id, "RESUMED", &json!({"_trace": []}));
        self.session = Some((id, seq));
        true
    }

    async fn invalid_session(&mut self, resumable: bool) -> Option<()> {
        self.session = None;
        self.send(&json!({"t": null, "s": null, "op": 9, "d": resumable})).await
    }

    /// Notes the code of a client's close frame. 1000 and 1001 end the session.
    fn closed(&self, code: u16) {
        let mut world = self.shared.world();
        world.client_closes.push(code);
        if let (1000 | 1001, Some((id, _))) = (code, &self.session) {
            world.sessions.remove(id);
        }
    }

    /// Sends a frame; `None` if the client left.
    async fn send(&mut self, frame: &Value) -> Option<()> {
        self.stream.send(Message::text(frame.to_string())).await.ok()
    }
}
