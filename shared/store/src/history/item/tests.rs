use annals_core::chat_key::ChatKey;
use annals_core::sort_key::Timestamp;
use serde_json::{Value, json};

use super::super::segment;
use super::*;

/// Place of the sample records: time and id of a message.
const BASE: &str = "1763765920000#00000000000000000007";

/// A trace as it is stored.
const TRACE: &str = r#"{"start":1763765920512,"requests":1,"prompt":{"at":135,"tokens":98000,"digest":"9f86d081884c7d65"},"spans":[{"step":"queue","at":0,"ms":120},{"step":"request","at":140,"ms":2300,"name":"openai:test","firstTokenMs":600,"inputTokens":1200,"outputTokens":80}]}"#;

fn text_item(pairs: &Value) -> Item {
    let attribute = |value: &Value| match value {
        Value::Bool(flag) => AttributeValue::Bool(*flag),
        Value::Number(number) => AttributeValue::N(number.to_string()),
        Value::Array(keys) => {
            let keys: Vec<&str> = keys.iter().map(|key| key.as_str().unwrap()).collect();
            AttributeValue::B(Blob::new(deflated(&keys.join("\n"))))
        }
        text => string(text.as_str().unwrap()),
    };
    pairs.as_object().unwrap().iter().map(|(name, value)| (name.clone(), attribute(value))).collect()
}

/// Builds the item of a record at [`BASE`] with this suffix; `more` are its optional attributes.
fn sample(suffix: &str, id: &str, role: &str, kind: &str, more: &Value) -> Item {
    let user = if role == "user" { "42" } else { "annals" };
    let mut pairs = json!({
        "pk": "telegram:chat:42", "sk": format!("{BASE}{suffix}"), "channel": "telegram", "chatId": "42",
        "userId": user, "actorKey": format!("telegram:chat:42:user:{user}"), "messageId": id,
        "ts": 1_763_765_920_000_i64, "sentAt": 1_763_765_920_512_i64, "role": role, "kind": kind, "tokens": 6,
        "message": format!(r#"{{"id":"{id}","role":"{role}","parts":[{{"type":"text","text":"hello"}}]}}"#),
    });
    for (name, value) in more.as_object().unwrap() {
        pairs[name] = value.clone();
    }
    let mut item = text_item(&pairs);
    if item.contains_key("body") {
        item.remove("message");
    }
    item
}

/// Returns an item of every kind of record that is written, or was written by an earlier version.
fn samples() -> Vec<(String, Item)> {
    let made_at = 1_763_765_930_000_i64;
    let failure = r#"{"reason":"blocked","at":1763765921000}"#;
    let mut source = json!({
        "from": "1763765900000#00000000000000000001", "fromId": "1", "to": format!("{BASE}#4reply"),
        "toId": "7/reply", "count": 4, "lastInteraction": 1_763_765_920_000_i64,
    });
    let earlier_source = source.to_string();
    source["readAt"] = json!(made_at);
    let counts = json!([BASE, format!("{BASE}#4reply")]);
    let rows = json!([
        ["message that asks", "", "7", "user", "normal", {"asks": true, "expiresAt": 1_764_543_520}],
        ["message of a group", "", "7", "user", "normal", {}],
        ["item of an album, edited before it arrived, by a caller's user", "", "7", "user", "normal",
         {"album": "138", "formTs": made_at, "person": "dev/ada"}],
        ["question with a reply token", "", "7", "user", "normal",
         {"asks": true, "replyToken": r#"{"token":"aW50","until":1763766820000}"#}],
        ["text of /new", "#1message", "7", "user", "normal", {"asks": true}],
        ["edit", "#2revision-000001", "7", "user", "revision",
         {"revision": 1, "formTs": made_at, "asks": true, "album": "138"}],
        ["recalled", "#2revision-000002", "7", "user", "revision", {"revision": 2, "formTs": made_at}],
        ["/new in place of another command", "#2revision-000001", "7/boundary", "user", "revision",
         {"revision": 1}],
        ["message sent again", "", "m", "user", "normal", {"revision": 2, "asks": true, "person": "dev/ada"}],
        ["imported message of the agent", "", "7", "assistant", "normal",
         {"formTs": made_at, "album": "138"}],
        ["imported edit of the agent", "#2revision-000001", "7", "assistant", "revision",
         {"revision": 1, "formTs": made_at}],
        ["message of the system", "", "7", "system", "normal", {}],
        ["event", "", "7", "user", "event", {"formTs": made_at}],
        ["boundary", "", "7/boundary", "user", "boundary", {"formTs": made_at, "person": "dev/ada"}],
        ["/compact", "", "7", "user", "notice", {"asks": true, "formTs": made_at}],
        ["command", "", "7", "user", "notice", {}],
        ["approval", "#4reply-approval-5f2b81c09a3de417", "7/reply/approval-5f2b81c09a3de417", "user", "notice",
         {}],
        ["reply", "#4reply", "7/reply", "assistant", "normal",
         {"covers": format!("1763765910000#a\n{BASE}")}],
        ["reply with the steps of its turn", "#4reply", "7/reply", "assistant", "normal",
         {"covers": BASE, "trace": [TRACE]}],
        ["reply that was not delivered", "#4reply", "7/reply", "assistant", "normal",
         {"covers": BASE, "deliveryFailure": failure}],
        ["reply to a message sent again", "#4reply", "m/reply", "assistant", "normal",
         {"covers": BASE, "revision": 2}],
        ["imported reply", "#4reply", "7/reply", "assistant", "normal", {}],
        ["reply that continued", "#4reply-revision-000001", "7/reply", "assistant", "revision",
         {"revision": 1, "deliveryFailure": failure}],
        ["large reply", "#4reply", "7/reply", "assistant", "normal",
         {"covers": BASE, "body": "bodies/telegram-1/a", "digest": "00ff"}],
        ["confirmation", "#3notice", "7/notice", "assistant", "notice", {}],
        ["failure notice", "#4reply", "7/notice", "assistant", "notice",
         {"covers": BASE, "deliveryFailure": failure}],
        ["failure notice for a message sent again", "#4reply", "m/notice", "assistant", "notice",
         {"covers": BASE, "revision": 2}],
        ["summary", "#5summary-reply", "7/reply/summary", "assistant", "summary",
         {"source": source.to_string(), "counts": counts, "person": "dev/ada"}],
        ["summary of a version before 0.2", "#5summary-reply", "7/reply/summary", "assistant", "summary",
         {"source": earlier_source, "counts": counts}],
    ]);
    let sample = |row: &Value| {
        let text = |place: usize| row[place].as_str().unwrap();
        (text(0).to_owned(), sample(text(1), text(2), text(3), text(4), &row[5]))
    };
    rows.as_array().unwrap().iter().map(sample).collect()
}

/// Shows an item with its attributes in order of their names.
fn shown(item: &Item) -> String {
    let mut attributes: Vec<String> = item
        .iter()
        .map(|(name, value)| match value {
            AttributeValue::S(text) => format!("{name}: {text:?}"),
            AttributeValue::N(number) => format!("{name}: {number}"),
            AttributeValue::Bool(flag) => format!("{name}: {flag}"),
            AttributeValue::B(bytes) => format!("{name}: <{}>", hex::encode(bytes.as_ref())),
            other => format!("{name}: {other:?}"),
        })
        .collect();
    attributes.sort();
    attributes.join("\n")
}

/// Writes the item of a record again, as it is first put: without what is noted on it later.
fn again(stored: &Stored, item: &Item) -> Item {
    let message = match stored {
        Stored::Inline(record) => MessageAttribute::Inline(serde_json::to_string(&record.message).unwrap()),
        Stored::Body { body, .. } => {
            MessageAttribute::Body { key: body.clone(), digest: text(item, "digest").unwrap().to_owned() }
        }
    };
    to_item(stored.record(), message).unwrap()
}

fn without(item: &Item, attribute: &str) -> Item {
    let mut item = item.clone();
    item.remove(attribute);
    item
}

#[test]
fn every_kind_of_record_is_stored_as_ever() {
    let mut golden = String::new();
    for (name, item) in samples() {
        let stored = from_item(&item).unwrap();
        let line = segment::to_line(&stored).unwrap();
        let mut put = item.clone();
        put.remove("deliveryFailure");
        assert_eq!(shown(&again(&stored, &item)), shown(&put), "{name}");

        let key = &stored.record().key;
        let bytes = segment::compress([line.as_slice()].into_iter());
        let (read, _) = segment::decode(&bytes, &ChatKey::telegram(42, None), key, key).unwrap();
        // A segment is exported, so it contains no reply token.
        let exported = from_item(&without(&item, "replyToken")).unwrap();
        assert_eq!(read, [exported], "{name}");

        golden.extend(["# ", &name, "\n", &shown(&item), "\n", &String::from_utf8(line).unwrap(), "\n"]);
    }
    insta::assert_snapshot!(golden);
}

#[test]
fn each_field_is_in_a_sample() {
    let fields = include_str!("../fields.rs").split("struct Fields {").nth(1).unwrap();
    let fields = fields.split("\n}").next().unwrap().lines();
    let names = fields.filter_map(|line| line.trim().strip_prefix("pub(super) ")?.split(':').next());
    // The key of the chat is `pk` there.
    let names: Vec<&str> = names.filter(|name| *name != "chat_key").collect();
    assert!(names.len() > 20, "{names:?}");
    let attributes: Vec<String> =
        samples().iter().flat_map(|(_, item)| item.keys()).map(|name| name.to_lowercase()).collect();
    let missing: Vec<_> = names.iter().filter(|name| !attributes.contains(&name.replace('_', ""))).collect();
    assert!(missing.is_empty(), "no sample has {missing:?}");
}

#[test]
fn a_long_trace_is_stored_without_its_last_steps() {
    let name = |n: u32| hex::encode(digest::digest(&digest::SHA256, &n.to_le_bytes()));
    let mut trace = Trace::new(Timestamp::MIN);
    (0..200).for_each(|n| {
        let mut span = annals_core::trace::Span::new(annals_core::trace::Step::Tool, n * 1000);
        span.set_name(&name(n));
        trace.add(span);
    });
    let packed = packed(trace, MAX_TRACE_BYTES);
    let length = packed.as_b().unwrap().as_ref().len();
    let read = unpacked(&packed).unwrap();
    assert!(length <= MAX_TRACE_BYTES && read.spans.len() > 20, "{length} bytes, {} steps", read.spans.len());
    assert_eq!(u32::try_from(read.spans.len()).unwrap() + read.dropped, 200);
}

/// The order of keys is no difference, and the digest of a large message of version 0.1 still holds.
#[test]
fn the_digest_of_content_is_that_of_its_values() {
    let message = |part: &str| -> UiMessage {
        serde_json::from_str(&format!(r#"{{"id": "1", "role": "user", "parts": [{part}]}}"#)).unwrap()
    };
    let sent = message(r#"{"type": "text", "text": "hi", "data": {"b": 1, "a": 2}}"#);
    let same = message(r#"{"data": {"a": 2, "b": 1}, "text": "hi", "type": "text"}"#);
    let other = message(r#"{"type": "text", "text": "hi", "data": {"b": 2, "a": 1}}"#);
    assert_eq!(content_digest(&sent), content_digest(&same));
    assert_ne!(content_digest(&sent), content_digest(&other));
    let of_0_1 =
        serde_json::json!(["user", [{"type": "text", "text": "hi", "data": {"b": 1, "a": 2}}]]).to_string();
    let of_0_1 = hex::encode(digest::digest(&digest::SHA256, of_0_1.as_bytes()));
    assert_eq!(digest_of_0_1(&sent), of_0_1);
    let stored = super::super::form::Form { made_at: None, revision: 0, digest: Some(of_0_1) };
    let digests = [content_digest(&sent), digest_of_0_1(&sent)];
    assert_eq!(super::super::form::next_form(&[stored], None, &digests), None);
}

#[test]
fn an_unreadable_item_is_an_error_that_names_the_attribute() {
    let fault = |changed: &[(&str, Value)], removed: &str| {
        let (_, mut item) = samples().pop().unwrap();
        for (name, value) in changed {
            item.extend(text_item(&json!({ *name: value })));
        }
        item.remove(removed);
        from_item(&item).unwrap_err().to_string()
    };
    for attribute in
        ["pk", "channel", "chatId", "userId", "messageId", "ts", "sentAt", "role", "kind", "message"]
    {
        assert!(fault(&[], attribute).contains(&format!("no readable '{attribute}'")), "{attribute}");
    }
    for (attribute, wrong) in [("kind", "letter"), ("covers", "no key"), ("source", "{}"), ("message", "{}")]
    {
        let error = fault(&[(attribute, json!(wrong))], "");
        assert!(error.contains(&format!("no readable '{attribute}'")), "{error}");
    }
    assert!(fault(&[], "counts").contains("'source'"));
}
