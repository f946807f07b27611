//! Rules of [`parse`], one by one.

use annals_channel::testing::check_rules;
use annals_core::markup;
use annals_core::message::{Role, UiMessage};
use annals_core::reply_token::ReplyToken;
use proptest::prelude::*;

use super::*;

/// `rules.json`: interactions and messages of Ada, by the fields that they have beyond [`ask`] or [`message`].
#[test]
fn each_case_follows_its_rule() {
    let call = |case: &Value| match case.get("ask") {
        Some(fields) => ask(fields.clone()),
        None => message(case["message"].clone()),
    };
    check_rules(include_str!("rules.json"), call, parsed);
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
    let Response::Json(told) = events(&ask(json!({}))).not_allowed else { panic!("nothing is told") };
    assert_eq!((&told["type"], &told["data"]["flags"]), (&json!(4), &json!(68)));
    assert_eq!(events(&message(json!({}))).not_allowed, Response::Empty);
}

#[test]
fn a_mention_at_the_start_is_not_part_of_the_text() {
    let said = |content: &str| shown(&draft(&message(mentioning(content))));
    assert_eq!(said(&format!("<@{APPLICATION_ID}> hello")), "hello");
    assert_eq!(said(&format!("<@!{APPLICATION_ID}>  hello")), "hello");
    assert_eq!(said(&format!("hello <@{APPLICATION_ID}>")), "hello @Annals");
    assert_eq!(said(&format!("<@{APPLICATION_ID}>")), "@Annals");
}

#[test]
fn a_mention_in_a_question_is_a_name() {
    let options = json!([{"name": "prompt", "type": 3, "value": "what do <@7> and <@!8> think?"}]);
    let resolved = json!({
        "users": {"7": {"id": "7", "username": "bo"}, "8": {"id": "8", "username": "cy", "global_name": "Cy"}},
        "members": {"7": {"nick": "Bo"}},
    });
    let data = json!({"name": "ask", "type": 1, "options": options, "resolved": resolved});
    assert_eq!(shown(&draft(&ask(json!({ "data": data })))), "what do @Bo and @Cy think?");
}

#[test]
fn texts_of_components_are_read_at_any_depth() {
    let text = |content: &str| json!({"type": 10, "content": content});
    let section = json!({"type": 9, "components": [text("b")], "accessory": {"type": 2, "label": "Open"}});
    let container = json!({"type": 17, "components": [section, {"type": 14}]});
    let author = json!({"id": "9", "username": "deploy", "bot": true});
    let sent = json!({"content": "", "flags": 32768, "author": author, "components": [text("a"), container]});
    assert_eq!(shown(&draft(&message(sent.clone()))), "a\nb");
    let about = |message: Value| {
        let resolved = json!({"messages": {"8": message}});
        let data = json!({"name": "Answer this", "type": 3, "target_id": "8", "resolved": resolved});
        ask(json!({ "data": data }))
    };
    assert_eq!(shown(&draft(&about(sent))), "Answer this message of deploy:\n\na\nb");
    assert!(matches!(incoming(&about(json!({"content": ""}))), Incoming::Ignored { .. }));
}

#[test]
fn what_a_message_replies_to_is_kept_with_the_names_of_its_files() {
    let file = json!({"url": "https://cdn.discordapp.com/attachments/1/2/a.png", "filename": "a.png", "content_type": "image/png"});
    let original = json!({
        "author": {"id": "7", "username": "bo"}, "attachments": [file],
        "content": "<@1033>: frost kills beans", "mentions": [{"id": "1033", "username": "ada"}],
    });
    let fields =
        json!({"type": 19, "message_reference": {"message_id": "9"}, "referenced_message": original});
    let mut said = UiMessage::text("", Role::User, "");
    said.metadata = draft(&message(fields)).metadata;
    let told = "[in reply to bo: \"@ada: frost kills beans [file a.png, image/png, image]\"]";
    assert_eq!(markup::about(&said).collect::<String>(), told);
}

proptest! {
    #[test]
    fn any_text_is_kept_complete(text in "\\PC{1,60}") {
        prop_assume!(!text.trim().is_empty());
        let options = json!([{"name": "prompt", "type": 3, "value": &text}]);
        let asked = draft(&ask(json!({"data": {"name": "ask", "type": 1, "options": options}})));
        prop_assert_eq!(shown(&asked), text.clone());
        let said = shown(&draft(&message(json!({"content": &text, "guild_id": null}))));
        prop_assert_eq!(said.trim(), text.trim());
    }
}
