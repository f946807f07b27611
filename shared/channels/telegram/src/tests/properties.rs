//! Property tests: no JSON makes the parser panic, and the same update gives the same result.

use annals_channel::testing::survives;
use annals_test_support::json::{any_json, mutated};
use proptest::prelude::*;

use super::*;
use crate::parse::needs_username;

/// Field names that the parser reads.
const NAMES: &str = "\
    update_id message edited_message channel_post business_message guest_message my_chat_member \
    later_message message_id date edit_date chat id type title from is_bot first_name sender_chat text \
    caption entities caption_entities offset length user url photo file_id width height sticker document \
    animation poll options question location venue latitude longitude contact checklist tasks rich_message \
    blocks reply_to_message external_reply origin quote forward_origin pinned_message migrate_to_chat_id \
    migrate_from_chat_id message_thread_id is_topic_message direct_messages_topic topic_id media_group_id \
    new_chat_members new_chat_member status hologram";

const WORDS: &str = "\
    private|supergroup|channel|mention|bot_command|text_link|text_mention|/new@AnnalsBot 👍|@AnnalsBot||\
    member";

fn check(update: &Value) {
    survives(update, |update| parse(update, &bot(), &settings()));
    let _ = needs_username(update);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn arbitrary_json_never_panics(update in any_json(NAMES, WORDS)) {
        check(&update);
    }

    #[test]
    fn an_arbitrary_message_never_panics(message in any_json(NAMES, WORDS), kind in any::<prop::sample::Selector>()) {
        let kind = kind.select(NAMES.split_whitespace());
        check(&json!({"update_id": 1, kind: message}));
        check(&json!({"update_id": 1, "message": private(message.clone())}));
        check(&json!({"update_id": 1, "message": group(message)}));
    }

    #[test]
    fn mutated_fixtures_never_panic(update in mutated(fixtures::own(), any_json(NAMES, WORDS))) {
        check(&update);
    }

    #[test]
    fn any_text_is_kept_complete(text in ".{1,60}", offset in 0..40_i64, length in 0..40_i64) {
        let entities = json!([{"type": "mention", "offset": offset, "length": length}]);
        let message = group(json!({"text": text, "entities": entities}));
        let draft = draft("message", &message);
        prop_assert_eq!(shown(&draft), text);
    }
}
