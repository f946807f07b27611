//! Lark from end to end: from a signed, encrypted event to the reply that its API accepted.

use std::collections::BTreeMap;
use std::time::Duration;

use annals_channel_lark::verify::{NONCE_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, encrypt, sign};
use annals_test_support::lark_api::{APP_ID, APP_SECRET, BOT_OPEN_ID, LarkApi, Sent, picture};
use annals_test_support::mcp_server::{self, McpServer};
use annals_test_support::model_api::{images_of, lines_said, texts_of};
use reqwest::Method;
use serde_json::{Value, json};

use crate::app::{Answer, NOW, OPS_KEY, TestApp, chat_path, passing, wait_until};
use crate::turns::assert_has;

pub(crate) const TOKEN: &str = "lark-verification-token";
const KEY: &str = "lark-encrypt-key";
pub(crate) const P2P: &str = "oc_ada";
pub(crate) const GROUP: &str = "oc_garden";

pub(crate) struct LarkApp {
    pub(crate) app: TestApp,
    pub(crate) lark: LarkApi,
}

impl LarkApp {
    pub(crate) async fn start() -> Self {
        Self::with(&[("LARK_GROUP_CONTEXT", "0")]).await
    }

    pub(crate) async fn with(settings: &[(&str, &str)]) -> Self {
        let lark = LarkApi::start().await;
        let builder = TestApp::builder().model().set_all(&settings_of(lark.base_url()));
        let builder = builder.set("LARK_ENCRYPT_KEY", KEY).set_all(settings);
        Self { app: builder.start().await, lark }
    }

    pub(crate) async fn with_shop(fields: &Value, settings: &[(&str, &str)]) -> (McpServer, Self) {
        let shop = McpServer::start().await;
        let tools = shop.tools(fields);
        let own = [("TOOLS", tools.as_str()), ("SHOP_TOKEN", mcp_server::TOKEN), ("LARK_GROUP_CONTEXT", "0")];
        (shop, Self::with(&[&own[..], settings].concat()).await)
    }

    /// Posts `event` as Lark does: encrypted, and signed over the body as sent.
    pub(crate) async fn send(&self, event: &Value) -> Answer {
        let encrypted = encrypt(KEY, event.to_string().as_bytes()).unwrap();
        let body = json!({ "encrypt": encrypted }).to_string();
        let signature = sign(b"1764057600", b"nonce", KEY, body.as_bytes());
        let request = self.app.request(Method::POST, "/lark").body(body);
        let request = request.header(TIMESTAMP_HEADER, "1764057600").header(NONCE_HEADER, "nonce");
        Answer::of(request.header(SIGNATURE_HEADER, signature)).await
    }

    pub(crate) async fn receive(&self, event: &Value) {
        let answer = self.send(event).await;
        assert_eq!(answer.status, 200, "{event}");
    }

    /// Posts `event` and waits until its turn is done.
    pub(crate) async fn handle(&self, event: &Value) {
        self.receive(event).await;
        self.app.idle().await;
    }

    pub(crate) fn sent(&self) -> Vec<String> {
        self.lark.sent().iter().map(Sent::text).collect()
    }
}

/// Returns the settings of a program whose bot is at `base`, all but `LARK_ENCRYPT_KEY`.
pub(crate) fn settings_of(base: &str) -> [(&'static str, &str); 4] {
    [
        ("LARK_APP_ID", APP_ID),
        ("LARK_APP_SECRET", APP_SECRET),
        ("LARK_VERIFICATION_TOKEN", TOKEN),
        ("LARK_API_BASE", base),
    ]
}

/// Creates an `im.message.receive_v1` event whose message is `seconds` after [`NOW`].
pub(crate) fn message(id: &str, chat: &str, kind: &str, content: &Value, seconds: i64) -> Value {
    let created = ((NOW + seconds) * 1000).to_string();
    json!({
        "schema": "2.0",
        "header": {"event_id": format!("ev_{id}"), "event_type": "im.message.receive_v1", "token": TOKEN,
                   "app_id": APP_ID, "create_time": created},
        "event": {
            "sender": {"sender_id": {"open_id": "ou_ada"}, "sender_type": "user"},
            "message": {"message_id": id, "chat_id": chat, "message_type": kind, "create_time": created,
                        "chat_type": if chat == P2P { "p2p" } else { "group" }, "content": content.to_string()},
        },
    })
}

pub(crate) fn text(id: &str, chat: &str, text: &str, seconds: i64) -> Value {
    message(id, chat, "text", &json!({ "text": text }), seconds)
}

/// Mentions the bot as `@_user_1` in the message of `event`.
pub(crate) fn mentioning(mut event: Value) -> Value {
    event["event"]["message"]["mentions"] =
        json!([{"key": "@_user_1", "id": {"open_id": BOT_OPEN_ID}, "name": "Annals"}]);
    event
}

/// Posts `event` to a program where Lark is not set up.
pub(crate) async fn receive_plain(app: &TestApp, mut event: Value) {
    event["header"]["token"] = app.lark_token().into();
    let answer = Answer::of(app.request(Method::POST, "/lark").json(&event)).await;
    assert_eq!(answer.status, 200, "{event}");
}

/// Creates the event of the recall of `id` in the direct chat.
fn recalled(id: &str, seconds: i64) -> Value {
    json!({
        "schema": "2.0",
        "header": {"event_id": "ev_r", "event_type": "im.message.recalled_v1", "token": TOKEN, "app_id": APP_ID},
        "event": {"message_id": id, "chat_id": P2P, "recall_time": ((NOW + seconds) * 1000).to_string(),
                  "recall_type": "message_owner"},
    })
}

/// Creates the item of a message of the direct chat that was recalled.
fn deleted(id: &str, seconds: i64) -> Value {
    let mut item = listed(id, "", seconds);
    item["chat_id"] = json!(P2P);
    item["deleted"] = json!(true);
    item["sender"]["id"] = json!("ou_ada");
    item
}

/// Creates an item of `GET im/v1/messages`.
fn listed(id: &str, words: &str, seconds: i64) -> Value {
    json!({
        "message_id": id, "chat_id": GROUP, "msg_type": "text", "create_time": ((NOW + seconds) * 1000).to_string(),
        "sender": {"id": "ou_bo", "id_type": "open_id", "sender_type": "user"},
        "body": {"content": json!({ "text": words }).to_string()},
    })
}

#[tokio::test]
async fn an_event_becomes_one_record_and_one_reply_also_with_another_event_id_after_a_restart() {
    let mut it = LarkApp::start().await;
    let mut event = text("om_1", P2P, "hello", 0);
    it.handle(&event).await;
    let lines = ["om_1 user: hello", "om_1/reply assistant: You said: hello"];
    assert_eq!(it.app.lines("lark:chat:oc_ada").await, lines);
    let sent = it.lark.sent();
    assert_eq!((sent.len(), sent[0].text().as_str()), (1, "You said: hello"));
    assert_eq!(sent[0].reply_to.as_deref(), Some("om_1"));
    assert!(sent[0].uuid.len() <= 50 && !sent[0].uuid.is_empty());

    it.app.restart().await;
    for event_id in ["ev_later", "ev_much_later"] {
        event["header"]["event_id"] = json!(event_id);
        it.handle(&event).await;
    }
    assert_eq!(it.app.lines("lark:chat:oc_ada").await, lines);
    assert_eq!((it.lark.sent().len(), it.app.model().count()), (1, 1));
    it.app.finish().await;
}

#[tokio::test]
async fn a_challenge_is_answered_and_a_forgery_is_not() {
    let it = LarkApp::start().await;
    let challenge = json!({"type": "url_verification", "challenge": "c-1", "token": TOKEN});
    let encrypted = json!({"encrypt": encrypt(KEY, challenge.to_string().as_bytes()).unwrap()}).to_string();
    let post = |body: String| it.app.request(Method::POST, "/lark").body(body);
    // Lark does not sign it.
    assert_eq!(Answer::of(post(encrypted)).await.body, json!({"challenge": "c-1"}));

    let event = text("om_1", P2P, "hello", 0);
    let in_cipher = json!({"encrypt": encrypt(KEY, event.to_string().as_bytes()).unwrap()}).to_string();
    let wrong = json!({"type": "url_verification", "challenge": "c", "token": "x"}).to_string();
    let wrong_in_cipher = json!({"encrypt": encrypt(KEY, wrong.as_bytes()).unwrap()}).to_string();
    let mut answers = BTreeMap::new();
    for body in
        [event.to_string(), challenge.to_string(), in_cipher, wrong_in_cipher, "{".into(), "[]".into()]
    {
        let answer = Answer::of(post(body)).await;
        assert_eq!(answer.status, 401);
        *answers.entry(answer.unnamed().to_string()).or_insert(0) += 1;
    }
    let forged = post(event.to_string()).header(TIMESTAMP_HEADER, "1").header(NONCE_HEADER, "n");
    let answer = Answer::of(forged.header(SIGNATURE_HEADER, "0".repeat(64))).await;
    answers.insert(answer.unnamed().to_string(), 0);
    assert_eq!(answers.len(), 1, "the refusals differ: {answers:#?}");
    assert!(it.app.history("lark:chat:oc_ada").await.is_empty());
    it.app.finish().await;
}

#[tokio::test]
async fn a_group_is_answered_where_the_bot_is_mentioned_and_a_thread_is_a_chat_of_its_own() {
    let it = LarkApp::start().await;
    it.receive(&text("om_1", GROUP, "who waters today?", 0)).await;
    it.handle(&text("om_2", GROUP, "@_all please", 1)).await;
    assert_eq!((it.app.model().count(), it.lark.sent().len()), (0, 0));
    it.handle(&mentioning(text("om_3", GROUP, "@_user_1 do you know?", 2))).await;
    let request = it.app.last_request();
    let asked = lines_said(&request);
    assert_eq!(asked.len(), 3, "{asked:?}");
    assert!(asked[2].ends_with("@Annals do you know?"), "{asked:?}");
    assert_eq!(it.sent().len(), 1);
    assert_eq!(it.lark.sent()[0].reply_to.as_deref(), Some("om_3"));
    let history = it.app.history("lark:chat:oc_garden").await;
    assert_eq!(history[0]["metadata"]["actorKey"], "lark:chat:oc_garden:user:ou_ada");

    let mut event = mentioning(text("om_4", GROUP, "@_user_1 and here?", 3));
    event["event"]["message"]["thread_id"] = json!("omt_7");
    event["event"]["message"]["root_id"] = json!("om_1");
    it.handle(&event).await;
    assert_eq!(it.app.history("lark:chat:oc_garden:thread:omt_7").await.len(), 2);
    let sent = &it.lark.sent()[1];
    assert_eq!((sent.reply_to.as_deref(), sent.in_thread), (Some("om_4"), Some(true)));
    it.app.finish().await;
}

#[tokio::test]
async fn messages_between_mentions_are_fetched_once_and_in_order() {
    let it = LarkApp::with(&[]).await;
    for (id, words, seconds) in [("om_1", "the roses are dry", 0), ("om_2", "the well is low", 10)] {
        it.lark.seed(listed(id, words, seconds));
    }
    // A forwarded conversation that cannot be opened keeps no other message out.
    let mut closed = listed("om_c", "", 5);
    closed["msg_type"] = json!("merge_forward");
    it.lark.seed(closed);
    it.lark.recall("om_c");
    it.handle(&mentioning(text("om_3", GROUP, "@_user_1 what now?", 20))).await;
    let asked = lines_said(&it.app.last_request());
    assert!(asked.len() >= 4, "{asked:?}");
    for (line, words) in asked.iter().zip(["roses", "forwarded messages", "well", "what now?"]) {
        assert_has(line, &[words]);
    }
    it.lark.seed(listed("om_4", "it rains", 30));
    it.handle(&mentioning(text("om_5", GROUP, "@_user_1 and now?", 40))).await;
    let ids = it.app.ids("lark:chat:oc_garden").await;
    assert_eq!(ids, ["om_1", "om_c", "om_2", "om_3", "om_3/reply", "om_4", "om_5", "om_5/reply"]);

    // A p2p chat is never listed.
    let lists = it.lark.codes("list").len();
    it.handle(&text("om_6", P2P, "hello", 50)).await;
    assert_eq!(it.lark.codes("list").len(), lists);
    it.app.finish().await;
}

/// Lark still has what was deleted here: it is not fetched again, also once nothing of the chat is left.
#[tokio::test]
async fn a_deleted_group_does_not_come_back_from_the_platform() {
    let it = LarkApp::with(&[]).await;
    it.lark.seed(listed("om_1", "the safe is under the roses", 0));
    it.handle(&mentioning(text("om_2", GROUP, "@_user_1 hello", 10))).await;
    for (id, seconds) in [("om_3", 120), ("om_4", 40 * 3600)] {
        it.app.clock().advance(Duration::from_mins(1));
        let forgotten = it.app.forget("lark:chat:oc_garden", OPS_KEY).await;
        assert_eq!(forgotten.status, 200);
        it.app.clock().advance(Duration::from_secs(seconds));
        it.app.idle_as_hours_pass().await;
        let seconds = seconds.cast_signed();
        it.lark.seed(listed(&format!("{id}a"), "it rains", seconds));
        it.handle(&mentioning(text(id, GROUP, "@_user_1 and now?", seconds + 10))).await;
        let ids = it.app.ids("lark:chat:oc_garden").await;
        assert_eq!(ids, [format!("{id}a"), id.into(), format!("{id}/reply")]);
    }
    it.app.finish().await;
}

#[tokio::test]
async fn without_its_surroundings_a_message_is_answered_all_the_same() {
    let it = LarkApp::with(&[]).await;
    it.handle(&mentioning(text("om_1", GROUP, "@_user_1 hello", 0))).await;
    it.lark.fail(3, 502);
    it.receive(&mentioning(text("om_2", GROUP, "@_user_1 again", 1))).await;
    it.app.idle_as_time_passes().await;
    assert_eq!(it.sent().len(), 2);
    it.app.finish().await;
}

#[tokio::test]
async fn a_recalled_message_leaves_the_context_and_stays_in_the_history() {
    let it = LarkApp::start().await;
    it.handle(&text("om_1", P2P, "my secret", 0)).await;
    it.lark.seed(deleted("om_1", 0));
    for _ in 0..2 {
        it.handle(&recalled("om_1", 5)).await;
    }
    let ids = it.app.ids("lark:chat:oc_ada").await;
    assert_eq!(ids, ["om_1", "om_1@1", "om_1/reply"], "the message is gone, or not recalled once");
    let context = it.app.context_lines("lark:chat:oc_ada").await.join("\n");
    assert!(!context.contains("user: my secret"), "{context}");
    assert_eq!(it.app.model().count(), 1);
    it.app.finish().await;
}

#[tokio::test]
async fn a_message_that_is_recalled_while_a_tool_runs_is_not_answered() {
    let (shop, it) = LarkApp::with_shop(&json!({}), &[]).await;
    it.app.model().answer_tools(&[("shop_slow", json!({}))]);
    it.receive(&text("om_1", P2P, "Count the beans.", 0)).await;
    wait_until("the call is under way", async || shop.carried_out().len() == 1).await;
    it.lark.seed(deleted("om_1", 0));
    it.receive(&recalled("om_1", 5)).await;
    shop.release();
    it.app.idle().await;
    assert_eq!((it.app.model().count(), it.sent().len()), (1, 0));
    assert_eq!(it.app.ids("lark:chat:oc_ada").await, ["om_1", "om_1@1"]);
    // The chat goes on.
    it.handle(&text("om_2", P2P, "hello", 10)).await;
    assert_eq!(it.sent(), ["You said: hello"]);
    it.app.finish().await;
}

#[tokio::test]
async fn a_recall_of_the_newest_message_leaves_the_answer_to_the_others() {
    let it = LarkApp::with(&[("LARK_GROUP_CONTEXT", "0"), ("REPLY_QUIET", "1s")]).await;
    it.app.model().hang();
    for id in ["om_1", "om_2"] {
        it.receive(&mentioning(text(id, GROUP, "@_user_1 hello", 0))).await;
    }
    it.app.clock().advance(Duration::from_secs(1));
    it.app.model().wait_for(1).await;
    it.lark.recall("om_2");
    it.app.model().resume();
    it.app.idle().await;
    let sent = it.lark.sent_to(GROUP);
    assert_eq!((it.app.model().count(), sent.len(), it.lark.codes("reply")), (1, 1, vec![230_011]));
    assert_eq!(sent[0].reply_to, None);
    it.app.finish().await;
}

#[tokio::test]
async fn a_reminder_comes_also_if_its_command_was_recalled() {
    let it = LarkApp::start().await;
    it.handle(&text("om_1", P2P, "/remind in 20 minutes tea", 0)).await;
    it.lark.recall("om_1");
    it.app.clock().advance(Duration::from_mins(20));
    let arrived = wait_until("the reminder has come", async || it.sent().len() == 2);
    passing(it.app.clock(), Duration::from_secs(1), arrived).await;
    it.app.idle().await;
    let sent = &it.lark.sent()[1];
    assert!(sent.reply_to.is_none() && sent.text().contains("tea"), "{sent:?}");
    it.app.finish().await;
}

#[tokio::test]
async fn a_message_that_arrives_after_its_own_recall_is_neither_answered_nor_carried_out() {
    let it = LarkApp::start().await;
    it.receive(&text("om_2", P2P, "late, and still there", -59)).await;
    for (id, words) in [("om_1", "my secret"), ("om_3", "/remind in 20 minutes tea")] {
        it.lark.seed(deleted(id, -60));
        it.handle(&text(id, P2P, words, -60)).await;
    }
    let context = it.app.context_lines("lark:chat:oc_ada").await.join("\n");
    assert!(!context.contains("my secret") && context.contains("still there"), "{context}");
    assert_eq!((it.app.model().count(), it.sent().len()), (1, 1));
    let schedules = it.app.get(&chat_path("lark:chat:oc_ada", "schedules")).await;
    assert_eq!(schedules["schedules"], json!([]));
    let listed = it.app.lines("lark:chat:oc_ada").await;
    for line in ["om_1 user: my secret", "om_3 user: /remind in 20 minutes tea"] {
        assert!(listed.iter().any(|listed| listed == line), "{line} is not in {listed:#?}");
    }
    it.app.finish().await;
}

#[tokio::test]
async fn a_recall_that_overtakes_its_message_is_asked_for_again() {
    let it = LarkApp::start().await;
    it.lark.seed(deleted("om_1", 0));
    let recalled = recalled("om_1", 0);
    assert_eq!(it.send(&recalled).await.status, 503);
    it.handle(&text("om_1", P2P, "my secret", 0)).await;
    it.receive(&recalled).await;
    let context = it.app.context_lines("lark:chat:oc_ada").await.join("\n");
    assert!(!context.contains("user: my secret"), "{context}");
    it.app.finish().await;
}

#[tokio::test]
async fn a_late_message_is_stored_also_where_lark_does_not_tell_whether_it_stands() {
    let it = LarkApp::start().await;
    it.lark.fail(20, 502);
    it.receive(&text("om_1", P2P, "late", -3600)).await;
    assert_eq!(it.app.history("lark:chat:oc_ada").await[0]["id"], "om_1");
    it.app.idle_as_hours_pass().await;
    assert_eq!(it.sent(), ["You said: late"]);
    it.app.finish().await;
}

#[tokio::test]
async fn a_forwarded_conversation_is_read_with_its_messages() {
    let it = LarkApp::start().await;
    let mut forwarded = listed("om_9", "", 0);
    forwarded["msg_type"] = json!("merge_forward");
    forwarded["body"]["content"] = json!("Merged and Forwarded Message");
    it.lark.seed(forwarded);
    for (id, words) in [("om_a", "first words"), ("om_b", "second words")] {
        let mut child = listed(id, words, -100);
        child["upper_message_id"] = json!("om_9");
        it.lark.seed(child);
    }
    it.handle(&message("om_9", P2P, "merge_forward", &json!("Merged and Forwarded Message"), 0)).await;
    let asked = texts_of(&it.app.last_request(), "user").join("\n");
    assert!(asked.contains("first words") && asked.contains("second words"), "{asked}");
    it.app.finish().await;
}

#[tokio::test]
async fn the_replied_to_message_is_fetched_for_a_message_that_asks() {
    let it = LarkApp::start().await;
    let words = "the well is low ".repeat(100);
    let mut parent = listed("om_1", &words, 0);
    parent["mentions"] = json!([{"key": "@_user_1", "id": "ou_bo", "id_type": "open_id", "name": "Bo"}]);
    it.lark.seed(parent);
    let mut own = listed("om_2", "It rains.", 0);
    own["sender"] = json!({"id": APP_ID, "id_type": "app_id", "sender_type": "app"});
    it.lark.seed(own);
    let replying = |id: &str, words: &str, to: &str| {
        let mut event = text(id, GROUP, words, 1);
        event["event"]["message"]["parent_id"] = json!(to);
        event["event"]["message"]["root_id"] = json!(to);
        event
    };
    let first = mentioning(replying("om_3", "@_user_1 ", "om_1"));
    it.handle(&first).await;
    it.handle(&mentioning(replying("om_4", "@_user_1 really?", "om_2"))).await;
    it.handle(&replying("om_5", "indeed", "om_1")).await;
    assert_eq!(it.lark.codes("get"), [0, 0], "a message that does not ask costs a request");
    it.lark.recall("om_1");
    it.handle(&mentioning(replying("om_6", "@_user_1 and now?", "om_1"))).await;
    it.handle(&first).await;

    let history = it.app.history("lark:chat:oc_garden").await;
    let said = history.iter().filter(|message| message["role"] == "user");
    let said: Vec<_> = said.map(|message| (&message["id"], &message["metadata"]["replyTo"])).collect();
    let of_bo = json!({"messageId": "om_1", "text": format!("{}…", &words[..1000]), "senderName": "Bo"});
    let of_the_bot = json!({"messageId": "om_2", "text": "It rains.", "own": true});
    let unknown = json!({"messageId": "om_1"});
    let ids = ["om_3", "om_4", "om_5", "om_6"].map(|id| json!(id));
    let wanted: Vec<_> = ids.iter().zip([&of_bo, &of_the_bot, &unknown, &unknown]).collect();
    assert_eq!(said, wanted);
    it.app.finish().await;
}

#[tokio::test]
async fn a_card_in_a_group_and_in_a_forward_is_read_whole() {
    let it = LarkApp::with(&[]).await;
    let card =
        |words: &str| json!({"schema": "2.0", "body": {"elements": [{"tag": "markdown", "content": words}]}});
    let of_type = |kind: &str, id: &str, content: &Value| {
        let mut item = listed(id, "", 0);
        item["msg_type"] = json!(kind);
        item["body"]["content"] = json!(content.to_string());
        item
    };
    it.lark.seed(of_type("interactive", "om_1", &card("the build failed")));
    it.lark.seed(of_type("merge_forward", "om_2", &json!({})));
    let in_a_string = json!({"json_card": card("the well is low").to_string()});
    let mut child = of_type("interactive", "om_a", &in_a_string);
    child["upper_message_id"] = json!("om_2");
    it.lark.seed(child);
    it.handle(&mentioning(text("om_3", GROUP, "@_user_1 what now?", 10))).await;
    let asked = texts_of(&it.app.last_request(), "user").join("\n");
    assert_has(&asked, &["the build failed", "the well is low"]);
    it.app.finish().await;
}

#[tokio::test]
async fn a_permanent_refusal_of_lark_ends_delivery_with_its_reason() {
    let it = LarkApp::start().await;
    // The bot is not in the group, the message was withdrawn, the user has stopped the bot, the chat is no more.
    for code in [230_002, 230_011, 230_053, 232_009] {
        let chat = format!("oc_{code}");
        it.lark.refuse(1, code);
        let event = mentioning(text(&format!("om_{code}"), &chat, "@_user_1 hello", 0));
        for _ in 0..2 {
            it.handle(&event).await;
        }
        let reply = it.app.history(&format!("lark:chat:{chat}")).await.pop().unwrap();
        let reason = reply["metadata"]["deliveryFailure"]["reason"].as_str().unwrap().to_owned();
        assert!(reason.contains(&code.to_string()), "{reason}");
    }
    // No refused message was sent, or answered again.
    assert_eq!((it.sent().len(), it.app.model().count()), (0, 4));
    it.app.finish().await;
}

#[tokio::test]
async fn an_image_reaches_the_model_from_a_picture_a_post_and_a_file_and_is_fetched_once() {
    let it = LarkApp::start().await;
    it.handle(&message("om_1", P2P, "image", &json!({"image_key": "img_1"}), 0)).await;
    let shown_now = || images_of(&it.app.last_request());
    assert_eq!(shown_now(), [picture("img_1")]);
    let post = json!({"title": "", "content": [[{"tag": "text", "text": "both"}, {"tag": "img", "image_key": "img_2"}]]});
    it.handle(&message("om_2", P2P, "post", &post, 10)).await;
    let file = json!({"file_key": "file_3", "file_name": "plan.png"});
    it.handle(&message("om_3", P2P, "file", &file, 20)).await;
    let shown = ["img_1", "img_2", "file_3"].map(picture);
    assert_eq!(shown_now(), shown);
    assert_eq!(it.lark.codes("resource"), [0; 3]);
    assert!(it.sent().iter().all(|text| !text.contains("Not seen")), "{:?}", it.sent());

    // An image that Lark no longer has, and a video, which is not shown to the model.
    it.lark.edit(|store| store.gone.insert("img_4".into()));
    it.handle(&message("om_4", P2P, "image", &json!({"image_key": "img_4"}), 30)).await;
    let media =
        json!({"file_key": "file_5", "image_key": "img_5", "file_name": "walk.mp4", "duration": 2000});
    it.handle(&message("om_5", P2P, "media", &media, 40)).await;
    let sent = it.sent();
    assert!(sent[3].ends_with("Not seen: image (it can no longer be fetched)."), "{sent:?}");
    assert!(sent[4].ends_with("Not seen: walk.mp4, 0:02 (videos cannot be watched here)."), "{sent:?}");
    assert_eq!(shown_now(), shown);
    assert_eq!(it.lark.codes("resource"), [0, 0, 0, 234_003], "a file was fetched twice");
    it.app.finish().await;
}

/// Creates the event of a pressed button that carries `value`.
pub(crate) fn pressed(value: &Value, chat: &str, user: &str) -> Value {
    json!({
        "schema": "2.0",
        "header": {"event_id": "ev_press", "event_type": "card.action.trigger", "token": TOKEN, "app_id": APP_ID,
                   "create_time": (NOW * 1000).to_string()},
        "event": {"operator": {"open_id": user}, "token": "c-1", "host": "im_message",
                  "action": {"tag": "button", "value": value},
                  "context": {"open_message_id": "om_sent_1", "open_chat_id": chat}},
    })
}

/// The chat of a linked person has another identity's name than the one that presses.
#[tokio::test]
async fn a_linked_person_answers_by_a_button_in_their_own_chat() {
    let settings = [("DM_SCOPE", "user"), ("LINKS", "ada,lark-ou_ada")];
    let (shop, it) = LarkApp::with_shop(&json!({"tools": {"refund": {"approval": true}}}), &settings).await;
    it.app.model().answer_tools(&[("shop_refund", json!({"order": "A1"}))]);
    it.handle(&text("om_1", P2P, "pay it back", 0)).await;
    let values = it.lark.sent().last().unwrap().button_values();
    let (closed, approved) = ("This request is no longer open.", "Approved: shop_refund.");
    for (user, toast, carried_out) in [("ou_stranger", closed, 0), ("ou_ada", approved, 1)] {
        let answer = it.send(&pressed(&values[0], P2P, user)).await;
        it.app.idle().await;
        assert_eq!(answer.body["toast"]["content"], toast, "{user}");
        assert_eq!(shop.carried_out().len(), carried_out, "{user}");
    }
    it.app.finish().await;
}

#[tokio::test]
async fn a_card_asks_for_a_call_and_one_press_of_who_may_makes_it() {
    let (shop, it) = LarkApp::with_shop(&json!({"tools": {"refund": {"approval": true}}}), &[]).await;
    it.lark.set_managers(GROUP, &["ou_owner", "ou_manager"]);
    for (n, user, is_let) in [(1, "ou_stranger", false), (2, "ou_manager", true), (3, "ou_ada", true)] {
        it.app.model().answer_tools(&[("shop_refund", json!({"order": format!("A{n}")}))]);
        it.handle(&mentioning(text(&format!("om_{n}"), GROUP, "@_user_1 pay it back", n))).await;
        let sent = it.lark.sent();
        let card = sent.last().unwrap();
        assert!(sent[sent.len() - 2].text().contains("/approve"), "the text names no command");
        let values = card.button_values();
        assert_eq!((values.len(), card.msg_type.as_str()), (2, "interactive"), "{card:?}");
        let before = shop.carried_out().len();
        for _ in 0..2 {
            let answer = it.send(&pressed(&values[0], GROUP, user)).await;
            it.app.idle().await;
            assert_eq!(answer.status, 200);
            let kind = if is_let { "success" } else { "warning" };
            assert_eq!(answer.body["toast"]["type"], kind, "{user}: {:?}", answer.body);
        }
        assert_eq!(shop.carried_out().len() - before, usize::from(is_let), "{user}");
        if !is_let {
            // With two open requests a command would have to name one, so this one is denied.
            it.send(&pressed(&values[1], GROUP, "ou_ada")).await;
            it.app.idle().await;
        }
    }
    // By its other button, and by text.
    for (n, is_press) in [(4, true), (5, false)] {
        it.app.model().answer_tools(&[("shop_refund", json!({"order": format!("A{n}")}))]);
        it.handle(&mentioning(text(&format!("om_{n}"), GROUP, "@_user_1 pay it back", n))).await;
        let (values, before) = (it.lark.sent().last().unwrap().button_values(), shop.carried_out().len());
        if is_press {
            let answer = it.send(&pressed(&values[1], GROUP, "ou_ada")).await;
            assert_eq!(answer.body["toast"], json!({"type": "success", "content": "Denied: shop_refund."}));
        } else {
            it.receive(&mentioning(text("om_deny", GROUP, "@_user_1 /deny too much", 6))).await;
            assert_eq!(it.lark.sent().last().unwrap().text(), "Denied: shop_refund.");
        }
        it.app.idle().await;
        assert_eq!(shop.carried_out().len(), before);
        // The first answer counts.
        let answer = it.send(&pressed(&values[0], GROUP, "ou_ada")).await;
        assert_eq!(answer.body["toast"]["content"], "Denied already: shop_refund.");
        it.app.idle().await;
        assert_eq!(shop.carried_out().len(), before);
    }
    let other = it.send(&pressed(&json!({"theirs": true}), GROUP, "ou_ada")).await;
    assert_eq!((other.status.as_u16(), other.body), (200, json!({})));
    it.app.finish().await;
}
