//! How `/stop` takes a chat from its run, and what it ends.
//!
//! One write to the head does both: it takes the next fence, so that the run that has the chat can neither commit nor note
//! a piece of a reply any more, and it leaves the command in `stoppedTo`, so that the next run covers what waits from
//! before the command with a notice instead of answering it. What is behind the command is answered as ever. The covering
//! is a turn like any other, committed to under a claim of its own: nothing here adds to the proof that no message is
//! covered twice.

use std::time::Duration;

use super::item::integer;
use super::table::{Update, number, string};
use super::turn::{Head, Lease, OpenTurn, head_of};
use super::{HEAD, History, HistoryError, partition};
use crate::approval;
use crate::chat_key::ChatKey;
use crate::context::{Policy, context};
use crate::message::Role;
use crate::record::Record;
use crate::sort_key::{SortKey, Timestamp};

/// How often a run that waits looks whether it still has its chat.
pub const LOOK_AGAIN: Duration = Duration::from_secs(2);

impl History {
    /// Takes `chat` from whoever has it, for the `/stop` at `command`. If this command or a later one is there already,
    /// or the chat is being deleted, nothing changes: safe to repeat. One write.
    pub async fn stop(&self, chat: &ChatKey, command: &SortKey) -> Result<(), HistoryError> {
        let update = Update {
            expression:
                "SET fence = if_not_exists(fence, :zero) + :one, stoppedTo = :command, takenAt = :now \
                         REMOVE leaseUntil, housekeeping"
                    .into(),
            // In a chat that is being deleted there is nothing to stop.
            condition: Some(
                "(attribute_not_exists(stoppedTo) OR stoppedTo < :command) \
                 AND (attribute_not_exists(forgetting) OR leaseUntil < :now)",
            ),
            values: vec![
                (":zero", number(0)),
                (":one", number(1)),
                (":command", string(command.as_str())),
                (":now", number(self.clock.now())),
            ],
        };
        self.table.update(&partition(chat), HEAD, update).await?;
        self.stops.notify_waiters();
        Ok(())
    }

    /// Returns once the chat of `lease` is somebody else's: at once where a `/stop` of this process took it, else within
    /// [`LOOK_AGAIN`] and a read. No read at all in a run that ends before that.
    pub async fn overtaken(&self, lease: &Lease) {
        let mut stop = Box::pin(self.stops.notified());
        loop {
            tokio::select! {
                () = stop.as_mut() => {}
                () = self.clock.sleep(LOOK_AGAIN) => {}
            }
            stop.set(self.stops.notified());
            // Registered before the look, so that no stop falls between the two.
            stop.as_mut().enable();
            match self.table.get(&partition(&lease.chat), HEAD).await {
                Ok(Some(head)) if integer(&head, "fence") != Some(lease.fence) => return,
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(chat = %lease.chat.session_id(), %error, "a run cannot see whether it was stopped");
                }
            }
        }
    }

    /// The head of `chat`, and whether a run has it now, and not upkeep. One read.
    pub async fn head_and_run(&self, chat: &ChatKey) -> Result<(Head, bool), HistoryError> {
        let Some(item) = self.table.get(&partition(chat), HEAD).await? else {
            return Ok((Head::default(), false));
        };
        let until = integer(&item, "leaseUntil").and_then(Timestamp::from_millis);
        let is_held = until.is_some_and(|until| until >= self.clock.now());
        Ok((head_of(&item)?, is_held && !item.contains_key("housekeeping")))
    }
}

/// The bases of what waits from before the `/stop` at `command`, `/compact` too, in chat order: that of the command's line
/// of the chat.
pub fn waiting_before(records: &[Record], command: &SortKey, now: Timestamp) -> Vec<SortKey> {
    let mut waiting = waiting_on_line(records, command, now);
    waiting.retain(|base| base < command);
    waiting
}

/// Whether the `/stop` at `command` ends `turn`, which a run has committed to: all that it covers was said before the
/// command, on the command's line of the chat.
pub fn ends(records: &[Record], command: &SortKey, turn: &OpenTurn) -> bool {
    let line = |base: &SortKey| said_at(records, base).and_then(Record::line);
    turn.covers.iter().all(|base| base < command)
        && turn.covers.last().is_some_and(|newest| line(newest) == line(command))
}

/// Whether there is anything for the `/stop` at `command` to end, by the `records` and the `head` of its chat;
/// `is_running` is whether a run has the chat.
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
        || going_on_before(records, command).any(|reply| !is_open(&reply.base()));
    match &head.turn {
        Some(turn) => waits || ends(records, command, turn),
        // A run may be at something from before where `records` begin.
        None => waits || (is_running && waiting.is_empty()),
    }
}

/// The replies that would go on, from before the `/stop` at `command`, in chat order: those on the command's line.
pub fn going_on_before<'a>(
    records: &'a [Record],
    command: &'a SortKey,
) -> impl Iterator<Item = SortKey> + 'a {
    let line = said_at(records, command).and_then(Record::line);
    approval::to_resume(records).into_iter().filter(move |reply| {
        let found = records.iter().find(|record| record.key == *reply);
        reply.base() < *command && found.and_then(Record::line) == line
    })
}

fn waiting_on_line(records: &[Record], command: &SortKey, now: Timestamp) -> Vec<SortKey> {
    let line = said_at(records, command).and_then(Record::line);
    let own: Vec<Record> = records.iter().filter(|record| record.line() == line).cloned().collect();
    // What waits does not depend on it.
    let policy = Policy { stale_after: None, fresh: false, token_budget: u32::MAX, images: 0 };
    let seen = context(&own, now, &policy);
    let mut waiting: Vec<SortKey> = seen.unanswered.into_iter().chain(seen.to_compact).collect();
    waiting.sort();
    waiting
}

fn said_at<'a>(records: &'a [Record], base: &SortKey) -> Option<&'a Record> {
    records.iter().find(|record| record.key.base() == *base && record.role() == Role::User)
}
