//! The HTTP API at an address that streams, with the agent in it: tokens of `/api/chat` arrive as the model makes them.
//!
//! A run elsewhere could tell of its tokens only by way of a store, at a write for each few of them. So this function
//! carries the agent, and makes the replies of its own rooms itself, beside a turn that is queued as for every door and
//! comes a little later: [`annals_shared::queue::SafetyNet`]. Both are runs like any other. The claim decides between them,
//! and the reply's key; what one leaves, the other goes on with.

use std::time::Duration;

use annals_agent::{Agent, Attempt, TurnError, Undone};
use annals_shared::chat_key::ChatKey;
use annals_shared::sort_key::SortKey;

/// How long behind its request a run may begin: the function's timeout must leave it time, and the queued turn is there.
const LATEST: Duration = Duration::from_mins(1);
/// How often a chat that another run has is looked at.
const PAUSE: Duration = Duration::from_secs(1);

/// Runs the turn of the message at `from`, as soon as no other run has the chat. What is left undone here is the queued
/// turn's.
pub async fn run(agent: &Agent, chat: &ChatKey, from: &SortKey) {
    let latest = agent.clock.now().plus(LATEST);
    loop {
        let run = async {
            tokio::select! {
                done = agent.run(chat, Some(from)) => done,
                // An environment may stand still between two of its requests; no run outlives its lease.
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
                tracing::error!(%error, "a turn is not done here; it is queued");
                return;
            }
        }
    }
}

/// Waits until no run has the chat; `false` where that takes too long.
async fn is_free(agent: &Agent, chat: &ChatKey, latest: annals_shared::sort_key::Timestamp) -> bool {
    loop {
        match agent.history.busy_until(chat).await {
            Ok(None) => return true,
            Ok(Some(_)) => {}
            Err(error) => {
                tracing::warn!(%error, "a run cannot see whether another has its chat");
                return false;
            }
        }
        if agent.clock.now() >= latest {
            return false;
        }
        agent.clock.sleep(PAUSE).await;
    }
}
