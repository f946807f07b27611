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
//! ---
//!
//! Wants temperatures in Celsius.
//! ```
//!
//! Of a group: `scope: chat` and `chat: "<ChatKey>"` in place of `person`. `updated` only where it was corrected,
//! `outside` only where it was saved with results of outside tools in view. Keys that are not known are passed over.
//!
//! The front matter is YAML that any reader of such documents takes: a fixed set of lines whose values are plain words
//! or JSON, which YAML includes. So no YAML library is needed to write it, and none that reads all of YAML to read it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::owner::Owner;
use crate::chat_key::ChatKey;
use crate::sort_key::{MessageId, SortKey, Timestamp};

/// The longest text of an entry that a person gives, in characters.
pub const MAX_TEXT_CHARS: usize = 4000;

/// One thing worth keeping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What sort of thing.
    pub kind: EntryKind,
    /// Whose.
    pub owner: Owner,
    /// What it was found in.
    pub source: Option<Source>,
    /// When it was first stored.
    pub created: Timestamp,
    /// When it was last corrected.
    pub updated: Option<Timestamp>,
    /// The outside tools, as `<server>/<tool>`, whose results the model had read when it saved or changed the entry: those
    /// may have told it to. A person's correction clears them.
    pub outside: Vec<String>,
    /// The thing itself, as [`clean`] leaves it; Markdown.
    pub text: String,
}

/// The `type` of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum EntryKind {
    /// What is so.
    Fact,
    /// How somebody wants things.
    Preference,
    /// What was decided.
    Decision,
    /// What is still to be done.
    Task,
    /// Anything else.
    Note,
}

impl EntryKind {
    /// Every type.
    pub const ALL: [Self; 5] = [Self::Fact, Self::Preference, Self::Decision, Self::Task, Self::Note];

    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fact => "fact",
            Self::Preference => "preference",
            Self::Decision => "decision",
            Self::Task => "task",
            Self::Note => "note",
        }
    }

    /// The type with this name, in any case.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str().eq_ignore_ascii_case(name.trim()))
    }
}

impl fmt::Display for EntryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The stretch of a History that an entry was found in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// Which Session: `<SessionId of the ChatKey>-<time of its first message, epoch milliseconds>`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub session: String,
    /// The chat.
    pub chat: ChatKey,
    /// The id of the first message.
    pub from_id: MessageId,
    /// The id of the last message.
    pub to_id: MessageId,
    /// Where the first message stands.
    pub from: SortKey,
    /// Where the last message stands.
    pub to: SortKey,
}

impl Source {
    /// The id of the Session of `chat` that starts at `start`.
    pub fn session_id(chat: &ChatKey, start: Timestamp) -> String {
        format!("{}-{start}", chat.session_id())
    }
}

/// A document is no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// It does not start with front matter between two lines of `---`.
    #[error("the document does not start with front matter between two lines of '---'")]
    NoFrontMatter,
    /// A line of the front matter that must be there is missing, or is not what it should be.
    #[error("the front matter has no usable '{0}'")]
    Field(&'static str),
}

impl Entry {
    /// The entry as a document; [`Entry::parse`] reads it back.
    pub fn render(&self) -> String {
        let mut lines = vec![format!("type: {}", self.kind)];
        match &self.owner {
            Owner::User(person) => {
                lines.extend(["scope: user".to_owned(), format!("person: {}", quoted(person))]);
            }
            Owner::Chat(chat) => {
                lines.extend(["scope: chat".to_owned(), format!("chat: {}", quoted(&chat.to_string()))]);
            }
        }
        if let Some(source) = &self.source {
            lines.push(format!("session: {}", quoted(&source.session)));
            let place = Source { session: String::new(), ..source.clone() };
            // A struct of strings is always JSON.
            lines.push(format!("source: {}", serde_json::to_string(&place).unwrap_or_default()));
        }
        lines.push(format!("created: {}", self.created.rfc3339()));
        lines.extend(self.updated.map(|updated| format!("updated: {}", updated.rfc3339())));
        if !self.outside.is_empty() {
            lines.push(format!("outside: {}", Value::from(self.outside.clone())));
        }
        format!("---\n{}\n---\n\n{}\n", lines.join("\n"), self.text)
    }

    /// The entry that `document` is.
    pub fn parse(document: &str) -> Result<Self, EntryError> {
        let (front_matter, text) = split(document).and_then(Result::ok).ok_or(EntryError::NoFrontMatter)?;
        let value = |key: &str| front_matter.iter().find(|(name, _)| name == key).map(|(_, value)| value);
        let time = |key: &str| value(key).and_then(|value| Timestamp::parse_rfc3339(value));
        let owner = match value("scope").map(String::as_str) {
            Some("user") => value("person").map(|person| Owner::User(person.clone())),
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
            text,
        })
    }
}

/// What is put in the place of an entry's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Correction {
    /// The text, clean, of 1 to [`MAX_TEXT_CHARS`] characters.
    text: String,
    /// The type; as it was where `None`.
    kind: Option<EntryKind>,
}

/// A text cannot stand in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CorrectionError {
    /// It says nothing.
    #[error("the text is blank; to forget an entry, delete it")]
    Blank,
    /// It is longer than [`MAX_TEXT_CHARS`].
    #[error("{0} characters are more than {MAX_TEXT_CHARS}")]
    TooLong(usize),
    /// The front matter starts with `---` and does not end.
    #[error("the front matter does not end with a line of '---'")]
    OpenFrontMatter,
    /// The front matter's `type` is none.
    #[error("the type must be fact, preference, decision, task or note")]
    UnknownType,
}

impl Correction {
    /// Another text for the same entry.
    pub fn of_text(text: &str) -> Result<Self, CorrectionError> {
        let text = clean(text);
        match text.chars().count() {
            0 => Err(CorrectionError::Blank),
            chars if chars > MAX_TEXT_CHARS => Err(CorrectionError::TooLong(chars)),
            _ => Ok(Self { text, kind: None }),
        }
    }

    /// The text of a document, and its `type` where it has one. Whose entry it is, where it comes from and when it was
    /// made is not for a correction to say, so that the rest of the front matter is passed over.
    pub fn of_markdown(document: &str) -> Result<Self, CorrectionError> {
        let Some(parts) = split(document) else { return Self::of_text(document) };
        let (front_matter, text) = parts?;
        let kind = front_matter.iter().find(|(name, _)| name == "type").map(|(_, name)| name);
        let kind = kind.map(|name| EntryKind::named(name).ok_or(CorrectionError::UnknownType)).transpose()?;
        Ok(Self { kind, ..Self::of_text(&text)? })
    }

    /// `entry`, corrected at `now`.
    pub(super) fn apply(&self, entry: &Entry, now: Timestamp) -> Entry {
        Entry {
            kind: self.kind.unwrap_or(entry.kind),
            text: self.text.clone(),
            updated: Some(now),
            outside: Vec::new(),
            ..entry.clone()
        }
    }

    /// `entry`, changed by the agent at `now`, with the results of the tools `outside` in view. It keeps the tools that it has:
    /// the new text may go back to the old one.
    pub(super) fn apply_of_agent(&self, entry: &Entry, outside: &[String], now: Timestamp) -> Entry {
        let mut known = entry.outside.clone();
        known.extend(outside.iter().filter(|tool| !entry.outside.contains(tool)).cloned());
        Entry { outside: known, ..self.apply(entry, now) }
    }
}

/// `text` without white space around it and without control characters other than line breaks and tabs.
pub fn clean(text: &str) -> String {
    let kept: String = text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
    kept.trim().to_owned()
}

type FrontMatter = Vec<(String, String)>;

/// The lines of the front matter and the text behind it; `None` where there is no front matter, an error where it does
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

/// As a JSON string, which is a YAML string too.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn unquoted(value: &str) -> String {
    serde_json::from_str(value).unwrap_or_else(|_| value.to_owned())
}

impl FromStr for Entry {
    type Err = EntryError;

    fn from_str(document: &str) -> Result<Self, EntryError> {
        Self::parse(document)
    }
}

#[cfg(test)]
mod tests;
