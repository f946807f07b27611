//! One run of a chat, from claim to finish: [`Run`].

use annals_core::sort_key::{SortKey, Timestamp};
use annals_store::history::turn::Lease;

use crate::agent::Agent;
use crate::making::{Making, Unstored};
use crate::retry_policy::{Asking, Attempt, MODEL_RESERVE, SEND_RESERVE};
use crate::typing::Typing;

/// A run that has claimed its chat.
pub(crate) struct Run<'a> {
    pub(crate) lease: &'a Lease,
    /// The messages that the turns of the queue name.
    pub(crate) named: &'a [SortKey],
    /// False once this process has done a turn of the chat: then it continues with any unanswered message.
    pub(crate) is_first: bool,
    pub(crate) attempt: Attempt,
    /// Time at which the process has had the queue's turn for as long as a lease lasts.
    pub(crate) ends_at: Timestamp,
    pub(crate) typing: &'a Typing,
    pub(crate) making: &'a Making,
    /// The reply that a `/stop` has kept this process from storing.
    pub(crate) unstored: Option<&'a Unstored>,
}

impl Run<'_> {
    /// Returns the end of the time in which the model is asked and calls are made.
    pub(crate) fn ask_until(&self) -> Timestamp {
        self.ends_at.minus(MODEL_RESERVE)
    }

    /// Returns the policy for asking the run's `agent` for a reply.
    pub(crate) fn asking(&self, agent: &Agent) -> Asking {
        let has_fallback = agent.model.fallback().is_some();
        let asking = Asking::new(self.attempt, has_fallback, agent.clock.now(), self.ask_until());
        asking.with_rounds(agent.max_rounds())
    }

    /// Returns the end of the time in which pieces of the reply are sent.
    pub(crate) fn send_until(&self) -> Timestamp {
        self.ends_at.minus(SEND_RESERVE)
    }
}
