//! Stores parsed messages: each under the key that it would have if it had come by its channel, unless it is stored already.
//!
//! Each file is read twice: first to check all messages and to find where the last Session starts ([`Targets::check`]), then to
//! store them ([`Targets::store`]). So nothing of an invalid file is stored, and few messages are in memory at a time.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use annals_core::chat_key::ChatKey;
use annals_core::compaction::cut::tokens_beside;
use annals_core::draft::{Draft, Origin};
use annals_core::message::{Part, Role, UiMessage};
use annals_core::record::{Channel, Kind, Record};
use annals_core::sort_key::{MessageId, SortKey, Timestamp};
use annals_core::tokens;
use annals_store::history::{
    History, HistoryError, Imported, MAX_IMPORTED_AT_ONCE, MAX_PAGE, MAX_SEGMENT_RECORDS, Page, Position,
    ToImport,
};
use anyhow::Context;

use super::item::{Item, Options, Place};
use super::jsonl::channel_of;
use super::session::{ImportedChat, Start};
use crate::progress::Progress;

/// Number of messages that wait in memory, over all chats.
const MAX_WAITING: usize = 4 * MAX_IMPORTED_AT_ONCE;
/// Time after a reply of the agent within which its pieces are sent, and largest difference of clocks.
const DELIVERED_WITHIN: Duration = Duration::from_hours(1);
const MAX_SKEW: Duration = Duration::from_mins(1);

/// Text of the boundary between an imported history and its newest messages, for readers of the history.
const BOUNDARY: &str =
    "The history before this is imported. It can be searched, but the assistant does not read it by itself.";

/// Result of importing a chat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    stored: u64,
    edited: u64,
    present: u64,
    replies: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} stored, {} there already", self.stored, self.present)?;
        if self.edited > 0 {
            write!(f, ", {} edited since", self.edited)?;
        }
        if self.replies > 0 {
            write!(f, ", {} there as replies", self.replies)?;
        }
        Ok(())
    }
}

/// Index of the stored history of a chat.
#[derive(Default)]
struct Stored {
    messages: HashMap<String, Known>,
    /// Later forms, by message id and number.
    later: HashSet<(String, u32)>,
    /// Time and letters of each reply of the agent, by time.
    replies: BTreeMap<Timestamp, Vec<String>>,
    /// Ids of people across channels, by user id.
    persons: HashMap<String, String>,
    said: ImportedChat,
}

/// A message that is stored.
struct Known {
    ts: Timestamp,
    /// When its newest form was made.
    newest: Timestamp,
    /// True if its first form is stored.
    is_first: bool,
}

impl Stored {
    /// Reads the whole history of `chat`, the archive included: a put does not detect a record that has left the table.
    async fn of(history: &History, chat: &ChatKey) -> Result<Self, HistoryError> {
        let mut stored = Self::default();
        let mut position = Some(Position::Oldest);
        while let Some(at) = position {
            let Page { records, after, .. } = history.page(chat, &at, MAX_PAGE).await?;
            for record in &records {
                stored.add(record);
            }
            position = after.map(Position::After);
        }
        Ok(stored)
    }

    fn add(&mut self, record: &Record) {
        let id = record.message_id.as_str().to_owned();
        let made_at = record.form_ts().unwrap_or(record.ts);
        let is_first = record.revision() == 0;
        if !is_first {
            self.later.insert((id.clone(), record.revision()));
        }
        let known = Known { ts: record.ts, newest: made_at, is_first };
        let known = self.messages.entry(id).or_insert(known);
        known.newest = made_at.max(known.newest);
        known.is_first |= is_first;
        let is_imported = record.message.metadata.exported_sent_at() == Some(record.ts);
        if record.role() == Role::Assistant && record.kind() != Kind::Summary && !is_imported {
            let reply = letters(&record.message.plain_text());
            self.replies.entry(record.first_sent_at()).or_default().push(reply);
        }
        if let Some(person) = &record.person {
            self.persons.insert(record.user_id.clone(), person.clone());
        }
        match record.kind() {
            Kind::Boundary => self.said.add_boundary(record.ts),
            _ if record.is_interaction() => self.said.add(record.ts, true, 0),
            _ => {}
        }
    }

    fn has(&self, id: &str, revision: u32) -> bool {
        match revision {
            0 => self.messages.get(id).is_some_and(|known| known.is_first),
            n => self.later.contains(&(id.to_owned(), n)),
        }
    }

    /// Returns whether `item` is a message of the bot at Telegram that is a stored reply of the agent, or a piece of one.
    fn has_reply(&self, item: &Item) -> bool {
        if item.draft.role != Role::Assistant
            || item.draft.channel != Channel::Telegram
            || self.replies.is_empty()
        {
            return false;
        }
        let text: String =
            item.draft.parts.iter().filter_map(|part| part.as_map().get("text")?.as_str()).collect();
        let (at, text) = (item.draft.ts, letters(&text));
        let sent = self.replies.range(at.minus(DELIVERED_WITHIN)..=at.plus(MAX_SKEW));
        sent.flat_map(|(_, replies)| replies).any(|reply| is_within(&text, reply))
    }
}

/// Returns the letters and digits of a text, which rendering its Markdown does not change.
fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).collect()
}

/// Returns whether `piece` is `whole` without some characters, such as the address of a link.
fn is_within(piece: &str, whole: &str) -> bool {
    let mut whole = whole.chars();
    piece.chars().all(|c| whole.any(|w| w == c))
}

/// Result of looking a message up in its chat.
enum Fate {
    /// It is stored already.
    Present,
    /// It is a reply of the agent that is stored already.
    Reply,
    /// It is new.
    New(Box<ToImport>),
}

/// A chat to import into.
struct Target {
    chat: ChatKey,
    /// Its name for people.
    name: Arc<str>,
    stored: Stored,
    /// Its messages, the new ones included.
    said: ImportedChat,
    /// Time of the first new message.
    first: Option<Timestamp>,
    /// Time of the last message that was looked at.
    last: Option<Timestamp>,
    /// Start of the context, if messages were new.
    start: Option<Start>,
    /// New messages, and their keys.
    waiting: Vec<ToImport>,
    keys: HashSet<SortKey>,
    counts: Counts,
}

impl Target {
    async fn of(history: &History, item: &Item) -> Result<Self, HistoryError> {
        let stored = Stored::of(history, &item.draft.chat).await?;
        Ok(Self {
            chat: item.draft.chat.clone(),
            name: Arc::clone(&item.chat_name),
            said: stored.said.clone(),
            stored,
            first: None,
            last: None,
            start: None,
            waiting: Vec::new(),
            keys: HashSet::new(),
            counts: Counts::default(),
        })
    }

    /// Returns what becomes of `item`, the next message of the file; `now` is the time of the import.
    fn fate(&mut self, mut item: Item, now: Timestamp) -> Fate {
        let id = id_of(&item);
        let known = self.stored.messages.get(&id);
        // A message without a time follows the one before it; the first is of now.
        let default = || known.map(|known| known.ts).or(self.last.map(Timestamp::next));
        let ts = item.ts.or_else(default).unwrap_or(now);
        self.last = Some(ts);
        item.draft.ts = ts;
        let is_newer = known.is_some_and(|known| {
            item.revision == 0 && item.draft.form_ts.is_some_and(|form| form > known.newest) && known.ts == ts
        });
        if self.stored.has(&id, item.revision) && !is_newer {
            return Fate::Present;
        }
        if self.stored.has_reply(&item) {
            return Fate::Reply;
        }
        let (key, is_new) = (key_of(&item), known.is_none());
        let Item { mut draft, sent_at, revision, .. } = item;
        draft.person = draft.person.or_else(|| self.stored.persons.get(&draft.user_id).cloned());
        if draft.role == Role::Assistant {
            draft.metadata.set_exported_sent_at(sent_at.unwrap_or(ts));
        }
        Fate::New(Box::new(ToImport { draft, key, revision, is_new }))
    }

    async fn flush(&mut self, history: &History, progress: &mut Progress) -> Result<(), HistoryError> {
        let waiting = std::mem::take(&mut self.waiting);
        self.keys.clear();
        for imported in history.import_all(&waiting).await? {
            match imported {
                Imported::Stored => self.counts.stored += 1,
                Imported::Revised => self.counts.edited += 1,
                Imported::Present => self.counts.present += 1,
            }
        }
        progress.advance(waiting.len() as u64);
        Ok(())
    }

    /// Appends the boundary of a long history, and sets the start of the context. A run that holds the chat finds it by itself.
    async fn begin_context(&self, history: &History, agent_id: &str) -> Result<(), HistoryError> {
        let Some(start) = &self.start else { return Ok(()) };
        if let Some(ts) = start.boundary
            && let Ok(id) = MessageId::new(format!("import-{}", ts.as_millis()))
        {
            let origin = Origin {
                chat: self.chat.clone(),
                channel: channel_of(&self.chat),
                chat_id: self.chat.chat_id().to_owned(),
                user_id: agent_id.to_owned(),
            };
            let key = SortKey::message(ts, &id);
            let boundary =
                Draft::new(origin, id, ts).of_kind(Kind::Boundary).with_parts(vec![Part::text(BOUNDARY)]);
            history.import(&boundary, &key, 0).await?;
        }
        history.read_from(&self.chat, &SortKey::start_of(start.from), self.first).await?;
        Ok(())
    }
}

/// All chats to import into.
pub(super) struct Targets<'a> {
    history: &'a History,
    options: &'a Options,
    now: Timestamp,
    places: HashMap<ChatKey, usize>,
    /// In the order of their first messages.
    all: Vec<Target>,
    /// Number of messages that were checked.
    pub(super) checked: u64,
    waiting: usize,
}

impl<'a> Targets<'a> {
    pub(super) fn new(history: &'a History, options: &'a Options) -> Self {
        let now = history.clock().now();
        Self { history, options, now, places: HashMap::new(), all: Vec::new(), checked: 0, waiting: 0 }
    }

    /// Takes a message of the first reading.
    pub(super) async fn check(&mut self, item: Item) -> anyhow::Result<()> {
        let place = if let Some(place) = self.places.get(&item.draft.chat) {
            *place
        } else {
            let target = Target::of(self.history, &item).await;
            let unread = || format!("{} cannot be read, so this command has stored nothing", item.draft.chat);
            self.all.push(target.with_context(unread)?);
            self.places.insert(item.draft.chat.clone(), self.all.len() - 1);
            self.all.len() - 1
        };
        self.checked += 1;
        let target = &mut self.all[place];
        let Fate::New(new) = target.fate(item, self.now) else { return Ok(()) };
        let ToImport { draft, revision, .. } = *new;
        target.first = Some(target.first.map_or(draft.ts, |first| first.min(draft.ts)));
        match draft.kind {
            Kind::Boundary => target.said.add_boundary(draft.ts),
            Kind::Normal if revision == 0 => {
                // Messages within what a summary counts are summarised in one request, however many there are.
                let beside = tokens_beside(draft.role, true);
                let mut message = UiMessage::new("", draft.role, draft.parts);
                message.metadata = draft.metadata;
                let tokens = tokens::of_message(&message);
                target.said.add(draft.ts, draft.role == Role::User, tokens.saturating_add(beside));
            }
            _ => {}
        }
        Ok(())
    }

    /// Prepares for the second reading: sets where the contexts start, so that no turn in between reads years. To be repeated
    /// after it, by [`Targets::finish`].
    pub(super) async fn prepare(&mut self) -> anyhow::Result<()> {
        for target in &mut self.all {
            target.last = None;
            if target.first.is_some() {
                target.start = std::mem::take(&mut target.said).start(&self.options.view);
                let begun = target.begin_context(self.history, &self.options.settings.agent_id).await;
                begun.with_context(|| not_whole(&target.chat))?;
            }
        }
        Ok(())
    }

    /// Stores a message of the second reading, with others.
    pub(super) async fn store(&mut self, item: Item, progress: &mut Progress) -> anyhow::Result<()> {
        let place = self.places.get(&item.draft.chat).copied();
        let target = place.and_then(|place| self.all.get_mut(place));
        let target = target.context("the file has changed while it was read: run the same command again")?;
        match target.fate(item, self.now) {
            Fate::Present => target.counts.present += 1,
            Fate::Reply => target.counts.replies += 1,
            Fate::New(new) => {
                if target.keys.contains(&new.key) || target.waiting.len() >= MAX_IMPORTED_AT_ONCE {
                    self.waiting -= target.waiting.len();
                    target.flush(self.history, progress).await.with_context(|| not_whole(&target.chat))?;
                }
                target.keys.insert(new.key.clone());
                target.waiting.push(*new);
                self.waiting += 1;
                if self.waiting >= MAX_WAITING {
                    self.flush(progress).await?;
                }
                return Ok(());
            }
        }
        progress.advance(1);
        Ok(())
    }

    async fn flush(&mut self, progress: &mut Progress) -> anyhow::Result<()> {
        for target in &mut self.all {
            target.flush(self.history, progress).await.with_context(|| not_whole(&target.chat))?;
        }
        self.waiting = 0;
        Ok(())
    }

    /// Stores what waits. Returns a line for each chat.
    pub(super) async fn finish(mut self, progress: &mut Progress) -> anyhow::Result<Vec<String>> {
        self.flush(progress).await?;
        let mut lines = Vec::new();
        for target in &self.all {
            let begun = target.begin_context(self.history, &self.options.settings.agent_id).await;
            begun.with_context(|| not_whole(&target.chat))?;
            if target.counts.stored > MAX_SEGMENT_RECORDS as u64 {
                let archived = self.history.archive_imported(&target.chat).await;
                archived.with_context(|| not_whole(&target.chat))?;
            }
            lines.push(format!("{}  {}: {}", target.chat, target.name, target.counts));
        }
        Ok(lines)
    }
}

fn not_whole(chat: &ChatKey) -> String {
    format!("{chat} is not imported whole: run the same command again to continue")
}

/// Returns the id of the item's record.
fn id_of(item: &Item) -> String {
    let Draft { message_id: id, kind, .. } = &item.draft;
    if *kind == Kind::Boundary { id.derived("boundary").to_string() } else { id.to_string() }
}

fn key_of(item: &Item) -> SortKey {
    let id = item.draft.message_id.as_str();
    let of = |suffix: &str| {
        let id = id.strip_suffix(suffix).unwrap_or(id);
        // Valid, since the longer id with the suffix is.
        let id = MessageId::new(id).unwrap_or_else(|_| item.draft.message_id.clone());
        SortKey::message(item.draft.ts, &id)
    };
    match &item.place {
        Place::Message => of(""),
        Place::Opening => of("").opening_message(),
        Place::Form => of("").revision(item.revision),
        Place::Reply => of("/reply").reply(),
        Place::ReplyForm => of("/reply").reply().reply_form(item.revision),
        Place::Notice => of("/notice").notice(),
        Place::Approval(request) => of(&format!("/reply/approval-{request}")).reply().approval(request),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sent_reply_is_recognized_by_its_letters() {
        let said = letters("See [the **plan**](https://example.com/plan), it is *ready*.");
        assert!(is_within(&letters("See the plan, it is ready."), &said));
        assert!(is_within(&letters("it is ready."), &said), "a piece");
        assert!(!is_within(&letters("See the plan, it is not ready."), &said));
    }
}
