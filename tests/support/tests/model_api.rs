//! The emulators of models' APIs refuse what the real ones refuse, so that what they take is well-formed.
#![allow(clippy::unwrap_used, reason = "tests and their support: a panic is a failure that names its line")]

use annals_test_support::http::client;
use annals_test_support::model_api::{API_KEY, ModelApi};
use serde_json::{Value, json};

#[tokio::test]
async fn the_openai_emulator_refuses_what_the_real_one_refuses() {
    let api = ModelApi::start().await;
    let hello = json!({"role": "user", "content": "hello"});
    let call = json!({"id": "c1", "type": "function", "function": {"name": "search", "arguments": "{}"}});
    let calls = json!({"role": "assistant", "content": null, "tool_calls": [call]});
    let result = json!({"role": "tool", "tool_call_id": "c1", "content": "a hill"});
    let tool = |function: Value| json!([{"type": "function", "function": function}]);
    let ask = async |parts: Value| {
        let body = annals_test_support::json::with(json!({"model": "test", "messages": [hello]}), parts);
        let request = client().post(format!("{}/chat/completions", api.base_url()));
        request.bearer_auth(API_KEY).json(&body).send().await.unwrap().status().as_u16()
    };
    let good = [
        json!({"max_tokens": 1}),
        json!({"max_completion_tokens": 1}),
        json!({"messages": [hello, calls, result]}),
        json!({"tools": tool(json!({"name": "search"})), "tool_choice": "auto"}),
    ];
    for parts in good {
        assert_eq!(ask(parts.clone()).await, 200, "{parts}");
    }
    let mut other = result.clone();
    other["tool_call_id"] = "c2".into();
    let mut broken = calls.clone();
    broken["tool_calls"][0]["function"]["arguments"] = "{".into();
    let search = json!({"type": "function", "function": {"name": "search"}});
    let bad = [
        json!({"max_tokens": 0}),
        json!({"max_tokens": "10"}),
        json!({"max_tokens": 1, "max_completion_tokens": 1}),
        json!({"messages": [hello, result]}),
        json!({"messages": [hello, calls]}),
        json!({"messages": [hello, calls, hello]}),
        json!({"messages": [hello, calls, other]}),
        json!({"messages": [hello, calls, result, result]}),
        json!({"messages": [hello, broken, result]}),
        json!({"messages": [hello, {"role": "assistant", "content": "hi", "tool_calls": []}]}),
        json!({"messages": [hello, {"role": "assistant", "content": null}]}),
        json!({"tools": []}),
        json!({"tools": tool(json!({"description": "no name"}))}),
        json!({"tools": tool(json!({"name": "two words"}))}),
        json!({"tools": tool(json!({"name": "search", "parameters": {"type": "string"}}))}),
        json!({"tools": [search, search]}),
        json!({"tool_choice": "auto"}),
    ];
    for parts in &bad {
        assert_eq!(ask(parts.clone()).await, 400, "{parts}");
    }
    assert_eq!(api.refusals().len(), bad.len());
}

async fn post(url: String, body: &Value) -> u16 {
    let request = client().post(url).header("anthropic-version", "2023-06-01");
    let request = request.header("x-api-key", API_KEY).bearer_auth(API_KEY);
    request.json(body).send().await.unwrap().status().as_u16()
}

/// A good body with one part replaced.
fn with(body: &Value, pointer: &str, part: Value) -> Value {
    let mut body = body.clone();
    if let Some(place) = body.pointer_mut(pointer) {
        *place = part;
    } else {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        body.pointer_mut(parent).unwrap()[key] = part;
    }
    body
}

#[tokio::test]
async fn the_anthropic_emulator_refuses_what_the_real_one_refuses() {
    let api = ModelApi::start().await;
    let text = |text: &str| json!([{"type": "text", "text": text}]);
    let call = json!([{"type": "tool_use", "id": "c1", "name": "find", "input": {}}]);
    let result = json!([{"type": "tool_result", "tool_use_id": "c1", "content": "a hill"}]);
    let good = json!({
        "model": "claude-x", "max_tokens": 100, "system": text("Be kind."),
        "tools": [{"name": "find", "description": "Finds.", "input_schema": {"type": "object"}}],
        "messages": [
            {"role": "user", "content": text("hello")}, {"role": "assistant", "content": call},
            {"role": "user", "content": result},
        ],
    });
    let ask = async |body: &Value| post(format!("{}/messages", api.url_of("anthropic")), body).await;
    assert_eq!(ask(&good).await, 200);
    let marks: Vec<Value> = (0..5)
        .map(|n| json!({"type": "text", "text": format!("{n}"), "cache_control": {"type": "ephemeral"}}))
        .collect();
    let bad = [
        with(&good, "/max_tokens", Value::Null),
        with(&good, "/max_tokens", json!(100_000)),
        with(&good, "/stream_options", json!({})),
        with(&good, "/system", text(" ")),
        with(&good, "/system", json!(marks)),
        with(&good, "/tools", json!([])),
        with(&good, "/tools", Value::Null),
        with(&good, "/tools/0/parameters", json!({})),
        with(&good, "/messages/0/role", json!("assistant")),
        with(&good, "/messages/0/role", json!("system")),
        with(&good, "/messages/0/content", json!([])),
        with(&good, "/messages/0/content", text("")),
        with(&good, "/messages/0/content/0/name", json!("x")),
        with(&good, "/messages/1/content/0/id", json!("a/b")),
        with(&good, "/messages/1/content/0/id", json!("c2")),
        with(&good, "/messages/1/content/0/input", json!("{}")),
        with(&good, "/messages/1/role", json!("user")),
        with(&good, "/messages/2/content/0/content", json!("")),
        with(&good, "/messages/2/content", text("no result")),
        with(&good, "/messages/1/content", json!([{"type": "thinking", "thinking": "x", "signature": "y"}])),
    ];
    for body in &bad {
        assert_eq!(ask(body).await, 400, "{body}");
    }
    assert_eq!(api.refusals().len(), bad.len());
}

#[tokio::test]
async fn the_bedrock_emulator_refuses_what_the_real_one_refuses() {
    let api = ModelApi::start().await;
    let call = json!([{"toolUse": {"toolUseId": "c1", "name": "find", "input": {}}}]);
    let result = json!([{"toolResult": {"toolUseId": "c1", "content": [{"text": "a hill"}]}}]);
    let spec = json!({"name": "find", "description": "Finds.", "inputSchema": {"json": {"type": "object"}}});
    let good = json!({
        "system": [{"text": "Be kind."}], "toolConfig": {"tools": [{"toolSpec": spec}]},
        "messages": [
            {"role": "user", "content": [{"text": "hello"}]}, {"role": "assistant", "content": call},
            {"role": "user", "content": result},
        ],
    });
    let ask = async |model: &str, body: &Value| {
        post(format!("{}/model/{model}/converse", api.url_of("bedrock")), body).await
    };
    assert_eq!(ask("meta.llama", &good).await, 200);
    let bad = [
        with(&good, "/stream", json!(true)),
        with(&good, "/system/0/text", json!("")),
        with(&good, "/toolConfig", Value::Null),
        with(&good, "/toolConfig/tools", json!([])),
        with(&good, "/inferenceConfig", json!({"maxTokens": 0})),
        with(&good, "/messages/0/role", json!("assistant")),
        with(&good, "/messages/1/role", json!("user")),
        with(&good, "/messages/0/content", json!("hello")),
        with(&good, "/messages/0/content/0/text", json!(" ")),
        with(&good, "/messages/1/content/0/toolUse/toolUseId", json!("c2")),
        with(&good, "/messages/1/content/0/toolUse/input", json!("{}")),
        with(&good, "/messages/2/content", json!([{"text": "no result"}])),
        with(&good, "/messages/2/content/0/toolResult/content/0/text", json!("")),
    ];
    for body in &bad {
        assert_eq!(ask("meta.llama", body).await, 400, "{body}");
    }
    let marked = with(&good, "/system", json!([{"text": "Be kind."}, {"cachePoint": {"type": "default"}}]));
    assert_eq!(ask("meta.llama", &marked).await, 403);
    assert_eq!(ask("anthropic.claude-x", &marked).await, 200);
    let request = client().post(format!("{}/model/m/converse", api.url_of("bedrock")));
    assert_eq!(request.json(&good).send().await.unwrap().status().as_u16(), 403, "nobody has signed it");
}
