//! Messages that an edit or a retry in `useChat` replaces.

use super::*;

/// Returns a message that replaces the messages from `from` on.
fn replacing(from: &SortKey, record: Record) -> Record {
    let mut record = record;
    record.message.metadata.set_replaces_from(from);
    record
}

/// Returns two answered questions, and the edit of the second.
fn edited() -> Vec<Record> {
    let told = [user(0, 1), reply(&[(0, 1)]), user(1, 2), reply(&[(1, 2)])];
    [&told[..], &[replacing(&key(1, 2), user(2, 3))]].concat()
}

#[test]
fn an_edited_message_replaces_what_follows_the_place_that_it_continues_from() {
    check(&edited(), 2, "u1 a1 | u3");
    let answered = [&edited()[..], &[reply(&[(2, 3)]), user(3, 4)]].concat();
    check(&answered, 3, "u1 a1 u3 a3 | u4");
}

#[test]
fn an_edit_further_back_restores_what_the_edit_that_it_replaces_had_replaced() {
    let back = replacing(&key(2, 3), user(4, 5));
    check(&[&edited()[..], &[reply(&[(2, 3)]), back]].concat(), 4, "u1 a1 u2 a2 | u5");
}

#[test]
fn an_unanswered_message_is_replaced_only_by_itself() {
    let told = [user(0, 1), reply(&[(0, 1)]), user(1, 2)];
    let with = |more: Record| [&told[..], &[replacing(&key(1, 2), more)]].concat();
    check(&with(user(2, 3)), 2, "u1 a1 | u2 u3");
    check(&with(Record { message_id: MessageId::number(2), ..user(2, 3) }), 2, "u1 a1 | u3");
}

#[test]
fn only_people_replace_messages() {
    let told = [user(0, 1), reply(&[(0, 1)]), user(1, 2), replacing(&key(0, 1), reply(&[(1, 2)]))];
    check(&told, 2, "u1 a1 u2 a2 |");
}
