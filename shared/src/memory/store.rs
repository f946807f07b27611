//! Entries in DynamoDB: [`Memory`]. They lie in the table of the histories, in partitions of their own:
//!
//! ```json
//! {"pk": "memory:user:telegram-42", "sk": "entry#0000000003", "markdown": "---\ntype: preference\n…", "position": 2,
//!  "capture": "!capture#telegram-5b1f0c9a2d3e4f5061728394#1763766220000#00000000000000000012"}
//! {"pk": "memory:user:telegram-42", "sk": "entry#0000000002", "deletedAt": 1763800000000, "position": 1, "capture": "…"}
//! {"pk": "memory:user:telegram-42", "sk": "!capture#telegram-5b1f0c9a2d3e4f5061728394#1763766220000#00000000000000000012",
//!  "first": 1, "createdAt": 1763766300000, "origin": "{\"chat\":…}", "findings": "[{\"type\":\"fact\",\"text\":…}]"}
//! ```
//!
//! Entries are numbered from 1, without gaps, in order of creation. A deleted one leaves its number, and no text, so a
//! number never comes to mean another entry. Nothing here expires.
//!
//! # Undoing what the agent's tools did
//!
//! ```json
//! {"pk": "memory:user:telegram-42", "sk": "entry#0000000003", "markdown": "---\n…", "earlier": "---\n…", "undoUntil": 1764404320000, …}
//! {"pk": "memory:user:telegram-42", "sk": "entry#0000000004", "deletedAt": 1763799520000, "earlier": "---\n…", "undoUntil": 1764404320000, …}
//! ```
//!
//! Where a tool replaces or forgets an entry, the same write keeps the entry's earlier form beside it for [`UNDO_FOR`]: the one from
//! before the tool's first change, so that a second change does not destroy it. Only [`Memory::undo`] goes back to it.
//! It is in the same item, so a person's correction or deletion removes it in the same write. After that time it is not
//! given out any more, and the next reader of its owner's entries deletes it.
//!
//! # Capturing a Session
//!
//! 1. The whole of what was found is put, create-only, as one item: `!capture#<SessionId>#<key of the Session's end>`, with
//!    the first number that was free before. Of two answers of a model to the same Session, one wins here.
//! 2. Each finding is put, create-only, at the first free number from `first` on. Whoever repeats this, later or at once,
//!    meets those that are there, also deleted ones: `capture` and `position` say what each is. As no number is left out,
//!    none is passed by.
//! 3. The item of step 1 gives up its findings, so that no text outlives the deletion of its entry.
//!
//! A crash between any two of these is completed by the next [`capture`](Memory::capture) or
//! [`has_captured`](Memory::has_captured).

use std::time::Duration;

use aws_sdk_dynamodb::Client;

use super::capture::{Finding, normalized};
use super::entry::{Correction, Entry, Source};
use super::id::EntryId;
use super::owner::Owner;
use super::section::{fitting, section};
use crate::chat_key::ChatKey;
use crate::clock::Clock;
use crate::history::item::{integer, text};
use crate::history::table::{Item, Span, Table, Update, Written, number, string};
use crate::history::{History, Meter, TableError};
use crate::ranking::rank;
use crate::sort_key::Timestamp;

/// How many of an owner's newest entries are looked through for what fits a message: so the cost of a turn has a bound,
/// however long somebody has been known.
pub const MAX_RECALLED_FROM: usize = 200;

/// How often one write looks again when others write beside it: a correction of the same entry, an entry that takes the
/// number meant for this one.
const MAX_ATTEMPTS: u32 = 100;

/// How long what the agent's tools did to an entry can be undone.
pub const UNDO_FOR: Duration = Duration::from_hours(7 * 24);

/// The entries of everybody.
#[derive(Clone, Debug)]
pub struct Memory {
    table: Table,
    clock: Clock,
}

/// An entry as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its place in order of creation among all that its owner ever had, from 1.
    pub number: u32,
    /// The entry.
    pub entry: Entry,
}

impl Kept {
    /// What it is called by outside.
    pub fn id(&self) -> EntryId {
        EntryId { owner: self.entry.owner.clone(), number: self.number }
    }
}

/// All that an owner has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overview {
    /// The entries, in order of creation.
    pub kept: Vec<Kept>,
    /// What can be undone, in the same order.
    pub undoable: Vec<Undoable>,
}

/// An entry that the agent's tools replaced or forgot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undoable {
    /// The entry as it was before.
    pub earlier: Kept,
    /// True if it was forgotten, and not replaced.
    pub is_forgotten: bool,
    /// Until when it can be undone.
    pub until: Timestamp,
}

/// What a capture did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Captured {
    /// The Session's findings are stored now: this many.
    Stored(usize),
    /// The Session was captured before, maybe with other findings; those stand, and are all stored now.
    Before,
}

/// What became of something that is to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Saved {
    /// It is an entry now.
    Now(Kept),
    /// It was one before: this very saving was done already, or the owner has an entry that says the same.
    Before(Kept),
    /// It was saved, and has been deleted since.
    Deleted,
}

/// What a deletion met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// The entry, which is gone now.
    Now,
    /// The place of one that was deleted before.
    Before,
    /// Nothing: no entry ever had this id.
    Unknown,
}

/// Memory could not be read or written. What was stored before stays stored.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// DynamoDB failed.
    #[error(transparent)]
    Table(#[from] TableError),
    /// Findings could not be written as, or read from, JSON.
    #[error("the findings of a session are no JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// So many writers were at the same owner at once that no entry could be stored.
    #[error("too many writers changed one memory at once; try again")]
    Contended,
}

impl Memory {
    /// The entries in `table`.
    pub fn new(dynamodb: Client, table: String, clock: Clock) -> Self {
        Self { table: Table::new(dynamodb, table), clock }
    }

    /// The entries in the table of `history`, counted by its meter.
    pub fn beside(history: &History) -> Self {
        Self { table: history.table().clone(), clock: history.clock().clone() }
    }

    /// Counts what the table's operations consume.
    pub fn meter(&self) -> &Meter {
        self.table.meter()
    }

    /// What fits `query` best of what is known of `owner`, as a section for the system part of at most `token_budget`
    /// tokens; `None` where nothing is known, or fits. One query, eventually consistent.
    pub async fn recall_section(
        &self,
        owner: &Owner,
        query: &str,
        token_budget: u32,
    ) -> Result<Option<String>, MemoryError> {
        Ok(section(&self.recall(owner, query, token_budget).await?))
    }

    /// The entries of [`recall_section`](Memory::recall_section): those that share words with `query` first, the best
    /// first; behind them the others, the newest first; as many as fit. Entries older than the newest
    /// [`MAX_RECALLED_FROM`] are not looked at.
    pub async fn recall(
        &self,
        owner: &Owner,
        query: &str,
        token_budget: u32,
    ) -> Result<Vec<Kept>, MemoryError> {
        let span = Span { newest_first: true, limit: Some(MAX_RECALLED_FROM), ..entries() };
        let items = self.table.query_eventually(&owner.partition(), &span).await?;
        self.purge(owner, &items).await?;
        let newest_first: Vec<Kept> = items.iter().filter_map(|item| kept(owner, item)).collect();
        if newest_first.is_empty() {
            return Ok(newest_first);
        }
        let texts: Vec<&str> = newest_first.iter().map(|kept| kept.entry.text.as_str()).collect();
        let best = rank(query, &texts, texts.len());
        let mut left: Vec<Option<Kept>> = newest_first.into_iter().map(Some).collect();
        let mut ranked: Vec<Kept> = best.iter().filter_map(|scored| left[scored.index].take()).collect();
        ranked.extend(left.into_iter().flatten());
        Ok(fitting(ranked, token_budget))
    }

    /// What `owner` has, in order of creation, without what was deleted.
    pub async fn list(&self, owner: &Owner) -> Result<Vec<Kept>, MemoryError> {
        Ok(self.overview(owner).await?.kept)
    }

    /// What `owner` has, and what of it can be undone.
    pub async fn overview(&self, owner: &Owner) -> Result<Overview, MemoryError> {
        let items = self.table.query(&owner.partition(), &entries()).await?;
        self.purge(owner, &items).await?;
        let now = self.clock.now();
        Ok(Overview {
            kept: items.iter().filter_map(|item| kept(owner, item)).collect(),
            undoable: items.iter().filter_map(|item| undoable(owner, item, now)).collect(),
        })
    }

    /// Deletes the earlier forms among `items` that can no longer be gone back to. One write for each.
    async fn purge(&self, owner: &Owner, items: &[Item]) -> Result<(), MemoryError> {
        let now = self.clock.now();
        for item in items.iter().filter(|item| item.contains_key("earlier")) {
            let (Some(number_of_it), Some(until)) = (number_of(item), until_of(item)) else { continue };
            if until > now {
                continue;
            }
            let update = Update {
                expression: "REMOVE earlier, undoUntil".into(),
                condition: Some("undoUntil = :until"),
                values: vec![(":until", number(until))],
            };
            self.table.update(&owner.partition(), &entry_key(number_of_it), update).await?;
        }
        Ok(())
    }

    /// One entry; `None` where there is none, or none any more.
    pub async fn get(&self, id: &EntryId) -> Result<Option<Kept>, MemoryError> {
        let item = self.table.get(&id.owner.partition(), &entry_key(id.number)).await?;
        Ok(item.and_then(|item| kept(&id.owner, &item)))
    }

    /// Corrects an entry for a person, who knows what it says now: nothing of it can be undone after that. Answers with it, or
    /// with `None` where there is none. One that the agent forgot comes back, as long as that can be undone. One read and one
    /// write.
    pub async fn correct(&self, id: &EntryId, correction: &Correction) -> Result<Option<Kept>, MemoryError> {
        let (pk, sk) = (id.owner.partition(), entry_key(id.number));
        for _ in 0..MAX_ATTEMPTS {
            let Some(item) = self.table.get(&pk, &sk).await? else { return Ok(None) };
            let now = self.clock.now();
            let (is, known) = match (kept(&id.owner, &item), undoable(&id.owner, &item, now)) {
                (Some(kept), _) => ("markdown", kept),
                (None, Some(undoable)) => ("earlier", undoable.earlier),
                (None, None) => return Ok(None),
            };
            let Kept { number, entry } = known;
            let entry = correction.apply(&entry, now);
            let update = Update {
                expression: "SET markdown = :new REMOVE earlier, undoUntil, deletedAt".into(),
                condition: Some(match is {
                    "markdown" => "markdown = :old",
                    _ => "attribute_not_exists(markdown) AND earlier = :old",
                }),
                values: vec![
                    (":new", string(entry.render())),
                    (":old", string(text(&item, is).unwrap_or_default())),
                ],
            };
            if let Written::Done(_) = self.table.update(&pk, &sk, update).await? {
                return Ok(Some(Kept { number, entry }));
            }
        }
        Err(MemoryError::Contended)
    }

    /// Replaces an entry for the agent, with the results of the tools `outside` in view; its earlier form is kept for
    /// [`UNDO_FOR`]. Answers with it, or with `None` where there is none. One read and one write; no write where it says the same.
    pub async fn replace(
        &self,
        id: &EntryId,
        correction: &Correction,
        outside: &[String],
    ) -> Result<Option<Kept>, MemoryError> {
        let now = self.clock.now();
        let changed = |entry: &Entry| Some(correction.apply_of_agent(entry, outside, now));
        Ok(match self.change(id, changed).await? {
            Changed::Now(kept) => Some(*kept),
            Changed::Before | Changed::Unknown => None,
        })
    }

    /// Forgets an entry for the agent; it is kept for [`UNDO_FOR`], and then gone. Safe to repeat. One read and one write.
    pub async fn set_aside(&self, id: &EntryId) -> Result<Deleted, MemoryError> {
        Ok(match self.change(id, |_| None).await? {
            Changed::Now(_) => Deleted::Now,
            Changed::Before => Deleted::Before,
            Changed::Unknown => Deleted::Unknown,
        })
    }

    /// Changes an entry to what `change` makes of it, or if that is `None` deletes it, and keeps its earlier form.
    async fn change(
        &self,
        id: &EntryId,
        change: impl Fn(&Entry) -> Option<Entry>,
    ) -> Result<Changed, MemoryError> {
        let (pk, sk) = (id.owner.partition(), entry_key(id.number));
        for _ in 0..MAX_ATTEMPTS {
            let Some(item) = self.table.get(&pk, &sk).await? else { return Ok(Changed::Unknown) };
            let Some(Kept { number: nth, entry }) = kept(&id.owner, &item) else {
                return Ok(Changed::Before);
            };
            let new = change(&entry);
            if new.as_ref().is_some_and(|new| new.text == entry.text) {
                return Ok(Changed::Now(Box::new(Kept { number: nth, entry })));
            }
            let now = self.clock.now();
            let old = text(&item, "markdown").unwrap_or_default();
            let first = undoable(&id.owner, &item, now).and_then(|_| text(&item, "earlier"));
            let mut values = vec![
                (":old", string(old)),
                (":earlier", string(first.unwrap_or(old))),
                (":until", number(now.plus(UNDO_FOR))),
            ];
            let expression = if let Some(new) = &new {
                values.push((":new", string(new.render())));
                "SET markdown = :new, earlier = :earlier, undoUntil = :until"
            } else {
                values.push((":now", number(now)));
                "SET deletedAt = :now, earlier = :earlier, undoUntil = :until REMOVE markdown"
            };
            let condition = Some("markdown = :old");
            let update = Update { expression: expression.into(), condition, values };
            if let Written::Done(_) = self.table.update(&pk, &sk, update).await? {
                return Ok(Changed::Now(Box::new(Kept { number: nth, entry: new.unwrap_or(entry) })));
            }
        }
        Err(MemoryError::Contended)
    }

    /// Brings back the form that an entry had before the agent's tools replaced or forgot it; answers with it, or with `None`
    /// where there is nothing to undo. One read and one write.
    pub async fn undo(&self, id: &EntryId) -> Result<Option<Kept>, MemoryError> {
        let (pk, sk) = (id.owner.partition(), entry_key(id.number));
        let Some(item) = self.table.get(&pk, &sk).await? else { return Ok(None) };
        let Some(undoable) = undoable(&id.owner, &item, self.clock.now()) else { return Ok(None) };
        let update = Update {
            expression: "SET markdown = :earlier REMOVE earlier, undoUntil, deletedAt".into(),
            condition: Some("earlier = :earlier"),
            values: vec![(":earlier", string(text(&item, "earlier").unwrap_or_default()))],
        };
        Ok(match self.table.update(&pk, &sk, update).await? {
            Written::Done(_) => Some(undoable.earlier),
            Written::Refused(_) => None,
        })
    }

    /// Deletes an entry for a person: its text is gone, with any earlier form, and its number is not given again. Safe to repeat.
    /// One write.
    pub async fn delete(&self, id: &EntryId) -> Result<Deleted, MemoryError> {
        let update = Update {
            expression: "SET deletedAt = :now REMOVE markdown, earlier, undoUntil".into(),
            condition: Some("attribute_exists(markdown) OR attribute_exists(earlier)"),
            values: vec![(":now", number(self.clock.now()))],
        };
        let (pk, sk) = (id.owner.partition(), entry_key(id.number));
        Ok(match self.table.update(&pk, &sk, update).await? {
            Written::Done(_) => Deleted::Now,
            Written::Refused(item) if item.is_empty() => Deleted::Unknown,
            Written::Refused(_) => Deleted::Before,
        })
    }

    /// Deletes what `owner` has from `chat`, and that anything was captured there; for a group's own memory, all of it.
    /// Answers how many entries. Safe to repeat.
    pub async fn forget_chat(&self, owner: &Owner, chat: &ChatKey) -> Result<usize, MemoryError> {
        let is_group = *owner == Owner::Chat(chat.clone());
        let Overview { mut kept, undoable } = self.overview(owner).await?;
        // What the agent has forgotten is counted as well: it is gone only now.
        kept.extend(undoable.into_iter().filter(|undoable| undoable.is_forgotten).map(|gone| gone.earlier));
        kept.retain(|kept| is_group || kept.entry.source.as_ref().is_some_and(|source| source.chat == *chat));
        for kept in &kept {
            self.delete(&kept.id()).await?;
        }
        let pk = owner.partition();
        let mut keys = self.table.keys(&pk).await?;
        let captures = captures_of(chat);
        keys.retain(|key| is_group || key.starts_with(&captures));
        self.table.delete(&pk, keys).await?;
        Ok(kept.len())
    }

    /// Whether the Session that ends where `source` does was captured; a capture that a crash cut short is completed
    /// first. One read, where none was.
    pub async fn has_captured(&self, owner: &Owner, source: &Source) -> Result<bool, MemoryError> {
        let Some(item) = self.table.get(&owner.partition(), &capture_key(source)).await? else {
            return Ok(false);
        };
        self.resume(owner, &item).await?;
        Ok(true)
    }

    /// Stores what was found in a Session, once: see the module's documentation for the steps. No findings are a capture
    /// too. Safe to repeat after any failure, also with other findings: the first ones stand.
    ///
    /// Costs half a read unit, and n + 2 writes for n findings; 1 write where there are none.
    pub async fn capture(
        &self,
        owner: &Owner,
        source: &Source,
        findings: &[Finding],
    ) -> Result<Captured, MemoryError> {
        let newest = Span { newest_first: true, limit: Some(1), ..entries() };
        let newest = match findings {
            [] => Vec::new(),
            // A number that is too low costs a refused put, and nothing else.
            _ => self.table.query_eventually(&owner.partition(), &newest).await?,
        };
        let capture = Capture {
            key: capture_key(source),
            first: newest.first().and_then(number_of).unwrap_or(0).saturating_add(1),
            created: self.clock.now(),
            source: source.clone(),
            findings: findings.to_vec(),
        };
        match self.table.put_new(capture.item(owner)?).await? {
            Written::Done(_) => {
                if !findings.is_empty() {
                    let all = (0..findings.len()).collect();
                    self.complete(owner, &capture, all, capture.first).await?;
                }
                Ok(Captured::Stored(findings.len()))
            }
            Written::Refused(existing) => {
                self.resume(owner, &existing).await?;
                Ok(Captured::Before)
            }
        }
    }

    /// Keeps `finding`, once: `number` says which of the savings of the turn that answers from `source.from` on this is, so
    /// that the turn's repeat meets what it saved before, also in other words. What the owner has in the same words
    /// already is not saved twice.
    ///
    /// Costs a query over the owner's entries, and three writes.
    pub async fn save(
        &self,
        owner: &Owner,
        source: &Source,
        number: u32,
        finding: &Finding,
    ) -> Result<Saved, MemoryError> {
        let key = format!("!saved#{}#{}#{number}", source.chat.session_id(), source.from);
        let items = self.table.query(&owner.partition(), &entries()).await?;
        let is_same = |kept: &Kept| normalized(&kept.entry.text) == normalized(&finding.text);
        if let Some(known) = items.iter().filter_map(|item| kept(owner, item)).find(is_same) {
            return Ok(Saved::Before(known));
        }
        let capture = Capture {
            first: items.last().and_then(number_of).unwrap_or(0).saturating_add(1),
            created: self.clock.now(),
            source: source.clone(),
            findings: vec![finding.clone()],
            key,
        };
        let (first, is_new) = match self.table.put_new(capture.item(owner)?).await? {
            Written::Done(_) => {
                self.complete(owner, &capture, vec![0], capture.first).await?;
                (capture.first, true)
            }
            Written::Refused(existing) => {
                self.resume(owner, &existing).await?;
                (integer(&existing, "first").and_then(|first| u32::try_from(first).ok()).unwrap_or(1), false)
            }
        };
        let span = Span { from: entry_key(first), ..entries() };
        let since = self.table.query(&owner.partition(), &span).await?;
        let own = since.iter().find(|item| is_at(item, &capture.key, 0)).and_then(|item| kept(owner, item));
        Ok(match own {
            Some(own) if is_new => Saved::Now(own),
            Some(own) => Saved::Before(own),
            None => Saved::Deleted,
        })
    }

    /// Completes the capture that `item` is, where it is not complete.
    async fn resume(&self, owner: &Owner, item: &Item) -> Result<(), MemoryError> {
        let Some(capture) = Capture::open(item)? else { return Ok(()) };
        // Other Sessions' entries may have come behind it meanwhile, so that its own are looked for and not walked to.
        let span = Span { from: entry_key(capture.first), ..entries() };
        let since = self.table.query(&owner.partition(), &span).await?;
        let missing = (0..capture.findings.len())
            .filter(|position| !since.iter().any(|item| is_at(item, &capture.key, *position)))
            .collect();
        let free = since.last().and_then(number_of).map_or(capture.first, |last| last.saturating_add(1));
        self.complete(owner, &capture, missing, free).await
    }

    /// Steps 2 and 3: puts what stands at the positions `missing` at the numbers from `at` on, before which none of it
    /// is.
    async fn complete(
        &self,
        owner: &Owner,
        capture: &Capture,
        missing: Vec<usize>,
        mut at: u32,
    ) -> Result<(), MemoryError> {
        for position in missing {
            let mut attempts = 0..MAX_ATTEMPTS;
            loop {
                attempts.next().ok_or(MemoryError::Contended)?;
                let item = capture.entry_item(owner, position, at);
                at += 1;
                match self.table.put_new(item).await? {
                    Written::Done(_) => break,
                    Written::Refused(existing) if is_at(&existing, &capture.key, position) => break,
                    // Another Session's.
                    Written::Refused(_) => {}
                }
            }
        }
        let update = Update {
            expression: "REMOVE findings, origin".into(),
            condition: Some("attribute_exists(findings)"),
            ..Update::default()
        };
        self.table.update(&owner.partition(), &capture.key, update).await?;
        Ok(())
    }
}

/// What a change by the agent met.
enum Changed {
    /// The entry, as it is now, or if it was forgotten, as it was.
    Now(Box<Kept>),
    /// The place of one that was deleted before.
    Before,
    /// Nothing.
    Unknown,
}

/// What was found in one Session, on its way into entries.
struct Capture {
    key: String,
    first: u32,
    created: Timestamp,
    source: Source,
    findings: Vec<Finding>,
}

impl Capture {
    fn item(&self, owner: &Owner) -> Result<Item, MemoryError> {
        let mut item = Item::new();
        item.insert("pk".into(), string(owner.partition()));
        item.insert("sk".into(), string(&self.key));
        item.insert("createdAt".into(), number(self.created));
        if !self.findings.is_empty() {
            item.insert("first".into(), number(self.first));
            item.insert("origin".into(), string(serde_json::to_string(&self.source)?));
            item.insert("findings".into(), string(serde_json::to_string(&self.findings)?));
        }
        Ok(item)
    }

    /// The finding at `position` as the entry with this number.
    fn entry_item(&self, owner: &Owner, position: usize, at: u32) -> Item {
        let finding = &self.findings[position];
        let entry = Entry {
            kind: finding.kind,
            owner: owner.clone(),
            source: Some(self.source.clone()),
            created: self.created,
            updated: None,
            outside: finding.outside.clone(),
            text: finding.text.clone(),
        };
        let mut item = Item::new();
        item.insert("pk".into(), string(owner.partition()));
        item.insert("sk".into(), string(entry_key(at)));
        item.insert("markdown".into(), string(entry.render()));
        item.insert("capture".into(), string(&self.key));
        item.insert("position".into(), number(position));
        item
    }

    /// The capture of `item`; `None` where it is complete.
    fn open(item: &Item) -> Result<Option<Self>, MemoryError> {
        let (Some(key), Some(source), Some(findings)) =
            (text(item, "sk"), text(item, "origin"), text(item, "findings"))
        else {
            return Ok(None);
        };
        let time = integer(item, "createdAt").and_then(Timestamp::from_millis);
        Ok(Some(Self {
            key: key.to_owned(),
            first: integer(item, "first").and_then(|first| u32::try_from(first).ok()).unwrap_or(1),
            created: time.unwrap_or(Timestamp::MIN),
            source: serde_json::from_str(source)?,
            findings: serde_json::from_str(findings)?,
        }))
    }
}

/// All entries of an owner, in order.
fn entries() -> Span {
    Span { from: "entry#".into(), to: "entry#:".into(), newest_first: false, limit: None }
}

/// Ten digits: the most that a `u32` has.
fn entry_key(number: u32) -> String {
    format!("entry#{number:010}")
}

fn number_of(item: &Item) -> Option<u32> {
    text(item, "sk")?.strip_prefix("entry#")?.parse().ok()
}

fn capture_key(source: &Source) -> String {
    format!("{}{}", captures_of(&source.chat), source.to)
}

/// What the captures of the Sessions of `chat` start with.
fn captures_of(chat: &ChatKey) -> String {
    format!("!capture#{}#", chat.session_id())
}

fn is_at(item: &Item, capture: &str, position: usize) -> bool {
    text(item, "capture") == Some(capture) && integer(item, "position") == i64::try_from(position).ok()
}

fn until_of(item: &Item) -> Option<Timestamp> {
    integer(item, "undoUntil").and_then(Timestamp::from_millis)
}

/// What can be undone of `item` at `now`.
fn undoable(owner: &Owner, item: &Item, now: Timestamp) -> Option<Undoable> {
    let until = until_of(item).filter(|until| *until > now)?;
    let is_forgotten = !item.contains_key("markdown");
    Some(Undoable { earlier: entry_of(owner, item, "earlier")?, is_forgotten, until })
}

/// The entry of `item`, if it is none that was deleted.
fn kept(owner: &Owner, item: &Item) -> Option<Kept> {
    entry_of(owner, item, "markdown")
}

fn entry_of(owner: &Owner, item: &Item, attribute: &str) -> Option<Kept> {
    let (number, document) = (number_of(item)?, text(item, attribute)?);
    match Entry::parse(document) {
        // Whose it is, the partition says.
        Ok(entry) => Some(Kept { number, entry: Entry { owner: owner.clone(), ..entry } }),
        Err(error) => {
            tracing::error!(number, %error, "an entry of memory is unreadable");
            None
        }
    }
}
