//! `memory_search`, `memory_save` and `memory_forget`: notes that are kept beyond a session, about the one person who speaks,
//! or the group, and nobody else. Offered in the turns that recall memory, by the same rule.

use annals_core::memory::capture::{MAX_FINDING_CHARS, supersedes};
use annals_core::memory::entry::clean;
use annals_core::memory::{EntryId, EntryKind, Finding, Owner, Source, StoredEntry};
use annals_model::Tool;
use annals_store::memory::{Deleted, Memory, MemoryError, Recollection, Saved};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::history::query_of;
use super::result::Output;

/// Name of the tool that searches.
pub(crate) const SEARCH: &str = "memory_search";
/// Name of the tool that saves.
pub(crate) const SAVE: &str = "memory_save";
/// Name of the tool that forgets.
pub(crate) const FORGET: &str = "memory_forget";

/// Error of a save whose entry was deleted.
const DELETED_SINCE: &str = "this was saved, and has been deleted since";

/// Maximum tokens of the entries that a search returns.
const FOUND_TOKENS: u32 = 1_500;

/// One owner's memory, in one turn.
#[derive(Debug)]
pub(crate) struct Notes {
    memory: Memory,
    owner: Owner,
    /// The messages that the turn answers: the source of its entries.
    source: Source,
    /// True if what is saved waits for an administrator.
    needs_approval: bool,
    /// One call at a time, in the order that the model made them.
    turn: Mutex<()>,
}

impl Notes {
    /// Returns the memory of `owner` for the turn that answers `source`.
    pub(crate) fn new(memory: Memory, owner: Owner, source: Source, needs_approval: bool) -> Self {
        Self { memory, owner, source, needs_approval, turn: Mutex::new(()) }
    }

    /// Carries out a call, the `nth` of its tool in the reply, with results of the tools `outside` in view. Returns `None` if
    /// `name` is none of these tools.
    pub(crate) async fn call(
        &self,
        name: &str,
        nth: usize,
        input: &Value,
        outside: &[String],
    ) -> Option<Output> {
        let _turn = self.turn.lock().await;
        let done = match name {
            SEARCH => self.search(input).await,
            SAVE => self.save(nth, input, outside).await,
            FORGET => self.forget(input).await,
            _ => return None,
        };
        Some(done.unwrap_or_else(|error| {
            tracing::warn!(%error, "failed to carry out a call of a memory tool; the model is told");
            Err("memory cannot be reached at the moment".into())
        }))
    }

    async fn search(&self, input: &Value) -> Result<Output, MemoryError> {
        let query = match query_of(input) {
            Ok(query) => query,
            Err(problem) => return Ok(Err(problem)),
        };
        let found = self.memory.recall(&self.owner, &query, FOUND_TOKENS).await?;
        Ok(Ok(json!({"notes": found.iter().map(found_as_json).collect::<Vec<_>>()})))
    }

    /// Saves a note. It is numbered by its call in the whole reply, whatever the results of earlier calls: so a repeated turn
    /// finds each entry again, and one that is saved after an approval gets a number of its own.
    async fn save(&self, nth: usize, input: &Value, outside: &[String]) -> Result<Output, MemoryError> {
        let nth = u32::try_from(nth).unwrap_or(u32::MAX);
        let text = clean(input.get("text").and_then(Value::as_str).unwrap_or_default());
        let length = text.chars().count();
        if length == 0 || length > MAX_FINDING_CHARS {
            return Ok(Err(format!(
                "\"text\" must have 1 to {MAX_FINDING_CHARS} characters, and has {length}"
            )));
        }
        let kind = input.get("type").and_then(Value::as_str).and_then(EntryKind::named);
        let mut finding = Finding::new(kind.unwrap_or(EntryKind::Note), text);
        finding.outside = outside.to_vec();
        finding.is_pending = self.needs_approval;
        let replaces = number_of(input, "replaces");
        if let Some(number) = replaces {
            let id = EntryId { owner: self.owner.clone(), number };
            let Some(old) = self.memory.get(&id).await? else { return Ok(Err(no_such(number))) };
            finding.supersedes = supersedes(&old);
            finding.kind = kind.unwrap_or(old.entry.kind);
            // The new text may be based on the old one.
            let read = old.entry.outside.into_iter().filter(|tool| !outside.contains(tool));
            finding.outside.extend(read);
        }
        Ok(match self.memory.save(&self.owner, &self.source, nth, &finding).await? {
            Saved::Now(kept) => Ok(match replaces {
                Some(number) => json!({"saved": as_json(&kept), "undo": undo(number)}),
                None => json!({"saved": as_json(&kept)}),
            }),
            Saved::Before(kept) => Ok(json!({"alreadyKept": as_json(&kept)})),
            Saved::Deleted => Err(DELETED_SINCE.into()),
            Saved::Superseded(newer) => {
                Err(format!("that note was superseded by number {newer}; replace that one"))
            }
        })
    }

    async fn forget(&self, input: &Value) -> Result<Output, MemoryError> {
        let Some(number) = number_of(input, "number") else {
            return Ok(Err("\"number\" must be the number of a note".into()));
        };
        let id = EntryId { owner: self.owner.clone(), number };
        Ok(match self.memory.set_aside(&id).await? {
            Deleted::Now => Ok(json!({"forgotten": number, "undo": undo(number)})),
            Deleted::Before => Ok(json!({"forgotten": number})),
            Deleted::Unknown => Err(no_such(number)),
        })
    }
}

pub(crate) fn tools(owner: &Owner) -> Vec<Tool> {
    let whose = match owner {
        Owner::User(_) | Owner::UserOf { .. } => "this person",
        Owner::Chat(_) => "this group",
    };
    let kinds: Vec<&str> = EntryKind::ALL.iter().map(|kind| kind.as_str()).collect();
    vec![
        Tool::new(
            SEARCH,
            format!(
                "Searches the notes that are kept about {whose} across conversations. The notes that you are given are \
                     those that fit best; this finds the others, and says the number of each. One with validUntil in the past \
                     holds no longer."
            ),
            json!({"query": {"type": "string", "description": "the words to look for"}}),
            &["query"],
        ),
        Tool::new(
            SAVE,
            format!(
                "Keeps one note about {whose} for later conversations. Use it when you are asked to remember \
                     something, or told a lasting fact, preference, decision or task. Never keep passwords or keys."
            ),
            json!({
                "text": {"type": "string", "description": "one sentence that can be understood on its own; days as dates, not as yesterday or tomorrow"},
                "type": {"enum": kinds},
                "replaces": {"type": "integer", "description": "the number of a note that this corrects or ends, if it does"},
            }),
            &["text"],
        ),
        Tool::new(
            FORGET,
            format!(
                "Forgets one note about {whose}. Use it only when you are asked to. People can undo it for a week, or delete \
                     the note for good at once with /forget."
            ),
            json!({"number": {"type": "integer", "description": "the note's number, as memory_search says it"}}),
            &["number"],
        ),
    ]
}

fn number_of(input: &Value, name: &str) -> Option<u32> {
    input.get(name).and_then(Value::as_u64).and_then(|number| u32::try_from(number).ok())
}

fn no_such(number: u32) -> String {
    format!("there is no note number {number}")
}

/// Returns the command that undoes it. The earlier text is not repeated: results of calls stay in the history.
fn undo(number: u32) -> String {
    format!("/memory undo {number}")
}

fn found_as_json(Recollection { stored, validity }: &Recollection) -> Value {
    let mut entry = as_json(stored);
    if let Some(to) = validity.to {
        entry["validUntil"] = to.rfc3339()[..10].into();
    }
    if let Some(number) = validity.superseded_by {
        entry["supersededBy"] = number.into();
    }
    entry
}

fn as_json(kept: &StoredEntry) -> Value {
    let day = kept.entry.updated.unwrap_or(kept.entry.valid_from()).rfc3339();
    let mut entry = json!({"number": kept.number, "type": kept.entry.kind.as_str(), "since": &day[..10], "text": kept.entry.text});
    if !kept.entry.outside.is_empty() {
        entry["savedAfterReading"] = kept.entry.outside.clone().into();
    }
    if kept.entry.is_pending {
        entry["waitsForApproval"] = true.into();
    }
    entry
}
