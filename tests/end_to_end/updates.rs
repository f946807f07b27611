//! Updates as Telegram sends them.

use annals_test_support::telegram_api::{BOT_ID, BOT_USERNAME};
use serde_json::{Value, json};

/// Date of the first message, in epoch seconds.
pub(crate) const START: i64 = 1_763_765_920;

/// An update with a message, which can be changed before it is sent.
#[derive(Clone, Debug)]
pub(crate) struct Update {
    kind: &'static str,
    id: i64,
    message: Value,
}

/// Creates a message of Ada to the bot. Message `id` is dated `id` seconds after [`START`].
pub(crate) fn private(chat_id: i64, id: i64, text: &str) -> Update {
    let chat = json!({"id": chat_id, "type": "private", "first_name": "Ada", "username": "ada_l"});
    let from = json!({"id": chat_id, "is_bot": false, "first_name": "Ada", "username": "ada_l"});
    message(&chat, &from, id, text)
}

/// Creates a message of Ada, who is user 42, in a group.
pub(crate) fn group(chat_id: i64, id: i64, text: &str) -> Update {
    message(&json!({"id": chat_id, "type": "group", "title": "Allotment"}), &ada(), id, text)
}

/// Creates a message of Ada, who is user 42, in a supergroup.
pub(crate) fn supergroup(chat_id: i64, id: i64, text: &str) -> Update {
    message(&json!({"id": chat_id, "type": "supergroup", "title": "Allotment"}), &ada(), id, text)
}

/// Creates a post in a channel.
pub(crate) fn channel_post(chat_id: i64, id: i64, text: &str) -> Update {
    let chat = json!({"id": chat_id, "type": "channel", "title": "Harvest News"});
    let mut update = message(&chat, &Value::Null, id, text).kind("channel_post").with("sender_chat", chat);
    update.message.as_object_mut().unwrap().remove("from");
    update
}

fn message(chat: &Value, from: &Value, id: i64, text: &str) -> Update {
    let message = json!({"message_id": id, "date": START + id, "chat": chat, "from": from, "text": text});
    Update { kind: "message", id: 10 * id, message }
}

fn ada() -> Value {
    json!({"id": 42, "is_bot": false, "first_name": "Ada"})
}

/// Creates the update for the bot's change from member to `status` in a chat, at this time.
pub(crate) fn membership(chat: &Value, status: &str, date: i64) -> Value {
    let bot = json!({"id": BOT_ID, "is_bot": true, "first_name": "Annals", "username": BOT_USERNAME});
    json!({"update_id": date, "my_chat_member": {
        "chat": chat, "from": ada(), "date": date,
        "old_chat_member": {"user": bot, "status": "member"},
        "new_chat_member": {"user": bot, "status": status},
    }})
}

impl Update {
    /// Sets a field of the message.
    pub(crate) fn with(mut self, field: &str, value: Value) -> Self {
        self.message[field] = value;
        self
    }

    /// Sets the sender to another user than Ada.
    pub(crate) fn by(self, user: i64) -> Self {
        self.with("from", json!({"id": user, "is_bot": false, "first_name": "Somebody"}))
    }

    /// Removes a field of the message.
    pub(crate) fn without(mut self, field: &str) -> Self {
        self.message.as_object_mut().unwrap().remove(field);
        self
    }

    /// Dates the message this many seconds after [`START`].
    pub(crate) fn at(self, secs: i64) -> Self {
        self.with("date", json!(START + secs))
    }

    /// Renames the message's field in the update.
    pub(crate) fn kind(mut self, kind: &'static str) -> Self {
        self.kind = kind;
        self
    }

    /// Turns it into an edit of the message with another text, made this many seconds after [`START`].
    pub(crate) fn edited(mut self, secs: i64, text: &str) -> Self {
        self.kind = "edited_message";
        self.id += 1;
        self.with("edit_date", json!(START + secs)).with("text", json!(text))
    }

    /// Adds an entity over the first occurrence of `words`, in UTF-16 units.
    pub(crate) fn entity(mut self, kind: &str, words: &str) -> Self {
        let text = self.message["text"].as_str().unwrap();
        let units = |text: &str| text.encode_utf16().count();
        let offset = units(&text[..text.find(words).unwrap()]);
        let entity = json!({"type": kind, "offset": offset, "length": units(words)});
        match self.message["entities"].as_array_mut() {
            Some(entities) => entities.push(entity),
            None => self.message["entities"] = json!([entity]),
        }
        self
    }

    /// Adds a mention entity at the bot's name in the text.
    pub(crate) fn mention(self) -> Self {
        self.entity("mention", &format!("@{BOT_USERNAME}"))
    }

    /// Adds a command entity at the start of the text.
    pub(crate) fn command(self) -> Self {
        let name = self.message["text"].as_str().unwrap().split_whitespace().next().unwrap().to_owned();
        self.entity("bot_command", &name)
    }

    /// Turns its text and entities into the caption of a document.
    pub(crate) fn captioned(mut self) -> Self {
        let message = self.message.as_object_mut().unwrap();
        for (text, caption) in [("text", "caption"), ("entities", "caption_entities")] {
            if let Some(value) = message.remove(text) {
                message.insert(caption.into(), value);
            }
        }
        self.with("document", json!({"file_id": "file", "file_unique_id": "f", "file_name": "beans.pdf"}))
    }

    /// Makes it a reply to the message of `from` with this id.
    pub(crate) fn reply_to(self, id: i64, from: &Value) -> Self {
        let original = json!({"message_id": id, "date": START, "chat": self.message["chat"], "from": from, "text": "before"});
        self.with("reply_to_message", original)
    }
}

impl From<Update> for Value {
    fn from(update: Update) -> Self {
        let Update { kind, id, message } = update;
        json!({"update_id": id, kind: message})
    }
}

impl From<&Update> for Value {
    fn from(update: &Update) -> Self {
        update.clone().into()
    }
}
