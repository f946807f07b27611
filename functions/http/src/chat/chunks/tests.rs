use annals_core::message::{Role, UiMessage};
use annals_core::sort_key::{MessageId, SortKey};
use annals_core::testing;
use annals_core::texts::Plain;
use annals_test_support::json::with;

use super::*;

fn record(kind: Kind, parts: Value) -> Record {
    let parts: Vec<Part> = serde_json::from_value(parts).unwrap();
    let base: SortKey = "1763765920000#m1".parse().unwrap();
    let what = if kind == Kind::Notice { "notice" } else { "reply" };
    let message_id = MessageId::new("m1").unwrap().derived(what);
    let message = UiMessage::new(message_id.as_str(), Role::Assistant, parts);
    Record { message, ..testing::record(base.reply(), message_id, Role::Assistant, kind, "") }
}

/// Returns the chunks so far, each as its type and the fields that distinguish it.
fn sent(encoder: &mut ChunkEncoder) -> String {
    let what = |chunk: Value| {
        let keys =
            ["type", "messageId", "delta", "toolCallId", "approvalId", "output", "errorText", "finishReason"];
        let fields = keys.iter().filter_map(|key| chunk.get(key));
        let plain = |field: &Value| field.as_str().map_or_else(|| field.to_string(), str::to_owned);
        fields.map(plain).collect::<Vec<_>>().join(" ")
    };
    encoder.take().into_iter().map(what).collect::<Vec<_>>().join(", ")
}

fn parts(parts: Value) -> Vec<Part> {
    serde_json::from_value(parts).unwrap()
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

#[test]
fn only_the_rest_of_a_streamed_reply_follows_when_it_is_stored() {
    let mut encoder = ChunkEncoder::new("m1/reply", &[]);
    encoder.delta(true, "hm");
    encoder.delta(false, "\n");
    encoder.delta(false, "Hel");
    let begun =
        "start m1/reply, start-step, reasoning-start, reasoning-delta hm, text-start, text-delta \nHel";
    assert_eq!(sent(&mut encoder), begun);
    let stored = json!([{"type": "step-start"}, {"type": "reasoning", "text": "hm"}, text("\nHello")]);
    encoder.finish(&record(Kind::Normal, stored));
    assert_eq!(sent(&mut encoder), "text-delta lo, reasoning-end, text-end, finish-step, finish stop");
}

/// The reply has the reasoning of a step first, however the model sent them.
#[test]
fn reasoning_may_follow_the_text_of_its_step() {
    let mut encoder = ChunkEncoder::new("m1/reply", &[]);
    encoder.delta(false, "Hel");
    encoder.delta(true, "hm");
    encoder.delta(false, "l");
    sent(&mut encoder);
    let stored = json!([{"type": "step-start"}, {"type": "reasoning", "text": "hm, so"}, text("Hello")]);
    encoder.finish(&record(Kind::Normal, stored));
    let rest = "reasoning-delta , so, text-delta o, reasoning-end, text-end, finish-step, finish stop";
    assert_eq!(sent(&mut encoder), rest);
}

#[test]
fn a_reply_of_another_process_is_sent_whole() {
    let stored = json!([
        {"type": "step-start"},
        text("Let me look."),
        {"type": "tool-search", "toolCallId": "c1", "state": "output-available", "input": {"q": 1}, "output": [1]},
        {"type": "tool-search", "toolCallId": "c2", "state": "output-error", "input": {}, "errorText": "down"},
        {"type": "step-start"},
        {"type": "tool-refund", "toolCallId": "c3", "state": "approval-requested", "input": {},
         "approval": {"id": "a1"}},
    ]);
    let mut encoder = ChunkEncoder::new("", &[]);
    encoder.finish(&record(Kind::Normal, stored));
    assert_eq!(
        sent(&mut encoder),
        "start m1/reply, start-step, text-start, text-delta Let me look., \
         tool-input-start c1, tool-input-available c1, tool-output-available c1 [1], \
         tool-input-start c2, tool-input-available c2, tool-output-error c2 down, text-end, finish-step, start-step, \
         tool-input-start c3, tool-input-available c3, tool-approval-request c3 a1, finish-step, finish tool-calls"
    );
}

#[test]
fn a_resumed_reply_sends_the_results_of_its_calls() {
    let call = |state: &str, more: Value| {
        let call = json!({"type": "tool-refund", "toolCallId": "c1", "state": state, "input": {},
            "approval": {"id": "a1"}});
        with(call, more)
    };
    let (start, output) = (json!({"type": "step-start"}), json!({"output": "ok"}));
    let asked = parts(json!([start, call("approval-requested", json!({}))]));
    let mut encoder = ChunkEncoder::new("m1/reply", &asked);
    encoder.parts(&parts(json!([start, call("approval-responded", json!({}))])));
    encoder.parts(&parts(json!([start, call("output-available", output.clone())])));
    encoder.delta(false, "Done.");
    let end = json!([start, call("output-available", output), start, text("Done.")]);
    encoder.finish(&record(Kind::Normal, end));
    let rest = "start-step, text-start, text-delta Done., text-end, finish-step, finish stop";
    assert_eq!(sent(&mut encoder), format!("start m1/reply, tool-output-available c1 ok, {rest}"));
    // A client that has loaded the history has it as a form, and would show a reply of another id beside it.
    let mut denied = ChunkEncoder::new("m1/reply@1", &asked);
    denied.begin("m1/reply");
    let end = json!([start, call("output-denied", json!({})), start, text("No.")]);
    denied.finish(&record(Kind::Normal, end));
    let denied = sent(&mut denied);
    assert!(denied.starts_with("start m1/reply@1, tool-output-denied c1, "), "{denied}");
    assert!(denied.ends_with(", finish stop"), "{denied}");
}

#[test]
fn a_stored_reply_that_does_not_match_the_chunks_is_an_error() {
    let mut encoder = ChunkEncoder::new("m1/reply", &[]);
    encoder.delta(false, "One tw");
    encoder.discard();
    encoder.delta(false, "Uno");
    encoder.finish(&record(Kind::Normal, json!([text("Uno")])));
    let broken_off =
        "start m1/reply, start-step, text-start, text-delta One tw, text-end, finish-step, error ";
    assert_eq!(sent(&mut encoder), format!("{broken_off}{}", En.answered_anew()));
    // A reply that begins with the chunks continues them.
    let mut encoder = ChunkEncoder::new("m1/reply", &[]);
    encoder.begin("m1/reply");
    encoder.delta(false, "One tw");
    encoder.begin("m1/reply");
    encoder.delta(false, "One two");
    encoder.finish(&record(Kind::Normal, json!([text("One two three")])));
    let whole = "text-start, text-delta One tw, text-delta o three, text-end, finish-step, finish stop";
    assert_eq!(sent(&mut encoder), format!("start m1/reply, start-step, {whole}"));
    // A notice is the error.
    let mut encoder = ChunkEncoder::new("m1/reply", &[]);
    encoder.delta(false, "One tw");
    encoder.finish(&record(Kind::Notice, json!([text("Sorry.")])));
    assert_eq!(sent(&mut encoder), format!("{broken_off}Sorry."));
    // Without chunks there is nothing to contradict.
    let mut encoder = ChunkEncoder::new("m1/reply", &[]);
    encoder.delta(false, " ");
    encoder.discard();
    encoder.delta(false, "Uno");
    encoder.finish(&record(Kind::Normal, json!([text("Uno")])));
    assert!(sent(&mut encoder).ends_with(", finish stop"));
}

/// A client ends with what is stored, whatever it has got of it.
#[test]
fn a_stopped_reply_ends_with_the_rest_of_it_and_an_abort() {
    let stored = || record(Kind::Normal, json!([{"type": "step-start"}, text("One two")]));
    let mut encoder = ChunkEncoder::new("m1/reply", &[]);
    encoder.delta(false, "One");
    encoder.abort(&stored());
    let whole = "text-start, text-delta One, text-delta  two, text-end, finish-step, message-metadata, abort";
    assert_eq!(sent(&mut encoder), format!("start m1/reply, start-step, {whole}"));
    // One that connects late gets it whole.
    let mut late = ChunkEncoder::new("", &[]);
    late.abort(&stored());
    assert!(sent(&mut late).ends_with("text-delta One two, text-end, finish-step, message-metadata, abort"));
    // Of another text it does not become this one.
    let mut other = ChunkEncoder::new("m1/reply", &[]);
    other.delta(false, "Uno");
    other.abort(&stored());
    assert!(sent(&mut other).ends_with(En.answered_anew()));
}

#[test]
fn only_admins_are_sent_the_cause_of_a_failure() {
    let mut failed = record(Kind::Notice, json!([text("Sorry.")]));
    failed.message.metadata.set_cause("check MODEL_API_KEY");
    for is_admin in [true, false] {
        let mut encoder = ChunkEncoder::new("", &[]).for_caller(is_admin, &En);
        encoder.finish(&failed);
        let chunks = encoder.take();
        let cause = chunks.last().unwrap()["messageMetadata"].get("cause");
        assert_eq!(cause, is_admin.then(|| json!("check MODEL_API_KEY")).as_ref());
        let mut broken = ChunkEncoder::new("m1/reply", &[]).for_caller(is_admin, &En);
        broken.delta(false, "One");
        broken.finish(&failed);
        let wanted = if is_admin { "error Sorry. (check MODEL_API_KEY)" } else { "error Sorry." };
        assert!(sent(&mut broken).ends_with(wanted));
    }
}

/// In `ai` 6.0.0 an unknown key ends the stream.
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
    let mut encoder = ChunkEncoder::new("", &[]);
    encoder.finish(&record(Kind::Normal, stored.clone()));
    let mut aborted = ChunkEncoder::new("", &[]);
    aborted.abort(&record(Kind::Normal, stored));
    encoder.out.extend(aborted.take());
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
            "message-metadata" => &["messageMetadata"],
            kind => panic!("{kind}"),
        }
    };
    for chunk in encoder.take() {
        let keys = known(chunk["type"].as_str().unwrap());
        for key in chunk.as_object().unwrap().keys().filter(|key| *key != "type") {
            assert!(keys.contains(&key.as_str()), "{chunk}");
        }
    }
}
