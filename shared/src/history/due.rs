//! Which chats the compactor is to visit, and when: a sparse index over the table.
//!
//! ```json
//! {"pk": "telegram:chat:42", "sk": "1763765920000#00000000000000000007", "dueShard": "4", "dueAt": 1763895520, …}
//! {"pk": "telegram:chat:42", "sk": "!head", "dueShard": "4", "dueAt": 1763981920, "dueSince": 1763895520, …}
//! ```
//!
//! The index `due` has the items that carry `dueShard` (its partition, one of [`SHARDS`], by a digest of the ChatKey)
//! and `dueAt` (its sort key, epoch seconds): keys only. An *entry* of a chat is either a record that was put while its
//! process had not registered the chat for a while, so that the registration is stored with the record or not at all;
//! or the chat's head, where a visit wants another one later or was put off. `dueSince` then says since when the chat
//! has been waiting for a visit that succeeds.
//!
//! # No record is forgotten
//!
//! An append is due for a visit after D ([`Retention::due_after`], 3/4 of the stale time); a process remembers for
//! R = D/2 that it has registered a chat. A record that is put at t either is an entry itself, due at t + D, or its
//! process has put one at some t₀ with t - R < t₀ <= t, due at t₀ + D > t + D - R = t + D/2. Each way, the chat has an
//! entry that comes due after the record was stored. An entry goes only when a visit that began after it came due has
//! succeeded: [`due`](History::due) gives out what is due, and [`settle`](History::settle) removes what was given out,
//! at that very date. Such a visit began after t, so it has seen the record. Where it failed,
//! [`put_off`](History::put_off) sets an entry in the head first and removes the others then; where its process died,
//! all are still there. An entry that is a record can expire with it, but only where no visit has succeeded for longer
//! than `ARCHIVE_GRACE` behind its date: that setting is what bounds how long the compactor may be away.
//!
//! A reply within D/4 of the message that it answers is no entry, whatever its process remembers: that message is stored
//! with one that comes due behind it by D/2 at least, so behind the reply by D/4. So an agent's turn costs no more for it.
//!
//! Assumed are clocks, and puts, that are off by less than D/4 in all: 9 hours by default. A put that has been stored
//! without an answer is not remembered, and neither is one that was refused; so the memory is only ever wrong towards
//! one more entry.
//!
//! The list of chats reads the entries, too, and has partitions of its own in this index: see
//! [`directory`](super::directory).
//!
//! Every record registers, also where `ARCHIVE_ON_COMPACT` is off: nothing is archived there, but what a stale
//! session leaves to memory is still captured by visits.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_lc_rs::digest;
use futures::future::try_join_all;

use super::item::{integer, text};
use super::table::{Item, Update, number, string};
use super::{HEAD, History, HistoryError, Retention, partition};
use crate::chat_key::ChatKey;
use crate::sort_key::Timestamp;

/// The index's name.
pub const INDEX: &str = "due";
/// The index's partition key.
pub const DUE_SHARD: &str = "dueShard";
/// The index's sort key.
pub const DUE_AT: &str = "dueAt";
/// On a head: since when its chat has been waiting, in epoch seconds.
pub const DUE_SINCE: &str = "dueSince";

/// How many partitions the index has. One takes 1,000 writes a second, so they take as many new chats as a table does.
pub const SHARDS: u8 = 16;

/// How many chats one process remembers.
const MAX_REMEMBERED: usize = 10_000;

/// The partition of the index that `chat` is in, as `dueShard` has it: `0` to `15`.
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
    /// The chat.
    pub chat: ChatKey,
    /// What names it in the part of the index that was read, the oldest first; never empty.
    pub entries: Vec<Entry>,
}

impl Due {
    /// When it came due: the date of the oldest entry.
    pub fn due_at(&self) -> Timestamp {
        Timestamp::from_secs(self.entries.first().map_or(0, |entry| entry.due_at))
    }
}

/// A part of one shard, the oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DuePage {
    /// Its chats, each once; a later page may name one of them again.
    pub chats: Vec<Due>,
    /// Where the next page starts, if there may be one.
    pub next: Option<DueStart>,
}

/// Where a page of a shard starts: behind the last entry of the one before.
#[derive(Clone, Debug, PartialEq)]
pub struct DueStart(Item);

impl DueStart {
    /// A date that no entry of the page is older than.
    pub fn due_at(&self) -> Timestamp {
        Timestamp::from_secs(integer(&self.0, DUE_AT).unwrap_or(0))
    }
}

impl Retention {
    /// How long after an append its chat is due for a visit: before the session is stale, and so before a record can
    /// be the model's last look at it, with [`Retention::archive_grace`] to spare.
    pub fn due_after(&self) -> Duration {
        self.stay_fresh() * 3 / 4
    }
}

impl History {
    /// The chats of `shard` that are due at `now`, as far as the next `limit` entries of the index name them. Not
    /// strongly consistent, as no global index is: what was settled a moment ago may be there still.
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
                tracing::error!(shard, due_at, "an entry of the index names no chat");
                continue;
            };
            places.insert(pk.to_owned(), chats.len());
            chats.push(Due { chat, entries: vec![entry] });
        }
        Ok(DuePage { chats, next: next.map(DueStart) })
    }

    /// Notes that the visit for which [`due`](History::due) gave out `entries` has succeeded, that `chat` wants another
    /// at `next`. `spoken_at` is when somebody last spoke, as far as the visit has seen, which has set the chat's place in
    /// the list of chats by it; without it, the place is set by `entries`. One write for each entry, one for `next`, and one
    /// for the place or more; safe to repeat.
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
            let update = Update {
                expression: format!("REMOVE {DUE_SHARD}, {DUE_AT}, {DUE_SINCE}"),
                condition: Some("dueAt = :seen"),
                values: vec![(":seen", number(seen))],
            };
            self.table.update(&partition(chat), HEAD, update).await?;
        }
        if spoken_at.is_none() {
            // Otherwise the visit has set it.
            self.set_place_by_entries(chat, entries).await?;
        }
        self.remove_from_records(chat, entries).await
    }

    /// Puts a visit off until `until`: it failed, the chat is busy, or there is more to do than one visit does. A date that is
    /// still to come and earlier stays, since somebody else has set it. Returns since when the chat has been waiting. One write, one for each entry that is a record, and where there are such one
    /// for the chat's place in the list; safe to repeat.
    pub async fn put_off(
        &self,
        chat: &ChatKey,
        entries: &[Entry],
        until: Timestamp,
    ) -> Result<Timestamp, HistoryError> {
        let oldest = entries.iter().map(|entry| entry.due_at).min().unwrap_or_else(|| seconds_up(until));
        let update = Update {
            expression: format!(
                "SET {DUE_SHARD} = :shard, {DUE_AT} = :until, {DUE_SINCE} = if_not_exists({DUE_SINCE}, :oldest)"
            ),
            values: vec![
                (":shard", string(shard_of(chat).to_string())),
                (":until", number(seconds_up(until))),
                (":oldest", number(oldest)),
                (":now", number(self.clock.now().as_millis() / 1000)),
            ],
            condition: Some("attribute_not_exists(dueAt) OR dueAt <= :now OR dueAt > :until"),
        };
        let head = self.table.update(&partition(chat), HEAD, update).await?;
        self.set_place_by_entries(chat, entries).await?;
        self.remove_from_records(chat, entries).await?;
        let since = integer(head.item(), DUE_SINCE).unwrap_or(oldest);
        Ok(Timestamp::from_secs(since))
    }

    /// Asks for a visit to `chat` at `at`, unless one is asked for earlier. One write.
    pub async fn ask_for_visit(&self, chat: &ChatKey, at: Timestamp) -> Result<(), HistoryError> {
        self.visit_by(chat, at, None).await
    }

    /// Sets the head's date to `at`, unless it is earlier, and not the `seen` one.
    async fn visit_by(&self, chat: &ChatKey, at: Timestamp, seen: Option<i64>) -> Result<(), HistoryError> {
        let at = seconds_up(at);
        let (settled, seen) = match seen {
            Some(seen) => (format!(" REMOVE {DUE_SINCE}"), seen),
            None => (String::new(), at),
        };
        let update = Update {
            expression: format!("SET {DUE_SHARD} = :shard, {DUE_AT} = :at{settled}"),
            condition: Some("attribute_not_exists(dueAt) OR dueAt > :at OR dueAt = :seen"),
            values: vec![
                (":shard", string(shard_of(chat).to_string())),
                (":at", number(at)),
                (":seen", number(seen)),
            ],
        };
        self.table.update(&partition(chat), HEAD, update).await?;
        Ok(())
    }

    async fn remove_from_records(&self, chat: &ChatKey, entries: &[Entry]) -> Result<(), HistoryError> {
        let chat = partition(chat);
        let removals = entries.iter().filter(|entry| entry.key != HEAD).map(|entry| {
            let update = Update {
                expression: format!("REMOVE {DUE_SHARD}, {DUE_AT}"),
                // Also keeps an item that has expired since from being made anew.
                condition: Some("dueAt = :seen"),
                values: vec![(":seen", number(entry.due_at))],
            };
            self.table.update(&chat, &entry.key, update)
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

/// Epoch seconds, no earlier than `at`.
pub(super) fn seconds_up(at: Timestamp) -> i64 {
    at.as_millis().div_euclid(1000) + i64::from(at.as_millis() % 1000 > 0)
}

/// Which chats this process has registered, and when. Clones share it.
///
/// It holds the chats of two generations, at most [`MAX_REMEMBERED`] in all: where the newer one is full, the older one
/// is forgotten.
#[derive(Clone, Debug, Default)]
pub(super) struct Registry(Arc<Mutex<Generations>>);

#[derive(Debug, Default)]
struct Generations {
    newer: HashMap<ChatKey, Timestamp>,
    older: HashMap<ChatKey, Timestamp>,
}

impl Registry {
    /// Whether a record of `chat` that arrives at `arrival` must register it, where an append is due for a visit
    /// after `due_after`.
    pub(super) fn wants(&self, chat: &ChatKey, arrival: Timestamp, due_after: Duration) -> bool {
        let generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let registered = generations.newer.get(chat).or_else(|| generations.older.get(chat));
        // A clock that was set back says nothing of how long ago it was.
        registered
            .is_none_or(|registered| *registered > arrival || arrival.since(*registered) >= due_after / 2)
    }

    /// Forgets `chat`: what it was registered by is deleted.
    pub(super) fn forget(&self, chat: &ChatKey) {
        let mut generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        generations.newer.remove(chat);
        generations.older.remove(chat);
    }

    /// Remembers that a record of `chat` that arrived at `arrival` is stored as an entry of the index.
    pub(super) fn remember(&self, chat: &ChatKey, arrival: Timestamp) {
        let mut generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        generations.newer.insert(chat.clone(), arrival);
        if generations.newer.len() >= MAX_REMEMBERED / 2 {
            generations.older = std::mem::take(&mut generations.newer);
        }
    }
}

#[cfg(test)]
mod tests;
