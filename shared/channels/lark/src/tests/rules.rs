//! Tests of the rules: keys, times, senders, gate, commands, addresses of replies, and events without messages.

use annals_channel::testing::{check_not_events, check_rules};
use annals_core::record::{Channel, Record};
use annals_core::sort_key::Timestamp;
use annals_core::testing::stored;

use super::*;
use crate::address::Address;
use crate::parse::{has_own_time, missing_thread, needs_open_id, with_thread};

/// `rules.json`: messages of Ada, by the fields that they have beyond [`p2p`] or [`group`], other events, and whole calls.
#[test]
fn each_case_follows_its_rule() {
    check_rules(include_str!("rules.json"), event_of, parsed);
    // The typed text is stored unchanged.
    assert_eq!(shown(&draft(group(mentioning("@_user_1 /new hi")))), "@Annals /new hi");
}

#[test]
fn what_is_no_event_is_an_error_and_a_key_that_cannot_be_is_ignored() {
    check_not_events(parsed);
    let broken = Settings { agent_id: "\u{1}".into(), dm_scope: DmScope::User, ..settings() };
    let reason = "an id of the event cannot be part of a chat key";
    let ignored = Incoming::ignored("im.message.receive_v1", reason);
    assert_eq!(only(parsed(&received(p2p(text("hi"))), &broken)), ignored);
}

#[test]
fn a_message_is_the_same_in_any_event_around_it() {
    let message = received(p2p(text("hi")));
    let mut again = message.clone();
    again["header"]["event_id"] = json!("e2");
    again["header"]["create_time"] = json!("1764079200500");
    assert_eq!(incoming(&message), incoming(&again));
}

#[test]
fn has_own_time_is_false_if_the_time_is_that_of_the_event() {
    let first = json!({"ts": "1764057600.5", "event": {"type": "message", "open_message_id": "om_1", "open_chat_id": "oc_1"}});
    assert!(!has_own_time(&first));
    assert_eq!(draft_of(&incoming(&first)).unwrap().ts.as_millis(), 1_764_057_600_500);
    assert_eq!(
        draft_of(&incoming(&first)).unwrap().form_ts.map(Timestamp::as_millis),
        Some(1_764_057_600_500)
    );
    assert!(has_own_time(&received(p2p(text("hi")))));
    assert!(!has_own_time(&received(p2p(json!({"create_time": null})))));
    assert!(has_own_time(&event("im.chat.disbanded_v1", json!({}))) && has_own_time(&json!([])));
}

#[test]
fn a_missing_thread_can_be_filled_in() {
    let opening = received(group(with(text("hi"), json!({"chat_type": "topic_group"}))));
    let message_id = missing_thread(&opening).unwrap();
    assert_eq!(message_id.as_str(), "om_5");
    let completed = with_thread(opening, "omt_1");
    assert_eq!(missing_thread(&completed), None);
    assert_eq!(draft_of(&incoming(&completed)).unwrap().chat.to_string(), "lark:chat:oc_group:thread:omt_1");
    assert_eq!(missing_thread(&received(group(text("hi")))), None);
    assert_eq!(with_thread(json!([]), "omt_1"), json!([]));
}

#[test]
fn a_reply_goes_to_its_message_and_thread() {
    let check = |draft: &Draft, wanted: (Option<&str>, &str, bool)| {
        let address = Address::of(&stored(draft)).unwrap();
        assert_eq!((address.message_id.as_deref(), address.chat_id.as_str(), address.in_thread), wanted);
    };
    check(&draft(p2p(text("hi"))), (Some("om_5"), "oc_ada", false));
    check(&draft(group(text("hi"))), (Some("om_5"), "oc_group", false));
    check(&draft(group(with(text("hi"), json!({"thread_id": "omt_1"})))), (Some("om_5"), "oc_group", true));
    check(&draft(p2p(with(text("hi"), json!({"thread_id": "omt_1"})))), (Some("om_5"), "oc_ada", true));
    let new = draft(p2p(text("/new")));
    let boundary = Record { message_id: new.message_id.derived("boundary"), ..stored(&new) };
    assert_eq!(Address::of(&boundary).unwrap().message_id.as_deref(), Some("om_5"));
    let elsewhere = Record { channel: Channel::Telegram, ..stored(&new) };
    assert_eq!(Address::of(&elsewhere), None);
}

#[test]
fn the_bots_open_id_is_required_only_if_it_matters() {
    let check = |message: Value, wanted: bool| {
        assert_eq!(needs_open_id(&received(message.clone())), wanted, "{message}");
    };
    check(group(mentioning("@_user_1 hi")), true);
    check(p2p(mentioning("@_user_1 /new")), true);
    check(p2p(text("/new")), false);
    check(group(text("@_all hi")), false);
    check(group(json!({"mentions": [{"key": "@_all", "name": "所有人"}]})), false);
    let own = json!({"sender": {"sender_id": {"open_id": "ou_annals"}, "sender_type": "bot"}, "message": p2p(text("hi"))});
    assert!(needs_open_id(&event("im.message.receive_v1", own)));
    assert!(!needs_open_id(&event("im.message.recalled_v1", json!({}))) && !needs_open_id(&json!(5)));
    // Without the id, no mention counts as one of the bot.
    let nameless = Bot { open_id: None, ..bot() };
    let found = parse(&received(group(mentioning("@_user_1 hi"))), &nameless, &settings()).unwrap();
    assert!(!draft_of(&found[0]).unwrap().asks);
}
