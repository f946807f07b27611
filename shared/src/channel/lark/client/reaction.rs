//! Reactions to messages: what stands for "typing…", of which Lark's API has none.
//!
//! ```text
//! POST   …/open-apis/im/v1/messages/om_1/reactions       {"reaction_type": {"emoji_type": "Typing"}}
//! 200    {"code": 0, "data": {"reaction_id": "ZCaCIjUB…", …}}
//! DELETE …/open-apis/im/v1/messages/om_1/reactions/ZCaCIjUB…
//! ```
//!
//! It takes the permission `im:message`, which sends messages too, or `im:message.reactions:write_only`. An app that has
//! been given another one to send with is told so once in a process, and is not asked again.
//!
//! Source: <https://open.feishu.cn/document/server-docs/im-v1/message-reaction/create>; that `Typing` is what stands for
//! it: Lark's own plugins for agents.

use std::sync::atomic::Ordering;

use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Client, Data, SendError, code};

/// The `emoji_type` of somebody who types.
pub const TYPING: &str = "Typing";

impl Client {
    /// Reacts to the message with this emoji; returns the id of the reaction. `None` where the app may not.
    pub async fn react(&self, message_id: &str, emoji: &str) -> Result<Option<String>, SendError> {
        const METHOD: &str = "im/v1/messages/:message_id/reactions";
        #[derive(Deserialize)]
        struct Reaction {
            reaction_id: String,
        }
        if self.may_not_react.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let url = self.wire.url(&["im", "v1", "messages", message_id, "reactions"]);
        let body = json!({"reaction_type": {"emoji_type": emoji}});
        let request = self.wire.request(METHOD, Method::POST, url)?.json(&body);
        let reacted: Result<Data<Reaction>, _> = self.call(METHOD, &request, &mut self.effort()).await;
        if let Err(error) = &reacted
            && error.code().is_some_and(|code| code::is_for_admins(code) || code == code::UNKNOWN_EMOJI)
        {
            tracing::warn!(%error, "the app may not react to messages: nobody sees that it is at work");
            self.may_not_react.store(true, Ordering::Relaxed);
        }
        Ok(Some(reacted?.data.reaction_id))
    }

    /// Takes a reaction of the app's away.
    pub async fn unreact(&self, message_id: &str, reaction_id: &str) -> Result<(), SendError> {
        const METHOD: &str = "im/v1/messages/:message_id/reactions/:reaction_id";
        let url = self.wire.url(&["im", "v1", "messages", message_id, "reactions", reaction_id]);
        let request = self.wire.request(METHOD, Method::DELETE, url)?;
        self.call(METHOD, &request, &mut self.effort()).await.map(|_: Value| ())
    }
}
