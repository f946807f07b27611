//! The list of chats, the one with the latest message first.
//!
//! No index over all messages is kept for it (that would double the cost of an append), and no write of a turn is spent
//! on it. A chat is listed by one of these items, both in the index of due chats (see [`due`](super::due)):
//!
//! - *an entry* of the index that is a record: the chat is registered for a visit of the compactor until that visit.
//!   This costs nothing more.
//! - *its place*, one item a chat, without TTL, in partitions of the index that no visit reads:
//!
//! ```json
//! {"pk": "telegram:chat:42", "sk": "!place", "dueShard": "placed-4", "dueAt": 1763765920000}
//! ```
//!
//! # Every chat is listed, and once
//!
//! From its first record on a chat has an entry, a place or both. Without an entry, its place is the time of its last message:
//!
//! - Each record is an entry, or its process has put one within R = D/2 before it, which comes due D/2 after it or later.
//! - Entries are removed by `settle`, `put_off`, `erase_of` and the deletion of a chat alone, and each sets the place first.
//!   So a chat without an entry has had no message since the visit that set its place.
//!
//! With an entry, its place may be outdated. So all entries are read for each page, and a place counts only if there is no
//! entry. The price of writing nothing is to read the keys of the chats that were lively in the last D.
//!
//! If at most [`MOST_EXACT`] chats were lively, the time of the last message is read in each, and the whole list is in
//! that order. If there were more, a page would take a request for each. Then a chat is at the last message that was
//! answered, which its head names: one request reads a hundred heads. A chat without an answer since it registered, and
//! one beyond the 2,000 that registered last, is at its registration, which is right to R (18 hours). The
//! client can sort the chats of one page. The cursor keeps the choice between the two for all pages that follow a
//! first page.
//!
//! A cursor is a time and a ChatKey (`{"t": 1763765920000, "c": "telegram:chat:42", "x": true}`), and a page starts
//! after it. So no chat is listed twice, except one with a new message while pages are turned, which is then at the
//! top.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use annals_core::chat_key::ChatKey;
use annals_core::sort_key::{SortKey, Timestamp};
use futures::future::try_join_all;
use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};

use super::cursor::{self, CursorError};
use super::due::{DUE_AT, DUE_SHARD, Entry, SHARDS, shard_of};
use super::item::{integer, text, time};
use super::read::MAX_NAMES;
use super::table::{Anchor, Item, MAX_BATCH, Span, Update, Written, item_at, number, string};
use super::turn::{ANSWERED_TO, Head, Held};
use super::{FIRST_KEY, HEAD, History, HistoryError, LAST_KEY, partition};

/// Maximum number of chats on a page of the list.
pub const MAX_CHATS: usize = 100;

/// Maximum number of lively chats whose last message is read for each page.
pub const MOST_EXACT: usize = 50;

/// Maximum number of lively chats whose head is read for each page: 20 requests.
const MOST_HEADS: usize = 2_000;

/// The item that holds a chat's place.
pub(super) const PLACE: &str = "!place";

/// The partitions of the index that hold places.
const PLACED: &str = "placed-";

/// Number of a chat's newest records that are searched for a person's message.
const LOOK: usize = 6;

/// Number of chats that are read at the same time.
const AT_ONCE: usize = 32;

/// Number of keys of the index that one request reads.
const KEYS_AT_ONCE: usize = 5_000;

/// The end of a page of the list, for readers opaque text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListCursor {
    #[serde(rename = "t")]
    at: Timestamp,
    #[serde(rename = "c")]
    chat: ChatKey,
    /// True if the lively chats are in the order of their last messages, answered or not.
    #[serde(rename = "x")]
    exact: bool,
}

impl ListCursor {
    /// Encodes it as the text that readers get.
    pub fn encode(&self) -> String {
        cursor::encode(self)
    }

    /// Decodes the text that readers send back.
    pub fn decode(text: &str) -> Result<Self, CursorError> {
        cursor::decode(text)
    }

    /// Returns true if a chat at this place follows.
    fn is_before(&self, at: Timestamp, chat: &ChatKey) -> bool {
        (Reverse(self.at), &self.chat) < (Reverse(at), chat)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// The name that it has now.
    pub chat: ChatKey,
    /// Its place: the time of its last message; if there are many lively chats, of the last one that was answered, or of
    /// its registration.
    pub at: Timestamp,
    pub head: Head,
    /// End of the lease, if a run or a deletion has it.
    pub answered_until: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ChatPage {
    /// Its chats, the one with the latest place first; there may be fewer than requested, and further pages.
    pub chats: Vec<Listed>,
    /// The start of the page after this one; `None` if there is none.
    pub before: Option<ListCursor>,
}

/// Places of chats in the list, in its order.
#[derive(Clone, Debug)]
pub struct Places {
    chats: Vec<(Timestamp, ChatKey)>,
    heads: HashMap<ChatKey, Item>,
    lively: HashSet<ChatKey>,
    exact: bool,
    /// True if there are further places.
    is_cut: bool,
}

impl Places {
    pub fn count(&self) -> usize {
        self.chats.len()
    }

    /// Returns the start of the list after the first `count` places; `None` if nothing follows them.
    pub fn cursor_after(&self, count: usize) -> Option<ListCursor> {
        let (at, chat) = self.chats.get(count.checked_sub(1)?)?;
        let is_last = count == self.chats.len() && !self.is_cut;
        (!is_last).then(|| ListCursor { at: *at, chat: chat.clone(), exact: self.exact })
    }
}

impl History {
    /// Reads a page of at most `limit` chats (1 to [`MAX_CHATS`]), from the top or after `before`.
    pub async fn chats(&self, before: Option<&ListCursor>, limit: usize) -> Result<ChatPage, HistoryError> {
        let places = self.places(before, limit.clamp(1, MAX_CHATS)).await?;
        let chats = stream::iter((0..places.count()).map(|number| self.listed(&places, number)));
        let chats: Vec<Option<Listed>> = chats.buffered(AT_ONCE).try_collect().await?;
        Ok(ChatPage {
            chats: chats.into_iter().flatten().collect(),
            before: places.cursor_after(places.count()),
        })
    }

    /// Reads at most `limit` places of the list, from the top or after `before`.
    pub async fn places(&self, before: Option<&ListCursor>, limit: usize) -> Result<Places, HistoryError> {
        let lively = self.lively().await?;
        let exact = before.map_or(lively.len() <= MOST_EXACT, |cursor| cursor.exact);
        let names: HashSet<ChatKey> = lively.keys().cloned().collect();
        let lively = if exact {
            self.in_order_of_messages(lively).await?
        } else {
            self.in_order_of_answers(lively).await?
        };
        let comes = |at: Timestamp, chat: &ChatKey| before.is_none_or(|cursor| cursor.is_before(at, chat));

        // One more than are wanted shows whether there are further chats.
        let quiet = (0..SHARDS).map(|shard| self.quiet_places(shard, before, limit + 1, &names));
        let quiet = try_join_all(quiet).await?;
        let mut places: BTreeSet<(Reverse<Timestamp>, ChatKey)> = BTreeSet::new();
        for (chat, at) in lively.into_iter().chain(quiet.into_iter().flatten()) {
            if comes(at, &chat) {
                places.insert((Reverse(at), chat));
            }
        }
        let is_cut = places.len() > limit;
        let chats: Vec<(Timestamp, ChatKey)> =
            places.into_iter().take(limit).map(|(Reverse(at), chat)| (at, chat)).collect();
        let partitions: Vec<String> = chats.iter().map(|(_, chat)| partition(chat)).collect();
        let batches = partitions.chunks(MAX_BATCH).map(|names| self.table.get_batch(names, HEAD, None));
        let heads = try_join_all(batches).await?.into_iter().flatten();
        let heads = heads.filter_map(|head| Some((chat_of(&head)?, head))).collect();
        Ok(Places { chats, heads, lively: names, exact, is_cut })
    }

    /// Reads one chat as in the list, by the name that it has now. A chat that is not in the list has the clock's time.
    pub async fn chat(&self, chat: &ChatKey) -> Result<Listed, HistoryError> {
        let (chat, _) = self.current(chat).await?;
        let item = self.table.get(&partition(&chat), HEAD).await?.unwrap_or_default();
        let mut at = self.last_spoken(&chat).await?;
        if at.is_none() {
            let place = self.table.get(&partition(&chat), PLACE).await?;
            at = place.and_then(|place| time(&place, DUE_AT));
        }
        let answered_until = self.answered_until(&item);
        let at = at.unwrap_or_else(|| self.clock.now());
        Ok(Listed { chat, at, head: Head::of(&item)?, answered_until })
    }

    /// Reads the chats that have registered and were not visited since, each with the time of its last registration.
    async fn lively(&self) -> Result<HashMap<ChatKey, Timestamp>, HistoryError> {
        let due_after = self.retention.due_after();
        let shards = (0..SHARDS).map(async |shard| {
            let mut newest: HashMap<ChatKey, Timestamp> = HashMap::new();
            let mut start = None;
            loop {
                let (items, next) =
                    self.table.query_due(&shard.to_string(), i64::MAX, true, KEYS_AT_ONCE, start).await?;
                for item in items.iter().filter(|item| text(item, "sk") != Some(HEAD)) {
                    if let (Some(chat), Some(due_at)) = (chat_of(item), integer(item, DUE_AT)) {
                        // The newest comes first.
                        newest.entry(chat).or_insert(Timestamp::from_secs(due_at).minus(due_after));
                    }
                }
                start = next;
                if start.is_none() {
                    return Ok::<_, HistoryError>(newest);
                }
            }
        });
        Ok(try_join_all(shards).await?.into_iter().flatten().collect())
    }

    /// Returns the same chats with the time of the last message in each.
    async fn in_order_of_messages(
        &self,
        lively: HashMap<ChatKey, Timestamp>,
    ) -> Result<HashMap<ChatKey, Timestamp>, HistoryError> {
        let looks = lively.into_iter().map(async |(chat, registered)| {
            let spoken = self.last_spoken(&chat).await?;
            Ok((chat, spoken.unwrap_or(registered)))
        });
        stream::iter(looks).buffer_unordered(AT_ONCE).try_collect().await
    }

    /// Returns the same chats, with the time of the last message that was answered in those that registered last.
    async fn in_order_of_answers(
        &self,
        mut lively: HashMap<ChatKey, Timestamp>,
    ) -> Result<HashMap<ChatKey, Timestamp>, HistoryError> {
        let mut newest: Vec<(&ChatKey, &Timestamp)> = lively.iter().collect();
        newest.sort_unstable_by_key(|(chat, at)| (Reverse(**at), *chat));
        let names: Vec<String> =
            newest.into_iter().take(MOST_HEADS).map(|(chat, _)| partition(chat)).collect();
        let batches =
            names.chunks(MAX_BATCH).map(|names| self.table.get_batch(names, HEAD, Some(ANSWERED_TO)));
        let heads = try_join_all(batches).await?;
        for head in heads.iter().flatten() {
            let answered = text(head, ANSWERED_TO).and_then(|key| key.parse::<SortKey>().ok());
            if let (Some(chat), Some(answered)) = (chat_of(head), answered)
                && let Some(at) = lively.get_mut(&chat)
            {
                // The registration is in whole seconds, rounded up.
                if answered.ts().plus(Duration::from_secs(1)) > *at {
                    *at = answered.ts();
                }
            }
        }
        Ok(lively)
    }

    /// Reads the time of the last message in `chat`, by the message's own time, if that is among the newest records in
    /// the table.
    async fn last_spoken(&self, chat: &ChatKey) -> Result<Option<Timestamp>, HistoryError> {
        let span = Span { newest_first: true, ..Span::first(LOOK, FIRST_KEY, LAST_KEY) };
        let newest = self.table.query_attributes(&partition(chat), &span, "sk, ts, #role, kind").await?;
        let is_said = |item: &&Item| {
            text(item, "role") == Some("user") && matches!(text(item, "kind"), Some("normal" | "revision"))
        };
        Ok(newest.iter().find(is_said).and_then(|item| time(item, "ts")))
    }

    /// Reads the first `wanted` places of `shard` after `before`, without those of `lively` chats.
    async fn quiet_places(
        &self,
        shard: u8,
        before: Option<&ListCursor>,
        wanted: usize,
        lively: &HashSet<ChatKey>,
    ) -> Result<Vec<(ChatKey, Timestamp)>, HistoryError> {
        let until = before.map_or(i64::MAX, |cursor| cursor.at.as_millis());
        let (mut places, mut start) = (Vec::new(), None);
        loop {
            let (items, next) =
                self.table.query_due(&format!("{PLACED}{shard}"), until, true, wanted, start).await?;
            places.extend(items.iter().filter_map(|item| {
                let (chat, at) = (chat_of(item)?, time(item, DUE_AT)?);
                let comes = before.is_none_or(|cursor| cursor.is_before(at, &chat));
                (comes && !lively.contains(&chat)).then_some((chat, at))
            }));
            start = next;
            if start.is_none() || places.len() >= wanted {
                return Ok(places);
            }
        }
    }

    /// Reads the chat at a place of `places`, by the name that it has now; `None` if that name has a place of its own, or there
    /// is no such place.
    pub async fn listed(&self, places: &Places, number: usize) -> Result<Option<Listed>, HistoryError> {
        let Some((at, chat)) = places.chats.get(number) else { return Ok(None) };
        let mut name = chat.clone();
        for _ in 0..MAX_NAMES {
            let item = if name == *chat {
                places.heads.get(chat).cloned()
            } else {
                self.table.get(&partition(&name), HEAD).await?
            };
            let item = item.unwrap_or_default();
            let head = Head::of(&item).unwrap_or_else(|error| {
                // One damaged chat must not hide the others from the list.
                tracing::error!(%error, "failed to read the head of a chat; the list shows the chat without its state");
                Head::default()
            });
            if let Some(moved_to) = &head.moved_to {
                name = moved_to.clone();
                continue;
            }
            // Of several earlier names, the last stands for the chat until the new name has a message.
            let speaks = name == *chat
                || (head.continues.as_ref().is_some_and(|link| link.chat == *chat)
                    && !places.lively.contains(&name)
                    && self.table.get(&partition(&name), PLACE).await?.is_none());
            if !speaks {
                return Ok(None);
            }
            let answered_until = self.answered_until(&item);
            return Ok(Some(Listed { chat: name, at: *at, head, answered_until }));
        }
        Ok(None)
    }

    /// Returns the end of the lease in the item `head`, if a run holds it.
    fn answered_until(&self, head: &Item) -> Option<Timestamp> {
        Held::at(head, self.clock.now()).filter(|held| held.is_run()).map(|held| held.until)
    }

    /// Sets the place of `chat` to the time of its last message. Only for a visit that has claimed the chat, for which
    /// a deletion waits. Costs 2 writes for a new place, 3 if it changes, else 1.
    pub async fn set_place(&self, chat: &ChatKey, spoken_at: Timestamp) -> Result<(), HistoryError> {
        self.table.update(&partition(chat), PLACE, place_at(chat, spoken_at)).await?;
        Ok(())
    }

    /// Sets the place of `chat` to the time at which the records among `entries` were appended, unless it is later. A
    /// new place depends on one of these records: the chat may have been forgotten since the index was read.
    pub(super) async fn set_place_by_entries(
        &self,
        chat: &ChatKey,
        entries: &[Entry],
    ) -> Result<(), HistoryError> {
        let records = entries.iter().filter(|entry| entry.key != HEAD);
        let Some(newest) = records.max_by_key(|entry| entry.due_at) else { return Ok(()) };
        let at = Timestamp::from_secs(newest.due_at).minus(self.retention.due_after());
        let update = place_at(chat, at).when("dueAt < :dueAt");
        match self.table.update(&partition(chat), PLACE, update).await? {
            Written::Refused(place) if place.is_empty() => {}
            Written::Done(_) | Written::Refused(_) => return Ok(()),
        }
        let mut place = item_at(partition(chat), PLACE);
        place.insert(DUE_SHARD.into(), string(format!("{PLACED}{}", shard_of(chat))));
        place.insert(DUE_AT.into(), number(at.as_millis()));
        self.table.put_anchored(place, Anchor::at(&newest.key)).await?;
        Ok(())
    }
}

/// Returns the update that sets the place of `chat` to `at`.
fn place_at(chat: &ChatKey, at: Timestamp) -> Update {
    let shard = string(format!("{PLACED}{}", shard_of(chat)));
    Update::default().set(DUE_SHARD, shard).set(DUE_AT, number(at.as_millis()))
}

/// Returns true if the `dueAt` of an item with this sort key is the date of a visit: that of a head or a record.
pub fn is_due_entry(sort_key: &str) -> bool {
    sort_key == HEAD || sort_key.starts_with(|first: char| first.is_ascii_digit())
}

fn chat_of(item: &Item) -> Option<ChatKey> {
    text(item, "pk").and_then(|pk| pk.parse().ok())
}
