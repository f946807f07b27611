//! Reads what is new in chats: [`Chats`].

use std::collections::{HashMap, HashSet};

use annals_core::message::{Role, UiMessage};
use annals_core::sort_key::Timestamp;
use annals_io::clock::Clock;
use anyhow::Context;
use futures::{StreamExt, stream};
use serde::Deserialize;
use serde_json::Value;

use super::event::{Event, Kind, events_of};
use crate::api::{Api, chat_path};
use crate::show::is_not_found;
use crate::tty::line;

/// Number of chats of the list that a poll looks at: if no more are lively, they are in the order of their last messages.
const LISTED: usize = 50;
/// Number of messages of a page.
const PAGE: usize = 50;
/// Number of chats that are read at a time.
const AT_ONCE: usize = 8;

/// The chats as they were last read.
pub(super) struct Chats<'a> {
    api: &'a Api,
    only: Option<&'a str>,
    clock: &'a Clock,
    known: HashMap<String, Known>,
    /// False until the chats were read once.
    has_begun: bool,
    /// In a chat that was not seen before, messages since then are new.
    new_since: Timestamp,
    /// Events that are not taken yet.
    events: Vec<Event>,
}

/// A chat as it was last read.
#[derive(Default)]
struct Known {
    /// Its entry in the list.
    entry: Value,
    /// Messages of the newest pages, by the kinds of their events.
    seen: HashMap<String, HashSet<Kind>>,
    /// True if these pages were the whole history.
    is_whole: bool,
    /// True if a reply may be on its way to the platform.
    is_sending: bool,
}

#[derive(Deserialize)]
struct List {
    chats: Vec<Value>,
    before: Option<String>,
}

#[derive(Deserialize)]
struct Page {
    messages: Vec<UiMessage>,
    before: Option<String>,
}

impl<'a> Chats<'a> {
    /// Returns a reader of `only` one chat, or of all.
    pub(super) fn new(api: &'a Api, only: Option<&'a str>, clock: &'a Clock) -> Self {
        let (known, events) = (HashMap::new(), Vec::new());
        Self { api, only, clock, known, has_begun: false, new_since: Timestamp::MIN, events }
    }

    /// Returns the events since the last call, oldest first.
    pub(super) fn take(&mut self) -> Vec<Event> {
        self.events.sort_by_key(|event| event.at);
        std::mem::take(&mut self.events)
    }

    /// Reads what has happened since the last poll, or first the newest page of each chat. If a request fails, the chats before it
    /// are read, and the others are read by the next poll.
    pub(super) async fn poll(&mut self) -> anyhow::Result<()> {
        let now = self.clock.now();
        let (mut entries, is_all) = self.entries().await?;
        let listed: HashSet<String> = entries.iter().map(key_of).collect();
        let is_gone = |(key, known): &(&String, &Known)| {
            (known.is_sending || !is_at_rest(&known.entry)) && !listed.contains(*key)
        };
        let open: Vec<String> = self.known.iter().filter(is_gone).map(|(key, _)| key.clone()).collect();
        for key in open {
            match self.api.json(&chat_path(&key, ""), &[]).await {
                Ok(entry) => entries.push(entry),
                Err(error) if is_not_found(&error) => drop(self.known.remove(&key)),
                Err(error) => return Err(error),
            }
        }
        entries.retain(|entry| {
            let had = self.known.get(&key_of(entry));
            had.is_none_or(|had| had.entry != *entry || had.is_sending)
        });
        let (api, known, has_begun, since) = (self.api, &self.known, self.has_begun, self.new_since);
        let reads = stream::iter(entries).map(async |entry| {
            let had = known.get(&key_of(&entry));
            let is_reached = |message: &UiMessage| match had {
                Some(had) => had.seen.contains_key(&message.id),
                None => !has_begun || last_time(message) < since,
            };
            let read = read(api, &entry, is_reached).await?;
            anyhow::Ok((entry, read))
        });
        let reads: Vec<_> = reads.buffered(AT_ONCE).collect().await;
        for read in reads {
            let (entry, (messages, is_whole)) = read?;
            self.compare(entry, &messages, is_whole);
        }
        if !self.has_begun && !is_all {
            self.new_since = now;
        }
        self.has_begun = true;
        Ok(())
    }

    /// Returns the entries of the chats that are followed, and whether these are all.
    async fn entries(&self) -> anyhow::Result<(Vec<Value>, bool)> {
        if let Some(chat) = self.only {
            let entry = self.api.json(&self.api.of_chat(chat, "")?, &[]).await;
            return Ok((vec![entry.with_context(|| line(chat))?], true));
        }
        let List { chats, before } = self.api.json("/v1/chats", &[("limit", LISTED.to_string())]).await?;
        Ok((chats, before.is_none()))
    }

    /// Notes the events of the newest `messages` of a chat that are not known, and what is known now. `is_whole` is true if they
    /// are the whole history.
    fn compare(&mut self, entry: Value, messages: &[UiMessage], is_whole: bool) {
        let key = key_of(&entry);
        let before = self.known.remove(&key);
        let name = ["title", "speaker", "chatKey"].iter().find_map(|name| entry[*name].as_str());
        let title = line(name.unwrap_or_default());
        let first_known = match &before {
            Some(known) if !known.is_whole => {
                messages.iter().position(|message| known.seen.contains_key(&message.id)).unwrap_or(0)
            }
            _ => 0,
        };
        let last_reply = messages.iter().rposition(|message| message.role == Role::Assistant);
        let (mut seen, mut is_sending) = (HashMap::new(), false);
        for (at, message) in messages.iter().enumerate() {
            let had = before.as_ref().and_then(|known| known.seen.get(&message.id));
            // A run ends when its reply is delivered, and the next begins after it. The entry is older than the messages, so it
            // tells that of replies which were known before.
            let is_sent = Some(at) != last_reply
                || (is_at_rest(&entry) && had.is_some())
                || (!self.has_begun && (is_at_rest(&entry) || at + 1 < messages.len()));
            let is_old = at < first_known || (before.is_none() && last_time(message) < self.new_since);
            let mut kinds = had.cloned().unwrap_or_default();
            for (kind, at, text) in events_of(message, self.clock.now()) {
                if kind == Kind::Delivered && !is_sent {
                    is_sending = true;
                } else if kinds.insert(kind) && !is_old && (self.has_begun || kind != Kind::Delivered) {
                    // The time of a delivery before the start is not known.
                    let metadata = &message.metadata;
                    let who = metadata.sent_by().or(metadata.sender_name()).or(metadata.user_id());
                    let who = who.unwrap_or_default();
                    let (who, message_id) = (line(who), message.id.clone());
                    let (chat_key, title) = (key.clone(), title.clone());
                    self.events.push(Event { at, kind, chat_key, title, who, message_id, text });
                }
            }
            seen.insert(message.id.clone(), kinds);
        }
        self.known.insert(key, Known { entry, seen, is_whole, is_sending });
    }
}

/// Reads the newest messages of the chat of an entry, back to a page with one that `is_reached`, or to the first. Returns them,
/// oldest first, and whether they are all.
async fn read(
    api: &Api,
    entry: &Value,
    is_reached: impl Fn(&UiMessage) -> bool,
) -> anyhow::Result<(Vec<UiMessage>, bool)> {
    let path = chat_path(&key_of(entry), "/messages");
    let mut query = vec![("limit", PAGE.to_string())];
    let mut all: Vec<UiMessage> = Vec::new();
    loop {
        let Page { mut messages, before } = api.json(&path, &query).await?;
        let is_over = messages.iter().any(&is_reached);
        messages.append(&mut all);
        all = messages;
        match before {
            Some(before) if !is_over => query = vec![("limit", "200".to_owned()), ("before", before)],
            before => return Ok((all, before.is_none())),
        }
    }
}

/// Returns true if no message of the chat is unanswered and no reply is under way.
fn is_at_rest(entry: &Value) -> bool {
    entry["pendingTurn"].is_null()
}

fn key_of(entry: &Value) -> String {
    entry["chatKey"].as_str().unwrap_or_default().to_owned()
}

/// Returns the time at which a message was said or stored, whichever is later.
fn last_time(message: &UiMessage) -> Timestamp {
    let (ts, sent_at) = (message.metadata.ts(), message.metadata.sent_at());
    ts.max(sent_at).unwrap_or(Timestamp::MIN)
}
