//! The chats that the compactor must visit, by date: a sparse index over the table.
//!
//! ```json
//! {"pk": "telegram:chat:42", "sk": "1763765920000#00000000000000000007", "dueShard": "4", "dueAt": 1763895520, …}
//! {"pk": "telegram:chat:42", "sk": "!head", "dueShard": "4", "dueAt": 1763981920, "dueSince": 1763895520, …}
//! ```
//!
//! The index `due` has the items that carry `dueShard` (its partition, one of [`SHARDS`], by a digest of the ChatKey)
//! and `dueAt` (its sort key, epoch seconds): keys only. An *entry* of a chat is either a record that was put while its
//! process had not registered the chat for a while, so that the registration is stored with the record or not at all;
//! or the chat's head, if a visit wants another one later or was put off. `dueSince` is then the time since which the
//! chat has been due without a visit that succeeded.
//!
//! # No record is forgotten
//!
//! An append is due for a visit after D ([`Retention::due_after`], 3/4 of the stale time); a process remembers for R =
//! D/2 that it has registered a chat. A record that is put at t either is an entry itself, due at t + D, or its process
//! has put one at some t₀ with t - R < t₀ <= t, due at t₀ + D > t + D - R = t + D/2. Each way, the chat has an entry
//! that comes due after the record was stored. An entry is removed only when a visit that began after it came due has
//! succeeded: [`due`](History::due) returns entries, and [`settle`](History::settle) removes returned ones, each at its
//! very date. Such a visit began after t, so it has read the record. If it failed, [`put_off`](History::put_off) sets
//! an entry in the head first and removes the others then; if its process died, all are still there. An entry that is a
//! record can expire with it, but only if no visit has succeeded for longer than `ARCHIVE_GRACE` after its date: that
//! setting is the time for which the compactor may be away.
//!
//! A reply within D/4 of the message that it answers is no entry, whatever its process remembers: that message is
//! stored with one that comes due at least D/2 after it, so D/4 after the reply. So an agent's turn costs no more for
//! it.
//!
//! Assumed are clocks, and puts, that are off by less than D/4 in all: 9 hours by default. A put that has been stored
//! without an answer is not remembered, and neither is one that was refused; so the memory is only ever wrong towards
//! one more entry.
//!
//! The list of chats reads the entries, too, and has partitions of its own in this index: see
//! [`directory`](super::directory).
//!
//! Every record registers, also with `ARCHIVE_ON_COMPACT=false`: nothing is archived then, but visits still capture a
//! stale session to memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use annals_core::chat_key::ChatKey;
use annals_core::sort_key::Timestamp;
use futures::future::try_join_all;
use ring::digest;

use super::item::{integer, text};
use super::table::{DUE_INDEX, Item, Update, number, string};
use super::{HEAD, History, HistoryError, Retention, partition};

/// The index's name.
pub const INDEX: &str = DUE_INDEX;
/// The index's partition key.
pub const DUE_SHARD: &str = "dueShard";
/// The index's sort key.
pub const DUE_AT: &str = "dueAt";
/// On a head: the time since which its chat has been due, in epoch seconds.
pub const DUE_SINCE: &str = "dueSince";

/// Number of partitions of the index. One takes 1,000 writes a second, so they take as many new chats as a table does.
pub const SHARDS: u8 = 16;

/// Maximum number of chats that one process remembers.
const MAX_REMEMBERED: usize = 10_000;

/// Returns the partition of the index that `chat` is in, as in `dueShard`: `0` to `15`.
pub fn shard_of(chat: &ChatKey) -> u8 {
    digest::digest(&digest::SHA256, partition(chat).as_bytes()).as_ref()[0] % SHARDS
}

/// One item that names a chat in the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its sort key in the chat.
    pub key: String,
    /// Its date, in epoch seconds.
    pub due_at: i64,
}

/// A chat that is due for a visit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    pub chat: ChatKey,
    /// Its entries in the part of the index that was read, the oldest first; never empty.
    pub entries: Vec<Entry>,
}

impl Due {
    /// Returns the time at which it came due: the date of the oldest entry.
    pub fn due_at(&self) -> Timestamp {
        Timestamp::from_secs(self.entries.first().map_or(0, |entry| entry.due_at))
    }
}

/// A part of one shard, the oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DuePage {
    /// Its chats, each once; a later page may name one of them again.
    pub chats: Vec<Due>,
    /// The start of the next page, if there may be one.
    pub next: Option<DueStart>,
}

/// The start of a page of a shard: after the last entry of the one before.
#[derive(Clone, Debug, PartialEq)]
pub struct DueStart(Item);

impl DueStart {
    /// Returns a date that no entry of the page is older than.
    pub fn due_at(&self) -> Timestamp {
        Timestamp::from_secs(integer(&self.0, DUE_AT).unwrap_or(0))
    }
}

impl Retention {
    /// Returns the time from an append to the visit that it makes due: less than the stale time, so that the session is
    /// still live then, and records stay for [`Retention::archive_grace`] longer.
    pub fn due_after(&self) -> Duration {
        self.stay_fresh() * 3 / 4
    }
}

impl History {
    /// Reads the chats of `shard` that are due at `now`, out of the next `limit` entries of the index. Like every
    /// global index it is not strongly consistent: entries that were settled a moment ago may still appear.
    pub async fn due(
        &self,
        shard: u8,
        now: Timestamp,
        limit: usize,
        start: Option<DueStart>,
    ) -> Result<DuePage, HistoryError> {
        let start = start.map(|DueStart(key)| key);
        let (items, next) =
            self.table.query_due(&shard.to_string(), now.as_millis() / 1000, false, limit, start).await?;
        let mut chats: Vec<Due> = Vec::new();
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        for item in &items {
            let (Some(pk), Some(key), Some(due_at)) =
                (text(item, "pk"), text(item, "sk"), integer(item, DUE_AT))
            else {
                continue;
            };
            let entry = Entry { key: key.to_owned(), due_at };
            if let Some(place) = places.get(pk) {
                chats[*place].entries.push(entry);
                continue;
            }
            let Ok(chat) = pk.parse() else {
                tracing::error!(
                    shard,
                    due_at,
                    "an entry of the index of due chats has no valid ChatKey; it is skipped"
                );
                continue;
            };
            places.insert(pk.to_owned(), chats.len());
            chats.push(Due { chat, entries: vec![entry] });
        }
        Ok(DuePage { chats, next: next.map(DueStart) })
    }

    /// Notes that the visit for which [`due`](History::due) returned `entries` has succeeded, and that `chat` wants
    /// another at `next`. `spoken_at` is the time of the last message that the visit has read, if it has set the chat's
    /// place in the list of chats by it; without it, the place is set by `entries`. One write for each entry, one for
    /// `next`, and one for the place or more; safe to repeat.
    pub async fn settle(
        &self,
        chat: &ChatKey,
        entries: &[Entry],
        next: Option<Timestamp>,
        spoken_at: Option<Timestamp>,
    ) -> Result<(), HistoryError> {
        let seen = entries.iter().find(|entry| entry.key == HEAD).map(|entry| entry.due_at);
        // The head first: a crash between the two leaves an entry too many, not one too few.
        if let Some(next) = next {
            self.visit_by(chat, next, seen).await?;
        } else if let Some(seen) = seen {
            let update = Update::default().remove([DUE_SHARD, DUE_AT, DUE_SINCE]);
            self.update_head(chat, update.when("dueAt = :seen").bind(":seen", number(seen))).await?;
        }
        // A visit that has found it has set the place.
        if spoken_at.is_none() {
            self.set_place_by_entries(chat, entries).await?;
        }
        self.remove_from_records(chat, entries).await
    }

    /// Puts a visit off until `until`: it failed, the chat is busy, or there is more to do than one visit does. A date
    /// that is still to come and earlier stays, since another process has set it. Returns the time since which the chat
    /// has been due. One write, one for each entry that is a record, and if there are such entries one for the chat's
    /// place in the list; safe to repeat.
    pub async fn put_off(
        &self,
        chat: &ChatKey,
        entries: &[Entry],
        until: Timestamp,
    ) -> Result<Timestamp, HistoryError> {
        let oldest = entries.iter().map(|entry| entry.due_at).min().unwrap_or_else(|| seconds_up(until));
        let update = Update::default()
            .set(DUE_SHARD, string(shard_of(chat).to_string()))
            .set(DUE_AT, number(seconds_up(until)))
            .set_if_absent(DUE_SINCE, number(oldest))
            .when("attribute_not_exists(dueAt) OR dueAt <= :now OR dueAt > :dueAt")
            .bind(":now", number(self.clock.now().as_millis() / 1000));
        let head = self.update_head(chat, update).await?;
        self.set_place_by_entries(chat, entries).await?;
        self.remove_from_records(chat, entries).await?;
        let since = integer(head.item(), DUE_SINCE).unwrap_or(oldest);
        Ok(Timestamp::from_secs(since))
    }

    /// Requests a visit to `chat` at `at`, unless an earlier one is requested already. One write.
    pub async fn ask_for_visit(&self, chat: &ChatKey, at: Timestamp) -> Result<(), HistoryError> {
        self.visit_by(chat, at, None).await
    }

    /// Sets the head's date to `at`, unless it is earlier, and not the `seen` one.
    async fn visit_by(&self, chat: &ChatKey, at: Timestamp, seen: Option<i64>) -> Result<(), HistoryError> {
        let at = seconds_up(at);
        let update = Update::default()
            .set(DUE_SHARD, string(shard_of(chat).to_string()))
            .set(DUE_AT, number(at))
            .remove(seen.map(|_| DUE_SINCE))
            .when("attribute_not_exists(dueAt) OR dueAt > :dueAt OR dueAt = :seen")
            .bind(":seen", number(seen.unwrap_or(at)));
        self.update_head(chat, update).await?;
        Ok(())
    }

    async fn remove_from_records(&self, chat: &ChatKey, entries: &[Entry]) -> Result<(), HistoryError> {
        let chat = partition(chat);
        let removals = entries.iter().filter(|entry| entry.key != HEAD).map(|entry| {
            // The condition also keeps an item that has expired since from being made again.
            let update = Update::default().remove([DUE_SHARD, DUE_AT]).when("dueAt = :seen");
            self.table.update(&chat, &entry.key, update.bind(":seen", number(entry.due_at)))
        });
        try_join_all(removals).await?;
        Ok(())
    }
}

/// Makes `item`, a record of `chat` that arrives at `arrival`, an entry of the index.
pub(super) fn register(item: &mut Item, chat: &ChatKey, arrival: Timestamp, retention: &Retention) {
    let due_at = seconds_up(arrival.plus(retention.due_after()));
    item.insert(DUE_SHARD.into(), string(shard_of(chat).to_string()));
    item.insert(DUE_AT.into(), number(due_at));
}

/// Returns `at` in epoch seconds, rounded up.
pub(super) fn seconds_up(at: Timestamp) -> i64 {
    at.as_millis().div_euclid(1000) + i64::from(at.as_millis() % 1000 > 0)
}

/// The chats that this process has registered, with the times; all are dropped when there are [`MAX_REMEMBERED`]. Clones
/// share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Registry(Arc<Mutex<HashMap<ChatKey, Timestamp>>>);

impl Registry {
    /// Returns true if a record of `chat` that arrives at `arrival` must register it. `due_after` is
    /// [`Retention::due_after`].
    pub(super) fn wants(&self, chat: &ChatKey, arrival: Timestamp, due_after: Duration) -> bool {
        // After a clock was set back, the age of a registration is unknown.
        self.lock()
            .get(chat)
            .is_none_or(|registered| *registered > arrival || arrival.since(*registered) >= due_after / 2)
    }

    /// Forgets `chat`: its entries are deleted.
    pub(super) fn forget(&self, chat: &ChatKey) {
        self.lock().remove(chat);
    }

    /// Remembers that a record of `chat` that arrived at `arrival` is stored as an entry of the index.
    pub(super) fn remember(&self, chat: &ChatKey, arrival: Timestamp) {
        let mut registered = self.lock();
        if registered.len() >= MAX_REMEMBERED {
            registered.clear();
        }
        registered.insert(chat.clone(), arrival);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ChatKey, Timestamp>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
