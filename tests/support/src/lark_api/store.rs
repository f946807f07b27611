//! The emulator's state, and its answers to calls.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use axum::extract;
use axum::http::{HeaderName, header};
use serde_json::{Value, json};

use crate::emulator::{Answer, Base, Emulated, Request, picture, whole_secs};
use crate::server::take;

/// The only app.
pub const APP_ID: &str = "cli_test0123456789";

/// Its secret.
pub const APP_SECRET: &str = "testSecretOfTheTestApp0123456789";

/// The bot's `open_id`.
pub const BOT_OPEN_ID: &str = "ou_bot0000000000000000000000000000";

/// The app's name.
pub const BOT_NAME: &str = "Annals";

/// A message that the API took.
#[derive(Clone, Debug, PartialEq)]
pub struct Sent {
    /// The chat: the one named, or that of the message that is answered (empty where nobody knows it).
    pub chat_id: String,
    /// The message that it answers.
    pub reply_to: Option<String>,
    /// `reply_in_thread`, where the call has it.
    pub in_thread: Option<bool>,
    /// `text`, `interactive`, …
    pub msg_type: String,
    /// `content`, read.
    pub content: Value,
    /// Its `uuid`.
    pub uuid: String,
    /// Its own id, unique here: `om_sent_0`, `om_sent_1`, …
    pub message_id: String,
    /// The place of its call in `LarkApi::calls`.
    pub at_seq: usize,
}

impl Sent {
    /// Returns the values of the card's buttons, in order.
    pub fn button_values(&self) -> Vec<Value> {
        let elements = self.content["body"]["elements"].as_array();
        let buttons = elements.into_iter().flatten().filter(|element| element["tag"] == "button");
        buttons.map(|button| button["behaviors"][0]["value"].clone()).collect()
    }

    /// The text, or the Markdown of the card.
    pub fn text(&self) -> String {
        let markdown = &self.content["body"]["elements"][0]["content"];
        self.content["text"].as_str().or(markdown.as_str()).unwrap_or_default().to_owned()
    }
}

/// A reaction of the bot's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reaction {
    /// Its own id, unique here.
    pub id: String,
    /// The message.
    pub message_id: String,
    /// `emoji_type`
    pub emoji: String,
}

const TOKEN_LIFE: Duration = Duration::from_hours(2);
/// A token with less than this left is replaced by another, beside it.
const TOKEN_RENEWAL: Duration = Duration::from_mins(30);
const UUID_LIFE: Duration = Duration::from_hours(1);
const MAX_TABLES: usize = 3;
/// The header with the seconds until a rate limit ends.
const RESET: HeaderName = HeaderName::from_static("x-ogw-ratelimit-reset");

/// A fault of a chat.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// The bot is not in this group: 230002.
    Expelled,
    /// The user of this chat has stopped the bot: 230053, but answers are taken.
    Stopped,
    /// The user of this chat is not among those that the bot may write to: 230013.
    Hidden,
    /// This chat is no more: 232009.
    Dissolved,
    /// There is no such chat: 230034.
    Unknown,
    /// This group has no threads: 230071.
    Threadless,
}

/// The emulator's state.
#[derive(Default)]
pub struct Store {
    pub(super) base: Base,
    pub(super) now: Duration,
    sent: Vec<Sent>,
    /// In the order of their creation; what was sent is among them.
    pub(super) messages: Vec<Value>,
    /// The tokens that are taken, and when they were given.
    pub tokens: Vec<(String, Duration)>,
    given: usize,
    pub(super) refuse_tokens: bool,
    /// Of each `uuid`: when it was first taken, and as what.
    uuids: HashMap<String, (Duration, Value)>,
    pub(super) troubles: HashMap<String, Trouble>,
    pub(super) recalled: HashSet<String>,
    /// Messages that do not exist: 99992354.
    pub unknown: HashSet<String>,
    /// Messages of this type are refused with 230099.
    pub refused_type: Option<&'static str>,
    pub(super) refuse: (usize, i64),
    /// A stricter limit of a message's request than Lark's 30 KB for cards and 150 KB for texts.
    pub max_bytes: Option<usize>,
    /// Keys of resources that are gone: 234003.
    pub gone: HashSet<String>,
    pub(super) reactions: Vec<Reaction>,
    /// True if the app has no permission for reactions: 99991672.
    pub forbids_reactions: bool,
    /// Number of reactions so far.
    reacted: usize,
    /// Of each group: the owner, then the managers.
    pub(super) managers: HashMap<String, Vec<String>>,
    /// Names of groups.
    pub names: HashMap<String, String>,
}

/// A refusal: the status, the code, the words.
struct Refusal(u16, i64, String);

fn refuse<T>(code: i64, msg: &str) -> Result<T, Refusal> {
    Err(Refusal(400, code, msg.to_owned()))
}

impl From<Refusal> for Answer {
    fn from(Refusal(status, code, msg): Refusal) -> Self {
        let log = json!({"log_id": "202409131613579778D691D6E05516DE2D"});
        Self::json(status, &json!({"code": code, "msg": msg, "error": log}))
    }
}

/// The query of a call, read.
type Query = HashMap<String, String>;

impl Emulated for Store {
    type Sent = Sent;
    const MESSAGES: &'static [&'static str] = &["send", "reply"];

    fn base(&mut self) -> &mut Base {
        &mut self.base
    }

    fn sent(&self) -> &[Sent] {
        &self.sent
    }

    /// Returns `token`, `bot`, `chat`, `get`, `resource`, `list`, `send`, `reply`, `react`, `unreact`, or else the path.
    fn name(request: &Request) -> String {
        let path = request.uri.path();
        let name = match (request.method.as_str(), parts_of(path).as_slice()) {
            ("POST", ["open-apis", "auth", "v3", "tenant_access_token", "internal"]) => "token",
            ("GET", ["open-apis", "bot", "v3", "info"]) => "bot",
            ("GET", ["open-apis", "im", "v1", "chats", _]) => "chat",
            ("GET", ["open-apis", "im", "v1", "messages"]) => "list",
            ("GET", ["open-apis", "im", "v1", "messages", _]) => "get",
            ("GET", ["open-apis", "im", "v1", "messages", _, "resources", _]) => "resource",
            ("POST", ["open-apis", "im", "v1", "messages"]) => "send",
            ("POST", ["open-apis", "im", "v1", "messages", _, "reply"]) => "reply",
            ("POST", ["open-apis", "im", "v1", "messages", _, "reactions"]) => "react",
            ("DELETE", ["open-apis", "im", "v1", "messages", _, "reactions", _]) => "unreact",
            _ => path,
        };
        name.to_owned()
    }

    fn answer(&mut self, name: &str, request: &Request) -> Answer {
        self.call(name, request).unwrap_or_else(Answer::from)
    }

    fn too_many(wait: Duration) -> Answer {
        let refused = Refusal(429, 99_991_400, "request trigger frequency limit".into());
        Answer { header: Some((RESET, whole_secs(wait).to_string())), ..refused.into() }
    }

    fn is_limited(name: &str) -> bool {
        name != "token"
    }

    fn can_fail(_name: &str) -> bool {
        true
    }
}

impl Store {
    fn call(&mut self, name: &str, request: &Request) -> Result<Answer, Refusal> {
        let parts = parts_of(request.uri.path());
        let id = parts.get(4).copied().unwrap_or_default();
        let query =
            extract::Query::<Query>::try_from_uri(&request.uri).map(|query| query.0).unwrap_or_default();
        let bearer = request.header(header::AUTHORIZATION);
        let is_let_in = name == "token" || self.is_let_in(bearer);
        let body = match name {
            _ if !is_let_in && bearer.is_empty() => {
                refuse(99_991_661, "Missing access token for authorization.")
            }
            _ if !is_let_in => refuse(99_991_663, "Invalid access token for authorization."),
            "token" => self.token(&request.json()),
            "bot" => Ok(json!({"code": 0, "msg": "ok", "bot": {
                "activate_status": 2, "app_name": BOT_NAME, "avatar_url": "", "ip_white_list": [], "open_id": BOT_OPEN_ID
            }})),
            "chat" => self.chat(id, &query).map(|data| success(&data)),
            "get" => self.get(id, &query).map(|data| success(&data)),
            "resource" => return Ok(Answer::new(200, "image/png", self.resource(id, parts[6], &query)?)),
            "list" => self.list(&query).map(|data| success(&data)),
            "react" => self.react(id, &request.json()),
            "unreact" => self.unreact(id, parts[6]),
            "send" | "reply" => self.take(name, id, &query, request).map(|data| success(&data)),
            _ => Err(Refusal(404, 99_991_201, "resource not find".into())),
        };
        Ok(Answer::json(200, &body?))
    }

    /// A group with its owner and managers, by the ids that are asked for.
    fn chat(&self, chat_id: &str, query: &Query) -> Result<Value, Refusal> {
        if self.troubles.get(chat_id) == Some(&Trouble::Unknown) {
            return refuse(232_006, "Your request specifies a chat_id which is invalid.");
        }
        if query.get("user_id_type").map(String::as_str) != Some("open_id") {
            return refuse(99_992_402, "field validation failed");
        }
        let managers = self.managers.get(chat_id).cloned().unwrap_or_default();
        let owner = managers.first();
        Ok(json!({"name": self.names.get(chat_id), "owner_id_type": "open_id", "owner_id": owner,
            "user_manager_id_list": managers.get(1..).unwrap_or_default()}))
    }

    fn is_let_in(&self, bearer: &str) -> bool {
        let is_alive = |given: &Duration| self.now < *given + TOKEN_LIFE;
        !self.refuse_tokens
            && self.tokens.iter().any(|(token, given)| bearer == format!("Bearer {token}") && is_alive(given))
    }

    fn token(&mut self, body: &Value) -> Result<Value, Refusal> {
        if body["app_id"] != APP_ID {
            return refuse(10_003, "invalid param");
        }
        if body["app_secret"] != APP_SECRET {
            return refuse(10_014, "app secret invalid");
        }
        let left = |given: Duration| (given + TOKEN_LIFE).saturating_sub(self.now);
        let newest = self.tokens.last().cloned().filter(|(_, given)| left(*given) >= TOKEN_RENEWAL);
        let (token, given) = newest.unwrap_or_else(|| {
            self.given += 1;
            let token = (format!("t-testToken{:04}", self.given), self.now);
            self.tokens.push(token.clone());
            token
        });
        let expire = (given + TOKEN_LIFE).saturating_sub(self.now).as_secs();
        Ok(json!({"code": 0, "msg": "ok", "tenant_access_token": token, "expire": expire}))
    }

    fn get(&self, id: &str, query: &Query) -> Result<Value, Refusal> {
        self.is_there(id)?;
        let is_asked = |message: &&Value| message["message_id"] == id || message["upper_message_id"] == id;
        let items: Vec<Value> =
            self.messages.iter().filter(is_asked).map(|message| shown(message, query)).collect();
        let chat_id = items.first().and_then(|item| item["chat_id"].as_str()).unwrap_or_default();
        self.may_write(chat_id, true)?;
        Ok(json!({ "items": items }))
    }

    fn resource(&self, id: &str, key: &str, query: &Query) -> Result<Vec<u8>, Refusal> {
        self.is_there(id)?;
        let message = self.messages.iter().find(|message| message["message_id"] == id);
        let chat_id = message.and_then(|message| message["chat_id"].as_str()).unwrap_or_default();
        self.may_write(chat_id, true).map_err(|_| Refusal(400, 234_004, "App not in chat.".into()))?;
        let fits = match query.get("type").map(String::as_str) {
            Some("image") => key.starts_with("img_"),
            Some("file") => key.starts_with("file_"),
            _ => return refuse(234_001, "Invalid request param."),
        };
        if self.gone.contains(key) || !fits {
            return refuse(234_003, "File not in msg.");
        }
        Ok(picture(key))
    }

    fn list(&self, query: &Query) -> Result<Value, Refusal> {
        let field = match query.get("container_id_type").map(String::as_str) {
            Some("chat") => "chat_id",
            Some("thread") if query.contains_key("end_time") => {
                return refuse(230_001, "Your request contains an invalid request parameter, ext=end_time.");
            }
            Some("thread") => "thread_id",
            _ => return refuse(99_992_402, "field validation failed"),
        };
        let id = query.get("container_id").map(String::as_str).unwrap_or_default();
        self.may_write(id, true)?;
        let size: usize = query.get("page_size").and_then(|size| size.parse().ok()).unwrap_or(20);
        if !(1..=50).contains(&size) {
            return refuse(99_992_402, "field validation failed");
        }
        let millis = |message: &Value| message["create_time"].as_str().and_then(|t| t.parse::<u64>().ok());
        let end: Option<u64> = query.get("end_time").and_then(|end| end.parse().ok());
        let is_shown = |message: &&Value| {
            let is_early = end.is_none_or(|end| millis(message).unwrap_or(0) <= end * 1000);
            message[field] == id && is_early && message["upper_message_id"].is_null()
        };
        let mut found: Vec<&Value> = self.messages.iter().filter(is_shown).collect();
        found.sort_by_key(|message| millis(message));
        if query.get("sort_type").is_some_and(|sort| sort == "ByCreateTimeDesc") {
            found.reverse();
        }
        let start: usize =
            query.get("page_token").and_then(|token| token.strip_prefix("at-")?.parse().ok()).unwrap_or(0);
        let page: Vec<Value> =
            found.iter().skip(start).take(size).map(|message| shown(message, query)).collect();
        let next = start + page.len();
        let mut data = json!({"items": page, "has_more": next < found.len()});
        if next < found.len() {
            data["page_token"] = format!("at-{next}").into();
        }
        Ok(data)
    }

    fn take(&mut self, name: &str, id: &str, query: &Query, request: &Request) -> Result<Value, Refusal> {
        let body = request.json();
        let uuid = body["uuid"].as_str().unwrap_or_default();
        if uuid.len() > 50 {
            return refuse(99_992_402, "field validation failed");
        }
        if let Some((taken, message)) = self.uuids.get(uuid)
            && self.now < *taken + UUID_LIFE
        {
            return Ok(message.clone());
        }
        if take(&mut self.refuse.0) {
            return refuse(self.refuse.1, "refused by the test, ext=ErrMsg: no; ErrorValue: what was said; ");
        }
        let is_reply = name == "reply";
        let in_thread = body["reply_in_thread"].as_bool();
        let chat_id = if is_reply {
            self.is_there(id)?;
            let answered = self.messages.iter().find(|message| message["message_id"] == id);
            answered.and_then(|message| message["chat_id"].as_str()).unwrap_or_default()
        } else if query.get("receive_id_type").is_none_or(|kind| kind != "chat_id") {
            return refuse(99_992_402, "field validation failed");
        } else {
            body["receive_id"].as_str().unwrap_or_default()
        };
        self.may_write(chat_id, is_reply)?;
        if in_thread == Some(true) && self.troubles.get(chat_id) == Some(&Trouble::Threadless) {
            return refuse(
                230_071,
                "The group to which the message belongs does not support reply in thread.",
            );
        }
        if !self.base.admits(chat_id, &[(5, 1000, true)]) {
            return refuse(230_020, "This operation triggers the frequency limit.");
        }
        let msg_type = body["msg_type"].as_str().unwrap_or_default();
        let content = self.check_content(msg_type, &body["content"], request.body.len())?;
        let sent = Sent {
            chat_id: chat_id.to_owned(),
            reply_to: is_reply.then(|| id.to_owned()),
            in_thread,
            msg_type: msg_type.to_owned(),
            content,
            uuid: uuid.to_owned(),
            message_id: format!("om_sent_{}", self.sent.len()),
            at_seq: self.base.calls.len(),
        };
        let message = json!({
            "message_id": sent.message_id, "chat_id": sent.chat_id, "msg_type": msg_type, "deleted": false,
            "create_time": (1_763_765_920_000 + self.now.as_millis()).to_string(), "updated": false,
            "sender": {"id": APP_ID, "id_type": "app_id", "sender_type": "app", "tenant_key": "test"},
            "body": {"content": body["content"]},
        });
        self.sent.push(sent);
        self.messages.push(message.clone());
        if !uuid.is_empty() {
            self.uuids.insert(uuid.to_owned(), (self.now, message.clone()));
        }
        Ok(message)
    }

    /// Codes are those of <https://open.feishu.cn/document/server-docs/im-v1/message-reaction/create>.
    fn react(&mut self, message_id: &str, body: &Value) -> Result<Value, Refusal> {
        self.may_react(message_id)?;
        let emoji = body["reaction_type"]["emoji_type"].as_str().unwrap_or_default();
        if !matches!(emoji, "Typing" | "SMILE" | "THUMBSUP" | "OnIt") {
            return refuse(231_001, "reaction type is invalid.");
        }
        self.reacted += 1;
        let reaction_id = format!("reaction_{}", self.reacted);
        let (message_id, emoji) = (message_id.to_owned(), emoji.to_owned());
        self.reactions.push(Reaction { id: reaction_id.clone(), message_id, emoji: emoji.clone() });
        Ok(success(&json!({"reaction_id": reaction_id, "action_time": "1663054162546",
            "operator": {"operator_id": APP_ID, "operator_type": "app"}, "reaction_type": {"emoji_type": emoji}})))
    }

    fn unreact(&mut self, message_id: &str, reaction_id: &str) -> Result<Value, Refusal> {
        self.may_react(message_id)?;
        let Some(at) = self.reactions.iter().position(|reaction| reaction.id == reaction_id) else {
            return refuse(231_011, "The request has an invalid reaction_id.");
        };
        if self.reactions[at].message_id != message_id {
            return refuse(231_010, "The reaction does not belong to the message.");
        }
        self.reactions.remove(at);
        Ok(success(&json!({"reaction_id": reaction_id})))
    }

    fn may_react(&self, message_id: &str) -> Result<(), Refusal> {
        if self.forbids_reactions {
            let scopes = "Access denied. One of the following scopes is required: [im:message, im:message.reactions:write_only].";
            return refuse(99_991_672, scopes);
        }
        let gone = || Refusal(400, 231_003, "The message is not found, maybe not exist or deleted.".into());
        self.is_there(message_id).map_err(|_| gone())?;
        let message = self.messages.iter().find(|message| message["message_id"] == message_id);
        let chat_id = message.and_then(|message| message["chat_id"].as_str()).unwrap_or_default();
        let barred = "The operator has no permission to react on the specific message.";
        self.may_write(chat_id, true).map_err(|_| Refusal(400, 231_002, barred.into()))
    }

    fn is_there(&self, message_id: &str) -> Result<(), Refusal> {
        if self.recalled.contains(message_id) {
            return refuse(230_011, "The message is recalled.");
        }
        if self.unknown.contains(message_id) {
            return refuse(99_992_354, &format!("these ids not existed: [{message_id}]"));
        }
        Ok(())
    }

    fn may_write(&self, chat_id: &str, is_reply: bool) -> Result<(), Refusal> {
        match self.troubles.get(chat_id) {
            Some(Trouble::Expelled) => refuse(230_002, "The bot can not be outside the group."),
            Some(Trouble::Stopped) if !is_reply => {
                refuse(230_053, "The user has stopped the bot from sending messages.")
            }
            Some(Trouble::Hidden) => refuse(230_013, "Bot has NO availability to this user."),
            Some(Trouble::Dissolved) => {
                refuse(232_009, "Your request specifies a chat which has already been dissolved.")
            }
            Some(Trouble::Unknown) => refuse(230_034, "The receive_id is invalid."),
            _ => Ok(()),
        }
    }

    /// The content of a message that takes `bytes`, read.
    fn check_content(&self, msg_type: &str, content: &Value, bytes: usize) -> Result<Value, Refusal> {
        let invalid = "Your request contains an invalid request parameter, ext=invalid message content.";
        let read = content.as_str().and_then(|content| serde_json::from_str::<Value>(content).ok());
        let Some(content) = read else { return refuse(230_001, invalid) };
        let limit = if msg_type == "text" { 150 * 1024 } else { 30 * 1024 };
        if bytes > self.max_bytes.unwrap_or(limit) {
            return refuse(230_025, "The length of the message content reaches its limit.");
        }
        if self.refused_type == Some(msg_type) {
            let msg = "Failed to create card content, ext=ErrCode: 200621; ErrMsg: parse card json err; ErrorValue: x";
            return refuse(230_099, msg);
        }
        match msg_type {
            "text" if content["text"].as_str().is_some_and(|text| !text.trim().is_empty()) => {}
            "interactive" => check_card(&content)?,
            _ => return refuse(230_001, invalid),
        }
        Ok(content)
    }
}

/// Returns the reason why a card of Markdown is refused.
fn check_card(card: &Value) -> Result<(), Refusal> {
    let card_error = |err: &str| refuse(230_099, &format!("Failed to create card content, ext={err}; "));
    let keys: Vec<&str> = card.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
    if card["schema"] != "2.0"
        || keys.iter().any(|key| !matches!(*key, "schema" | "config" | "header" | "body"))
    {
        return card_error("ErrCode: 200621; ErrMsg: parse card json err; ErrorValue: x");
    }
    let elements = card["body"]["elements"].as_array().cloned().unwrap_or_default();
    let text: String = elements.iter().filter_map(|element| element["content"].as_str()).collect();
    // A button of 2.0 is one of the elements (2.0 has no `action`), and calls back by its behaviours alone.
    let is_button = |element: &Value| {
        element["tag"] == "button"
            && element["text"]["tag"] == "plain_text"
            && element["text"]["content"].as_str().is_some_and(|text| !text.is_empty())
            && element["value"].is_null()
            && element["behaviors"][0]["type"] == "callback"
            && element["behaviors"][0]["value"].is_object()
    };
    let is_known = |element: &Value| element["tag"] == "markdown" || is_button(element);
    if !elements.iter().all(is_known) || text.trim().is_empty() {
        return card_error("ErrCode: 200621; ErrMsg: unknown element; ErrorValue: x");
    }
    if text
        .lines()
        .filter(|line| line.trim_start().starts_with("|-") || line.trim_start().starts_with("| -"))
        .count()
        > MAX_TABLES
    {
        return card_error("ErrCode: 11310; ErrMsg: card table number over limit; ErrorValue: table");
    }
    if text.contains("![") {
        return card_error(
            "ErrCode: 200570; ErrMsg: card contains invalid image keys; ErrorValue: image key x",
        );
    }
    if text.contains("<at ") {
        return card_error(
            "ErrCode: 100290; ErrMsg: There is an invalid user resource(at/person) in your card",
        );
    }
    Ok(())
}

/// Returns a message as the API gives it: a card only if the query asks for it.
fn shown(message: &Value, query: &Query) -> Value {
    let mut message = message.clone();
    let is_whole = query.get("card_msg_content_type").is_some_and(|kind| kind == "user_card_content");
    if message["msg_type"] == "interactive" && !is_whole {
        let elements = json!([[{"tag": "text", "text": "请升级至最新版本客户端，以查看内容"}]]);
        message["body"]["content"] = json!({ "elements": elements }).to_string().into();
    }
    message
}

fn parts_of(path: &str) -> Vec<&str> {
    path.split('/').filter(|part| !part.is_empty()).collect()
}

fn success(data: &Value) -> Value {
    json!({"code": 0, "msg": "success", "data": data})
}
