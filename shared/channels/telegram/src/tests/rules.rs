//! Tests of the rules: keys, ids, times, gate, commands, migrations, memberships.

use annals_channel::testing::{check_not_events, check_rules, only};
use annals_core::approval::Button;

use super::*;
use crate::buttons::Keyboard;
use crate::parse::needs_username;

fn mention(text: &str) -> Value {
    let offset = text[..text.find('@').unwrap()].encode_utf16().count();
    json!([{"type": "mention", "offset": offset, "length": 10}])
}

fn command(text: &str) -> Value {
    let length = text.split_whitespace().next().unwrap().len();
    json!([{"type": "bot_command", "offset": 0, "length": length}])
}

/// `rules.json`: messages of Ada, by the fields that they have beyond [`private`] or [`group`], new members, and whole
/// updates.
#[test]
fn each_case_follows_its_rule() {
    check_rules(include_str!("rules.json"), update, parsed);
}

pub(super) fn update(case: &Value) -> Value {
    if let Some(update) = case.get("update") {
        return update.clone();
    }
    if let Some(member) = case.get("change") {
        let change = json!({"chat": {"id": 11, "type": "private"}, "date": 1, "new_chat_member": member});
        return json!({"my_chat_member": change});
    }
    let message = case.get("group").map_or_else(|| private(case["private"].clone()), |f| group(f.clone()));
    let entities =
        ["text", "caption"].iter().zip(["entities", "caption_entities"]).filter_map(|(text, name)| {
            let text = message[text].as_str()?;
            match message[name].as_str()? {
                "mention" => Some((name.to_owned(), mention(text))),
                _ => Some((name.to_owned(), command(text))),
            }
        });
    let message = with(message.clone(), Value::Object(entities.collect()));
    json!({"update_id": 900, case["kind"].as_str().unwrap_or("message"): message})
}

#[test]
fn what_is_no_update_is_an_error() {
    check_not_events(parsed);
}

#[test]
fn an_update_with_two_messages_gives_both() {
    let update = json!({
        "update_id": 1, "message": private(json!({"text": "a"})), "edited_message": group(json!({"text": "b"})),
    });
    let found = parsed(&update, &settings()).unwrap();
    let texts: Vec<String> = found.iter().filter_map(draft_of).map(shown).collect();
    assert_eq!(texts, ["a", "b"]);
}

#[test]
fn a_press_belongs_to_the_chat_of_the_message_with_the_button() {
    let button = Button { id: "5f2b81c09a3de417".into(), base: None, approved: true };
    let check = |scope: DmScope, message: Value, (chat, line): (&str, Option<&str>)| {
        let settings = Settings { dm_scope: scope, ..settings() };
        let query = json!({"id": "q", "data": button.data(), "from": {"id": 11}, "message": message});
        let Incoming::Press(press) = only(parsed(&json!({"callback_query": &query}), &settings)) else {
            panic!("{query}")
        };
        assert_eq!((press.by.chat.to_string().as_str(), &press.button), (chat, &button), "{message}");
        let said = &press.by.metadata;
        assert_eq!(
            said.fields().get("telegram"),
            line.map(|id| json!({"businessConnectionId": id})).as_ref()
        );
        let under = Keyboard::of(&press.details, &press.button).unwrap().under;
        assert_eq!((under.message_id, under.business_connection_id.as_deref()), (5, line));
    };
    let (own, sold) = (private(json!({})), private(json!({"business_connection_id": "bc_9f2"})));
    check(DmScope::Chat, own.clone(), ("telegram:chat:11", None));
    check(DmScope::User, own, ("agent:annals:user:telegram-11", None));
    check(DmScope::Chat, sold.clone(), ("telegram:chat:11", Some("bc_9f2")));
    check(DmScope::User, sold, ("telegram:chat:11", Some("bc_9f2")));
    check(DmScope::User, group(json!({})), ("telegram:chat:-1001", None));
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
    let command = "@AnnalsBot /new";
    let entities = json!([mention(command)[0], {"type": "bot_command", "offset": 11, "length": 4}]);
    check("message", private(json!({"text": command, "entities": entities})), true);
    check("message", group(json!({"text": "/new"})), false);
    check("message", group(json!({"text": "hi"})), false);
    check("poll", json!({"question": "@?"}), false);
    assert!(!needs_username(&json!([])));
}
