//! Rules of [`parse`], one by one.

use annals_core::access::{Access, Admission};
use annals_core::chat_key::ChatKey;
use annals_core::command::Command;
use annals_core::reply_token::ReplyToken;

use super::*;

#[test]
fn a_call_belongs_to_the_window_that_people_see() {
    let key = |fields: Value| draft(&ask(fields)).chat.to_string();
    assert_eq!(key(json!({})), "agent:annals:channel:290:645");
    for thread in [10, 11, 12] {
        let channel = json!({"id": "645", "type": thread, "parent_id": "7"});
        assert_eq!(key(json!({ "channel": channel })), "agent:annals:thread:290:645");
    }
    let user = json!({"id": "1033", "username": "ada"});
    let private = |context: Value| {
        let fields = json!({"guild_id": null, "member": null, "user": user, "context": context});
        draft(&ask(fields))
    };
    assert_eq!(private(json!(1)).chat.to_string(), "agent:annals:user:1033");
    assert!(private(json!(1)).metadata.is_private());
    for others in [json!(2), json!(null), json!("1x")] {
        let draft = private(others.clone());
        assert_eq!(draft.chat.to_string(), "agent:annals:channel:@me:645", "{others}");
        assert!(draft.metadata.is_group(), "the other people there can read it");
    }
    let in_guild = draft(&message(json!({})));
    assert_eq!(in_guild.chat.to_string(), "agent:annals:channel:290:645");
    let in_thread = draft(&message(json!({"channel_type": 12})));
    assert_eq!(in_thread.chat.to_string(), "agent:annals:thread:290:645");
    let direct = draft(&message(json!({"guild_id": null})));
    assert_eq!(
        (direct.chat.to_string().as_str(), direct.chat_id.as_str()),
        ("agent:annals:user:1033", "645")
    );
    assert_eq!(direct.sender(), "discord-1033");
}

#[test]
fn ids_times_and_token_come_from_the_call_alone() {
    let draft = draft(&ask(json!({})));
    assert_eq!(draft.message_id.as_str(), "1457536583141163186");
    assert_eq!(draft.ts.as_millis(), (1_457_536_583_141_163_186_i64 >> 22) + 1_420_070_400_000);
    let until = draft.ts.plus(std::time::Duration::from_secs(880));
    assert_eq!(draft.reply_token, Some(ReplyToken::new("s3cret", until)));
    let stored = format!("{draft:?}{}", json!(draft.metadata));
    assert!(!stored.contains("s3cret"), "the token is in no log and no message");
}

#[test]
fn a_question_is_deferred_and_what_is_not_known_is_told_to_its_sender_alone() {
    let response = |call: &Value| match events(call).response {
        Response::Json(body) => body,
        other => panic!("{other:?}"),
    };
    assert_eq!(response(&ask(json!({}))), json!({"type": 5}));
    let weather = ask(json!({"data": {"name": "weather", "type": 1}}));
    assert!(matches!(incoming(&weather), Incoming::Ignored { .. }));
    assert_eq!((&response(&weather)["type"], &response(&weather)["data"]["flags"]), (&json!(4), &json!(68)));
    assert_eq!(response(&ask(json!({"type": 4}))), json!({"type": 8, "data": {"choices": []}}));
    let Response::Json(refusal) = events(&ask(json!({}))).refusal else { panic!("no refusal") };
    assert_eq!((&refusal["type"], &refusal["data"]["flags"]), (&json!(4), &json!(68)));
    assert_eq!(events(&message(json!({}))).refusal, Response::Empty);
}

#[test]
fn a_message_asks_if_it_is_for_the_bot() {
    let asks = |fields: Value| draft(&message(fields)).asks;
    assert!(!asks(json!({})));
    assert!(asks(json!({"guild_id": null})));
    assert!(asks(mentioning(&format!("<@{APPLICATION_ID}> hello"))));
    assert!(asks(mentioning("hello")), "mentioned in a reply with a ping");
    let own = json!({"author": {"id": APPLICATION_ID}, "content": "In May."});
    assert!(asks(json!({"type": 19, "referenced_message": own})));
    assert!(!asks(json!({"mention_everyone": true, "content": "@everyone hello"})));
    let bot = json!({"id": "9", "username": "weather", "bot": true});
    assert!(!asks(with(mentioning("hello"), json!({ "author": bot }))));
    assert!(!asks(with(mentioning("hello"), json!({"webhook_id": "9"}))));
    let always = Settings { group_activation: GroupActivation::Always, ..settings() };
    let said = incoming_under(&message(json!({})), &always);
    assert!(draft_of(&said).unwrap().asks);
}

#[test]
fn a_mention_at_the_start_is_not_part_of_the_text_and_may_precede_a_command() {
    let said = |content: &str| shown(&draft(&message(mentioning(content))));
    assert_eq!(said(&format!("<@{APPLICATION_ID}> hello")), "hello");
    assert_eq!(said(&format!("<@!{APPLICATION_ID}>  hello")), "hello");
    assert_eq!(said(&format!("hello <@{APPLICATION_ID}>")), "hello @Annals");
    assert_eq!(said(&format!("<@{APPLICATION_ID}>")), "@Annals");
    let new = incoming(&message(mentioning(&format!("<@{APPLICATION_ID}> /new plan"))));
    let Incoming::Command { command, draft } = new else { panic!("{new:?}") };
    assert_eq!(command, Command::New { first_message: Some("plan".into()) });
    assert!(draft.asks);
    let others = incoming(&message(json!({"content": "/new plan"})));
    assert!(matches!(others, Incoming::Message(_)), "it may be for another bot");
}

#[test]
fn what_is_no_message_of_a_person_is_ignored_with_its_reason() {
    let reason = |call: &Value| match incoming(call) {
        Incoming::Ignored { reason, .. } => reason,
        other => panic!("{other:?}"),
    };
    assert!(reason(&message(json!({"content": ""}))).contains("MESSAGE_CONTENT"));
    assert!(reason(&message(json!({"author": {"id": APPLICATION_ID}}))).contains("own message"));
    let mut preview = message(json!({}));
    preview["t"] = json!("MESSAGE_UPDATE");
    assert!(reason(&preview).contains("not edited"));
    assert!(reason(&json!({"t": "TYPING_START", "d": {}})).contains("no message"));
}

#[test]
fn a_person_who_removes_the_app_cannot_be_written_to() {
    let event = |kind: &str, data: Value| {
        let event = json!({"type": kind, "timestamp": "2024-10-18T14:42:53.064834", "data": data});
        incoming(&json!({"application_id": APPLICATION_ID, "type": 1, "event": event}))
    };
    let chat = ChatKey::direct("annals", "1033").unwrap();
    let change = |can_write| Incoming::Membership {
        chat: chat.clone(),
        can_write,
        at: annals_core::sort_key::Timestamp::from_millis(1_729_262_573_064).unwrap(),
    };
    let user = json!({"id": "1033"});
    assert_eq!(event("APPLICATION_AUTHORIZED", json!({"integration_type": 1, "user": user})), change(true));
    assert_eq!(event("APPLICATION_DEAUTHORIZED", json!({ "user": user })), change(false));
    let of_guild =
        event("APPLICATION_AUTHORIZED", json!({"integration_type": 0, "user": user, "guild": {"id": "1"}}));
    assert!(matches!(of_guild, Incoming::Ignored { .. }));
}

#[test]
fn a_person_is_admitted_by_the_same_name_in_every_window() {
    let access = |persons: &[&str]| Access {
        persons: Some(persons.iter().map(|&person| person.to_owned()).collect()),
        chats: None,
    };
    let (ada, bo) = (access(&["discord-1033"]), access(&["discord-7"]));
    let (direct, group) = (draft(&message(json!({"guild_id": null}))), draft(&ask(json!({}))));
    assert_eq!((ada.of(&direct), ada.of(&group)), (Admission::Full, Admission::Full));
    assert_eq!((bo.of(&direct), bo.of(&group)), (Admission::Refused, Admission::Context));
    assert!(ada.may_hold(&direct.chat) && !bo.may_hold(&direct.chat));
    assert!(ada.admits_press(&direct) && ada.admits_press(&group) && !bo.admits_press(&group));
}
