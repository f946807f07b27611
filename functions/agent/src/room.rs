//! Room for a turn: compaction before it, and where that fails or does not do, what is left out of what the model sees.

use std::time::Duration;

use annals_shared::compaction::cut::Why;
use annals_shared::compaction::run::CompactionError;
use annals_shared::context::Context;
use annals_shared::history::turn::Lease;
use annals_shared::message::UiMessage;
use annals_shared::record::{Kind, Record};
use annals_shared::sort_key::{SortKey, Timestamp};
use serde_json::json;

use crate::turn::{Agent, TurnError};

/// How many summaries one turn makes at most. Where a history is so far over that these do not bring it under, the turn
/// goes on with what fits, and the next one goes on compacting.
const MAX_PASSES: usize = 4;
/// How long those before a turn may take in all. With what a capture and the answer may take, a run still ends well
/// within the function's five minutes.
const DEADLINE: Duration = Duration::from_mins(1);

/// What a turn has spent on making room.
#[derive(Debug, Default)]
pub(crate) struct Passes {
    made: usize,
    is_over: bool,
    until: Option<Timestamp>,
}

impl Agent {
    /// Compacts once if what `records` show exceeds `budget` tokens, or leaves the table soon. Answers whether it did, and
    /// the records are to be read again. A failure is logged, and the turn goes on: what does not fit is left out.
    pub(crate) async fn make_room(
        &self,
        lease: &mut Lease,
        records: &[Record],
        budget: u32,
        passes: &mut Passes,
    ) -> Result<bool, TurnError> {
        if passes.is_over || passes.made >= MAX_PASSES {
            return Ok(false);
        }
        let Some(why) = self.compaction().is_due(records, budget) else { return Ok(false) };
        passes.made += 1;
        let now = self.clock.now();
        let until = *passes.until.get_or_insert(now.plus(DEADLINE));
        let is_done = tokio::select! {
            is_done = self.compact_or_go_on(lease, records, why) => is_done?,
            () = self.clock.sleep(until.since(now)) => {
                tracing::warn!("a chat is not compacted in time; the turn goes on");
                false
            }
        };
        passes.is_over = !is_done;
        Ok(is_done)
    }

    /// One compaction; answers whether there was one. A failure is logged, and tried again by the next turn.
    pub(crate) async fn compact_or_go_on(
        &self,
        lease: &mut Lease,
        records: &[Record],
        why: Why,
    ) -> Result<bool, TurnError> {
        match self.compact(lease, records, why, None).await {
            Ok(Some(_)) => Ok(true),
            Ok(None) => {
                if let Why::Expiring { before } = why {
                    self.compaction().keep(records, before).await?;
                }
                Ok(false)
            }
            Err(CompactionError::Superseded(superseded)) => Err(superseded.into()),
            Err(error) => {
                tracing::warn!(%error, "a chat is not compacted; the turn goes on");
                Ok(false)
            }
        }
    }

    /// One compaction. Answers whether it leaves more; `None` where there is nothing to compact.
    async fn compact(
        &self,
        lease: &mut Lease,
        records: &[Record],
        why: Why,
        focus: Option<&str>,
    ) -> Result<Option<bool>, CompactionError> {
        let Some(compacted) = self.compaction().run(lease, records, why, focus).await? else {
            lease.head.compacting = None;
            return Ok(None);
        };
        lease.head.compacting = None;
        if self.history.retention().archive {
            lease.head.longest_segment.get_or_insert_default();
        }
        lease.head.context_from = compacted.context_from.or(lease.head.context_from.take());
        Ok(Some(compacted.leaves_more))
    }

    /// Carries out a `/compact`: as many summaries as it takes to have one of all but the most recent messages. Answers
    /// with what to tell.
    pub(crate) async fn compact_as_asked(
        &self,
        lease: &mut Lease,
        command: &Record,
    ) -> Result<String, TurnError> {
        let text = command.message.plain_text();
        let focus = text.trim().split_once(char::is_whitespace).map(|(_, focus)| focus.trim());
        let focus = focus.filter(|focus| !focus.is_empty());
        for _ in 0..MAX_PASSES {
            let seen = self.history.context(&lease.chat, &lease.head, None, &self.policy(0)).await?;
            let compacted = self.compact(lease, &seen.records, Why::Asked, focus).await?;
            if compacted.is_none_or(|leaves_more| !leaves_more) {
                break;
            }
        }
        // From what is stored: a run that died may have done some of it, or all.
        let records = self.reread(lease, None).await?;
        let summaries = records.iter().filter(|record| record.kind == Kind::Summary);
        let summary = summaries.max_by_key(|summary| summary.sent_at);
        let made = summary.filter(|summary| summary.sent_at >= command.sent_at);
        let counted = made.and_then(|summary| summary.source.as_ref()).map_or(0, |source| source.count);
        let kept = self.compaction().rules().keep_recent;
        Ok(match counted {
            0 => format!(
                "There is nothing to compact: the last {kept} messages always stay as they were said."
            ),
            1 => format!("Done: 1 message is in the summary now. The last {kept} stay as they were said."),
            n => {
                format!("Done: {n} messages are in the summary now. The last {kept} stay as they were said.")
            }
        })
    }

    /// Notes on a reply what the model did not see: the last resort is on record.
    pub(crate) fn note_what_was_left_out(message: &mut UiMessage, seen: &Context, shortened: &[String]) {
        if seen.left_out > 0 || !shortened.is_empty() {
            let left_out = json!({"leftOut": seen.left_out, "shortened": shortened});
            message.metadata.insert("context".into(), left_out);
        }
    }

    /// Reads the records of a turn again, from `from` on.
    pub(crate) async fn reread(
        &self,
        lease: &Lease,
        from: Option<&SortKey>,
    ) -> Result<Vec<Record>, TurnError> {
        Ok(self.history.context(&lease.chat, &lease.head, from, &self.policy(0)).await?.records)
    }
}
