//! Converts an exported message into the Bot API's form, and parses it like a webhook's: [`Source::draft`].

use std::collections::{HashMap, HashSet};

use annals_channel::webhook::Incoming;
use annals_channel_telegram::bot::Bot;
use annals_channel_telegram::parse::parse;
use annals_core::draft::Draft;
use annals_core::message::{Part, Role};
use annals_core::record::Kind;
use annals_core::sort_key::MessageId;
use anyhow::{Context, bail};
use serde_json::{Map, Value, json};

use super::content::{event, medium, structure, text_and_entities};
use super::fields::{CHANNELS, int, number, seconds, text_of, user};
use super::survey::Chat;
use crate::import::item::Options;

/// Stands for a person who writes in a channel's name.
const CHANNEL_BOT: i64 = 136_817_688;

/// Kind of a chat, as the Bot API describes it.
pub(super) struct ChatKind {
    pub(super) json: Value,
    pub(super) is_channel: bool,
    pub(super) bot: Option<i64>,
}

/// The exported chat that messages are from.
pub(super) struct Source<'a> {
    kind: ChatKind,
    chat: &'a Chat,
    /// Ids of messages that others reply to.
    originals: HashSet<i64>,
    /// Those of them that were read.
    by_id: HashMap<i64, Map<String, Value>>,
}

impl<'a> Source<'a> {
    /// Returns the source of the messages of `chat`.
    pub(super) fn new(kind: ChatKind, chat: &'a Chat) -> Self {
        let originals = chat.replies.values().copied().filter(|id| !chat.topics.contains(id)).collect();
        Self { kind, chat, originals, by_id: HashMap::new() }
    }

    /// Keeps a message that was read, if a later one replies to it.
    pub(super) fn remember(&mut self, message: Map<String, Value>) {
        if let Some(id) = int(&message, "id").filter(|id| self.originals.contains(id)) {
            self.by_id.insert(id, message);
        }
    }

    /// Returns the draft that the message's webhook would have made.
    pub(super) fn draft(&self, message: &Map<String, Value>, options: &Options) -> anyhow::Result<Draft> {
        let id = int(message, "id").context("it has no id")?;
        let Some(date) = seconds(message, "date_unixtime") else {
            bail!("it has no date_unixtime: export it again with a Telegram Desktop of 2022 or later")
        };
        let mut update = json!({ "message_id": id, "date": date, "chat": self.kind.json });
        if let Some(edited) = seconds(message, "edited_unixtime") {
            update["edit_date"] = edited.into();
        }
        self.sender(message, &mut update);
        if let Some(author) = text_of(message, "author") {
            update["author_signature"] = author.into();
        }
        if let Some(name) = text_of(message, "via_bot") {
            update["via_bot"] = json!({"id": 0, "is_bot": true, "username": name.trim_start_matches('@')});
        }
        if let Some(name) = message.get("forwarded_from") {
            let name = name.as_str().unwrap_or("Deleted account");
            update["forward_origin"] = json!({"type": "hidden_user", "sender_user_name": name});
        }
        if let Some(topic) = self.topic_of(id) {
            update["message_thread_id"] = topic.into();
            update["is_topic_message"] = true.into();
        }
        self.reply(message, &mut update);

        let (text, entities) = text_and_entities(message);
        let has_structure = structure(message, &mut update);
        let media = medium(message);
        let event = (text_of(message, "type") == Some("service")).then(|| event(message));
        // The parser would not recognize a message without a text.
        let stand_in = event.as_ref().or(media.as_ref()).filter(|_| text.is_empty());
        if let Some(words) = stand_in.or(Some(&text)).filter(|words| !words.is_empty()) {
            update["text"] = words.as_str().into();
            update["entities"] = if text.is_empty() { json!([]) } else { entities };
        } else if !has_structure {
            update["text"] = "[empty]".into();
        }

        let kind = if self.kind.is_channel { "channel_post" } else { "message" };
        let bot = Bot { id: self.kind.bot.unwrap_or(0), username: None };
        let parsed = parse(&json!({"update_id": 0, kind: update}), &bot, &options.settings)?;
        let mut draft = match parsed.into_iter().next() {
            Some(Incoming::Message(draft)) => *draft,
            Some(Incoming::Command { command, draft }) => {
                let kind = if command.is_boundary() { Kind::Boundary } else { Kind::Notice };
                draft.of_kind(kind)
            }
            _ => bail!("it is not a message"),
        };
        if id < 0 {
            // A message from before the group became a supergroup has a number of its own, negative in an export.
            draft.message_id = MessageId::new(format!("before{id}"))?;
        }
        if let Some(event) = event {
            (draft.kind, draft.parts) = (Kind::Event, vec![Part::text(event)]);
            draft.role = Role::User;
        } else if let Some(media) = media.filter(|_| !text.is_empty()) {
            draft.parts.push(Part::text(media));
        }
        draft.asks = false;
        draft.metadata.set_imported("telegram");
        Ok(draft)
    }

    fn sender(&self, message: &Map<String, Value>, update: &mut Value) {
        let is_service = text_of(message, "type") == Some("service");
        let (id, name) = if is_service { ("actor_id", "actor") } else { ("from_id", "from") };
        let name = text_of(message, name).unwrap_or("Deleted account");
        let Some(id) = text_of(message, id) else { return };
        if let Some(user) = user(id) {
            // In a channel, the channel itself is the sender.
            if !self.kind.is_channel {
                update["from"] =
                    json!({"id": user, "is_bot": self.kind.bot == Some(user), "first_name": name});
            }
        } else if let Some(channel) = number(id, "channel") {
            update["sender_chat"] = json!({"id": CHANNELS - channel, "type": "channel", "title": name});
            if !self.kind.is_channel {
                update["from"] = json!({"id": CHANNEL_BOT, "is_bot": true, "first_name": "Channel"});
            }
        } else if let Some(group) = number(id, "chat") {
            update["sender_chat"] = json!({"id": -group, "type": "group", "title": name});
        }
    }

    /// Adds the message that `message` replies to, if it is not a topic, to `update`.
    fn reply(&self, message: &Map<String, Value>, update: &mut Value) {
        let Some(id) = int(message, "reply_to_message_id").filter(|id| !self.chat.topics.contains(id)) else {
            return;
        };
        if message.contains_key("reply_to_peer_id") {
            update["external_reply"] = json!({ "message_id": id });
            return;
        }
        let mut original = json!({ "message_id": id });
        if let Some(exported) = self.by_id.get(&id) {
            self.sender(exported, &mut original);
            let (text, _) = text_and_entities(exported);
            let text = if text.is_empty() { medium(exported).unwrap_or_default() } else { text };
            original["text"] = text.into();
        }
        update["reply_to_message"] = original;
    }

    /// Returns the topic of the message `id`: itself, or the topic of the message that it replies to.
    fn topic_of(&self, id: i64) -> Option<i64> {
        if self.chat.topics.is_empty() {
            return None;
        }
        let mut at = id;
        // Replies are to earlier messages; more steps than replies mean a loop.
        for _ in 0..=self.chat.replies.len() {
            if self.chat.topics.contains(&at) {
                return Some(at);
            }
            at = *self.chat.replies.get(&at)?;
        }
        None
    }
}
