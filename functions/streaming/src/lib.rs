//! The HTTP API at an address that streams, with the agent in the same process: clients of `/api/chat` get tokens as the model
//! makes them.
//!
//! A run in another process could pass on its tokens only through a store, with a write for every few of them. So this
//! function contains the agent and makes the replies of its rooms itself. A turn is queued too, as for every channel, with a
//! short delay: [`annals_store::queue::SafetyNet`]. Both runs are ordinary: the claim of the chat and the key of the reply
//! decide between them, and one continues what the other leaves unfinished.

use std::time::Duration;

use annals_agent::{Agent, Attempt, TurnError, Undone};
use annals_core::chat_key::ChatKey;
use annals_core::sort_key::SortKey;

/// Latest start of a run after its request. The function's timeout must leave it time; after that, the queued turn answers.
const LATEST: Duration = Duration::from_mins(1);
/// Pause between two checks of a chat that another run holds.
const PAUSE: Duration = Duration::from_secs(1);

/// Runs the turn of the message at `from` as soon as no other run holds the chat. The queued turn does what this run leaves
/// undone.
pub async fn run(agent: &Agent, chat: &ChatKey, from: &SortKey) {
    let latest = agent.clock.now().plus(LATEST);
    loop {
        let run = async {
            tokio::select! {
                done = agent.run(chat, Some(from)) => done,
                // An environment may be frozen between two requests; no run outlives its lease.
                () = agent.clock.sleep(agent.lease) => {
                    Err(Undone { error: TurnError::OutOfTime, attempt: Attempt::FIRST })
                }
            }
        };
        match run.await {
            Ok(()) => return,
            Err(Undone { error: TurnError::Busy { .. } | TurnError::Unfinished, .. })
                if agent.clock.now() < latest =>
            {
                if !is_free(agent, chat, latest).await {
                    return;
                }
            }
            Err(error) => {
                tracing::error!(%error, "failed to run a turn here; the queued turn runs it");
                return;
            }
        }
    }
}

/// Waits until no run holds the chat; returns false if that takes too long.
async fn is_free(agent: &Agent, chat: &ChatKey, latest: annals_core::sort_key::Timestamp) -> bool {
    loop {
        match agent.history.busy_until(chat).await {
            Ok(None) => return true,
            Ok(Some(_)) => {}
            Err(error) => {
                tracing::warn!(%error, "failed to read whether another run holds the chat");
                return false;
            }
        }
        if agent.clock.now() >= latest {
            return false;
        }
        agent.clock.sleep(PAUSE).await;
    }
}
