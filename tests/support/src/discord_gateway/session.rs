//! Sessions and their events: [`Session`].

use serde_json::{Value, json};

use super::messages::{is_for_the_bot, without_text};
use super::{BOT_ID, DiscordGateway, MESSAGE_CONTENT, World};

/// A session, which lives on while nobody is connected.
pub(super) struct Session {
    /// Events, the first with sequence number 1.
    events: Vec<String>,
    intents: u64,
    /// Number of the connection that has it.
    pub(super) connection: usize,
}

impl Session {
    fn add(&mut self, kind: &str, data: &Value) {
        let seq = self.seq() + 1;
        let data =
            if kind.starts_with("MESSAGE_") && self.intents & MESSAGE_CONTENT == 0 && !is_for_the_bot(data) {
                &without_text(data)
            } else {
                data
            };
        // In the order in which Discord writes them.
        self.events.push(format!(r#"{{"t":{},"s":{seq},"op":0,"d":{data}}}"#, json!(kind)));
    }

    /// Returns the sequence number of the last event.
    pub(super) fn seq(&self) -> usize {
        self.events.len()
    }

    /// Returns the event after the sequence number `seq`.
    pub(super) fn after(&self, seq: usize) -> Option<&String> {
        self.events.get(seq)
    }
}

impl World {
    /// Begins a session with `READY` and a `GUILD_CREATE` for each guild. Returns its id.
    pub(super) fn begin(&mut self, intents: u64, connection: usize, url: &str) -> String {
        let id = format!("session-{}", self.identifies);
        let mut session = Session { events: Vec::new(), intents, connection };
        let guilds: Vec<Value> =
            self.messages.guild_ids().map(|id| json!({"id": id, "unavailable": true})).collect();
        let user = json!({"id": BOT_ID, "username": "annals", "discriminator": "0", "bot": true});
        let ready = json!({
            "v": 10, "user": user, "guilds": guilds, "session_id": id, "resume_gateway_url": url,
            "shard": [0, 1], "application": {"id": BOT_ID, "flags": 0},
        });
        session.add("READY", &ready);
        for guild in self.messages.guild_creates() {
            session.add("GUILD_CREATE", &guild);
        }
        self.sessions.insert(id.clone(), session);
        id
    }

    /// Adds an event to every session.
    pub(super) fn dispatch(&mut self, kind: &str, data: &Value) {
        for session in self.sessions.values_mut() {
            session.add(kind, data);
        }
    }

    /// Adds an event to one session.
    pub(super) fn dispatch_to(&mut self, session: &str, kind: &str, data: &Value) {
        if let Some(session) = self.sessions.get_mut(session) {
            session.add(kind, data);
        }
    }
}

impl DiscordGateway {
    /// Sends an event to every session.
    pub fn dispatch(&self, kind: &str, data: &Value) {
        self.change(|world| world.dispatch(kind, data));
    }
}
