//! The life of a record after it was answered: archive, expiry, edits and repeats that come late, damage, lost answers.

use std::slice::from_ref;
use std::time::Duration;

use annals_core::command::Command;
use annals_core::context::{Policy, context};
use annals_core::draft::Draft;
use annals_core::message::{Part, UiMessage};
use annals_core::record::{Kind, MAX_AHEAD, Record};
use annals_core::sort_key::Timestamp;
use annals_local::stores::TABLE;
use annals_store::history::turn::{Claim, OpenTurn};
use annals_store::history::{History, Outcome, Retention};
use aws_sdk_dynamodb::config::Builder;
use aws_sdk_dynamodb::config::retry::{ClassifyRetry, RetryAction, RetryConfig};
use aws_sdk_dynamodb::types::AttributeValue;
use aws_smithy_runtime_api::client::interceptors::context::InterceptorContext;
use reqwest::StatusCode;
use serde_json::json;

use crate::app::{APP_KEY, NOW, TestApp, passing};
use crate::faults::{Faults, Plan};
use crate::meter::Consumed;
use crate::turns::assert_answered_once;
use crate::world::{A_LIFE, LEASE, START, World, change_item};

const POLICY: Policy = Policy { stale_after: None, fresh: false, token_budget: u32::MAX, images: 0 };

/// Archives the chat, lets its records expire and deletes them as TTL does.
async fn leave_the_table(world: &World) {
    world.archive_everything().await;
    world.clock.advance(A_LIFE);
    // As upkeep would, which the sweep of the local program waits for.
    let entries = world.due(42).await.map(|due| due.entries).unwrap_or_default();
    let visited = world.upkeep().visit(&world.chat).await.unwrap();
    let history = world.another_process();
    history.settle(&world.chat, &entries, visited.next, visited.spoken_at).await.unwrap();
    world.sweep().await;
    assert_eq!(world.records().await, []);
}

#[tokio::test]
async fn a_repeat_of_a_message_that_has_left_the_table_is_a_duplicate_and_an_edit_its_revision() {
    let world = World::new().await;
    let said = world.message(1, 0, "first");
    world.append(&said).await;
    leave_the_table(&world).await;

    assert_eq!(world.append(&said).await.outcome, Outcome::Duplicate);
    assert_eq!(world.records().await, [], "the repeat was stored");
    let edited = world.message(1, 0, "second");
    assert_eq!(world.append(&edited).await.outcome, Outcome::Revision(1));
    assert_eq!(world.append(&edited).await.outcome, Outcome::Duplicate);
    let both = ["1 user: first", "1@1 user revision: second"];
    assert_eq!(world.lines().await, both);

    // For ever: the edit is archived, leaves the table, and is still the revision that it was.
    leave_the_table(&world).await;
    assert_eq!(world.lines().await, both);
    assert_eq!(world.append(&edited).await.outcome, Outcome::Duplicate);
    let again = world.message(1, 0, "first");
    assert_eq!(world.append(&again).await.outcome, Outcome::Revision(2), "A, B, A is three forms");
    assert_eq!(world.append(&again).await.outcome, Outcome::Duplicate);
    leave_the_table(&world).await;
    let all = ["1 user: first", "1@1 user revision: second", "1@2 user revision: first"];
    assert_eq!(world.lines().await, all);
    world.archived().await;
}

/// TTL deletes in any order: of a message with an edit, either may be gone first.
#[tokio::test]
async fn an_edit_finds_its_number_whichever_form_has_left_the_table() {
    for first_goes in [true, false] {
        let world = World::new().await;
        for text in ["one", "two"] {
            world.say(1, 0, text).await;
        }
        world.archive_everything().await;
        world.clock.advance(A_LIFE);
        let records = world.records().await;
        world.expire(&records[usize::from(!first_goes)]).await;
        let outcome = world.append(&world.message(1, 0, "three")).await.outcome;
        assert_eq!(outcome, Outcome::Revision(2), "first form deleted: {first_goes}");
        assert_eq!(world.append(&world.message(1, 0, "two")).await.outcome, Outcome::Revision(3));
        let all =
            ["1 user: one", "1@1 user revision: two", "1@2 user revision: three", "1@3 user revision: two"];
        assert_eq!(world.lines().await, all);
    }
}

#[tokio::test]
async fn only_what_is_older_than_a_day_is_looked_for_in_the_archive() {
    let world = World::new().await;
    world.say(1, 0, "first").await;
    world.archive_everything().await;
    world.clock.advance(Duration::from_hours(23));
    world.meter.take();
    world.say(2, 0, "late, but not that late").await;
    let cost = world.meter.take();
    assert_eq!(cost, Consumed { read_units: 0.0, ..cost }, "the append read from a store");
    world.clock.advance(Duration::from_hours(2));
    world.say(3, 0, "as old as a record that left under other settings").await;
    assert!(world.meter.take().read_units > 0.0);
    assert_eq!(world.lines().await.len(), 3, "a message is missing");
}

#[tokio::test]
async fn a_late_edit_leaves_no_segment_that_makes_readers_look_far() {
    let world = World::new().await;
    world.say(1, 0, "first").await;
    leave_the_table(&world).await;
    world.clock.advance(Duration::from_hours(1000));
    world.say(1, 0, "second").await;
    world.say(2, world.elapsed_millis(), "today").await;
    world.archive_everything().await;
    assert_eq!(world.head().await.longest_segment(), Some(Duration::ZERO));
    assert_eq!(world.segments().await.len(), 3);
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
    app.leave_the_table("http:chat:app:c").await;
    for body in [&say, &remember] {
        let again = app.post("/v1/chats/c/messages?wait=5", APP_KEY, body).await;
        assert_eq!((again.status, &again.body["duplicate"]), (StatusCode::OK, &json!(true)), "{again:?}");
    }
    let edit = json!({"userId": "ada", "messageId": "m1", "text": "hello there"});
    let edited = app.post("/v1/chats/c/messages?wait=5", APP_KEY, &edit).await;
    assert_eq!((edited.status, &edited.body["revision"]), (StatusCode::OK, &json!(1)), "{edited:?}");
    app.idle().await;
    let after = app.history("http:chat:app:c").await;
    assert_eq!(after.len(), before.len() + 1, "more or less than the edit was stored: {after:#?}");
    assert!(after.iter().any(|message| message["id"] == "m1@1"));
    app.finish().await;
}

#[tokio::test]
async fn a_reply_never_leaves_the_table_before_what_it_covers() {
    let world = World::hosted(&[]).await;
    let asked = world.hear(0, "hello", true).await;
    world.run(&asked).await;
    let records = world.records().await;
    let dates: Vec<i64> = records.iter().map(|record| record.expires_at.unwrap()).collect();
    assert!(dates[1] >= dates[0], "{dates:?}");
    // On its date the message waits no more, though its reply may be gone already.
    let at = Timestamp::from_secs(dates[0]);
    let alone = &records[..1];
    assert_eq!(context(alone, at, &POLICY).unanswered, []);
    assert_eq!(context(alone, at.minus(Duration::from_millis(1)), &POLICY).unanswered, from_ref(&asked));

    // An edit has a later date than the reply to what it changes.
    let mut edited = world.draft(3600, "hello there", true);
    (edited.ts, edited.message_id) = (records[0].ts, records[0].message_id.clone());
    assert_eq!(world.append(&edited).await.outcome, Outcome::Revision(1));
    let all = world.records().await;
    let without_reply: Vec<Record> = all.into_iter().filter(|record| !record.key.is_reply()).collect();
    assert_eq!(context(&without_reply, at, &POLICY).unanswered, []);
}

#[tokio::test]
async fn a_reply_stays_as_long_as_a_message_that_stays_for_ever() {
    let world = World::new().await;
    let said = Draft { asks: true, ..world.message(1, 0, "kept") };
    let asked = world.keeping_history().append(&said).await.unwrap().base;
    // The setting changes before it is answered.
    world.run(&asked).await;
    let records = world.records().await;
    assert_eq!(records.iter().map(|record| record.expires_at).collect::<Vec<_>>(), [None, None]);
}

/// If no summary can be made, the expiry of records in view is moved on: of a message together with its reply.
#[tokio::test]
async fn a_message_that_is_kept_keeps_its_reply() {
    let world = World::hosted(&[("KEEP_RECENT", "1"), ("CONTEXT_WINDOW", "100000")]).await;
    let asked = world.hear(0, "hello", true).await;
    world.run(&asked).await;
    for place in 1..10 {
        world.hear(place * 40 * 3600, "still here", false).await;
        world.model().fail(100, 500);
        world.upkeep().visit(&world.chat).await.unwrap();
        let records = world.records().await;
        let date = |is_it: fn(&&Record) -> bool| records.iter().find(is_it).and_then(|r| r.expires_at);
        let (message, reply) = (date(|r| r.key == r.key.base()), date(|r| r.key.is_reply()));
        assert!(reply >= message, "{message:?} {reply:?}");
        let without_reply: Vec<Record> = records.iter().filter(|r| !r.key.is_reply()).cloned().collect();
        if let Some(reply) = reply {
            let view = context(&without_reply, Timestamp::from_secs(reply), &POLICY);
            assert!(!view.unanswered.contains(&asked), "the message waits again after its reply expired");
        }
    }
    let first = world.records().await.remove(0);
    let before = first.sent_at.plus(A_LIFE).as_millis() / 1000;
    assert!(first.expires_at.unwrap() > before, "the expiry of the first message was not moved on");
}

#[tokio::test]
async fn later_forms_stay_as_long_as_their_message_if_the_retention_is_shortened() {
    let world = World::new().await;
    world.say(1, 0, "a secret").await;
    let first = world.records().await.remove(0);
    let shorter = Retention { archive_grace: Duration::from_hours(1), ..world.retention() };
    let shorter = world.history_for(shorter);
    shorter.append(&world.message(1, 0, "nothing")).await.unwrap();
    shorter.append_again(&world.message(1, 1000, "nothing at all"), &first, 2).await.unwrap();
    let dates: Vec<_> = world.records().await.iter().map(|record| record.expires_at).collect();
    assert_eq!(dates, [first.expires_at; 3]);
}

#[tokio::test]
async fn a_message_that_nobody_could_answer_goes_on_waiting() {
    let world = World::hosted(&[]).await;
    let asked = world.hear(0, "hello", true).await;
    for _ in 0..30 {
        world.advance(12 * 3600);
        world.upkeep().visit(&world.chat).await.unwrap();
        world.sweep().await;
    }
    world.run(&asked).await;
    assert_answered_once(&world.records().await);
}

#[tokio::test]
async fn an_open_turn_whose_message_has_left_the_table_is_answered_out_of_the_archive() {
    let world = World::new().await;
    let asked = world.ask(1, 0, "hello").await;
    let lease = world.claim().await;
    world.history.commit(&lease, &OpenTurn::new(vec![asked.clone()])).await.unwrap();
    world.clock.advance(LEASE + Duration::from_secs(1));
    world.archive_everything().await;
    world.clock.advance(A_LIFE);
    world.expire_all().await;
    let next = world.ask(2, world.elapsed_millis(), "are you there?").await;
    world.run(&next).await;
    assert_eq!(world.head().await.turn, None);
    let first = ["1 user: hello", "1/reply assistant: hello"];
    let second = ["2 user: are you there?", "2/reply assistant: are you there?"];
    assert_eq!(world.lines().await, [first, second].concat());
}

/// Its reply was stored, and never delivered: whichever of the two TTL deletes first, nobody is asked again.
#[tokio::test]
async fn an_open_turn_whose_reply_has_left_the_table_is_not_answered_again() {
    for message_goes in [true, false] {
        let world = World::new().await;
        let asked = world.ask(1, 0, "hello").await;
        world.run(&asked).await;
        let lease = world.claim().await;
        world.history.commit(&lease, &OpenTurn::new(vec![asked])).await.unwrap();
        world.history.release(&lease).await.unwrap();
        world.archive_everything().await;
        world.clock.advance(A_LIFE);
        for record in world.records().await {
            if message_goes || record.key.is_reply() {
                world.expire(&record).await;
            }
        }
        let next = world.ask(2, world.elapsed_millis(), "are you there?").await;
        world.run(&next).await;
        let stored = world.records().await;
        let replies: Vec<&Record> = stored.iter().filter(|record| record.key.is_reply()).collect();
        assert_eq!(replies.len(), 1, "the answered message was answered again");
        assert_eq!(world.lines().await.len(), 4);
    }
}

#[tokio::test]
async fn an_expired_message_is_not_revived_without_its_reply() {
    let world = World::new().await;
    world.ask(1, 0, "hello").await;
    let record = world.records().await.remove(0);
    world.clock.advance(A_LIFE);
    world.history.prolong(&record, world.clock.now()).await.unwrap();
    let after = world.records().await.remove(0);
    assert_eq!(after.expires_at, record.expires_at);
    assert_eq!(context(&[after], world.clock.now(), &POLICY).unanswered, []);
}

#[tokio::test]
async fn an_open_turn_whose_message_is_nowhere_is_given_up() {
    let world = World::new().await;
    let lost = world.message(1, 0, "").key();
    let lease = world.claim().await;
    world.history.commit(&lease, &OpenTurn::new(vec![lost])).await.unwrap();
    world.history.release(&lease).await.unwrap();
    let next = world.ask(2, 1000, "are you there?").await;
    world.run(&next).await;
    assert_answered_once(&world.records().await);
}

/// A platform's clock that is ahead, once or for good.
#[tokio::test]
async fn a_platform_whose_clock_is_ahead_hides_nothing() {
    const YEAR: i64 = 365 * 24 * 3600 * 1000;
    let world = World::hosted(&[("KEEP_RECENT", "4")]).await;
    let mut ahead = world.draft(0, "from the future", true);
    ahead.ts = Timestamp::from_millis(START + YEAR).unwrap();
    let ahead = world.append(&ahead).await.base;
    world.run(&ahead).await;
    for n in 1..4 {
        let asked = world.hear(n, &format!("message {n}"), true).await;
        world.run(&asked).await;
    }
    let shown = async || {
        let (history, head) = (world.another_process(), world.head().await);
        let policy = Policy { stale_after: Some(Duration::from_hours(48)), ..POLICY };
        let seen = history.context(&world.chat, &head, None, &policy).await.unwrap().context;
        assert_eq!(seen.unanswered, []);
        seen.messages.iter().map(UiMessage::plain_text).collect::<Vec<_>>()
    };
    let all = shown().await;
    for text in ["from the future", "message 1", "message 2", "message 3"] {
        assert!(all.iter().any(|shown| shown == text), "{text}: {all:?}");
    }
    let reset = world.draft(5, "/reset", false);
    let ingress = world.ingress();
    let commanded = ingress.command(&Command::Reset, &reset).await.unwrap();
    ingress.confirmed(&reset, commanded.confirmation.unwrap()).await.unwrap();
    let asked = world.hear(6, "message 6", true).await;
    world.run(&asked).await;
    let after = shown().await;
    assert!(after.iter().all(|shown| !shown.contains("future") && !shown.contains("message 1")), "{after:?}");
    assert!(after.iter().any(|shown| shown == "message 6"), "{after:?}");
    // And it goes on to be compacted.
    for n in 7..20 {
        let asked = world.hear(n, &format!("message {n}"), true).await;
        world.run(&asked).await;
    }
    let command = world.hear_compact(21).await;
    world.run(&command).await;
    assert_eq!(world.summaries().await.len(), 1);
}

#[tokio::test]
async fn a_damaged_head_is_an_error_that_names_the_chat_and_not_an_empty_one() {
    let world = World::new().await;
    let asked = world.ask(1, 0, "hello").await;
    let set = async |value: AttributeValue| {
        let chat = world.chat.to_string();
        change_item(&world.stores, (&chat, "!head"), "SET turn = :turn", &[(":turn", value)]).await;
    };
    for damaged in [AttributeValue::S("{\"covers\":".into()), AttributeValue::N("7".into())] {
        set(damaged).await;
        let error = world.history.head(&world.chat).await.unwrap_err().to_string();
        assert!(error.contains(&world.chat.to_string()) && error.contains("'turn'"), "{error}");
        let error = world.start_run(&asked).await.unwrap().unwrap_err().to_string();
        assert!(error.contains(&world.chat.to_string()), "{error}");
        assert_eq!(world.records().await.len(), 1, "a run answered with a damaged head");
    }
    // The list still has it and the others.
    let chats = world.history.chats(None, 10).await.unwrap().chats;
    assert_eq!(chats.len(), 1);
    set(AttributeValue::S(serde_json::to_string(&OpenTurn::new(vec![asked.clone()])).unwrap())).await;
    world.run(&asked).await;
    assert_answered_once(&world.records().await);
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
    let faults = Faults::new(Plan::Lost(lost));
    let config = Builder::from(&faults.before(&world.stores.aws, &world.meter))
        .allow_no_auth()
        .retry_config(RetryConfig::standard().with_initial_backoff(Duration::from_millis(1)))
        .retry_classifier(Always)
        .build();
    let (dynamodb, bucket) = (aws_sdk_dynamodb::Client::from_conf(config), world.stores.bucket.clone());
    History::new(dynamodb, TABLE.into(), bucket, world.clock.clone(), world.retention())
}

#[tokio::test]
async fn a_write_whose_answer_was_lost_recognises_itself() {
    let world = World::new().await;
    let claimed = lossy(&world, 1).claim(&world.chat, LEASE).await.unwrap();
    let Claim::Claimed(lease) = claimed else { panic!("{claimed:?}") };
    let other = world.history.claim(&world.chat, LEASE).await.unwrap();
    assert!(matches!(other, Claim::Busy(_)), "another process claimed the chat: {other:?}");
    world.history.release(&lease).await.unwrap();

    let stored = lossy(&world, 1).append(&world.message(1, 0, "hello")).await.unwrap();
    assert_eq!(stored.outcome, Outcome::Stored, "the append takes its own write for another's");
    // The put is refused, and the answer to the transaction is lost.
    let edited = lossy(&world, 2).append(&world.message(1, 0, "hello there")).await.unwrap();
    assert_eq!(edited.outcome, Outcome::Revision(1));
    assert_eq!(world.lines().await, ["1 user: hello", "1@1 user revision: hello there"]);

    let upkeep = lossy(&world, 1).claim_for_upkeep(&world.chat, LEASE).await.unwrap();
    assert!(matches!(upkeep, Claim::Claimed(_)), "{upkeep:?}");
    // A run takes it over: the second of its requests.
    let run = lossy(&world, 2).claim(&world.chat, LEASE).await.unwrap();
    assert!(matches!(run, Claim::Claimed(_)), "{run:?}");
}

#[tokio::test]
async fn a_turn_that_was_throttled_or_met_another_run_has_its_attempts_left() {
    let world = World::hosted(&[]).await;
    let asked = world.hear(0, "hello", true).await;
    let lease = world.claim().await;
    for _ in 0..5 {
        let run = world.start_run(&asked).await.unwrap();
        assert!(run.is_err(), "the run went on though another has the chat");
    }
    world.history.release(&lease).await.unwrap();
    world.model().fail(3, 500);
    let run = world.start_run(&asked);
    let failed = passing(&world.clock, Duration::from_millis(100), run).await.unwrap();
    assert!(failed.is_err(), "the run succeeded with a failing model");
    assert_eq!(world.head().await.failures, 1);
    world.run(&asked).await;
    assert_answered_once(&world.records().await);
    assert!(world.records().await.iter().all(|record| record.kind() == Kind::Normal), "a notice was stored");
    assert_eq!(world.head().await.failures, 0);
}

/// A late message from before what the chat's next run would read, whose own turn never succeeds.
#[tokio::test]
async fn a_late_message_is_answered_with_the_next_turn_if_its_own_is_dead_lettered() {
    let world = World::hosted(&[]).await;
    for hours in [0, 72] {
        let asked = world.hear(hours * 3600, "hello", true).await;
        world.run(&asked).await;
    }
    let mut late = world.draft(72 * 3600 + 60, "late", true);
    late.ts = Timestamp::from_millis(START + 1000).unwrap();
    let late = world.append(&late).await.base;
    let from = world.head().await.context_from.unwrap();
    assert!(late < from, "the message is in what a run reads");
    world.model().fail(100, 500);
    let run = world.start_run(&late);
    let failed = passing(&world.clock, Duration::from_millis(100), run).await.unwrap();
    assert!(failed.is_err(), "the run succeeded with a failing model");
    world.model().recover();
    let next = world.hear(72 * 3600 + 300, "anybody?", true).await;
    world.run(&next).await;
    assert_answered_once(&world.records().await);
}

/// One run answers a burst; the turns of its other messages see that without reading the chat's context.
#[tokio::test]
async fn a_turn_of_a_burst_that_was_answered_reads_no_context() {
    let world = World::new().await;
    let agent = world.agent_of(&world.history);
    let text = "x".repeat(2000);
    let mut bases = Vec::new();
    for id in 1..=300_u64 {
        let asks = id > 290;
        let said = Draft { asks, parts: vec![Part::text(&text)], ..world.message(id, id.cast_signed(), "") };
        bases.push(world.append(&said).await.base);
    }
    world.meter.take();
    agent.run(&world.chat, from_ref(&bases[290])).await.unwrap();
    let whole = world.meter.take();
    for base in &bases[291..] {
        agent.run(&world.chat, from_ref(base)).await.unwrap();
        let cost = world.meter.take();
        assert!(cost.read_units < whole.read_units / 5.0, "{cost:?} beside {whole:?}");
        assert_eq!((cost.write_units, cost.calls), (2.0, 3), "{cost:?}");
    }
    assert_answered_once(&world.records().await);
}

#[tokio::test]
async fn waiting_for_the_reply_of_a_repeated_message_costs_the_same_however_much_was_said_since() {
    let mut costs = Vec::new();
    for later in [20, 300] {
        let world = World::new().await;
        let asked = world.ask(1, 1, "hello").await;
        world.run(&asked).await;
        for id in 2..later {
            world.say(id, id.cast_signed(), "and so on").await;
        }
        world.meter.take();
        assert!(world.history.reply_to(&world.chat, &asked).await.unwrap().is_some());
        costs.push(world.meter.take().read_units);
    }
    assert!(costs[1] <= costs[0] + 1.0, "{costs:?}");
}

/// The records that a turn reads beside a summary do not grow with the messages of the minutes before it.
#[tokio::test]
async fn a_turn_reads_from_where_its_summary_was_made_and_not_five_minutes_more() {
    let world = World::hosted(&[("KEEP_RECENT", "2")]).await;
    for id in 0..200 {
        world.advance_to(id);
        world.say(id.cast_unsigned() + 1000, id * 1000, "chatter").await;
    }
    let command = world.hear_compact(240).await;
    world.run(&command).await;
    assert_eq!(world.summaries().await.len(), 1);
    let next = world.hear(300, "and then?", true).await;
    world.run(&next).await;
    let head = world.head().await;
    let seen = world.history.context(&world.chat, &head, None, &POLICY).await.unwrap();
    assert!(seen.records.len() < 30, "{} records are read", seen.records.len());
}

#[tokio::test]
async fn over_http_a_time_ahead_is_refused_and_an_id_is_free_again_right_after_a_deletion() {
    let app = TestApp::builder().start().await;
    let at = |ahead: i64| json!({"userId": "ada", "text": "hello", "ts": NOW * 1000 + ahead});
    let limit = i64::try_from(MAX_AHEAD.as_millis()).unwrap();
    app.post("/v1/chats/c/messages", APP_KEY, &at(limit + 1)).await.assert_problem(400, "bad-ts");
    app.say("c", &at(limit)).await;
    assert_eq!(app.forget("c", APP_KEY).await.status, StatusCode::OK);

    let say = json!({"userId": "ada", "messageId": "m1", "text": "hello"});
    assert_eq!(app.ask("c", APP_KEY, &say).await.status, StatusCode::OK);
    assert_eq!(app.forget("c", APP_KEY).await.status, StatusCode::OK);
    assert_eq!(app.ask("c", APP_KEY, &say).await.body["duplicate"], false);
    assert_eq!(app.lines("http:chat:app:c").await, ["m1 user: hello", "m1/reply assistant: hello"]);
    assert_eq!(app.get("/v1/chats").await["chats"].as_array().unwrap().len(), 1);
    app.finish().await;
}
