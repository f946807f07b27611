//! Histories in one line, for the tests of all crates: `[user(0, 1), reply(&[(0, 1)])]`, times in hours.
//!
//! No function of the program calls anything here.

#![allow(missing_docs, clippy::missing_panics_doc, clippy::unwrap_used, reason = "for tests alone")]

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::chat_key::ChatKey;
use crate::context::Policy;
use crate::draft::{Draft, Origin};
use crate::memory::{Entry, EntryKind, Owner, StoredEntry};
use crate::message::{Part, Role, UiMessage};
use crate::metadata::Metadata;
use crate::record::{Attributes, Channel, Details, Kind, Record, Source};
use crate::recording::record_of;
use crate::sort_key::{MessageId, SortKey, Timestamp};

pub const HOUR: i64 = 3_600_000;

pub fn set(metadata: &mut Metadata, name: &str, value: impl Into<Value>) {
    metadata.extend(Metadata::from(Map::from_iter([(name.to_owned(), value.into())])));
}

/// Returns the policy of most tests: a Session ends after 48 hours.
pub fn policy() -> Policy {
    Policy { stale_after: Some(Duration::from_hours(48)), fresh: false, token_budget: 100_000, images: 0 }
}

pub fn hours(hours: i64) -> Timestamp {
    Timestamp::from_millis(1_763_765_920_000 + hours * HOUR).unwrap()
}

pub fn key(at: i64, id: u64) -> SortKey {
    SortKey::message(hours(at), &MessageId::number(id))
}

/// Creates a record in the chat 42 of Telegram. Tests write the fields that differ before `..record(…)`, so that a new
/// field does not concern them.
pub fn record(key: SortKey, message_id: MessageId, role: Role, kind: Kind, text: &str) -> Record {
    let (chat, channel) = (ChatKey::telegram(42, None), Channel::Telegram);
    let origin = Origin { chat, channel, chat_id: "42".into(), user_id: "7".into() };
    let draft = Draft::new(origin, message_id, key.ts()).by(role).with_parts(vec![Part::text(text)]);
    as_kind(Record { tokens: 10, ..record_of(&draft, key, 0, draft.ts) }, kind)
}

/// Returns `record` with other attributes of its details.
pub fn with(record: Record, change: impl FnOnce(&mut Attributes)) -> Record {
    let mut attributes = record.details.attributes();
    change(&mut attributes);
    let details = Details::of(record.kind(), record.role(), &record.key, attributes).unwrap();
    Record { details, ..record }
}

/// Returns `record` as one of another kind, with the attributes that such a record has.
/// A summary counts one message.
pub fn as_kind(record: Record, kind: Kind) -> Record {
    let mut attributes = record.details.attributes();
    attributes.source.get_or_insert_with(|| Source {
        from: record.key.base(),
        from_id: record.message_id.clone(),
        to: record.key.base(),
        to_id: record.message_id.clone(),
        count: 1,
        last_interaction: record.ts,
        read_at: None,
        counts: vec![record.key.base()],
    });
    let details = Details::of(kind, record.role(), &record.key, attributes).unwrap();
    Record { details, ..record }
}

/// Returns `record` as one that asks for an answer, or does not.
pub fn asking(record: Record, asks: bool) -> Record {
    with(record, |attributes| attributes.asks = asks)
}

/// Creates the record of `draft`, appended at the draft's time.
pub fn stored(draft: &Draft) -> Record {
    record_of(draft, draft.key(), 0, draft.ts)
}

/// Creates a message that asks for an answer, with the text `u<id>`.
pub fn user(at: i64, id: u64) -> Record {
    asking(aside(at, id), true)
}

/// Creates a message of a group that does not ask for an answer.
pub fn aside(at: i64, id: u64) -> Record {
    record(key(at, id), MessageId::number(id), Role::User, Kind::Normal, &format!("u{id}"))
}

pub fn album_item(at: i64, id: u64, album: &str) -> Record {
    with(user(at, id), |attributes| attributes.album = Some(album.into()))
}

pub fn event(at: i64, id: u64) -> Record {
    record(key(at, id), MessageId::number(id), Role::User, Kind::Event, &format!("e{id}"))
}

pub fn boundary(at: i64, id: u64) -> Record {
    let id_of_boundary = MessageId::number(id).derived("boundary");
    record(key(at, id), id_of_boundary, Role::User, Kind::Boundary, "/new")
}

/// Creates the text of `/new <text>`.
pub fn opening(at: i64, id: u64) -> Record {
    Record { key: key(at, id).opening_message(), ..user(at, id) }
}

/// Creates the reply to these messages, with the key of the newest, `(at, id)`, and the text `a<id>`.
pub fn reply(covered: &[(i64, u64)]) -> Record {
    let &(at, id) = covered.iter().max().unwrap();
    let message_id = MessageId::number(id).derived("reply");
    let plain = record(key(at, id).reply(), message_id, Role::Assistant, Kind::Normal, &format!("a{id}"));
    with(plain, |attributes| attributes.covers = covered.iter().map(|&(at, id)| key(at, id)).collect())
}

/// Creates a notice that covers these messages.
pub fn failure_notice(covered: &[(i64, u64)]) -> Record {
    let answer = reply(covered);
    as_kind(Record { key: answer.key.notice(), ..answer }, Kind::Notice)
}

/// Creates form `number` of a message, made at `form_at` if the platform gives a time, with the text `<text>v<number>`.
pub fn edit(of: &Record, number: u32, form_at: Option<i64>) -> Record {
    let text = format!("{}v{number}", of.message.plain_text());
    let form = Record {
        key: of.key.revision(number),
        message: UiMessage::text(of.message.id.as_str(), of.role(), text),
        ..of.clone()
    };
    with(as_kind(form, Kind::Revision), |attributes| {
        attributes.revision = number;
        attributes.form_ts = form_at.map(hours);
    })
}

/// Creates form `number` of a reply, which has continued, with the text `<text>v<number>`.
pub fn reply_form(of: &Record, number: u32) -> Record {
    let text = format!("{}v{number}", of.message.plain_text());
    let form = Record {
        key: of.key.reply_form(number),
        message: UiMessage::text(of.message.id.as_str(), of.role(), text),
        ..of.clone()
    };
    with(form, |attributes| attributes.revision = number)
}

/// Creates the summary of the records in `counts`, made at `made`, which folds `folded`.
pub fn summary(made: i64, counts: &[&Record], folded: Option<&Record>) -> Record {
    let key_of =
        |record: &&Record| if record.key.is_reply() { record.key.clone() } else { record.key.base() };
    let (first, last) = (counts.first().unwrap(), counts.last().unwrap());
    let earlier = folded.and_then(|record| record.source());
    let spoken = counts.iter().filter(|record| record.is_interaction()).map(|record| record.ts).max();
    let source = Source {
        from: earlier.map_or(key_of(first), |earlier| earlier.from.clone()),
        from_id: earlier.map_or(first.message_id.clone(), |earlier| earlier.from_id.clone()),
        to: key_of(last),
        to_id: last.message_id.clone(),
        count: u32::try_from(counts.len()).unwrap() + earlier.map_or(0, |earlier| earlier.count),
        read_at: None,
        last_interaction: spoken.or(earlier.map(|earlier| earlier.last_interaction)).unwrap_or(first.ts),
        counts: counts.iter().map(key_of).collect(),
    };
    let key = last.key.summary();
    let text = format!("s{}", source.count);
    let id = last.message_id.derived("summary");
    Record {
        sent_at: hours(made),
        details: Details::Summary(source),
        ..record(key, id, Role::Assistant, Kind::Summary, &text)
    }
}

pub fn recall(of: &Record, number: u32) -> Record {
    let mut form = edit(of, number, None);
    form.message.parts.clear();
    form
}

/// Creates a fact about Ada, number `number` of the entries about her.
pub fn entry(number: u32, text: &str) -> StoredEntry {
    let entry = Entry {
        kind: EntryKind::Fact,
        owner: Owner::User("ada".into()),
        source: None,
        created: hours(0),
        updated: None,
        outside: Vec::new(),
        supersedes: Vec::new(),
        earlier_forms: Vec::new(),
        is_pending: false,
        text: text.into(),
    };
    StoredEntry { number, entry }
}

pub fn sorted(records: impl IntoIterator<Item = Record>) -> Vec<Record> {
    let by_key: BTreeMap<SortKey, Record> =
        records.into_iter().map(|record| (record.key.clone(), record)).collect();
    by_key.into_values().collect()
}
