//! Start of a Session: messages that the bot sent of its own accord, and the position from which it is read again.

use super::*;

#[test]
fn a_session_is_read_from_the_stale_time_before_its_first_interaction() {
    let from = |records: &[Record], now| context(records, hours(now), &policy()).reaches_back_to;
    assert_eq!(from(&[aside(0, 1), aside(40, 2)], 41), Some(SortKey::start_of(hours(-48))));
    assert_eq!(from(&[aside(0, 1), aside(60, 2), aside(70, 3)], 71), Some(SortKey::start_of(hours(12))));
    assert_eq!(from(&[aside(0, 1), boundary(1, 2), aside(2, 3)], 3), Some(key(1, 2)));
    assert_eq!(from(&[event(0, 1)], 1), Some(key(0, 1)), "without an interaction from its start");
}

/// Returns a message that the bot sent without being asked: the reply to a notice. `metadata` has the reason.
fn sent(at: i64, id: u64, metadata: (&str, serde_json::Value)) -> Record {
    let mut record = reply(&[(at, id)]);
    set(&mut record.message.metadata, metadata.0, metadata.1);
    record
}

#[test]
fn a_session_that_answers_what_the_bot_sent_starts_with_it() {
    let by_operator = |at, id| sent(at, id, ("sentBy", json!("Grace")));
    let from_chat = sent(60, 5, ("sentFrom", json!({"chatKey": "telegram:chat:1", "agentId": "annals"})));
    let occurrence = sent(60, 5, ("schedule", json!({"id": "s", "at": hours(60)})));
    for sent in [by_operator(60, 5), from_chat, occurrence] {
        check(&[user(0, 1), reply(&[(0, 1)]), sent, user(61, 6)], 61, "a5 | u6");
    }
    let told = |sent: &[Record]| [&[user(0, 1), reply(&[(0, 1)]), user(61, 6)], sent].concat();
    // At most the stale time earlier; the first of them counts.
    check(&told(&[by_operator(13, 5)]), 61, "a5 | u6");
    check(&told(&[by_operator(12, 5)]), 61, "| u6");
    check(&told(&[by_operator(60, 5), by_operator(50, 4), by_operator(12, 3)]), 61, "a4 a5 | u6");
    // One after the start of the Session, or before a boundary, moves nothing.
    check(&told(&[by_operator(62, 7)]), 62, "a7 | u6");
    check(&told(&[by_operator(60, 5), boundary(60, 7)]), 61, "| u6");
    // A reply of the agent is no such message.
    check(&told(&[reply(&[(60, 5)])]), 61, "| u6");
}

#[test]
fn a_late_message_of_an_ended_session_does_not_start_the_next_one() {
    let (u1, a1, u2, a2) = (user(0, 1), reply(&[(0, 1)]), user(60, 2), reply(&[(60, 2)]));
    let (first, second) = (summary(1, &[&u1, &a1], None), summary(61, &[&u2, &a2], None));
    // Of the same second as the last interaction of the ended Session.
    check(&[u1, a1, first, u2, a2, second, aside(0, 5), aside(30, 9)], 63, "s2 u9 |");
}

#[test]
fn what_was_said_in_another_chat_starts_a_session_and_has_no_mark_of_its_time() {
    let mut joined = event(60, 5);
    set(&mut joined.message.metadata, "joined", json!({"chatKey": "telegram:chat:1", "until": hours(60)}));
    let records = [user(0, 1), reply(&[(0, 1)]), joined, user(61, 6)];
    check(&records, 61, "e5 | u6");
    assert_eq!(context(&records, hours(61), &policy()).times, [None, Some(hours(61))]);
}
