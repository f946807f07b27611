//! An entry of memory as a Markdown document with front matter: [`Entry`].
//!
//! ```text
//! ---
//! type: preference
//! scope: user
//! person: "telegram-42"
//! session: "telegram-5b1f0c9a2d3e4f5061728394-1763765920000"
//! source: {"chat":"telegram:chat:42","fromId":"7","toId":"12","from":"1763765920000#…07","to":"1763766220000#…12"}
//! created: 2025-11-21T22:58:40.000Z
//! updated: 2025-11-23T08:00:00.000Z
//! outside: ["shop/lookup"]
//! supersedes: [2,1]
//! earlierForms: [{"type":"preference","text":"Wants temperatures in Kelvin.","until":1763884800000}]
//! state: pending
//! ---
//!
//! Wants temperatures in Celsius.
//! ```
//!
//! An entry of a group has `scope: chat` and `chat: "<ChatKey>"` instead of `person`. `updated` is present only if the
//! entry was corrected, `outside` only if results of outside tools were in the context when it was saved, `state` only
//! until an administrator has approved it. Unknown keys are ignored.
//!
//! # Validity
//!
//! An entry is valid from the time at which it was said ([`Entry::valid_from`]) until a newer one supersedes it, or its
//! [term](EntryKind::term) ends. Only the newer entry stores that, in `supersedes`: one write replaces, so no crash
//! leaves half of it, and without the newer entry the older one is valid again. [`crate::memory::validity`] computes the
//! rest.
//!
//! The front matter is YAML that every reader of such documents accepts: a fixed set of lines whose values are plain
//! words or JSON, which is a subset of YAML. So no YAML library is needed for writing or reading it.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::id::EntryId;
use super::owner::Owner;
use crate::chat_key::ChatKey;
use crate::names::string_enum;
use crate::sort_key::{MessageId, SortKey, Timestamp};

/// Maximum number of characters of a text that a person gives.
pub const MAX_TEXT_CHARS: usize = 4000;

/// Maximum number of earlier forms that an entry keeps.
pub const MAX_EARLIER_FORMS: usize = 3;

/// A fact worth keeping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub kind: EntryKind,
    pub owner: Owner,
    /// The part of a history in which it was found.
    pub source: Option<Source>,
    /// Time at which it was first stored.
    pub created: Timestamp,
    pub updated: Option<Timestamp>,
    /// Outside tools, as `<server>/<tool>`, whose results the model had read when it saved or changed the entry, and
    /// which may have induced it to. A correction by a person clears the list.
    pub outside: Vec<String>,
    /// Numbers of the owner's entries that are not valid any more since this one is: the one that it replaces first, then
    /// those that had been replaced before.
    pub supersedes: Vec<u32>,
    /// Texts that it had before corrections, the newest [`MAX_EARLIER_FORMS`], in order.
    pub earlier_forms: Vec<EarlierForm>,
    /// True until an administrator has approved it, under `MEMORY_APPROVAL=on`.
    pub is_pending: bool,
    /// Text in Markdown, cleaned by [`clean`].
    pub text: String,
}

/// A text that an entry had before a correction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlierForm {
    /// Type of the entry at that time.
    #[serde(rename = "type")]
    pub kind: EntryKind,
    pub text: String,
    pub until: Timestamp,
}

/// An entry with its number, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEntry {
    /// Position in order of creation, from 1. Reused only if the owner's whole memory was forgotten.
    pub number: u32,
    pub entry: Entry,
}

impl StoredEntry {
    /// Returns the id under which the entry is known outside this program.
    pub fn id(&self) -> EntryId {
        EntryId { owner: self.entry.owner.clone(), number: self.number }
    }
}

/// Type of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum EntryKind {
    /// A fact.
    Fact,
    /// A person's preference.
    Preference,
    /// A decision.
    Decision,
    /// An open task.
    Task,
    /// Anything else.
    Note,
}

impl EntryKind {
    /// Returns the time for which an entry of this type stays valid after its last date; `None` is for ever.
    ///
    /// A task that nobody has spoken of for a quarter is done or dropped, and a note is what fits no lasting type. Facts,
    /// preferences and decisions end only when a newer entry supersedes them.
    pub fn term(self) -> Option<Duration> {
        match self {
            Self::Fact | Self::Preference | Self::Decision => None,
            Self::Task => Some(Duration::from_hours(90 * 24)),
            Self::Note => Some(Duration::from_hours(180 * 24)),
        }
    }

    /// Returns the type with this name, in any case.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str().eq_ignore_ascii_case(name.trim()))
    }
}

string_enum!(EntryKind {
    Fact => "fact", Preference => "preference", Decision => "decision", Task => "task", Note => "note",
});

/// The part of a history in which an entry was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// Id of the Session: `<SessionId of the ChatKey>-<time of its first message, epoch milliseconds>`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub session: String,
    pub chat: ChatKey,
    pub from_id: MessageId,
    pub to_id: MessageId,
    /// Key of the first message.
    pub from: SortKey,
    /// Key of the last message.
    pub to: SortKey,
}

impl Source {
    /// Returns the id of the Session of `chat` that starts at `start`.
    pub fn session_id(chat: &ChatKey, start: Timestamp) -> String {
        format!("{}-{start}", chat.session_id())
    }

    /// Returns the `passage` of this part.
    #[must_use]
    pub fn at(&self, passage: Passage) -> Self {
        let Passage { from_id, to_id, from, to } = passage;
        Self { session: self.session.clone(), chat: self.chat.clone(), from_id, to_id, from, to }
    }
}

/// Messages of one Session, from one to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Passage {
    pub from_id: MessageId,
    pub to_id: MessageId,
    /// Key of the first message.
    pub from: SortKey,
    /// Key of the last message.
    pub to: SortKey,
}

/// A document is not a valid entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    #[error("the document does not start with front matter between two lines of '---'")]
    NoFrontMatter,
    #[error("the front matter has no valid '{0}'")]
    Field(&'static str),
}

impl Entry {
    /// Formats the entry as a document, which [`Entry::parse`] reads back.
    pub fn render(&self) -> String {
        let mut lines = vec![format!("type: {}", self.kind)];
        match &self.owner {
            Owner::User(person) | Owner::UserOf { person, .. } => {
                lines.extend(["scope: user".to_owned(), format!("person: {}", quoted(person))]);
                lines.extend(self.owner.agent().map(|agent| format!("agent: {}", quoted(agent))));
            }
            Owner::Chat(chat) => {
                lines.extend(["scope: chat".to_owned(), format!("chat: {}", quoted(&chat.to_string()))]);
            }
        }
        if let Some(source) = &self.source {
            lines.push(format!("session: {}", quoted(&source.session)));
            let place = Source { session: String::new(), ..source.clone() };
            // A struct of strings can always be written as JSON.
            lines.push(format!("source: {}", serde_json::to_string(&place).unwrap_or_default()));
        }
        lines.push(format!("created: {}", self.created.rfc3339()));
        lines.extend(self.updated.map(|updated| format!("updated: {}", updated.rfc3339())));
        if !self.outside.is_empty() {
            lines.push(format!("outside: {}", Value::from(self.outside.clone())));
        }
        if !self.supersedes.is_empty() {
            lines.push(format!("supersedes: {}", Value::from(self.supersedes.clone())));
        }
        if !self.earlier_forms.is_empty() {
            lines.push(format!(
                "earlierForms: {}",
                serde_json::to_string(&self.earlier_forms).unwrap_or_default()
            ));
        }
        if self.is_pending {
            lines.push(format!("state: {PENDING}"));
        }
        format!("---\n{}\n---\n\n{}\n", lines.join("\n"), self.text)
    }

    pub fn parse(document: &str) -> Result<Self, EntryError> {
        let (front_matter, text) = split(document).and_then(Result::ok).ok_or(EntryError::NoFrontMatter)?;
        let value = |key: &str| front_matter.iter().find(|(name, _)| name == key).map(|(_, value)| value);
        let time = |key: &str| value(key).and_then(|value| Timestamp::parse_rfc3339(value));
        let owner = match value("scope").map(String::as_str) {
            Some("user") => value("person")
                .map(|person| Owner::of_person(value("agent").map(String::as_str), person.clone())),
            Some("chat") => value("chat").and_then(|chat| chat.parse().ok()).map(Owner::Chat),
            _ => return Err(EntryError::Field("scope")),
        };
        let source = value("source").and_then(|json| serde_json::from_str::<Source>(json).ok());
        let session = value("session").cloned().unwrap_or_default();
        Ok(Self {
            kind: value("type").and_then(|name| EntryKind::named(name)).unwrap_or(EntryKind::Note),
            owner: owner.ok_or(EntryError::Field("person or chat"))?,
            source: source.map(|source| Source { session, ..source }),
            created: time("created").ok_or(EntryError::Field("created"))?,
            updated: time("updated"),
            outside: value("outside").and_then(|list| serde_json::from_str(list).ok()).unwrap_or_default(),
            supersedes: value("supersedes")
                .and_then(|list| serde_json::from_str(list).ok())
                .unwrap_or_default(),
            earlier_forms: value("earlierForms")
                .and_then(|list| serde_json::from_str(list).ok())
                .unwrap_or_default(),
            is_pending: value("state").is_some_and(|state| state == PENDING),
            text,
        })
    }

    /// Returns the time at which it was said: that of the last message of its source.
    pub fn valid_from(&self) -> Timestamp {
        self.source.as_ref().map_or(self.created, |source| source.to.ts())
    }
}

/// Value of `state` in the front matter.
const PENDING: &str = "pending";

/// A change of an entry's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Correction {
    /// Cleaned text of 1 to [`MAX_TEXT_CHARS`] characters.
    text: String,
    /// New type; `None` keeps the current one.
    kind: Option<EntryKind>,
}

/// A text is not valid as the text of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CorrectionError {
    #[error("the text is blank; to forget an entry, delete it")]
    Blank,
    #[error("the text has {0} characters, more than the maximum of {MAX_TEXT_CHARS}")]
    TooLong(usize),
    #[error("the front matter does not end with a line of '---'")]
    OpenFrontMatter,
    #[error("the type must be fact, preference, decision, task or note")]
    UnknownType,
}

impl Correction {
    pub fn of_text(text: &str) -> Result<Self, CorrectionError> {
        let text = clean(text);
        match text.chars().count() {
            0 => Err(CorrectionError::Blank),
            chars if chars > MAX_TEXT_CHARS => Err(CorrectionError::TooLong(chars)),
            _ => Ok(Self { text, kind: None }),
        }
    }

    /// Creates a correction from a document: its text, and its `type` if it has one. The rest of the front matter is
    /// ignored, since a correction cannot change owner, source and times.
    pub fn of_markdown(document: &str) -> Result<Self, CorrectionError> {
        let Some(parts) = split(document) else { return Self::of_text(document) };
        let (front_matter, text) = parts?;
        let kind = front_matter.iter().find(|(name, _)| name == "type").map(|(_, name)| name);
        let kind = kind.map(|name| EntryKind::named(name).ok_or(CorrectionError::UnknownType)).transpose()?;
        Ok(Self { kind, ..Self::of_text(&text)? })
    }

    /// Returns `entry` as corrected by a person at `now`, with its text so far among the earlier forms.
    pub fn apply(&self, entry: &Entry, now: Timestamp) -> Entry {
        let kind = self.kind.unwrap_or(entry.kind);
        let mut earlier_forms = entry.earlier_forms.clone();
        if (kind, &self.text) != (entry.kind, &entry.text) {
            earlier_forms.push(EarlierForm { kind: entry.kind, text: entry.text.clone(), until: now });
            earlier_forms.drain(..earlier_forms.len().saturating_sub(MAX_EARLIER_FORMS));
        }
        Entry {
            kind,
            text: self.text.clone(),
            updated: Some(now),
            outside: Vec::new(),
            earlier_forms,
            ..entry.clone()
        }
    }
}

/// Removes white space around `text`, and control characters other than line breaks and tabs.
pub fn clean(text: &str) -> String {
    let kept: String = text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
    kept.trim().to_owned()
}

type FrontMatter = Vec<(String, String)>;

/// Splits a document into front matter and text. Returns `None` if there is no front matter, and an error if it does
/// not end.
fn split(document: &str) -> Option<Result<(FrontMatter, String), CorrectionError>> {
    let document = document.trim_start_matches('\u{FEFF}').trim_start();
    let mut lines = document.split_inclusive('\n');
    if lines.next()?.trim_end() != "---" {
        return None;
    }
    let mut front_matter = FrontMatter::new();
    while let Some(line) = lines.next() {
        if line.trim_end() == "---" {
            return Some(Ok((front_matter, clean(&lines.collect::<String>()))));
        }
        if let Some((key, value)) = line.split_once(':') {
            front_matter.push((key.trim().to_owned(), unquoted(value.trim())));
        }
    }
    Some(Err(CorrectionError::OpenFrontMatter))
}

/// Quotes a text as a JSON string, which is valid in YAML.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn unquoted(value: &str) -> String {
    serde_json::from_str(value).unwrap_or_else(|_| value.to_owned())
}

#[cfg(test)]
mod tests;
