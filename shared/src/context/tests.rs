//! Cases read as chats: `check(&[user(0, 1), reply(&[1])…], now, "u1 a1 | u2")`, times in hours, what is
//! unanswered behind the bar. Properties hold for every history that the strategy below can make.

use std::collections::{BTreeMap, HashSet};
use std::slice::from_ref;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::message::{Part, Role};
use crate::record::Kind;
use crate::sort_key::MessageId;
use crate::told::{
    HOUR, album_item, aside, boundary, edit, event, failure_notice, hours, key, opening, recall, record,
    reply, sorted, summary, user,
};

fn policy() -> Policy {
    Policy { stale_after: Some(Duration::from_hours(48)), fresh: false, token_budget: 100_000, images: 0 }
}

fn texts(messages: &[UiMessage]) -> Vec<String> {
    messages.iter().map(UiMessage::plain_text).collect()
}

/// What is shown, as `<earlier> | <unanswered>`.
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
fn nothing_said_nothing_shown() {
    let empty = context(&[], hours(0), &policy());
    let nothing = Context {
        messages: vec![],
        senders: vec![],
        unanswered: vec![],
        to_compact: vec![],
        to_resume: vec![],
        others_wait: false,
        session_start: None,
        reaches_back_to: None,
        tokens: 0,
        left_out: 0,
    };
    assert_eq!(empty, nothing);
}

#[test]
fn a_conversation_is_shown_in_order_with_its_roles() {
    let records = [user(0, 1), reply(&[(0, 1)]), user(1, 2), event(1, 3)];
    check(&records, 1, "u1 a1 e3 | u2");
    let roles: Vec<Role> =
        context(&sorted(records), hours(1), &policy()).messages.iter().map(|m| m.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::User, Role::User]);
}

#[test]
fn what_is_shown_is_as_listed() {
    let edited = [aside(0, 1), edit(&aside(0, 1), 1, None)];
    let shown = &context(&edited, hours(0), &policy()).messages[0];
    assert_eq!(shown.id, "1", "the message's own id, not that of its form");
    assert_eq!(shown.metadata["chatKey"], "telegram:chat:42");
    assert_eq!(shown.metadata["ts"], hours(0).as_millis());
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
    // Of one second, the id decides.
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
    // The last gap counts, and a boundary behind it counts more.
    check(&[aside(0, 1), aside(49, 2), aside(50, 3), aside(99, 4), aside(100, 5)], 100, "u4 u5 |");
    check(&[aside(0, 1), aside(49, 2), boundary(50, 3), aside(51, 4)], 51, "u4 |");
    check(&[aside(0, 1), boundary(1, 2), aside(2, 3), aside(51, 4)], 51, "u4 |");
    // Across a boundary there is no gap to look at.
    check(&[aside(0, 1), boundary(49, 2), aside(50, 3)], 50, "u3 |");
}

#[test]
fn a_session_is_over_when_its_last_interaction_is_stale() {
    let talk = [user(0, 1), reply(&[(0, 1)])];
    check(&talk, 48, "u1 a1 |");
    check(&talk, 49, "|");
    check_with(&talk, 999, &Policy { stale_after: None, ..policy() }, "u1 a1 |");
    assert_eq!(context(&talk, hours(49), &policy()).session_start, None);
    // A message dated ahead of the clock is not stale.
    check(&talk, -999, "u1 a1 |");
}

#[test]
fn replies_events_and_notices_keep_no_session_fresh() {
    // An answer three days late stands at its question's time and leaves the session as old as that.
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
fn what_is_unanswered_keeps_a_session_alive() {
    check(&[aside(0, 1), user(1, 2)], 999, "u1 | u2");
    check(&[user(0, 1), boundary(1, 2), aside(2, 3)], 999, "u3 | u1");
    check(&[aside(0, 1), user(1, 2), failure_notice(&[(1, 2)])], 999, "|");
}

#[test]
fn a_rhythm_of_40_hours_stays_one_session_for_60_days() {
    let mut records = vec![];
    for id in 0..36 {
        let at = i64::try_from(id).unwrap() * 40;
        records.push(user(at, id));
        let before = context(&sorted(records.clone()), hours(at), &policy());
        assert_eq!(before.messages.len(), records.len(), "at {at} h");
        assert_eq!(before.session_start, Some(key(0, 0)));
        records.push(reply(&[(at, id)]));
    }
    assert_eq!(context(&sorted(records), hours(36 * 40), &policy()).messages.len(), 72);
}

#[test]
fn in_fresh_mode_every_message_starts_its_session() {
    let fresh = Policy { fresh: true, ..policy() };
    check_with(&[user(0, 1), reply(&[(0, 1)]), user(0, 2)], 0, &fresh, "| u2");
    check_with(&[user(0, 1), reply(&[(0, 1)]), user(0, 2), reply(&[(0, 2)])], 0, &fresh, "u2 a2 |");
    // What waits together is answered together.
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
    let asks = Record { asks: true, ..edit(&first, 1, None) };
    let cases: &[(&[Record], &str)] = &[
        (&[edit(&first, 1, None)], "u1v1 |"),
        (&[edit(&first, 1, None), edit(&first, 2, None)], "u1v2 |"),
        // By number, also where the keys' byte order is another.
        (&[edit(&first, 9999, None), edit(&first, 10_000, None)], "u1v10000 |"),
        // By the platform's word before the number: form 2 is an older one that came late.
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
}

#[test]
fn an_edit_that_came_before_its_original_stays_the_newest() {
    let original_form = Record { form_ts: Some(hours(0)), ..aside(0, 1) };
    let arrived_first = Record { form_ts: Some(hours(1)), ..aside(0, 1) };
    check(&[arrived_first, edit(&original_form, 1, Some(0))], 1, "u1 |");
}

#[test]
fn an_edit_is_answered_only_where_its_message_was_not() {
    let first = user(0, 1);
    check(&[first.clone(), edit(&first, 1, None)], 0, "| u1v1");
    check(&[first.clone(), reply(&[(0, 1)]), edit(&first, 1, None)], 0, "u1v1 a1 |");
    check(&[first.clone(), failure_notice(&[(0, 1)]), edit(&first, 1, None)], 0, "u1v1 |");
    // It did not address the bot, and now does, a reply to a later message in between.
    let overheard = aside(0, 1);
    let asks = Record { asks: true, ..edit(&overheard, 1, None) };
    check(&[overheard, user(0, 2), reply(&[(0, 2)]), asks], 0, "u2 a2 | u1v1");
}

#[test]
fn a_recalled_message_is_neither_shown_nor_answered() {
    let first = user(0, 1);
    check(&[first.clone(), recall(&first, 1)], 0, "|");
    check(&[first.clone(), reply(&[(0, 1)]), recall(&first, 1), user(0, 2)], 0, "a1 | u2");
}

#[test]
fn an_event_is_edited_too() {
    let joined = event(0, 1);
    check(&[joined.clone(), edit(&joined, 1, None)], 0, "e1v1 |");
}

#[test]
fn what_is_unanswered_stands_last_wherever_it_lies() {
    // Late-dated within the session, before its boundary, before its gap.
    check(&[user(0, 1), user(1, 2), reply(&[(1, 2)])], 1, "u2 a2 | u1");
    check(&[aside(0, 1), user(1, 2), boundary(2, 3), aside(3, 4)], 3, "u4 | u2");
    check(&[user(0, 1), aside(60, 2), user(61, 3)], 61, "u2 | u1 u3");
    check(&[user(0, 1), boundary(2, 3)], 3, "| u1");
    // Answered, it goes back to its place, and out with its session.
    check(&[user(0, 1), user(1, 2), reply(&[(1, 2)]), reply(&[(0, 1)])], 1, "u1 a1 u2 a2 |");
    check(&[user(1, 2), reply(&[(1, 2)]), boundary(2, 3), aside(3, 4)], 3, "u4 |");
}

#[test]
fn what_the_table_is_about_to_delete_waits_for_nothing() {
    // TTL deletes in any order, days late: a reply may be gone before what it answered.
    let expired = |mut record: Record| {
        record.expires_at = Some(hours(216).as_millis() / 1000);
        record
    };
    check(&[expired(user(0, 1))], 215, "| u1");
    check(&[expired(user(0, 1)), user(216, 2)], 216, "| u2");
    let command = expired(Record { kind: Kind::Notice, ..user(0, 5) });
    assert!(context(from_ref(&command), hours(220), &policy()).to_compact.is_empty());
}

#[test]
fn a_reply_covers_what_it_names_and_no_more() {
    check(&[user(0, 1), user(0, 2), reply(&[(0, 1), (0, 2)])], 0, "u1 u2 a2 |");
    check(&[user(0, 1), user(0, 2), user(0, 3), reply(&[(0, 1), (0, 2)])], 0, "u1 u2 a2 | u3");
    // One that came between the run's start and its reply, dated between what the run saw.
    check(&[user(0, 1), user(0, 2), user(0, 3), reply(&[(0, 1), (0, 3)])], 0, "u1 u3 a3 | u2");
}

#[test]
fn an_album_is_unanswered_as_one() {
    let quiet = |at, id| Record { asks: false, ..album_item(at, id, "x") };
    check(&[quiet(0, 1), album_item(0, 2, "x"), quiet(0, 3)], 0, "| u1 u2 u3");
    check(&[quiet(0, 1), album_item(0, 2, "y"), aside(0, 3)], 0, "u1 u3 | u2");
    check(&[quiet(0, 1), quiet(0, 2)], 0, "u1 u2 |");
    check(&[quiet(0, 1), album_item(0, 2, "x"), reply(&[(0, 1), (0, 2)])], 0, "u1 u2 a2 |");
    // An item that came after the album's answer: alone, if it asks.
    check(&[quiet(0, 1), album_item(0, 2, "x"), reply(&[(0, 1), (0, 2)]), quiet(0, 3)], 0, "u1 u2 a2 u3 |");
    check(&[album_item(0, 1, "x"), reply(&[(0, 1)]), album_item(0, 2, "x")], 0, "u1 a1 | u2");
    let (first, second) = (album_item(0, 1, "x"), quiet(0, 2));
    check(&[first.clone(), second.clone(), recall(&second, 1)], 0, "| u1");
    check(&[first.clone(), second, recall(&first, 1)], 0, "u2 |");
}

#[test]
fn notices_and_boundaries_are_never_shown() {
    let confirmation =
        record(key(0, 1).notice(), MessageId::number(1), Role::Assistant, Kind::Notice, "done");
    check(&[boundary(0, 1), confirmation, aside(0, 2)], 0, "u2 |");
    check(&[user(0, 1), failure_notice(&[(0, 1)]), user(0, 2)], 0, "u1 | u2");
}

#[test]
fn system_messages_of_clients_are_not_shown() {
    let system = record(key(0, 1), MessageId::number(1), Role::System, Kind::Normal, "obey");
    check(&[system, user(0, 2)], 0, "| u2");
}

#[test]
fn a_summary_stands_for_what_it_counts_and_for_nothing_else() {
    let (u1, a1, u3) = (user(0, 1), reply(&[(0, 1)]), user(2, 3));
    let first = summary(3, &[&u1, &a1], None);
    let (late, newer, a3) = (aside(0, 2), user(4, 4), reply(&[(2, 3)]));
    let told = [u1.clone(), a1.clone(), first.clone(), u3.clone(), a3.clone(), newer.clone()];
    check(&told, 5, "s2 u3 a3 | u4");
    // What came late is shown, though its time lies in the range.
    let with_late = [&told[..], from_ref(&late)].concat();
    check(&with_late, 5, "s2 u2 u3 a3 | u4");
    // The next one folds the first; the raw records may be gone.
    let second = summary(5, &[&late, &u3, &a3], Some(&first));
    check(&[&with_late[..], from_ref(&second)].concat(), 5, "s5 | u4");
    check(&[second.clone(), newer.clone()], 5, "s5 | u4");
    // What waits is shown, counted or not.
    let asks_now = edit(&late, 1, None);
    let asks_now = Record { asks: true, ..asks_now };
    check(&[&with_late[..], &[second, asks_now]].concat(), 5, "s5 | u2v1 u4");
}

#[test]
fn a_summary_of_what_came_late_is_the_newest_though_it_stands_before_the_one_it_folds() {
    let (u1, a1, u9, a9) = (user(0, 1), reply(&[(0, 1)]), user(9, 9), reply(&[(9, 9)]));
    let first = summary(10, &[&u1, &a1, &u9, &a9], None);
    let (late, answer) = (user(5, 5), reply(&[(5, 5)]));
    let second = summary(11, &[&late, &answer], Some(&first));
    assert!(second.key < first.key);
    let told = [u1, a1, first, late, answer, second.clone(), u9, a9, user(11, 11)];
    check(&told, 11, "s6 | u11");
    // Also where it alone is left of them, and of the interactions that it speaks for.
    let rest = [second, user(50, 50)];
    check(&rest, 50, "s6 | u50");
}

#[test]
fn what_leaves_the_table_between_two_summaries_is_no_gap() {
    let (u1, u2, u3) = (aside(0, 1), aside(40, 2), aside(80, 3));
    let first = summary(1, &[&u1], None);
    let second = summary(81, &[&u2, &u3], Some(&first));
    // The first summary is younger than what was said behind it, and outlasts it.
    check(&[first, u3, second, user(120, 4)], 120, "s3 | u4");
}

#[test]
fn a_late_message_between_two_sessions_joins_the_second_and_brings_back_nothing_of_the_first() {
    let (u1, a1, u2, a2) = (user(0, 1), reply(&[(0, 1)]), user(60, 2), reply(&[(60, 2)]));
    let told = [u1.clone(), a1.clone(), summary(1, &[&u1, &a1], None), u2.clone(), a2.clone()];
    let told = [&told[..], &[summary(61, &[&u2, &a2], None)]].concat();
    check(&told, 61, "s2 |");
    check(&[&told[..], &[aside(30, 3)]].concat(), 61, "s2 u3 |");
}

#[test]
fn the_last_summary_made_stands_also_where_it_counts_what_came_late_before_the_others() {
    let (u1, a1, late, u3, a3) = (user(0, 1), reply(&[(0, 1)]), aside(1, 2), user(2, 3), reply(&[(2, 3)]));
    let first = summary(3, &[&u1, &a1, &u3], None);
    let second = summary(5, &[&late], Some(&first));
    assert!(second.key < first.key);
    check(&[u1, a1, late, second, u3, first, a3, user(6, 4)], 6, "s4 a3 | u4");
}

#[test]
fn what_came_late_is_read_again_once_it_is_answered() {
    let (u1, a1, u3, a3) = (user(0, 1), reply(&[(0, 1)]), user(2, 3), reply(&[(2, 3)]));
    let told = [u1.clone(), a1.clone(), u3.clone(), a3.clone(), summary(3, &[&u1, &a1, &u3], None)];
    let late = user(0, 2);
    let records = sorted([&told[..], from_ref(&late)].concat());
    let seen = context(&records, hours(4), &policy());
    assert_eq!(shown(&seen), "s3 a3 | u2");
    assert!(seen.reaches_back_to.is_some_and(|from| from <= late.key), "its run notes that it is to be read");
}

#[test]
fn a_summary_is_of_its_session() {
    let (u1, a1) = (user(0, 1), reply(&[(0, 1)]));
    let told = [u1.clone(), a1.clone(), summary(1, &[&u1, &a1], None)];
    // It speaks for the last interaction that it counts, also where nothing else is left of it.
    for records in [&told[..], &told[2..]] {
        check(records, 48, "s2 |");
        check(records, 49, "|");
        check(&[records, &[user(48, 2)]].concat(), 48, "s2 | u2");
        check(&[records, &[user(49, 2)]].concat(), 49, "| u2");
        check(&[records, &[boundary(2, 2), user(3, 3)]].concat(), 3, "| u3");
    }
    // A `/new` that came late, with a time within what was summarised: what is behind it is shown as it was said.
    check(&[u1, a1, told[2].clone(), user(0, 0)], 1, "s2 | u0");
    let (u3, a3) = (user(3, 3), reply(&[(3, 3)]));
    let across = summary(4, &[&told[0], &told[1], &u3, &a3], None);
    check(&[told[0].clone(), told[1].clone(), boundary(2, 2), u3, a3, across], 5, "u3 a3 |");
}

#[test]
fn a_summary_whose_session_has_ended_stays_out_though_something_late_fills_the_gap() {
    let (u1, a1, u2, a2) = (user(0, 1), reply(&[(0, 1)]), user(60, 2), reply(&[(60, 2)]));
    let (first, second) = (summary(1, &[&u1, &a1], None), summary(61, &[&u2, &a2], None));
    let told = [u1, a1, first, u2, a2, second, user(62, 3), reply(&[(62, 3)])];
    check(&told, 63, "s2 u3 a3 |");
    // What it counts would else be in the Session, neither shown nor summed up by what is. Also where raw records are gone.
    for told in [&told[..], &[&told[2..3], &told[5..]].concat()] {
        let with_late = [told, &[aside(30, 9)]].concat();
        check(&with_late, 63, "s2 u9 u3 a3 |");
        let session_start = context(&sorted(with_late), hours(63), &policy()).session_start;
        assert_eq!(session_start, Some(key(30, 9)));
    }
}

#[test]
fn no_gap_within_what_is_summed_up_takes_a_summary_apart() {
    // What happened stands first; what came late is of another Session than what was said, though not by the summary.
    let (e1, u2) = (event(0, 1), user(1, 2));
    let told = [e1.clone(), u2.clone(), reply(&[(1, 2)]), summary(2, &[&e1, &u2], None)];
    check(&told, 3, "s2 a2 |");
    check(&[&told[..], &[aside(-48, 9)]].concat(), 3, "s2 u9 a2 |");
}

#[test]
fn a_later_form_alone_is_no_message() {
    let (said, answered) = (user(0, 1), reply(&[(0, 1)]));
    let edited = edit(&said, 1, None);
    check(&[said, answered, edited.clone()], 1, "u1v1 a1 |");
    // The message and its answer have left the table, the edit has not yet: it is not answered again.
    check(&[edited.clone(), user(999, 2)], 999, "| u2");
    // But of a command it is one.
    let command = Record { kind: Kind::Notice, asks: false, ..user(0, 1) };
    check(&[command, edited], 1, "| u1v1");
}

#[test]
fn a_reply_alone_starts_no_session() {
    // What it answers has left the table a little before it.
    check(&[reply(&[(0, 1)])], 999, "|");
    check(&[reply(&[(0, 1)]), user(999, 2)], 999, "| u2");
}

#[test]
fn behind_a_summary_the_context_is_read_from_there() {
    let (u1, a1, u2, a2) = (user(0, 1), reply(&[(0, 1)]), user(9, 2), reply(&[(9, 2)]));
    let told = [u1.clone(), a1.clone(), summary(5, &[&u1, &a1], None), u2, a2];
    let reaches =
        |records: &[Record]| context(&sorted(records.to_vec()), hours(10), &policy()).reaches_back_to;
    assert_eq!(reaches(&told), Some(key(0, 1)));
    assert_eq!(reaches(&told[2..]), Some(key(0, 1)));
    // What is shown beside it is read again.
    let late = aside(-1, 7);
    assert_eq!(reaches(&[&told[..], &[late]].concat()), Some(key(-1, 7)));
    // And what was on its way when it was made.
    let hasty = summary(0, &[&told[0], &told[1]], None);
    let minutes_before = SortKey::start_of(hours(0).minus(Duration::from_mins(5)));
    assert_eq!(reaches(&[hasty]), Some(minutes_before));
}

#[test]
fn a_compact_command_waits_until_it_is_covered() {
    let command = Record { kind: Kind::Notice, ..user(1, 5) };
    let done = Record { key: command.key.reply(), kind: Kind::Notice, ..reply(&[(1, 5)]) };
    let to_compact = |records: &[Record]| context(records, hours(2), &policy()).to_compact;
    assert_eq!(to_compact(from_ref(&command)), [key(1, 5)]);
    check(from_ref(&command), 2, "|");
    assert!(to_compact(&[command, done]).is_empty());
}

#[test]
fn the_models_own_count_corrects_the_estimate() {
    let mut answer = reply(&[(0, 1)]);
    answer.message.metadata.insert("usage".into(), json!({"inputTokens": 150, "estimatedInputTokens": 100}));
    let records = sorted([user(0, 1), answer, user(1, 2)]);
    assert_eq!(context(&records, hours(1), &policy()).tokens, 45);
    let tight = Policy { token_budget: 30, ..policy() };
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
        // u2 would fit, but no hole is left in a conversation.
        (50, "u4 | u0 u5", 30, 3),
        (20, "| u0 u5", 20, 4),
        (0, "| u0 u5", 20, 4),
    ];
    for (token_budget, expect, tokens, left_out) in cases {
        let context = context(&records, hours(0), &Policy { token_budget, ..policy() });
        assert_eq!((shown(&context).as_str(), context.tokens, context.left_out), (expect, tokens, left_out));
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
    // The bot's own is none that it is shown.
    let records = sorted([photo(user(0, 1)), photo(reply(&[(0, 1)])), photo(aside(1, 2)), photo(user(1, 3))]);
    for (images, tokens) in [(0, 40), (1, 1_640), (2, 3_240), (3, 4_840), (20, 4_840)] {
        let seen = context(&records, hours(1), &Policy { images, ..policy() });
        assert_eq!((seen.tokens, seen.left_out), (tokens, 0), "{images}");
    }
    let tight = Policy { images: 20, token_budget: 3_250, ..policy() };
    let seen = context(&records, hours(1), &tight);
    assert_eq!((shown(&seen).as_str(), seen.left_out), ("a1 u2 | u3", 1));
}

#[test]
fn a_message_counts_with_the_tokens_of_its_newest_form() {
    let first = aside(0, 1);
    let longer = Record { tokens: 90, ..edit(&first, 1, None) };
    assert_eq!(context(&[first, longer], hours(0), &policy()).tokens, 90);
}

#[test]
fn token_counts_that_no_integer_holds_are_no_panic() {
    let huge = |id| Record { tokens: u32::MAX, ..user(0, id) };
    assert_eq!(context(&[huge(1), huge(2)], hours(0), &policy()).tokens, u32::MAX);
}

/// One message of a made-up history, with what happened to it.
#[derive(Clone, Debug)]
struct Story {
    at: i64,
    what: What,
    asks: bool,
    album: Option<u8>,
    tokens: u32,
    /// Text or recall, whether it asks, and when the platform says it was made.
    edits: Vec<(bool, bool, Option<i64>)>,
    /// The answer that covers it, if one does, by number.
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

/// The records of these stories, in key order; answer `n` is a failure notice where `fails[n]`.
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
        let first = Record {
            asks: story.asks && !is_event,
            album: story.album.filter(|_| !is_event).map(|album| album.to_string()),
            tokens: story.tokens,
            ..said
        };
        for (number, &(is_text, asks, form_at)) in (1..).zip(&story.edits) {
            let form = if is_text { edit(&first, number, form_at) } else { recall(&first, number) };
            records.push(Record { asks: asks && !is_event, form_ts: form_at.map(hours), ..form });
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

/// `records` as they are stored where they arrive in this order, all their forms dated by the platform: when each was
/// appended, and which number its form got, is a matter of the order; what it says and when is not.
fn arrived(records: Vec<Record>) -> Vec<Record> {
    let mut forms: BTreeMap<SortKey, u32> = BTreeMap::new();
    let stored = (1000..).zip(records).map(|(arrival, record)| {
        let sent_at = hours(arrival);
        if record.kind != Kind::Revision {
            return Record { sent_at, ..record };
        }
        let base = record.key.base();
        let number = forms.entry(base.clone()).or_default();
        *number += 1;
        let form_ts = Some(hours(record.revision.into()));
        Record { key: base.revision(*number), revision: *number, form_ts, sent_at, ..record }
    });
    sorted(stored.collect::<Vec<_>>())
}

fn any_policy() -> impl Strategy<Value = Policy> {
    let stale_after = prop::option::of((1..100_u64).prop_map(Duration::from_hours));
    (stale_after, prop::bool::weighted(0.2), 0..300_u32)
        .prop_map(|(stale_after, fresh, token_budget)| Policy { stale_after, fresh, token_budget, images: 0 })
}

/// All forms of each message by its base; replies are messages of their own.
fn messages_of(records: &[Record]) -> BTreeMap<(SortKey, bool), Vec<&Record>> {
    let mut messages: BTreeMap<_, Vec<&Record>> = BTreeMap::new();
    for record in records.iter().filter(|r| !matches!(r.kind, Kind::Boundary | Kind::Notice)) {
        messages.entry((record.key.base(), record.key.is_reply())).or_default().push(record);
    }
    messages
}

fn newest<'a>(forms: &[&'a Record]) -> &'a Record {
    forms.iter().max_by_key(|form| (form.form_ts, form.revision)).unwrap()
}

/// What waits for its answer, by the words of rule 3, spelled out.
fn waiting(records: &[Record]) -> Vec<SortKey> {
    let covered: HashSet<&SortKey> = records.iter().flat_map(|r| &r.covers).collect();
    let messages = messages_of(records);
    let open = |(base, is_reply): &(SortKey, bool), forms: &[&Record]| {
        !is_reply && !covered.contains(base) && !newest(forms).message.parts.is_empty()
    };
    let asks = |forms: &[&Record]| forms.iter().any(|form| form.asks);
    let asked_albums: HashSet<&str> = messages
        .iter()
        .filter(|(at, forms)| open(at, forms) && asks(forms))
        .filter_map(|(_, forms)| forms[0].album.as_deref())
        .collect();
    let in_album =
        |forms: &[&Record]| forms[0].album.as_deref().is_some_and(|album| asked_albums.contains(album));
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
    fn what_waits_is_shown_last_whatever_the_policy(records in history(), now in 0..400_i64, policy in any_policy()) {
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
        let mut tokens = 0;
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
            let record = records.iter().filter(|r| r.message_id.as_str() == last_out.id && r.kind != Kind::Boundary);
            let tokens = record.filter(|r| r.message.parts == last_out.parts).map(|r| r.tokens).max();
            prop_assert!(cut.tokens + tokens.unwrap() > policy.token_budget, "cut although it fits");
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
    fn forms_that_the_platform_dates_may_arrive_in_any_order(
        order in Just(vec![1_i64, 2, 3, 4]).prop_shuffle(), is_asked in any::<bool>(),
    ) {
        let first = Record { form_ts: Some(hours(0)), asks: is_asked, ..user(0, 1) };
        let mut records = vec![first.clone()];
        for (number, made) in (1..).zip(order) {
            let mut form = edit(&first, number, Some(made));
            form.message.parts = vec![Part::text(format!("made at {made}"))];
            records.push(form);
        }
        prop_assert_eq!(texts(&context(&records, hours(9), &policy()).messages), ["made at 4"]);
    }

    #[test]
    fn a_late_message_joins_the_session_and_moves_nothing(
        records in history(), at in 0..200_i64, asks in any::<bool>(),
    ) {
        let policy = Policy { stale_after: None, fresh: false, token_budget: u32::MAX, images: 0 };
        let before = context(&records, hours(300), &policy);
        let late = Record { asks, ..user(at, 1000) };
        let boundary = records.iter().rev().find(|r| r.kind == Kind::Boundary);
        let is_seen = asks || boundary.is_none_or(|boundary| late.key > boundary.key);
        let after = context(&sorted(records.into_iter().chain([late])), hours(300), &policy);
        let others: Vec<String> = ids(&after).into_iter().filter(|id| id != "1000").collect();
        prop_assert_eq!(ids(&before), others);
        prop_assert_eq!(after.messages.len(), before.messages.len() + usize::from(is_seen));
    }

    #[test]
    fn a_session_that_nobody_waits_in_ends_once_and_for_good(records in history(), policy in any_policy()) {
        let policy = Policy { fresh: false, ..policy };
        prop_assume!(waiting(&records).is_empty());
        let sessions: Vec<Context> = (0..400).step_by(5).map(|now| context(&records, hours(now), &policy)).collect();
        let end = sessions.iter().position(|context| context.session_start.is_none()).unwrap_or(sessions.len());
        prop_assert!(sessions[..end].windows(2).all(|pair| pair[0] == pair[1]));
        prop_assert!(sessions[end..].iter().all(|context| context.messages.is_empty()));
    }

    #[test]
    fn a_reply_to_all_that_waits_leaves_nothing_waiting(records in history(), now in 0..400_i64, policy in any_policy()) {
        let unanswered = context(&records, hours(now), &policy).unanswered;
        prop_assume!(!unanswered.is_empty());
        let newest = unanswered.last().unwrap();
        let id = MessageId::new("the answer").unwrap();
        let mut answer = record(newest.reply(), id, Role::Assistant, Kind::Normal, "answer");
        answer.covers.clone_from(&unanswered);
        answer.message.metadata.insert("model".into(), json!("echo"));
        let after = context(&sorted(records.into_iter().chain([answer])), hours(now), &policy);
        prop_assert_eq!(after.unanswered, Vec::<SortKey>::new());
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
