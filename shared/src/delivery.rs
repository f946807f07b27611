//! Which door a reply goes out by, and what became of it; and by which a file is fetched that somebody sent.

mod signs;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::approval::Button;
use crate::channel::file::FileError;
use crate::channel::lark;
use crate::channel::telegram::address::Address;
use crate::channel::telegram::client as telegram;
use crate::media::Origin;
use crate::pace::Pace;
use crate::record::{Channel, Record};
use crate::sort_key::{SortKey, Timestamp};

pub use self::signs::Drafted;

/// How long a fetch waits where a platform asks to slow down: an answer waits for it.
const FETCH_PATIENCE: Duration = Duration::from_secs(3);

/// Sends replies to the channels that are set up; what has no channel set goes to the outbox, where there is one.
#[derive(Clone, Default)]
pub struct Deliverer {
    telegram: Option<telegram::Client>,
    lark: Option<lark::client::Client>,
    outbox: Option<Arc<dyn Outbox>>,
    is_paced: bool,
}

/// Where the local program keeps the replies of channels that are not set up.
pub trait Outbox: Send + Sync {
    /// Keeps `entry`, once for each `id`.
    fn post<'a>(&'a self, id: &'a str, entry: OutboxEntry) -> BoxFuture<'a, Result<(), DeliveryError>>;
}

/// A reply that would have been sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutboxEntry {
    /// The channel.
    pub channel: Channel,
    /// The platform's id of the window.
    pub chat_id: String,
    /// The text.
    pub text: String,
    /// When.
    pub ts: Timestamp,
}

/// A reply did not reach its platform.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    /// The platform takes nothing for this chat: the bot was blocked or removed. Remember it, do not repeat it.
    #[error("{reason}")]
    Blocked {
        /// What the platform said.
        reason: String,
    },
    /// The platform will never take this reply.
    #[error("{reason}")]
    Refused {
        /// What the platform said.
        reason: String,
    },
    /// The chat has another id now.
    #[error("the chat has moved to {to}")]
    Moved {
        /// Telegram's new chat id.
        to: i64,
    },
    /// It may be taken later.
    #[error("{reason}")]
    Unavailable {
        /// What the platform or the connection said.
        reason: String,
    },
}

/// A reply on its way out.
#[derive(Clone, Copy, Debug)]
pub struct Parcel<'a> {
    /// The message that it answers, whose door it goes out by.
    pub to: &'a Record,
    /// Where the reply is, or will be, recorded: tells repeats from others.
    pub key: &'a SortKey,
    /// The text, in Markdown.
    pub text: &'a str,
    /// What people are asked to allow, in Markdown, or nothing. It is rendered by itself and sent after the text, so that nothing
    /// in the text changes how the arguments look.
    pub question: &'a str,
    /// When.
    pub ts: Timestamp,
    /// The window's id now, where it is no longer the one that `to` came from.
    pub moved_to: Option<i64>,
    /// What people are asked to allow, where the platform has buttons.
    pub buttons: &'a [Asked],
}

/// A call that people are asked to allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// What names it beside the others, if there are others.
    pub number: Option<usize>,
    /// The tool.
    pub tool: String,
    /// The request.
    pub id: String,
    /// The base of its reply.
    pub base: SortKey,
}

impl Asked {
    /// The button that allows it, or does not.
    pub fn button(&self, approved: bool) -> Button {
        Button { id: self.id.clone(), base: Some(self.base.clone()), approved }
    }

    /// What stands on that.
    pub fn label(&self, approved: bool) -> String {
        let word = if approved { "✅ Approve" } else { "❌ Deny" };
        self.number.map_or_else(|| word.to_owned(), |number| format!("{word} {number}"))
    }
}

/// A step of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A piece is about to be sent.
    Next {
        /// How many are before it.
        piece: usize,
        /// Whether none is behind it.
        is_last: bool,
    },
    /// A piece is sent, and others are behind it.
    Sent {
        /// How many are.
        pieces: usize,
    },
}

/// Told of each step before the next one is taken; its error ends the delivery there. (No `AsyncFn`: its future cannot be
/// spawned yet.)
pub type Progress<'a> = dyn Fn(Step) -> BoxFuture<'a, Result<(), DeliveryError>> + Send + Sync + 'a;

/// For whom the steps are nothing.
pub const NO_PROGRESS: &Progress<'static> = &|_| Box::pin(async { Ok(()) });

impl Deliverer {
    /// A deliverer to `telegram`, to `lark`, and to `outbox` for every channel that is not set up.
    pub fn new(
        telegram: Option<telegram::Client>,
        lark: Option<lark::client::Client>,
        outbox: Option<Arc<dyn Outbox>>,
    ) -> Self {
        Self { telegram, lark, outbox, is_paced: false }
    }

    /// The same deliverer, where chats have a [`Deliverer::pace`].
    #[must_use]
    pub fn with_paces(mut self, is_paced: bool) -> Self {
        self.is_paced = is_paced;
        self
    }

    /// How fast the chat that `to` was said in may be sent messages, where that is limited: whoever delivers keeps to it.
    pub fn pace(&self, to: &Record) -> Option<Pace> {
        match (to.channel, &self.telegram, &self.lark) {
            _ if !self.is_paced => None,
            (Channel::Telegram, Some(_), _) => {
                let is_private = Address::of(to)?.chat_id > 0;
                Some(if is_private { telegram::PRIVATE_PACE } else { telegram::GROUP_PACE })
            }
            (Channel::Lark, _, Some(_)) => Some(lark::client::CHAT_PACE),
            _ => None,
        }
    }

    /// Whether replies of this channel are sent anywhere; callers of the HTTP API fetch theirs.
    pub fn reaches(&self, channel: Channel) -> bool {
        match channel {
            Channel::Telegram => self.telegram.is_some() || self.outbox.is_some(),
            Channel::Lark => self.lark.is_some() || self.outbox.is_some(),
            Channel::Discord => self.outbox.is_some(),
            Channel::Http | Channel::Web | Channel::Terminal => false,
        }
    }

    /// The bytes at `origin`, at most `limit` of them, from the platform that has them.
    pub async fn fetch(&self, origin: &Origin<'_>, limit: usize) -> Result<Vec<u8>, FileError> {
        match (origin, &self.telegram, &self.lark) {
            (Origin::Telegram { file_id }, Some(client), _) => {
                client.clone().with_patience(FETCH_PATIENCE).file(file_id, limit).await
            }
            (Origin::Lark { message_id, key, kind }, _, Some(client)) => {
                client.resource(message_id, key, kind, limit).await
            }
            _ => Err(FileError::NoChannel),
        }
    }

    /// Sends the pieces of `parcel` behind the first `sent`; `progress` is told of each, and notes how many have been
    /// sent, so that a crash goes on behind them.
    pub async fn deliver(
        &self,
        parcel: Parcel<'_>,
        sent: usize,
        progress: &Progress<'_>,
    ) -> Result<(), DeliveryError> {
        if !self.reaches(parcel.to.channel) {
            return Ok(());
        }
        match (parcel.to.channel, &self.telegram, &self.lark, &self.outbox) {
            (Channel::Telegram, Some(client), _, _) => to_telegram(client, parcel, sent, progress).await,
            (Channel::Lark, _, Some(client), _) => to_lark(client, parcel, sent, progress).await,
            (channel, _, _, Some(outbox)) => {
                let entry = OutboxEntry {
                    channel,
                    chat_id: parcel.to.chat_id.clone(),
                    text: parcel.texts().collect::<Vec<_>>().join("\n\n"),
                    ts: parcel.ts,
                };
                outbox.post(&parcel.id(), entry).await
            }
            (_, _, _, None) => Ok(()),
        }
    }

    /// Whether the platform says that this user administers this group; not where it does not tell.
    pub async fn is_administrator(&self, channel: Channel, chat_id: &str, user_id: &str) -> bool {
        let asked = match (channel, &self.telegram, &self.lark) {
            (Channel::Telegram, Some(client), _) => {
                client.is_administrator(chat_id, user_id).await.map_err(|error| error.to_string())
            }
            (Channel::Lark, _, Some(client)) => {
                client.is_manager(chat_id, user_id).await.map_err(|error| error.to_string())
            }
            _ => Ok(false),
        };
        asked.unwrap_or_else(|error| {
            tracing::warn!(error, "a platform does not tell who administers a group");
            false
        })
    }
}

impl Parcel<'_> {
    /// Returns what there is to send, each to be rendered by itself.
    fn texts(&self) -> impl Iterator<Item = &str> {
        [self.text, self.question].into_iter().filter(|text| !text.is_empty())
    }

    /// Names the reply, the same in every try.
    fn id(&self) -> String {
        format!("{} {}", self.to.chat, self.key)
    }
}

async fn to_telegram(
    client: &telegram::Client,
    parcel: Parcel<'_>,
    sent: usize,
    progress: &Progress<'_>,
) -> Result<(), DeliveryError> {
    let mut address = Address::of(parcel.to).ok_or_else(|| nowhere("Telegram"))?;
    if let Some(chat_id) = parcel.moved_to {
        // Message and topic ids are the old chat's.
        address = Address { chat_id, reply_to: None, thread_id: None, ..address };
    }
    let chunks: Vec<_> = parcel.texts().flat_map(telegram::chunks).collect();
    for (index, chunk) in chunks.iter().enumerate().skip(sent) {
        let reply_to = address.reply_to.filter(|_| index == 0);
        let keyboard = (index + 1 == chunks.len()).then(|| telegram::keyboard(parcel.buttons)).flatten();
        let is_last = index + 1 == chunks.len();
        progress(Step::Next { piece: index, is_last }).await?;
        client.send_with(&Address { reply_to, ..address.clone() }, chunk, keyboard.as_ref()).await?;
        if !is_last {
            progress(Step::Sent { pieces: index + 1 }).await?;
        }
    }
    Ok(())
}

async fn to_lark(
    client: &lark::client::Client,
    parcel: Parcel<'_>,
    sent: usize,
    progress: &Progress<'_>,
) -> Result<(), DeliveryError> {
    let address = lark::address::Address::of(parcel.to).ok_or_else(|| nowhere("Lark"))?;
    let chunks: Vec<_> = parcel.texts().flat_map(lark::render::chunks).collect();
    for (index, chunk) in chunks.iter().enumerate().skip(sent) {
        let is_last = index + 1 == chunks.len() && parcel.buttons.is_empty();
        progress(Step::Next { piece: index, is_last }).await?;
        client.send_chunk(&address, chunk, &parcel.id(), index).await?;
        if !is_last {
            progress(Step::Sent { pieces: index + 1 }).await?;
        }
    }
    if !parcel.buttons.is_empty() {
        // A card of its own, behind what is said: a text has no buttons.
        let card = lark::card::of(&parcel.to.chat, parcel.buttons);
        progress(Step::Next { piece: chunks.len(), is_last: true }).await?;
        match client.send_card(&address, &card, &parcel.id(), chunks.len()).await {
            // What is said before it tells how to answer without buttons.
            Err(error) if error.is_permanent() => tracing::warn!(%error, "Lark takes no buttons"),
            sent => drop(sent?),
        }
    }
    Ok(())
}

fn nowhere(platform: &str) -> DeliveryError {
    DeliveryError::Refused { reason: format!("the message that it answers names no {platform} chat") }
}

impl From<telegram::SendError> for DeliveryError {
    fn from(error: telegram::SendError) -> Self {
        use telegram::SendError;
        match error {
            SendError::Blocked { description } => Self::Blocked { reason: description },
            SendError::Migrated { to } => Self::Moved { to },
            other if other.is_permanent() => Self::Refused { reason: other.to_string() },
            other => Self::Unavailable { reason: other.to_string() },
        }
    }
}

impl From<lark::client::SendError> for DeliveryError {
    fn from(error: lark::client::SendError) -> Self {
        let reason = error.to_string();
        match error {
            lark::client::SendError::Blocked { .. } => Self::Blocked { reason },
            other if other.is_permanent() => Self::Refused { reason },
            _ => Self::Unavailable { reason },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::approval::{question, request_part};
    use crate::message::{Role, UiMessage};
    use crate::model::ToolCall;
    use crate::told::user;

    /// An HTML block or a fence that the model leaves open would swallow the question's fence if both were one document; an
    /// argument that closes it would turn the arguments after it into Markdown, which hides characters.
    #[test]
    fn what_the_model_says_does_not_change_how_the_arguments_look() {
        let to = user(0, 1);
        for before in
            ["<!--", "<script>", "<pre>", "<![CDATA[", "<?", "<div>", "```", "~~~", "> ```", "- x\n\n  ```"]
        {
            for close in ["-->", "</script>", "</pre>", "]]>", "?>", "```", "~~~"] {
                let input = json!({"aNote": close, "command": "rm -rf *old* [~/tmp](https://mallory.example) __all__"});
                let call = ToolCall { id: "c".into(), name: "shell".into(), input: input.clone() };
                let parts = vec![request_part(&call, "0123456789abcdef", false)];
                let question = question(&UiMessage::new("", Role::Assistant, parts)).unwrap();
                let parcel = Parcel {
                    to: &to,
                    key: &to.key,
                    text: before,
                    question: &question,
                    ts: to.ts,
                    moved_to: None,
                    buttons: &[],
                };
                let json = serde_json::to_string_pretty(&input).unwrap();
                let command = json.lines().find(|line| line.contains("command")).unwrap().trim();
                let shown: Vec<_> = parcel.texts().flat_map(telegram::chunks).collect();
                assert!(
                    shown.iter().any(|chunk| chunk.text.contains(command)),
                    "{before} {close}: {shown:?}"
                );
            }
        }
    }
}
