//! Tests of cuts in short notation: `check(&[user(0, 1), …], why, "s u1 a1 | u2")`, with counted messages before the
//! bar.

use std::slice::from_ref;

use serde_json::json;

use super::*;
use crate::message::{Part, Role};
use crate::prompt::Prompt;
use crate::record::Record;
use crate::sort_key::MessageId;
use crate::testing::{
    aside, asking, edit, event, hours, key, policy, record, reply, set, sorted, summary, user,
};

/// Each test record has ten tokens.
const RULES: Rules = Rules {
    keep_recent: 2,
    summary_tokens: 10,
    source_tokens: 1_000,
    approval_patience: Duration::from_hours(48),
};

/// Returns the cut as `<folded> <counted> | <earlier that stays>`, followed by `more` if another cut must follow.
fn told(records: &[Record], why: Why, rules: &Rules, now: i64) -> String {
    let records = sorted(records.iter().cloned());
    let view = SessionView::of(&records, hours(now), &policy());
    let Some(cut) = cut(&view, why, rules, hours(now)) else { return "nothing".into() };
    let text = |record: &Record| record.message.plain_text();
    let counted = cut.folded.map(text).into_iter().chain(cut.counted.iter().map(|m| text(m.newest())));
    let stays = view.earlier[cut.counted.len()..].iter().map(|m| text(m.newest()));
    let (counted, stays): (Vec<String>, Vec<String>) = (counted.collect(), stays.collect());
    let more = if cut.leaves_more { " more" } else { "" };
    format!("{} | {}{more}", counted.join(" "), stays.join(" ")).trim().to_owned()
}

#[track_caller]
fn check(records: &[Record], why: Why, expect: &str) {
    assert_eq!(told(records, why, &RULES, 9), expect);
}

/// Returns `u1 a1 u2 a2 …`, one hour apart.
fn talk(turns: u64) -> Vec<Record> {
    let turn = |id: u64| {
        let at = i64::try_from(id).unwrap();
        [user(at, id), reply(&[(at, id)])]
    };
    (1..=turns).flat_map(turn).collect()
}

fn with_call(record: Record, state: &str) -> Record {
    let mut record = record;
    let call = json!({"type": "tool-search", "toolCallId": "c", "state": state, "input": {}});
    record.message.parts.push(Part::new(call).unwrap());
    record
}

#[test]
fn on_request_all_but_the_recent_messages_are_summarised() {
    check(&talk(3), Why::Asked, "u1 a1 u2 a2 | u3 a3");
    check(&talk(1), Why::Asked, "nothing");
    check(&[], Why::Asked, "nothing");
    // Unanswered messages count as recent.
    check(&[talk(2), vec![user(4, 4)]].concat(), Why::Asked, "u1 a1 u2 | a2");
    check(&[talk(2), vec![user(4, 4), user(5, 5), user(6, 6)]].concat(), Why::Asked, "u1 a1 u2 a2 |");
    // Events do not count, and stay with the message that follows them.
    check(&[talk(2), vec![event(3, 9)]].concat(), Why::Asked, "u1 a1 | u2 a2 e9");
    check(&[vec![event(0, 9)], talk(1)].concat(), Why::Asked, "nothing");
}

#[test]
fn for_lack_of_tokens_at_least_all_but_the_recent_messages_are_summarised() {
    // Eight messages of ten tokens, 21 for the time of each of a person, and ten for the summary. Recent messages stay if they
    // fit; otherwise the aim is 60 % of the budget.
    check(&talk(4), Why::TooLong { budget: 1_000 }, "u1 a1 u2 a2 u3 a3 | u4 a4");
    check(&talk(4), Why::TooLong { budget: 51 }, "u1 a1 u2 a2 u3 a3 | u4 a4");
    check(&talk(4), Why::TooLong { budget: 50 }, "u1 a1 u2 a2 u3 a3 u4 | a4");
    check(&talk(4), Why::TooLong { budget: 29 }, "u1 a1 u2 a2 u3 a3 u4 a4 |");
    // Unanswered messages take their part of the budget.
    check(&[talk(4), vec![user(9, 9)]].concat(), Why::TooLong { budget: 51 }, "u1 a1 u2 a2 u3 a3 u4 | a4");
    check(&[talk(4), vec![user(9, 9)]].concat(), Why::TooLong { budget: 50 }, "u1 a1 u2 a2 u3 a3 u4 a4 |");
    check(&[user(9, 9)], Why::TooLong { budget: 1 }, "nothing");
}

#[test]
fn the_budget_is_in_tokens_as_the_model_counts() {
    let mut records = talk(4);
    let usage = json!({"inputTokens": 200, "estimatedInputTokens": 100});
    set(&mut records[7].message.metadata, "usage", usage);
    assert_eq!(told(&records, Why::TooLong { budget: 102 }, &RULES, 9), "u1 a1 u2 a2 u3 a3 | u4 a4");
    assert_eq!(told(&records, Why::TooLong { budget: 101 }, &RULES, 9), "u1 a1 u2 a2 u3 a3 u4 | a4");
}

#[test]
fn messages_that_expire_soon_are_summarised_even_if_recent() {
    let mut records = talk(3);
    for (record, expires_at) in records.iter_mut().zip([10, 20, 30, 40, 50, 60]) {
        record.expires_at = Some(expires_at);
    }
    let expiring = |before| Why::Expiring { before };
    check(&records, expiring(10), "nothing");
    check(&records, expiring(11), "u1 | a1 u2 a2 u3 a3");
    check(&records, expiring(31), "u1 a1 u2 | a2 u3 a3");
    check(&records, expiring(61), "u1 a1 u2 a2 u3 a3 |");
    // A late message expires later than those after it, which do not wait for it.
    records[0].expires_at = Some(99);
    check(&records, expiring(21), "u1 a1 | u2 a2 u3 a3");
    // Records without expiry are never due.
    let forever: Vec<Record> =
        records.iter().map(|record| Record { expires_at: None, ..record.clone() }).collect();
    check(&forever, expiring(i64::MAX), "nothing");
}

#[test]
fn an_edited_message_is_summarised_when_its_first_form_expires() {
    let first = Record { expires_at: Some(10), ..aside(1, 1) };
    let edited = Record { expires_at: Some(99), ..edit(&first, 1, None) };
    check(&[first, edited, aside(2, 2)], Why::Expiring { before: 11 }, "u1v1 | u2");
}

#[test]
fn nothing_is_cut_at_a_message_ahead_of_the_clock() {
    let ahead = |millis: u64| {
        let at = hours(9).plus(MAX_AHEAD).plus(Duration::from_millis(millis));
        let id = MessageId::number(9);
        [talk(1), vec![record(SortKey::message(at, &id), id, Role::User, Kind::Normal, "u9"), aside(10, 10)]]
            .concat()
    };
    let all = Rules { keep_recent: 0, ..RULES };
    assert_eq!(told(&ahead(0), Why::Asked, &all, 9), "u1 a1 u9 | u10");
    assert_eq!(told(&ahead(1), Why::Asked, &all, 9), "u1 a1 | u9 u10");
}

#[test]
fn a_session_expires_with_its_records_including_the_summary() {
    let (u1, a1) = (user(0, 1), reply(&[(0, 1)]));
    let mut summed_up = summary(1, &[&u1, &a1], None);
    summed_up.expires_at = Some(50);
    let newer = Record { expires_at: Some(99), ..user(2, 2) };
    let records = sorted([summed_up, newer.clone(), Record { expires_at: Some(99), ..reply(&[(2, 2)]) }]);
    let view = SessionView::of(&records, hours(3), &policy());
    assert!(expires(&view, 51) && !expires(&view, 50));
    // A message expires with its first form.
    let edited = Record { expires_at: Some(999), ..edit(&newer, 1, None) };
    let records = sorted([asking(newer, false), asking(edited, false)]);
    let view = SessionView::of(&records, hours(3), &policy());
    assert!(expires(&view, 100) && !expires(&view, 99));
}

#[test]
fn what_belongs_to_a_message_that_expires_is_kept_with_it_the_last_first() {
    let until = |record: Record, at: i64| Record { expires_at: Some(hours(at).as_millis() / 1000), ..record };
    let first = until(user(1, 1), 100);
    let late = [
        edit(&first, 1, None),
        user(2, 2),
        reply(&[(1, 1), (2, 2)]),
        user(3, 3),
        reply(&[(3, 3)]),
        user(4, 4),
    ];
    let records = sorted(late.map(|record| until(record, 300)).into_iter().chain([first]));
    let view = SessionView::of(&records, hours(9), &policy());
    let kept = |before: i64| {
        let kept = to_keep(&view, &records, hours(before).as_millis() / 1000);
        kept.into_iter().map(|record| record.key.to_string()).collect::<Vec<_>>()
    };
    let mut belonging: Vec<String> = records[..4].iter().map(|record| record.key.to_string()).collect();
    belonging.reverse();
    assert_eq!(kept(200), belonging);
    assert_eq!((kept(100), kept(301).len()), (vec![], records.len()));
}

#[test]
fn a_pending_approval_prevents_cuts_after_it_until_its_patience_ends() {
    let pending = |state: &str| {
        let mut records = talk(4);
        records[3] = with_call(records[3].clone(), state);
        records
    };
    for state in ["approval-requested", "approval-responded", "input-available", "input-streaming"] {
        check(&pending(state), Why::Asked, "u1 a1 u2 | a2 u3 a3 u4 a4");
        check(&pending(state), Why::TooLong { budget: 1 }, "u1 a1 u2 | a2 u3 a3 u4 a4");
        check(&pending(state), Why::Expiring { before: i64::MAX }, "nothing");
    }
    for state in ["output-available", "output-error", "output-denied"] {
        check(&pending(state), Why::Asked, "u1 a1 u2 a2 u3 a3 | u4 a4");
    }
    // Until its patience ends, counted from when it was stored.
    let mut records = pending("approval-requested");
    records.push(user(49, 9));
    records.push(reply(&[(49, 9)]));
    let at = |now| told(&records, Why::Asked, &RULES, now);
    assert_eq!(at(50), "u1 a1 u2 | a2 u3 a3 u4 a4 u9 a9");
    assert_eq!(at(51), "u1 a1 u2 a2 u3 a3 u4 a4 | u9 a9");
    // A call in a person's message is never made.
    let first = [with_call(aside(1, 1), "input-available"), aside(2, 2), aside(3, 3), aside(4, 4)];
    check(&first, Why::Asked, "u1 u2 | u3 u4");
}

#[test]
fn a_source_too_long_for_one_request_is_summarised_in_several() {
    // Each message also takes tokens for a time and a name.
    let short = Rules { source_tokens: 2 * 10 + SENDER_TOKENS + REPLY_TOKENS, ..RULES };
    assert_eq!(told(&talk(4), Why::Asked, &short, 9), "u1 a1 | u2 a2 u3 a3 u4 a4 more");
    // One message is always taken, however long it is.
    let shorter = Rules { source_tokens: 1, ..RULES };
    assert_eq!(told(&talk(4), Why::Asked, &shorter, 9), "u1 | a1 u2 a2 u3 a3 u4 a4 more");
    let records: Vec<Record> = (0..2_100).map(|id| Record { tokens: 0, ..aside(1, id) }).collect();
    let view = SessionView::of(&records, hours(2), &policy());
    let long = Rules { source_tokens: u32::MAX, ..RULES };
    let cut = cut(&view, Why::Asked, &long, hours(2)).unwrap();
    assert_eq!((cut.counted.len(), cut.leaves_more), (MAX_COUNTED, true));
}

#[test]
fn a_request_counts_the_ids_of_several_people() {
    let records: Vec<Record> = (1..=4).map(|id| Record { user_id: id.to_string(), ..aside(1, id) }).collect();
    let names = 2 * (10 + SENDER_TOKENS + ID_TOKENS);
    let told = |source_tokens| {
        let rules = Rules { keep_recent: 0, source_tokens, ..RULES };
        told(&records, Why::Asked, &rules, 9)
    };
    assert_eq!(told(names), "u1 u2 | u3 u4 more");
    assert_eq!(told(names - 1), "u1 | u2 u3 u4 more");
}

#[test]
fn a_summary_counts_as_many_keys_as_fit_in_its_item() {
    let long = |n: usize| {
        let id = MessageId::new(format!("{n:0>240}x")).unwrap();
        Record { tokens: 0, ..record(SortKey::message(hours(1), &id), id, Role::User, Kind::Normal, "x") }
    };
    let records: Vec<Record> = (0..1_100).map(long).collect();
    let view = SessionView::of(&records, hours(2), &policy());
    let rules = Rules { keep_recent: 0, source_tokens: u32::MAX, ..RULES };
    let counted = cut(&view, Why::Asked, &rules, hours(2)).unwrap().counted.len();
    assert_eq!(counted, MAX_COUNTED_BYTES / records[0].key.as_str().len());
}

#[test]
fn an_earlier_summary_is_folded_and_the_next_one_ends_after_it() {
    let said = talk(4);
    let first = summary(3, &said[..4].iter().collect::<Vec<_>>(), None);
    let with = |more: &[Record]| [&said[..], from_ref(&first), more].concat();
    check(&with(&[]), Why::Asked, "s4 u3 a3 | u4 a4");
    // A late message lies before the summary. Alone it waits for the next cut, since each place can have one summary.
    let late = aside(1, 7);
    check(&with(from_ref(&late)), Why::Asked, "s4 u7 u3 a3 | u4 a4");
    let recent = Rules { keep_recent: 4, ..RULES };
    assert_eq!(told(&with(from_ref(&late)), Why::Asked, &recent, 9), "nothing");
    // If it expires soon, one more message is summarised with it.
    let leaves_at = hours(20).as_millis() / 1000;
    let leaving = Record { expires_at: Some(leaves_at), ..late };
    check(&with(&[leaving]), Why::Expiring { before: leaves_at + 1 }, "s4 u7 u3 | a3 u4 a4");
}

#[test]
fn a_summary_names_its_source() {
    let records = sorted([talk(3), vec![event(1, 8)]].concat());
    let view = SessionView::of(&records, hours(9), &policy());
    let source = cut(&view, Why::Asked, &RULES, hours(9)).unwrap().source(hours(9)).unwrap();
    assert_eq!((source.from, source.to), (key(1, 1), key(2, 2).reply()));
    assert_eq!((source.from_id.as_str(), source.to_id.as_str()), ("1", "2/reply"));
    assert_eq!((source.count, source.counts.len()), (4, 5), "an event is counted by key, and as no message");
    assert_eq!(source.last_interaction, hours(2));
    assert_eq!(source.counts, [key(1, 1), key(1, 1).reply(), key(1, 8), key(2, 2), key(2, 2).reply()]);
}

#[test]
fn a_summary_that_folds_another_names_the_source_of_both() {
    let said = talk(3);
    let first = summary(2, &[&said[0], &said[1]], None);
    let source = |more: &[Record]| {
        let records = sorted([&said[..], from_ref(&first), more].concat());
        let view = SessionView::of(&records, hours(9), &policy());
        cut(&view, Why::Asked, &RULES, hours(9)).unwrap().source(hours(9)).unwrap()
    };
    let plain = source(&[]);
    assert_eq!((plain.from, plain.from_id.as_str(), plain.to), (key(1, 1), "1", key(2, 2).reply()));
    assert_eq!((plain.count, plain.counts), (4, vec![key(2, 2), key(2, 2).reply()]));
    assert_eq!(plain.last_interaction, hours(2));
    // A late message may be older than all that the earlier summary counts.
    let late = source(&[aside(0, 7)]);
    assert_eq!((late.from, late.from_id.as_str(), late.count), (key(0, 7), "7", 5));
}

#[test]
fn events_are_summarised_together_with_interactions() {
    let too_long = Why::TooLong { budget: 1 };
    check(&[event(1, 1), event(2, 2)], too_long, "nothing");
    let short = Rules { source_tokens: 1, ..RULES };
    let records = [event(1, 1), event(2, 2), aside(3, 3), aside(4, 4)];
    assert_eq!(told(&records, too_long, &short, 9), "e1 e2 u3 | u4 more");
}

#[test]
fn a_planned_cut_is_repeated_with_messages_that_arrived_meanwhile() {
    let mut records = talk(3);
    let at = |records: &[Record], to: &SortKey| {
        let records = sorted(records.to_vec());
        let view = SessionView::of(&records, hours(9), &policy());
        cut_at(&view, to)
            .map(|cut| cut.counted.iter().map(|m| m.newest().message.plain_text()).collect::<Vec<_>>())
    };
    let to = key(2, 2);
    assert_eq!(at(&records, &to).unwrap(), ["u1", "a1", "u2"]);
    records.push(aside(1, 7));
    assert_eq!(at(&records, &to).unwrap(), ["u1", "a1", "u7", "u2"]);
    assert_eq!(at(&records, &key(0, 1)), None);
}

#[test]
fn a_request_has_space_for_its_instructions() {
    assert_eq!(Prompt::source_budget(10_000), 9_400);
    assert_eq!(Prompt::source_budget(300), 150, "however small the window");
}
