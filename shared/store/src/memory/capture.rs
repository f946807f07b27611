//! Captures: the findings of a Session become entries, each once.
//!
//! ```json
//! {"pk": "memory:user:telegram-42", "sk": "!capture#telegram-5b1f0c9a2d3e4f5061728394#1763766220000#00000000000000000012",
//!  "first": 1, "createdAt": 1763766300000, "origin": "{\"chat\":…}", "findings": "[{\"type\":\"fact\",\"text\":…}]"}
//! ```
//!
//! 1. All findings are put, create-only, as one item: `!capture#<SessionId>#<key of the Session's end>`, with the first
//!    number that was free before. Of two answers of a model to the same Session, one wins here. A single saving by the
//!    agent's tools is such an item too: `!saved#<SessionId>#<key of the message>#<number>`.
//! 2. Each finding is put, create-only, at the first free number from `first` on. A repeat, later or at the same time,
//!    finds those that are stored, also deleted ones, by `capture` and `position`. As no number is left out, none is
//!    missed.
//! 3. The item of step 1 loses its findings, so that no text outlives the deletion of its entry.
//!
//! A crash between any two of these is completed by the next [`capture`](Memory::capture) or
//! [`has_captured`](Memory::has_captured).

use annals_core::chat_key::ChatKey;
use annals_core::memory::Finding;
use annals_core::memory::entry::{Entry, Source};
use annals_core::memory::owner::Owner;
use annals_core::memory::same::says_the_same;
use annals_core::memory::validity::{valid, validities};
use annals_core::sort_key::Timestamp;

use super::pending::listing;
use super::{MAX_ATTEMPTS, Memory, MemoryError, Saving, StoredEntry, entries, entry_key, kept, number_of};
use crate::history::item::{count, integer, text, time};
use crate::history::table::{Item, Span, Update, Written, item_at, number, string};

/// The result of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Captured {
    /// This number of findings is stored now.
    Stored(usize),
    /// The Session was captured before, maybe with other findings; those stand, and are all stored now.
    Before,
}

/// The result of saving a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Saved {
    Now(StoredEntry),
    /// It was an entry before: this very saving was done already, or a valid entry of the owner says the same.
    Before(StoredEntry),
    /// It was saved, and has been deleted since.
    Deleted,
    /// The entry that it replaces was superseded by the one with this number.
    Superseded(u32),
}

impl Memory {
    /// Returns true if the Session that ends where `source` does was captured, after completing a capture that a crash
    /// cut short. One read, if there was none.
    pub async fn has_captured(&self, owner: &Owner, source: &Source) -> Result<bool, MemoryError> {
        let Some(item) = self.table.get(&owner.partition(), &capture_key(source)).await? else {
            return Ok(false);
        };
        self.resume(owner, &item).await?;
        Ok(true)
    }

    /// Stores the findings of a Session, once: the module's documentation lists the steps. A Session without findings
    /// is captured too. Safe to repeat after any failure, also with other findings: the first ones stand.
    ///
    /// Costs half a read unit, and n + 2 writes for n findings; 1 write if there are none.
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
        Ok(match self.put(owner, &capture).await? {
            None => Captured::Stored(findings.len()),
            Some(_) => Captured::Before,
        })
    }

    /// Carries out all steps of `capture`, unless there is one of its key: that is completed, and its item returned.
    async fn put(&self, owner: &Owner, capture: &Capture) -> Result<Option<Item>, MemoryError> {
        match self.table.put_new(capture.item(owner)?).await? {
            Written::Done(_) => {
                if !capture.findings.is_empty() {
                    let all = (0..capture.findings.len()).collect();
                    self.complete(owner, capture, all, capture.first).await?;
                }
                Ok(None)
            }
            Written::Refused(existing) => {
                self.resume(owner, &existing).await?;
                Ok(Some(existing))
            }
        }
    }

    /// Saves `finding`, once. `number` counts the savings of the turn that answers from `source.from` on, so that the
    /// turn's repeat finds the entry that it saved before, also with other words. What a valid entry of the owner says
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
        let key = format!("{}{}#{number}", savings_of(&source.chat), source.from);
        let items = self.table.query(&owner.partition(), &entries()).await?;
        if let Some(own) = items.iter().find(|item| is_at(item, &key, 0)) {
            return Ok(kept(owner, own).map_or(Saved::Deleted, Saved::Before));
        }
        let stored: Vec<StoredEntry> = items.iter().filter_map(|item| kept(owner, item)).collect();
        let replaced = finding.supersedes.first().copied();
        let of_replaced =
            stored.iter().zip(validities(&stored)).find(|(known, _)| Some(known.number) == replaced);
        if let Some(newer) = of_replaced.and_then(|(_, validity)| validity.superseded_by) {
            return Ok(Saved::Superseded(newer));
        }
        let is_same = |known: &StoredEntry| {
            let text = known.entry.text.as_str();
            // A replacement may differ from the replaced entry in little.
            if finding.supersedes.contains(&known.number) {
                text == finding.text
            } else {
                says_the_same(&finding.text, text)
            }
        };
        if let Some(known) = valid(stored, self.clock.now()).into_iter().find(is_same) {
            return Ok(Saved::Before(known));
        }
        let capture = Capture {
            first: items.last().and_then(number_of).unwrap_or(0).saturating_add(1),
            created: self.clock.now(),
            source: source.clone(),
            findings: vec![finding.clone()],
            key,
        };
        let existing = self.put(owner, &capture).await?;
        let first = existing.as_ref().map_or(capture.first, |item| count(item, "first").unwrap_or(1));
        let span = Span { from: entry_key(first), ..entries() };
        let since = self.table.query(&owner.partition(), &span).await?;
        let own = since.iter().find(|item| is_at(item, &capture.key, 0)).and_then(|item| kept(owner, item));
        Ok(match own {
            Some(own) if existing.is_none() => Saved::Now(own),
            Some(own) => Saved::Before(own),
            None => Saved::Deleted,
        })
    }

    /// Completes the capture in `item`, if it is not complete.
    async fn resume(&self, owner: &Owner, item: &Item) -> Result<(), MemoryError> {
        let Some(capture) = Capture::open(item)? else { return Ok(()) };
        // Other Sessions' entries may have come after it meanwhile, so its own are searched for among all later ones.
        let span = Span { from: entry_key(capture.first), ..entries() };
        let since = self.table.query(&owner.partition(), &span).await?;
        let missing = (0..capture.findings.len())
            .filter(|position| !since.iter().any(|item| is_at(item, &capture.key, *position)))
            .collect();
        let free = since.last().and_then(number_of).map_or(capture.first, |last| last.saturating_add(1));
        self.complete(owner, &capture, missing, free).await
    }

    /// Carries out steps 2 and 3: puts the findings at the positions `missing` at the numbers from `at` on. None of
    /// them is stored before `at`.
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
                    // The number is another Session's.
                    Written::Refused(_) => {}
                }
            }
        }
        let update = Update::default().remove(["findings", "origin"]).when("attribute_exists(findings)");
        self.table.update(&owner.partition(), &capture.key, update).await?;
        Ok(())
    }
}

/// The findings of one Session, on their way into entries.
struct Capture {
    key: String,
    first: u32,
    created: Timestamp,
    source: Source,
    findings: Vec<Finding>,
}

impl Capture {
    fn item(&self, owner: &Owner) -> Result<Item, MemoryError> {
        let mut item = item_at(owner.partition(), &self.key);
        item.insert("createdAt".into(), number(self.created));
        if !self.findings.is_empty() {
            item.insert("first".into(), number(self.first));
            item.insert("origin".into(), string(serde_json::to_string(&self.source)?));
            item.insert("findings".into(), string(serde_json::to_string(&self.findings)?));
        }
        Ok(item)
    }

    /// Builds the item of the entry with the number `at`: the finding at `position`.
    fn entry_item(&self, owner: &Owner, position: usize, at: u32) -> Item {
        let finding = &self.findings[position];
        let entry = Entry {
            kind: finding.kind,
            owner: owner.clone(),
            source: Some(match &finding.passage {
                Some(passage) => self.source.at(passage.clone()),
                None => self.source.clone(),
            }),
            created: self.created,
            updated: None,
            outside: finding.outside.clone(),
            supersedes: finding.supersedes.clone(),
            earlier_forms: Vec::new(),
            is_pending: finding.is_pending,
            text: finding.text.clone(),
        };
        let mut item = item_at(owner.partition(), entry_key(at));
        item.insert("markdown".into(), string(entry.render()));
        item.insert("capture".into(), string(&self.key));
        item.insert("position".into(), number(position));
        if finding.is_pending {
            item.extend(listing());
        }
        item
    }

    /// Reads the capture in `item`; `None` if it is complete.
    fn open(item: &Item) -> Result<Option<Self>, MemoryError> {
        let (Some(key), Some(source), Some(findings)) =
            (text(item, "sk"), text(item, "origin"), text(item, "findings"))
        else {
            return Ok(None);
        };
        let time = time(item, "createdAt");
        Ok(Some(Self {
            key: key.to_owned(),
            first: count(item, "first").unwrap_or(1),
            created: time.unwrap_or(Timestamp::MIN),
            source: serde_json::from_str(source)?,
            findings: serde_json::from_str(findings)?,
        }))
    }
}

fn capture_key(source: &Source) -> String {
    format!("{}{}", captures_of(&source.chat), source.to)
}

/// Returns the start of the sort keys of all captures of the Sessions of `chat`.
pub(super) fn captures_of(chat: &ChatKey) -> String {
    format!("!capture#{}#", chat.session_id())
}

/// Returns the start of the sort keys of all savings of the agent's tools in `chat`.
pub(super) fn savings_of(chat: &ChatKey) -> String {
    format!("!saved#{}#", chat.session_id())
}

/// Returns the place at which the agent saved the entry in `item`; `None` if no tool saved it.
pub(super) fn saving_of(item: &Item) -> Option<Saving> {
    let (place, _) = text(item, "capture")?.strip_prefix("!saved#")?.rsplit_once('#')?;
    let (chat, from) = place.split_once('#')?;
    Some(Saving { chat: chat.to_owned(), from: from.parse().ok()? })
}

pub(super) fn is_at(item: &Item, capture: &str, position: usize) -> bool {
    text(item, "capture") == Some(capture) && integer(item, "position") == i64::try_from(position).ok()
}
