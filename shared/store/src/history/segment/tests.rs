use annals_core::message::{Part, Role, UiMessage};
use annals_core::record::{Attributes, Channel, DeliveryFailure, Details, Kind, Record, Source};
use annals_core::reply_token::ReplyToken;
use annals_core::sort_key::MessageId;
use annals_core::trace::{Span, Step, Trace};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

fn key() -> impl Strategy<Value = SortKey> {
    (0..=9_999_999_999_999_i64, "[^\\p{Cc}]{1,12}", 0..5_u8).prop_map(|(ts, id, what)| {
        let base = SortKey::message(Timestamp::from_millis(ts).unwrap(), &MessageId::new(id).unwrap());
        match what {
            0 => base.reply(),
            1 => base.revision(3),
            2 => base.summary(),
            _ => base,
        }
    })
}

fn time() -> impl Strategy<Value = Timestamp> {
    (0..=9_999_999_999_999_i64).prop_map(|ms| Timestamp::from_millis(ms).unwrap())
}

fn id() -> impl Strategy<Value = MessageId> {
    "[^\\p{Cc}]{1,20}".prop_map(|id| MessageId::new(id).unwrap())
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("JSON has no NaN", |f| f.is_finite()).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![vec(inner.clone(), 0..4).prop_map(Value::from), map_of(inner).prop_map(Value::Object)]
    })
}

fn map_of(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    vec((any::<String>(), value), 0..4).prop_map(|entries| entries.into_iter().collect())
}

fn message() -> impl Strategy<Value = UiMessage> {
    let role = prop_oneof![Just(Role::User), Just(Role::Assistant), Just(Role::System)];
    let part = map_of(value()).prop_map(|mut map| {
        map.insert("type".into(), "data-any".into());
        Part::new(Value::Object(map)).unwrap()
    });
    let extra = map_of(value()).prop_map(|mut extra| {
        extra.retain(|key, _| !["id", "role", "parts", "metadata"].contains(&key.as_str()));
        extra
    });
    (any::<String>(), role, vec(part, 0..4), map_of(value()), extra).prop_map(
        |(id, role, parts, metadata, extra)| UiMessage { id, role, parts, metadata: metadata.into(), extra },
    )
}

fn source() -> impl Strategy<Value = Source> {
    (key(), id(), key(), id(), any::<u32>(), time(), option::of(time()), vec(key(), 0..4)).prop_map(
        |(from, from_id, to, to_id, count, last_interaction, read_at, counts)| Source {
            from,
            from_id,
            to,
            to_id,
            count,
            last_interaction,
            read_at,
            counts,
        },
    )
}

fn trace() -> impl Strategy<Value = Trace> {
    (time(), any::<u32>(), vec((any::<u32>(), option::of("[a-z]{1,9}")), 0..4)).prop_map(
        |(start, requests, spans)| {
            let span = |(at, error)| Span { error, ..Span::new(Step::Request, at) };
            Trace { requests, spans: spans.into_iter().map(span).collect(), ..Trace::new(start) }
        },
    )
}

fn stored() -> impl Strategy<Value = Stored> {
    let channel = prop_oneof![Just(Channel::Telegram), Just(Channel::Http), Just(Channel::Web)];
    let kind = prop_oneof![Just(Kind::Normal), Just(Kind::Summary), Just(Kind::Notice), Just(Kind::Revision)];
    let failure = (any::<String>(), time()).prop_map(|(reason, at)| DeliveryFailure { reason, at });
    let place = (key(), channel, any::<String>(), any::<String>(), id(), time(), time(), kind);
    let form = (option::of(time()), any::<u32>(), message(), any::<u32>(), option::of(any::<i64>()));
    let rest = (
        option::of(any::<String>()),
        any::<bool>(),
        vec(key(), 0..4),
        option::of(failure),
        source().prop_map(Some),
        option::of(any::<String>()),
        option::of(trace()),
    );
    (place, form, rest, option::weighted(0.2, "bodies/[a-z]{1,9}")).prop_map(|(place, form, rest, body)| {
        let (key, channel, chat_id, user_id, message_id, ts, sent_at, kind) = place;
        let (form_ts, revision, message, tokens, expires_at) = form;
        let (album, asks, covers, delivery_failure, source, person, trace) = rest;
        let message = match body {
            Some(_) => UiMessage::new(message_id.as_str(), message.role, Vec::new()),
            None => message,
        };
        let attributes = Attributes {
            form_ts,
            revision,
            album,
            asks,
            covers,
            delivery_failure,
            trace,
            source,
            reply_token: None,
        };
        let details = Details::of(kind, message.role, &key, attributes).unwrap();
        // All fields, so that a new one is in the round trip.
        let record = Record {
            chat: ChatKey::telegram(42, None),
            key,
            channel,
            chat_id,
            user_id,
            message_id,
            ts,
            sent_at,
            message,
            tokens,
            expires_at,
            person,
            details,
        };
        match body {
            Some(body) => Stored::Body { record, body },
            None => Stored::Inline(record),
        }
    })
}

fn segment_of(records: &[Stored]) -> Vec<u8> {
    let lines: Vec<Vec<u8>> = records.iter().map(|stored| to_line(stored).unwrap()).collect();
    compress(lines.iter().map(Vec::as_slice))
}

fn ends() -> (SortKey, SortKey) {
    ("0000000000000#!".parse().unwrap(), "9999999999999#\u{10FFFF}~".parse().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_reply_token_is_in_no_segment(stored in stored()) {
        let mut with_token = stored.clone();
        let (Stored::Inline(record) | Stored::Body { record, .. }) = &mut with_token;
        record.set_reply_token(ReplyToken::new("s3cret", Timestamp::MIN));
        prop_assert_eq!(to_line(&with_token).unwrap(), to_line(&stored).unwrap());
    }

    #[test]
    fn any_records_read_back_as_they_were(mut records in vec(stored(), 1..12)) {
        records.sort_by(|a, b| a.record().key.cmp(&b.record().key));
        records.dedup_by(|a, b| a.record().key == b.record().key);
        let bytes = segment_of(&records);
        let (from, to) = (records[0].record().key.clone(), records[records.len() - 1].record().key.clone());
        let (read, _) = decode(&bytes, &ChatKey::telegram(42, None), &from, &to).unwrap();
        prop_assert_eq!(&read, &records);

        // A segment that is cut off or changed is detected.
        prop_assert!(decode(&bytes[..bytes.len() - 1], &ChatKey::telegram(42, None), &from, &to).is_err());
        prop_assert!(decode(&bytes, &ChatKey::telegram(43, None), &from, &to).is_err());
        let (first, last) = ends();
        let mut twice = records.clone();
        twice.push(records[0].clone());
        prop_assert_eq!(
            decode(&segment_of(&twice), &ChatKey::telegram(42, None), &first, &last),
            Err(FormatError::Place(twice.len()))
        );
    }
}

#[test]
fn a_line_is_readable_json() {
    let line = json!({
        "chatKey": "telegram:chat:42", "sk": "1763765920000#00000000000000000007",
        "actorKey": "telegram:chat:42:user:42", "channel": "telegram", "chatId": "42", "userId": "42",
        "messageId": "7", "ts": 1_763_765_920_000_i64, "sentAt": 1_763_765_920_512_i64, "role": "user", "kind": "normal",
        "tokens": 6, "expiresAt": 1_764_543_520, "asks": true,
        "message": {"id": "7", "role": "user", "parts": [{"type": "text", "text": "hello"}]},
    });
    let bytes = compress([line.to_string().as_bytes(), b"\n"].into_iter());
    let (from, to) = ends();
    let (records, json_bytes) = decode(&bytes, &ChatKey::telegram(42, None), &from, &to).unwrap();
    assert_eq!(records[0].record().message.plain_text(), "hello");
    assert_eq!(json_bytes, line.to_string().len() as u64 + 1);
    assert_eq!(String::from_utf8(to_line(&records[0]).unwrap()).unwrap(), format!("{line}\n"));
}

/// A line takes any message that the table's reader takes: its limit of depth counts from the message on.
#[test]
fn a_message_reads_back_that_is_as_deep_as_one_in_the_table() {
    let part = |levels| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    let message = |levels: usize| {
        json!({"id": "7", "role": "user", "parts": [{"type": "data-x", "data": part(levels)}]}).to_string()
    };
    assert!(serde_json::from_str::<UiMessage>(&message(125)).is_err());
    let message: UiMessage = serde_json::from_str(&message(124)).unwrap();
    let line = json!({
        "chatKey": "telegram:chat:42", "sk": "1763765920000#00000000000000000007", "channel": "http", "chatId": "42",
        "userId": "42", "messageId": "7", "ts": 1, "sentAt": 1, "role": "user", "kind": "normal", "tokens": 6,
        "message": message,
    });
    let (from, to) = ends();
    let bytes = compress([line.to_string().as_bytes(), b"\n"].into_iter());
    let (read, _) = decode(&bytes, &ChatKey::telegram(42, None), &from, &to).unwrap();
    assert_eq!(read[0].record().message, message);
    let (again, _) = decode(&segment_of(&read), &ChatKey::telegram(42, None), &from, &to).unwrap();
    assert_eq!(again, read);
}

#[test]
fn an_object_that_is_not_a_segment_is_an_error() {
    let (from, to) = ends();
    let decode = |bytes: &[u8]| decode(bytes, &ChatKey::telegram(42, None), &from, &to).unwrap_err();
    assert_eq!(decode(b""), FormatError::Gzip);
    assert_eq!(decode(b"{}"), FormatError::Gzip);
    assert_eq!(decode(&compress([].into_iter())), FormatError::Empty);
    assert_eq!(decode(&compress([b"{}\n".as_slice()].into_iter())), FormatError::Line(1));
}

#[test]
fn an_id_is_made_of_both_ends_and_reads_back() {
    let [a, b, c] = ["1763765920000#1", "1763765920000#1#4reply", "1763765930000#2"]
        .map(|key| key.parse::<SortKey>().unwrap());
    let id = SegmentId::of(&a, &b);
    assert_eq!(id.to_string().parse(), Ok(id.clone()));
    assert_eq!(id.ts(), a.ts());
    assert!(id != SegmentId::of(&a, &c) && id != SegmentId::of(&a, &a));
    for bad in [
        "",
        "1763765920000",
        "1763765920000-",
        "1763765920000-0123456789abcdeF",
        "../1763765920000-0123456789abcdef",
    ] {
        assert_eq!(bad.parse::<SegmentId>(), Err(SegmentIdError), "{bad}");
    }
}
