//! Memory in a turn: what an ended Session leaves is captured before it leaves the context, and what is known is recalled.

use std::time::Duration;

use annals_shared::chat_key::ChatKey;
use annals_shared::history::turn::{Ending, Lease};
use annals_shared::memory::sessions::{Recalled, Remembering, recalled};
use annals_shared::record::Record;

use crate::turn::Agent;

/// How long a capture may hold up an answer. Where it takes longer, upkeep does it.
const DEADLINE: Duration = Duration::from_secs(30);

impl Agent {
    /// Captures what is worth keeping of Sessions that have ended; answers with what there is to note of it in the head. A
    /// failure is logged: the answer does not wait for it, and upkeep tries again.
    pub(crate) async fn remember(&self, lease: &Lease, records: &[Record]) -> Ending {
        if !records.iter().any(|record| record.asks) {
            // Of a chat that nobody asks in; upkeep knows who may use the bot.
            return uncaptured(records);
        }
        let remembering = Remembering {
            history: self.history.clone(),
            model: self.model.clone(),
            view: self.view,
            memory: self.memory,
        };
        let captured_to = lease.head.captured_to.as_ref();
        let looked = tokio::select! {
            looked = remembering.capture_ended(&lease.chat, records, captured_to, self.clock.now()) => looked,
            () = self.clock.sleep(DEADLINE) => {
                tracing::warn!("an ended session is not captured in time");
                return uncaptured(records);
            }
        };
        match looked {
            Ok(looked) => {
                Ending { captured_to: looked.map(|looked| looked.captured_to), ..Ending::default() }
            }
            Err(error) => {
                tracing::warn!(%error, "an ended session is not captured yet");
                uncaptured(records)
            }
        }
    }

    /// What memory tells this turn. A failure is logged: an answer without it is better than none.
    pub(crate) async fn recall(&self, chat: &ChatKey, records: &[Record]) -> Option<Recalled> {
        match recalled(&self.history, chat, records, &self.view, self.memory).await {
            Ok(recalled) => recalled,
            Err(error) => {
                tracing::warn!(%error, "a turn goes without memory");
                None
            }
        }
    }
}

/// Where upkeep finds what was not captured of `records`, once the context starts behind it.
fn uncaptured(records: &[Record]) -> Ending {
    Ending { uncaptured_from: records.first().map(|record| record.key.base()), ..Ending::default() }
}
