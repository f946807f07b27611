//! The errors of a run: [`TurnError`], and [`Undone`], which says when to run again.

use std::time::Duration;

use annals_channel::delivery::DeliveryError;
use annals_core::sort_key::Timestamp;
use annals_engine::compaction::CompactionError;
use annals_model::ModelError;
use annals_store::history::HistoryError;
use annals_store::memory::MemoryError;

use crate::retry_policy::Attempt;

/// A run that ended before its turn was done. The next attempt at the turn continues it.
#[derive(Debug, thiserror::Error)]
pub enum TurnError {
    /// The history, or the links of a person, could not be read or written. [`HistoryError::LeaseLost`] if another run
    /// took the chat over.
    #[error(transparent)]
    History(#[from] HistoryError),
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error("failed to compact a chat on /compact; it is retried: {0}")]
    Compaction(CompactionError),
    #[error("failed to move memory entries to a linked person; it is retried: {0}")]
    Memory(#[from] MemoryError),
    #[error("failed to deliver a stored reply; it is retried: {0}")]
    Delivery(DeliveryError),
    #[error("failed to reach the server of an approved call, which is not made yet; it is retried")]
    ServerUnreachable,
    #[error("another process has this chat until {until} (epoch milliseconds)")]
    Busy { until: Timestamp },
    #[error("the run took longer than its lease")]
    OutOfTime,
    #[error("the run has too little time left for the chat's next turn; the next run continues")]
    Unfinished,
    /// The chat is released, and its next run finds what there is.
    #[error("the messages that the run was answering were taken back")]
    TakenBack,
}

impl TurnError {
    /// Returns true if this attempt failed because of the model, a tool's server or the platform, so that it counts.
    pub fn counts(&self) -> bool {
        matches!(self, Self::Model(_) | Self::Compaction(_) | Self::Delivery(_) | Self::ServerUnreachable)
    }

    /// Returns true if another run continues, so that nothing has failed.
    pub fn continues_elsewhere(&self) -> bool {
        self.is_lease_lost() || matches!(self, Self::Busy { .. } | Self::Unfinished)
    }

    /// Returns true if another run took the chat over.
    pub(crate) fn is_lease_lost(&self) -> bool {
        matches!(self, Self::History(HistoryError::LeaseLost))
    }
}

impl From<CompactionError> for TurnError {
    fn from(error: CompactionError) -> Self {
        match error {
            CompactionError::History(error) => error.into(),
            CompactionError::Memory(error) => error.into(),
            error => Self::Compaction(error),
        }
    }
}

/// A run that ended before its turn was done, with the number of the attempt.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Undone {
    #[source]
    pub error: TurnError,
    /// Number of the attempt at the turn.
    pub attempt: Attempt,
}

impl Undone {
    /// Returns the pause before the queue delivers the turn again, after `deliveries` of them. If another run holds the
    /// chat, the pause lasts until its lease ends. An error that is not counted as an attempt (a store that fails) pauses too.
    pub fn retry_after(&self, now: Timestamp, deliveries: u32) -> Duration {
        match &self.error {
            TurnError::Unfinished => Duration::ZERO,
            TurnError::Busy { until } => self.attempt.pause().max(until.since(now) + Duration::from_secs(1)),
            error if error.counts() => self.attempt.pause(),
            _ => Attempt(deliveries).pause(),
        }
    }
}
