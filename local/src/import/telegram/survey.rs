//! Facts about an export that the conversion of its messages needs: [`Survey`].

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::fields::{int, text_of, user};
use super::walk::{Fields, Walker};

/// Facts of an export, which take little memory for each message.
#[derive(Clone, Debug, Default)]
pub(in crate::import) struct Survey {
    pub(super) owner: Option<i64>,
    /// In the order of the file. An account's file has several.
    pub(super) chats: Vec<Chat>,
    pub(super) is_account: bool,
    current: Chat,
}

/// Facts of a chat.
#[derive(Clone, Debug, Default)]
pub(super) struct Chat {
    pub(super) name: Option<String>,
    pub(super) r#type: Option<String>,
    pub(super) id: i64,
    /// The users who have written, in the order of their first messages.
    pub(super) users: Vec<i64>,
    /// Ids of the messages that created topics.
    pub(super) topics: HashSet<i64>,
    /// The message that a message replies to, by ids.
    pub(super) replies: HashMap<i64, i64>,
}

impl Walker for Survey {
    fn owner(&mut self, owner: i64) {
        self.owner = Some(owner);
    }

    fn list(&mut self) {
        self.is_account = true;
    }

    fn message(&mut self, message: Map<String, Value>) -> anyhow::Result<()> {
        let chat = &mut self.current;
        if let Some(user) = text_of(&message, "from_id").and_then(user)
            && !chat.users.contains(&user)
        {
            chat.users.push(user);
        }
        if let Some(id) = int(&message, "id") {
            if text_of(&message, "action") == Some("topic_created") {
                chat.topics.insert(id);
            }
            if let Some(original) = int(&message, "reply_to_message_id") {
                chat.replies.insert(id, original);
            }
        }
        Ok(())
    }

    fn end_of_chat(&mut self, fields: Fields) -> anyhow::Result<()> {
        let Fields { name, r#type, id, .. } = fields;
        let id = id.unwrap_or_default();
        self.chats.push(Chat { name, r#type, id, ..std::mem::take(&mut self.current) });
        Ok(())
    }
}

impl Chat {
    pub(super) fn is_group(&self) -> bool {
        matches!(self.r#type.as_deref(), Some("private_group" | "private_supergroup" | "public_supergroup"))
    }

    pub(super) fn is_with_bot(&self) -> bool {
        self.r#type.as_deref() == Some("bot_chat")
    }
}
