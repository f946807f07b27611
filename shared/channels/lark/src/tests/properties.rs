//! Property tests: no JSON makes the parser panic, and the same event gives the same result.

use proptest::prelude::*;
use serde_json::Map;

use super::rules::record;
use super::*;
use crate::address::Address;
use crate::listed::{from_listed, with_children};
use crate::parse::{has_own_time, missing_thread, needs_open_id};
use crate::recall::places;

/// Field names that the parser reads, so that random objects reach its branches.
const NAMES: &[&str] = &[
    "app_id",
    "body",
    "chat_id",
    "chat_type",
    "content",
    "create_time",
    "deleted",
    "duration",
    "due_time",
    "elements",
    "en_us",
    "end_time",
    "event",
    "event_type",
    "file_key",
    "file_name",
    "header",
    "href",
    "i18n_text",
    "id",
    "id_type",
    "image_key",
    "image_keys",
    "is_mention",
    "key",
    "latitude",
    "longitude",
    "mentions",
    "message",
    "message_id",
    "message_type",
    "msg_type",
    "name",
    "open_chat_id",
    "open_id",
    "open_message_id",
    "operator_id",
    "options",
    "parent_id",
    "post",
    "recall_time",
    "root_id",
    "sender",
    "sender_id",
    "sender_type",
    "start_time",
    "summary",
    "tag",
    "template",
    "text",
    "text_without_at_bot",
    "thread_id",
    "title",
    "topic",
    "ts",
    "type",
    "union_id",
    "update_time",
    "upper_message_id",
    "user_id",
    "user_name",
    "zh_cn",
];

const WORDS: &[&str] = &[
    "",
    "-1",
    "1502199207.71",
    "1764057600000",
    "99999999999999999999",
    "@_all",
    "@_user_1",
    "@_user_1 /new@_user_10 hi",
    "/new 👍",
    "<at open_id=\"x\">@A</at> hi",
    "a",
    "app",
    "at",
    "audio",
    "button",
    "calendar",
    "code_block",
    "file",
    "group",
    "im.chat.disbanded_v1",
    "im.message.recalled_v1",
    "im.message.receive_v1",
    "image",
    "img",
    "interactive",
    "media",
    "merge_forward",
    "message",
    "om_5",
    "omt_1",
    "ou_annals",
    "p2p",
    "post",
    "system",
    "text",
    "todo",
    "topic_group",
    "vote",
    "{a} and {b",
    "{\"text\": \"@_user_1 hi\"}",
    "{\"zh_cn\": {\"content\": [[{\"tag\": \"at\"}]]}}",
];

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        prop::sample::select(WORDS).prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            4 => prop::collection::vec((prop::sample::select(NAMES).prop_map(str::to_owned), inner), 0..8)
                .prop_map(|entries| Value::Object(entries.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// Puts `value` at `path`; indices wrap around at the number of fields or items.
fn mutate(into: &mut Value, path: &[usize], value: Value) {
    let Some((step, rest)) = path.split_first() else {
        *into = value;
        return;
    };
    let next = match into {
        Value::Object(fields) if !fields.is_empty() => {
            let at = step % fields.len();
            fields.values_mut().nth(at)
        }
        Value::Array(items) if !items.is_empty() => {
            let at = step % items.len();
            items.get_mut(at)
        }
        _ => None,
    };
    match next {
        Some(next) => mutate(next, rest, value),
        None => *into = value,
    }
}

fn survives(event: &Value) -> Result<(), TestCaseError> {
    let found = parse(event, &bot(), &settings());
    prop_assert_eq!(&parse(event, &bot(), &settings()), &found);
    prop_assert_eq!(found.is_err(), !event.is_object());
    let _ = (needs_open_id(event), has_own_time(event), missing_thread(event));
    for draft in found.iter().flatten().filter_map(draft_of) {
        sound(draft)?;
    }
    Ok(())
}

fn sound(draft: &Draft) -> Result<(), TestCaseError> {
    prop_assert!(!draft.parts.is_empty());
    prop_assert!(draft.actor().is_ok());
    let key = draft.chat.to_string().parse();
    prop_assert_eq!(key.as_ref(), Ok(&draft.chat));
    prop_assert!(Address::of(&record(draft)).is_some());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn arbitrary_json_never_panics(event in any_json()) {
        survives(&event)?;
    }

    #[test]
    fn an_arbitrary_message_never_panics(fields in any_json(), kind in prop::sample::select(WORDS)) {
        survives(&event(kind, fields.clone()))?;
        survives(&json!({"ts": "1764057600.5", "event": with(json!({"type": "message", "open_chat_id": "oc_1", "open_message_id": "om_1"}), fields.clone())}))?;
        survives(&received(p2p(of_type(kind, &fields))))?;
        survives(&received(group(with(mentions(), of_type(kind, &fields)))))?;
        survives(&received(p2p(fields.clone())))?;
        survives(&received(group(fields)))?;
    }

    #[test]
    fn mutated_fixtures_never_panic(
        pick in any::<prop::sample::Index>(),
        path in prop::collection::vec(0..12_usize, 1..6),
        value in any_json(),
    ) {
        let mut event = pick.get(fixtures::own()).1.clone();
        mutate(&mut event, &path, value);
        survives(&event)?;
    }

    #[test]
    fn arbitrary_items_never_panic(item in any_json(), fields in any_json()) {
        let beside = draft(group(mentioning("@_user_1 so?")));
        let near = with(json!({"message_id": "om_6", "chat_id": "oc_group", "upper_message_id": "om_5"}), fields);
        for item in [&item, &near] {
            let _ = places(item, &settings());
            if let Some(draft) = from_listed(item, &beside, &bot(), &settings()) {
                sound(&draft)?;
                prop_assert!(!draft.asks);
            }
        }
        sound(&with_children(beside, &[item, near]))?;
    }

    #[test]
    fn any_text_is_kept_complete(text in "[^@]{1,60}") {
        let draft = draft(p2p(self::text(&text)));
        prop_assert_eq!(shown(&draft), text);
    }
}
