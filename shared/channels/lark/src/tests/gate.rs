//! Tests of the gate and of commands.

use annals_core::command::Command;

use super::*;
use crate::parse::needs_open_id;

#[test]
fn the_gate_decides_which_messages_ask() {
    let check = |message: Value, wanted: bool| assert_eq!(draft(message.clone()).asks, wanted, "{message}");
    check(p2p(text("hi")), true);
    check(p2p(of_type("image", &json!({"image_key": "i"}))), true);
    check(p2p(of_type("merge_forward", &json!({}))), true);
    check(p2p(with(text("hi"), json!({"update_time": "1764057700000"}))), true);
    check(p2p(of_type("system", &json!({"template": "x"}))), false);

    check(group(text("hi")), false);
    check(group(mentioning("@_user_1 hi")), true);
    check(group(mentioning("hi")), true);
    check(group(with(mentioning("hi @_user_1"), json!({"thread_id": "omt_1"}))), true);
    let post = json!({"content": [[{"tag": "at", "user_id": "@_user_1"}, {"tag": "text", "text": " hi"}]]});
    check(group(with(mentions(), of_type("post", &post))), true);
    check(group(with(mentions(), of_type("system", &json!({"template": "x"})))), false);
    check(group(text("@_all hi")), false);
    let all = json!({"mentions": [{"key": "@_all", "id": {"open_id": "ou_annals"}, "name": "所有人"}]});
    check(group(with(text("@_all hi"), all)), false);
    let another = json!({"mentions": [{"key": "@_user_1", "id": {"open_id": "ou_weather"}, "mentioned_type": "bot", "name": "Weather"}]});
    check(group(with(text("@_user_1 hi"), another)), false);
    check(group(with(text("hi"), json!({"parent_id": "om_1"}))), false);

    // Bots never ask.
    for sender_type in ["bot", "app"] {
        let sender = json!({"sender_id": {"open_id": "ou_weather"}, "sender_type": sender_type});
        for message in [p2p(text("hi")), group(mentioning("@_user_1 /new hi"))] {
            let event = event("im.message.receive_v1", json!({"sender": sender, "message": message}));
            let Incoming::Message(draft) = incoming(&event) else { panic!("a message: {event}") };
            assert!(!draft.asks);
        }
    }
}

#[test]
fn group_activation_always_answers_every_person() {
    let always = Settings { group_activation: GroupActivation::Always, ..settings() };
    let check = |message: Value, wanted: bool| {
        let found = incoming_under(&received(message.clone()), &always);
        assert_eq!(draft_of(&found).unwrap().asks, wanted, "{message}");
    };
    check(group(text("hi")), true);
    check(group(of_type("image", &json!({"image_key": "i"}))), true);
    check(group(text("/weather Paris")), true);
    check(group(text("/weather@OtherBot Paris")), false);
    check(group(of_type("system", &json!({"template": "x"}))), false);
}

#[test]
fn commands_are_parsed_if_they_are_for_this_bot() {
    let check = |message: Value, wanted: Option<Command>| {
        let found = match incoming(&received(message.clone())) {
            Incoming::Command { command, draft } => {
                assert_eq!(draft.asks, matches!(command, Command::New { first_message: Some(_) }));
                Some(command)
            }
            _ => None,
        };
        assert_eq!(found, wanted, "{message}");
    };
    let new = |text: Option<&str>| Some(Command::New { first_message: text.map(str::to_owned) });
    for place in [p2p, group] {
        check(place(text("/new")), new(None));
        check(place(text(" /NEW  hi there")), new(Some("hi there")));
        check(place(mentioning("@_user_1 /new hi @_user_2")), new(Some("hi @Bo")));
        check(place(mentioning("@_user_1\u{a0}@_user_1/new")), new(None));
        check(place(mentioning("/new @_user_1 hi")), new(Some("hi")));
        check(place(mentioning("/new@_user_1 hi")), new(Some("hi")));
        check(place(mentioning("/new hi @_user_1")), new(Some("hi @Annals")));
        check(place(mentioning("@_user_2 /new")), None);
        check(place(text("/reset")), Some(Command::Reset));
        check(place(text("/help")), Some(Command::Help));
        check(place(text("/start")), Some(Command::Start));
        check(place(text("/weather")), None);
        check(place(text("@_all /new")), None);
        let post =
            |rows: Value| place(with(mentions(), of_type("post", &json!({"title": "", "content": rows}))));
        check(
            post(
                json!([[{"tag": "at", "user_id": "@_user_1"}, {"tag": "text", "text": " /new a"}], [{"tag": "text", "text": "b"}]]),
            ),
            new(Some("a\nb")),
        );
        check(post(json!([[{"tag": "text", "text": "/new"}], [{"tag": "img", "image_key": "i"}]])), None);
        check(place(of_type("interactive", &json!({"title": "/new", "elements": [[]]}))), None);
        // An edit is never a command: its first form was stored as a message.
        check(place(with(text("/new"), json!({"update_time": "1764057700000"}))), None);
    }
    check(p2p(text("/new@Anybody hi")), new(Some("hi")));
    check(group(text("/new@Anybody hi")), None);
    check(group(mentioning("/new@_user_2 hi")), None);
    check(group(mentioning("/new@_user_10")), None);
    // The typed text is stored unchanged.
    assert_eq!(shown(&draft(group(mentioning("@_user_1 /new hi")))), "@Annals /new hi");
}

#[test]
fn schema_1_commands_and_gating() {
    let check = |fields: Value, wanted: (bool, bool)| {
        let event = json!({"ts": "1764057600.5", "event": with(json!({
            "type": "message", "chat_type": "group", "open_chat_id": "oc_1", "open_message_id": "om_1",
            "open_id": "ou_ada", "msg_type": "text",
        }), fields)});
        let found = incoming(&event);
        let is_command = matches!(found, Incoming::Command { .. });
        assert_eq!((draft_of(&found).unwrap().asks, is_command), wanted, "{event}");
    };
    let at = "<at open_id=\"ou_annals\">@Annals</at>";
    check(json!({"text": "hi"}), (false, false));
    check(
        json!({"text": format!("{at} hi"), "text_without_at_bot": " hi", "is_mention": true}),
        (true, false),
    );
    check(
        json!({"text": format!("{at} /new"), "text_without_at_bot": " /new", "is_mention": true}),
        (false, true),
    );
    check(json!({"text": "hi", "chat_type": "private"}), (true, false));
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
    assert!(!needs_open_id(&event("im.message.recalled_v1", json!({}))) && !needs_open_id(&json!(5)));
    // Without the id, no mention counts as one of the bot.
    let nameless = Bot { open_id: None, ..bot() };
    let found = parse(&received(group(mentioning("@_user_1 hi"))), &nameless, &settings()).unwrap();
    assert!(!draft_of(&found[0]).unwrap().asks);
}
