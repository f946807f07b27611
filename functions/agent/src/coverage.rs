//! Rules for the messages that one turn covers: pure functions of records.

use std::collections::HashMap;

use annals_core::record::{Record, message_at};
use annals_core::sort_key::SortKey;
use annals_store::history::turn::OpenTurn;

/// Number of messages that one turn may cover, whatever they take of the model's window.
const ALWAYS_COVERED: usize = 100;
/// Tokens of a message beside its text: its sender, and the mark of a text that is shortened.
const TOKENS_BESIDE: u32 = 40;
/// Maximum bytes of the keys of the messages that one turn covers, some 900 messages: a head and a reply must hold them.
const MAX_COVERED_BYTES: usize = 32 * 1024;

/// Returns the newest message that `turn` covers, if it is among `records`.
pub(crate) fn newest_covered<'a>(records: &'a [Record], turn: &OpenTurn) -> Option<&'a Record> {
    message_at(records, turn.covers.last()?)
}

/// Returns those of the `unanswered` messages that one reply can answer: from the oldest on, all of its chat window, and no
/// more than a head and a reply can hold. There are more than [`ALWAYS_COVERED`] only if all fit into half of the `token_budget`,
/// so that none is shortened. A message with a reply token is answered alone, since the platform shows its sender that it waits.
pub(crate) fn covered_by_one_turn(
    records: &[Record],
    unanswered: Vec<SortKey>,
    token_budget: u32,
) -> Vec<SortKey> {
    let mut said: HashMap<SortKey, &Record> = HashMap::new();
    for record in records.iter().filter(|record| record.is_said()) {
        said.entry(record.key.base()).or_insert(record);
    }
    let window =
        |base: &SortKey| said.get(base).map(|record| (record.channel, &record.chat_id, record.reply_token()));
    let first = unanswered.first().and_then(window);
    let (mut bytes, mut tokens) = (0, 0_u32);
    unanswered
        .into_iter()
        .filter(|base| window(base) == first)
        .enumerate()
        .take_while(|(index, base)| {
            bytes += base.as_str().len();
            let text = said.get(base).map_or(0, |record| record.tokens);
            tokens = tokens.saturating_add(text).saturating_add(TOKENS_BESIDE);
            bytes <= MAX_COVERED_BYTES && (*index < ALWAYS_COVERED || tokens <= token_budget / 2)
        })
        .map(|(_, base)| base)
        .collect()
}

/// Returns those of the `waiting` messages that the operator's message at `sent` answers: all of people in its chat window that
/// were stored before it, if the chat was taken over. Scheduled tasks are the bot's, and wait until it has the chat again. A head
/// and a reply must hold their keys, so the newest count.
pub(crate) fn answered_by(records: &[Record], sent: &SortKey, waiting: Vec<SortKey>) -> Vec<SortKey> {
    let Some(sent) = records.iter().find(|record| record.key == *sent) else { return Vec::new() };
    if !sent.dispatch().is_some_and(|dispatch| dispatch.answers) {
        return Vec::new();
    }
    let is_answered = |base: &SortKey| {
        message_at(records, base).is_some_and(|message| {
            let window = (message.channel, &message.chat_id);
            let is_of_person = message.due().is_none();
            is_of_person && window == (sent.channel, &sent.chat_id) && message.sent_at <= sent.sent_at
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

#[cfg(test)]
mod tests {
    use annals_core::record::{Channel, Kind};
    use annals_core::reply_token::ReplyToken;
    use annals_core::sort_key::{MessageId, Timestamp};
    use annals_core::takeover::Dispatch;
    use annals_core::testing::{as_kind, boundary, hours, key, opening, reply, user};

    use super::*;

    const BUDGET: u32 = 100_000;

    fn keys(ids: impl IntoIterator<Item = u64>) -> Vec<SortKey> {
        ids.into_iter().map(|id| key(0, id)).collect()
    }

    fn elsewhere(record: Record) -> Record {
        Record { chat_id: "43".into(), ..record }
    }

    /// Returns messages whose keys have 512 bytes.
    fn long(count: u64) -> Vec<Record> {
        let id = |number: u64| MessageId::new(format!("{number:03}{}", "#".repeat(165))).unwrap();
        let key = |number: u64| SortKey::message(hours(0), &id(number));
        (0..count).map(|number| Record { key: key(number), ..user(0, number) }).collect()
    }

    fn keys_of(records: &[Record]) -> Vec<SortKey> {
        records.iter().map(|record| record.key.clone()).collect()
    }

    #[test]
    fn a_turn_covers_the_messages_of_its_first_ones_window() {
        let records = [user(0, 1), elsewhere(user(0, 2)), user(0, 3)];
        assert_eq!(covered_by_one_turn(&records, keys(1..=3), BUDGET), keys([1, 3]));
        assert_eq!(covered_by_one_turn(&records, keys(2..=3), BUDGET), keys([2]));
        let of_lark = Record { channel: Channel::Lark, ..user(0, 3) };
        assert_eq!(covered_by_one_turn(&[user(0, 1), of_lark], keys([1, 3]), BUDGET), keys([1]));
        assert_eq!(covered_by_one_turn(&records, Vec::new(), BUDGET), []);
        // The reply to a message has its base, and is not the message.
        let own = elsewhere(reply(&[(0, 1)]));
        assert_eq!(covered_by_one_turn(&[own, user(0, 1), user(0, 3)], keys([1, 3]), BUDGET), keys([1, 3]));
    }

    #[test]
    fn a_message_with_a_reply_token_is_answered_alone() {
        let (mut waiting, mut other) = (user(0, 1), user(0, 2));
        waiting.set_reply_token(ReplyToken::new("one", Timestamp::MAX));
        other.set_reply_token(ReplyToken::new("another", Timestamp::MAX));
        let records = [waiting, other, user(0, 3), user(0, 4)];
        assert_eq!(covered_by_one_turn(&records, keys(1..=4), BUDGET), keys([1]));
        assert_eq!(covered_by_one_turn(&records, keys(2..=4), BUDGET), keys([2]));
        assert_eq!(covered_by_one_turn(&records, keys(3..=4), BUDGET), keys([3, 4]));
    }

    #[test]
    fn a_turn_covers_no_more_than_a_head_and_a_reply_hold() {
        let records: Vec<Record> = (0..1_200).map(|id| user(0, id)).collect();
        let number = MAX_COVERED_BYTES / key(0, 0).as_str().len();
        assert_eq!(covered_by_one_turn(&records, keys(0..1_200), BUDGET).len(), number);
        // More than a hundred only if they fit into half of the budget.
        let each = records[0].tokens + TOKENS_BESIDE;
        for (budget, number) in
            [(2 * 300 * each, 300), (2 * 300 * each - 1, 299), (2 * 100 * each, 100), (0, 100)]
        {
            assert_eq!(covered_by_one_turn(&records, keys(0..1_200), budget), keys(0..number), "{budget}");
        }
        // 64 keys of 512 bytes are 32 KiB.
        let records = long(70);
        assert_eq!(records[0].key.as_str().len(), 512);
        assert_eq!(covered_by_one_turn(&records, keys_of(&records), BUDGET), keys_of(&records[..64]));
    }

    #[test]
    fn the_newest_covered_message_is_a_persons_and_no_boundary() {
        let records = [user(0, 1), reply(&[(0, 1)]), boundary(0, 2), opening(0, 2), user(0, 3)];
        let newest = |ids: &[u64]| newest_covered(&records, &OpenTurn::new(keys(ids.iter().copied())));
        assert_eq!(newest(&[1]), Some(&records[0]));
        assert_eq!(newest(&[1, 2]), Some(&records[3]));
        assert_eq!(newest(&[1, 3]), Some(&records[4]));
        assert_eq!(newest(&[4]), None);
        assert_eq!(newest(&[]), None);
    }

    /// Makes `record` the message of an operator that is to be sent.
    fn sent(mut record: Record, answers: bool) -> Record {
        let dispatch = Dispatch { by: "ops".into(), answers, to: MessageId::number(1), from: None };
        record.message.metadata.set_dispatch(&dispatch);
        as_kind(record, Kind::Notice)
    }

    #[test]
    fn an_operators_message_answers_what_was_stored_before_it_in_its_window() {
        let late = Record { sent_at: hours(2).next(), ..user(0, 4) };
        let same_time = Record { sent_at: hours(2), ..user(0, 5) };
        let records =
            [user(0, 1), elsewhere(user(0, 2)), boundary(0, 3), late, same_time, sent(user(2, 9), true)];
        let at = key(2, 9);
        assert_eq!(answered_by(&records, &at, keys(1..=6)), keys([1, 5]));
        assert_eq!(answered_by(&records, &key(2, 8), keys(1..=6)), []);
        let of_lark = [Record { channel: Channel::Lark, ..user(0, 1) }, sent(user(2, 9), true)];
        assert_eq!(answered_by(&of_lark, &at, keys([1])), []);
        // A chat that was not taken over is answered by its agent.
        assert_eq!(answered_by(&[user(0, 1), sent(user(2, 9), false)], &at, keys([1])), []);
        assert_eq!(answered_by(&[user(0, 1), user(2, 9)], &at, keys([1])), []);
    }

    #[test]
    fn of_too_many_messages_an_operator_answers_the_newest() {
        let mut records = long(70);
        let waiting = keys_of(&records);
        // Its own key counts, too: 63 others of 512 bytes have space beside it.
        records.push(sent(user(2, 9), true));
        assert_eq!(answered_by(&records, &key(2, 9), waiting.clone()), waiting[7..]);
        // With one of 512 bytes, all 64 have exactly the maximum.
        records.pop();
        let id = MessageId::new("#".repeat(166)).unwrap();
        let own = Record { key: SortKey::message(hours(2), &id), ..user(2, 9) };
        let at = own.key.clone();
        records.push(sent(own, true));
        assert_eq!(at.as_str().len(), 512);
        assert_eq!(answered_by(&records, &at, waiting.clone()), waiting[7..]);
    }
}
