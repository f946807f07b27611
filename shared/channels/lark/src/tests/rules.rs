//! Tests of the rules: keys, times, senders, addresses of replies, and events without messages.

use annals_channel::webhook::ParseError;
use annals_core::record::{Channel, Kind, Record};
use annals_core::sort_key::Timestamp;
use annals_core::testing::stored;

use super::*;
use crate::address::Address;
use crate::parse::{has_own_time, missing_thread, with_thread};

#[test]
fn chats_have_their_keys() {
    let check = |message: Value, wanted: &str| {
        let draft = draft(with(message, text("hi")));
        assert_eq!((draft.chat.to_string().as_str(), draft.channel), (wanted, Channel::Lark));
    };
    check(p2p(json!({})), "lark:chat:oc_ada");
    check(group(json!({})), "lark:chat:oc_group");
    check(group(json!({"chat_type": "topic_group"})), "lark:chat:oc_group");
    check(group(json!({"chat_type": null})), "lark:chat:oc_group");
    for chat_type in ["group", "topic_group"] {
        let topic = json!({"chat_type": chat_type, "thread_id": "omt_1"});
        check(group(topic), "lark:chat:oc_group:thread:omt_1");
    }
    // The message that opens a thread may name it as its root; a reply outside threads has a message as its root.
    check(group(json!({"root_id": "omt_1"})), "lark:chat:oc_group:thread:omt_1");
    check(group(json!({"root_id": "om_1", "parent_id": "om_1", "thread_id": ""})), "lark:chat:oc_group");
    // In a p2p chat, a thread is only a way to reply.
    check(p2p(json!({"thread_id": "omt_1"})), "lark:chat:oc_ada");
    check(group(json!({"chat_id": "oc:1%"})), "lark:chat:oc%3A1%25");
}

#[test]
fn direct_chats_belong_to_the_person_under_dm_scope_user() {
    let user = Settings { dm_scope: DmScope::User, ..settings() };
    let check = |event: Value, wanted: &str| {
        let found = incoming_under(&event, &user);
        let chat = match &found {
            Incoming::Entered { chat, .. } => chat.to_string(),
            other => {
                let draft = draft_of(other).unwrap();
                assert!(draft.chat_id.starts_with("oc_"), "what a reply is sent to");
                draft.chat.to_string()
            }
        };
        assert_eq!(chat, wanted, "{event}");
    };
    check(received(p2p(text("hi"))), "agent:annals:user:lark-ou_ada");
    check(received(p2p(with(text("hi"), json!({"thread_id": "omt_1"})))), "agent:annals:user:lark-ou_ada");
    check(received(group(text("hi"))), "lark:chat:oc_group");
    let nobody = json!({"sender": {"sender_id": {"open_id": "a\u{7}"}}, "message": p2p(text("hi"))});
    check(event("im.message.receive_v1", nobody), "lark:chat:oc_ada");
    let entered = json!({"chat_id": "oc_ada", "operator_id": {"open_id": "ou_ada"}});
    check(event("im.chat.access_event.bot_p2p_chat_entered_v1", entered), "agent:annals:user:lark-ou_ada");
    let broken = Settings { agent_id: "\u{1}".into(), ..user };
    let found = parse(&received(p2p(text("hi"))), &bot(), &broken);
    assert!(matches!(found, Err(ParseError::AgentId(_))));
}

#[test]
fn ids_and_times_are_those_of_the_message() {
    let check = |fields: Value, wanted: (i64, Option<i64>)| {
        let draft = draft(p2p(with(text("hi"), fields)));
        assert_eq!(draft.message_id.as_str(), "om_5");
        assert_eq!((draft.ts.as_millis(), draft.form_ts.map(Timestamp::as_millis)), wanted);
    };
    check(json!({}), (1_764_057_600_000, Some(1_764_057_600_000)));
    check(json!({"update_time": "1764057700000"}), (1_764_057_600_000, Some(1_764_057_700_000)));
    check(json!({"update_time": null}), (1_764_057_600_000, Some(1_764_057_600_000)));
    check(json!({"create_time": "1764057600"}), (1_764_057_600_000, Some(1_764_057_600_000)));
    check(json!({"create_time": null, "update_time": null}), (0, None));

    // The same for any event around it.
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
fn the_user_is_the_sender_of_the_event() {
    let check = |sender: Value, wanted: (&str, Option<bool>)| {
        let event = event("im.message.receive_v1", json!({"sender": sender, "message": group(text("hi"))}));
        let found = incoming(&event);
        let draft = draft_of(&found).unwrap();
        let is_bot = draft.metadata.fields().get("senderIsBot").and_then(Value::as_bool);
        assert_eq!((draft.user_id.as_str(), is_bot), wanted);
        assert!(draft.actor().is_ok());
    };
    check(
        json!({"sender_id": {"union_id": "on", "user_id": "u", "open_id": "ou"}, "sender_type": "user"}),
        ("ou", None),
    );
    check(json!({"sender_id": {"union_id": "on", "user_id": "u", "open_id": ""}}), ("u", None));
    check(json!({"sender_id": {"union_id": "on", "user_id": null}}), ("on", None));
    check(json!({"sender_id": {"open_id": "ou_b"}, "sender_type": "bot"}), ("ou_b", Some(true)));
    check(json!({"sender_id": {"open_id": "a\nb"}}), ("oc_group", None));
    check(json!(null), ("oc_group", None));
}

#[test]
fn the_bots_own_message_is_ignored() {
    for id in ["ou_annals", "cli_annals"] {
        let sender = json!({"sender_id": {"open_id": id}, "sender_type": "bot"});
        let event = event("im.message.receive_v1", json!({"sender": sender, "message": p2p(text("hi"))}));
        assert!(matches!(incoming(&event), Incoming::Ignored { .. }));
    }
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
fn a_merge_forward_waits_for_its_children() {
    let forward = received(group(with(mentions(), of_type("merge_forward", &json!({"content": "Merged"})))));
    let Incoming::Partial(draft) = incoming(&forward) else { panic!("a merged message") };
    assert!(draft.asks && draft.kind == Kind::Normal);
}

#[test]
fn events_without_messages() {
    let at = 1_764_057_600_500_i64;
    let check = |event: Value, wanted: &str| {
        let found = match incoming(&event) {
            Incoming::Withdrawal { chat_id, message_id, at } => format!("recall {chat_id} {message_id} {at}"),
            Incoming::Membership { chat, can_write, at } => format!("membership {chat} {can_write} {at}"),
            Incoming::Entered { chat, at } => format!("entered {chat} {at}"),
            Incoming::Ignored { kind, reason } => format!("ignored {kind}: {reason}"),
            other => panic!("{other:?}"),
        };
        assert_eq!(found, wanted, "{event}");
    };
    let recalled = json!({"message_id": "om_1", "chat_id": "oc_1", "recall_time": "1764057700000"});
    check(event("im.message.recalled_v1", recalled), "recall oc_1 om_1 1764057700000");
    check(
        event("im.message.recalled_v1", json!({"message_id": "om_1", "chat_id": "oc_1"})),
        &format!("recall oc_1 om_1 {at}"),
    );
    let chat = json!({"chat_id": "oc_1", "name": "secret"});
    check(
        event("im.chat.member.bot.added_v1", chat.clone()),
        &format!("membership lark:chat:oc_1 true {at}"),
    );
    check(
        event("im.chat.member.bot.deleted_v1", chat.clone()),
        &format!("membership lark:chat:oc_1 false {at}"),
    );
    check(event("im.chat.disbanded_v1", chat.clone()), &format!("membership lark:chat:oc_1 false {at}"));
    check(
        event("im.chat.access_event.bot_p2p_chat_entered_v1", chat.clone()),
        &format!("entered lark:chat:oc_1 {at}"),
    );

    let first = |kind: &str| json!({"ts": "1764057600.5", "type": "event_callback", "event": with(chat.clone(), json!({"type": kind}))});
    check(first("add_bot"), &format!("membership lark:chat:oc_1 true {at}"));
    check(first("remove_bot"), &format!("membership lark:chat:oc_1 false {at}"));
    check(first("chat_disband"), &format!("membership lark:chat:oc_1 false {at}"));
    check(first("p2p_chat_create"), &format!("entered lark:chat:oc_1 {at}"));
    check(first("app_open"), "ignored app_open: holds no message of a chat");
}

#[test]
fn an_event_without_a_message_is_ignored() {
    let check = |event: Value, wanted: &str| {
        let Incoming::Ignored { kind, reason } = incoming(&event) else { panic!("{event}") };
        assert_eq!(kind, wanted);
        assert!(!reason.contains("secret"));
    };
    check(json!({}), "none");
    check(json!({"event": {}}), "none");
    check(json!({"event": "secret", "header": {"event_type": "x"}}), "none");
    check(json!({"type": "url_verification", "challenge": "secret"}), "none");
    check(event("im.message.message_read_v1", json!({"reader": "secret"})), "im.message.message_read_v1");
    check(event("im.later_v9", json!({"message": {"text": "secret"}})), "im.later_v9");
    for message in [
        json!(null),
        json!("secret"),
        p2p(json!({"message_id": ""})),
        p2p(json!({"message_id": "a\nb"})),
        p2p(json!({"chat_id": null})),
    ] {
        check(received(message), "im.message.receive_v1");
    }
    check(event("im.message.recalled_v1", json!({"chat_id": "oc_1"})), "im.message.recalled_v1");
    check(event("im.message.recalled_v1", json!({"message_id": "om_1"})), "im.message.recalled_v1");
    check(event("im.chat.disbanded_v1", json!({})), "im.chat.disbanded_v1");
    for other in [json!([]), json!("x"), json!(1), json!(null)] {
        assert_eq!(parse(&other, &bot(), &settings()), Err(ParseError::NotAnObject));
    }
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
