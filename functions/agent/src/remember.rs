//! Memory in a turn: sessions that have ended are captured before they leave the context, and known facts are recalled.

use annals_core::chat_key::ChatKey;
use annals_core::record::Record;
use annals_core::trace::Step;
use annals_engine::remembering::{Recalled, Remembering, recalled};
use annals_store::history::turn::{Ending, Lease};

use crate::agent::Agent;
use crate::retry_policy::CAPTURES_TIME;

/// Captures facts of sessions that have ended; returns what the head must note of it. A failure is logged: the answer does
/// not wait for the capture, and upkeep tries again.
pub(crate) async fn capture_ended(agent: &Agent, lease: &Lease, records: &[Record]) -> Ending {
    if !records.iter().any(Record::asks) {
        // Nobody asks in this chat; upkeep knows who may use the bot.
        return uncaptured(records);
    }
    let remembering = Remembering {
        history: agent.history.clone(),
        model: agent.summarizer(),
        view: agent.view,
        memory: agent.memory.clone(),
    };
    let mut timing = agent.recorder.begin(Step::Remember);
    let capturing = Box::pin(remembering.capture_ended(lease, records, agent.clock.now()));
    let Some(looked) = agent.clock.within(CAPTURES_TIME, capturing).await else {
        tracing::warn!("failed to capture an ended session in time; upkeep tries again");
        return uncaptured(records);
    };
    match &looked {
        Ok(None) => timing.forget(),
        Ok(Some(_)) => {}
        Err(_) => timing.failed("failed"),
    }
    match looked {
        Ok(looked) => Ending { captured_to: looked.map(|looked| looked.captured_to), ..Ending::default() },
        Err(error) => {
            tracing::warn!(%error, "failed to capture an ended session; upkeep tries again");
            uncaptured(records)
        }
    }
}

/// Reads the memory and the time zone for this turn. A failure is logged: an answer without them is better than none.
pub(crate) async fn recall(agent: &Agent, chat: &ChatKey, records: &[Record]) -> Option<Recalled> {
    match recalled(&agent.history, chat, records, agent.clock.now(), &agent.view, &agent.memory).await {
        Ok(recalled) => Some(recalled),
        Err(error) => {
            tracing::warn!(%error, "failed to recall memory; the turn continues without it");
            None
        }
    }
}

/// Returns the note by which upkeep finds the sessions of `records` that were not captured.
pub(crate) fn uncaptured(records: &[Record]) -> Ending {
    Ending { uncaptured_from: records.first().map(|record| record.key.base()), ..Ending::default() }
}
