//! The emulator's state, and its answers to calls.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use axum::http::header;
use serde_json::{Map, Value, json};

use super::{application, public_key};
use crate::emulator::{Answer, Base, Emulated, Request, picture, whole_secs};

/// The only application, which is also its bot's user id.
pub const APPLICATION_ID: &str = "1457469483726668048";
/// The bot's token, whose first part is that id in Base64.
pub const BOT_TOKEN: &str = "MTQ1NzQ2OTQ4MzcyNjY2ODA0OA.GtEsTx.0123456789";

/// Longest content of a message, in code points.
const MAX_CONTENT: usize = 2000;
/// Number of follow-ups of an interaction of an app that is installed for the user alone.
const MAX_FOLLOW_UPS: usize = 5;
/// Flags: previews of links suppressed; seen by one person alone.
const SUPPRESS_EMBEDS: u64 = 1 << 2;
const EPHEMERAL: u64 = 1 << 6;

/// A message as people see it.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::struct_excessive_bools, reason = "what a message has, each by itself")]
pub struct Sent {
    /// The channel.
    pub channel_id: String,
    /// The token of the interaction that it answers; `None` for a message of the bot's own.
    pub token: Option<String>,
    /// True for the first answer to an interaction, which is edited.
    pub is_original: bool,
    /// The text.
    pub content: String,
    /// The file that belongs to it.
    pub file: Option<String>,
    /// `components`
    pub components: Value,
    /// The message that it refers to.
    pub refers_to: Option<String>,
    /// True if one person alone sees it.
    pub is_ephemeral: bool,
    /// True if it notifies people whom its text mentions.
    pub notifies: bool,
    /// True if its links have no previews.
    pub has_no_previews: bool,
    nonce: Option<String>,
    /// Its id.
    pub id: String,
}

fn ok(body: &Value) -> Answer {
    Answer::json(200, body)
}

fn nothing() -> Answer {
    Answer::new(204, "text/plain", "")
}

pub(super) fn error(status: u16, code: i64, message: &str) -> Answer {
    Answer::json(status, &json!({"code": code, "message": message}))
}

/// An interaction that was responded to.
pub struct Interaction {
    channel_id: String,
    is_of_user_alone: bool,
    is_ephemeral: bool,
    follow_ups: usize,
    is_original_deleted: bool,
}

/// The emulator's state.
#[derive(Default)]
pub struct Store {
    pub(super) base: Base,
    /// Address of the gateway.
    pub(super) gateway: String,
    sent: Vec<Sent>,
    pub(super) commands: Vec<Value>,
    settings: Map<String, Value>,
    /// The application's flags, such as `1 << 19`: the privileged intent for the content of messages is on.
    pub flags: u64,
    /// By token: those that can be answered. Others are refused with 10015.
    pub interactions: HashMap<String, Interaction>,
    pub(super) expelled: HashSet<String>,
    /// Channels whose history the bot may not read, so that it cannot reply to a message: 160002.
    pub without_history: HashSet<String>,
    /// True if the bot's token is no longer accepted: 401.
    pub refuses_token: bool,
    pub(super) channels: HashMap<String, Value>,
    pub(super) listed: HashMap<String, Vec<Value>>,
    pub(super) administrators: (String, String),
}

impl Store {
    pub(super) fn application(&self) -> Value {
        let own = json!({"id": APPLICATION_ID, "name": "Annals", "verify_key": public_key(), "flags": self.flags,
            "interactions_endpoint_url": null});
        let mut own = own.as_object().cloned().unwrap_or_default();
        own.extend(self.settings.clone());
        Value::Object(own)
    }

    pub(super) fn responded(&mut self, call: &Value, response: &Value) {
        let owners = &call["authorizing_integration_owners"];
        let token = call["token"].as_str().unwrap().to_owned();
        let interaction = Interaction {
            channel_id: call["channel_id"].as_str().unwrap_or_default().to_owned(),
            is_of_user_alone: owners.get("1").is_some() && owners.get("0").is_none(),
            is_ephemeral: response["data"]["flags"].as_u64().unwrap_or(0) & EPHEMERAL != 0,
            follow_ups: 0,
            is_original_deleted: false,
        };
        // A replay changes nothing.
        self.interactions.entry(token).or_insert(interaction);
    }

    /// Deletes the first answer to the interaction with this token, as somebody who sees it does: 10008.
    pub fn delete_original(&mut self, token: &str) {
        self.interactions.get_mut(token).unwrap().is_original_deleted = true;
    }
}

impl Emulated for Store {
    type Sent = Sent;
    const PATH: &'static str = "/api/v10";
    const MESSAGES: &'static [&'static str] =
        &["POST /channels/*/messages", "POST /webhooks/*/*", "PATCH /webhooks/*/*/messages/@original"];

    fn base(&mut self) -> &mut Base {
        &mut self.base
    }

    fn sent(&self) -> &[Sent] {
        &self.sent
    }

    fn name(request: &Request) -> String {
        format!("{} {}", request.method, shown(&segments_of(request)))
    }

    fn answer(&mut self, _name: &str, request: &Request) -> Answer {
        let segments = segments_of(request);
        let needs_token =
            !matches!(segments[..], ["webhooks" | "interactions", ..] | ["attachments", _, _, _]);
        let is_known =
            request.header(header::AUTHORIZATION) == format!("Bot {BOT_TOKEN}") && !self.refuses_token;
        if needs_token && !is_known {
            return error(401, 0, "401: Unauthorized");
        }
        let (body, file) = read_body(request.header(header::CONTENT_TYPE), &request.body);
        match (request.method.as_str(), &segments[..]) {
            ("GET", ["gateway", "bot"]) => {
                let limit = json!({"total": 1000, "remaining": 1000, "reset_after": 0, "max_concurrency": 1});
                ok(&json!({"url": self.gateway, "shards": 1, "session_start_limit": limit}))
            }
            ("GET", ["applications", "@me"]) => ok(&self.application()),
            ("PATCH", ["applications", "@me"]) => {
                self.settings.extend(body.as_object().cloned().unwrap_or_default());
                ok(&self.application())
            }
            ("PUT", ["applications", APPLICATION_ID, "commands"]) => self.put_commands(body),
            ("GET", ["applications", APPLICATION_ID, "commands"]) => ok(&json!(self.commands)),
            ("PATCH", ["webhooks", APPLICATION_ID, token, "messages", "@original"]) => {
                self.edit_original(token, &body, file)
            }
            ("POST", ["interactions", _, token, "callback"]) => self.respond(token, &body),
            ("POST", ["webhooks", APPLICATION_ID, token]) => self.follow_up(token, &body, file),
            ("POST", ["channels", channel, "messages"]) => self.create(channel, &body, file),
            ("GET", ["channels", channel, "messages"]) => {
                self.list(channel, request.uri.query().unwrap_or_default())
            }
            ("POST", ["channels", _, "typing"]) => nothing(),
            ("GET", ["channels", channel]) => ok(&self.channel(channel)),
            ("GET", ["guilds", guild]) => self.guild(guild),
            ("GET", ["guilds", _, "members", user]) => {
                let roles = if *user == self.administrators.1 { json!(["900"]) } else { json!([]) };
                ok(&json!({"user": {"id": user}, "roles": roles}))
            }
            ("POST", ["attachments", "refresh-urls"]) => self.refresh(&body),
            ("GET", ["attachments", _, _, name]) => Answer::new(200, "image/png", picture(name)),
            _ => error(404, 0, "404: Not Found"),
        }
    }

    fn too_many(wait: Duration) -> Answer {
        let told = json!({"message": "You are being rate limited.", "retry_after": wait.as_secs_f64(), "global": false});
        let header = Some((header::RETRY_AFTER, whole_secs(wait).to_string()));
        Answer { header, ..Answer::json(429, &told) }
    }

    async fn intercept(request: &Request) -> Option<Answer> {
        // Cloudflare is in front of the API.
        let is_file = request.uri.path().starts_with("/attachments/");
        if !is_file && !request.header(header::USER_AGENT).starts_with("DiscordBot (") {
            return Some(error(403, 40_333, "internal network error"));
        }
        // Discord checks a new address before it keeps it.
        let endpoint = application::endpoint_of(request)?;
        if application::is_valid(&endpoint).await { None } else { Some(application::invalid_endpoint()) }
    }
}

impl Store {
    fn put_commands(&mut self, body: Value) -> Answer {
        let Value::Array(commands) = body else { return error(400, 50_035, "Invalid Form Body") };
        if let Some(why) = commands.iter().find_map(application::invalid_command) {
            return error(400, 50_035, why);
        }
        self.commands = commands;
        ok(&json!(self.commands))
    }

    /// Takes the response to an interaction that a call in the other direction brings.
    fn respond(&mut self, token: &str, body: &Value) -> Answer {
        if self.interactions.contains_key(token) {
            return error(400, 40_060, "Interaction has already been acknowledged.");
        }
        self.responded(&json!({"token": token}), body);
        nothing()
    }

    fn edit_original(&mut self, token: &str, body: &Value, file: Option<String>) -> Answer {
        let Some(interaction) = self.interactions.get(token) else { return unknown_webhook() };
        if interaction.is_original_deleted {
            return error(404, 10_008, "Unknown Message");
        }
        let known =
            self.sent.iter().position(|sent| sent.is_original && sent.token.as_deref() == Some(token));
        let message = match self.message(&interaction.channel_id, body, file) {
            Ok(message) => message,
            Err(refused) => return refused,
        };
        let is_ephemeral = interaction.is_ephemeral;
        let message = Sent { token: Some(token.to_owned()), is_original: true, is_ephemeral, ..message };
        let answer = ok(&json!({"id": message.id, "content": message.content}));
        match known {
            Some(at) => self.sent[at] = message,
            None => self.sent.push(message),
        }
        answer
    }

    fn follow_up(&mut self, token: &str, body: &Value, file: Option<String>) -> Answer {
        let Some(interaction) = self.interactions.get_mut(token) else { return unknown_webhook() };
        if interaction.is_of_user_alone && interaction.follow_ups >= MAX_FOLLOW_UPS {
            return error(400, 40_094, "This interaction has reached the maximum number of follow-ups");
        }
        let channel_id = interaction.channel_id.clone();
        match self.message(&channel_id, body, file) {
            Ok(message) => {
                self.interactions.get_mut(token).unwrap().follow_ups += 1;
                self.keep(Sent { token: Some(token.to_owned()), ..message })
            }
            Err(refused) => refused,
        }
    }

    fn create(&mut self, channel_id: &str, body: &Value, file: Option<String>) -> Answer {
        if self.expelled.contains(channel_id) {
            return error(403, 50_001, "Missing Access");
        }
        if self.without_history.contains(channel_id) && body.get("message_reference").is_some() {
            return error(403, 160_002, "Cannot reply without permission to read message history");
        }
        let nonce = body["nonce"].as_str().map(str::to_owned);
        if nonce.as_ref().is_some_and(|nonce| nonce.len() > 25) {
            return error(400, 50_035, "Invalid Form Body: nonce");
        }
        let is_known = |sent: &&Sent| nonce.is_some() && sent.nonce == nonce && sent.channel_id == channel_id;
        if body["enforce_nonce"] == true
            && let Some(known) = self.sent.iter().find(is_known)
        {
            return ok(&json!({"id": known.id, "content": known.content}));
        }
        match self.message(channel_id, body, file) {
            Ok(message) => self.keep(Sent { nonce, ..message }),
            Err(refused) => refused,
        }
    }

    fn keep(&mut self, message: Sent) -> Answer {
        let answer = ok(&json!({"id": message.id, "content": message.content}));
        self.sent.push(message);
        answer
    }

    /// Returns the message of a request, if Discord takes it.
    fn message(&self, channel_id: &str, body: &Value, file: Option<String>) -> Result<Sent, Answer> {
        let content = body["content"].as_str().unwrap_or_default().to_owned();
        if content.chars().count() > MAX_CONTENT {
            return Err(error(400, 50_035, "Invalid Form Body: Must be 2000 or fewer in length."));
        }
        if content.trim().is_empty() && file.is_none() && body["embeds"].is_null() {
            return Err(error(400, 50_006, "Cannot send an empty message"));
        }
        let rows = body["components"].as_array().cloned().unwrap_or_default();
        if rows.len() > 5
            || rows.iter().any(|row| row["components"].as_array().is_none_or(|all| all.len() > 5))
        {
            return Err(error(400, 50_035, "Invalid Form Body: components"));
        }
        let flags = body["flags"].as_u64().unwrap_or(0);
        let parse = &body["allowed_mentions"]["parse"];
        Ok(Sent {
            channel_id: channel_id.to_owned(),
            token: None,
            is_original: false,
            content,
            file,
            components: body["components"].clone(),
            refers_to: body["message_reference"]["message_id"].as_str().map(str::to_owned),
            is_ephemeral: flags & EPHEMERAL != 0,
            notifies: parse.as_array().is_none_or(|parse| !parse.is_empty()),
            has_no_previews: flags & SUPPRESS_EMBEDS != 0,
            nonce: None,
            id: (1_600_000_000_000_000_000_u64 + self.sent.len() as u64).to_string(),
        })
    }

    fn channel(&self, id: &str) -> Value {
        let own = || json!({"id": id, "type": 0, "guild_id": "290926798626357999", "name": "garden"});
        self.channels.get(id).cloned().unwrap_or_else(own)
    }

    fn guild(&self, id: &str) -> Answer {
        let roles = json!([{"id": id, "permissions": "0"}, {"id": "900", "permissions": "8"}]);
        ok(&json!({"id": id, "owner_id": self.administrators.0, "roles": roles}))
    }

    /// Lists the messages after `after`, the newest first.
    fn list(&self, channel: &str, query: &str) -> Answer {
        let value = |name: &str| {
            query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')?.parse::<u64>().ok())
        };
        let (after, limit) = (value("after").unwrap_or(0), value("limit").unwrap_or(50));
        let id = |message: &Value| message["id"].as_str().and_then(|id| id.parse::<u64>().ok()).unwrap_or(0);
        let mut messages = self.listed.get(channel).cloned().unwrap_or_default();
        messages.retain(|message| id(message) > after);
        messages.sort_by_key(id);
        messages.truncate(usize::try_from(limit.min(100)).unwrap());
        messages.reverse();
        ok(&json!(messages))
    }

    fn refresh(&self, body: &Value) -> Answer {
        let url = body["attachment_urls"][0].as_str().unwrap_or_default();
        let path =
            url.split_once("://").and_then(|(_, rest)| rest.split_once('/')).map_or("", |(_, path)| path);
        let refreshed = format!("{}/{path}?ex=68c0ffee", self.base.url);
        ok(&json!({"refreshed_urls": [{"original": url, "refreshed": refreshed}]}))
    }
}

fn unknown_webhook() -> Answer {
    error(404, 10_015, "Unknown Webhook")
}

fn segments_of(request: &Request) -> Vec<&str> {
    let path = request.uri.path();
    path.strip_prefix(Store::PATH).unwrap_or(path).trim_matches('/').split('/').collect()
}

/// Returns a path with `*` for ids and tokens.
fn shown(segments: &[&str]) -> String {
    const WORDS: &str = "interactions callback applications @me commands webhooks messages @original channels typing \
        guilds members attachments refresh-urls gateway bot";
    let shown = segments.iter().map(|segment| {
        let is_word = WORDS.split(' ').any(|word| word == *segment);
        if is_word { format!("/{segment}") } else { "/*".into() }
    });
    shown.collect()
}

/// Reads a body of JSON, or a form with JSON and a file.
fn read_body(kind: &str, body: &[u8]) -> (Value, Option<String>) {
    let Some(boundary) = kind.strip_prefix("multipart/form-data; boundary=") else {
        return (serde_json::from_slice(body).unwrap_or_default(), None);
    };
    let text = String::from_utf8(body.to_vec()).unwrap();
    let part = |name: &str| {
        let field = format!("name=\"{name}\"");
        let part = text.split(&format!("--{boundary}")).find(|part| part.contains(&field))?;
        Some(part.split_once("\r\n\r\n")?.1.trim_end_matches("\r\n").to_owned())
    };
    let json = part("payload_json").and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default();
    (json, part("files[0]"))
}
