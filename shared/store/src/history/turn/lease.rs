//! Claiming a chat, holding it, and the writes to a head. That no message is covered by two replies follows from these
//! conditions: `docs/design.md`.
//!
//! | write to the head | condition | effect |
//! | --- | --- | --- |
//! | `claim` | no lease, one that is over, or one of `housekeeping` | `fence` + 1, new `leaseUntil` and `claim`; returns the head |
//! | `claim_for_upkeep` | no lease, or one that is over | the same, with `housekeeping` |
//! | `claim_to_forget` | anything but a live lease of `forgetting` | the same, with `forgetting` |
//! | `stop` | no later `stoppedTo`, no `forgetting` | `fence` + 1, `stoppedTo`; no lease, or that of a run for 5 s more |
//! | `take_over` | the fence that was read, no `takenOver`, no live `forgetting` | `takenOver`; without a turn also `fence` + 1, and no lease |
//! | `claim_after_stop` | as `claim`, or `claim` in the head is still mine | as `claim` |
//! | `renew`, `reach_back` | fence is mine | `leaseUntil`; `contextFrom` |
//! | `commit` | fence is mine | `turn`: the set, or its count of delivered pieces |
//! | `finish` | fence is mine | removes turn, failures, `trace`, lease; notes where the context starts, what was captured, and the delivery |
//! | `release`, `release_unfinished` | fence is mine | removes the lease, keeps the turn; the second notes its `trace`, and counts a failure |
//! | `plan_summary`, `end_summary`; `commit_archiving`, `finish_archiving` | fence is mine | sets and removes `compacting`; `archiving` |
//! | `end_join`, `end_leave` | fence is mine | removes one of `joins`; removes `leftFor` |
//! | `finish_upkeep`, `empty_head` | fence is mine | ends a visit; leaves an emptied head |
//!
//! Without a fence of a run, and touching no turn: `givenTitle` and `chatSettings` (under the fence that was read), the end
//! of `takenOver`, `movedTo`, `continues`, `blocked`, `leftFor`, a new one of `joins`, the date in the index.

use std::time::Duration;

use annals_core::chat_key::ChatKey;
use annals_core::sort_key::Timestamp;
use annals_core::trace::Trace;
use annals_io::random;
use aws_sdk_dynamodb::types::AttributeValue;

use super::head::{Head, Held, Holder};
use crate::history::due::{DUE_AT, DUE_SHARD, seconds_up, shard_of};
use crate::history::item::{integer, packed, text, time};
use crate::history::table::{Item, TableError, Update, Written, number, string};
use crate::history::{HEAD, History, HistoryError, partition};

/// Maximum bytes of a trace in a head, which each run reads and writes.
const MAX_HEAD_TRACE_BYTES: usize = 600;

/// The right to answer in a chat, until it runs out or another claim takes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Lease {
    pub chat: ChatKey,
    pub head: Head,
    pub(in crate::history) fence: i64,
    /// The id of the claim, which stays in the head until the next one.
    claim: String,
}

impl Lease {
    /// Logs a release of the chat that failed, so that the chat stays held. A lease that is lost holds nothing.
    pub fn log_failed_release(&self, released: Result<(), HistoryError>) {
        if let Err(error) = released
            && !matches!(error, HistoryError::LeaseLost)
        {
            tracing::warn!(
                chat = %self.chat.session_id(), %error,
                "failed to release a chat; it stays held until its lease ends"
            );
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Claim {
    Claimed(Box<Lease>),
    /// Another process has it, at most until then.
    Busy(Timestamp),
}

impl History {
    /// Claims `chat` for one run of at most `duration`. One write; two if upkeep has the chat, which loses it.
    pub async fn claim(&self, chat: &ChatKey, duration: Duration) -> Result<Claim, HistoryError> {
        self.claim_as(Holder::Run, chat, duration, None).await
    }

    /// Claims the chat of `lost` again, for one run of at most `duration`, after a `/stop` took it from `lost`: the one
    /// claim that need not wait for [`STOPPED_RUN_ENDS_WITHIN`](super::STOPPED_RUN_ENDS_WITHIN). `Busy` as for
    /// [`History::claim`] if another process has claimed the chat since. One write; two if upkeep has the chat.
    pub async fn claim_after_stop(&self, lost: &Lease, duration: Duration) -> Result<Claim, HistoryError> {
        self.claim_as(Holder::Run, &lost.chat, duration, Some(&lost.claim)).await
    }

    /// Claims `chat` for upkeep of at most `duration` if nobody has it. A run may take it over at any time. One write.
    pub async fn claim_for_upkeep(&self, chat: &ChatKey, duration: Duration) -> Result<Claim, HistoryError> {
        self.claim_as(Holder::Upkeep, chat, duration, None).await
    }

    /// Claims `chat` for deleting it, for at most `duration` at a time. A run or upkeep that has it loses it, and
    /// notices within moments; only another deletion is `Busy`. At most two writes.
    pub async fn claim_to_forget(&self, chat: &ChatKey, duration: Duration) -> Result<Claim, HistoryError> {
        let claim = self.claim_as(Holder::Deletion, chat, duration, None).await;
        self.stops.notify_waiters();
        claim
    }

    async fn claim_as(
        &self,
        claimant: Holder,
        chat: &ChatKey,
        duration: Duration,
        lost: Option<&str>,
    ) -> Result<Claim, HistoryError> {
        let (now, id) = (self.clock.now(), random::hex::<8>());
        let is_own = |item: &Item| text(item, "claim") == Some(id.as_str());
        let claim = self.claim_update(claimant, chat, now, duration).set("claim", string(&id));
        let free = match lost {
            None => claim.clone().when("attribute_not_exists(leaseUntil) OR leaseUntil < :now"),
            Some(lost) => claim
                .clone()
                .when("attribute_not_exists(leaseUntil) OR leaseUntil < :now OR claim = :lost")
                .bind(":lost", string(lost)),
        };
        let mut written = self.update_head(chat, free.bind(":now", number(now))).await?;
        if let Written::Refused(held) = &written
            && !is_own(held)
            && claimant.may_take_over(Holder::of(held))
        {
            let seen = number(integer(held, "fence").unwrap_or_default());
            let taken = claim.set("takenAt", number(now)).when("fence = :seen").bind(":seen", seen);
            written = self.update_head(chat, taken).await?;
        }
        let item = match written {
            Written::Done(item) => item,
            // The SDK repeats a request whose answer was lost, and the repeat finds its own claim.
            Written::Refused(item) if is_own(&item) => item,
            Written::Refused(item) => {
                let until = time(&item, "leaseUntil");
                return Ok(Claim::Busy(until.unwrap_or(now)));
            }
        };
        let fence = integer(&item, "fence").unwrap_or_default();
        match Head::of(&item) {
            Ok(mut head) => {
                head.running_since = head.running_since.filter(|since| *since != now);
                Ok(Claim::Claimed(Box::new(Lease { chat: chat.clone(), head, fence, claim: id })))
            }
            Err(error) => {
                // Otherwise the next claim after the repair waits for the lease to end.
                let lease = Lease { chat: chat.clone(), head: Head::default(), fence, claim: id };
                lease.log_failed_release(self.release(&lease).await);
                Err(error.into())
            }
        }
    }

    /// Returns the update of a head that claims it; the condition is missing.
    fn claim_update(&self, claimant: Holder, chat: &ChatKey, now: Timestamp, duration: Duration) -> Update {
        let update = Update::default().increment("fence").set("leaseUntil", number(now.plus(duration)));
        // A head of version 0.1 may have an `expiresAt`, with which it would leave the table.
        let update = update.remove(["expiresAt"]);
        match claimant {
            Holder::Run => {
                update.set_if_absent("runningSince", number(now)).remove(["housekeeping", "forgetting"])
            }
            Holder::Upkeep => update.set("housekeeping", AttributeValue::Bool(true)).remove(["forgetting"]),
            // With a date for the compactor: the deletion may remove the entry by which a process has registered the
            // chat, and never come to its own end.
            Holder::Deletion => update
                .set("forgetting", AttributeValue::Bool(true))
                .set(DUE_SHARD, string(shard_of(chat).to_string()))
                .set_if_absent(DUE_AT, number(seconds_up(now.plus(self.retention.due_after()))))
                .remove(["housekeeping"]),
        }
    }

    /// Holds the chat of `lease` for `duration` from now on. One write.
    pub async fn renew(&self, lease: &Lease, duration: Duration) -> Result<(), HistoryError> {
        let until = self.clock.now().plus(duration);
        self.write_head(lease, Update::default().set("leaseUntil", number(until))).await
    }

    /// Ends a run or a visit that did nothing. One write.
    pub async fn release(&self, lease: &Lease) -> Result<(), HistoryError> {
        // A visit may release the head that a deletion emptied: nothing of its claim stays there.
        let update = Update::default().remove(["leaseUntil", "claim", "housekeeping", "runningSince"]);
        self.write_head(lease, update).await
    }

    /// Ends a run whose turn the next run shall continue, with the turn's `trace` so far; if the run's model or platform has
    /// `failed`, counts that in [`Head::failures`]. One write.
    pub async fn release_unfinished(
        &self,
        lease: &Lease,
        failed: bool,
        trace: Option<Trace>,
    ) -> Result<(), HistoryError> {
        // The number itself, so that the SDK's repeat of this request does not count twice.
        let failures = failed.then(|| number(lease.head.failures.saturating_add(1)));
        let update = Update::default()
            .set("failures", failures)
            .set("trace", trace.map(|trace| packed(trace, MAX_HEAD_TRACE_BYTES)))
            .remove(["leaseUntil", "claim", "runningSince"]);
        self.write_head(lease, update).await
    }

    /// Ends a deletion that is not finished. One write.
    pub async fn release_deletion(&self, lease: &Lease) -> Result<(), HistoryError> {
        self.write_head(lease, Update::default().remove(["leaseUntil", "forgetting"])).await
    }

    /// Frees a chat whose run is known to be dead: for a program that is alone on its data.
    pub async fn free(&self, chat: &ChatKey) -> Result<(), HistoryError> {
        self.update_head(chat, Update::default().remove(["leaseUntil"])).await?;
        Ok(())
    }

    /// Returns the end of the lease on `chat`, if it is not over. One read.
    pub async fn busy_until(&self, chat: &ChatKey) -> Result<Option<Timestamp>, HistoryError> {
        let item = self.table.get(&partition(chat), HEAD).await?;
        Ok(item.and_then(|item| Held::at(&item, self.clock.now())).map(|held| held.until))
    }

    /// Reads the head of `chat`; an empty one if there is none yet. One read.
    pub async fn head(&self, chat: &ChatKey) -> Result<Head, HistoryError> {
        let item = self.table.get(&partition(chat), HEAD).await?;
        Ok(item.as_ref().map(Head::of).transpose()?.unwrap_or_default())
    }

    /// Reads the head of `chat`, and whether a run or a deletion has it now. One read.
    pub async fn head_and_run(&self, chat: &ChatKey) -> Result<(Head, bool), HistoryError> {
        let item = self.table.get(&partition(chat), HEAD).await?.unwrap_or_default();
        let is_running = Held::at(&item, self.clock.now()).is_some_and(Held::is_run);
        Ok((Head::of(&item)?, is_running))
    }

    /// Updates the head of the chat of `lease`, as long as the lease holds.
    /// Fails with [`HistoryError::LeaseLost`] if another process has claimed the chat since.
    pub(in crate::history) async fn write_head(
        &self,
        lease: &Lease,
        update: Update,
    ) -> Result<(), HistoryError> {
        let update = update.when("fence = :fence").bind(":fence", number(lease.fence));
        match self.update_head(&lease.chat, update).await? {
            Written::Done(_) => Ok(()),
            Written::Refused(_) => Err(HistoryError::LeaseLost),
        }
    }

    /// Updates the head of `chat`, whichever process has it.
    pub(in crate::history) async fn update_head(
        &self,
        chat: &ChatKey,
        update: Update,
    ) -> Result<Written, TableError> {
        self.table.update(&partition(chat), HEAD, update).await
    }
}
