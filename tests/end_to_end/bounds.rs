//! Bounds of time: a model that does not answer delays a turn for a bounded time, for any kind of request.

use std::time::Duration;

use annals_agent::{Agent, TurnError};
use annals_core::memory::Owner;
use annals_core::record::{Kind, Record};
use annals_model::ModelError;
use annals_store::memory::Memory;
use annals_test_support::model_api::{API_KEY, ModelApi, is_for_summary, notes_of};
use serde_json::{Value, json};

use crate::app::{TestApp, a_while, passing};
use crate::faults::{Faults, Plan};
use crate::remembering::notes_of_tea;
use crate::solo::Solo;
use crate::turns::assert_answered_once;
use crate::updates::private;

/// In seconds: how long a capture, the room for a turn, and all asking for its answer may take; of that, one request that
/// gets no answer at all, and a model that has a fallback.
const CAPTURE: u64 = 30;
const ROOM: u64 = 60;
const ASKING: u64 = 150;
const FIRST_PIECE: u64 = 90;
const FIRST_MODEL: u64 = 100;
/// Of a run's time, what is kept for storing and sending.
const RESERVE: u64 = 45;

/// In minutes: longer than a Session lasts.
const NEXT_SESSION: i64 = 49 * 60;

/// A window of 300 tokens for messages, and four that stay.
const SMALL: &[(&str, &str)] = &[("CONTEXT_WINDOW", "375"), ("KEEP_RECENT", "4")];

/// Some 40 tokens.
fn long(n: i64) -> String {
    format!("message {n}: {}", "lorem ipsum dolor ".repeat(10).trim())
}

/// Says as much as takes several summaries, from this minute on, without asking for anything; a question after it has
/// a short answer.
async fn says_much(solo: &Solo, minute: i64, messages: i64) {
    solo.model.answer_with("Noted.");
    for n in 0..messages {
        solo.hear(minute + n, &long(n), false).await;
    }
}

/// Lets all but the last second pass that a run may ask for its answer, its `count`th request being the first. Within
/// that it gives up this one, and makes another.
async fn almost_all_asking_passes(solo: &Solo, count: usize) {
    solo.model.wait_for(count).await;
    let started = solo.world.clock.now();
    solo.advance(FIRST_PIECE - 1);
    a_while().await;
    assert_eq!((solo.model.count(), solo.model.running()), (count, 1), "the answer may still come");
    passing(&solo.world.clock, Duration::from_millis(250), solo.model.wait_for(count + 1)).await;
    let passed = solo.world.clock.now().since(started);
    assert!(passed < Duration::from_secs(FIRST_PIECE + 5), "{passed:?}");
    solo.world.clock.advance(Duration::from_secs(ASKING - 1).saturating_sub(passed));
    a_while().await;
}

async fn timed_out(solo: &Solo, run: tokio::task::JoinHandle<Result<(), TurnError>>) {
    let error = solo.ended(run).await.unwrap_err();
    assert!(matches!(error, TurnError::Model(ModelError::Unreachable("timed out"))), "{error}");
}

fn left_out(record: &Record) -> &Value {
    record.message.metadata.fields().get("context").map_or(&Value::Null, |context| &context["leftOut"])
}

#[tokio::test]
async fn a_capture_is_given_up_and_the_answer_asked_for() {
    let solo = Solo::new(&[]).await;
    solo.model.answer_by(notes_of_tea);
    let tea = solo.hear(0, "I only drink green tea", true).await;
    solo.run(&tea).await;
    let memories = async || {
        let kept = Memory::beside(&solo.history()).list(&Owner::User("telegram-42".into())).await.unwrap();
        kept.into_iter().map(|kept| kept.entry.text).collect::<Vec<_>>()
    };

    solo.model.hang_notes();
    let asked = solo.hear(NEXT_SESSION, "What do I drink?", true).await;
    let run = solo.start(solo.agent(Faults::default()), &asked);
    solo.model.wait_for_notes(1).await;
    solo.advance(CAPTURE - 1);
    a_while().await;
    assert_eq!(solo.model.count(), 1, "the capture may still come");
    solo.advance(1);
    solo.ended(run).await.unwrap();
    assert_eq!(solo.model.count(), 2);
    assert_eq!(notes_of(&solo.model.requests()[1]), "", "nothing was captured");
    assert_answered_once(&solo.records().await);
    assert_eq!(memories().await, [""; 0]);

    solo.model.resume();
    solo.upkeep().visit(&solo.chat).await.unwrap();
    assert_eq!(memories().await, ["I only drink green tea"], "upkeep makes up for it");
    let again = solo.hear(NEXT_SESSION + 1, "And now?", true).await;
    solo.run(&again).await;
    assert!(notes_of(&solo.model.requests()[2]).contains("green tea"));
}

/// A reply may be sent fifteen times: a capture that fails each time must not ask a model each time.
#[tokio::test]
async fn a_run_that_only_sends_its_reply_asks_no_model() {
    let asked_in_next_session = async || {
        let solo = Solo::new(&[]).await;
        solo.run(&solo.hear(0, "I only drink green tea", true).await).await;
        let asked = solo.hear(NEXT_SESSION, "What do I drink?", true).await;
        solo.model.fail(1, 400);
        (solo, asked)
    };
    let (solo, asked) = asked_in_next_session().await;
    let requests = Faults::default();
    solo.start(solo.agent(requests.clone()), &asked).await.unwrap().unwrap();

    let (solo, asked) = asked_in_next_session().await;
    let at_its_end = Faults::new(Plan::Before(requests.requests()));
    solo.start(solo.agent(at_its_end), &asked).await.unwrap().unwrap_err();
    assert_eq!(solo.model.requests_for_notes().len(), 1, "the capture has failed");
    assert_answered_once(&solo.records().await);
    let count = solo.model.count();
    solo.advance(6 * 60);
    solo.run(&asked).await;
    assert_eq!((solo.model.count(), solo.model.requests_for_notes().len()), (count, 1));
    solo.upkeep().visit(&solo.chat).await.unwrap();
    assert_eq!(solo.model.requests_for_notes().len(), 2, "upkeep makes up for it");
}

#[tokio::test]
async fn a_compaction_is_given_up_and_what_fits_is_answered() {
    let solo = Solo::new(SMALL).await;
    says_much(&solo, 0, 8).await;
    solo.model.hang_notes();
    let asked = solo.hear(20, "And now?", true).await;
    let run = solo.start(solo.agent(Faults::default()), &asked);
    solo.model.wait_for_notes(1).await;
    solo.advance(ROOM - 1);
    a_while().await;
    assert_eq!(solo.model.count(), 0, "the summary may still come");
    solo.advance(1);
    solo.ended(run).await.unwrap();
    assert_eq!((solo.model.count(), solo.model.requests_for_notes().len()), (1, 1));
    assert_eq!(solo.summaries().await, []);
    let records = solo.records().await;
    assert!(left_out(records.last().unwrap()).as_u64().is_some_and(|n| n > 0), "{:#?}", records.last());
    assert_eq!(solo.whole_context().await.messages.len(), 10, "nothing has changed");

    solo.model.resume();
    let again = solo.hear(21, "And now?", true).await;
    solo.run(&again).await;
    assert!(!solo.summaries().await.is_empty());
    assert_eq!(left_out(solo.records().await.last().unwrap()), &Value::Null);
}

/// The bound is of all summaries before a turn together: each takes 25 seconds here, so that the third is not waited for.
#[tokio::test]
async fn several_compactions_share_their_time() {
    let solo = Solo::new(SMALL).await;
    says_much(&solo, 0, 30).await;
    let clock = solo.world.clock.clone();
    solo.model.answer_by(move |body| {
        if is_for_summary(body) {
            clock.advance(Duration::from_secs(25));
        }
        None
    });
    let asked = solo.hear(40, "And now?", true).await;
    let started = solo.world.clock.now();
    solo.run(&asked).await;
    assert_eq!((solo.model.requests_for_notes().len(), solo.summaries().await.len()), (3, 2));
    assert_eq!(solo.world.clock.now().since(started).as_secs(), 75);
    assert!(left_out(solo.records().await.last().unwrap()).as_u64().is_some_and(|n| n > 0));
}

#[tokio::test]
async fn asking_is_given_up_and_the_chat_is_free_for_the_redelivery() {
    let solo = Solo::new(&[]).await;
    solo.model.hang_answers();
    let asked = solo.hear(0, "hello", true).await;
    let run = solo.start(solo.agent(Faults::default()), &asked);
    almost_all_asking_passes(&solo, 1).await;
    assert!(!run.is_finished(), "the answer may still come");
    solo.advance(1);
    timed_out(&solo, run).await;
    assert_eq!((solo.model.count(), solo.records().await.len()), (2, 1));
    solo.model.resume();
    solo.start(solo.agent(Faults::default()), &asked).await.unwrap().unwrap();
    assert_answered_once(&solo.records().await);
}

#[tokio::test]
async fn a_turn_whose_answer_does_not_come_is_delivered_again() {
    let app = TestApp::start().await;
    app.model().hang_answers();
    app.receive(private(42, 1, "hello")).await;
    app.model().wait_for(1).await;
    let started = app.clock().now();
    // Two tries of a run, and the first of the next.
    app.as_time_passes(app.model().wait_for(3)).await;
    assert!(app.clock().now().since(started).as_secs() >= ASKING);
    app.model().resume();
    app.idle().await;
    assert_eq!(app.model().count(), 3);
    assert_answered_once(&app.records("telegram:chat:42").await);
    assert_eq!(app.telegram_api().sent().len(), 1);
    app.finish().await;
}

#[tokio::test]
async fn a_compact_command_is_given_up_and_said_to_be_at_last() {
    let solo = Solo::new(&[("KEEP_RECENT", "4")]).await;
    says_much(&solo, 0, 10).await;
    let command = solo.hear_compact(20).await;
    let before = solo.whole_context().await;
    solo.model.hang_notes();
    for (attempt, requests) in [(1, 1), (3, 2)] {
        if attempt == 3 {
            solo.fail_turn(1).await;
        }
        let run = solo.start(solo.agent(Faults::default()), &command);
        solo.model.wait_for_notes(requests).await;
        solo.advance(FIRST_PIECE - 1);
        a_while().await;
        assert!(!run.is_finished(), "the summary may still come");
        solo.advance(1);
        if attempt == 1 {
            let error = solo.ended(run).await.unwrap_err();
            assert!(matches!(error, TurnError::Compaction(_)), "{error}");
            assert_eq!(solo.records().await.len(), 11, "nothing is said yet");
        } else {
            solo.ended(run).await.unwrap();
        }
    }
    let records = solo.records().await;
    let told =
        records.iter().filter(|record| record.kind() == Kind::Notice && record.covers().contains(&command));
    let told: Vec<String> = told.map(|record| record.message.plain_text()).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("could not compact") && told[0].contains("Nothing has changed"), "{told:?}");
    assert_eq!(solo.summaries().await, []);
    assert_eq!(solo.whole_context().await.messages, before.messages);
    assert_eq!(solo.model.count(), 0);
}

/// A model with a fallback has its time, and the fallback the rest.
#[tokio::test]
async fn a_model_that_does_not_answer_leaves_its_fallback_time_to() {
    let spare = ModelApi::start().await;
    let base_url = spare.base_url();
    let settings = [
        ("MODEL_FALLBACK", "openai:spare"),
        ("MODEL_FALLBACK_BASE_URL", &base_url),
        ("MODEL_FALLBACK_API_KEY", API_KEY),
    ];
    let solo = Solo::new(&settings).await;
    solo.model.hang_answers();
    let asked = solo.hear(0, "hello", true).await;
    let started = solo.world.clock.now();
    let run = solo.start(solo.agent(Faults::default()), &asked);
    solo.model.wait_for(1).await;
    passing(&solo.world.clock, Duration::from_millis(250), spare.wait_for(1)).await;
    let passed = solo.world.clock.now().since(started).as_secs();
    assert!((FIRST_MODEL..FIRST_MODEL + 5).contains(&passed), "{passed}");
    solo.ended(run).await.unwrap();
    assert_eq!(solo.model.count(), 2, "it had two tries");
    let records = solo.records().await;
    assert_answered_once(&records);
    assert_eq!(records[1].message.metadata.fields()["model"], "openai:spare");

    // Where neither answers, the run ends when it would with one.
    spare.hang();
    let asked = solo.hear(10, "and now?", true).await;
    let started = solo.world.clock.now();
    let run = solo.start(solo.agent(Faults::default()), &asked);
    let ended = passing(&solo.world.clock, Duration::from_millis(250), solo.ended(run)).await;
    assert!(matches!(ended, Err(TurnError::Model(ModelError::Unreachable("timed out")))), "{ended:?}");
    let passed = solo.world.clock.now().since(started).as_secs();
    assert!((ASKING..ASKING + 5).contains(&passed), "{passed}");
}

/// A function lives for five minutes, and its turn is not to be cut off in the middle.
#[tokio::test]
async fn a_run_ends_within_four_minutes_if_every_service_hangs() {
    let solo = Solo::new(SMALL).await;
    let tea = solo.hear(0, "I only drink green tea", true).await;
    solo.run(&tea).await;
    says_much(&solo, NEXT_SESSION, 10).await;
    let asked = solo.hear(NEXT_SESSION + 20, "And now?", true).await;
    let started = solo.world.clock.now();
    solo.model.hang();
    let run = solo.start(solo.agent(Faults::default()), &asked);
    solo.model.wait_for_notes(1).await;
    solo.advance(CAPTURE);
    solo.model.wait_for_notes(2).await;
    assert!(is_for_summary(&solo.model.requests_for_notes()[1]));
    solo.advance(ROOM);
    almost_all_asking_passes(&solo, 2).await;
    solo.advance(1);
    timed_out(&solo, run).await;
    assert_eq!(solo.world.clock.now().since(started).as_secs(), 240);
    // The last attempt as well, and it tells.
    solo.model.resume();
    solo.model.hang();
    solo.fail_turn(1).await;
    let run = solo.start(solo.agent(Faults::default()), &asked);
    for (notes, seconds) in [(3, CAPTURE), (4, ROOM)] {
        solo.model.wait_for_notes(notes).await;
        solo.advance(seconds);
    }
    almost_all_asking_passes(&solo, 4).await;
    solo.advance(1);
    solo.ended(run).await.unwrap();
    assert_eq!(solo.world.clock.now().since(started).as_secs(), 480);
    let records = solo.records().await;
    assert_eq!(records.last().unwrap().kind(), Kind::Notice);
    assert_eq!(json!(records.last().unwrap().covers()), json!([asked]));
}

/// The steps before have used up time: a run that asked for as long as usual would be cut off with its answer.
#[tokio::test]
async fn a_run_that_has_less_time_left_asks_for_that_long_and_stores_what_it_has() {
    let solo = Solo::new(&[]).await;
    let asked = solo.hear(0, "Hello?", true).await;
    solo.model.hang_answers();
    let lease = Duration::from_secs(RESERVE + 60);
    solo.fail_turn(2).await;
    let run = solo.start(Agent { lease, ..solo.agent(Faults::default()) }, &asked);
    solo.model.wait_for(1).await;
    solo.advance(59);
    a_while().await;
    assert!(!run.is_finished(), "the answer may still come");
    solo.advance(1);
    solo.ended(run).await.unwrap();
    let reply = solo.records().await.pop().unwrap();
    assert_eq!((reply.kind(), reply.covers()), (Kind::Notice, &[asked][..]));
    assert_eq!(solo.model.count(), 1);
}
