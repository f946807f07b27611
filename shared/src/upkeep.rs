//! What is done for a chat that is due: what the compactor's visits do.

use crate::chat_key::ChatKey;
use crate::config::ViewConfig;
use crate::history::turn::Superseded;
use crate::history::{History, HistoryError};
use crate::model::{Model, ModelError};
use crate::sort_key::Timestamp;

/// Visits chats.
#[derive(Clone, Debug)]
pub struct Upkeep {
    /// The histories.
    pub history: History,
    /// What summarises.
    pub model: Model,
    /// What decides a context.
    pub view: ViewConfig,
    /// `AGENT_ID`: who speaks in summaries.
    pub agent_id: String,
}

/// What a visit did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visited {
    /// How many records it archived.
    pub archived: u32,
    /// In how many segments.
    pub segments: u32,
    /// How many summaries it appended.
    pub summaries: u32,
    /// How many memory entries it captured.
    pub captured: u32,
    /// When to come again for what is stored already; `None` where only new records make another visit worth while.
    pub next: Option<Timestamp>,
    /// Whether it did all there was to do. One that did not is gone on with at `next`, or by the next run.
    pub finished: bool,
}

/// A visit did not do its work; the history is as good as it was, and the chat is visited again.
#[derive(Debug, thiserror::Error)]
pub enum UpkeepError {
    /// A run has the chat.
    #[error("a run has this chat until {until} (epoch milliseconds)")]
    Busy {
        /// When its lease runs out.
        until: Timestamp,
    },
    /// A run took the chat over.
    #[error(transparent)]
    Superseded(#[from] Superseded),
    /// The history could not be read or written.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// The model gave no answer.
    #[error(transparent)]
    Model(#[from] ModelError),
}

impl Upkeep {
    /// Does for `chat` what is due.
    pub async fn visit(&self, chat: &ChatKey) -> Result<Visited, UpkeepError> {
        if let Some(until) = self.history.busy_until(chat).await? {
            return Err(UpkeepError::Busy { until });
        }
        Ok(Visited { archived: 0, segments: 0, summaries: 0, captured: 0, next: None, finished: true })
    }
}
