//! Tests of the rules: keys, ids, times, gate, commands, migrations, memberships.

use annals_channel::webhook::ParseError;
use annals_core::approval::Button;
use annals_core::command::Command;
use annals_core::record::Kind;

use super::*;
use crate::parse::needs_username;

fn mention(text: &str) -> Value {
    let offset = text[..text.find('@').unwrap()].encode_utf16().count();
    json!([{"type": "mention", "offset": offset, "length": 10}])
}

fn command(text: &str) -> Value {
    let length = text.split_whitespace().next().unwrap().len();
    json!([{"type": "bot_command", "offset": 0, "length": length}])
}

#[test]
fn the_chat_key_names_the_window_and_the_topic() {
    let check = |message: Value, wanted: &str| {
        assert_eq!(draft("message", &message).chat.to_string(), wanted, "{message}");
    };
    check(private(json!({"text": "x"})), "telegram:chat:11");
    check(group(json!({"text": "x"})), "telegram:chat:-1001");
    check(
        group(json!({"text": "x", "message_thread_id": 17, "is_topic_message": true})),
        "telegram:chat:-1001:topic:17",
    );
    // Threads of replies, and General, are not topics.
    check(group(json!({"text": "x", "message_thread_id": 17})), "telegram:chat:-1001");
    check(
        group(json!({"text": "x", "message_thread_id": 17, "is_topic_message": false})),
        "telegram:chat:-1001",
    );
    check(
        group(json!({"text": "x", "direct_messages_topic": {"topic_id": 88}})),
        "telegram:chat:-1001:topic:88",
    );
    check(private(json!({"text": "x", "chat": {"id": "11"}})), "telegram:chat:11");
}

#[test]
fn direct_messages_cross_channels_under_dm_scope_user() {
    let user = Settings { dm_scope: DmScope::User, ..settings() };
    let check = |kind: &str, message: Value, wanted: &str| {
        let found = incoming_under(kind, &message, &user);
        let draft = draft_of(&found).unwrap();
        assert_eq!((draft.chat.to_string().as_str(), draft.chat_id.starts_with("telegram")), (wanted, false));
    };
    check("message", private(json!({"text": "x"})), "agent:annals:user:telegram-11");
    check("edited_message", private(json!({"text": "x"})), "agent:annals:user:telegram-11");
    check("message", group(json!({"text": "x"})), "telegram:chat:-1001");
    check("business_message", private(json!({"text": "x"})), "telegram:chat:11");
    check("guest_message", private(json!({"text": "x"})), "telegram:chat:11");
    let broken = Settings { agent_id: String::new(), ..user };
    let update = json!({"update_id": 1, "message": private(json!({"text": "x"}))});
    assert!(matches!(parse(&update, &bot(), &broken), Err(ParseError::AgentId(_))));
}

#[test]
fn a_press_belongs_to_the_chat_of_the_message_with_the_button() {
    let button = Button { id: "5f2b81c09a3de417".into(), base: None, approved: true };
    let check = |scope: DmScope, message: Value, (chat, line): (&str, Option<&str>)| {
        let settings = Settings { dm_scope: scope, ..settings() };
        let query = json!({"id": "q", "data": button.data(), "from": {"id": 11}, "message": message});
        let Incoming::Press(press) = incoming_under("callback_query", &query, &settings) else {
            panic!("{query}")
        };
        assert_eq!((press.by.chat.to_string().as_str(), &press.button), (chat, &button), "{message}");
        let said = &press.by.metadata;
        assert_eq!(
            said.fields().get("telegram"),
            line.map(|id| json!({"businessConnectionId": id})).as_ref()
        );
        let under = (press.details.under.message_id, press.details.under.business_connection_id.as_deref());
        assert_eq!(under, (5, line));
    };
    let (own, sold) = (private(json!({})), private(json!({"business_connection_id": "bc_9f2"})));
    check(DmScope::Chat, own.clone(), ("telegram:chat:11", None));
    check(DmScope::User, own, ("agent:annals:user:telegram-11", None));
    check(DmScope::Chat, sold.clone(), ("telegram:chat:11", Some("bc_9f2")));
    check(DmScope::User, sold, ("telegram:chat:11", Some("bc_9f2")));
    check(DmScope::User, group(json!({})), ("telegram:chat:-1001", None));
}

#[test]
fn ids_and_times_come_from_the_event() {
    let check = |kind: &str, message: Value, wanted: (&str, i64, Option<i64>)| {
        let draft = draft(kind, &message);
        let form = draft.form_ts.map(|ts| ts.as_millis() / 1000);
        assert_eq!((draft.message_id.as_str(), draft.ts.as_millis() / 1000, form), wanted, "{message}");
    };
    check("message", private(json!({"text": "x"})), ("5", 1_764_057_600, Some(1_764_057_600)));
    check(
        "edited_message",
        private(json!({"text": "x", "edit_date": 1_764_057_700})),
        ("5", 1_764_057_600, Some(1_764_057_700)),
    );
    check(
        "message",
        private(json!({"text": "x", "message_id": 0})),
        ("u900", 1_764_057_600, Some(1_764_057_600)),
    );
    check("message", private(json!({"text": "x", "message_id": null, "date": null})), ("u900", 0, None));
    check("message", private(json!({"text": "x", "message_id": -3, "date": -3})), ("u900", 0, Some(0)));
    check(
        "message",
        private(json!({"text": "x", "date": i64::MAX})),
        ("5", 9_999_999_999, Some(9_999_999_999)),
    );
}

#[test]
fn messages_of_one_second_keep_the_platforms_order() {
    let at = |id: i64| draft("message", &private(json!({"text": "x", "message_id": id}))).key();
    assert!(at(9) < at(10) && at(99) < at(100));
    let edit =
        draft("edited_message", &private(json!({"text": "y", "message_id": 9, "edit_date": 1_764_057_700})));
    assert_eq!(edit.key(), at(9));
}

#[test]
fn the_sender_is_the_person_or_the_chat_they_write_as() {
    let check = |fields: Value, wanted: &str| {
        let draft = draft("message", &group(fields));
        assert_eq!((draft.user_id.as_str(), draft.actor().is_ok()), (wanted, true));
    };
    let anonymous = json!({"id": 1_087_968_824, "is_bot": true, "first_name": "Group"});
    check(json!({"text": "x"}), "11");
    check(json!({"text": "x", "from": anonymous, "sender_chat": {"id": -1001}}), "-1001");
    check(json!({"text": "x", "from": anonymous}), "1087968824");
    check(json!({"text": "x", "from": null, "sender_chat": {"id": -1002}}), "-1002");
    check(json!({"text": "x", "from": null}), "-1001");
    check(
        json!({"text": "x", "from": {"id": 136_817_688, "is_bot": true}, "sender_chat": {"id": -1003}}),
        "-1003",
    );
}

#[test]
fn the_gate_decides_which_messages_ask() {
    let check = |kind: &str, message: Value, wanted: bool| {
        assert_eq!(draft(kind, &message).asks, wanted, "{kind} {message}");
    };
    let bot = json!({"id": 7_000_001, "is_bot": true, "first_name": "Annals"});
    let other_bot = json!({"id": 7_000_002, "is_bot": true, "first_name": "Weather"});
    let hi = "👍 @annalsbot hi";
    let said = |from: &Value| group(json!({"text": hi, "entities": mention(hi), "from": from}));

    // Private chats.
    check("message", private(json!({"text": "hi"})), true);
    check("edited_message", private(json!({"text": "hi"})), true);
    check("message", private(json!({"text": "hi", "from": other_bot})), false);
    check("message", private(json!({"text": "hi", "via_bot": bot})), false);
    check("message", private(json!({"text": "hi", "via_bot": other_bot})), true);
    check("message", private(json!({"pinned_message": {"text": "x"}})), false);
    check("message", private(json!({"location": {"latitude": 1.0, "longitude": 2.0}})), true);
    check("edited_message", private(json!({"location": {"latitude": 1.0, "longitude": 2.0}})), false);

    // Groups: a mention, in text and caption, with and without entities.
    check("message", group(json!({"text": "hi"})), false);
    check("message", group(json!({"text": hi, "entities": mention(hi)})), true);
    check("edited_message", group(json!({"text": hi, "entities": mention(hi)})), true);
    check("message", group(json!({"caption": hi, "caption_entities": mention(hi), "photo": []})), true);
    check("message", group(json!({"text": hi})), true);
    check("message", group(json!({"text": "mail me@annalsbot or @annalsbot_two"})), false);
    check("message", group(json!({"text": hi, "entities": []})), false);
    check(
        "message",
        group(
            json!({"rich_message": {"blocks": [{"text": ["hi ", {"type": "mention", "text": "@AnnalsBot"}]}]}}),
        ),
        true,
    );
    let by_name = json!([{"type": "text_mention", "offset": 0, "length": 2, "user": bot}]);
    check("message", group(json!({"text": "hi", "entities": by_name})), true);

    // Groups: a reply to the bot asks; a reply to a topic's service message does not.
    check("message", group(json!({"text": "hi", "reply_to_message": {"from": bot, "text": "x"}})), true);
    check(
        "message",
        group(json!({"text": "hi", "reply_to_message": {"from": other_bot, "text": "x"}})),
        false,
    );
    check(
        "message",
        group(json!({"text": "hi", "reply_to_message": {"from": bot, "forum_topic_created": {"name": "T"}}})),
        false,
    );

    // Groups: a command that does not name another bot asks.
    for (text, wanted) in [("/weather", true), ("/weather@ANNALSBOT x", true), ("/weather@other_bot", false)]
    {
        check("message", group(json!({"text": text, "entities": command(text)})), wanted);
        check("message", group(json!({"text": text})), wanted);
    }

    // Bots never ask; accounts that Telegram uses for people do.
    check("message", said(&other_bot), false);
    check("edited_message", said(&other_bot), false);
    check("channel_post", said(&other_bot), false);
    check("message", said(&json!({"id": 1_087_968_824, "is_bot": true})), true);
    check("message", said(&json!({"id": 136_817_688, "is_bot": true})), true);
    check("message", said(&json!({"id": 777_000, "is_bot": false})), false);
    check("message", with(said(&json!({"id": 12})), json!({"is_automatic_forward": true})), false);

    // Channels, guest queries, and unknown kinds.
    let post = |text: &str| json!({"message_id": 1, "date": 1, "chat": {"id": -1002, "type": "channel"}, "text": text});
    check("channel_post", post("hi"), false);
    check("channel_post", post(hi), true);
    check("guest_message", group(json!({"text": "hi"})), false);
    check("guest_message", group(json!({"text": "hi", "from": other_bot})), false);
    check("hologram_message", private(json!({"text": "hi"})), false);

    // Business: the customer asks, the owner and their bots do not.
    check("business_message", private(json!({"text": "hi"})), true);
    check("edited_business_message", private(json!({"text": "hi"})), true);
    check("business_message", private(json!({"text": "hi", "from": {"id": 12, "is_bot": false}})), false);
    check("business_message", private(json!({"text": "hi", "sender_business_bot": other_bot})), false);
}

#[test]
fn group_activation_always_answers_every_person() {
    let always = Settings { group_activation: GroupActivation::Always, ..settings() };
    let check = |kind: &str, message: Value, wanted: bool| {
        let found = incoming_under(kind, &message, &always);
        assert_eq!(draft_of(&found).unwrap().asks, wanted, "{message}");
    };
    check("message", group(json!({"text": "hi"})), true);
    check(
        "channel_post",
        json!({"message_id": 1, "date": 1, "chat": {"id": -1002, "type": "channel"}, "text": "x"}),
        true,
    );
    check("message", group(json!({"text": "hi", "from": {"id": 7_000_002, "is_bot": true}})), false);
    check("message", group(json!({"new_chat_title": "T"})), false);
    check("message", group(json!({"text": "/weather@other_bot"})), false);
    check("message", group(json!({"text": "/weather@AnnalsBot"})), true);
    check("message", group(json!({"text": "hi", "is_automatic_forward": true})), false);
}

#[test]
fn commands_are_parsed_if_they_are_for_this_bot() {
    let check = |kind: &str, message: Value, wanted: Option<Command>| {
        let found = match incoming(kind, &message) {
            Incoming::Command { command, draft } => {
                assert_eq!(draft.asks, matches!(command, Command::New { first_message: Some(_) }));
                assert!(shown(&draft).starts_with('/'));
                Some(command)
            }
            _ => None,
        };
        assert_eq!(found, wanted, "{kind} {message}");
    };
    let new = |text: Option<&str>| Some(Command::New { first_message: text.map(str::to_owned) });
    for place in [private, group] {
        let typed = |text: &str| place(json!({"text": text, "entities": command(text)}));
        check("message", typed("/new"), new(None));
        check("message", typed("/New@annalsBOT hello"), new(Some("hello")));
        check("message", typed("/reset"), Some(Command::Reset));
        check("message", typed("/start payload"), Some(Command::Start));
        check("message", typed("/help"), Some(Command::Help));
        check("message", place(json!({"text": "/new hand-made"})), new(Some("hand-made")));
        check("message", typed("/new@other_bot"), None);
        check("message", typed("/weather"), None);
        check("edited_message", typed("/new"), None);
        check("message", with(typed("/new"), json!({"from": {"id": 12, "is_bot": true}})), None);
        // By their entities, these are not commands.
        check("message", place(json!({"text": "/new", "entities": []})), None);
        check(
            "message",
            place(json!({"text": "x /new", "entities": [{"type": "bot_command", "offset": 2, "length": 4}]})),
            None,
        );
        // A caption's medium would be lost with the command.
        check("message", place(json!({"caption": "/new", "photo": []})), None);
    }
    check("business_message", private(json!({"text": "/new"})), new(None));
    check("business_message", private(json!({"text": "/new", "from": {"id": 12}})), None);
    check(
        "message",
        group(json!({"text": "/new", "from": {"id": 1_087_968_824, "is_bot": true}})),
        new(None),
    );
}

#[test]
fn an_unknown_bot_name_is_taken_for_the_bots_only_in_a_private_chat() {
    let nameless = Bot { username: None, ..bot() };
    let check = |message: Value, wanted: bool| {
        let update = json!({"update_id": 1, "message": message});
        let found = parse(&update, &nameless, &settings()).unwrap();
        assert_eq!(matches!(found[0], Incoming::Command { .. }), wanted, "{message}");
    };
    check(private(json!({"text": "/new@SomeBot"})), true);
    check(group(json!({"text": "/new@SomeBot"})), false);
    check(group(json!({"text": "/new"})), true);
}

#[test]
fn the_bots_name_is_required_only_if_it_matters() {
    let check = |kind: &str, message: Value, wanted: bool| {
        assert_eq!(needs_username(&json!({"update_id": 1, kind: message})), wanted, "{message}");
    };
    let hi = "hi @AnnalsBot";
    check("message", group(json!({"text": hi, "entities": mention(hi)})), true);
    check("message", group(json!({"caption": hi, "caption_entities": mention(hi)})), true);
    check("message", group(json!({"text": hi})), true);
    check("message", group(json!({"text": "/new@AnnalsBot"})), true);
    check("message", private(json!({"text": "/new@AnnalsBot"})), true);
    check("message", private(json!({"text": hi, "entities": mention(hi)})), false);
    check("message", group(json!({"text": "/new"})), false);
    check("message", group(json!({"text": "hi"})), false);
    check("guest_message", group(json!({"text": hi, "entities": mention(hi)})), false);
    check("poll", json!({"question": "@?"}), false);
    assert!(!needs_username(&json!([])));
}

#[test]
fn a_migration_is_reported_in_both_chats() {
    let old = group(json!({"chat": {"id": -55, "type": "group"}, "migrate_to_chat_id": -1009}));
    let new = group(json!({"chat": {"id": -1009, "type": "supergroup"}, "migrate_from_chat_id": -55}));
    for (message, own) in [(old, "telegram:chat:-55"), (new, "telegram:chat:-1009")] {
        let Incoming::Migration { old, new, at, event } = incoming("message", &message) else {
            panic!("a migration: {message}")
        };
        assert_eq!(
            (old.to_string().as_str(), new.to_string().as_str()),
            ("telegram:chat:-55", "telegram:chat:-1009")
        );
        assert_eq!(
            (event.chat.to_string().as_str(), event.kind, event.asks, event.ts),
            (own, Kind::Event, false, at)
        );
    }
    // Seen in practice: a group that migrates to itself.
    let itself = group(json!({"migrate_to_chat_id": -1001}));
    assert!(matches!(incoming("message", &itself), Incoming::Message(_)));
}

#[test]
fn a_membership_tells_if_the_bot_can_write() {
    let check = |member: Value, wanted: Option<bool>| {
        let change = json!({"chat": {"id": 11, "type": "private"}, "date": 1, "new_chat_member": member});
        let found = match incoming("my_chat_member", &change) {
            Incoming::Membership { chat, can_write, .. } => {
                assert_eq!(chat.to_string(), "telegram:chat:11");
                Some(can_write)
            }
            _ => None,
        };
        assert_eq!(found, wanted, "{member}");
    };
    for (status, wanted) in
        [("creator", true), ("administrator", true), ("member", true), ("left", false), ("kicked", false)]
    {
        check(json!({"status": status}), Some(wanted));
    }
    check(json!({"status": "restricted", "can_send_messages": true}), Some(true));
    check(json!({"status": "restricted"}), Some(false));
    check(json!({"status": "teleported"}), None);
    check(json!(null), None);
}

#[test]
fn an_update_without_a_message_is_ignored() {
    let check = |update: Value, wanted: &str| {
        let found = parse(&update, &bot(), &settings()).unwrap();
        let [Incoming::Ignored { kind, reason }] = &found[..] else { panic!("{update}: {found:?}") };
        assert_eq!(kind, wanted);
        assert!(!reason.contains("secret"));
    };
    check(json!({}), "none");
    check(json!({"update_id": 1}), "none");
    check(json!({"update_id": 1, "message": null}), "message");
    check(json!({"update_id": 1, "message": "secret"}), "message");
    check(json!({"update_id": 1, "message": {"text": "secret"}}), "message");
    check(json!({"update_id": 1, "message": {"text": "secret", "chat": {"id": {}}}}), "message");
    check(json!({"message": {"text": "secret", "chat": {"id": 1}}}), "message");
    check(json!({"update_id": 1, "poll": {"question": "secret"}}), "poll");
    check(json!({"update_id": 1, "callback_query": {"data": "secret"}}), "callback_query");
    check(json!({"update_id": 1, "hologram": {"text": "secret"}}), "hologram");
    check(json!({"update_id": 1, "wave": {"chat": {"id": 1}, "message_id": 2, "date": 3}}), "wave");
    let own =
        private(json!({"text": "secret", "from": {"id": 12}, "sender_business_bot": {"id": 7_000_001}}));
    check(json!({"update_id": 1, "business_message": own}), "business_message");
    for other in [json!([]), json!("x"), json!(1), json!(null)] {
        assert_eq!(parse(&other, &bot(), &settings()), Err(ParseError::NotAnObject));
    }
}

#[test]
fn an_update_with_two_messages_gives_both() {
    let update = json!({
        "update_id": 1, "message": private(json!({"text": "a"})), "edited_message": group(json!({"text": "b"})),
    });
    let found = parse(&update, &bot(), &settings()).unwrap();
    let texts: Vec<String> = found.iter().filter_map(draft_of).map(shown).collect();
    assert_eq!(texts, ["a", "b"]);
}
