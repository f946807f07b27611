//! Rules for the messages that one turn covers: pure functions of records.

use annals_core::message::Role;
use annals_core::record::{Kind, Record};
use annals_core::sort_key::SortKey;
use annals_store::history::turn::OpenTurn;

/// Maximum number of messages that one turn covers, and maximum bytes of their keys: a head and a reply must hold them.
const MAX_COVERED: usize = 100;
const MAX_COVERED_BYTES: usize = 32 * 1024;

/// Returns the newest message that `turn` covers, if it is among `records`.
pub(crate) fn newest_covered<'a>(records: &'a [Record], turn: &OpenTurn) -> Option<&'a Record> {
    message_at(records, turn.covers.last()?)
}

/// Returns the first form of the person's message at `base`.
pub(crate) fn message_at<'a>(records: &'a [Record], base: &SortKey) -> Option<&'a Record> {
    records.iter().find(|record| {
        record.key.base() == *base && record.role() == Role::User && record.kind() != Kind::Boundary
    })
}

/// Returns those of the `unanswered` messages that one reply can answer: from the oldest on, all of its chat window, and no
/// more than a head and a reply can hold. A message with a reply token is answered alone, since the platform shows its
/// sender that it waits.
pub(crate) fn covered_by_one_turn(records: &[Record], unanswered: Vec<SortKey>) -> Vec<SortKey> {
    let window = |base: &SortKey| {
        let record = records.iter().find(|record| record.key.base() == *base && record.role() == Role::User);
        record.map(|record| (record.channel, &record.chat_id, record.reply_token()))
    };
    let first = unanswered.first().and_then(window);
    let mut bytes = 0;
    unanswered
        .into_iter()
        .filter(|base| window(base) == first)
        .take(MAX_COVERED)
        .take_while(|base| {
            bytes += base.as_str().len();
            bytes <= MAX_COVERED_BYTES
        })
        .collect()
}

/// Returns those of the `waiting` messages that the operator's message at `sent` answers: all of its chat window that were
/// stored before it, if the chat was taken over. A head and a reply must hold their keys, so the newest count.
pub(crate) fn answered_by(records: &[Record], sent: &SortKey, waiting: Vec<SortKey>) -> Vec<SortKey> {
    let Some(sent) = records.iter().find(|record| record.key == *sent) else { return Vec::new() };
    if !sent.dispatch().is_some_and(|dispatch| dispatch.answers) {
        return Vec::new();
    }
    let is_answered = |base: &SortKey| {
        message_at(records, base).is_some_and(|message| {
            let window = (message.channel, &message.chat_id);
            window == (sent.channel, &sent.chat_id) && message.sent_at <= sent.sent_at
        })
    };
    let mut bytes = sent.key.as_str().len();
    let newest_first = waiting.into_iter().rev().filter(is_answered).take_while(|base| {
        bytes += base.as_str().len();
        bytes <= MAX_COVERED_BYTES
    });
    let mut answered: Vec<SortKey> = newest_first.collect();
    answered.reverse();
    answered
}
