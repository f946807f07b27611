//! Compares a client's copy of the conversation with the history. Pure.
//!
//! A client's copy is neither stored nor shown to a model. A difference is no error: a client that aborts has less of a reply
//! than is stored, and a second window lacks the messages of the first. So the client is told of it, and nothing else happens.

use std::collections::HashMap;

use annals_core::message::{PartView, Role, UiMessage};
use annals_core::record::Record;
use serde_json::Value;

/// Returns true if `records`, the whole history or the newest part of it, hold all of `past`, in some form.
pub(crate) fn holds(records: &[Record], past: &[UiMessage], is_whole: bool) -> bool {
    let known = RecordsById::of(records);
    let is_known = |message: &UiMessage| {
        let mut forms = known.named(&message.id).filter(|record| record.role() == message.role);
        // A client that aborted has the beginning of a reply.
        let said = message.plain_text();
        let is_same = |record: &Record| match message.role {
            Role::Assistant => {
                record.message.plain_text().starts_with(&said)
                    && results(message).all(|result| results(&record.message).any(|own| own == result))
            }
            _ => record.message.plain_text() == said,
        };
        forms.any(is_same)
    };
    // Messages before the records cannot be compared.
    let is_named = |message: &UiMessage| known.named(&message.id).next().is_some();
    let from = if is_whole { Some(0) } else { past.iter().position(is_named) };
    from.map_or(past.is_empty(), |from| past[from..].iter().all(is_known))
}

/// Records by the id of their message. An index, since a client may send thousands of messages.
struct RecordsById<'a>(HashMap<&'a str, Vec<&'a Record>>);

impl<'a> RecordsById<'a> {
    fn of(records: &'a [Record]) -> Self {
        let mut by_id: HashMap<_, Vec<_>> = HashMap::new();
        for record in records {
            by_id.entry(record.message_id.as_str()).or_default().push(record);
        }
        Self(by_id)
    }

    /// Returns the records that `id` names, and later forms of a form that it names: a message goes on under the id that the
    /// client has for it.
    fn named(&self, id: &str) -> impl Iterator<Item = &'a Record> {
        let (own, form) = id.rsplit_once('@').unwrap_or_default();
        let form: Option<u32> = form.parse().ok();
        let of = |id: &str| self.0.get(id).into_iter().flatten().copied();
        let is_later = move |record: &&Record| {
            form.is_some_and(|form| form < record.revision()) && record.message_id.as_str() == own
        };
        of(id).chain(of(own)).filter(move |record| names(record, id) || is_later(record))
    }
}

/// Returns the ids and the results of the calls in `message`.
fn results(message: &UiMessage) -> impl Iterator<Item = (&str, Option<&Value>, Option<&str>)> {
    message.parts.iter().filter_map(|part| match part.view() {
        PartView::Tool { call_id, output, error, .. } if output.is_some() || error.is_some() => {
            Some((call_id, output, error))
        }
        _ => None,
    })
}

/// Returns true if `id` is the id of this record's message, as streamed or as listed.
pub(crate) fn names(record: &Record, id: &str) -> bool {
    let own = record.message_id.as_str();
    id == own
        || id.strip_prefix(own).and_then(|rest| rest.strip_prefix('@'))
            == Some(&record.revision().to_string())
}
