//! Property tests: no JSON makes the parser panic, and the same update gives the same result.

use proptest::prelude::*;
use serde_json::Map;

use super::*;
use crate::parse::needs_username;

/// Field names that the parser reads, so that random objects reach its branches.
const NAMES: &[&str] = &[
    "update_id",
    "message",
    "edited_message",
    "channel_post",
    "business_message",
    "guest_message",
    "my_chat_member",
    "later_message",
    "message_id",
    "date",
    "edit_date",
    "chat",
    "id",
    "type",
    "title",
    "from",
    "is_bot",
    "first_name",
    "sender_chat",
    "text",
    "caption",
    "entities",
    "caption_entities",
    "offset",
    "length",
    "user",
    "url",
    "photo",
    "file_id",
    "width",
    "height",
    "sticker",
    "document",
    "animation",
    "poll",
    "options",
    "question",
    "location",
    "venue",
    "latitude",
    "longitude",
    "contact",
    "checklist",
    "tasks",
    "rich_message",
    "blocks",
    "reply_to_message",
    "external_reply",
    "origin",
    "quote",
    "forward_origin",
    "pinned_message",
    "migrate_to_chat_id",
    "migrate_from_chat_id",
    "message_thread_id",
    "is_topic_message",
    "direct_messages_topic",
    "topic_id",
    "media_group_id",
    "new_chat_members",
    "new_chat_member",
    "status",
    "hologram",
];

const WORDS: &[&str] = &[
    "private",
    "supergroup",
    "channel",
    "mention",
    "bot_command",
    "text_link",
    "text_mention",
    "/new@AnnalsBot 👍",
    "@AnnalsBot",
    "",
    "member",
];

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0..20_i64).prop_map(Value::from),
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

fn survives(update: &Value) -> Result<(), TestCaseError> {
    let found = parse(update, &bot(), &settings());
    prop_assert_eq!(&parse(update, &bot(), &settings()), &found);
    prop_assert_eq!(found.is_err(), !update.is_object());
    let _ = needs_username(update);
    for draft in found.iter().flatten().filter_map(draft_of) {
        prop_assert!(!draft.parts.is_empty());
        prop_assert!(draft.actor().is_ok());
        let key = draft.chat.to_string().parse();
        prop_assert_eq!(key.as_ref(), Ok(&draft.chat));
        let _ = draft.key();
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn arbitrary_json_never_panics(update in any_json()) {
        survives(&update)?;
    }

    #[test]
    fn an_arbitrary_message_never_panics(message in any_json(), kind in prop::sample::select(NAMES)) {
        survives(&json!({"update_id": 1, kind: message}))?;
        survives(&json!({"update_id": 1, "message": private(message.clone())}))?;
        survives(&json!({"update_id": 1, "message": group(message)}))?;
    }

    #[test]
    fn mutated_fixtures_never_panic(
        pick in any::<prop::sample::Index>(),
        path in prop::collection::vec(0..12_usize, 1..6),
        value in any_json(),
    ) {
        let mut update = pick.get(fixtures::own()).1.clone();
        mutate(&mut update, &path, value);
        survives(&update)?;
    }

    #[test]
    fn any_text_is_kept_complete(text in ".{1,60}", offset in 0..40_i64, length in 0..40_i64) {
        let entities = json!([{"type": "mention", "offset": offset, "length": length}]);
        let message = group(json!({"text": text, "entities": entities}));
        let draft = draft("message", &message);
        prop_assert_eq!(shown(&draft), text);
    }
}
