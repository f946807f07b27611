//! Deleting what is kept of a chat, whole: the one place that deletes, and only because somebody asked for just that.
//!
//! The order is such that whoever repeats a deletion that broke off finds what is left: the head, which knows the chat's
//! earlier names, goes last. What stays of it is empty, is visited once more by the compactor (a process that had registered
//! the chat before does not register it again so soon) and leaves the table by its own `expiresAt`, unless the chat is
//! used again, when the first claim takes that off.

use super::due::{DUE_AT, DUE_SHARD, seconds_up, shard_of};
use super::table::{number, string};
use super::turn::{Lease, Superseded};
use super::{FIRST_KEY, HEAD, History, HistoryError, partition};

/// All that a head may hold beside its fence.
const HEAD_ATTRIBUTES: &str = "leaseUntil, turn, contextFrom, capturedTo, uncapturedFrom, compacting, housekeeping, \
                               blocked, continues, movedTo, archiving, keptTo, longestSegment, paced, dueSince";

/// What was deleted of a chat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Erased {
    /// Records that were still in the table, of every kind.
    pub records: usize,
    /// Segments of the archive.
    pub segments: usize,
    /// Bodies of large messages.
    pub bodies: usize,
    /// What is kept of files.
    pub media: usize,
}

impl History {
    /// Deletes what is kept of the chat of `lease`, under all the names that it has had, the oldest first: records,
    /// segments, bodies, files, heads, whatever else lies in its partitions. Safe to repeat. A new message may be appended
    /// meanwhile; it stays, or goes with the rest.
    pub async fn erase(&self, lease: &Lease) -> Result<Result<Erased, Superseded>, HistoryError> {
        let mut erased = Erased::default();
        for (name, _) in self.names(&lease.chat).await?.iter().rev() {
            let pk = partition(name);
            let keys = self.table.keys(&pk).await?;
            erased.records += keys.iter().filter(|key| key.as_str() >= FIRST_KEY).count();
            let but_head = keys.into_iter().filter(|key| key != HEAD).collect();
            self.table.delete(&pk, but_head).await?;
            // Behind the pointers, since one must never point at nothing.
            erased.segments += self.shelf.delete_all(name).await?;
            erased.bodies += self.bodies.delete_all(name).await?;
            erased.media += self.media.delete_all(name).await?;
            // So that whoever speaks there again, to this process at least, has it listed at once.
            self.registry.forget(name);
            if *name != lease.chat {
                self.table.delete(&pk, vec![HEAD.into()]).await?;
            }
        }
        let now = self.clock.now();
        let visit = now.plus(self.retention.due_after());
        // Twice the lifetime: behind the visit, and behind whatever is appended at this very moment.
        let ends = self.retention.boundary_expires_at(now).map(|at| (":ends", number(at)));
        let expression = format!(
            "SET {DUE_SHARD} = :shard, {DUE_AT} = :due{} REMOVE {HEAD_ATTRIBUTES}",
            if ends.is_some() { ", expiresAt = :ends" } else { "" }
        );
        let mut values =
            vec![(":shard", string(shard_of(&lease.chat).to_string())), (":due", number(seconds_up(visit)))];
        values.extend(ends);
        Ok(self.update_head(lease, &expression, values).await?.map(|()| erased))
    }
}
