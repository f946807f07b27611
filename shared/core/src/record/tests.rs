use serde_json::json;

use super::*;
use crate::testing::{as_kind, aside, boundary, edit, event, key, opening, reply, set, summary, user, with};

/// Returns every attribute that a record can have.
fn all(source: Source) -> Attributes {
    let trace = json!({"start": 0, "spans": []});
    Attributes {
        form_ts: Some(key(1, 1).ts()),
        revision: 2,
        album: Some("album".into()),
        asks: true,
        covers: vec![key(0, 1)],
        delivery_failure: Some(DeliveryFailure { reason: "403".into(), at: key(1, 1).ts() }),
        trace: Some(serde_json::from_value(trace).unwrap()),
        source: Some(source),
        reply_token: Some(ReplyToken::new("secret", key(2, 1).ts())),
    }
}

#[test]
fn details_keep_the_attributes_of_their_kind_and_no_others() {
    let said = user(0, 1);
    let all = all(summary(1, &[&said], None).source().unwrap().clone());
    let attributes =
        |role, key: &SortKey, kind| Details::of(kind, role, key, all.clone()).unwrap().attributes();
    let of_people =
        Attributes { covers: Vec::new(), delivery_failure: None, trace: None, source: None, ..all.clone() };
    for kind in [Kind::Normal, Kind::Revision, Kind::Event, Kind::Boundary, Kind::Notice] {
        assert_eq!(attributes(Role::User, &said.key, kind), of_people, "{kind:?}");
    }
    let of_agent = Attributes {
        form_ts: None,
        album: None,
        asks: false,
        source: None,
        reply_token: None,
        ..all.clone()
    };
    assert_eq!(attributes(Role::Assistant, &said.key.reply(), Kind::Normal), of_agent);
    assert_eq!(attributes(Role::Assistant, &said.key.notice(), Kind::Notice), of_agent);
    let answer = with(reply(&[(0, 1)]), |attributes| *attributes = all.clone());
    assert_eq!(answer.trace(), all.trace.as_ref());
    let of_summary = Attributes { source: all.source.clone(), ..Attributes::default() };
    assert_eq!(attributes(Role::Assistant, &said.key.summary(), Kind::Summary), of_summary);
}

#[test]
fn what_people_say_can_lose_its_question_and_get_a_token_and_a_reply_neither() {
    let token = ReplyToken::new("secret", key(1, 1).ts());
    for mut record in [user(0, 1), as_kind(user(0, 1), Kind::Notice)] {
        record.set_reply_token(token.clone());
        assert_eq!((record.asks(), record.reply_token()), (true, Some(&token)));
        record.ask_nothing();
        assert!(!record.asks());
    }
    let mut answer = reply(&[(0, 1)]);
    answer.set_reply_token(token);
    assert_eq!((answer.asks(), answer.reply_token()), (false, None));
}

#[test]
fn a_boundary_and_an_answer_to_an_approval_are_not_the_message_at_their_base() {
    let answer = as_kind(Record { key: key(0, 2).approval("1"), ..user(0, 2) }, Kind::Notice);
    let records = [user(0, 1), reply(&[(0, 1)]), boundary(0, 2), opening(0, 2), answer];
    assert_eq!(message_at(&records, &key(0, 1)), Some(&records[0]));
    assert_eq!(message_at(&records[1..], &key(0, 1)), None);
    assert_eq!(message_at(&records, &key(0, 2)), Some(&records[3]));
    let without_message = [records[2].clone(), records[4].clone()];
    assert_eq!(message_at(&without_message, &key(0, 2)), None);
    assert!(event(0, 3).is_said() && as_kind(user(0, 3), Kind::Notice).is_said());
}

#[test]
fn a_time_of_more_than_five_minutes_ahead_is_not_believed() {
    let ahead = |by: Duration| {
        let said = user(0, 1);
        Record { sent_at: said.ts.minus(by), ..said }
    };
    let (at, beyond) = (ahead(MAX_AHEAD), ahead(MAX_AHEAD + Duration::from_millis(1)));
    assert_eq!((at.is_ahead(), at.said_at(), at.place()), (false, at.ts, at.key.clone()));
    assert!(beyond.is_ahead());
    assert_eq!((beyond.said_at(), beyond.place()), (beyond.sent_at, SortKey::start_of(beyond.sent_at)));
}

#[test]
fn a_listed_message_has_the_id_and_kind_of_its_form_and_no_cause() {
    let failure = DeliveryFailure { reason: "403".into(), at: key(1, 1).ts() };
    let mut notice = with(reply(&[(0, 1)]), |attributes| attributes.delivery_failure = Some(failure.clone()));
    set(&mut notice.message.metadata, "cause", "401: set MODEL_API_KEY");
    let cause = |message: UiMessage| json!(message)["metadata"]["cause"].clone();
    assert_eq!(cause(notice.listed()), json!(null));
    assert_eq!(cause(notice.listed_for_admins()), json!("401: set MODEL_API_KEY"));
    assert_eq!(json!(notice.listed())["metadata"]["deliveryFailure"]["reason"], "403");
    assert_eq!((notice.delivery_failure(), notice.trace()), (Some(&failure), None));

    let listed = |record: &Record| {
        let message = json!(record.listed());
        [&message["id"], &message["metadata"]["kind"], &message["metadata"]["sentAt"]].map(Clone::clone)
    };
    let said = aside(0, 1);
    assert_eq!(listed(&said), [json!("1"), json!("normal"), json!(null)]);
    assert_eq!(listed(&edit(&said, 2, None)), [json!("1@2"), json!("revision"), json!(null)]);
    let again = with(said, |attributes| attributes.revision = 1);
    assert_eq!(
        listed(&again),
        [json!("1@1"), json!("revision"), json!(null)],
        "a form with a key of its own"
    );
    assert_eq!(listed(&event(0, 2))[1], json!("event"));
    let answer = reply(&[(0, 1)]);
    assert_eq!(listed(&answer), [json!("1/reply"), json!("normal"), json!(answer.sent_at)]);
}

#[test]
fn an_operators_message_is_sent_and_another_with_the_same_metadata_is_not() {
    let mut said = user(0, 2);
    set(&mut said.message.metadata, "dispatch", json!({"by": "ops", "answers": true, "to": "1"}));
    assert_eq!((said.dispatch(), said.sent_to()), (None, None));
    let sent = as_kind(said, Kind::Notice);
    let dispatch = sent.dispatch().unwrap();
    assert_eq!((dispatch.by.as_str(), dispatch.answers), ("ops", true));
    assert_eq!(sent.sent_to(), Some(MessageId::number(1)));
    let mut due = user(0, 3);
    set(&mut due.message.metadata, "schedule", json!({"id": "s", "at": 0, "to": "1"}));
    assert_eq!((due.sent_to(), due.is_interaction()), (Some(MessageId::number(1)), false));
}
