//! What was read, stored: each message where it would stand if it had come by its door, unless it is there.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use annals_shared::history::{History, HistoryError, Imported, MAX_PAGE, Page, Position};
use annals_shared::message::Role;
use annals_shared::record::{Channel, Kind, Record};
use annals_shared::sort_key::{MessageId, SortKey, Timestamp};
use futures::{StreamExt, TryStreamExt, stream};

use super::{Chat, Item, Place};
use crate::progress::Progress;

/// How many messages are stored side by side.
const AT_ONCE: usize = 16;
/// How long behind a reply of ours its pieces still go out, and how far clocks may be apart.
const DELIVERED_WITHIN: Duration = Duration::from_hours(1);
const APART: Duration = Duration::from_mins(1);
const MILLISECOND: Duration = Duration::from_millis(1);

/// What came of a chat.
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

/// What a history has of a chat.
#[derive(Default)]
struct Known {
    /// By message id and form: when it was made, and where its message stands.
    forms: HashMap<(String, u32), Timestamp>,
    /// The newest form of each message.
    newest: HashMap<String, Timestamp>,
    /// Where each message stands.
    places: HashMap<String, Timestamp>,
    /// What the agent has said: when, and in which letters.
    said: Vec<(Timestamp, Vec<char>)>,
    /// Who somebody is across channels.
    persons: HashMap<String, String>,
    /// When people spoke.
    spoken: Vec<Timestamp>,
}

impl Known {
    /// Reads the whole history of `chat`, what is archived too: what has left the table is met by no put.
    async fn of(history: &History, chat: &Chat) -> Result<Self, HistoryError> {
        let mut known = Self::default();
        let mut position = Some(Position::Oldest);
        while let Some(at) = position {
            let Page { records, after, .. } = history.page(&chat.key, &at, MAX_PAGE).await?;
            for record in &records {
                known.add(record);
            }
            position = after.map(Position::After);
        }
        Ok(known)
    }

    fn add(&mut self, record: &Record) {
        let id = record.message_id.as_str().to_owned();
        let made_at = record.form_ts.unwrap_or(record.ts);
        self.forms.insert((id.clone(), record.revision), made_at);
        let newest = self.newest.entry(id.clone()).or_insert(made_at);
        *newest = made_at.max(*newest);
        self.places.entry(id).or_insert(record.ts);
        if record.role() == Role::Assistant && record.kind != Kind::Summary {
            self.said.push((record.sent_at, letters(&record.message.plain_text())));
        }
        if let Some(person) = &record.person {
            self.persons.insert(record.user_id.clone(), person.clone());
        }
        if record.is_interaction() {
            self.spoken.push(record.ts);
        }
    }

    /// Whether a message of the bot at Telegram is, or is a piece of, what the agent has said here.
    fn has_said(&self, item: &Item) -> bool {
        if item.draft.role != Role::Assistant || item.draft.channel != Channel::Telegram {
            return false;
        }
        let text: String =
            item.draft.parts.iter().filter_map(|part| part.as_map().get("text")?.as_str()).collect();
        let (at, text) = (item.draft.ts, letters(&text));
        self.said.iter().any(|(sent_at, said)| {
            at.plus(APART) >= *sent_at && at.since(*sent_at) <= DELIVERED_WITHIN && is_within(&text, said)
        })
    }
}

/// The letters and digits of a text: what is left of it whatever is made of its Markdown.
fn letters(text: &str) -> Vec<char> {
    text.chars().filter(|c| c.is_alphanumeric()).collect()
}

/// Whether `piece` is what is left of `whole` where some of it is taken away, such as the address behind a link.
fn is_within(piece: &[char], whole: &[char]) -> bool {
    let mut whole = whole.iter();
    piece.iter().all(|c| whole.any(|w| w == c))
}

/// Stores what of `chat` is not there. Safe to repeat after any failure.
pub(super) async fn store(
    history: &History,
    chat: &Chat,
    progress: &mut Progress,
) -> Result<Counts, HistoryError> {
    let known = Known::of(history, chat).await?;
    let mut counts = Counts::default();
    let mut spoken = known.spoken.clone();
    let mut first: Option<Timestamp> = None;
    let mut last: Option<Timestamp> = None;
    let mut wanted: Vec<(Item, SortKey)> = Vec::new();
    for item in &chat.items {
        let id = id_of(item);
        // Where no time is told: behind the one before, as that stands; the first of all, now.
        let untold = || known.places.get(&id).copied().or(last.map(|last| last.plus(MILLISECOND)));
        let ts = item.ts.or_else(untold).unwrap_or_else(|| history.clock().now());
        last = Some(ts);
        let mut draft = item.draft.clone();
        draft.ts = ts;
        draft.person = draft.person.or_else(|| known.persons.get(&draft.user_id).cloned());
        if draft.role == Role::User && draft.kind == Kind::Normal {
            spoken.push(ts);
        }
        let is_newer = |newest: &Timestamp| {
            item.revision == 0
                && draft.form_ts.is_some_and(|form| form > *newest)
                && known.places.get(&id) == Some(&ts)
        };
        let is_known = known.forms.contains_key(&(id.clone(), item.revision));
        if is_known && !known.newest.get(&id).is_some_and(is_newer) {
            counts.present += 1;
            progress.advance(1);
        } else if known.has_said(item) {
            counts.replies += 1;
            progress.advance(1);
        } else {
            first = Some(first.map_or(ts, |first| first.min(ts)));
            let item = Item { draft, ts: Some(ts), place: item.place.clone(), revision: item.revision };
            let key = key_of(&item);
            wanted.push((item, key));
        }
    }
    if wanted.is_empty() {
        return Ok(counts);
    }
    // Before anything is stored, so that an import that breaks off has done it; and once more behind it, for a turn that
    // came in between. A run that has the chat finds out for itself.
    let from = session_from(spoken, history.retention().stale_after);
    if let Some(from) = &from {
        history.read_from(&chat.key, from, first).await?;
    }
    let mut storing = stream::iter(&wanted)
        .map(|(item, key)| history.import(&item.draft, key, item.revision))
        .buffered(AT_ONCE);
    while let Some(imported) = storing.try_next().await? {
        match imported {
            Imported::Stored => counts.stored += 1,
            Imported::Revised => counts.edited += 1,
            Imported::Present => counts.present += 1,
        }
        progress.advance(1);
    }
    if let Some(from) = &from {
        history.read_from(&chat.key, from, first).await?;
    }
    Ok(counts)
}

/// The id that the item's record has.
fn id_of(item: &Item) -> String {
    let id = &item.draft.message_id;
    match &item.place {
        _ if item.draft.kind == Kind::Boundary => id.derived("boundary").to_string(),
        _ => id.to_string(),
    }
}

fn key_of(item: &Item) -> SortKey {
    let id = item.draft.message_id.as_str();
    let of = |suffix: &str| {
        let id = id.strip_suffix(suffix).unwrap_or(id);
        // It was one with the suffix, and maybe longer.
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

/// From where on the last Session of those who have `spoken` is to be read, with what may still join it.
fn session_from(mut spoken: Vec<Timestamp>, stale_after: Option<Duration>) -> Option<SortKey> {
    let stale_after = stale_after?;
    spoken.sort_unstable();
    let mut first = *spoken.last()?;
    for before in spoken.iter().rev() {
        if first.since(*before) > stale_after {
            break;
        }
        first = *before;
    }
    Some(SortKey::start_of(first.minus(stale_after)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_is_known_by_its_letters() {
        let said = letters("See [the **plan**](https://example.com/plan), it is *ready*.");
        assert!(is_within(&letters("See the plan, it is ready."), &said));
        assert!(is_within(&letters("it is ready."), &said), "a piece");
        assert!(!is_within(&letters("See the plan, it is not ready."), &said));
    }

    #[test]
    fn the_last_session_is_read_with_what_may_join_it() {
        let at = |hours: i64| Timestamp::from_secs(1_700_000_000 + hours * 3600);
        let from = |hours: &[i64]| {
            let spoken = hours.iter().map(|hours| at(*hours)).collect();
            session_from(spoken, Some(Duration::from_hours(48))).map(|key| key.ts())
        };
        assert_eq!(from(&[]), None);
        assert_eq!(from(&[100]), Some(at(52)));
        assert_eq!(from(&[500, 0, 540, 580]), Some(at(452)));
        assert_eq!(session_from(vec![at(0)], None), None, "nothing grows stale");
    }
}
