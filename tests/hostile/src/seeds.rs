//! Inputs to start from: the fixtures, and texts that reach what these leave out.

use std::fs;
use std::path::{Path, PathBuf};

use annals_core::chat_key::ChatKey;
use annals_core::sort_key::SortKey;
use annals_store::history::Cursor;
use serde_json::{Value, json};

use crate::messages::gzip;

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn documents(values: impl IntoIterator<Item = Value>) -> Vec<Vec<u8>> {
    values.into_iter().map(|value| value.to_string().into_bytes()).collect()
}

/// Returns the files of `tests/fixtures/<folder>`, in order. They are read here and not by `annals-test-support`, whose
/// dependencies a fuzz target would be built with.
fn files(folder: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures").join(folder);
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    assert!(!files.is_empty());
    files.sort();
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

/// Returns the payloads of a platform in `tests/fixtures`.
pub fn of_platform(platform: &str) -> Vec<Vec<u8>> {
    [files(platform), files(&format!("{platform}/recorded"))].concat()
}

/// Returns the events of `tests/fixtures/lark`, each also with the token of a verified call.
pub fn lark() -> Vec<Vec<u8>> {
    let verified = of_platform("lark").into_iter().map(|event| {
        let mut event: Value = serde_json::from_slice(&event).unwrap();
        if let Some(header) = event.get_mut("header") {
            header["token"] = "v3rification".into();
        } else {
            event["token"] = "v3rification".into();
        }
        event
    });
    let challenge = json!({"challenge": "c1", "token": "v3rification", "type": "url_verification"});
    [of_platform("lark"), documents(verified), documents([challenge])].concat()
}

/// Returns a key of each kind.
pub fn keys() -> Vec<Vec<u8>> {
    texts(&[
        "telegram:chat:-1001234567890:topic:17",
        "telegram:chat:42",
        "lark:chat:oc_1:thread:omt_1",
        "feishu:chat:oc_1",
        "http:chat:app:a%3Ab%25",
        "web:room:app:r1:user:ada",
        "agent:annals:channel:@me:645",
        "agent:annals:thread:290:646",
        "agent:annals:user:telegram-7",
        "telegram:annals:dm:7",
        "1763765920000#00000000000000000007#4reply",
        "1763765920000#~00000000000000000007#2revision-000001",
        "1763765920000-9f86d081884c7d65",
        "app\nconversation 1",
        "user:telegram-42#7",
    ])
}

/// Returns cursors of a history and of the list of chats.
pub fn cursors() -> Vec<Vec<u8>> {
    let key: SortKey = "1763765920000#00000000000000000007".parse().unwrap();
    let of_history = [ChatKey::telegram(42, None), ChatKey::http("app", "a:b").unwrap()]
        .map(|chat| Cursor::at(&chat, &key).encode().into_bytes());
    let of_list = "eyJ0IjoxNzYzNzY1OTIwMDAwLCJjIjoidGVsZWdyYW06Y2hhdDo0MiIsIngiOnRydWV9";
    [of_history.to_vec(), texts(&[of_list, "e30", "bnVsbA"])].concat()
}

/// Returns messages with every kind of part.
pub fn ui_messages() -> Vec<Vec<u8>> {
    let parts = json!([
        {"type": "text", "text": "hello", "state": "done"},
        {"type": "reasoning", "text": "hm"},
        {"type": "file", "mediaType": "image/png", "filename": "a.png", "url": "https://example.com/a.png"},
        {"type": "source-url", "sourceId": "s1", "url": "https://example.com", "title": "T"},
        {"type": "source-document", "sourceId": "s2", "mediaType": "application/pdf", "title": "D"},
        {"type": "step-start"},
        {"type": "data-weather", "data": {"t": 21.5, "n": null, "big": 9_007_199_254_740_993_i64}},
        {"type": "tool-search", "toolCallId": "c1", "state": "input-available", "input": {"q": "x"}},
        {"type": "tool-search", "toolCallId": "c2", "state": "output-available", "input": {}, "output": [1, 2]},
        {"type": "dynamic-tool", "toolName": "mcp", "toolCallId": "c3", "state": "output-error", "errorText": "bad"},
    ]);
    let deep = (0..70).fold(json!(1), |inner, _| json!([inner]));
    documents([
        json!({"id": "m1", "role": "user", "parts": parts, "metadata": {"senderName": "Ada", "ts": 1}, "later": true}),
        json!({"id": "m2", "role": "assistant", "parts": [{"type": "data-x", "data": deep}], "metadata": {"deep": deep}}),
        json!({"id": "m3", "role": "system", "parts": [{"type": "text", "text": "a ".repeat(200)}], "metadata": null}),
    ])
}

/// Returns a body of each route.
pub fn http_bodies() -> Vec<Vec<u8>> {
    let said = json!({"id": "m2", "role": "user", "parts": [{"type": "text", "text": "hi"}]});
    documents([
        json!({"userId": "ada", "text": "hello", "messageId": "m1", "ts": 1_763_765_920_000_i64}),
        json!({"userId": "ada", "parts": [{"type": "text", "text": "hello"}], "ts": -1}),
        json!({"userId": "ada", "messageId": "r1", "focus": "the piers"}),
        json!({"id": "r", "messages": [said, said], "trigger": "submit-message", "userId": "ada", "scope": "user"}),
        json!({"id": "r", "message": said, "trigger": "regenerate-message", "messageId": "m1/reply"}),
        json!({"id": "s1", "text": "stand-up", "cron": "0 9 * * 1-5", "timeZone": "Asia/Shanghai"}),
        json!({"prompt": "news", "at": "2026-11-25T09:00:00+08:00"}),
        json!({"text": "Ada likes tea."}),
        json!({"markdown": "---\ntype: fact\n---\n\nAda likes tea.\n"}),
        json!({"title": "A title", "links": ["telegram-1", "lark-2"], "until": 1, "language": "zh"}),
    ])
}

/// Returns files of each format.
pub fn imports() -> Vec<Vec<u8>> {
    let telegram = br#"{"name": "Annals", "type": "bot_chat", "id": 7000001, "messages": [
        {"id": 1, "type": "message", "date": "2025-11-21T23:58:40", "date_unixtime": "1763765920", "from": "Ada",
         "from_id": "user42", "text": "hi", "text_entities": [{"type": "plain", "text": "hi"}]}]}"#;
    let said = json!({"id": "m1", "role": "user", "parts": [{"type": "text", "text": "hi"}], "createdAt": "2025-11-21T23:58:40Z"});
    let listed = |id: &str, message: &str, role: &str, kind: &str| {
        json!({"id": id, "role": role, "parts": [{"type": "text", "text": "hi"}], "metadata": {
            "ts": 1_763_765_920_000_i64, "chatKey": "telegram:chat:42", "channel": "telegram", "chatId": "42",
            "userId": "42", "messageId": message, "kind": kind}})
    };
    let lines = [
        listed("7", "7", "user", "normal"),
        listed("7@1", "7", "user", "revision"),
        listed("7/reply", "7/reply", "assistant", "normal"),
        listed("8/boundary", "8/boundary", "user", "boundary"),
        listed("8", "8", "user", "normal"),
    ]
    .map(|line| format!("{line}\n"));
    let account = br#"{"personal_information": {"user_id": 42, "first_name": "Ada"}, "chats": {"list": [
        {"name": "Annals", "type": "bot_chat", "id": 7000001, "messages": [
            {"id": 1, "type": "message", "date_unixtime": "1763765920", "from_id": "user42", "text": ["a ", {"type": "bold", "text": "b\x1F"}]},
            {"id": 2, "type": "service", "date_unixtime": "1763765921", "action": "pin_message", "text": ""}]},
        {"name": "G", "type": "private_supergroup", "id": 5, "messages": []}]}, "left_chats": {"list": []}}"#;
    [
        vec![telegram.to_vec(), lines.concat().into_bytes(), account.to_vec()],
        documents([said.clone(), json!([said])]),
    ]
    .concat()
}

/// Returns a segment, as lines and as gzip.
pub fn segments() -> Vec<Vec<u8>> {
    let line = |id: u64, more: &str| {
        format!(
            "{{\"chatKey\":\"telegram:chat:42\",\"sk\":\"1763765920000#{id:020}\",\"actorKey\":\"telegram:chat:42:user:42\",\
             \"channel\":\"telegram\",\"chatId\":\"42\",\"userId\":\"42\",\"messageId\":\"{id}\",\"ts\":1763765920000,\
             \"sentAt\":1763765920512,\"role\":\"user\",\"kind\":\"normal\",\"tokens\":6,\"expiresAt\":1764543520,\
             \"asks\":true,{more}}}\n"
        )
    };
    let message =
        "\"message\":{\"id\":\"7\",\"role\":\"user\",\"parts\":[{\"type\":\"text\",\"text\":\"hello\"}]}";
    let lines = [line(7, message), line(8, "\"body\":\"bodies/telegram-3f1c/8\"")].concat().into_bytes();
    vec![gzip(&lines), lines]
}

/// Returns Markdown with each construct.
pub fn markdown() -> Vec<Vec<u8>> {
    let mut found = texts(&[
        "# Plan\n- **one**\n- `two`\n  1. *three* ~~four~~\n\n> quoted\n\n---\n",
        "| a | b |\n|---|:-:|\n| `1` | [x](https://example.com/ \"t\") |\n| 😀 | **y** |\n",
        "```rs\nlet a = 1;\n```\n\n    indented\n\n- [ ] open\n- [x] done\n",
        "[ref]: https://example.com\n\n[ref] ![image](https://example.com/a.png) <b>raw</b> &amp; <at id=all></at>\n",
        "@everyone <@1> plain text\r\nwith lines\\\nand *open **marks",
        "|a|\n|-|\n|1|\n\n|a|\n|-|\n|1|\n\n|a|\n|-|\n|1|\n\n|a|\n|-|\n|1|\n",
    ]);
    found.push("- **bold** `code` [link](https://example.com)\n".repeat(120).into_bytes());
    found.push(format!("```\n{}```\n", "a line of code\n".repeat(300)).into_bytes());
    found
}

/// Returns schemas as servers of tools give them.
pub fn schemas() -> Vec<Vec<u8>> {
    documents([
        json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": ["object", "null"], "properties": null}),
        json!({"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}, "required": ["a"]}),
        json!({"oneOf": [{"$ref": "#/$defs/A"}, {"properties": {"kind": {"const": "b"}}, "required": ["kind"]}],
            "$defs": {"A": {"properties": {"kind": {"const": "a"}}, "required": ["kind"]}}}),
        json!({"allOf": [{"$ref": "#"}, {"$ref": "#/allOf/1"}, {"properties": {"x": {}}}, 5], "anyOf": [{"required": ["x"]}]}),
        json!({"enum": [{}], "not": {}, "properties": {"a~b/c": {}}, "additionalProperties": false}),
    ])
}

/// Returns answers of each provider's API: frames, and in one piece; and a stream of Bedrock's as it comes.
pub fn answers() -> Vec<Vec<u8>> {
    let mut found = texts(&include_str!("../../fixtures/models/answers.jsonl").lines().collect::<Vec<_>>());
    found.push(include_bytes!("../../fixtures/models/answer.eventstream").to_vec());
    found
}

/// Returns settings, dates, commands and documents.
pub fn settings() -> Vec<Vec<u8>> {
    let mut found = texts(&[
        "person=200000 tokens/day, key:shop=5.00 cost/day",
        "[{\"agent\": \"support\", \"channel\": \"telegram\", \"chat\": \"telegram:chat:42\", \"person\": \"telegram-7\"}]",
        "in 20 minutes to stretch",
        "tomorrow at 9am call Ada",
        "every weekday at 09:30, stand-up",
        "每天早上9点提醒我喝水",
        "20分钟后 开会",
        "2026-11-25T09:00:00+08:00",
        "0 9 * * 1-5",
        "*/5 * 29 2 *",
        "/new@AnnalsBot hello",
        "/memory undo 1",
        "/remind tomorrow 9:00 water",
        "---\nname: support\nmodel: openai:gpt\ntools: [a, b]\n---\n\nYou help.\n",
        "---\ntype: fact\nscope: user\nperson: \"telegram-42\"\ncreated: 2025-11-21T23:58:40Z\nsupersedes: [1,2]\nstate: pending\n---\n\nAda likes tea.\n",
    ]);
    found.extend(files("memory"));
    found
}
