use annals_channel::client::{Answer, Outage};
use annals_channel::testing::logged;
use annals_test_support::lark_api::{APP_ID, APP_SECRET, LarkApi, Trouble};
use reqwest::header::HeaderMap;
use serde_json::json;

use super::*;
use crate::render::chunks;

mod files;
mod sends;

const CHAT: &str = "oc_chat";

fn client_at(base_url: &str, secret: &str) -> (Client, Clock) {
    let clock = Clock::manual(Timestamp::from_secs(1_763_765_920));
    (Client::new(base_url, APP_ID.into(), secret.into(), clock.clone()).unwrap(), clock)
}

async fn start() -> (LarkApi, Client, Clock) {
    let api = LarkApi::start().await;
    let (client, clock) = client_at(api.base_url(), APP_SECRET);
    (api, client, clock)
}

#[tokio::test]
async fn a_token_is_fetched_once_and_replaced_before_its_end() {
    let (api, client, clock) = start().await;
    let pass = |time| {
        clock.advance(time);
        api.pass(time);
    };
    client.bot_info().await.unwrap();
    client.clone().bot_info().await.unwrap();
    pass(Duration::from_mins(109));
    client.bot_info().await.unwrap();
    assert_eq!(api.count("token"), 1);
    pass(Duration::from_mins(2));
    client.bot_info().await.unwrap();
    assert_eq!(api.count("token"), 2);
    pass(Duration::from_hours(1));
    client.bot_info().await.unwrap();
    assert_eq!(api.count("token"), 2);
    assert_eq!(api.codes("bot"), [0; 5]);
}

#[tokio::test]
async fn one_caller_at_a_time_fetches_a_token() {
    let (api, client, _) = start().await;
    api.delay(Duration::from_millis(20));
    let all = async || {
        let calls: [_; 8] = std::array::from_fn(|_| {
            tokio::spawn({
                let client = client.clone();
                async move { client.bot_info().await }
            })
        });
        for call in calls {
            call.await.unwrap().unwrap();
        }
    };
    all().await;
    assert_eq!((api.count("token"), api.at_once("token")), (1, 1));
    // All callers learn that their token has expired; only one fetches a new one.
    api.edit(|store| store.tokens.clear());
    all().await;
    assert_eq!((api.count("token"), api.at_once("token")), (2, 1));
    assert!(api.codes("bot").iter().filter(|code| **code == 99_991_663).count() >= 1);
}

#[tokio::test]
async fn a_token_that_is_refused_is_replaced_once_in_a_call() {
    let (api, client, _) = start().await;
    client.bot_info().await.unwrap();
    api.edit(|store| store.tokens.clear());
    client.bot_info().await.unwrap();
    assert_eq!(api.codes("bot"), [0, 99_991_663, 0]);
    api.refuse_tokens(true);
    let error = client.bot_info().await.unwrap_err();
    assert!(matches!(error, CallError::Token { code: 99_991_663, .. }), "{error:?}");
    assert!(!error.is_permanent());
    assert_eq!(api.count("token"), 3);
    assert_eq!(api.codes("bot")[3..], [99_991_663, 99_991_663]);
    api.refuse_tokens(false);
    client.bot_info().await.unwrap();
}

#[tokio::test]
async fn a_token_request_is_retried_too() {
    let (api, client, clock) = start().await;
    api.fail(2, 502);
    let (info, took) = clock.advance_during(client.bot_info()).await;
    info.unwrap();
    assert!(took >= Duration::from_millis(1500), "{took:?}");
    assert_eq!(api.codes("token"), [-1, -1, 0]);
}

#[tokio::test]
async fn an_error_for_a_wrong_secret_names_the_setting_but_not_its_value() {
    let api = LarkApi::start().await;
    let (client, _) = client_at(api.base_url(), "wrong-SECRET");
    let error = client.bot_info().await.unwrap_err();
    assert!(matches!(error, CallError::Refused { code: 10_014, .. }) && error.is_permanent(), "{error:?}");
    assert!(error.to_string().contains("LARK_APP_SECRET"), "{error}");
    assert!(!logged(&error).contains("wrong-SECRET") && !format!("{client:?}").contains("SECRET"));
    assert_eq!(api.calls().len(), 1);
}

#[tokio::test]
async fn no_error_shows_a_secret_or_the_text_of_a_message() {
    let answer = |status, body: &str| {
        let (platform, method, headers) = ("Lark", "m", HeaderMap::new());
        let answer = Answer { platform, method, status, headers, body: body.into() };
        answer::read::<Data<BotInfo>>(&answer, &["SECRET"]).err().unwrap()
    };
    for (status, body) in [
        (400, r#"{"code": 230001, "msg": "no token SECRET here"}"#),
        (200, r#"{"code": 230099, "msg": "ext=ErrCode: 1; ErrMsg: no; ErrorValue: SECRET"}"#),
        (400, r#"{"code": 230028, "msg": "found: SECRET@example.org"}"#),
        (200, r#"{"code": 0, "data": "SECRET"}"#),
        (200, r#"{"code": "SECRET"}"#),
        (200, "SECRET"),
        (404, "SECRET"),
        (503, r#"{"code": 1, "msg": "SECRET"}"#),
    ] {
        let error = answer(status, body);
        assert!(!logged(&error).contains("SECRET"), "{error:?}");
    }
    // Nothing listens at this address.
    let (client, clock) = client_at("http://127.0.0.1:9", "SECRET");
    let error = clock.advance_during(client.bot_info()).await.0.unwrap_err();
    assert!(matches!(error, CallError::Unavailable { source: Outage::Connection(_), .. }), "{error:?}");
    assert!(!logged(&error).contains("SECRET"), "{error:?}");
}

#[tokio::test]
async fn a_message_is_returned_with_the_messages_that_it_forwards() {
    let (api, client, _) = start().await;
    api.seed(json!({"message_id": "om_1", "chat_id": CHAT, "msg_type": "merge_forward", "create_time": "1"}));
    api.seed(json!({"message_id": "om_a", "upper_message_id": "om_1", "create_time": "2"}));
    api.seed(json!({"message_id": "om_2", "chat_id": CHAT, "msg_type": "text", "create_time": "3"}));
    let items = client.get_message("om_1").await.unwrap();
    assert_eq!(items.iter().map(|item| &item["message_id"]).collect::<Vec<_>>(), ["om_1", "om_a"]);
    api.recall("om_2");
    let error = client.get_message("om_2").await.unwrap_err();
    assert!(matches!(error, CallError::Refused { code: 230_011, .. }) && error.is_permanent());
    // A segment of an id does not change the path.
    api.edit(|store| store.unknown.insert("..%2F..%2Fbot%2Fv3%2Finfo%3Fa".into()));
    let error = client.get_message("../../bot/v3/info?a").await.unwrap_err();
    assert!(matches!(error, CallError::Refused { code: 99_992_354, .. }), "{error:?}");
}

#[tokio::test]
async fn the_newest_messages_are_listed_across_pages() {
    let (api, client, _) = start().await;
    for n in 0..120 {
        let created = (1_763_765_000_000_u64 + n * 1000).to_string();
        api.seed(json!({"message_id": format!("om_{n}"), "chat_id": CHAT, "create_time": created}));
        api.seed(json!({"message_id": format!("om_x{n}"), "chat_id": "oc_other", "create_time": created}));
    }
    let ids = |items: &[Value]| -> Vec<String> {
        items.iter().map(|item| item["message_id"].as_str().unwrap().to_owned()).collect()
    };
    let last =
        |from: u64, count: u64| -> Vec<String> { (0..count).map(|n| format!("om_{}", from - n)).collect() };
    assert_eq!(ids(&client.list_messages(CHAT, None, 25).await.unwrap()), last(119, 25));
    assert_eq!(api.codes("list").len(), 1);
    assert_eq!(ids(&client.list_messages(CHAT, None, 110).await.unwrap()), last(119, 110));
    assert_eq!(api.codes("list").len(), 4);
    assert_eq!(ids(&client.list_messages(CHAT, None, 500).await.unwrap()), last(119, 120));
    assert_eq!(client.list_messages(CHAT, None, 0).await.unwrap(), Vec::<Value>::new());
    let until = Timestamp::from_millis(1_763_765_009_500);
    assert_eq!(ids(&client.list_messages(CHAT, until, 3).await.unwrap()), last(10, 3));
    api.seed(json!({"message_id": "om_t", "chat_id": CHAT, "thread_id": "omt_1", "create_time": "5"}));
    assert_eq!(ids(&client.list_thread("omt_1", 3).await.unwrap()), ["om_t"]);
    api.trouble(CHAT, Trouble::Expelled);
    let error = client.list_messages(CHAT, None, 3).await.unwrap_err();
    assert!(matches!(&error, CallError::Blocked { reason } if reason.ends_with("(230002)")), "{error:?}");
}

#[test]
fn the_uuids_of_replies_and_chunks_differ() {
    let key = "lark:chat:oc_1 1763765920000#om_1#4reply";
    assert_eq!(uuid(key, 0).len(), 32);
    let all = [uuid(key, 0), uuid(key, 1), uuid("lark:chat:oc_2", 0), uuid("lark:chat:oc_2", 10)];
    assert!((1..4).all(|n| !all[..n].contains(&all[n])));
}
