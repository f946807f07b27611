//! `/stop`: takes a chat from its run, and decides which messages and turns that ends.
//!
//! One write to the head does both: it takes the next fence, so that the run that has the chat can neither commit nor
//! note a piece of a reply any more, and it leaves the command in `stoppedTo`, so that the next run covers the
//! unanswered messages from before the command with a stopped reply. Messages after the command are answered as usual.
//! The stopped reply is the reply of a turn like any other, committed to under a claim of its own: nothing here adds to
//! the proof that no message is covered twice.
//!
//! The stopped run is the next one, if its process lives: it has the text that was streamed so far, which is the reply.
//! So the lease of a run is not removed, but shortened, and only that run may claim the chat before the end of it.
//!
//! The sample item of a head is in [`turn`](super::turn).

use std::time::Duration;

use annals_core::approval;
use annals_core::chat_key::ChatKey;
use annals_core::context::{Policy, context};
use annals_core::record::{Record, message_at};
use annals_core::sort_key::{SortKey, Timestamp};

use super::item::integer;
use super::table::{Update, number, string};
use super::turn::{Head, Lease, OpenTurn, STOPPED_RUN_ENDS_WITHIN};
use super::{HEAD, History, HistoryError, partition};

/// Interval at which a run checks that it still has its chat.
pub const LOOK_AGAIN: Duration = Duration::from_secs(2);

impl History {
    /// Takes `chat` from its holder, for the `/stop` at `command`. If a run `is_running`, nobody else may claim the chat
    /// for [`STOPPED_RUN_ENDS_WITHIN`]. Changes nothing if this command or a later one is noted already, or the chat is
    /// being deleted. Safe to repeat. One write.
    pub async fn stop(
        &self,
        chat: &ChatKey,
        command: &SortKey,
        is_running: bool,
    ) -> Result<(), HistoryError> {
        let now = self.clock.now();
        let update = Update::default()
            .increment("fence")
            .set("stoppedTo", string(command.as_str()))
            .set("takenAt", number(now));
        let update = if is_running {
            update.set("leaseUntil", number(now.plus(STOPPED_RUN_ENDS_WITHIN))).remove(["housekeeping"])
        } else {
            update.remove(["leaseUntil", "housekeeping"])
        };
        let update = update
            .when("attribute_not_exists(stoppedTo) OR stoppedTo < :stoppedTo")
            // In a chat that is being deleted there is nothing to stop.
            .when("attribute_not_exists(forgetting) OR leaseUntil < :takenAt");
        self.update_head(chat, update).await?;
        self.stops.notify_waiters();
        Ok(())
    }

    /// Returns once the chat of `lease` is claimed by another process: at once after a `/stop` in this process, else
    /// within [`LOOK_AGAIN`] and a read. Reads nothing in a run that ends before that.
    pub async fn overtaken(&self, lease: &Lease) {
        let mut stop = Box::pin(self.stops.notified());
        loop {
            tokio::select! {
                () = stop.as_mut() => {}
                () = self.clock.sleep(LOOK_AGAIN) => {}
            }
            stop.set(self.stops.notified());
            // Registered before the read, so that no stop falls between the two.
            stop.as_mut().enable();
            match self.table.get(&partition(&lease.chat), HEAD).await {
                Ok(Some(head)) if integer(&head, "fence") != Some(lease.fence) => return,
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(chat = %lease.chat.session_id(), %error, "failed to check a lease; retrying");
                }
            }
        }
    }
}

/// Returns the bases of the unanswered messages from before the `/stop` at `command`, `/compact` too, in chat order:
/// those on the command's line of the chat.
pub fn waiting_before(records: &[Record], command: &SortKey, now: Timestamp) -> Vec<SortKey> {
    let mut waiting = waiting_on_line(records, command, now);
    waiting.retain(|base| base < command);
    waiting
}

/// Returns true if the `/stop` at `command` ends `turn`, which a run has committed to: all that it covers was said
/// before the command, on the command's line of the chat. An operator's message is sent all the same.
pub fn ends(records: &[Record], command: &SortKey, turn: &OpenTurn) -> bool {
    let line = |base: &SortKey| message_at(records, base).and_then(Record::line);
    let newest = turn.covers.last();
    turn.covers.iter().all(|base| base < command)
        && newest.is_some_and(|newest| line(newest) == line(command))
        && newest.and_then(|newest| message_at(records, newest)).and_then(Record::dispatch).is_none()
}

/// Returns true if the `/stop` at `command` has anything to end, by the `records` and the `head` of its chat.
/// `is_running` is true if a run has the chat.
pub fn has_something_to_end(
    records: &[Record],
    command: &SortKey,
    head: &Head,
    is_running: bool,
    now: Timestamp,
) -> bool {
    let waiting = waiting_on_line(records, command, now);
    let is_open = |base: &SortKey| head.turn.as_ref().is_some_and(|turn| turn.covers.contains(base));
    let waits = waiting.iter().any(|base| base < command && !is_open(base))
        || going_on_before(records, command, now).any(|reply| !is_open(&reply.base()));
    match &head.turn {
        Some(turn) => waits || ends(records, command, turn),
        // A run may be answering a message from before the first of `records`.
        None => waits || (is_running && waiting.is_empty()),
    }
}

/// Returns the replies from before the `/stop` at `command` that would continue, in chat order: those on the command's
/// line that are stored under its chat's name. A run under an earlier name ends its own.
pub fn going_on_before<'a>(
    records: &'a [Record],
    command: &'a SortKey,
    now: Timestamp,
) -> impl Iterator<Item = SortKey> + 'a {
    let place = message_at(records, command).map(|said| (&said.chat, said.line()));
    approval::to_resume(records, now).into_iter().filter(move |reply| {
        let found = records.iter().find(|record| record.key == *reply);
        reply.base() < *command && found.map(|found| (&found.chat, found.line())) == place
    })
}

fn waiting_on_line(records: &[Record], command: &SortKey, now: Timestamp) -> Vec<SortKey> {
    let line = message_at(records, command).and_then(Record::line);
    let own: Vec<Record> = records.iter().filter(|record| record.line() == line).cloned().collect();
    // Which messages are unanswered does not depend on the policy.
    let policy = Policy { stale_after: None, fresh: false, token_budget: u32::MAX, images: 0 };
    let context = context(&own, now, &policy);
    let mut waiting: Vec<SortKey> = context.unanswered.into_iter().chain(context.to_compact).collect();
    waiting.sort();
    waiting
}
