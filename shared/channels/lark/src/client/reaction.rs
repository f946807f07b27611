//! Reactions to messages, which replace "typing…": Lark's API has no typing indicator.
//!
//! ```text
//! POST   …/open-apis/im/v1/messages/om_1/reactions       {"reaction_type": {"emoji_type": "Typing"}}
//! 200    {"code": 0, "data": {"reaction_id": "ZCaCIjUB…", …}}
//! DELETE …/open-apis/im/v1/messages/om_1/reactions/ZCaCIjUB…
//! ```
//!
//! They need the permission `im:message`, which also allows sending, or `im:message.reactions:write_only`. If an app
//! sends with another permission, the first refusal is logged, and no further reaction is tried in this process.
//!
//! Source: <https://open.feishu.cn/document/server-docs/im-v1/message-reaction/create>. The emoji `Typing` is the one
//! of Lark's own plugins for agents.

use std::sync::atomic::Ordering;

use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, CallError, Client, Data, code};

impl Client {
    /// Adds a reaction to the message and returns the id of the reaction, or `None` if the app may not react.
    pub async fn react(&self, message_id: &str, emoji: &str) -> Result<Option<String>, CallError> {
        #[derive(Deserialize)]
        struct Reaction {
            reaction_id: String,
        }
        if self.may_not_react.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let url = self.url(&["im", "v1", "messages", message_id, "reactions"]);
        let (name, body) =
            ("im/v1/messages/:message_id/reactions", json!({"reaction_type": {"emoji_type": emoji}}));
        let call = Call { name, method: Method::POST, url, body: Some(&body) };
        let reacted: Result<Data<Reaction>, _> = self.call(&call, &mut self.api.budget()).await;
        if let Err(error) = &reacted
            && error.code().is_some_and(|code| code::is_for_admins(code) || code == code::UNKNOWN_EMOJI)
        {
            tracing::warn!(%error, "failed to add a reaction: the app lacks the permission; users see no typing indicator");
            self.may_not_react.store(true, Ordering::Relaxed);
        }
        Ok(Some(reacted?.data.reaction_id))
    }

    /// Removes a reaction of the app.
    pub async fn unreact(&self, message_id: &str, reaction_id: &str) -> Result<(), CallError> {
        let name = "im/v1/messages/:message_id/reactions/:reaction_id";
        let url = self.url(&["im", "v1", "messages", message_id, "reactions", reaction_id]);
        let call = Call { name, method: Method::DELETE, url, body: None };
        self.call(&call, &mut self.api.budget()).await.map(|_: Value| ())
    }
}
