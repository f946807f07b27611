//! The list of chats, those first in which somebody spoke last.
//!
//! No index over all messages is kept for it (that would double the cost of an append), and no write of a turn is spent
//! on it. What names a chat is one of these, both in the index of due chats (see [`due`](super::due)):
//!
//! - *an entry* of the index that is a record: the chat registered for a visit of the compactor, and the record says so
//!   until that visit. It costs what it costs already.
//! - *its place*, an item of the chat's own, one a chat, without TTL, in partitions of the index that no visit reads:
//!
//! ```json
//! {"pk": "telegram:chat:42", "sk": "!place", "dueShard": "placed-4", "dueAt": 1763765920000}
//! ```
//!
//! # Every chat is listed, and once
//!
//! A record that is put registers its chat, or its process has within R = D/2, by an entry that comes due no earlier
//! than D/2 behind the record. Entries leave by `settle` and `put_off` alone (and with a chat that is forgotten), which
//! set the place first. So from its first record on a chat has an entry, a place or both; and where it has no entry,
//! nobody has said anything since the visit that set its place, which is therefore still the time at which somebody last
//! spoke. A chat with entries may have an outdated place, too: so all entries are read for each page, and a place counts
//! only where there is none. That is the price of writing nothing: the keys of the chats that were lively in the last D.
//!
//! Where that many chats were lively, up to [`MOST_EXACT`], each is looked at for when somebody last spoke in it, and the
//! whole list is in that very order. Beyond, those chats are in the order in which they registered, which is right to
//! R (18 hours); a page's own chats can be put in order by whoever shows them. Which of the two it is stays so for all pages
//! that follow from one first page, since the cursor says it.
//!
//! A cursor is a time and a ChatKey, and a page goes on behind it. So no chat is given twice, but one in which somebody
//! speaks while pages are turned, which is then in front.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};

use aws_sdk_dynamodb::types::AttributeValue;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::future::try_join_all;
use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};

use super::due::{DUE_AT, DUE_SHARD, Entry, SHARDS, shard_of};
use super::item::{integer, text};
use super::read::MAX_NAMES;
use super::table::{Anchor, Item, Update, Written, number, string};
use super::turn::{Head, head_of};
use super::{CursorError, HEAD, History, HistoryError, partition};
use crate::chat_key::ChatKey;
use crate::sort_key::Timestamp;

/// The most chats that a page of the list has.
pub const MAX_CHATS: usize = 100;

/// Up to how many lively chats are looked at for each page.
pub const MOST_EXACT: usize = 500;

/// The item that holds a chat's place.
pub(super) const PLACE: &str = "!place";

/// The partitions of the index that hold places.
const PLACED: &str = "placed-";

/// How many of a chat's newest records are looked at for one in which somebody speaks.
const LOOK: usize = 6;

/// How many chats are looked at side by side.
const AT_ONCE: usize = 32;

/// How many keys of the index one request reads.
const KEYS_AT_ONCE: usize = 5_000;

/// Where a page of the list ends, for readers opaque text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListCursor {
    #[serde(rename = "t")]
    at: Timestamp,
    #[serde(rename = "c")]
    chat: ChatKey,
    /// Whether the lively chats are in their very order.
    #[serde(rename = "x")]
    exact: bool,
}

impl ListCursor {
    /// As the text that readers get.
    pub fn encode(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    /// From the text that readers give back.
    pub fn decode(text: &str) -> Result<Self, CursorError> {
        let json = URL_SAFE_NO_PAD.decode(text).map_err(|_| CursorError)?;
        serde_json::from_slice(&json).map_err(|_| CursorError)
    }

    /// Whether a chat at this place comes behind.
    fn is_before(&self, at: Timestamp, chat: &ChatKey) -> bool {
        (Reverse(self.at), &self.chat) < (Reverse(at), chat)
    }
}

/// A chat of the list.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// The name that it has now.
    pub chat: ChatKey,
    /// Its place: when somebody last spoke, or where there is too much to look at, when it registered.
    pub at: Timestamp,
    /// Its head.
    pub head: Head,
    /// Until when a run has it, if one has.
    pub answered_until: Option<Timestamp>,
}

/// A page of the list.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatPage {
    /// Its chats, the one with the latest place first; there may be fewer than were asked for, and further pages behind.
    pub chats: Vec<Listed>,
    /// Where the page behind this one starts; `None` where there is none.
    pub before: Option<ListCursor>,
}

impl History {
    /// A page of at most `limit` chats (1 to [`MAX_CHATS`]), from the top or from behind `before`.
    pub async fn chats(&self, before: Option<&ListCursor>, limit: usize) -> Result<ChatPage, HistoryError> {
        let limit = limit.clamp(1, MAX_CHATS);
        let lively = self.lively().await?;
        let exact = before.map_or(lively.len() <= MOST_EXACT, |cursor| cursor.exact);
        let names: HashSet<ChatKey> = lively.keys().cloned().collect();
        let lively = if exact { self.looked_at(lively).await? } else { lively };
        let comes = |at: Timestamp, chat: &ChatKey| before.is_none_or(|cursor| cursor.is_before(at, chat));

        // One more than the page has tells whether there is anything further.
        let quiet = (0..SHARDS).map(|shard| self.places(shard, before, limit + 1, &names));
        let quiet = try_join_all(quiet).await?;
        let mut places: BTreeSet<(Reverse<Timestamp>, ChatKey)> = BTreeSet::new();
        for (chat, at) in lively.into_iter().chain(quiet.into_iter().flatten()) {
            if comes(at, &chat) {
                places.insert((Reverse(at), chat));
            }
        }
        let page: Vec<(Timestamp, ChatKey)> =
            places.iter().take(limit).map(|(Reverse(at), chat)| (*at, chat.clone())).collect();
        let last = page.last().filter(|_| places.len() > limit);
        let before = last.map(|(at, chat)| ListCursor { at: *at, chat: chat.clone(), exact });
        let chats = stream::iter(page.into_iter().map(|(at, chat)| self.listed(chat, at, &names)));
        let chats: Vec<Option<Listed>> = chats.buffered(AT_ONCE).try_collect().await?;
        Ok(ChatPage { chats: chats.into_iter().flatten().collect(), before })
    }

    /// One chat as the list has it, by the name that it has now. What is at no place of the list is at the clock's time.
    pub async fn chat(&self, chat: &ChatKey) -> Result<Listed, HistoryError> {
        let (chat, _) = self.current(chat).await?;
        let item = self.table.get(&partition(&chat), HEAD).await?.unwrap_or_default();
        let mut at = self.last_spoken(&chat).await?;
        if at.is_none() {
            let place = self.table.get(&partition(&chat), PLACE).await?;
            at = place.and_then(|place| integer(&place, DUE_AT)).and_then(Timestamp::from_millis);
        }
        let answered_until = self.answered_until(&item);
        let at = at.unwrap_or_else(|| self.clock.now());
        Ok(Listed { chat, at, head: head_of(&item)?, answered_until })
    }

    /// The chats that have registered and were not visited since, each with when it last registered.
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

    /// The same with when somebody last spoke in each.
    async fn looked_at(
        &self,
        lively: HashMap<ChatKey, Timestamp>,
    ) -> Result<HashMap<ChatKey, Timestamp>, HistoryError> {
        let looks = lively.into_iter().map(async |(chat, registered)| {
            let spoken = self.last_spoken(&chat).await?;
            Ok((chat, spoken.unwrap_or(registered)))
        });
        stream::iter(looks).buffer_unordered(AT_ONCE).try_collect().await
    }

    /// When somebody last spoke in `chat`, by the message's own time, if that is among its newest records in the table.
    async fn last_spoken(&self, chat: &ChatKey) -> Result<Option<Timestamp>, HistoryError> {
        let newest = self.table.newest(&partition(chat), LOOK, "sk, ts, #role, kind").await?;
        let is_said = |item: &&Item| {
            text(item, "role") == Some("user") && matches!(text(item, "kind"), Some("normal" | "revision"))
        };
        Ok(newest.iter().find(is_said).and_then(|item| integer(item, "ts")).and_then(Timestamp::from_millis))
    }

    /// The first `wanted` places of `shard` behind `before`, without those of `lively` chats.
    async fn places(
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
                let (chat, at) = (chat_of(item)?, integer(item, DUE_AT).and_then(Timestamp::from_millis)?);
                let comes = before.is_none_or(|cursor| cursor.is_before(at, &chat));
                (comes && !lively.contains(&chat)).then_some((chat, at))
            }));
            start = next;
            if start.is_none() || places.len() >= wanted {
                return Ok(places);
            }
        }
    }

    /// The chat at a place, by the name that it has now; `None` where that name has a place of its own.
    async fn listed(
        &self,
        chat: ChatKey,
        at: Timestamp,
        lively: &HashSet<ChatKey>,
    ) -> Result<Option<Listed>, HistoryError> {
        let mut name = chat.clone();
        for _ in 0..MAX_NAMES {
            let item = self.table.get(&partition(&name), HEAD).await?.unwrap_or_default();
            let head = head_of(&item).unwrap_or_else(|error| {
                // One damaged chat must not hide the others from the list.
                tracing::error!(%error, "a chat is listed without its state");
                Head::default()
            });
            if let Some(moved_to) = &head.moved_to {
                name = moved_to.clone();
                continue;
            }
            // Of several earlier names, the last speaks for the chat until it has been spoken in.
            let speaks = name == chat
                || (head.continues.as_ref().is_some_and(|link| link.chat == chat)
                    && !lively.contains(&name)
                    && self.table.get(&partition(&name), PLACE).await?.is_none());
            if !speaks {
                return Ok(None);
            }
            let answered_until = self.answered_until(&item);
            return Ok(Some(Listed { chat: name, at, head, answered_until }));
        }
        Ok(None)
    }

    /// Until when a run has the chat of this head, if one has.
    fn answered_until(&self, head: &Item) -> Option<Timestamp> {
        let is_visited = head.contains_key("housekeeping");
        let leased = integer(head, "leaseUntil").and_then(Timestamp::from_millis);
        leased.filter(|until| !is_visited && *until >= self.clock.now())
    }

    /// Sets the place of `chat` to when somebody last spoke, as a visit has found out that has the chat: a deletion waits for
    /// it. Costs 2 writes for a new place, 3 if it changes, else 1.
    pub async fn set_place(&self, chat: &ChatKey, spoken_at: Timestamp) -> Result<(), HistoryError> {
        let update =
            Update { expression: PLACE_AT.into(), values: place_at(chat, spoken_at), condition: None };
        self.table.update(&partition(chat), PLACE, update).await?;
        Ok(())
    }

    /// Sets the place of `chat` to when the records among `entries` were appended, unless it is later. A new place depends on
    /// one of these records: the chat may have been forgotten since the index was read.
    pub(super) async fn set_place_by_entries(
        &self,
        chat: &ChatKey,
        entries: &[Entry],
    ) -> Result<(), HistoryError> {
        let records = entries.iter().filter(|entry| entry.key != HEAD);
        let Some(newest) = records.max_by_key(|entry| entry.due_at) else { return Ok(()) };
        let at = Timestamp::from_secs(newest.due_at).minus(self.retention.due_after());
        let update = Update {
            expression: PLACE_AT.into(),
            values: place_at(chat, at),
            condition: Some("dueAt < :at"),
        };
        match self.table.update(&partition(chat), PLACE, update).await? {
            Written::Refused(place) if place.is_empty() => {}
            Written::Done(_) | Written::Refused(_) => return Ok(()),
        }
        let mut place = Item::new();
        place.insert("pk".into(), string(partition(chat)));
        place.insert("sk".into(), string(PLACE));
        place.insert(DUE_SHARD.into(), string(format!("{PLACED}{}", shard_of(chat))));
        place.insert(DUE_AT.into(), number(at.as_millis()));
        let anchor = Anchor { sk: newest.key.clone(), ..Anchor::default() };
        self.table.put_anchored(place, &anchor).await?;
        Ok(())
    }
}

/// Sets a place.
const PLACE_AT: &str = "SET dueShard = :shard, dueAt = :at";

fn place_at(chat: &ChatKey, at: Timestamp) -> Vec<(&'static str, AttributeValue)> {
    vec![(":shard", string(format!("{PLACED}{}", shard_of(chat)))), (":at", number(at.as_millis()))]
}

/// Whether an item with this sort key says when its chat is due for a visit, where it has a `dueAt`.
pub fn is_due_entry(sort_key: &str) -> bool {
    sort_key != PLACE
}

fn chat_of(item: &Item) -> Option<ChatKey> {
    text(item, "pk").and_then(|pk| pk.parse().ok())
}
