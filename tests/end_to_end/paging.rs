//! Pages of a history while messages arrive.

use serde_json::{Value, json};

use crate::app::{APP_KEY, NOW, TestApp, ids};

const PATH: &str = "/v1/chats/c1/messages";
const CHAT: &str = "/v1/chats/http%3Achat%3Aapp%3Ac1/messages";

/// A reply follows its message, and so precedes the cursor of a page that was read before: it is in the
/// newest page, and in a walk back.
#[tokio::test]
async fn a_late_message_is_in_the_newest_page() {
    let app = TestApp::builder().model().start().await;
    app.model().hang();
    let start = NOW * 1000 - 60_000;
    for (at, id) in ["m1", "m2", "m3"].into_iter().enumerate() {
        let ts = start + 1000 * i64::try_from(at).unwrap();
        let body = json!({"userId": "ada", "text": id, "messageId": id, "ts": ts});
        assert_eq!(app.post(PATH, APP_KEY, &body).await.status, 202);
        app.model().wait_for(1).await;
    }
    let ids = |page: &Value| ids(page["messages"].as_array().unwrap()).join(" ");
    let newest = app.get(&format!("{CHAT}?limit=1")).await;
    let two = app.get(&format!("{CHAT}?limit=2&before={}", newest["before"].as_str().unwrap())).await;
    assert_eq!(ids(&two), "m1 m2");
    app.model().resume();
    app.idle_as_time_passes().await;
    let behind = app.get(&format!("{CHAT}?after={}", two["after"].as_str().unwrap())).await;
    assert_eq!((ids(&behind).as_str(), &behind["after"]), ("m3 m3/reply", &Value::Null));
    let newest = app.get(&format!("{CHAT}?limit=10")).await;
    assert_eq!((ids(&newest).as_str(), &newest["before"]), ("m1 m1/reply m2 m3 m3/reply", &Value::Null));
    app.finish().await;
}
