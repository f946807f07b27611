//! Tests with chats in short notation: `check(&[user(0, 1), reply(&[1])…], now, "u1 a1 | u2")`, with times in hours and
//! unanswered messages after the bar. The property tests hold for all histories that the strategy below generates.

mod replaced;
mod session;
mod view;

use std::collections::{BTreeMap, HashSet};
use std::slice::from_ref;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::message::{Part, Role};
use crate::metadata::FromPlatform;
use crate::record::Kind;
use crate::sort_key::MessageId;
use crate::testing::{
    HOUR, album_item, as_kind, aside, asking, boundary, edit, event, failure_notice, hours, key, opening,
    policy, recall, record, reply, set, sorted, summary, user, with,
};
use crate::time_marks::mark_tokens;

fn texts(messages: &[UiMessage]) -> Vec<String> {
    messages.iter().map(UiMessage::plain_text).collect()
}

/// Returns the shown messages as `<earlier> | <unanswered>`.
fn shown(context: &Context) -> String {
    let (earlier, unanswered) = context.messages.split_at(context.messages.len() - context.unanswered.len());
    format!("{} | {}", texts(earlier).join(" "), texts(unanswered).join(" ")).trim().to_owned()
}

#[track_caller]
fn check_with(records: &[Record], now: i64, policy: &Policy, expect: &str) {
    let records = sorted(records.iter().cloned());
    assert_eq!(shown(&context(&records, hours(now), policy)), expect);
}

#[track_caller]
fn check(records: &[Record], now: i64, expect: &str) {
    check_with(records, now, &policy(), expect);
}

#[test]
fn an_empty_history_has_an_empty_context() {
    let nothing = Context { token_budget: policy().token_budget, ..Context::default() };
    assert_eq!(context(&[], hours(0), &policy()), nothing);
}

#[test]
fn times_are_told_once_a_quarter_and_never_change() {
    let minutes = |at: i64| Timestamp::from_millis(at * 60_000).unwrap();
    let said = |at: i64| {
        let id = MessageId::number(u64::try_from(at).unwrap());
        record(SortKey::message(minutes(at), &id), id, Role::User, Kind::Normal, "hello")
    };
    let records: Vec<Record> = [14, 15, 16, 29, 31, 200].map(said).to_vec();
    let told = [Some(14), Some(15), None, None, Some(31), Some(200)].map(|at| at.map(minutes));
    for count in 1..=records.len() {
        for now in [200, 1_000] {
            assert_eq!(context(&records[..count], minutes(now), &policy()).times, told[..count]);
        }
    }
    // If older messages do not fit, the first that is shown has its time.
    let last = &records[1..4];
    let all = context(last, minutes(30), &policy());
    assert_eq!(all.times, [Some(minutes(15)), None, None]);
    let less = context(last, minutes(30), &Policy { token_budget: all.tokens - 1, ..policy() });
    assert_eq!((less.times.as_slice(), less.left_out), (&[Some(minutes(16)), None][..], 1));
    let two = context(&records[2..4], minutes(30), &policy());
    assert_eq!((less.times, less.tokens), (two.times, two.tokens));
}

#[test]
fn messages_are_shown_as_in_lists() {
    let edited = [aside(0, 1), edit(&aside(0, 1), 1, None)];
    let shown = &context(&edited, hours(0), &policy()).messages[0];
    assert_eq!(shown.id, "1", "the message's own id, not that of its form");
    assert_eq!(shown.metadata.chat_key(), Some("telegram:chat:42"));
    assert_eq!(shown.metadata.ts(), Some(hours(0)));
}

#[test]
fn a_boundary_starts_the_session() {
    let before = [user(0, 1), reply(&[(0, 1)]), aside(0, 2)];
    let with = |more: &[Record]| before.iter().chain(more).cloned().collect::<Vec<_>>();
    check(&with(&[]), 1, "u1 a1 u2 |");
    check(&with(&[boundary(1, 3)]), 1, "|");
    check(&with(&[boundary(1, 3), user(1, 4)]), 1, "| u4");
    check(&with(&[boundary(1, 3), user(1, 4), reply(&[(1, 4)])]), 1, "u4 a4 |");
    check(&with(&[boundary(1, 3), user(2, 4), reply(&[(2, 4)]), boundary(3, 5), aside(3, 6)]), 3, "u6 |");
    // Within one second, the id decides.
    check(&[boundary(0, 9), aside(0, 8), aside(0, 10)], 0, "u10 |");
}

#[test]
fn the_text_after_new_opens_the_session() {
    let records = [aside(0, 1), boundary(1, 2), opening(1, 2)];
    check(&records, 1, "| u2");
    let context = context(&records, hours(1), &policy());
    assert_eq!(context.session_start, Some(key(1, 2)));
    assert_eq!(context.unanswered, [key(1, 2)]);
    check(&[aside(0, 1), boundary(1, 2), opening(1, 2), reply(&[(1, 2)])], 1, "u2 a2 |");
    check(&[boundary(1, 2), opening(1, 2), edit(&opening(1, 2), 1, None)], 1, "| u2v1");
}

#[test]
fn a_gap_longer_than_the_stale_time_starts_a_session() {
    let talk = |gap: i64| [aside(0, 1), reply(&[(0, 1)]), aside(gap, 2)];
    check(&talk(48), 48, "u1 a1 u2 |");
    check(&talk(49), 49, "u2 |");
    let never = Policy { stale_after: None, ..policy() };
    check_with(&talk(9999), 99_999, &never, "u1 a1 u2 |");
    // The last gap counts; a boundary after it has precedence.
    check(&[aside(0, 1), aside(49, 2), aside(50, 3), aside(99, 4), aside(100, 5)], 100, "u4 u5 |");
    check(&[aside(0, 1), aside(49, 2), boundary(50, 3), aside(51, 4)], 51, "u4 |");
    check(&[aside(0, 1), boundary(1, 2), aside(2, 3), aside(51, 4)], 51, "u4 |");
    // A gap across a boundary does not matter.
    check(&[aside(0, 1), boundary(49, 2), aside(50, 3)], 50, "u3 |");
}

#[test]
fn a_session_is_over_when_its_last_interaction_is_stale() {
    let talk = [user(0, 1), reply(&[(0, 1)])];
    check(&talk, 48, "u1 a1 |");
    check(&talk, 49, "|");
    check_with(&talk, 999, &Policy { stale_after: None, ..policy() }, "u1 a1 |");
    assert_eq!(context(&talk, hours(49), &policy()).session_start, None);
    // A message with a time in the future is not stale.
    check(&talk, -999, "u1 a1 |");
}

#[test]
fn replies_events_and_notices_keep_no_session_fresh() {
    // A reply that comes three days late has the time of its question, and does not make the Session younger.
    let late = Record { sent_at: hours(72), ..reply(&[(0, 1)]) };
    check(&[user(0, 1), late], 72, "|");
    check(&[aside(0, 1), event(40, 2)], 49, "|");
    let notice = Record { key: key(40, 2), ..failure_notice(&[(40, 2)]) };
    check(&[aside(0, 1), notice.clone()], 49, "|");
    check(&[aside(0, 1), event(30, 2), aside(60, 3)], 60, "u3 |");
    check(&[aside(0, 1), notice, aside(60, 3)], 60, "u3 |");
    check(&[aside(0, 1), event(40, 2), aside(48, 3)], 48, "u1 e2 u3 |");
}

#[test]
fn an_unanswered_message_keeps_a_session_alive() {
    check(&[aside(0, 1), user(1, 2)], 999, "u1 | u2");
    check(&[user(0, 1), boundary(1, 2), aside(2, 3)], 999, "u3 | u1");
    check(&[aside(0, 1), user(1, 2), failure_notice(&[(1, 2)])], 999, "|");
}

/// An occurrence of a schedule at this time, and its reply.
fn run(at: i64, id: u64) -> [Record; 2] {
    let due = json!({"id": "s", "at": hours(at)});
    [user(at, id), reply(&[(at, id)])].map(|mut record| {
        set(&mut record.message.metadata, "schedule", due.clone());
        record
    })
}

#[test]
fn a_thousand_occurrences_of_a_schedule_fill_no_context_and_keep_no_session() {
    let said = [user(0, 1), reply(&[(0, 1)])];
    let mut records = said.to_vec();
    (1..=40).for_each(|n| records.extend(run(n, 100 + u64::try_from(n).unwrap())));
    check(&records, 41, "u1 a1 u140 a140 |");
    (41..=1000).for_each(|n| records.extend(run(n, 100 + u64::try_from(n).unwrap())));
    let [asked, _] = run(1001, 1101);
    records.push(asked);
    check(&records, 1001, "| u1101");
    let seen = context(&sorted(records.clone()), hours(1001), &policy());
    assert_eq!(
        seen.reaches_back_to,
        Some(SortKey::start_of(hours(1001 - 48))),
        "it is read from its beginning"
    );
    records.push(user(1002, 2000));
    check(&records, 1002, "| u1101 u2000");
}

#[test]
fn in_fresh_mode_every_message_starts_its_session() {
    let fresh = Policy { fresh: true, ..policy() };
    check_with(&[user(0, 1), reply(&[(0, 1)]), user(0, 2)], 0, &fresh, "| u2");
    check_with(&[user(0, 1), reply(&[(0, 1)]), user(0, 2), reply(&[(0, 2)])], 0, &fresh, "u2 a2 |");
    // Unanswered messages are answered together.
    check_with(&[aside(0, 1), user(0, 2), user(0, 3)], 0, &fresh, "| u2 u3");
    check_with(&[user(0, 1), boundary(0, 2)], 0, &fresh, "| u1");
    check_with(&[aside(0, 1), boundary(0, 2)], 0, &fresh, "|");
}

#[test]
fn a_fresh_session_grows_stale_too() {
    let fresh = Policy { fresh: true, ..policy() };
    let told = [user(0, 1), reply(&[(0, 1)])];
    check_with(&told, 48, &fresh, "u1 a1 |");
    check_with(&told, 49, &fresh, "|");
    check_with(&told[..1], 49, &fresh, "| u1");
}

#[test]
fn a_message_is_its_newest_form() {
    let first = aside(0, 1);
    let asks = asking(edit(&first, 1, None), true);
    let cases: &[(&[Record], &str)] = &[
        (&[edit(&first, 1, None)], "u1v1 |"),
        (&[edit(&first, 1, None), edit(&first, 2, None)], "u1v2 |"),
        // By number, also if the byte order of the keys is another.
        (&[edit(&first, 9999, None), edit(&first, 10_000, None)], "u1v10000 |"),
        // By the platform's time before the number: form 2 is an older one that arrived late.
        (&[edit(&first, 1, Some(5)), edit(&first, 2, Some(4))], "u1v1 |"),
        (&[edit(&first, 1, Some(5)), edit(&first, 2, Some(5))], "u1v2 |"),
        (&[recall(&first, 1)], "|"),
        (&[recall(&first, 1), edit(&first, 2, None)], "u1v2 |"),
        (from_ref(&asks), "| u1v1"),
        (&[asks.clone(), edit(&first, 2, None)], "| u1v2"),
        (&[asks.clone(), recall(&first, 2)], "|"),
    ];
    for (forms, expect) in cases {
        let mut records = vec![first.clone()];
        records.extend_from_slice(forms);
        check(&records, 0, expect);
    }
    // An edit came before its original.
    let original_form = with(aside(0, 1), |attributes| attributes.form_ts = Some(hours(0)));
    let arrived_first = with(aside(0, 1), |attributes| attributes.form_ts = Some(hours(1)));
    check(&[arrived_first, edit(&original_form, 1, Some(0))], 1, "u1 |");
    let joined = event(0, 1);
    check(&[joined.clone(), edit(&joined, 1, None)], 0, "e1v1 |");
}

#[test]
fn an_edit_is_answered_only_if_its_message_was_not() {
    let first = user(0, 1);
    check(&[first.clone(), edit(&first, 1, None)], 0, "| u1v1");
    check(&[first.clone(), reply(&[(0, 1)]), edit(&first, 1, None)], 0, "u1v1 a1 |");
    check(&[first.clone(), failure_notice(&[(0, 1)]), edit(&first, 1, None)], 0, "u1v1 |");
    // The edit makes it address the bot, after a reply to a later message.
    let overheard = aside(0, 1);
    let asks = asking(edit(&overheard, 1, None), true);
    check(&[overheard, user(0, 2), reply(&[(0, 2)]), asks], 0, "u2 a2 | u1v1");
}

#[test]
fn an_imported_answer_answers_the_message_before_it() {
    let question = aside(0, 1);
    let asks = asking(edit(&question, 1, None), true);
    let answer = record(key(0, 2), MessageId::number(2), Role::Assistant, Kind::Normal, "a");
    let imported_reply = with(reply(&[(0, 1)]), |attributes| attributes.covers.clear());
    check(&[question.clone(), asks.clone(), imported_reply], 0, "u1v1 a1 |");
    check(&[question.clone(), asks.clone(), answer.clone()], 0, "u1v1 a |");
    check(&[question.clone(), asks.clone(), aside(1, 3)], 0, "u3 | u1v1");
    check(&[user(0, 1), answer.clone()], 0, "a | u1");
    // The message came late, and waits whether the other has expired or not.
    let late = Record { sent_at: hours(1), ..question.clone() };
    check(&[late.clone(), asks.clone(), answer], 1, "a | u1v1");
    check(&[late, asks.clone()], 1, "| u1v1");
    // TTL deleted the answer first.
    let expired = Record { expires_at: Some(hours(1).as_millis() / 1000), ..question };
    check(&[expired, asks], 1, "u1v1 |");
}

#[test]
fn a_recalled_message_is_neither_shown_nor_answered() {
    let first = user(0, 1);
    check(&[first.clone(), recall(&first, 1)], 0, "|");
    check(&[first.clone(), reply(&[(0, 1)]), recall(&first, 1), user(0, 2)], 0, "a1 | u2");
}

#[test]
fn unanswered_messages_come_last_in_any_position() {
    // Late messages within the session, before its boundary, before its gap.
    check(&[user(0, 1), user(1, 2), reply(&[(1, 2)])], 1, "u2 a2 | u1");
    check(&[aside(0, 1), user(1, 2), boundary(2, 3), aside(3, 4)], 3, "u4 | u2");
    check(&[user(0, 1), aside(60, 2), user(61, 3)], 61, "u2 | u1 u3");
    check(&[user(0, 1), boundary(2, 3)], 3, "| u1");
    // Once answered, it moves back to its place, and out with its session.
    check(&[user(0, 1), user(1, 2), reply(&[(1, 2)]), reply(&[(0, 1)])], 1, "u1 a1 u2 a2 |");
    check(&[user(1, 2), reply(&[(1, 2)]), boundary(2, 3), aside(3, 4)], 3, "u4 |");
}

#[test]
fn an_expired_message_is_not_unanswered() {
    // TTL deletes in any order, days late: a reply may be deleted before the message that it answers.
    let expired = |mut record: Record| {
        record.expires_at = Some(hours(216).as_millis() / 1000);
        record
    };
    check(&[expired(user(0, 1))], 215, "| u1");
    check(&[expired(user(0, 1)), user(216, 2)], 216, "| u2");
    let command = expired(as_kind(user(0, 5), Kind::Notice));
    assert!(context(from_ref(&command), hours(220), &policy()).to_compact.is_empty());
}

#[test]
fn a_reply_covers_what_it_names_and_no_more() {
    check(&[user(0, 1), user(0, 2), reply(&[(0, 1), (0, 2)])], 0, "u1 u2 a2 |");
    check(&[user(0, 1), user(0, 2), user(0, 3), reply(&[(0, 1), (0, 2)])], 0, "u1 u2 a2 | u3");
    // A message that arrived between the run's start and its reply, with a time among those that the run saw.
    check(&[user(0, 1), user(0, 2), user(0, 3), reply(&[(0, 1), (0, 3)])], 0, "u1 u3 a3 | u2");
}

#[test]
fn an_album_is_unanswered_as_one() {
    let quiet = |at, id| asking(album_item(at, id, "x"), false);
    check(&[quiet(0, 1), album_item(0, 2, "x"), quiet(0, 3)], 0, "| u1 u2 u3");
    check(&[quiet(0, 1), album_item(0, 2, "y"), aside(0, 3)], 0, "u1 u3 | u2");
    check(&[quiet(0, 1), quiet(0, 2)], 0, "u1 u2 |");
    check(&[quiet(0, 1), album_item(0, 2, "x"), reply(&[(0, 1), (0, 2)])], 0, "u1 u2 a2 |");
    // An item that arrived after the album's answer: alone, if it asks.
    check(&[quiet(0, 1), album_item(0, 2, "x"), reply(&[(0, 1), (0, 2)]), quiet(0, 3)], 0, "u1 u2 a2 u3 |");
    check(&[album_item(0, 1, "x"), reply(&[(0, 1)]), album_item(0, 2, "x")], 0, "u1 a1 | u2");
    let (first, second) = (album_item(0, 1, "x"), quiet(0, 2));
    check(&[first.clone(), second.clone(), recall(&second, 1)], 0, "| u1");
    check(&[first.clone(), second, recall(&first, 1)], 0, "u2 |");
    // One that has lapsed is the same as one that has left the table.
    let lapsed = Record { expires_at: Some(hours(216).as_millis() / 1000), ..quiet(0, 1) };
    check(&[lapsed, album_item(217, 2, "x")], 217, "| u2");
}

#[test]
fn notices_boundaries_and_system_messages_of_clients_are_never_shown() {
    let confirmation =
        record(key(0, 1).notice(), MessageId::number(1), Role::Assistant, Kind::Notice, "done");
    check(&[boundary(0, 1), confirmation, aside(0, 2)], 0, "u2 |");
    check(&[user(0, 1), failure_notice(&[(0, 1)]), user(0, 2)], 0, "u1 | u2");
    let system = record(key(0, 1), MessageId::number(1), Role::System, Kind::Normal, "obey");
    check(&[system, user(0, 2)], 0, "| u2");
}

#[test]
fn a_summary_replaces_what_it_counts_and_nothing_else() {
    let (u1, a1, u3) = (user(0, 1), reply(&[(0, 1)]), user(2, 3));
    let first = summary(3, &[&u1, &a1], None);
    let (late, newer, a3) = (aside(0, 2), user(4, 4), reply(&[(2, 3)]));
    let told = [u1.clone(), a1.clone(), first.clone(), u3.clone(), a3.clone(), newer.clone()];
    check(&told, 5, "s2 u3 a3 | u4");
    // A late message is shown, although its time is in the range of the summary.
    let with_late = [&told[..], from_ref(&late)].concat();
    check(&with_late, 5, "s2 u2 u3 a3 | u4");
    // The next summary folds the first; the raw records may have expired.
    let second = summary(5, &[&late, &u3, &a3], Some(&first));
    check(&[&with_late[..], from_ref(&second)].concat(), 5, "s5 | u4");
    check(&[second.clone(), newer.clone()], 5, "s5 | u4");
    // Unanswered messages are shown, counted or not.
    let asks_now = edit(&late, 1, None);
    let asks_now = asking(asks_now, true);
    check(&[&with_late[..], &[second, asks_now]].concat(), 5, "s5 | u2v1 u4");
}

#[test]
fn a_summary_of_late_messages_is_the_newest_even_if_it_ends_before_the_one_it_folds() {
    let (u1, a1, u9, a9) = (user(0, 1), reply(&[(0, 1)]), user(9, 9), reply(&[(9, 9)]));
    let first = summary(10, &[&u1, &a1, &u9, &a9], None);
    let (late, answer) = (user(5, 5), reply(&[(5, 5)]));
    let second = summary(11, &[&late, &answer], Some(&first));
    assert!(second.key < first.key);
    let told = [u1, a1, first, late, answer, second.clone(), u9, a9, user(11, 11)];
    check(&told, 11, "s6 | u11");
    // Also if it is the only one left of them, and of its interactions.
    let rest = [second, user(50, 50)];
    check(&rest, 50, "s6 | u50");
}

#[test]
fn expired_records_between_two_summaries_are_not_a_gap() {
    let (u1, u2, u3) = (aside(0, 1), aside(40, 2), aside(80, 3));
    let first = summary(1, &[&u1], None);
    let second = summary(81, &[&u2, &u3], Some(&first));
    // The first summary is younger than the messages after it, and expires after them.
    check(&[first, u3, second, user(120, 4)], 120, "s3 | u4");
}

#[test]
fn what_a_deleted_summary_counts_does_not_come_back() {
    let (u1, u2, u3) = (aside(0, 1), aside(40, 2), aside(80, 3));
    let first = summary(1, &[&u1], None);
    let second = summary(81, &[&u2, &u3], Some(&first));
    let left = |expires_at| Record { expires_at: Some(hours(expires_at).as_millis() / 1000), ..u1.clone() };
    check(&[left(110), first, second.clone(), user(120, 4)], 120, "s3 | u4");
    check(&[left(110), second.clone(), user(120, 4)], 120, "s3 | u4");
    let later = Record { expires_at: Some(hours(130).as_millis() / 1000), ..edit(&left(110), 1, None) };
    check(&[left(110), later, second.clone(), user(120, 4)], 120, "s3 | u4");
    // It is counted before it expires, so one that has not expired came late.
    check(&[left(130), second.clone(), user(120, 4)], 120, "s3 u1 | u4");
    // What no summary counts yet is shown also if no visit has moved its date on.
    let late_visit = Record { expires_at: Some(hours(110).as_millis() / 1000), ..aside(100, 5) };
    check(&[second, late_visit, user(120, 4)], 120, "s3 u5 | u4");
}

#[test]
fn the_summary_made_last_is_shown_even_if_it_counts_late_messages_from_before_the_others() {
    let (u1, a1, late, u3, a3) = (user(0, 1), reply(&[(0, 1)]), aside(1, 2), user(2, 3), reply(&[(2, 3)]));
    let first = summary(3, &[&u1, &a1, &u3], None);
    let second = summary(5, &[&late], Some(&first));
    assert!(second.key < first.key);
    check(&[u1, a1, late, second, u3, first, a3, user(6, 4)], 6, "s4 a3 | u4");
}

#[test]
fn a_late_message_is_read_again_once_it_is_answered() {
    let (u1, a1, u3, a3) = (user(0, 1), reply(&[(0, 1)]), user(2, 3), reply(&[(2, 3)]));
    let told = [u1.clone(), a1.clone(), u3.clone(), a3.clone(), summary(3, &[&u1, &a1, &u3], None)];
    let late = user(0, 2);
    let records = sorted([&told[..], from_ref(&late)].concat());
    let seen = context(&records, hours(4), &policy());
    assert_eq!(shown(&seen), "s3 a3 | u2");
    assert!(seen.reaches_back_to.is_some_and(|from| from <= late.key), "its run notes that it is to be read");
}

#[test]
fn a_summary_belongs_to_its_session() {
    let (u1, a1) = (user(0, 1), reply(&[(0, 1)]));
    let told = [u1.clone(), a1.clone(), summary(1, &[&u1, &a1], None)];
    // Its last interaction counts, also if its messages have expired.
    for records in [&told[..], &told[2..]] {
        check(records, 48, "s2 |");
        check(records, 49, "|");
        check(&[records, &[user(48, 2)]].concat(), 48, "s2 | u2");
        check(&[records, &[user(49, 2)]].concat(), 49, "| u2");
        check(&[records, &[boundary(2, 2), user(3, 3)]].concat(), 3, "| u3");
    }
    // A late `/new` with a time within the summary: messages after it are shown verbatim.
    check(&[u1, a1, told[2].clone(), user(0, 0)], 1, "s2 | u0");
    let (u3, a3) = (user(3, 3), reply(&[(3, 3)]));
    let across = summary(4, &[&told[0], &told[1], &u3, &a3], None);
    check(&[told[0].clone(), told[1].clone(), boundary(2, 2), u3, a3, across], 5, "u3 a3 |");
}

#[test]
fn a_summary_of_an_ended_session_stays_out_even_if_a_late_message_fills_the_gap() {
    let (u1, a1, u2, a2) = (user(0, 1), reply(&[(0, 1)]), user(60, 2), reply(&[(60, 2)]));
    let (first, second) = (summary(1, &[&u1, &a1], None), summary(61, &[&u2, &a2], None));
    let told = [u1, a1, first, u2, a2, second, user(62, 3), reply(&[(62, 3)])];
    check(&told, 63, "s2 u3 a3 |");
    // Otherwise its messages would be in the Session, neither shown nor summarised. Also if raw records have expired.
    for told in [&told[..], &[&told[2..3], &told[5..]].concat()] {
        let with_late = [told, &[aside(30, 9)]].concat();
        check(&with_late, 63, "s2 u9 u3 a3 |");
        let session_start = context(&sorted(with_late), hours(63), &policy()).session_start;
        assert_eq!(session_start, Some(key(30, 9)));
    }
}

#[test]
fn a_gap_within_a_summary_does_not_split_it() {
    // An event comes first; the late message is in another Session than the interactions by its time, but not by the
    // summary.
    let (e1, u2) = (event(0, 1), user(1, 2));
    let told = [e1.clone(), u2.clone(), reply(&[(1, 2)]), summary(2, &[&e1, &u2], None)];
    check(&told, 3, "s2 a2 |");
    check(&[&told[..], &[aside(-48, 9)]].concat(), 3, "s2 u9 a2 |");
}

#[test]
fn a_later_form_alone_is_not_a_message() {
    let (said, answered) = (user(0, 1), reply(&[(0, 1)]));
    let edited = edit(&said, 1, None);
    check(&[said, answered, edited.clone()], 1, "u1v1 a1 |");
    // The message and its reply have expired, the edit has not: it is not answered again.
    check(&[edited.clone(), user(999, 2)], 999, "| u2");
    // The edit of a command is a message.
    let command = as_kind(aside(0, 1), Kind::Notice);
    check(&[command, edited], 1, "| u1v1");
}

#[test]
fn a_reply_alone_starts_no_session() {
    // The message that it answers has expired a little earlier.
    check(&[reply(&[(0, 1)])], 999, "|");
    check(&[reply(&[(0, 1)]), user(999, 2)], 999, "| u2");
}

#[test]
fn with_a_summary_the_context_is_read_from_it() {
    let (u1, a1, u2, a2) = (user(0, 1), reply(&[(0, 1)]), user(9, 2), reply(&[(9, 2)]));
    let told = [u1.clone(), a1.clone(), summary(5, &[&u1, &a1], None), u2, a2];
    let reaches =
        |records: &[Record]| context(&sorted(records.to_vec()), hours(10), &policy()).reaches_back_to;
    assert_eq!(reaches(&told), Some(key(0, 1)));
    assert_eq!(reaches(&told[2..]), Some(key(0, 1)));
    // Messages shown beside it are read again.
    let late = aside(-1, 7);
    assert_eq!(reaches(&[&told[..], &[late]].concat()), Some(key(-1, 7)));
    // And messages that were on their way when it was made.
    let hasty = summary(0, &[&told[0], &told[1]], None);
    let minutes_before = SortKey::start_of(hours(0).minus(Duration::from_mins(5)));
    assert_eq!(reaches(&[hasty]), Some(minutes_before));
}

#[test]
fn a_compact_command_waits_until_it_is_covered() {
    let command = as_kind(user(1, 5), Kind::Notice);
    let done = as_kind(Record { key: command.key.reply(), ..reply(&[(1, 5)]) }, Kind::Notice);
    let to_compact = |records: &[Record]| context(records, hours(2), &policy()).to_compact;
    assert_eq!(to_compact(from_ref(&command)), [key(1, 5)]);
    check(from_ref(&command), 2, "|");
    assert!(to_compact(&[command, done]).is_empty());
    // Neither an unanswered message nor a confirmation is a command.
    let confirmation =
        record(key(0, 1).notice(), MessageId::number(1), Role::Assistant, Kind::Notice, "done");
    assert!(to_compact(&[user(0, 1), confirmation]).is_empty());
}

#[test]
fn the_models_own_count_corrects_the_estimate() {
    let mut answer = reply(&[(0, 1)]);
    set(&mut answer.message.metadata, "usage", json!({"inputTokens": 150, "estimatedInputTokens": 100}));
    let records = sorted([user(0, 1), answer, user(1, 2)]);
    let marked = tokens::corrected(10 + mark_tokens(), 1.5);
    assert_eq!(context(&records, hours(1), &policy()).tokens, 2 * marked + 15);
    let tight = Policy { token_budget: marked + 15, ..policy() };
    assert_eq!(context(&records, hours(1), &tight).left_out, 1);
}

#[test]
fn the_token_budget_leaves_out_the_oldest_and_never_the_unanswered() {
    let records =
        [user(0, 0), aside(0, 1), aside(0, 2), Record { tokens: 25, ..aside(0, 3) }, aside(0, 4), user(0, 5)];
    let cases = [
        (1000, "u1 u2 u3 u4 | u0 u5", 75, 0),
        (75, "u1 u2 u3 u4 | u0 u5", 75, 0),
        (74, "u2 u3 u4 | u0 u5", 65, 1),
        // u2 would fit, but a conversation must not have a hole.
        (50, "u4 | u0 u5", 30, 3),
        (20, "| u0 u5", 20, 4),
        (0, "| u0 u5", 20, 4),
    ];
    // The first message has a mark.
    let mark = mark_tokens();
    for (token_budget, expect, tokens, left_out) in cases {
        let token_budget = if token_budget == 0 { 0 } else { token_budget + mark };
        let tokens = tokens + mark;
        let context = context(&records, hours(0), &Policy { token_budget, ..policy() });
        assert_eq!((shown(&context).as_str(), context.tokens, context.left_out), (expect, tokens, left_out));
    }
}

/// The unanswered message is of the same quarter of an hour as the one before it, so it has a mark only if that is left out.
#[test]
fn a_summary_is_shown_only_with_room_for_the_mark_of_the_first_message() {
    let (u1, a1) = (user(0, 1), reply(&[(0, 1)]));
    let summary = summary(0, &[&u1, &a1], None);
    let records = sorted([u1, a1, summary, Record { tokens: 60, ..aside(0, 2) }, user(0, 3)]);
    let fits = context(&records, hours(0), &policy()).tokens - 60;
    for (token_budget, left_out) in [(fits, 1), (fits - 1, 2)] {
        let seen = context(&records, hours(0), &Policy { token_budget, ..policy() });
        assert_eq!(seen.left_out, left_out, "{token_budget}");
        assert!(seen.tokens <= token_budget, "{token_budget}: {}", seen.tokens);
    }
}

#[test]
fn images_count_the_newest_first_and_no_more_than_are_shown() {
    let photo = |record: Record| {
        let file = json!({"type": "file", "mediaType": "image/jpeg", "url": "telegram:f"});
        let mut record = record;
        record.message.parts.push(Part::new(file).unwrap());
        record
    };
    // The bot's own image is not shown to it.
    let records = sorted([photo(user(0, 1)), photo(reply(&[(0, 1)])), photo(aside(1, 2)), photo(user(1, 3))]);
    for (images, tokens) in [(0, 40), (1, 1_640), (2, 3_240), (3, 4_840), (20, 4_840)] {
        let seen = context(&records, hours(1), &Policy { images, ..policy() });
        assert_eq!((seen.tokens, seen.left_out), (tokens + 2 * mark_tokens(), 0), "{images}");
    }
    let tight = Policy { images: 20, token_budget: 3_250 + mark_tokens(), ..policy() };
    let seen = context(&records, hours(1), &tight);
    assert_eq!((shown(&seen).as_str(), seen.left_out), ("a1 u2 | u3", 1));
}

#[test]
fn a_message_counts_with_the_tokens_of_its_newest_form() {
    let first = aside(0, 1);
    let longer = Record { tokens: 90, ..edit(&first, 1, None) };
    assert_eq!(context(&[first, longer], hours(0), &policy()).tokens, 90 + mark_tokens());
}

#[test]
fn token_counts_that_no_integer_holds_are_no_panic() {
    let huge = |id| Record { tokens: u32::MAX, ..user(0, id) };
    assert_eq!(context(&[huge(1), huge(2)], hours(0), &policy()).tokens, u32::MAX);
}

/// One message of a generated history, with its edits and its answer.
#[derive(Clone, Debug)]
struct Story {
    at: i64,
    what: What,
    asks: bool,
    album: Option<u8>,
    tokens: u32,
    /// Text or recall, if it asks, and the platform's time of the form.
    edits: Vec<(bool, bool, Option<i64>)>,
    /// Number of the answer that covers it, if any.
    answer: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    Said,
    Event,
    Boundary,
    Opening,
}

fn story() -> impl Strategy<Value = Story> {
    let what = prop_oneof![
        10 => Just(What::Said), 2 => Just(What::Event), 1 => Just(What::Boundary), 1 => Just(What::Opening),
    ];
    let edit = (prop::bool::weighted(0.8), any::<bool>(), prop::option::of(0..20_i64));
    let album = prop::option::weighted(0.3, 0..3_u8);
    (
        0..200_i64,
        what,
        any::<bool>(),
        album,
        0..40_u32,
        prop::collection::vec(edit, 0..3),
        prop::option::of(0..6_usize),
    )
        .prop_map(|(at, what, asks, album, tokens, edits, answer)| Story {
            at,
            what,
            asks,
            album,
            tokens,
            edits,
            answer,
        })
}

fn history() -> impl Strategy<Value = Vec<Record>> {
    (prop::collection::vec(story(), 0..16), any::<[bool; 6]>())
        .prop_map(|(stories, fails)| tell(&stories, fails))
}

/// Returns the records of these stories, in key order; answer `n` is a failure notice if `fails[n]`.
fn tell(stories: &[Story], fails: [bool; 6]) -> Vec<Record> {
    let mut records = vec![];
    let mut answers: [Vec<(i64, u64)>; 6] = Default::default();
    for (id, story) in (0..).zip(stories) {
        let said = match story.what {
            What::Said => user(story.at, id),
            What::Event => event(story.at, id),
            What::Opening => opening(story.at, id),
            What::Boundary => {
                records.push(boundary(story.at, id));
                continue;
            }
        };
        if story.what == What::Opening {
            records.push(boundary(story.at, id));
        }
        let is_event = story.what == What::Event;
        let first = with(Record { tokens: story.tokens, ..said }, |attributes| {
            attributes.asks = story.asks && !is_event;
            attributes.album = story.album.filter(|_| !is_event).map(|album| album.to_string());
        });
        for (number, &(is_text, asks, form_at)) in (1..).zip(&story.edits) {
            let form = if is_text { edit(&first, number, form_at) } else { recall(&first, number) };
            records.push(with(form, |attributes| {
                attributes.asks = asks && !is_event;
                attributes.form_ts = form_at.map(hours);
            }));
        }
        if let (Some(answer), false) = (story.answer, is_event) {
            answers[answer].push((story.at, id));
        }
        records.push(first);
    }
    for (covered, fails) in answers.iter().zip(fails).filter(|(covered, _)| !covered.is_empty()) {
        records.push(if fails { failure_notice(covered) } else { reply(covered) });
    }
    sorted(records)
}

/// Returns `records` as they are stored if they arrive in this order and the platform dates all their forms. The order
/// decides the time of appending and the number of a form, not its content and its time.
fn arrived(records: Vec<Record>) -> Vec<Record> {
    let mut forms: BTreeMap<SortKey, u32> = BTreeMap::new();
    let stored = (1000..).zip(records).map(|(arrival, record)| {
        let sent_at = hours(arrival);
        if record.kind() != Kind::Revision {
            return Record { sent_at, ..record };
        }
        let base = record.key.base();
        let number = forms.entry(base.clone()).or_default();
        *number += 1;
        let form_ts = Some(hours(record.revision().into()));
        with(Record { key: base.revision(*number), sent_at, ..record }, |attributes| {
            attributes.revision = *number;
            attributes.form_ts = form_ts;
        })
    });
    sorted(stored.collect::<Vec<_>>())
}

fn any_policy() -> impl Strategy<Value = Policy> {
    let stale_after = prop::option::of((1..100_u64).prop_map(Duration::from_hours));
    (stale_after, prop::bool::weighted(0.2), 0..300_u32)
        .prop_map(|(stale_after, fresh, token_budget)| Policy { stale_after, fresh, token_budget, images: 0 })
}

/// Returns all forms of each message by its base; replies are messages of their own.
fn messages_of(records: &[Record]) -> BTreeMap<(SortKey, bool), Vec<&Record>> {
    let mut messages: BTreeMap<_, Vec<&Record>> = BTreeMap::new();
    for record in records.iter().filter(|r| !matches!(r.kind(), Kind::Boundary | Kind::Notice)) {
        messages.entry((record.key.base(), record.key.is_reply())).or_default().push(record);
    }
    messages
}

fn newest<'a>(forms: &[&'a Record]) -> &'a Record {
    forms.iter().max_by_key(|form| (form.form_ts(), form.revision())).unwrap()
}

/// Returns the unanswered messages, by a literal version of rule 4.
fn waiting(records: &[Record]) -> Vec<SortKey> {
    let covered: HashSet<&SortKey> = records.iter().flat_map(Record::covers).collect();
    let messages = messages_of(records);
    let open = |(base, is_reply): &(SortKey, bool), forms: &[&Record]| {
        !is_reply && !covered.contains(base) && !newest(forms).message.parts.is_empty()
    };
    let asks = |forms: &[&Record]| forms.iter().any(|form| form.asks());
    let asked_albums: HashSet<&str> = messages
        .iter()
        .filter(|(at, forms)| open(at, forms) && asks(forms))
        .filter_map(|(_, forms)| forms[0].album())
        .collect();
    let in_album = |forms: &[&Record]| forms[0].album().is_some_and(|album| asked_albums.contains(album));
    messages
        .iter()
        .filter(|(at, forms)| open(at, forms) && (asks(forms) || in_album(forms)))
        .map(|((base, _), _)| base.clone())
        .collect()
}

fn ids(context: &Context) -> Vec<String> {
    context.messages.iter().map(|message| message.id.clone()).collect()
}

fn unlimited(policy: &Policy) -> Policy {
    Policy { token_budget: u32::MAX, ..policy.clone() }
}

proptest! {
    #[test]
    fn unanswered_messages_are_shown_last_under_any_policy(records in history(), now in 0..400_i64, policy in any_policy()) {
        let context = context(&records, hours(now), &policy);
        let waiting = waiting(&records);
        prop_assert_eq!(&context.unanswered, &waiting);
        let messages = messages_of(&records);
        let expected: Vec<String> =
            waiting.iter().map(|base| newest(&messages[&(base.clone(), false)]).message.plain_text()).collect();
        let shown = texts(&context.messages);
        prop_assert!(shown.ends_with(&expected), "{:?} does not end with {:?}", shown, expected);
    }

    #[test]
    fn every_shown_message_is_the_newest_form_of_one_message(
        records in history(), now in 0..400_i64, policy in any_policy(),
    ) {
        let context = context(&records, hours(now), &policy);
        let by_id: BTreeMap<String, &Record> = messages_of(&records)
            .values()
            .map(|forms| (forms[0].message_id.to_string(), newest(forms)))
            .collect();
        let ids = ids(&context);
        prop_assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len(), "shown twice: {:?}", ids);
        let mut tokens = context.times.iter().flatten().map(|_| mark_tokens()).sum::<u32>();
        for message in &context.messages {
            let record = by_id[&message.id];
            prop_assert_eq!(&message.parts, &record.message.parts);
            prop_assert_eq!(message.role, record.role());
            prop_assert!(!message.parts.is_empty(), "a recalled message is shown");
            tokens += record.tokens;
        }
        prop_assert_eq!(context.tokens, tokens);
        let earlier = &context.messages[..ids.len() - context.unanswered.len()];
        let keys: Vec<&SortKey> = earlier.iter().map(|message| &by_id[&message.id].key).collect();
        let places: Vec<(SortKey, bool)> = keys.iter().map(|key| (key.base(), key.is_reply())).collect();
        prop_assert!(places.is_sorted(), "out of order: {:?}", places);
        prop_assert!(places.iter().all(|(base, _)| Some(base) >= context.session_start.as_ref()));
    }

    #[test]
    fn the_budget_cuts_from_the_oldest_on(records in history(), now in 0..400_i64, policy in any_policy()) {
        let whole = context(&records, hours(now), &unlimited(&policy));
        let cut = context(&records, hours(now), &policy);
        prop_assert_eq!(whole.left_out, 0);
        prop_assert_eq!(&whole.messages[cut.left_out..], &cut.messages[..]);
        prop_assert_eq!((&whole.unanswered, &whole.session_start), (&cut.unanswered, &cut.session_start));
        prop_assert!(cut.tokens <= policy.token_budget || cut.messages.len() == cut.unanswered.len());
        if cut.left_out > 0 {
            let last_out = &whole.messages[cut.left_out - 1];
            let record = records.iter().filter(|r| r.message_id.as_str() == last_out.id && r.kind() != Kind::Boundary);
            let tokens = record.filter(|r| r.message.parts == last_out.parts).map(|r| r.tokens).max();
            prop_assert!(cut.tokens + tokens.unwrap() + mark_tokens() > policy.token_budget, "cut although it fits");
        }
    }

    #[test]
    fn the_order_of_arrival_makes_no_difference(
        (records, shuffled) in history().prop_flat_map(|records| (Just(records.clone()), Just(records).prop_shuffle())),
        now in 0..400_i64,
        policy in any_policy(),
    ) {
        let seen = |records: Vec<Record>| {
            let context = context(&arrived(records), hours(now), &policy);
            let messages: Vec<_> =
                context.messages.iter().map(|m| (m.id.clone(), m.role, m.parts.clone())).collect();
            (messages, context.unanswered, context.session_start, context.reaches_back_to, context.tokens, context.left_out)
        };
        prop_assert_eq!(seen(records), seen(shuffled));
    }

    #[test]
    fn a_late_message_joins_the_session_and_moves_nothing(
        records in history(), at in 0..200_i64, asks in any::<bool>(),
    ) {
        let policy = Policy { stale_after: None, fresh: false, token_budget: u32::MAX, images: 0 };
        let before = context(&records, hours(300), &policy);
        let late = asking(user(at, 1000), asks);
        let boundary = records.iter().rev().find(|r| r.kind() == Kind::Boundary);
        let is_seen = asks || boundary.is_none_or(|boundary| late.key > boundary.key);
        let after = context(&sorted(records.into_iter().chain([late])), hours(300), &policy);
        let others: Vec<String> = ids(&after).into_iter().filter(|id| id != "1000").collect();
        prop_assert_eq!(ids(&before), others);
        prop_assert_eq!(after.messages.len(), before.messages.len() + usize::from(is_seen));
    }

    #[test]
    fn a_session_without_unanswered_messages_ends_for_good(records in history(), policy in any_policy()) {
        let policy = Policy { fresh: false, ..policy };
        prop_assume!(waiting(&records).is_empty());
        let sessions: Vec<Context> = (0..400).step_by(5).map(|now| context(&records, hours(now), &policy)).collect();
        let end = sessions.iter().position(|context| context.session_start.is_none()).unwrap_or(sessions.len());
        prop_assert!(sessions[..end].windows(2).all(|pair| pair[0] == pair[1]));
        prop_assert!(sessions[end..].iter().all(|context| context.messages.is_empty()));
    }

    #[test]
    fn no_rhythm_up_to_the_stale_time_ends_a_session(gaps in prop::collection::vec(0..=48 * HOUR, 1..60), last in 0..=48 * HOUR) {
        let mut at = hours(0);
        let mut records = vec![];
        for (id, gap) in (0..).zip(gaps) {
            at = at.plus(Duration::from_millis(gap.unsigned_abs()));
            let id = MessageId::number(id);
            records.push(record(SortKey::message(at, &id), id, Role::User, Kind::Normal, "hello"));
        }
        let now = at.plus(Duration::from_millis(last.unsigned_abs()));
        prop_assert_eq!(context(&records, now, &policy()).messages.len(), records.len());
    }
}

#[test]
fn a_reply_is_made_from_the_history_without_the_messages_that_it_does_not_cover() {
    let records = [user(0, 1), reply(&[(0, 1)]), user(1, 2), user(1, 3)];
    let own = |covers: &[SortKey]| {
        let (own, seen) = records_of_turn(&records, covers, hours(2), &policy());
        assert_eq!(seen, context(&own, hours(2), &policy()));
        own.into_owned()
    };
    assert_eq!(own(&[key(1, 2), key(1, 3)]), records);
    assert_eq!(own(&[key(1, 2)]), records[..3]);
    assert_eq!(own(&[key(1, 3)]), [&records[..2], &records[3..]].concat());
    assert_eq!(own(&[]), records[..2]);
    // Messages before and after a boundary.
    let parted = [user(1, 2), user(1, 3), boundary(2, 4), user(2, 5)];
    let (own, _) = records_of_turn(&parted, &[key(2, 5)], hours(2), &policy());
    assert_eq!(own.into_owned(), parted[2..]);
}

/// Returns an unanswered message of so many words.
fn long(id: u64, words: usize) -> Record {
    let mut record = user(0, id);
    record.message.parts = vec![Part::text("word ".repeat(words).trim())];
    record.tokens = tokens::of_message(&record.message);
    record
}

#[test]
fn what_a_message_replies_to_counts_and_is_shortened_with_it() {
    let reply_to = Some(json!({"senderName": "Bob", "text": "word ".repeat(500)}));
    let mut asked = user(0, 1);
    asked.message.metadata = FromPlatform { reply_to, ..FromPlatform::default() }.into();
    asked.tokens = tokens::of_message(&asked.message);
    assert!(asked.tokens > 500);
    let mut seen = context(&[asked], hours(0), &policy());
    assert_eq!(seen.shorten_unanswered(320), ["1"]);
    let left = tokens::of_message(&seen.messages[0]);
    assert!((100..320).contains(&left), "{left}");
}

#[test]
fn unanswered_messages_are_shortened_to_the_budget_the_longest_first() {
    let of = |records: &[Record]| context(records, hours(0), &policy());
    let earlier = [user(-1, 1), reply(&[(-1, 1)])];
    let size = |message: &UiMessage| tokens::of_message(message);

    // What fits exactly is not changed, with one sender and with several.
    let of_bob = Record { user_id: "8".into(), ..long(4, 300) };
    for waiting in [vec![long(2, 50), long(3, 400)], vec![long(2, 50), long(3, 400), of_bob]] {
        let seen = of(&waiting);
        let exact = seen.tokens;
        let mut kept = seen.clone();
        assert_eq!((kept.shorten_unanswered(exact), &kept), (Vec::new(), &seen));
        let mut cut = seen.clone();
        assert_eq!(cut.shorten_unanswered(exact - 1), ["3"]);
        assert_eq!(cut.tokens, exact - 1);
        assert_eq!(cut.messages[0], seen.messages[0]);
    }

    // One that has exactly its share is not changed.
    let mut seen = of(&[long(2, 100), long(3, 400)]);
    let share = size(&seen.messages[0]);
    assert_eq!(seen.shorten_unanswered(2 * share + mark_tokens()), ["3"]);

    // A short one leaves the rest of its share to the long ones, which have the same.
    let mut seen = of(&[&earlier[..], &[long(2, 50), long(3, 2000), long(4, 2500)]].concat());
    let before = seen.clone();
    let (budget, all) = (1000, seen.tokens);
    let waiting: u32 = seen.messages[2..].iter().map(size).sum();
    let marks = seen.times[2..].iter().flatten().count();
    let marks = mark_tokens() * u32::try_from(marks).unwrap();
    assert_eq!(seen.shorten_unanswered(budget), ["3", "4"]);
    assert_eq!(seen.messages[..3], before.messages[..3]);
    assert_eq!(seen.tokens, all - waiting + budget - marks);
    let share = (budget - marks - size(&before.messages[2])) / 2;
    for message in &seen.messages[3..] {
        assert!((share / 2..=share).contains(&size(message)), "{} of {share}", size(message));
    }
}
