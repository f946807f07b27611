//! The parts of a history that a view takes: lines, messages of a platform whose clock is ahead, the newest forms, the commands of turns.

use super::*;
use crate::testing::reply_form;

/// Returns `record` as one that arrived at this time.
fn arrived_at(at: i64, record: Record) -> Record {
    Record { sent_at: hours(at), ..record }
}

/// Returns `record` as one of a business connection.
fn of_business(mut record: Record) -> Record {
    set(&mut record.message.metadata, "telegram", json!({"businessConnectionId": "b"}));
    record
}

#[test]
fn a_message_ahead_of_the_clock_leaves_with_the_boundary_after_its_arrival() {
    let ahead = arrived_at(0, aside(1000, 1));
    check(from_ref(&ahead), 1, "u1 |");
    check(&[ahead.clone(), boundary(1, 2)], 1, "|");
    check(&[ahead.clone(), boundary(-1, 2)], 1, "u1 |");
    // Its own boundary arrived together with it.
    let opened = [boundary(1000, 2), opening(1000, 2), reply(&[(1000, 2)])].map(|r| arrived_at(1, r));
    check(&[&[ahead], &opened[..]].concat(), 1, "u2 a2 |");
    // It is answered in any case.
    check(&[arrived_at(0, user(1000, 1)), boundary(1, 2)], 1, "| u1");
}

#[test]
fn messages_of_one_line_are_shown() {
    let seen = |records: &[Record]| context(&sorted(records.iter().cloned()), hours(3), &policy());
    let both = [of_business(user(0, 1)), user(1, 2)];
    let first = seen(&both);
    assert_eq!((shown(&first).as_str(), first.others_wait), ("| u1", true));
    let second = seen(&[&both[..], &[of_business(reply(&[(0, 1)]))]].concat());
    assert_eq!((shown(&second).as_str(), second.others_wait), ("| u2", false));
    // If nothing is unanswered, the line of a person's last message.
    check(&[aside(0, 1), of_business(aside(1, 2)), event(2, 3)], 3, "u2 |");
    check(&[of_business(aside(0, 1)), aside(1, 2), of_business(event(2, 3))], 3, "u2 |");
    // What the agent says on one answers nothing on another.
    let question = of_business(aside(0, 1));
    let asks = asking(edit(&question, 1, None), true);
    let other = record(key(0, 2), MessageId::number(2), Role::Assistant, Kind::Normal, "a");
    check(&[question, asks, other], 0, "| u1v1");
}

#[test]
fn an_edit_by_another_account_keeps_the_author_of_the_message() {
    let edited = Record { user_id: "8".into(), ..edit(&aside(0, 1), 1, None) };
    let shown = &context(&[aside(0, 1), edited], hours(0), &policy()).messages[0];
    assert_eq!((shown.plain_text().as_str(), shown.metadata.user_id()), ("u1v1", Some("7")));
}

#[test]
fn a_later_form_is_no_message_if_only_the_failure_notice_of_its_message_is_left() {
    check(&[failure_notice(&[(0, 1)]), edit(&user(0, 1), 1, None)], 1, "|");
}

#[test]
fn an_edited_compact_command_is_a_message_instead() {
    let said = user(1, 5);
    let seen = context(&[as_kind(said.clone(), Kind::Notice), edit(&said, 1, None)], hours(2), &policy());
    assert_eq!((shown(&seen).as_str(), seen.to_compact), ("| u5v1", vec![]));
}

#[test]
fn a_reply_that_went_on_after_its_summary_is_shown_beside_it() {
    let (u1, a1) = (user(0, 1), reply(&[(0, 1)]));
    let summed_up = summary(2, &[&u1, &a1], None);
    let told = |more: &[Record]| [&[u1.clone(), a1.clone(), summed_up.clone()], more].concat();
    let gone_on = |at| arrived_at(at, reply_form(&a1, 1));
    check(&told(&[gone_on(3)]), 3, "s2 a1v1 |");
    check(&told(&[gone_on(2)]), 3, "s2 |");
    check(&told(&[gone_on(1)]), 3, "s2 |");
    // An edit of a message changes nothing of the summary.
    check(&told(&[arrived_at(3, edit(&u1, 1, None))]), 3, "s2 |");
    // Once its date has come, it is what the summary counts.
    let lapsed = Record { expires_at: Some(hours(4).as_millis() / 1000), ..a1.clone() };
    check(&[u1.clone(), lapsed, summed_up.clone(), gone_on(3)], 4, "s2 |");
    // The clock of the process that stored the reply was ahead.
    check(&[u1.clone(), arrived_at(9, a1.clone()), summed_up.clone()], 3, "s2 |");
}

#[test]
fn the_records_of_a_view_are_its_summary_and_the_first_and_newest_forms() {
    let (u1, a1, said, asked) = (user(0, 1), reply(&[(0, 1)]), aside(2, 2), user(3, 3));
    let summed_up = summary(1, &[&u1, &a1], None);
    let edits = [edit(&said, 1, None), edit(&said, 2, None), edit(&asked, 1, None)];
    let records = sorted([&[u1, a1, summed_up.clone(), said.clone(), asked.clone()], &edits[..]].concat());
    let view = SessionView::of(&records, hours(3), &policy());
    let keys: Vec<&SortKey> = view.shown_records().map(|record| &record.key).collect();
    assert_eq!(keys, [&summed_up.key, &said.key, &edits[1].key, &asked.key, &edits[2].key]);
    let earlier: Vec<&SortKey> = view.earlier_records().map(|record| &record.key).collect();
    assert_eq!(earlier, keys[..3]);
}

#[test]
fn names_and_the_guide_to_them_count_only_if_several_people_speak() {
    let of_bob = Record { user_id: "8".into(), ..user(0, 2) };
    let alone = context(&[user(0, 1), user(0, 2)], hours(0), &policy());
    assert_eq!((alone.tokens, alone.senders), (20 + mark_tokens(), vec![]));
    let both = context(&[user(0, 1), of_bob], hours(0), &policy());
    let names: u32 = both.senders.iter().flatten().map(Sender::tokens).sum();
    assert!(both.senders.iter().flatten().all(|sender| !sender.id.is_empty()) && names > 0);
    assert_eq!(both.tokens, 20 + mark_tokens() + names + tokens::of_text(markup::GUIDE));
    // One person is not named by id, in a summary's source either.
    let records = [user(0, 1)];
    let view = SessionView::of(&records, hours(0), &policy());
    assert_eq!(view.unanswered[0].sender().unwrap().id, "");
}
