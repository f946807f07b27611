//! Tests of ended Sessions, as `u1 a1 / u2 a2`, and of their owners.

use annals_core::chat_key::ChatKey;
use annals_core::memory::owner::only_person;
use annals_core::record::Kind;
use annals_core::testing::{
    as_kind, aside, boundary, edit, event, hours, key, opening, policy, reply, sorted, summary, user,
};

use super::*;

/// Returns the ended Sessions as they are shown when they end, separated by slashes.
fn told(records: &[Record], captured_to: Option<&SortKey>, now: i64) -> String {
    let records = sorted(records.iter().cloned());
    let shown = |session: &Ended<'_>| {
        let view = SessionView::of(session.records, session.last_interaction.ts, &policy());
        assert_eq!(view.session_start.as_ref(), Some(&session.start));
        let said = view.earlier.iter().chain(&view.unanswered).map(|m| m.newest().message.plain_text());
        view.summary.map(|s| s.message.plain_text()).into_iter().chain(said).collect::<Vec<_>>().join(" ")
    };
    ended(&records, captured_to, hours(now), &policy()).iter().map(shown).collect::<Vec<_>>().join(" / ")
}

#[track_caller]
fn check(records: &[Record], now: i64, expect: &str) {
    assert_eq!(told(records, None, now), expect);
}

fn turn(at: i64, id: u64) -> [Record; 2] {
    [user(at, id), reply(&[(at, id)])]
}

fn turns(of: &[(i64, u64)]) -> Vec<Record> {
    of.iter().flat_map(|&(at, id)| turn(at, id)).collect()
}

#[test]
fn a_session_has_ended_when_it_is_stale() {
    check(&[], 0, "");
    check(&turns(&[(0, 1), (1, 2)]), 49, "");
    check(&turns(&[(0, 1), (1, 2)]), 50, "u1 a1 u2 a2");
    // Or when a person writes again after a gap; the new message belongs to the next Session.
    check(&turns(&[(0, 1), (49, 2)]), 49, "u1 a1");
    check(&[&turns(&[(0, 1)])[..], &[user(49, 2)]].concat(), 49, "u1 a1");
    check(&turns(&[(0, 1), (48, 2)]), 48, "");
    // An event is not an interaction, and ends nothing.
    check(&[event(0, 1)], 999, "");
}

#[test]
fn an_unanswered_message_keeps_its_session_alive() {
    check(&[user(0, 1)], 999, "");
    check(&[&turns(&[(0, 1)])[..], &[user(1, 2)]].concat(), 999, "");
}

#[test]
fn a_session_has_ended_at_new() {
    let said = turns(&[(0, 1), (1, 2)]);
    check(&[&said[..], &[boundary(2, 3)]].concat(), 2, "u1 a1 u2 a2");
    check(&[&said[..], &[boundary(2, 3), opening(2, 3)]].concat(), 2, "u1 a1 u2 a2");
    check(&[&said[..], &[boundary(2, 3)], &turn(3, 4)].concat(), 3, "u1 a1 u2 a2");
    // A second `/new` ends nothing: an empty Session does not count.
    check(&[&said[..], &[boundary(2, 3), boundary(3, 4)]].concat(), 3, "u1 a1 u2 a2");
    check(&[boundary(2, 3), boundary(3, 4)], 3, "");
    // Two boundaries with messages in between end two Sessions.
    let second = turn(3, 4);
    check(&[&said[..], &[boundary(2, 3)], &second, &[boundary(4, 5)]].concat(), 4, "u1 a1 u2 a2 / u4 a4");
}

#[test]
fn several_ended_sessions_are_captured_in_order_at_most_ten_at_once() {
    let said: Vec<Record> = (1..=11_u32).flat_map(|id| turn(100 * i64::from(id), u64::from(id))).collect();
    let sessions = |ids: std::ops::RangeInclusive<u32>| {
        ids.map(|id| format!("u{id} a{id}")).collect::<Vec<_>>().join(" / ")
    };
    check(&said, 1_100, &sessions(1..=10));
    check(&said, 1_200, &sessions(2..=11));
}

#[test]
fn a_captured_session_is_not_captured_again() {
    let said = turns(&[(0, 1), (100, 2), (200, 3)]);
    assert_eq!(told(&said, Some(&key(0, 1)), 300), "u2 a2 / u3 a3");
    assert_eq!(told(&said, Some(&key(100, 2)), 300), "u3 a3");
    assert_eq!(told(&said, Some(&key(200, 3)), 300), "");
    // If a late message filled the gap after a captured Session, so that it went on, it is captured as a whole.
    let with_late = [&said[..], &[aside(140, 8), aside(180, 9)]].concat();
    assert_eq!(told(&with_late, Some(&key(100, 2)), 300), "u2 a2 u8 u9 u3 a3");
}

#[test]
fn a_summary_belongs_to_its_session() {
    let said = turns(&[(0, 1), (1, 2)]);
    let summed_up = summary(2, &[&said[0], &said[1]], None);
    let records = [&said[..], std::slice::from_ref(&summed_up)].concat();
    check(&records, 50, "s2 u2 a2");
    // Some or all of the raw records may have expired.
    check(&[std::slice::from_ref(&summed_up), &said[2..]].concat(), 50, "s2 u2 a2");
    check(std::slice::from_ref(&summed_up), 50, "s2");
    check(std::slice::from_ref(&summed_up), 48, "");
    check(&[std::slice::from_ref(&summed_up), &[boundary(3, 9)]].concat(), 4, "s2");
    check(&[std::slice::from_ref(&summed_up), &turn(99, 9)].concat(), 99, "s2");
}

#[test]
fn an_ended_session_is_captured_in_its_newest_forms() {
    let mut said = turns(&[(0, 1)]);
    said.push(edit(&said[0], 1, None));
    check(&said, 99, "u1v1 a1");
}

/// Builds a message over HTTP of Ada (`Some("ada")`), or of a person without an account.
fn http(at: i64, id: u64, person: Option<&str>) -> Record {
    Record { chat: web_chat(), person: person.map(Into::into), ..user(at, id) }
}

fn web_chat() -> ChatKey {
    "http:chat:app:c".parse().unwrap()
}

fn answer(at: i64, id: u64) -> Record {
    Record { chat: web_chat(), ..reply(&[(at, id)]) }
}

fn summed_up(at: i64, person: Option<&str>) -> Record {
    let (said, answered) = (http(at, 90, person), answer(at, 90));
    Record { chat: web_chat(), person: person.map(Into::into), ..summary(at, &[&said, &answered], None) }
}

#[test]
fn a_summary_counts_for_the_owner() {
    let records = sorted([summed_up(1, None), http(2, 1, Some("ada")), answer(2, 1)]);
    let view = SessionView::of(&records, hours(9), &policy());
    assert_eq!(records_of(&view).collect::<Vec<_>>(), [&records[0], &records[1], &records[2]]);
}

#[test]
fn a_summary_has_a_person_if_all_its_messages_have_the_same() {
    let (ada, bob, somebody) = (http(1, 1, Some("ada")), http(1, 2, Some("bob")), http(1, 3, None));
    let of =
        |records: &[&Record], folded: Option<&Record>| only_person(records.iter().copied().chain(folded));
    assert_eq!(of(&[&ada, &answer(1, 1)], None).as_deref(), Some("ada"));
    assert_eq!(of(&[&ada, &bob], None), None);
    assert_eq!(of(&[&ada, &somebody], None), None);
    assert_eq!(of(&[&somebody, &ada], None), None);
    assert_eq!(of(&[], None), None);
    // A folded summary counts with its person.
    assert_eq!(of(&[&ada], Some(&summed_up(0, Some("ada")))).as_deref(), Some("ada"));
    assert_eq!(of(&[&ada], Some(&summed_up(0, Some("bob")))), None);
    assert_eq!(of(&[&ada], Some(&summed_up(0, None))), None);
    assert_eq!(of(&[&answer(1, 1)], Some(&summed_up(0, Some("ada")))).as_deref(), Some("ada"));
    // Records that are not interactions do not count.
    let notice = as_kind(bob, Kind::Notice);
    assert_eq!(of(&[&ada, &notice], None).as_deref(), Some("ada"));
}
