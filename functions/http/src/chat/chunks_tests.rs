use annals_shared::chat_key::ChatKey;
use annals_shared::message::{Role, UiMessage};
use annals_shared::record::Channel;
use annals_shared::sort_key::{MessageId, SortKey, Timestamp};

use super::*;

fn record(kind: Kind, parts: Value) -> Record {
    let parts: Vec<Part> = serde_json::from_value(parts).unwrap();
    let base: SortKey = "1763765920000#m1".parse().unwrap();
    let what = if kind == Kind::Notice { "notice" } else { "reply" };
    let message_id = MessageId::new("m1").unwrap().derived(what);
    Record {
        chat: ChatKey::http("app", "c").unwrap(),
        key: base.reply(),
        channel: Channel::Web,
        chat_id: "r".into(),
        user_id: "annals".into(),
        ts: base.ts(),
        sent_at: Timestamp::MIN,
        form_ts: None,
        revision: 0,
        kind,
        tokens: 1,
        message: UiMessage::new(message_id.as_str(), Role::Assistant, parts),
        message_id,
        expires_at: None,
        album: None,
        asks: false,
        covers: vec![base],
        delivery_failure: None,
        source: None,
        person: None,
    }
}

/// The chunks so far, each as `type` and what tells it from others of its type.
fn told(teller: &mut Teller) -> Vec<String> {
    let what = |chunk: &Value| {
        let keys = ["messageId", "delta", "toolCallId", "approvalId", "output", "errorText", "finishReason"];
        let more: Vec<String> = keys.iter().filter_map(|key| chunk.get(key)).map(plain).collect();
        [chunk["type"].as_str().unwrap().to_owned()].into_iter().chain(more).collect::<Vec<_>>().join(" ")
    };
    teller.take().iter().map(what).collect()
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn parts(parts: Value) -> Vec<Part> {
    serde_json::from_value(parts).unwrap()
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

#[test]
fn what_was_heard_is_not_said_again_and_what_was_not_is() {
    let mut teller = Teller::new("m1/reply", &[]);
    teller.words(true, "hm");
    teller.words(false, "\n");
    teller.words(false, "Hel");
    assert_eq!(
        told(&mut teller),
        [
            "start m1/reply",
            "start-step",
            "reasoning-start",
            "reasoning-delta hm",
            "text-start",
            "text-delta \nHel"
        ]
    );
    let stored = json!([{"type": "step-start"}, {"type": "reasoning", "text": "hm"}, text("\nHello")]);
    teller.finish(&record(Kind::Normal, stored));
    assert_eq!(
        told(&mut teller),
        ["text-delta lo", "reasoning-end", "text-end", "finish-step", "finish stop"]
    );
}

#[test]
fn a_reply_that_nobody_heard_comes_whole() {
    let stored = json!([
        {"type": "step-start"},
        text("Let me look."),
        {"type": "tool-search", "toolCallId": "c1", "state": "output-available", "input": {"q": 1}, "output": [1]},
        {"type": "tool-search", "toolCallId": "c2", "state": "output-error", "input": {}, "errorText": "down"},
        {"type": "step-start"},
        {"type": "tool-refund", "toolCallId": "c3", "state": "approval-requested", "input": {},
         "approval": {"id": "a1"}},
    ]);
    let mut teller = Teller::new("", &[]);
    teller.finish(&record(Kind::Normal, stored));
    assert_eq!(
        told(&mut teller),
        [
            "start m1/reply",
            "start-step",
            "text-start",
            "text-delta Let me look.",
            "tool-input-start c1",
            "tool-input-available c1",
            "tool-output-available c1 [1]",
            "tool-input-start c2",
            "tool-input-available c2",
            "tool-output-error c2 down",
            "text-end",
            "finish-step",
            "start-step",
            "tool-input-start c3",
            "tool-input-available c3",
            "tool-approval-request c3 a1",
            "finish-step",
            "finish tool-calls"
        ]
    );
}

#[test]
fn a_reply_that_goes_on_says_what_its_calls_came_to() {
    let call = |state: &str, more: Value| {
        let mut call = json!({"type": "tool-refund", "toolCallId": "c1", "state": state, "input": {},
            "approval": {"id": "a1"}});
        call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        call
    };
    let asked = parts(json!([{"type": "step-start"}, call("approval-requested", json!({}))]));
    let mut teller = Teller::new("m1/reply", &asked);
    teller.parts(&parts(json!([{"type": "step-start"}, call("approval-responded", json!({}))])));
    teller.parts(&parts(json!([{"type": "step-start"}, call("output-available", json!({"output": "ok"}))])));
    teller.words(false, "Done.");
    let end = json!([{"type": "step-start"}, call("output-available", json!({"output": "ok"})),
        {"type": "step-start"}, text("Done.")]);
    teller.finish(&record(Kind::Normal, end));
    assert_eq!(
        told(&mut teller),
        [
            "start m1/reply",
            "tool-output-available c1 ok",
            "start-step",
            "text-start",
            "text-delta Done.",
            "text-end",
            "finish-step",
            "finish stop"
        ]
    );
    let mut denied = Teller::new("m1/reply", &asked);
    let end = json!([{"type": "step-start"}, call("output-denied", json!({})), {"type": "step-start"}, text("No.")]);
    denied.finish(&record(Kind::Normal, end));
    assert_eq!(told(&mut denied)[1], "tool-output-denied c1");
}

#[test]
fn what_was_sent_and_is_not_stored_is_an_error() {
    let mut teller = Teller::new("m1/reply", &[]);
    teller.words(false, "One tw");
    teller.void();
    teller.words(false, "Uno");
    teller.finish(&record(Kind::Normal, json!([text("Uno")])));
    let all = told(&mut teller);
    assert!(all.last().unwrap().starts_with("error The answer broke off"), "{all:?}");
    assert!(!all.iter().any(|chunk| chunk.contains("Uno") || chunk.starts_with("finish ")), "{all:?}");
    // The same again goes on from there.
    let mut teller = Teller::new("m1/reply", &[]);
    teller.begin("m1/reply");
    teller.words(false, "One tw");
    teller.begin("m1/reply");
    teller.words(false, "One two");
    teller.finish(&record(Kind::Normal, json!([text("One two three")])));
    assert_eq!(
        told(&mut teller)[2..],
        ["text-start", "text-delta One tw", "text-delta o three", "text-end", "finish-step", "finish stop"]
    );
    // A notice says why.
    let mut teller = Teller::new("m1/reply", &[]);
    teller.words(false, "One tw");
    teller.finish(&record(Kind::Notice, json!([text("Sorry.")])));
    assert_eq!(told(&mut teller).last().unwrap(), "error Sorry.");
    // Where nothing was sent, nothing is wrong.
    let mut teller = Teller::new("m1/reply", &[]);
    teller.words(false, " ");
    teller.void();
    teller.words(false, "Uno");
    teller.finish(&record(Kind::Normal, json!([text("Uno")])));
    assert_eq!(told(&mut teller).last().unwrap(), "finish stop");
}

/// Each key of each chunk is one that `ai` 6.0.0 takes: there an unknown one ends the stream.
#[test]
fn only_chunks_of_the_first_version_are_sent() {
    let stored = json!([
        {"type": "step-start"},
        {"type": "reasoning", "text": "hm", "providerMetadata": {"x": {"y": 1}}},
        text("t"),
        {"type": "file", "url": "data:,x", "mediaType": "text/plain", "filename": "x", "later": 1},
        {"type": "source-url", "sourceId": "s", "url": "https://example.com", "later": 1},
        {"type": "reasoning-file", "url": "data:,x", "mediaType": "text/plain"},
        {"type": "data-x", "id": "d", "data": 1, "later": 1},
        {"type": "hologram", "depth": 3},
        {"type": "dynamic-tool", "toolName": "t", "toolCallId": "c", "state": "output-available", "input": {},
         "output": 1, "preliminary": true, "title": "T"},
    ]);
    let mut teller = Teller::new("", &[]);
    teller.finish(&record(Kind::Normal, stored));
    let known = |kind: &str| -> &[&str] {
        match kind {
            "start" => &["messageId", "messageMetadata"],
            "start-step" | "finish-step" | "abort" => &[],
            "text-start" | "text-end" | "reasoning-start" | "reasoning-end" => &["id"],
            "text-delta" | "reasoning-delta" => &["id", "delta"],
            "file" => &["url", "mediaType"],
            "source-url" => &["sourceId", "url", "title"],
            "data-x" => &["id", "data"],
            "tool-input-start" => &["toolCallId", "toolName", "dynamic"],
            "tool-input-available" => &["toolCallId", "toolName", "input", "dynamic"],
            "tool-output-available" => &["toolCallId", "output"],
            "finish" => &["finishReason", "messageMetadata"],
            kind => panic!("{kind}"),
        }
    };
    for chunk in teller.take() {
        let keys = known(chunk["type"].as_str().unwrap());
        for key in chunk.as_object().unwrap().keys().filter(|key| *key != "type") {
            assert!(keys.contains(&key.as_str()), "{chunk}");
        }
    }
}
