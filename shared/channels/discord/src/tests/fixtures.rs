//! Whole payloads: those made for this project, with what each becomes, and those recorded elsewhere.

use annals_channel::testing::summaries;
use annals_test_support::fixtures::{check_snapshot, payloads};

use super::*;

/// `tests/fixtures/discord`: payloads made for this project.
#[test]
fn each_of_our_payloads_becomes_what_it_should() {
    check_snapshot("payloads", &summaries(&payloads("discord"), parsed));
}

#[test]
fn every_recorded_payload_is_read_and_no_question_is_lost() {
    for (name, payload) in payloads("discord/recorded") {
        let Events { incoming, response, .. } = events(&payload);
        let is_webhook_event = payload.get("event").is_some();
        assert_eq!(response == Response::NoContent, is_webhook_event, "{name}");
        if payload["type"] == 2 && payload["data"]["name"] == "ask" {
            let draft = draft_of(&incoming[0]).unwrap_or_else(|| panic!("{name}: {incoming:?}"));
            assert!(draft.asks && draft.reply_token.is_some(), "{name}");
            assert_eq!(shown(draft), payload["data"]["options"][0]["value"].as_str().unwrap(), "{name}");
            assert_eq!(draft.chat.to_string(), expected_key(&payload), "{name}");
        }
    }
}

fn expected_key(payload: &Value) -> String {
    let channel = payload["channel_id"].as_str().unwrap();
    match (payload["guild_id"].as_str(), payload["channel"]["type"].as_u64()) {
        (Some(guild), Some(10..=12)) => format!("agent:annals:thread:{guild}:{channel}"),
        (Some(guild), _) => format!("agent:annals:channel:{guild}:{channel}"),
        (None, _) => format!("agent:annals:channel:@me:{channel}"),
    }
}
