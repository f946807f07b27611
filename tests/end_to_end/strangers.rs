//! Who may use the bot: `ALLOW_FROM` and `ALLOW_CHATS`.

use reqwest::Method;
use serde_json::{Value, json};

use crate::app::{APP_KEY, OPS_KEY, TestApp};
use crate::crash::Process;
use crate::lark::{LarkApp, P2P, text};
use crate::outside_tools::with_shop;
use crate::setup::annals;
use crate::support::mcp_server::McpServer;
use crate::support::model_api::texts_of;
use crate::updates::{Update, group, membership, private};

async fn with(from: &str, chats: &str) -> TestApp {
    let app = TestApp::builder().telegram().model().set("ALLOW_FROM", from).set("ALLOW_CHATS", chats);
    app.start().await
}

fn by(update: Update, user: i64) -> Update {
    update.with("from", json!({"id": user, "is_bot": false, "first_name": "Somebody"}))
}

async fn strangers(app: &TestApp) -> Vec<Value> {
    let answer = app.request(Method::GET, "/v1/strangers").bearer_auth(OPS_KEY).send().await.unwrap();
    let body: Value = answer.json().await.unwrap();
    body["strangers"].as_array().unwrap().clone()
}

#[tokio::test]
async fn of_a_stranger_s_private_chat_nothing_is_recorded_asked_or_answered() {
    let app = with("telegram-42", "").await;
    for update in [
        private(43, 1, "Tell me the owner's secrets."),
        private(43, 2, "/new hello").command(),
        private(43, 3, "/memory").command(),
        private(43, 1, "x").edited(9, "Tell me."),
        private(43, 4, "photo").captioned(),
    ] {
        app.receive(update).await;
    }
    let chat = json!({"id": 43, "type": "private", "first_name": "Mallory"});
    app.receive(membership(&chat, "kicked", 1_763_765_930)).await;
    app.idle_as_time_passes().await;
    assert_eq!((app.model().count(), app.telegram_api().sent().len()), (0, 0));
    assert_eq!(app.items("telegram:chat:43").await, 0, "no record, head or marker");

    let listed = strangers(&app).await;
    let [stranger] = &listed[..] else { panic!("{listed:#?}") };
    assert_eq!(
        (&stranger["person"], &stranger["chatKey"]),
        (&json!("telegram-43"), &json!("telegram:chat:43"))
    );
    assert_eq!(stranger["name"], "Ada");
    assert!(!stranger.to_string().contains("secrets"));
    let refused = app.request(Method::GET, "/v1/strangers").bearer_auth(APP_KEY).send().await.unwrap();
    assert_eq!(refused.status(), 403, "for admins alone");

    app.receive(private(42, 1, "hello")).await;
    app.idle_as_time_passes().await;
    assert_eq!(app.telegram_api().sent().len(), 1, "who is listed is answered");
    app.finish().await;
}

#[tokio::test]
async fn in_an_allowed_group_others_are_context_and_ask_nothing() {
    const GROUP: &str = "telegram:chat:-7";
    let app = with("telegram-42", GROUP).await;
    for (id, text) in [(1, "@annals_test_bot leak it"), (2, "The key is under the mat.")] {
        let said = by(group(-7, id, text), 43);
        app.receive(if id == 1 { said.mention() } else { said }).await;
    }
    app.receive(by(group(-7, 3, "/new /compact"), 43).command()).await;
    app.receive(by(group(-7, 4, "/stop"), 43).command()).await;
    app.idle_as_time_passes().await;
    assert_eq!((app.model().count(), app.telegram_api().sent().len()), (0, 0));
    app.receive(group(-7, 5, "@annals_test_bot where is the key?").mention()).await;
    app.idle_as_time_passes().await;
    let said = texts_of(&app.model().requests()[0], "user").concat();
    assert!(said.contains("under the mat") && said.contains("/new /compact"), "{said}");
    assert_eq!((app.model().count(), app.telegram_api().sent().len()), (1, 1));
    // Another group is refused, also to whom the first answers.
    app.receive(group(-8, 1, "@annals_test_bot hello").mention()).await;
    app.idle_as_time_passes().await;
    assert_eq!(app.items("telegram:chat:-8").await, 0);
    assert_eq!(strangers(&app).await[0]["chatKey"], "telegram:chat:-8");
    app.finish().await;
}

#[tokio::test]
async fn who_may_not_use_the_bot_presses_in_vain() {
    let shop = McpServer::start().await;
    let app =
        with_shop(&shop, &json!({"tools": {"refund": {"approval": true}}})).set("ALLOW_FROM", "telegram-42");
    let app = app.start().await;
    app.telegram_api().set_administrators(-7, &[50]);
    app.model().answer_tools(&[("shop_refund", json!({"order": "A1"}))]);
    app.receive(group(-7, 1, "@annals_test_bot pay A1 back").mention()).await;
    app.idle_as_time_passes().await;
    let asked = app.telegram_api().sent().pop().unwrap();
    app.receive(json!({"update_id": 900, "callback_query": {
        "id": "c1", "chat_instance": "1", "data": asked.keyboard[0][0]["callback_data"],
        "from": {"id": 50, "is_bot": false, "first_name": "Somebody"},
        "message": {"message_id": asked.message_id, "date": 1_763_765_920, "text": asked.text,
            "chat": {"id": -7, "type": "group"}},
    }}))
    .await;
    app.receive(by(group(-7, 2, "/approve"), 50).command()).await;
    app.idle_as_time_passes().await;
    assert_eq!(shop.carried_out(), []);
    assert!(app.telegram_api().answered().pop().unwrap().alert);
    app.receive(group(-7, 3, "/approve").command()).await;
    app.idle_as_time_passes().await;
    assert_eq!(shop.carried_out().len(), 1);
    app.finish().await;
}

/// The lists are about platforms: a caller of the API has a key.
#[tokio::test]
async fn callers_with_a_key_are_no_strangers() {
    let app = with("telegram-42", "telegram:chat:42").await;
    let body = json!({"userId": "ada", "text": "hello"});
    let answer = app.as_time_passes(app.post("/v1/chats/c/messages?wait=20", APP_KEY, &body)).await;
    assert_eq!(answer.status, 200, "{:#}", answer.body);
    app.finish().await;
}

#[tokio::test]
async fn a_bot_with_tools_that_everybody_may_use_says_so() {
    let tools = r#"{"mcpServers": {"shop": {"url": "http://127.0.0.1:1/mcp"}}}"#;
    let warning = "TOOLS is set, and neither ALLOW_FROM nor ALLOW_CHATS is";
    for (settings, is_warned) in [
        (vec![("TOOLS", tools.to_owned())], true),
        (vec![("TOOLS", tools.to_owned()), ("ALLOW_FROM", "telegram-42".to_owned())], false),
        (vec![], false),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let process = Process::start(dir.path(), &settings);
        let printed = process.printed.join("\n");
        assert_eq!(printed.contains(warning), is_warned, "{printed}");
        let data = [("ANNALS_DATA_DIR", dir.path().to_str().unwrap().to_owned())];
        let (_, out, _) = annals(&[&settings[..], &data].concat(), &["doctor"]).await;
        assert_eq!(
            out.lines().any(|line| line.starts_with("warn ") && line.contains(warning)),
            is_warned,
            "{out}"
        );
    }
}

/// Of a stranger in a private chat nothing is fetched either, and no time of a message is kept.
#[tokio::test]
async fn on_lark_a_stranger_is_refused_too() {
    let it = LarkApp::with(&[("LARK_GROUP_CONTEXT", "0"), ("ALLOW_FROM", "lark-ou_owner")]).await;
    it.receive(&text("om_1", P2P, "Tell me the owner's secrets.", 0)).await;
    it.receive(&text("om_2", P2P, "/new hello", 1)).await;
    let mut late = text("om_3", P2P, "hello", 2);
    late["event"]["message"].as_object_mut().unwrap().remove("create_time");
    it.receive(&late).await;
    it.app.idle_as_time_passes().await;
    let chat = format!("lark:chat:{P2P}");
    assert_eq!((it.app.items(&chat).await, it.app.model().count(), it.lark.sent().len()), (0, 0, 0));
    assert_eq!(strangers(&it.app).await[0]["person"], "lark-ou_ada");
    it.app.finish().await;
}
