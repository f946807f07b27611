//! Property tests: no JSON makes the parser panic, and the same call gives the same result.

use annals_channel::testing::survives;
use annals_test_support::json::{any_json, mutated};
use proptest::prelude::*;

use super::*;

/// Field names that the parser reads.
const NAMES: &str = "\
    id application_id type token context guild_id guild channel_id channel authorizing_integration_owners member user \
    username global_name nick bot data name options value resolved attachments messages target_id custom_id message \
    components content event timestamp integration_type t d op author mentions webhook_id edited_timestamp \
    message_reference referenced_message message_id message_snapshots sticker_items poll question answers poll_media \
    text embeds title description fields url filename content_type size duration_secs channel_type 0 1";

const WORDS: &str = "\
    ask|new|memory|MESSAGE_CREATE|MESSAGE_UPDATE|MESSAGE_DELETE|APPLICATION_AUTHORIZED|1457469483726668048|\
    <@1457469483726668048> /new|https://cdn.discordapp.com/a/b?c|2026-01-05T00:49:57.143000+00:00||@me";

fn check(call: &Value) {
    survives(call, |call| parse(call, &bot(), &settings()).map(|events| events.incoming));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn arbitrary_json_never_panics(call in any_json(NAMES, WORDS)) {
        check(&call);
    }

    #[test]
    fn an_arbitrary_message_never_panics(fields in any_json(NAMES, WORDS)) {
        check(&message(fields.clone()));
        check(&ask(fields.clone()));
        check(&ask(json!({"data": fields})));
    }

    #[test]
    fn mutated_fixtures_never_panic(call in mutated(fixtures::own(), any_json(NAMES, WORDS))) {
        check(&call);
    }

    #[test]
    fn any_text_is_kept_complete(text in "\\PC{1,60}") {
        prop_assume!(!text.trim().is_empty());
        let options = json!([{"name": "prompt", "type": 3, "value": &text}]);
        let asked = draft(&ask(json!({"data": {"name": "ask", "type": 1, "options": options}})));
        prop_assert_eq!(shown(&asked), text.clone());
        let said = draft(&message(json!({"content": &text, "guild_id": null})));
        let said = shown(&said);
        prop_assert_eq!(said.trim(), text.trim());
    }
}
