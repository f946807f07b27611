//! Property tests: no JSON makes the parser panic, and the same event gives the same result.

use annals_channel::testing::{check_sound, survives};
use annals_core::testing::stored;
use annals_test_support::json::{any_json, mutated};
use proptest::prelude::*;

use super::*;
use crate::address::Address;
use crate::listed::{from_listed, with_children};
use crate::parse::{has_own_time, missing_thread, needs_open_id};
use crate::recall::places;

/// Field names that the parser reads.
const NAMES: &str = "\
    app_id body chat_id chat_type content create_time deleted duration due_time elements en_us end_time \
    event event_type file_key file_name header href i18n_text id id_type image_key image_keys is_mention key \
    latitude longitude mentions message message_id message_type msg_type name open_chat_id open_id \
    open_message_id operator_id options parent_id post recall_time root_id sender sender_id sender_type \
    start_time summary tag template text text_without_at_bot thread_id title topic ts type union_id \
    update_time upper_message_id user_id user_name zh_cn";

const WORDS: &str = "\
    |-1|1502199207.71|1764057600000|99999999999999999999|@_all|@_user_1|@_user_1 /new@_user_10 hi|/new 👍|\
    <at open_id=\"x\">@A</at> hi|a|app|at|audio|button|calendar|code_block|file|group|im.chat.disbanded_v1|\
    im.message.recalled_v1|im.message.receive_v1|image|img|interactive|media|merge_forward|message|om_5|\
    omt_1|ou_annals|p2p|post|system|text|todo|topic_group|vote|{a} and {b|{\"text\": \"@_user_1 hi\"}|\
    {\"zh_cn\": {\"content\": [[{\"tag\": \"at\"}]]}}";

fn check(event: &Value) {
    for draft in survives(event, |event| parse(event, &bot(), &settings())) {
        assert!(Address::of(&stored(&draft)).is_some());
    }
    let _ = (needs_open_id(event), has_own_time(event), missing_thread(event));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn arbitrary_json_never_panics(event in any_json(NAMES, WORDS)) {
        check(&event);
    }

    #[test]
    fn an_arbitrary_message_never_panics(fields in any_json(NAMES, WORDS), kind in any::<prop::sample::Selector>()) {
        let kind = kind.select(WORDS.split('|'));
        let first = json!({"type": "message", "open_chat_id": "oc_1", "open_message_id": "om_1"});
        check(&event(kind, fields.clone()));
        check(&json!({"ts": "1764057600.5", "event": with(first, fields.clone())}));
        check(&received(p2p(of_type(kind, &fields))));
        check(&received(group(with(mentions(), of_type(kind, &fields)))));
        check(&received(p2p(fields.clone())));
        check(&received(group(fields)));
    }

    #[test]
    fn mutated_fixtures_never_panic(event in mutated(fixtures::own(), any_json(NAMES, WORDS))) {
        check(&event);
    }

    #[test]
    fn arbitrary_items_never_panic(item in any_json(NAMES, WORDS), fields in any_json(NAMES, WORDS)) {
        let beside = draft(group(mentioning("@_user_1 so?")));
        let near = with(json!({"message_id": "om_6", "chat_id": "oc_group", "upper_message_id": "om_5"}), fields);
        for item in [&item, &near] {
            let _ = places(item, &settings());
            if let Some(draft) = from_listed(item, &beside, &bot(), &settings()) {
                check_sound(&draft);
                assert!(!draft.asks);
            }
        }
        check_sound(&with_children(beside, &[item, near]));
    }

    #[test]
    fn any_text_is_kept_complete(text in "[^@]{1,60}") {
        let draft = draft(p2p(self::text(&text)));
        prop_assert_eq!(shown(&draft), text);
    }
}
