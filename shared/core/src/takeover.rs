//! Chats that an operator has taken over, and what an operator sends as the bot: [`Takeover`], [`Dispatch`].
//!
//! While a chat is taken over, its messages are stored and nobody asks a model about them. An operator's message is
//! appended as a notice, as a `/compact` is, and the chat's next turn sends it as its reply:
//!
//! ```json
//! {"role": "user", "parts": [{"type": "text", "text": "It leaves today."}],
//!  "metadata": {"dispatch": {"by": "Grace", "answers": true, "to": "41"}}}
//! {"role": "assistant", "parts": [{"type": "text", "text": "It leaves today."}], "metadata": {"sentBy": "Grace"}}
//! ```

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::chat_key::ChatKey;
use crate::sort_key::{MessageId, Timestamp};

/// The operator who holds a chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Takeover {
    /// Name of the operator.
    pub by: String,
    /// Time at which the operator took the chat over.
    pub at: Timestamp,
}

/// A message of an operator, a schedule, or another chat's agent, that a turn is to send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dispatch {
    /// Name of the operator, id of the agent, or `schedule <id>`.
    pub by: String,
    /// True if the chat was taken over, so that it answers the messages that were unanswered when it was stored.
    pub answers: bool,
    /// Id of the person's last message then: Lark sends to a message.
    pub to: MessageId,
    /// The chat whose agent, `by`, sends it with the tool `chat_send`; `None` otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<ChatKey>,
}

/// The chat and the agent that sent a message of the agent, in its metadata.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SentFrom {
    pub chat_key: ChatKey,
    pub agent_id: String,
}
