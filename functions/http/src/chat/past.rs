//! What a client takes the conversation to be, beside the history, which alone is true. Pure.
//!
//! Nothing that a client sends as past is stored or shown to a model. That the two differ is no error: who aborts has less of
//! a reply than is stored, and a second window does not know what was said in the first. So it is told, and nothing else.

use std::collections::HashMap;

use annals_shared::message::{PartView, Role, UiMessage};
use annals_shared::record::Record;
use serde_json::Value;

/// How a client's past is beside the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Past {
    /// All that it holds is in the history, in some form.
    Same,
    /// Something of it is not.
    Differs,
}

impl Past {
    /// How `past` is beside `records`, which are the whole history or what there is of it from some place on.
    pub(crate) fn of(past: &[UiMessage], records: &[Record], is_whole: bool) -> Self {
        let known = Known::of(records);
        let is_known = |message: &UiMessage| {
            let mut forms = known.named(&message.id).filter(|record| record.role() == message.role);
            // What it shows of a reply that it has heard to its middle is a beginning.
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
        // What lies before the records cannot be compared.
        let is_named = |message: &UiMessage| known.named(&message.id).next().is_some();
        let from = if is_whole { Some(0) } else { past.iter().position(is_named) };
        match from {
            Some(from) if past[from..].iter().all(is_known) => Self::Same,
            None if past.is_empty() => Self::Same,
            _ => Self::Differs,
        }
    }

    /// The value of the header `x-annals-history`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Differs => "differs",
        }
    }
}

/// Records by the id of their message: a client may send thousands of messages.
struct Known<'a>(HashMap<&'a str, Vec<&'a Record>>);

impl<'a> Known<'a> {
    fn of(records: &'a [Record]) -> Self {
        let mut by_id: HashMap<_, Vec<_>> = HashMap::new();
        for record in records {
            by_id.entry(record.message_id.as_str()).or_default().push(record);
        }
        Self(by_id)
    }

    /// Those that [`names`] says `id` names.
    fn named(&self, id: &str) -> impl Iterator<Item = &'a Record> {
        let own = id.rsplit_once('@').map_or("", |(own, _)| own);
        let of = |id: &str| self.0.get(id).into_iter().flatten().copied();
        of(id).chain(of(own)).filter(move |record| names(record, id))
    }
}

/// The ids and the results of the calls that `message` holds.
fn results(message: &UiMessage) -> impl Iterator<Item = (&str, Option<&Value>, Option<&str>)> {
    message.parts.iter().filter_map(|part| match part.view() {
        PartView::Tool { call_id, output, error, .. } if output.is_some() || error.is_some() => {
            Some((call_id, output, error))
        }
        _ => None,
    })
}

/// Whether `id` is the id of this record's message, as streamed or as listed.
pub(crate) fn names(record: &Record, id: &str) -> bool {
    let own = record.message_id.as_str();
    id == own
        || id.strip_prefix(own).and_then(|rest| rest.strip_prefix('@')) == Some(&record.revision.to_string())
}
