//! Tests of content and metadata, part by part.

use annals_channel::testing::summaries_of;
use annals_core::record::Record;
use annals_core::testing::stored;
use annals_test_support::fixtures::check_snapshot;
use proptest::prelude::*;

use super::rules::update;
use super::*;
use crate::address::Address;

/// `content.json`: messages of Ada, by the fields that they have beyond [`private`] or [`group`].
#[test]
fn content_and_metadata_become_what_they_should() {
    check_snapshot("content", &summaries_of(include_str!("content.json"), update, parsed));
}

#[test]
fn a_file_has_what_is_needed_to_fetch_it() {
    let video = json!({"video": {"file_id": "v", "file_unique_id": "u", "file_size": 9}});
    assert_eq!(
        draft("message", &private(video)).parts[0].as_map()["providerMetadata"]["telegram"],
        json!({"fileId": "v", "fileUniqueId": "u", "size": 9, "kind": "video"})
    );
}

#[test]
fn a_missing_chat_type_is_inferred() {
    for (kind, chat, wanted) in [
        ("message", json!({"id": 1}), "private"),
        ("message", json!({"id": -1, "type": ""}), "group"),
        ("channel_post", json!({"id": 1, "type": "chat"}), "channel"),
        ("channel_post", json!({"id": -1, "type": "supergroup"}), "supergroup"),
    ] {
        let message = private(json!({"text": "x", "chat": chat}));
        assert_eq!(draft(kind, &message).metadata.fields()["chatType"], wanted, "{message}");
    }
}

#[test]
fn the_address_of_a_reply_is_read_from_the_record() {
    let address = |kind: &str, message: Value| Address::of(&stored(&draft(kind, &message)));
    let plain = |chat_id, reply_to| Address { chat_id, reply_to, ..Address::default() };
    assert_eq!(address("message", private(json!({"text": "x"}))), Some(plain(11, Some(5))));
    assert_eq!(address("message", private(json!({"text": "x", "message_id": 0}))), Some(plain(11, None)));
    assert_eq!(
        address("message", group(json!({"text": "x", "message_thread_id": 17, "is_topic_message": true}))),
        Some(Address { thread_id: Some(17), ..plain(-1001, Some(5)) })
    );
    for general in
        [json!({"message_thread_id": 1, "is_topic_message": true}), json!({"message_thread_id": 17})]
    {
        assert_eq!(address("message", group(general)), Some(plain(-1001, Some(5))));
    }
    assert_eq!(
        address("message", group(json!({"text": "x", "direct_messages_topic": {"topic_id": 88}}))),
        Some(Address { direct_messages_topic_id: Some(88), ..plain(-1001, Some(5)) })
    );
    assert_eq!(
        address("business_message", private(json!({"text": "x", "business_connection_id": "bc"}))),
        Some(Address { business_connection_id: Some("bc".into()), ..plain(11, Some(5)) })
    );
    let said = draft("message", &group(json!({"text": "x"})));
    let elsewhere = Record { chat_id: "oc_1".into(), ..stored(&said) };
    assert_eq!(Address::of(&elsewhere), None);
}

proptest! {
    #[test]
    fn any_text_is_kept_complete(text in ".{1,60}", offset in 0..40_i64, length in 0..40_i64) {
        let entities = json!([{"type": "mention", "offset": offset, "length": length}]);
        let message = group(json!({"text": text, "entities": entities}));
        prop_assert_eq!(shown(&draft("message", &message)), text);
    }
}
