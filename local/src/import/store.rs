//! Stores parsed messages: each under the key that it would have if it had come by its channel, unless it is stored already.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use annals_core::message::Role;
use annals_core::record::{Channel, Kind, Record};
use annals_core::sort_key::{MessageId, SortKey, Timestamp};
use annals_store::history::{History, HistoryError, Imported, MAX_PAGE, Page, Position};
use futures::{StreamExt, TryStreamExt, stream};

use super::item::{Chat, Item, Place};
use crate::progress::Progress;

/// Number of messages that are stored at a time.
const CONCURRENT_WRITES: usize = 16;
/// Time after a reply of the agent within which its pieces are sent, and largest difference of clocks.
const DELIVERED_WITHIN: Duration = Duration::from_hours(1);
const MAX_SKEW: Duration = Duration::from_mins(1);
const MILLISECOND: Duration = Duration::from_millis(1);

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
    /// Time of each form, by message id and number.
    forms: HashMap<(String, u32), Timestamp>,
    /// Time of the newest form of each message.
    newest: HashMap<String, Timestamp>,
    /// Time of each message.
    places: HashMap<String, Timestamp>,
    /// Time and letters of each reply of the agent.
    replies: Vec<(Timestamp, Vec<char>)>,
    /// Ids of people across channels, by user id.
    persons: HashMap<String, String>,
    /// Times of messages from people.
    spoken: Vec<Timestamp>,
}

impl Stored {
    /// Reads the whole history of `chat`, the archive included: a put does not detect a record that has left the table.
    async fn of(history: &History, chat: &Chat) -> Result<Self, HistoryError> {
        let mut stored = Self::default();
        let mut position = Some(Position::Oldest);
        while let Some(at) = position {
            let Page { records, after, .. } = history.page(&chat.key, &at, MAX_PAGE).await?;
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
        self.forms.insert((id.clone(), record.revision()), made_at);
        let newest = self.newest.entry(id.clone()).or_insert(made_at);
        *newest = made_at.max(*newest);
        self.places.entry(id).or_insert(record.ts);
        if record.role() == Role::Assistant && record.kind() != Kind::Summary {
            self.replies.push((record.sent_at, letters(&record.message.plain_text())));
        }
        if let Some(person) = &record.person {
            self.persons.insert(record.user_id.clone(), person.clone());
        }
        if record.is_interaction() {
            self.spoken.push(record.ts);
        }
    }

    /// Returns whether `item` is a message of the bot at Telegram that is a stored reply of the agent, or a piece of one.
    fn has_reply(&self, item: &Item) -> bool {
        if item.draft.role != Role::Assistant || item.draft.channel != Channel::Telegram {
            return false;
        }
        let text: String =
            item.draft.parts.iter().filter_map(|part| part.as_map().get("text")?.as_str()).collect();
        let (at, text) = (item.draft.ts, letters(&text));
        self.replies.iter().any(|(sent_at, reply)| {
            at.plus(MAX_SKEW) >= *sent_at && at.since(*sent_at) <= DELIVERED_WITHIN && is_within(&text, reply)
        })
    }
}

/// Returns the letters and digits of a text, which rendering its Markdown does not change.
fn letters(text: &str) -> Vec<char> {
    text.chars().filter(|c| c.is_alphanumeric()).collect()
}

/// Returns whether `piece` is `whole` without some characters, such as the address of a link.
fn is_within(piece: &[char], whole: &[char]) -> bool {
    let mut whole = whole.iter();
    piece.iter().all(|c| whole.any(|w| w == c))
}

/// Stores the messages of `chat` that are not stored yet. May be repeated after any failure.
pub(super) async fn store(
    history: &History,
    chat: &Chat,
    progress: &mut Progress,
) -> Result<Counts, HistoryError> {
    let stored = Stored::of(history, chat).await?;
    let mut counts = Counts::default();
    let mut spoken = stored.spoken.clone();
    let mut first: Option<Timestamp> = None;
    let mut last: Option<Timestamp> = None;
    let mut wanted: Vec<(Item, SortKey)> = Vec::new();
    for item in &chat.items {
        let id = id_of(item);
        // A message without a time follows the one before it; the first is of now.
        let default = || stored.places.get(&id).copied().or(last.map(|last| last.plus(MILLISECOND)));
        let ts = item.ts.or_else(default).unwrap_or_else(|| history.clock().now());
        last = Some(ts);
        let mut draft = item.draft.clone();
        draft.ts = ts;
        draft.person = draft.person.or_else(|| stored.persons.get(&draft.user_id).cloned());
        if draft.role == Role::User && draft.kind == Kind::Normal {
            spoken.push(ts);
        }
        let is_newer = |newest: &Timestamp| {
            item.revision == 0
                && draft.form_ts.is_some_and(|form| form > *newest)
                && stored.places.get(&id) == Some(&ts)
        };
        let is_known = stored.forms.contains_key(&(id.clone(), item.revision));
        if is_known && !stored.newest.get(&id).is_some_and(is_newer) {
            counts.present += 1;
            progress.advance(1);
        } else if stored.has_reply(item) {
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
    // Before anything is stored, in case the import is interrupted, and again afterwards, for a turn in between. A run that holds
    // the chat notices by itself.
    let from = session_from(spoken, history.retention().stale_after);
    if let Some(from) = &from {
        history.read_from(&chat.key, from, first).await?;
    }
    let mut storing = stream::iter(&wanted)
        .map(|(item, key)| history.import(&item.draft, key, item.revision))
        .buffered(CONCURRENT_WRITES);
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

/// Returns the id of the item's record.
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

/// Returns the key from which the last Session of messages at the times `spoken` is to be read, with earlier messages that may
/// still join it.
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
    fn a_sent_reply_is_recognized_by_its_letters() {
        let said = letters("See [the **plan**](https://example.com/plan), it is *ready*.");
        assert!(is_within(&letters("See the plan, it is ready."), &said));
        assert!(is_within(&letters("it is ready."), &said), "a piece");
        assert!(!is_within(&letters("See the plan, it is not ready."), &said));
    }

    #[test]
    fn the_last_session_is_read_with_messages_that_may_join_it() {
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
