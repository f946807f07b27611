//! Bounds of time: a model that does not answer delays a turn for a bounded time, for any kind of request.

use std::time::Duration;

use annals_agent::{Agent, TurnError};
use annals_core::memory::Owner;
use annals_core::record::{Kind, Record};
use annals_model::ModelError;
use annals_test_support::model_api::{API_KEY, ModelApi, is_for_summary, notes_of};
use serde_json::{Value, json};

use crate::app::{a_while, passing};
use crate::faults::{Faults, Plan};
use crate::remembering::notes_of_tea;
use crate::turns::assert_answered_once;
use crate::world::{SMALL, World};

/// In seconds: how long a capture and all asking for an answer may take; of that, a model that has a fallback; and any
/// request that gets no answer at all.
const CAPTURE: u64 = 30;
const ASKING: u64 = 150;
const FIRST_MODEL: u64 = 100;
const FIRST_PIECE: u64 = 90;
/// Of a run's time, what is kept for storing and sending, and the rest.
const RESERVE: u64 = 45;
const RUN: u64 = 255;

/// In seconds: longer than a Session lasts.
const NEXT_SESSION: i64 = 49 * 3600;

/// Some 40 tokens.
fn long(n: i64) -> String {
    format!("message {n}: {}", "lorem ipsum dolor ".repeat(10).trim())
}

/// Says as much as takes several summaries, from this second on, without asking for anything. Answers are short from now
/// on.
async fn says_much(world: &World, seconds: i64, messages: i64) {
    world.model().answer_with("Noted.");
    for n in 0..messages {
        world.hear(seconds + n, &long(n), false).await;
    }
}

/// Lets all but the last of `asking` seconds pass that a run has for its answer, its `count`th request being the first.
/// Within that it gives up this one, and makes another.
async fn almost_all_asking_passes(world: &World, count: usize, asking: u64) {
    world.model().wait_for(count).await;
    let started = world.clock.now();
    world.advance(FIRST_PIECE - 1);
    a_while().await;
    assert_eq!((world.model().count(), world.model().running()), (count, 1), "given up too early");
    passing(&world.clock, Duration::from_millis(250), world.model().wait_for(count + 1)).await;
    let passed = world.clock.now().since(started);
    assert!(passed < Duration::from_secs(FIRST_PIECE + 5), "{passed:?}");
    world.clock.advance(Duration::from_secs(asking - 1).saturating_sub(passed));
    a_while().await;
}

fn left_out(record: &Record) -> &Value {
    record.message.metadata.fields().get("context").map_or(&Value::Null, |context| &context["leftOut"])
}

#[tokio::test]
async fn a_capture_is_given_up_and_the_answer_asked_for() {
    let world = World::hosted(&[]).await;
    world.model().answer_by(notes_of_tea);
    let tea = world.hear(0, "I only drink green tea", true).await;
    world.run(&tea).await;
    let memories = async || {
        let kept = world.memory.list(&Owner::User("telegram-42".into())).await.unwrap();
        kept.into_iter().map(|kept| kept.entry.text).collect::<Vec<_>>()
    };

    world.model().hang_notes();
    let asked = world.hear(NEXT_SESSION, "What do I drink?", true).await;
    let run = world.start_run(&asked);
    world.model().wait_for_notes(1).await;
    world.advance(CAPTURE - 1);
    a_while().await;
    assert_eq!(world.model().count(), 1, "the capture was given up too early");
    world.advance(1);
    world.ended(run).await.unwrap();
    assert_eq!(world.model().count(), 2);
    assert_eq!(notes_of(&world.model().requests()[1]), "", "something was captured");
    assert_answered_once(&world.records().await);
    assert_eq!(memories().await, [""; 0]);

    world.model().resume();
    world.upkeep().visit(&world.chat).await.unwrap();
    assert_eq!(memories().await, ["I only drink green tea"], "the next visit captured nothing");
    let again = world.hear(NEXT_SESSION + 60, "And now?", true).await;
    world.run(&again).await;
    assert!(notes_of(&world.model().requests()[2]).contains("green tea"));
}

/// A reply may be sent fifteen times: a capture that fails each time must not ask a model each time.
#[tokio::test]
async fn a_run_that_only_sends_its_reply_asks_no_model() {
    let asked_in_next_session = async || {
        let world = World::hosted(&[]).await;
        world.run(&world.hear(0, "I only drink green tea", true).await).await;
        let asked = world.hear(NEXT_SESSION, "What do I drink?", true).await;
        world.model().fail(1, 400);
        (world, asked)
    };
    let (world, asked) = asked_in_next_session().await;
    let requests = Faults::default();
    world.start(world.agent_with(requests.clone()), &asked).await.unwrap().unwrap();

    let (world, asked) = asked_in_next_session().await;
    let at_its_end = Faults::new(Plan::Before(requests.requests()));
    world.start(world.agent_with(at_its_end), &asked).await.unwrap().unwrap_err();
    assert_eq!(world.model().requests_for_notes().len(), 1, "the capture was not tried");
    assert_answered_once(&world.records().await);
    let count = world.model().count();
    world.advance(6 * 60);
    world.run(&asked).await;
    let asked = (world.model().count(), world.model().requests_for_notes().len());
    assert_eq!(asked, (count, 1), "the run that sent the reply asked a model");
    world.upkeep().visit(&world.chat).await.unwrap();
    assert_eq!(world.model().requests_for_notes().len(), 2, "upkeep captured nothing");
}

#[tokio::test]
async fn a_compaction_is_given_up_and_what_fits_is_answered() {
    let world = World::hosted(SMALL).await;
    says_much(&world, 0, 8).await;
    world.model().hang_notes();
    let asked = world.hear(20, "And now?", true).await;
    let run = world.start_run(&asked);
    world.model().wait_for_notes(1).await;
    world.advance(FIRST_PIECE - 1);
    a_while().await;
    assert_eq!(world.model().count(), 0, "the summary was given up too early");
    world.advance(1);
    world.ended(run).await.unwrap();
    assert_eq!((world.model().count(), world.model().requests_for_notes().len()), (1, 1));
    assert_eq!(world.summaries().await, []);
    let records = world.records().await;
    assert!(left_out(records.last().unwrap()).as_u64().is_some_and(|n| n > 0), "{:#?}", records.last());
    assert_eq!(world.whole_context().await.messages.len(), 10, "the chat's context has changed");

    world.model().resume();
    let again = world.hear(200, "And now?", true).await;
    world.run(&again).await;
    assert!(!world.summaries().await.is_empty());
    assert_eq!(left_out(world.records().await.last().unwrap()), &Value::Null);
}

/// The bound is of all summaries before a turn together: each takes 50 seconds here, so that the third is not waited for.
#[tokio::test]
async fn several_compactions_share_their_time() {
    let world = World::hosted(SMALL).await;
    says_much(&world, 0, 30).await;
    let clock = world.clock.clone();
    world.model().answer_by(move |body| {
        if is_for_summary(body) {
            clock.advance(Duration::from_secs(50));
        }
        None
    });
    let asked = world.hear(40, "And now?", true).await;
    let started = world.clock.now();
    world.run(&asked).await;
    assert_eq!((world.model().requests_for_notes().len(), world.summaries().await.len()), (3, 2));
    assert_eq!(world.clock.now().since(started).as_secs(), 150);
    assert!(left_out(world.records().await.last().unwrap()).as_u64().is_some_and(|n| n > 0));
}

#[tokio::test]
async fn a_compact_command_is_given_up_and_said_to_be_at_last() {
    let world = World::hosted(&[("KEEP_RECENT", "4")]).await;
    says_much(&world, 0, 10).await;
    let command = world.hear_compact(20).await;
    let before = world.whole_context().await;
    world.model().hang_notes();
    for (attempt, requests) in [(1, 1), (3, 2)] {
        if attempt == 3 {
            world.fail_turn(1).await;
        }
        let run = world.start_run(&command);
        world.model().wait_for_notes(requests).await;
        world.advance(FIRST_PIECE - 1);
        a_while().await;
        assert!(!run.is_finished(), "the run ended while the summary could still come");
        world.advance(1);
        if attempt == 1 {
            let error = world.ended(run).await.unwrap_err();
            assert!(matches!(error, TurnError::Compaction(_)), "{error}");
            assert_eq!(world.records().await.len(), 11, "something was said before the summary");
        } else {
            world.ended(run).await.unwrap();
        }
    }
    let mut told = world.records().await;
    told.retain(|record| record.kind() == Kind::Notice && record.covers().contains(&command));
    let [notice] = &told[..] else { panic!("{told:?}") };
    let text = notice.message.plain_text();
    assert!(text.contains("could not compact") && text.contains("Nothing has changed"), "{text}");
    assert_eq!(world.summaries().await, []);
    assert_eq!(world.whole_context().await.messages, before.messages);
    assert_eq!(world.model().count(), 0);
}

/// A model with a fallback has its time, and the fallback the rest.
#[tokio::test]
async fn a_model_that_does_not_answer_leaves_its_fallback_time_to() {
    let spare = ModelApi::start().await;
    let base_url = spare.base_url();
    let settings = [("MODEL_FALLBACK", "openai:spare"), ("MODEL_FALLBACK_API_KEY", API_KEY)];
    let world =
        World::hosted(&[&settings[..], &[("MODEL_FALLBACK_BASE_URL", base_url.as_str())]].concat()).await;
    world.model().hang_answers();
    let asked = world.hear(0, "hello", true).await;
    let started = world.clock.now();
    let run = world.start_run(&asked);
    world.model().wait_for(1).await;
    passing(&world.clock, Duration::from_millis(250), spare.wait_for(1)).await;
    let passed = world.clock.now().since(started).as_secs();
    assert!((FIRST_MODEL..FIRST_MODEL + 5).contains(&passed), "{passed}");
    world.ended(run).await.unwrap();
    assert_eq!(world.model().count(), 2, "the model was not asked twice");
    let records = world.records().await;
    assert_answered_once(&records);
    assert_eq!(records[1].message.metadata.fields()["model"], "openai:spare");

    // Where neither answers, the run ends when it would with one.
    spare.hang();
    let asked = world.hear(600, "and now?", true).await;
    let started = world.clock.now();
    let run = world.start_run(&asked);
    let ended = passing(&world.clock, Duration::from_millis(250), world.ended(run)).await;
    assert!(matches!(ended, Err(TurnError::Model(ModelError::Incomplete("timed out")))), "{ended:?}");
    let passed = world.clock.now().since(started).as_secs();
    assert!((ASKING..ASKING + 5).contains(&passed), "{passed}");
}

/// A function lives for five minutes, and its turn is not to be cut off in the middle.
#[tokio::test]
async fn a_run_ends_in_time_if_every_service_hangs() {
    let world = World::hosted(SMALL).await;
    let tea = world.hear(0, "I only drink green tea", true).await;
    world.run(&tea).await;
    says_much(&world, NEXT_SESSION, 10).await;
    let asked = world.hear(NEXT_SESSION + 20, "And now?", true).await;
    let started = world.clock.now();
    world.model().hang();
    let run = world.start_run(&asked);
    world.model().wait_for_notes(1).await;
    world.advance(CAPTURE);
    world.model().wait_for_notes(2).await;
    assert!(is_for_summary(&world.model().requests_for_notes()[1]));
    world.advance(FIRST_PIECE);
    let (stored, asking) = (world.records().await.len(), RUN - CAPTURE - FIRST_PIECE);
    almost_all_asking_passes(&world, 2, asking).await;
    assert!(!run.is_finished(), "the run ended while the answer could still come");
    world.advance(1);
    let error = world.ended(run).await.unwrap_err();
    assert!(matches!(error, TurnError::Model(ModelError::Incomplete("timed out"))), "{error}");
    assert_eq!(world.clock.now().since(started).as_secs(), RUN);
    assert_eq!(world.records().await.len(), stored);
    // The last attempt as well, and it tells.
    world.model().resume();
    world.model().hang();
    world.fail_turn(1).await;
    let run = world.start_run(&asked);
    for (notes, seconds) in [(3, CAPTURE), (4, FIRST_PIECE)] {
        world.model().wait_for_notes(notes).await;
        world.advance(seconds);
    }
    almost_all_asking_passes(&world, 4, asking).await;
    world.advance(1);
    world.ended(run).await.unwrap();
    assert_eq!(world.clock.now().since(started).as_secs(), 2 * RUN);
    let records = world.records().await;
    assert_eq!(records.last().unwrap().kind(), Kind::Notice);
    assert_eq!(json!(records.last().unwrap().covers()), json!([asked]));
}

/// The steps before have used up time: a run that asked for as long as usual would be cut off with its answer.
#[tokio::test]
async fn a_run_that_has_less_time_left_asks_for_that_long_and_stores_what_it_has() {
    let world = World::hosted(&[]).await;
    let asked = world.hear(0, "Hello?", true).await;
    world.model().hang_answers();
    let lease = Duration::from_secs(RESERVE + 60);
    world.fail_turn(2).await;
    let run = world.start(Agent { lease, ..world.agent() }, &asked);
    world.model().wait_for(1).await;
    world.advance(59);
    a_while().await;
    assert!(!run.is_finished(), "the run ended while the answer could still come");
    world.advance(1);
    world.ended(run).await.unwrap();
    let reply = world.records().await.pop().unwrap();
    assert_eq!((reply.kind(), reply.covers()), (Kind::Notice, &[asked][..]));
    assert_eq!(world.model().count(), 1);
}
