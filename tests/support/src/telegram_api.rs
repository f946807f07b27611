//! Telegram's Bot API on the loopback address: an emulator that keeps its state and refuses what Telegram refuses.
//!
//! Tests assert on what it stored ([`TelegramApi::sent`]) and on what was asked of it ([`TelegramApi::calls`]). It
//! knows `getMe`, `getFile`, `sendMessage`, `sendMessageDraft`, `sendChatAction`, `answerCallbackQuery`, `editMessageReplyMarkup`,
//! `getChatAdministrators`, `setWebhook`, `getWebhookInfo` and `setMyCommands`. Every chat, topic, message and file exists
//! unless a test says otherwise.
//!
//! Descriptions are those of <https://github.com/tdlib/telegram-bot-api>.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use axum::http::header;
use serde_json::{Value, json};

use crate::emulator::{Answer, Base, Emulated, Emulator, Request, whole_secs};

mod files;
mod refusal;
mod setup;
mod typing;

pub use crate::emulator::picture;
pub use files::Files;
use refusal::{Refusal, refuse, too_many};
pub use setup::{Setup, Webhook};
pub use typing::{Shown, Sign, Signs};

/// The token of the only bot.
pub const TOKEN: &str = "7000000001:AAtestTokenOfTheTestBot_0123456789-xyz";
/// The bot's id: the part of the token before the colon.
pub const BOT_ID: i64 = 7_000_000_001;
/// The bot's name.
pub const BOT_USERNAME: &str = "annals_test_bot";

/// A message that the API took.
#[derive(Clone, Debug, PartialEq)]
pub struct Sent {
    /// The chat.
    pub chat_id: i64,
    /// The text as it was sent.
    pub text: String,
    /// `MessageEntity` objects.
    pub entities: Vec<Value>,
    /// The topic.
    pub thread_id: Option<i64>,
    /// The message that it quotes.
    pub reply_to: Option<i64>,
    /// The business account that it was sent for.
    pub business_connection_id: Option<String>,
    /// The topic of a channel's direct messages.
    pub direct_messages_topic_id: Option<i64>,
    /// Its own id, unique here and growing from 1000.
    pub message_id: i64,
    /// The place of its call in [`TelegramApi::calls`].
    pub at_seq: usize,
    /// The rows of buttons under it, as they are now.
    pub keyboard: Vec<Value>,
}

/// A press on a button that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// `callback_query_id`
    pub id: String,
    /// The text shown to the person who pressed.
    pub text: String,
    /// True if shown as an alert over the chat.
    pub alert: bool,
}

/// A running emulator; it ends with this value. Faults meet its messages alone.
pub type TelegramApi = Emulator<Store>;

/// The emulator's state.
#[derive(Default)]
pub struct Store {
    base: Base,
    sent: Vec<Sent>,
    blocked: HashSet<i64>,
    unknown: HashSet<i64>,
    /// The supergroup that each of these groups has become: 400 with `migrate_to_chat_id`.
    pub migrated: HashMap<i64, i64>,
    /// Topics that do not exist, with their chats: 400.
    pub lost_topics: HashSet<(i64, i64)>,
    /// Messages that cannot be quoted, with their chats: sent without it where the call allows that, else 400.
    pub lost_messages: HashSet<(i64, i64)>,
    /// Refuses any entity with 400.
    pub refuse_entities: bool,
    /// Refuses any quotation with 400, whatever the call allows.
    pub refuse_replies: bool,
    /// A stricter limit of a message's text than Telegram's 4,096 UTF-16 units.
    pub max_units: Option<usize>,
    administrators: HashMap<i64, Vec<i64>>,
    answered: Vec<Answered>,
    /// The bot's webhook and menu.
    pub setup: Setup,
    /// Files that people sent.
    pub files: Files,
    /// The typing status and drafts.
    pub signs: Signs,
    /// The date of answers, in place of the system's time.
    pub date: Option<&'static str>,
}

impl TelegramApi {
    /// The messages taken for one chat, in order.
    pub fn sent_to(&self, chat_id: i64) -> Vec<Sent> {
        self.sent().into_iter().filter(|sent| sent.chat_id == chat_id).collect()
    }

    /// The user of this chat blocks the bot: 403.
    pub fn block(&self, chat_id: i64) {
        self.store().blocked.insert(chat_id);
    }

    /// The user of this chat allows the bot again.
    pub fn unblock(&self, chat_id: i64) {
        self.store().blocked.remove(&chat_id);
    }

    /// There is no such chat: 400.
    pub fn forget(&self, chat_id: i64) {
        self.store().unknown.insert(chat_id);
    }

    /// These users administer this group.
    pub fn set_administrators(&self, chat_id: i64, users: &[i64]) {
        self.store().administrators.insert(chat_id, users.to_vec());
    }

    /// The presses that were answered, in order.
    pub fn answered(&self) -> Vec<Answered> {
        self.store().answered.clone()
    }

    /// The webhook, if there is one.
    pub fn webhook(&self) -> Option<Webhook> {
        self.store().setup.webhook.clone()
    }

    /// The commands of the menu: `/name: description`.
    pub fn menu(&self) -> Vec<String> {
        self.menu_in("")
    }

    /// The commands of the menu for people of a language, by its code of two letters.
    pub fn menu_in(&self, language: &str) -> Vec<String> {
        self.store().setup.menus.get(language).cloned().unwrap_or_default()
    }

    /// Webhooks may be plain HTTP, as with a self-hosted Bot API server.
    pub fn allow_http(&self) {
        self.store().setup.is_local = true;
    }

    /// This file holds `bytes`, in place of a [`picture`].
    pub fn set_file(&self, file_id: &str, bytes: Vec<u8>) {
        self.store().files.set.insert(file_id.to_owned(), Some(bytes));
    }

    /// Messages beyond Telegram's limits, by this clock in epoch milliseconds, are answered 429: one a second in a private
    /// chat, 20 a minute in a group, 30 a second in all.
    pub fn police(&self, now: impl Fn() -> i64 + Send + Sync + 'static) {
        self.store().base.clock = Some(Box::new(now));
    }

    /// Returns the typing status and drafts that were shown, in order.
    pub fn shown(&self) -> Vec<Shown> {
        self.store().signs.shown.clone()
    }
}

impl Emulated for Store {
    type Sent = Sent;
    const MESSAGES: &'static [&'static str] = &["sendMessage"];

    fn base(&mut self) -> &mut Base {
        &mut self.base
    }

    fn sent(&self) -> &[Sent] {
        &self.sent
    }

    /// Returns `sendMessage`, …; `file` for a download.
    fn name(request: &Request) -> String {
        let path = request.uri.path();
        let method = path.trim_start_matches("/bot").split_once('/').map_or("", |(_, method)| method);
        if path.starts_with("/file/bot") { "file".into() } else { method.into() }
    }

    fn answer(&mut self, name: &str, request: &Request) -> Answer {
        let answer = match request.uri.path().strip_prefix("/file/bot") {
            Some(path) => self.files.download(path.strip_prefix(TOKEN).unwrap_or_default()),
            None => match self.call(name, request) {
                Ok(result) => Answer::json(200, &json!({"ok": true, "result": result})),
                Err(refusal) => refusal.into(),
            },
        };
        Answer { header: self.date.map(|date| (header::DATE, date.to_owned())), ..answer }
    }

    fn too_many(wait: Duration) -> Answer {
        too_many(whole_secs(wait)).into()
    }

    fn failure() -> Answer {
        Refusal(502, "Bad Gateway", Value::Null).into()
    }

    fn is_limited(name: &str) -> bool {
        Self::MESSAGES.contains(&name)
    }
}

impl Store {
    fn call(&mut self, method: &str, request: &Request) -> Result<Value, Refusal> {
        let token = request.uri.path().trim_start_matches("/bot").split('/').next().unwrap_or_default();
        let (body, is_json) = (request.json(), request.header(header::CONTENT_TYPE) == "application/json");
        match method {
            _ if token != TOKEN && !token.contains(':') => refuse(404, "Not Found"),
            _ if token != TOKEN => refuse(401, "Unauthorized"),
            "getMe" => Ok(json!({
                "id": BOT_ID, "is_bot": true, "first_name": "Annals", "username": BOT_USERNAME,
                "can_join_groups": true, "can_read_all_group_messages": false, "supports_inline_queries": false
            })),
            "sendMessage" | "sendMessageDraft" | "sendChatAction" if !is_json => {
                refuse(400, "Bad Request: chat_id is empty")
            }
            "sendMessage" => self.send_message(&body),
            "sendMessageDraft" => {
                let at = self.base.calls.len();
                self.chat(&body).and_then(|chat_id| self.signs.draft(chat_id, &body, at))
            }
            "sendChatAction" => {
                let at = self.base.calls.len();
                self.chat(&body).and_then(|chat_id| self.signs.chat_action(chat_id, &body, at))
            }
            "getFile" => self.files.get(&body),
            "answerCallbackQuery" => self.answer_callback(&body),
            "editMessageReplyMarkup" => self.edit_keyboard(&body),
            "getChatAdministrators" => self.chat_administrators(&body),
            "setWebhook" => self.setup.set_webhook(&body),
            "getWebhookInfo" => Ok(self.setup.info()),
            "setMyCommands" => self.setup.set_commands(&body),
            _ => refuse(404, "Not Found"),
        }
    }

    /// The chat that a call names, if the bot may write there.
    fn chat(&self, body: &Value) -> Result<i64, Refusal> {
        let Some(chat_id) = body["chat_id"].as_i64() else {
            return refuse(400, "Bad Request: chat_id is empty");
        };
        if self.unknown.contains(&chat_id) {
            return refuse(400, "Bad Request: chat not found");
        }
        if self.blocked.contains(&chat_id) {
            return refuse(403, "Forbidden: bot was blocked by the user");
        }
        if let Some(new) = self.migrated.get(&chat_id) {
            let parameters = json!({"migrate_to_chat_id": new});
            let description = "Bad Request: group chat was upgraded to a supergroup chat";
            return Err(Refusal(400, description, parameters));
        }
        match body["message_thread_id"].as_i64() {
            // The General topic has no id that `sendMessage` takes.
            Some(1) if body["action"].is_null() => refuse(400, "Bad Request: message thread not found"),
            Some(thread) if self.lost_topics.contains(&(chat_id, thread)) => {
                refuse(400, "Bad Request: message thread not found")
            }
            _ => Ok(chat_id),
        }
    }

    fn send_message(&mut self, body: &Value) -> Result<Value, Refusal> {
        let chat_id = self.chat(body)?;
        let reply_to = self.reply_to(chat_id, &body["reply_parameters"])?;
        let text = body["text"].as_str().unwrap_or_default();
        if text.trim().is_empty() {
            return refuse(400, "Bad Request: message text is empty");
        }
        if text.encode_utf16().count() > self.max_units.unwrap_or(4096) {
            return refuse(400, "Bad Request: message is too long");
        }
        let entities = body["entities"].as_array().cloned().unwrap_or_default();
        if self.refuse_entities && !entities.is_empty() {
            return refuse(400, "Bad Request: can't parse MessageEntity: refused by the test");
        }
        check_entities(text, &entities)?;
        let keyboard = rows_of(&body["reply_markup"])?;
        let in_chat = if chat_id > 0 { (1, 1000, true) } else { (20, 60_000, true) };
        if !self.base.admits(&chat_id.to_string(), &[in_chat, (30, 1000, false)]) {
            return Err(too_many(5));
        }
        let message_id = 1000 + i64::try_from(self.sent.len()).unwrap();
        self.sent.push(Sent {
            chat_id,
            text: text.to_owned(),
            entities: entities.clone(),
            thread_id: body["message_thread_id"].as_i64(),
            reply_to,
            business_connection_id: body["business_connection_id"].as_str().map(str::to_owned),
            direct_messages_topic_id: body["direct_messages_topic_id"].as_i64(),
            message_id,
            at_seq: self.base.calls.len(),
            keyboard,
        });
        let kind = if chat_id < 0 { "supergroup" } else { "private" };
        Ok(json!({
            "message_id": message_id, "date": 1_763_765_920, "chat": {"id": chat_id, "type": kind},
            "from": {"id": BOT_ID, "is_bot": true, "first_name": "Annals", "username": BOT_USERNAME},
            "text": text, "entities": entities
        }))
    }

    /// A query can be answered once; an old one is too late, which a test says by an id that starts with `old`.
    fn answer_callback(&mut self, body: &Value) -> Result<Value, Refusal> {
        let id = body["callback_query_id"].as_str().unwrap_or_default();
        if id.is_empty() || id.starts_with("old") || self.answered.iter().any(|answered| answered.id == id) {
            return refuse(
                400,
                "Bad Request: query is too old and response timeout expired or query ID is invalid",
            );
        }
        let text = body["text"].as_str().unwrap_or_default();
        if text.chars().count() > 200 {
            return refuse(400, "Bad Request: MESSAGE_TOO_LONG");
        }
        let alert = body["show_alert"] == true;
        self.answered.push(Answered { id: id.to_owned(), text: text.to_owned(), alert });
        Ok(json!(true))
    }

    fn edit_keyboard(&mut self, body: &Value) -> Result<Value, Refusal> {
        let chat_id = self.chat(body)?;
        let rows = rows_of(&body["reply_markup"])?;
        let message_id = body["message_id"].as_i64();
        // What was sent for a business is out of reach but by its connection.
        let line = body["business_connection_id"].as_str();
        let of_it = |sent: &&mut Sent| {
            sent.chat_id == chat_id
                && Some(sent.message_id) == message_id
                && sent.business_connection_id.as_deref() == line
        };
        let Some(sent) = self.sent.iter_mut().find(of_it) else {
            return refuse(400, "Bad Request: message to edit not found");
        };
        if sent.keyboard == rows {
            return refuse(
                400,
                "Bad Request: message is not modified: specified new message content and reply markup are exactly the same as a current content and reply markup of the message",
            );
        }
        sent.keyboard = rows;
        Ok(json!({"message_id": sent.message_id, "date": 1_763_765_920, "chat": {"id": chat_id}}))
    }

    fn chat_administrators(&self, body: &Value) -> Result<Value, Refusal> {
        // As a number, or as its digits.
        let given = &body["chat_id"];
        let chat_id = given.as_i64().or_else(|| given.as_str().and_then(|id| id.parse().ok()));
        let Some(chat_id) = chat_id else { return refuse(400, "Bad Request: chat_id is empty") };
        if chat_id > 0 {
            return refuse(400, "Bad Request: there are no administrators in the private chat");
        }
        let users = self.administrators.get(&chat_id).cloned().unwrap_or_default();
        let member = |id: &i64| json!({"status": "administrator", "user": {"id": id, "is_bot": false, "first_name": "Admin"}});
        Ok(users.iter().map(member).collect())
    }

    fn reply_to(&self, chat_id: i64, reply: &Value) -> Result<Option<i64>, Refusal> {
        let Some(message_id) = reply["message_id"].as_i64() else { return Ok(None) };
        let is_lost = self.lost_messages.contains(&(chat_id, message_id));
        match reply["allow_sending_without_reply"].as_bool() {
            _ if self.refuse_replies => refuse(400, "Bad Request: message to be replied not found"),
            Some(true) if is_lost => Ok(None),
            _ if is_lost => refuse(400, "Bad Request: message to be replied not found"),
            _ => Ok(Some(message_id)),
        }
    }
}

/// The rows of an inline keyboard; none where there is no markup.
fn rows_of(markup: &Value) -> Result<Vec<Value>, Refusal> {
    if markup.is_null() {
        return Ok(Vec::new());
    }
    let Some(rows) = markup["inline_keyboard"].as_array() else {
        return refuse(400, "Bad Request: object expected as reply markup");
    };
    for button in rows.iter().flat_map(|row| row.as_array().into_iter().flatten()) {
        if button["text"].as_str().is_none_or(str::is_empty) {
            return refuse(
                400,
                "Bad Request: can't parse inline keyboard button: Text buttons are unallowed",
            );
        }
        let data = button["callback_data"].as_str().unwrap_or_default();
        if data.is_empty() || data.len() > 64 {
            return refuse(400, "Bad Request: BUTTON_DATA_INVALID");
        }
    }
    Ok(rows.clone())
}

/// Stricter than Telegram, which drops or trims some of this without a word.
fn check_entities(text: &str, entities: &[Value]) -> Result<(), Refusal> {
    let units: Vec<u16> = text.encode_utf16().collect();
    // Not between the halves of a surrogate pair.
    let is_boundary =
        |at: usize| at <= units.len() && units.get(at).is_none_or(|unit| !(0xdc00..0xe000).contains(unit));
    if entities.len() > 100 {
        return refuse(400, "Bad Request: ENTITIES_TOO_LONG");
    }
    for entity in entities {
        let number = |key: &str| entity[key].as_u64().and_then(|number| usize::try_from(number).ok());
        let (Some(offset), Some(length)) = (number("offset"), number("length")) else {
            return refuse(
                400,
                "Bad Request: can't parse MessageEntity: Field \"offset\" must be of type Number",
            );
        };
        if length == 0 || !is_boundary(offset) || !is_boundary(offset + length) {
            return refuse(400, "Bad Request: ENTITY_BOUNDS_INVALID");
        }
        let is_known = match entity["type"].as_str().unwrap_or_default() {
            "bold" | "italic" | "underline" | "strikethrough" | "spoiler" | "blockquote" | "code" | "pre" => {
                true
            }
            "text_link" => entity["url"].as_str().is_some_and(|url| !url.is_empty()),
            _ => false,
        };
        if !is_known {
            return refuse(400, "Bad Request: can't parse MessageEntity: wrong type specified");
        }
    }
    Ok(())
}
