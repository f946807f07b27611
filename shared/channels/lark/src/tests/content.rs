//! Tests of the content of each message type.

use annals_channel::testing::summaries_of;
use annals_test_support::fixtures::check_snapshot;
use proptest::prelude::*;

use super::*;

/// `content.json`: messages of Ada, by the fields that they have beyond [`p2p`] or [`group`]; without content, "hi".
#[test]
fn content_and_metadata_become_what_they_should() {
    check_snapshot("content", &summaries_of(include_str!("content.json"), event_of, parsed));
}

#[test]
fn texts() {
    let check = |fields: Value, wanted: &str| assert_eq!(shown(&draft(p2p(fields))), wanted);
    check(text(" hi\n[docs](https://x) "), " hi\n[docs](https://x) ");
    check(mentioning("@_user_1 ask @_user_2 and @_user_20, @_all"), "@Annals ask @Bo and @_user_20, @all");
    check(text("@_all 大家好"), "@all 大家好");
    check(json!({"content": "not-json"}), "not-json");
    check(json!({"content": "42"}), "42");
    check(json!({"content": "[1, 2]"}), "[1, 2]");
    check(json!({"content": {"text": "an object itself"}}), "an object itself");
    check(json!({"message_type": null, "content": "{\"text\": \"of no type\"}"}), "of no type");
    check(json!({"message_type": null}), "[message]");
    check(text(""), "[text]");
    check(json!({"content": null}), "[text]");
    check(json!({"message_type": "image", "content": "broken {"}), "[image]\nbroken {");
}

#[test]
fn posts() {
    let content = json!([
        [{"tag": "text", "text": "see "}, {"tag": "a", "text": "this", "href": "https://x/y"}, {"tag": "text", "text": ", "},
         {"tag": "at", "user_id": "@_user_2"}, {"tag": "at", "user_id": "ou_bo"}, {"tag": "at", "user_id": "all"},
         {"tag": "at", "user_id": "ou_z", "user_name": "Zoe"}, {"tag": "at", "user_id": "ou_y"}],
        [{"tag": "img", "image_key": "img_1"}],
        [{"tag": "emotion", "emoji_type": "SMILE"}, {"tag": "hr"}, {"tag": "hologram", "text": "later"}],
        [{"tag": "code_block", "language": "GO", "text": "x := 1\n"}],
        [{"tag": "media", "file_key": "file_1", "image_key": "img_2"}, {"tag": "text", "text": "tail"}],
    ]);
    let wanted = "Plans\nsee [this](https://x/y), @Bo@Bo@all@Zoe@ou_y\n\
        image image/* - lark:om_5/img_1\n\
        [SMILE]---later\n```go\nx := 1\n```\n\
        file video/mp4 - lark:om_5/file_1\n\
        tail";
    for body in [
        json!({"title": "Plans", "content": content}),
        json!({"en_us": {"title": "Plans", "content": content}}),
        json!({"post": {"zh_cn": {"title": "Plans", "content": content}, "en_us": {"title": "no", "content": []}}}),
        json!({"fr_fr": {"title": "Plans", "content": content}}),
    ] {
        let fields = with(of_type("post", &body), mentions());
        assert_eq!(shown(&draft(p2p(fields))), wanted, "{body}");
    }
}

#[test]
fn a_file_has_what_is_needed_to_fetch_it() {
    let draft = draft(p2p(of_type("audio", &json!({"file_key": "f", "duration": "2000"}))));
    let wanted = json!({"fileKey": "f", "messageId": "om_5", "type": "file", "durationMs": 2000});
    assert_eq!(draft.parts[0].as_map()["providerMetadata"]["lark"], wanted);
}

#[test]
fn content_of_schema_1_is_read_from_the_event() {
    let check = |fields: Value, wanted: &str| {
        let event = json!({"ts": "1764057600.5", "token": "t", "type": "event_callback", "event": with(json!({
            "type": "message", "app_id": "cli_annals", "chat_type": "private", "open_chat_id": "oc_ada",
            "open_message_id": "om_5", "open_id": "ou_ada", "msg_type": "text", "parent_id": "", "root_id": "",
            "user_agent": "not this",
        }), fields)});
        let found = incoming(&event);
        assert_eq!(shown(draft_of(&found).unwrap()), wanted, "{event}");
    };
    check(json!({"text": "<at open_id=\"ou_x\">@Bo</at> hi", "text_without_at_bot": " hi"}), "@Bo hi");
    check(json!({"msg_type": "image", "image_key": "img_1"}), "image image/* - lark:om_5/img_1");
    check(
        json!({"msg_type": "post", "title": "T", "text": "words", "image_keys": ["i1", "i2"]}),
        "T\nwords\nimage image/* - lark:om_5/i1\nimage image/* - lark:om_5/i2",
    );
    check(json!({"msg_type": "file", "file_key": "f"}), "file application/octet-stream - lark:om_5/f");
}

proptest! {
    #[test]
    fn any_text_is_kept_complete(text in "[^@]{1,60}") {
        prop_assert_eq!(shown(&draft(p2p(self::text(&text)))), text);
    }
}
