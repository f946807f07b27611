//! The life of a record after it was answered: archive, expiry, edits and repeats that come late, damage, lost answers.

use std::slice::from_ref;
use std::sync::Arc;
use std::time::Duration;

use annals_core::chat_key::ChatKey;
use annals_core::context::{Policy, context};
use annals_core::message::Part;
use annals_core::record::{Draft, Kind, MAX_AHEAD, Record};
use annals_core::sort_key::Timestamp;
use annals_engine::ingress::Ingress;
use annals_local::stores::{BUCKET, TABLE};
use annals_local::upkeep::sweep;
use annals_store::history::turn::{Claim, OpenTurn};
use annals_store::history::{Consumed, History, MAX_PAGE, Outcome, Position};
use aws_sdk_dynamodb::config::Config;
use aws_sdk_dynamodb::config::retry::{ClassifyRetry, RetryAction, RetryConfig};
use aws_sdk_dynamodb::types::AttributeValue;
use aws_smithy_runtime_api::client::interceptors::context::InterceptorContext;
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::app::{APP_KEY, Answer, NOW, OPS_KEY, TestApp};
use crate::faults::{Faults, Plan};
use crate::solo::{NoQueue, Solo};
use crate::turns::assert_answered_once;
use crate::world::{
    LEASE, START, World, archive_everything, chat, claim, default_retention, echo_agent, echo_upkeep,
    message, records_of,
};

/// Longer than a record lives: 48 hours and 168.
const A_LIFE: Duration = Duration::from_hours(217);
const POLICY: Policy = Policy { stale_after: None, fresh: false, token_budget: u32::MAX, images: 0 };

/// Archives the chat, lets its records expire and deletes them as TTL does.
async fn leave_the_table(world: &World, chat: &ChatKey) {
    let history = world.history();
    archive_everything(&history, chat).await;
    world.clock.advance(A_LIFE);
    // As upkeep would, which the sweep of the local program waits for.
    visit(world, chat).await;
    sweep(&world.stores.dynamodb, TABLE, world.clock.now()).await.unwrap();
    assert_eq!(history.range(chat, None).await.unwrap(), []);
}

/// A visit of the compactor, and what it says in the index.
async fn visit(world: &World, chat: &ChatKey) {
    let history = world.history();
    let shard = annals_store::history::due::shard_of(chat);
    let due = history.due(shard, world.clock.now(), 1000, None).await.unwrap();
    let entries = due.chats.into_iter().find(|due| due.chat == *chat).map(|due| due.entries);
    let visited = echo_upkeep(&history).visit(chat).await.unwrap();
    history.settle(chat, &entries.unwrap_or_default(), visited.next, visited.spoken_at).await.unwrap();
}

/// The whole history: each record's listed id and text.
async fn listed(history: &History, chat: &ChatKey) -> Vec<(String, String)> {
    let page = history.page(chat, &Position::Oldest, MAX_PAGE).await.unwrap();
    page.records.iter().map(|record| (record.listed().id, record.message.plain_text())).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(id, text)| ((*id).to_owned(), (*text).to_owned())).collect()
}

/// Each archived record is in one segment.
pub(crate) async fn assert_each_is_archived_once(history: &History, chat: &ChatKey) {
    let mut keys = Vec::new();
    for info in history.segments(chat).await.unwrap() {
        keys.extend(records_of(history, &info).await.into_iter().map(|record| record.key));
    }
    let count = keys.len();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), count, "a record is in two segments");
}

#[tokio::test]
async fn a_repeat_of_a_message_that_has_left_the_table_is_a_duplicate_and_an_edit_its_revision() {
    let world = World::new().await;
    let (history, chat) = (world.history(), chat(0));
    let said = message(&chat, 1, 0, "first");
    history.append(&said).await.unwrap();
    leave_the_table(&world, &chat).await;

    assert_eq!(history.append(&said).await.unwrap().outcome, Outcome::Duplicate);
    assert_eq!(history.range(&chat, None).await.unwrap(), [], "nothing is stored again");
    let edited = message(&chat, 1, 0, "second");
    assert_eq!(history.append(&edited).await.unwrap().outcome, Outcome::Revision(1));
    assert_eq!(history.append(&edited).await.unwrap().outcome, Outcome::Duplicate);
    let both = pairs(&[("1", "first"), ("1@1", "second")]);
    assert_eq!(listed(&history, &chat).await, both);

    // For ever: the edit is archived, leaves the table, and is still the revision that it was.
    leave_the_table(&world, &chat).await;
    assert_eq!(listed(&world.history(), &chat).await, both);
    assert_eq!(history.append(&edited).await.unwrap().outcome, Outcome::Duplicate);
    let again = message(&chat, 1, 0, "first");
    assert_eq!(history.append(&again).await.unwrap().outcome, Outcome::Revision(2), "A, B, A is three forms");
    assert_eq!(history.append(&again).await.unwrap().outcome, Outcome::Duplicate);
    leave_the_table(&world, &chat).await;
    let all = pairs(&[("1", "first"), ("1@1", "second"), ("1@2", "first")]);
    assert_eq!(listed(&world.history(), &chat).await, all);
    assert_each_is_archived_once(&history, &chat).await;
}

/// TTL deletes in any order: of a message with an edit, either may be gone first.
#[tokio::test]
async fn an_edit_finds_its_number_whichever_form_has_left_the_table() {
    for first_goes in [true, false] {
        let world = World::new().await;
        let (history, chat) = (world.history(), chat(0));
        for text in ["one", "two"] {
            history.append(&message(&chat, 1, 0, text)).await.unwrap();
        }
        archive_everything(&history, &chat).await;
        world.clock.advance(A_LIFE);
        let records = history.range(&chat, None).await.unwrap();
        world.expire(&records[usize::from(!first_goes)]).await;
        let outcome = history.append(&message(&chat, 1, 0, "three")).await.unwrap().outcome;
        assert_eq!(outcome, Outcome::Revision(2), "first form deleted: {first_goes}");
        assert_eq!(history.append(&message(&chat, 1, 0, "two")).await.unwrap().outcome, Outcome::Revision(3));
        let all = pairs(&[("1", "one"), ("1@1", "two"), ("1@2", "three"), ("1@3", "two")]);
        assert_eq!(listed(&history, &chat).await, all);
    }
}

#[tokio::test]
async fn only_what_is_as_old_as_records_live_is_looked_for_in_the_archive() {
    let world = World::new().await;
    let (history, chat) = (world.history(), chat(0));
    history.append(&message(&chat, 1, 0, "first")).await.unwrap();
    archive_everything(&history, &chat).await;
    world.clock.advance(Duration::from_hours(100));
    history.meter().take();
    history.append(&message(&chat, 2, 0, "late, but not that late")).await.unwrap();
    let cost = history.meter().take();
    assert_eq!(cost, Consumed { read_units: 0.0, ..cost }, "it reads nothing");
    world.clock.advance(Duration::from_hours(200));
    history.append(&message(&chat, 3, 0, "as old as a record can be")).await.unwrap();
    assert!(history.meter().take().read_units > 0.0);
    assert_eq!(listed(&history, &chat).await.len(), 3, "and it is stored");
}

#[tokio::test]
async fn a_late_edit_leaves_no_segment_that_makes_readers_look_far() {
    let world = World::new().await;
    let (history, chat) = (world.history(), chat(0));
    history.append(&message(&chat, 1, 0, "first")).await.unwrap();
    leave_the_table(&world, &chat).await;
    world.clock.advance(Duration::from_hours(1000));
    history.append(&message(&chat, 1, 0, "second")).await.unwrap();
    let now = world.clock.now().as_millis() - START;
    history.append(&message(&chat, 2, now, "today")).await.unwrap();
    archive_everything(&history, &chat).await;
    assert_eq!(history.head(&chat).await.unwrap().longest_segment(), Some(Duration::ZERO));
    assert_eq!(history.segments(&chat).await.unwrap().len(), 3);
}

/// Over HTTP, where the id alone says that it is the same message: also without a time, also for a command.
#[tokio::test]
async fn a_message_id_that_comes_again_after_its_record_is_not_answered_again() {
    let app = TestApp::builder().start().await;
    let say = json!({"userId": "ada", "messageId": "m1", "text": "hello"});
    let remember = json!({"userId": "ada", "messageId": "c1", "text": "/reset"});
    for body in [&say, &remember] {
        app.post("/v1/chats/c/messages", APP_KEY, body).await;
    }
    app.idle().await;
    let before = app.history("http:chat:app:c").await;
    let history = app.open_history().await;
    let chat: ChatKey = "http:chat:app:c".parse().unwrap();
    archive_everything(&history, &chat).await;
    app.clock().advance(A_LIFE);
    for record in app.records(chat.to_string().as_str()).await {
        app.expire(&record).await;
    }
    for body in [&say, &remember] {
        let again = app.post("/v1/chats/c/messages?wait=5", APP_KEY, body).await;
        assert_eq!((again.status, &again.body["duplicate"]), (StatusCode::OK, &json!(true)), "{again:?}");
    }
    let edit = json!({"userId": "ada", "messageId": "m1", "text": "hello there"});
    let edited = app.post("/v1/chats/c/messages", APP_KEY, &edit).await;
    assert_eq!(edited.body["revision"], 1, "{edited:?}");
    app.idle().await;
    let after = app.history("http:chat:app:c").await;
    assert_eq!(after.len(), before.len() + 1, "the edit alone: {after:#?}");
    assert!(after.iter().any(|message| message["id"] == "m1@1"));
    app.finish().await;
}

#[tokio::test]
async fn a_reply_never_leaves_the_table_before_what_it_covers() {
    let solo = Solo::new(&[]).await;
    let asked = solo.hear(0, "hello", true).await;
    solo.run(&asked).await;
    let records = solo.records().await;
    let dates: Vec<i64> = records.iter().map(|record| record.expires_at.unwrap()).collect();
    assert!(dates[1] >= dates[0], "{dates:?}");
    // On its date the message waits no more, though its reply may be gone already.
    let at = Timestamp::from_secs(dates[0]);
    let alone = &records[..1];
    assert_eq!(context(alone, at, &POLICY).unanswered, []);
    assert_eq!(context(alone, at.minus(Duration::from_millis(1)), &POLICY).unanswered, from_ref(&asked));

    // An edit has a later date than the reply to what it changes.
    let mut edited = solo.draft(60, "hello there", true);
    (edited.ts, edited.message_id) = (records[0].ts, records[0].message_id.clone());
    assert_eq!(solo.history().append(&edited).await.unwrap().outcome, Outcome::Revision(1));
    let all = solo.records().await;
    let without_reply: Vec<Record> = all.into_iter().filter(|record| !record.key.is_reply()).collect();
    assert_eq!(context(&without_reply, at, &POLICY).unanswered, []);
}

#[tokio::test]
async fn a_reply_stays_as_long_as_a_message_that_stays_for_ever() {
    let world = World::new().await;
    let kept = world.history_with(Faults::default(), false);
    let said = Draft { asks: true, ..message(&chat(0), 1, 0, "kept") };
    let asked = kept.append(&said).await.unwrap().base;
    // The setting changes before it is answered.
    echo_agent(&world.history()).run(&chat(0), Some(&asked)).await.unwrap();
    let records = kept.range(&chat(0), None).await.unwrap();
    assert_eq!(records.iter().map(|record| record.expires_at).collect::<Vec<_>>(), [None, None]);
}

/// If no summary can be made, the expiry of records in view is moved on: of a message together with its reply.
#[tokio::test]
async fn a_message_that_is_kept_keeps_its_reply() {
    let solo = Solo::new(&[("KEEP_RECENT", "1"), ("CONTEXT_WINDOW", "100000")]).await;
    let asked = solo.hear(0, "hello", true).await;
    solo.run(&asked).await;
    for minute in 1..10 {
        solo.hear(minute * 60 * 40, "still here", false).await;
        solo.model.fail(100, 500);
        solo.upkeep().visit(&solo.chat).await.unwrap();
        let records = solo.records().await;
        let date = |is_it: fn(&&Record) -> bool| records.iter().find(is_it).and_then(|r| r.expires_at);
        let (message, reply) = (date(|r| r.key == r.key.base()), date(|r| r.key.is_reply()));
        assert!(reply >= message, "{message:?} {reply:?}");
        let without_reply: Vec<Record> = records.iter().filter(|r| !r.key.is_reply()).cloned().collect();
        if let Some(reply) = reply {
            let view = context(&without_reply, Timestamp::from_secs(reply), &POLICY);
            assert!(!view.unanswered.contains(&asked), "it is gone, and its message does not wait again");
        }
    }
    let first = solo.records().await.remove(0);
    assert!(first.expires_at.unwrap() > first.sent_at.plus(A_LIFE).as_millis() / 1000, "it was kept");
}

#[tokio::test]
async fn a_message_that_nobody_could_answer_goes_on_waiting() {
    let solo = Solo::new(&[]).await;
    let asked = solo.hear(0, "hello", true).await;
    for _ in 0..30 {
        solo.advance(12 * 3600);
        solo.upkeep().visit(&solo.chat).await.unwrap();
        sweep(&solo.world.stores.dynamodb, TABLE, solo.world.clock.now()).await.unwrap();
    }
    solo.run(&asked).await;
    assert_answered_once(&solo.records().await);
}

#[tokio::test]
async fn an_open_turn_whose_message_has_left_the_table_is_answered_out_of_the_archive() {
    let world = World::new().await;
    let (history, chat) = (world.history(), chat(0));
    let said = Draft { asks: true, ..message(&chat, 1, 0, "hello") };
    let asked = history.append(&said).await.unwrap().base;
    let lease = claim(&history, &chat).await;
    history.commit(&lease, &OpenTurn::new(vec![asked.clone()])).await.unwrap();
    world.clock.advance(LEASE + Duration::from_secs(1));
    archive_everything(&history, &chat).await;
    world.clock.advance(A_LIFE);
    for record in history.range(&chat, None).await.unwrap() {
        world.expire(&record).await;
    }
    let now = world.clock.now().as_millis() - START;
    let next = Draft { asks: true, ..message(&chat, 2, now, "are you there?") };
    let next = history.append(&next).await.unwrap().base;
    echo_agent(&history).run(&chat, Some(&next)).await.unwrap();
    assert_eq!(history.head(&chat).await.unwrap().turn, None);
    let all = [("1", "hello"), ("1/reply", "hello"), ("2", "are you there?"), ("2/reply", "are you there?")];
    assert_eq!(listed(&history, &chat).await, pairs(&all));
}

/// Its reply was stored, and never delivered: whichever of the two TTL deletes first, nobody is asked again.
#[tokio::test]
async fn an_open_turn_whose_reply_has_left_the_table_is_not_answered_again() {
    for message_goes in [true, false] {
        let world = World::new().await;
        let (history, chat) = (world.history(), chat(0));
        let said = Draft { asks: true, ..message(&chat, 1, 0, "hello") };
        let asked = history.append(&said).await.unwrap().base;
        echo_agent(&history).run(&chat, Some(&asked)).await.unwrap();
        let lease = claim(&history, &chat).await;
        history.commit(&lease, &OpenTurn::new(vec![asked])).await.unwrap();
        history.release(&lease).await.unwrap();
        archive_everything(&history, &chat).await;
        world.clock.advance(A_LIFE);
        for record in history.range(&chat, None).await.unwrap() {
            if message_goes || record.key.is_reply() {
                world.expire(&record).await;
            }
        }
        let now = world.clock.now().as_millis() - START;
        let next = Draft { asks: true, ..message(&chat, 2, now, "are you there?") };
        let next = history.append(&next).await.unwrap().base;
        echo_agent(&history).run(&chat, Some(&next)).await.unwrap();
        let stored = history.range(&chat, None).await.unwrap();
        let replies: Vec<&Record> = stored.iter().filter(|record| record.key.is_reply()).collect();
        assert_eq!(replies.len(), 1, "to the next message alone");
        assert_eq!(listed(&history, &chat).await.len(), 4);
    }
}

#[tokio::test]
async fn an_expired_message_is_not_revived_without_its_reply() {
    let world = World::new().await;
    let (history, chat) = (world.history(), chat(0));
    let asked = Draft { asks: true, ..message(&chat, 1, 0, "hello") };
    history.append(&asked).await.unwrap();
    let record = history.range(&chat, None).await.unwrap().remove(0);
    world.clock.advance(A_LIFE);
    history.prolong(&record).await.unwrap();
    let after = history.range(&chat, None).await.unwrap().remove(0);
    assert_eq!(after.expires_at, record.expires_at);
    assert_eq!(context(&[after], world.clock.now(), &POLICY).unanswered, []);
}

#[tokio::test]
async fn an_open_turn_whose_message_is_nowhere_is_given_up() {
    let world = World::new().await;
    let (history, chat) = (world.history(), chat(0));
    let lost = message(&chat, 1, 0, "").key();
    let lease = claim(&history, &chat).await;
    history.commit(&lease, &OpenTurn::new(vec![lost])).await.unwrap();
    history.release(&lease).await.unwrap();
    let next = Draft { asks: true, ..message(&chat, 2, 1000, "are you there?") };
    let next = history.append(&next).await.unwrap().base;
    echo_agent(&history).run(&chat, Some(&next)).await.unwrap();
    assert_answered_once(&history.range(&chat, None).await.unwrap());
}

#[tokio::test]
async fn a_time_ahead_of_the_clock_is_refused_over_http() {
    let app = TestApp::builder().start().await;
    let say = |ahead: i64| json!({"userId": "ada", "text": "hello", "ts": NOW * 1000 + ahead});
    let limit = i64::try_from(MAX_AHEAD.as_millis()).unwrap();
    let refused = app.post("/v1/chats/c/messages", APP_KEY, &say(limit + 1)).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert_eq!(refused.body["type"], "urn:annals:problem:bad-ts");
    let taken = app.post("/v1/chats/c/messages", APP_KEY, &say(limit)).await;
    assert_eq!(taken.status, StatusCode::ACCEPTED, "{taken:?}");
    app.finish().await;
}

/// A platform's clock that is ahead, once or for good.
#[tokio::test]
async fn a_platform_whose_clock_is_ahead_hides_nothing() {
    const YEAR: i64 = 365 * 24 * 3600 * 1000;
    let solo = Solo::new(&[("KEEP_RECENT", "4")]).await;
    let ingress = Ingress::new(solo.history(), Arc::new(NoQueue), "annals".into());
    let mut ahead = solo.draft(0, "from the future", true);
    ahead.ts = Timestamp::from_millis(START + YEAR).unwrap();
    let ahead = solo.history().append(&ahead).await.unwrap().base;
    solo.run(&ahead).await;
    for minute in 1..4 {
        let asked = solo.hear(minute, &format!("message {minute}"), true).await;
        solo.run(&asked).await;
    }
    let shown = async || {
        let history = solo.history();
        let head = history.head(&solo.chat).await.unwrap();
        let policy = Policy { stale_after: Some(Duration::from_hours(48)), ..POLICY };
        let seen = history.context(&solo.chat, &head, None, &policy).await.unwrap().context;
        assert_eq!(seen.unanswered, []);
        seen.messages.iter().map(annals_core::message::UiMessage::plain_text).collect::<Vec<_>>()
    };
    let all = shown().await;
    for text in ["from the future", "message 1", "message 2", "message 3"] {
        assert!(all.iter().any(|shown| shown == text), "{text}: {all:?}");
    }
    let reset = solo.draft(5, "/reset", false);
    let commanded = ingress.command(&annals_core::command::Command::Reset, &reset).await.unwrap();
    ingress.confirmed(&reset, commanded.confirmation.unwrap()).await.unwrap();
    let asked = solo.hear(6, "message 6", true).await;
    solo.run(&asked).await;
    let after = shown().await;
    assert!(after.iter().all(|shown| !shown.contains("future") && !shown.contains("message 1")), "{after:?}");
    assert!(after.iter().any(|shown| shown == "message 6"), "{after:?}");
    // And it goes on to be compacted.
    for minute in 7..20 {
        let asked = solo.hear(minute, &format!("message {minute}"), true).await;
        solo.run(&asked).await;
    }
    let command = solo.hear_compact(21).await;
    solo.run(&command).await;
    assert_eq!(solo.summaries().await.len(), 1);
}

#[tokio::test]
async fn a_damaged_head_is_an_error_that_names_the_chat_and_not_an_empty_one() {
    let world = World::new().await;
    let (history, chat) = (world.history(), chat(0));
    let said = Draft { asks: true, ..message(&chat, 1, 0, "hello") };
    let asked = history.append(&said).await.unwrap().base;
    let set = async |value: AttributeValue| {
        let update = world.stores.dynamodb.update_item().table_name(TABLE).update_expression("SET #a = :v");
        let update =
            update.key("pk", AttributeValue::S(chat.to_string())).expression_attribute_names("#a", "turn");
        let update =
            update.key("sk", AttributeValue::S("!head".into())).expression_attribute_values(":v", value);
        update.send().await.unwrap();
    };
    for damaged in [AttributeValue::S("{\"covers\":".into()), AttributeValue::N("7".into())] {
        set(damaged).await;
        let error = history.head(&chat).await.unwrap_err().to_string();
        assert!(error.contains(&chat.to_string()) && error.contains("'turn'"), "{error}");
        let error = echo_agent(&history).run(&chat, Some(&asked)).await.unwrap_err().to_string();
        assert!(error.contains(&chat.to_string()), "{error}");
        assert_eq!(history.range(&chat, None).await.unwrap().len(), 1, "nothing is answered past it");
    }
    // The list still has it and the others.
    let chats = history.chats(None, 10).await.unwrap().chats;
    assert_eq!(chats.len(), 1);
    set(AttributeValue::S(serde_json::to_string(&OpenTurn::new(vec![asked.clone()])).unwrap())).await;
    echo_agent(&history).run(&chat, Some(&asked)).await.unwrap();
    assert_answered_once(&history.range(&chat, None).await.unwrap());
}

/// Takes every failed attempt for one that may be repeated, as the SDK does where a connection breaks.
#[derive(Debug)]
struct Always;

impl ClassifyRetry for Always {
    fn classify_retry(&self, context: &InterceptorContext) -> RetryAction {
        match context.output_or_error() {
            Some(Err(_)) => RetryAction::transient_error(),
            _ => RetryAction::NoActionIndicated,
        }
    }

    fn name(&self) -> &'static str {
        "Always"
    }
}

/// A history whose requests are repeated by the SDK, the answer to the `lost`th attempt of which is lost.
fn lossy(world: &World, lost: usize) -> History {
    let config: Config = world
        .stores
        .dynamodb
        .config()
        .to_builder()
        .retry_config(RetryConfig::standard().with_initial_backoff(Duration::from_millis(1)))
        .retry_classifier(Always)
        .interceptor(Faults::new(Plan::Lost(lost)))
        .build();
    let dynamodb = aws_sdk_dynamodb::Client::from_conf(config);
    History::new(
        dynamodb,
        TABLE.into(),
        world.stores.s3.clone(),
        BUCKET.into(),
        world.clock.clone(),
        default_retention(),
    )
}

#[tokio::test]
async fn a_write_whose_answer_was_lost_recognises_itself() {
    let world = World::new().await;
    let chat = chat(0);
    let claimed = lossy(&world, 1).claim(&chat, LEASE).await.unwrap();
    let Claim::Claimed(lease) = claimed else { panic!("{claimed:?}") };
    let other = world.history().claim(&chat, LEASE).await.unwrap();
    assert!(matches!(other, Claim::Busy(_)), "nobody else: {other:?}");
    world.history().release(&lease).await.unwrap();

    let stored = lossy(&world, 1).append(&message(&chat, 1, 0, "hello")).await.unwrap();
    assert_eq!(stored.outcome, Outcome::Stored, "no duplicate of itself");
    // The put is refused, and the answer to the transaction is lost.
    let edited = lossy(&world, 2).append(&message(&chat, 1, 0, "hello there")).await.unwrap();
    assert_eq!(edited.outcome, Outcome::Revision(1));
    assert_eq!(listed(&world.history(), &chat).await, pairs(&[("1", "hello"), ("1@1", "hello there")]));

    let upkeep = lossy(&world, 1).claim_for_upkeep(&chat, LEASE).await.unwrap();
    assert!(matches!(upkeep, Claim::Claimed(_)), "{upkeep:?}");
    // A run takes it over: the second of its requests.
    let run = lossy(&world, 2).claim(&chat, LEASE).await.unwrap();
    assert!(matches!(run, Claim::Claimed(_)), "{run:?}");
}

#[tokio::test]
async fn a_turn_that_was_throttled_or_met_another_run_has_its_attempts_left() {
    let solo = Solo::new(&[]).await;
    let asked = solo.hear(0, "hello", true).await;
    // Another run has the chat, again and again.
    let lease = claim(&solo.history(), &solo.chat).await;
    for _ in 0..5 {
        let busy = solo.agent(Faults::default()).run(&solo.chat, Some(&asked)).await;
        assert!(busy.is_err());
    }
    solo.history().release(&lease).await.unwrap();
    solo.model.fail(3, 500);
    let run = solo.start(solo.agent(Faults::default()), &asked);
    let failed = crate::app::passing(&solo.world.clock, Duration::from_millis(100), run).await.unwrap();
    assert!(failed.is_err(), "the first attempt that failed");
    assert_eq!(solo.history().head(&solo.chat).await.unwrap().failures, 1);
    solo.run(&asked).await;
    assert_answered_once(&solo.records().await);
    assert!(solo.records().await.iter().all(|record| record.kind() == Kind::Normal), "no notice");
    assert_eq!(solo.history().head(&solo.chat).await.unwrap().failures, 0);
}

/// A late message from before what the chat's next run would read, whose own turn never succeeds.
#[tokio::test]
async fn a_late_message_is_answered_with_the_next_turn_if_its_own_is_dead_lettered() {
    let solo = Solo::new(&[]).await;
    for minute in [0, 60 * 72] {
        let asked = solo.hear(minute, "hello", true).await;
        solo.run(&asked).await;
    }
    let mut late = solo.draft(60 * 72 + 1, "late", true);
    late.ts = Timestamp::from_millis(START + 1000).unwrap();
    let late = solo.history().append(&late).await.unwrap().base;
    let from = solo.history().head(&solo.chat).await.unwrap().context_from.unwrap();
    assert!(late < from, "it is below what a run reads");
    solo.model.fail(100, 500);
    let run = solo.start(solo.agent(Faults::default()), &late);
    let failed = crate::app::passing(&solo.world.clock, Duration::from_millis(100), run).await.unwrap();
    assert!(failed.is_err(), "and the queue moves it to the dead letters");
    solo.model.recover();
    let next = solo.hear(60 * 72 + 5, "anybody?", true).await;
    solo.run(&next).await;
    assert_answered_once(&solo.records().await);
}

/// One run answers a burst; the turns of its other messages see that without reading the chat's context.
#[tokio::test]
async fn a_turn_of_a_burst_that_was_answered_reads_no_context() {
    let world = World::new().await;
    let (history, chat) = (world.history(), chat(0));
    let agent = echo_agent(&history);
    let text = "x".repeat(2000);
    let mut bases = Vec::new();
    for id in 1..=300_u64 {
        let asks = id > 290;
        let said = Draft { asks, parts: vec![Part::text(&text)], ..message(&chat, id, id.cast_signed(), "") };
        bases.push(history.append(&said).await.unwrap().base);
    }
    history.meter().take();
    agent.run(&chat, Some(&bases[290])).await.unwrap();
    let whole = history.meter().take();
    for base in &bases[291..] {
        agent.run(&chat, Some(base)).await.unwrap();
        let cost = history.meter().take();
        assert!(cost.read_units < whole.read_units / 5.0, "{cost:?} beside {whole:?}");
        assert_eq!((cost.write_units, cost.calls), (2.0, 3), "{cost:?}");
    }
    assert_answered_once(&history.range(&chat, None).await.unwrap());
}

#[tokio::test]
async fn waiting_for_the_reply_of_a_repeated_message_costs_the_same_however_much_was_said_since() {
    let mut costs = Vec::new();
    for later in [20, 1000] {
        let world = World::new().await;
        let (history, chat) = (world.history(), chat(0));
        let asked = Draft { asks: true, ..message(&chat, 1, 1, "hello") };
        let asked = history.append(&asked).await.unwrap().base;
        echo_agent(&history).run(&chat, Some(&asked)).await.unwrap();
        for id in 2..later {
            history.append(&message(&chat, id, id.cast_signed(), "and so on")).await.unwrap();
        }
        history.meter().take();
        assert!(history.reply_to(&chat, &asked).await.unwrap().is_some());
        costs.push(history.meter().take().read_units);
    }
    assert!(costs[1] <= costs[0] + 1.0, "{costs:?}");
}

/// The records that a turn reads beside a summary do not grow with the messages of the minutes before it.
#[tokio::test]
async fn a_turn_reads_from_where_its_summary_was_made_and_not_five_minutes_more() {
    let solo = Solo::new(&[("KEEP_RECENT", "2")]).await;
    for id in 0..200 {
        let ms = id * 1000;
        let at = Timestamp::from_millis(START + ms).unwrap();
        solo.world.clock.advance(at.since(solo.world.clock.now()));
        solo.history().append(&message(&solo.chat, id.cast_unsigned() + 100, ms, "chatter")).await.unwrap();
    }
    let command = solo.hear_compact(4).await;
    solo.run(&command).await;
    assert_eq!(solo.summaries().await.len(), 1);
    let next = solo.hear(5, "and then?", true).await;
    solo.run(&next).await;
    let head = solo.history().head(&solo.chat).await.unwrap();
    let seen = solo.history().context(&solo.chat, &head, None, &POLICY).await.unwrap();
    assert!(seen.records.len() < 30, "{} records are read", seen.records.len());
}

#[tokio::test]
async fn an_edit_within_five_minutes_of_a_deletion_and_the_same_id_again_are_answered() {
    let app = TestApp::builder().start().await;
    let say = |text: &str| json!({"userId": "ada", "messageId": "m1", "text": text});
    let post = async |text: &str| {
        let posted = app.post("/v1/chats/c/messages?wait=20", APP_KEY, &say(text)).await;
        assert_eq!(posted.status, StatusCode::OK, "{posted:?}");
        posted.body
    };
    app.as_time_passes(post("hello")).await;
    let delete = app.request(Method::DELETE, "/v1/chats/c").bearer_auth(APP_KEY);
    assert_eq!(app.as_time_passes(Answer::of(delete)).await.status, StatusCode::OK);
    let again = app.as_time_passes(post("hello")).await;
    assert_eq!(again["duplicate"], false, "{again:?}");
    assert_eq!(app.lines("http:chat:app:c").await, ["m1 user: hello", "m1/reply assistant: hello"]);
    let list = app.request(Method::GET, "/v1/chats").bearer_auth(OPS_KEY);
    assert_eq!(Answer::of(list).await.body["chats"].as_array().unwrap().len(), 1);
    app.finish().await;
}
