//! `/stop`: the current turn ends with what was said, and later messages are answered.

use std::time::Duration;

use annals_agent::TurnError;
use annals_core::command::Command;
use annals_core::draft::Draft;
use annals_core::record::{Kind, Record};
use annals_core::sort_key::SortKey;
use annals_engine::ingress::IngressError;
use annals_store::history::History;
use annals_store::history::HistoryError;
use annals_store::history::stop::LOOK_AGAIN;
use annals_store::history::turn::{OpenTurn, STOPPED_RUN_ENDS_WITHIN};
use annals_test_support::model_api::{Mishap, last_user_line, texts_of};
use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::app::{APP_KEY, TestApp, a_while, text_of, wait_until};
use crate::faults::{Faults, Plan};
use crate::turns::assert_answered_once;
use crate::typing::drafts;
use crate::updates::private;
use crate::world::{LEASE, World, at_each_request, change_item, reply};

const CHAT: &str = "telegram:chat:42";
const STOPPED: &str = "Stopped.";
const NOTHING_RUNS: &str = "Nothing is being answered at the moment.";
const NOT_ANSWERED: &str = "Stopped before there was an answer.";
/// An answer, and its half that comes before the model stalls.
const COUNT: &str = "one two three four five six seven eight";
const HALF: &str = "one two three four five";

/// The clock does not move: the run is stopped at once, and nothing else happens.
#[tokio::test]
async fn a_run_is_stopped_at_once_and_later_messages_are_answered() {
    let app = TestApp::start().await;
    app.model().hang();
    app.receive(private(42, 1, "Write a novel")).await;
    app.receive(private(42, 2, "about beans")).await;
    app.model().wait_for(1).await;
    app.receive(private(42, 3, "/stop").command()).await;
    assert_eq!(app.sent_texts(), [STOPPED]);
    app.idle().await;
    assert_eq!(app.model().count(), 1);
    app.model().resume();
    app.model().answer_with("Beans.");
    app.handle(private(42, 4, "Just a haiku")).await;
    assert_eq!(app.sent_texts(), [STOPPED, "Beans."]);
    let lines = app.lines(CHAT).await;
    assert_eq!(
        lines,
        [
            "1 user: Write a novel",
            "2 user: about beans",
            &format!("2/reply assistant: {NOT_ANSWERED}"),
            "3 user notice: /stop",
            &format!("3/notice assistant notice: {STOPPED}"),
            "4 user: Just a haiku",
            "4/reply assistant: Beans.",
        ]
    );
    assert_answered_once(&app.records(CHAT).await);
    let metadata = &app.history(CHAT).await[2]["metadata"];
    assert_eq!((&metadata["stopped"], &metadata["stoppedBy"]), (&json!(true), &json!("3")));
    // The model sees that the question is over.
    assert_eq!(texts_of(&app.last_request(), "assistant"), [NOT_ANSWERED]);
    app.finish().await;
}

/// The draft that was seen becomes the reply.
#[tokio::test]
async fn what_was_said_is_the_reply_and_covers_its_question() {
    let app = TestApp::builder().set("STREAM_REPLIES", "true").telegram().model().start().await;
    app.model().answer_with(COUNT);
    app.model().mishap(1, Mishap::Stalls);
    app.receive(private(42, 1, "count")).await;
    let has_come = async || drafts(&app).last().is_some_and(|(_, text)| text.trim_end() == HALF);
    app.as_time_passes(wait_until("half of it is seen", has_come)).await;
    app.receive(private(42, 2, "backwards")).await;
    app.handle_as_time_passes(private(42, 3, "/stop").command()).await;
    assert_eq!(sent_in_any_order(&app), [STOPPED, &format!("{HALF}\n\n(Stopped here.)")]);
    let shown = app.telegram_api().shown().last().unwrap().at_seq;
    let reply = app.telegram_api().sent().into_iter().find(|sent| sent.text != STOPPED).unwrap();
    assert!(shown < reply.at_seq, "a draft was shown after the reply");
    app.model().answer_with("Beans.");
    app.ada_says(4, "beans?").await;
    let lines = [
        "1 user: count",
        &format!("1/reply assistant: {HALF} "),
        "2 user: backwards",
        &format!("2/reply assistant: {NOT_ANSWERED}"),
        "3 user notice: /stop",
        "3/notice assistant notice: Stopped.",
        "4 user: beans?",
        "4/reply assistant: Beans.",
    ];
    assert_eq!(app.lines(CHAT).await, lines);
    let said = &app.history(CHAT).await[1];
    assert_eq!(said["parts"].as_array().unwrap().len(), 1, "{said}");
    assert_eq!((&said["metadata"]["stopped"], &said["metadata"]["kind"]), (&json!(true), &json!("normal")));
    assert_eq!(said["metadata"]["model"], "openai:test");
    assert_answered_once(&app.records(CHAT).await);
    let asked = app.last_request();
    assert_eq!(texts_of(&asked, "assistant"), [&format!("{HALF} "), NOT_ANSWERED]);
    assert_eq!(last_user_line(&asked), "beans?");
    app.finish().await;
}

/// An answer that broke off is made again from its beginning: what is kept are the words of the last try.
#[tokio::test]
async fn words_of_a_try_that_broke_off_are_not_kept_twice() {
    let app = TestApp::start().await;
    app.model().answer_with(COUNT);
    app.model().mishap(1, Mishap::Breaks);
    app.model().mishap(1, Mishap::Stalls);
    app.receive(private(42, 1, "count")).await;
    app.as_time_passes(app.model().wait_for(2)).await;
    a_while().await;
    app.handle_as_time_passes(private(42, 2, "/stop").command()).await;
    assert_eq!(sent_in_any_order(&app), [STOPPED, &format!("{HALF}\n\n(Stopped here.)")]);
    assert_eq!(text_of(&app.history(CHAT).await[1]).trim_end(), HALF);
    app.finish().await;
}

#[tokio::test]
async fn thoughts_of_a_try_without_text_are_not_kept() {
    let app = TestApp::start().await;
    app.model().think("Hm.");
    app.model().answer_with("");
    app.receive(private(42, 1, "count")).await;
    app.model().wait_for(1).await;
    app.model().answer_with(COUNT);
    app.model().mishap(1, Mishap::Stalls);
    app.as_time_passes(app.model().wait_for(2)).await;
    a_while().await;
    app.handle_as_time_passes(private(42, 2, "/stop").command()).await;
    let parts = &app.history(CHAT).await[1]["parts"];
    assert_eq!((&parts[0]["text"], &parts[1]["type"]), (&json!("Hm."), &json!("text")), "{parts}");
    app.finish().await;
}

#[tokio::test]
async fn a_stop_without_a_run_says_so_and_one_that_comes_again_stops_nothing_more() {
    let mut app = TestApp::start().await;
    app.receive(private(42, 1, "/stop").command()).await;
    app.ada_says(2, "one").await;
    app.handle(private(42, 3, "/stop@annals_test_bot").command()).await;
    assert_eq!(app.sent_texts(), [NOTHING_RUNS, "You said: one", NOTHING_RUNS]);
    assert_eq!(app.open_history().head(&CHAT.parse().unwrap()).await.unwrap().stopped_to, None);

    app.hold(private(42, 4, "two")).await;
    let stop = private(42, 5, "/stop").command();
    app.handle(&stop).await;
    app.receive(private(42, 6, "three")).await;
    app.model().wait_for(3).await;
    app.receive(&stop).await;
    a_while().await;
    assert_eq!(app.model().running(), 1, "the later message is not being answered");
    app.restart().await;
    app.model().resume();
    app.handle(&stop).await;
    assert_eq!(app.sent_texts()[3..], [STOPPED, "You said: three"]);
    assert_answered_once(&app.records(CHAT).await);
    app.finish().await;
}

/// The caller that waits for the answer is told that there is none.
#[tokio::test]
async fn over_http_the_waiting_asker_and_the_stop_are_answered() {
    let app = TestApp::builder().model().start().await;
    app.model().hang();
    let asked = json!({"userId": "ada", "text": "Write a novel", "messageId": "1", "ts": 1_000});
    let stop = json!({"userId": "ada", "text": "/stop", "messageId": "2", "ts": 2_000});
    let stopping = async {
        app.model().wait_for(1).await;
        app.post("/v1/chats/c1/messages?wait=20", APP_KEY, &stop).await
    };
    let (answer, stopped) = tokio::join!(Box::pin(app.ask("c1", APP_KEY, &asked)), Box::pin(stopping));
    assert_eq!((answer.reply_text(), stopped.reply_text()), (NOT_ANSWERED.to_owned(), STOPPED.to_owned()));
    app.model().resume();
    app.finish().await;
}

/// Between two tries of a turn nothing runs, but something waits.
#[tokio::test]
async fn a_turn_between_two_attempts_is_stopped_too() {
    let app = TestApp::start().await;
    app.model().fail(100, 500);
    app.receive(private(42, 1, "one")).await;
    app.as_time_passes(app.model().wait_for(3)).await;
    app.handle_as_time_passes(private(42, 2, "/stop").command()).await;
    assert_eq!(app.sent_texts(), [STOPPED]);
    assert_eq!(app.lines(CHAT).await[1], format!("1/reply assistant: {NOT_ANSWERED}"));
    app.finish().await;
}

/// The chat would fail its turn for ever.
#[tokio::test]
async fn a_stop_of_a_continued_reply_whose_message_has_left_the_table_ends_its_turn() {
    let world = World::hosted(&[]).await;
    let asked = world.hear(0, "count", true).await;
    world.run(&asked).await;
    let reply = world.records().await.into_iter().find(|record| record.key.is_reply()).unwrap().key;
    let stopped = world.hear(60, "later", false).await;
    let turn = json!({"covers": [asked], "sent": 0, "resumes": {"reply": reply, "shown": 0}}).to_string();
    let values = [(":turn", AttributeValue::S(turn)), (":to", AttributeValue::S(stopped.to_string()))];
    let chat = world.chat.to_string();
    change_item(&world.stores, (&chat, "!head"), "SET turn = :turn, stoppedTo = :to", &values).await;
    for record in world.records().await.into_iter().filter(|record| record.key.base() == asked) {
        world.expire(&record).await;
    }
    world.run(&stopped).await;
    let head = world.head().await;
    assert_eq!((head.turn, head.stopped_to, world.model().count()), (None, None, 1));
}

/// A run that has said half of its answer.
async fn counting(world: &World, faults: Faults) -> (JoinHandle<Result<(), TurnError>>, SortKey) {
    world.model().answer_with(COUNT);
    world.model().mishap(1, Mishap::Stalls);
    let asked = world.hear(0, "count", true).await;
    let run = world.start(world.agent_with(faults), &asked);
    world.model().wait_for(1).await;
    a_while().await;
    (run, asked)
}

/// The words are in the memory of the run alone. Its process dies after the command, before any of its requests.
#[tokio::test]
async fn a_stopped_run_that_dies_loses_its_words_and_nothing_else() {
    let (mut number, mut kept) = (1, 0);
    let world = World::hosted(&[]).await;
    let faults = Faults::default();
    let (run, _) = counting(&world, faults.clone()).await;
    let before = faults.requests();
    run.abort();
    loop {
        let world = World::hosted(&[]).await;
        let (run, asked) = counting(&world, Faults::new(Plan::Before(before + number))).await;
        assert_eq!(world.stop(1).await.as_deref(), Some(STOPPED));
        // The turn that the command queues runs elsewhere.
        let other = world.start_run(&asked).await.unwrap();
        assert!(matches!(other, Err(TurnError::Busy { .. })), "{other:?}");
        if number == 1 {
            run.abort();
        } else {
            world.advance(LOOK_AGAIN.as_secs());
        }
        wait_until("the run has ended", async || run.is_finished()).await;
        let ended = run.await;
        let (what, is_whole) = (format!("dead before {number}: {ended:?}"), matches!(ended, Ok(Ok(()))));
        // The queue delivers the turn again. A run that lived has released its chat itself.
        if !is_whole {
            world.advance(LEASE.as_secs() + 1);
        }
        world.run(&asked).await;
        let records = world.records().await;
        assert_answered_once(&records);
        let is_reply = |record: &&Record| record.covers().contains(&asked);
        let replies: Vec<&Record> = records.iter().filter(is_reply).collect();
        assert!(replies.len() == 1 && replies[0].message.metadata.is_stopped(), "{what}");
        let text = replies[0].message.plain_text();
        assert!(text.trim_end() == HALF || text == NOT_ANSWERED, "{what}: {text}");
        let head = world.head().await;
        assert_eq!((head.turn, head.stopped_to, world.model().count()), (None, None, 1), "{what}");
        kept += usize::from(text != NOT_ANSWERED);
        if is_whole {
            assert_eq!(text.trim_end(), HALF, "{what}");
            break;
        }
        number += 1;
    }
    assert!(number > 5 && kept > 1, "{number} requests, {kept} times kept");
}

/// A deployed function does not hear of it, and looks.
#[tokio::test]
async fn a_run_of_another_process_ends_within_two_seconds() {
    let world = World::hosted(&[]).await;
    world.model().hang();
    let asked = world.hear(0, "Write a novel", true).await;
    let (history, requests) = world.counted();
    let run = world.start(world.agent_of(&history), &asked);
    world.model().wait_for(1).await;
    requests.take();
    world.advance(LOOK_AGAIN.as_secs() - 1);
    a_while().await;
    assert_eq!(requests.take(), 0, "the run looked for a stop too early");
    world.advance(1);
    wait_until("the run looks for a stop", async || requests.requests() == 1).await;
    assert_eq!(world.stop(1).await.as_deref(), Some(STOPPED));
    a_while().await;
    assert_eq!((run.is_finished(), requests.requests()), (false, 1));
    world.advance(LOOK_AGAIN.as_secs());
    world.ended(run).await.unwrap();
    assert_eq!(listed(&world.records().await)[1].1, NOT_ANSWERED);
    assert_eq!(world.head().await.stopped_to, None);
    assert_eq!(world.model().count(), 1);
}

/// The reply of a run that has committed may be stored already, or in these moments.
#[tokio::test]
async fn a_reply_that_is_stored_stays_and_is_sent_no_further() {
    for is_stored in [true, false] {
        let world = World::hosted(&[]).await;
        let (one, agent) = (world.hear(0, "one", true).await, world.agent());
        world.run(&one).await;
        let two = world.hear(1, "two", true).await;
        let lease = world.claim().await;
        let turn = OpenTurn::new(vec![two.clone()]);
        world.history.commit(&lease, &turn).await.unwrap();
        let late = reply(std::slice::from_ref(&two), 2, "the answer");
        if is_stored {
            world.history.append_reply(&world.chat, late.clone()).await.unwrap();
        }
        assert_eq!(world.stop(2).await.as_deref(), Some(STOPPED));
        let noted = world.history.commit(&lease, &turn).await;
        assert!(matches!(noted, Err(HistoryError::LeaseLost)), "a stopped run noted a piece: {noted:?}");
        world.advance(STOPPED_RUN_ENDS_WITHIN.as_secs() + 1);
        world.start(agent, &two).await.unwrap().unwrap();
        // Late, it finds the record that is there.
        world.history.append_reply(&world.chat, late).await.unwrap();
        let records = world.records().await;
        assert_answered_once(&records);
        let text = if is_stored { "the answer" } else { NOT_ANSWERED };
        assert_eq!(listed(&records)[3], ("2/reply".into(), text.into()));
        let head = world.head().await;
        assert_eq!((head.turn, head.stopped_to), (None, None));
    }
}

/// A reply that waits for Telegram's rate limit is not sent any more either.
#[tokio::test]
async fn a_delivery_is_stopped() {
    let app = TestApp::builder().telegram().model().refusals_are_fine().start().await;
    app.telegram_api().rate_limit(1, 7.0);
    app.receive(private(42, 1, "one")).await;
    wait_until("the delivery is throttled", async || !app.telegram_api().statuses("sendMessage").is_empty())
        .await;
    app.handle(private(42, 2, "/stop").command()).await;
    app.clock().advance(Duration::from_mins(1));
    a_while().await;
    assert_eq!(app.sent_texts(), [STOPPED]);
    let history = app.history(CHAT).await;
    assert_eq!(text_of(&history[1]), "You said: one", "the stored reply has changed");
    let reason = "stopped by /stop while it was being sent";
    assert_eq!(history[1]["metadata"]["deliveryFailure"]["reason"], reason);
    app.finish().await;
}

/// Cut off anywhere, and whatever goes on first: the platform's repeat of the command, or the queue's of the turn.
#[tokio::test]
async fn a_stop_that_is_cut_off_anywhere_is_carried_out_once() {
    for repeats_first in [true, false] {
        let requests = at_each_request(&[Plan::Before, Plan::Lost], async |faults, what| {
            let world = World::hosted(&[]).await;
            let one = world.hear(0, "one", true).await;
            world.model().hang();
            let run = world.start_run(&one);
            world.model().wait_for(1).await;
            // Told or not.
            drop(world.try_stop(1, &world.history_with(faults.clone())).await);
            let two = Draft { asks: true, ..world.in_time(2, "two") };
            let two = world.history.append(&two).await.unwrap().base;
            if repeats_first {
                let told = world.stop(1).await;
                assert!(told.is_none() || told.as_deref() == Some(STOPPED), "{what}: {told:?}");
                world.advance(LOOK_AGAIN.as_secs());
                let is_covered =
                    async || world.records().await.iter().any(|record| record.covers().contains(&one));
                wait_until("it is stopped", is_covered).await;
            }
            world.model().resume();
            let ended = world.ended(run).await;
            let is_over = matches!(ended, Ok(()) | Err(TurnError::History(HistoryError::LeaseLost)));
            assert!(is_over, "{what}: {ended:?}");
            world.advance(STOPPED_RUN_ENDS_WITHIN.as_secs() + 1);
            world.run(&one).await;
            drop(world.stop(1).await);
            world.advance(STOPPED_RUN_ENDS_WITHIN.as_secs() + 1);
            // What the stop itself has queued.
            world.run(&two).await;
            let records = world.records().await;
            assert_answered_once(&records);
            let told = records.iter().filter(|record| record.message_id.as_str() == "2/notice");
            assert_eq!(told.count(), 1, "{what}: {:?}", listed(&records));
            let covering = records.iter().find(|record| record.covers().contains(&one)).unwrap();
            if repeats_first {
                assert_eq!(covering.message.plain_text(), NOT_ANSWERED, "{what}");
            }
            let last = records.last().unwrap();
            assert_eq!((last.covers(), last.kind()), (&[two][..], Kind::Normal), "{what}");
            let head = world.head().await;
            assert_eq!((head.turn, head.stopped_to), (None, None), "{what}");
        });
        assert!(requests.await > 5);
    }
}

/// `/new` does not wait for a run either, and its first message does not lose its turn.
#[tokio::test]
async fn new_and_stop_do_not_wait_for_a_run() {
    let app = TestApp::start().await;
    app.model().hang_answers();
    app.receive(private(42, 1, "Write a novel")).await;
    app.model().wait_for(1).await;
    app.receive(private(42, 2, "/new").command()).await;
    app.receive(private(42, 3, "/help").command()).await;
    app.receive(private(42, 4, "/stop").command()).await;
    let said = app.sent_texts();
    assert_eq!([&said[0], &said[2]], ["New conversation. What is on your mind?", STOPPED]);
    assert_eq!(said.len(), 3);
    app.idle().await;
    app.model().resume();
    app.handle(private(42, 5, "And now?")).await;
    assert_eq!(app.context_lines(CHAT).await, ["5 user: And now?", "5/reply assistant: You said: And now?"]);
    assert_answered_once(&app.records(CHAT).await);
    app.finish().await;
}

/// A `/compact` is a turn, and can be stopped as one.
#[tokio::test]
async fn a_compaction_is_stopped() {
    let world = World::hosted(&[("KEEP_RECENT", "2")]).await;
    for minute in 0..6 {
        world.hear(minute, &format!("message {minute}: {}", "lorem ipsum ".repeat(20)), false).await;
    }
    let command = world.hear_compact(7).await;
    world.model().hang_notes();
    let run = world.start_run(&command);
    world.model().wait_for_notes(1).await;
    assert_eq!(world.stop(8).await.as_deref(), Some(STOPPED));
    world.clock.advance(Duration::from_secs(2));
    world.ended(run).await.unwrap();
    let records = world.records().await;
    let covering: Vec<&Record> = records.iter().filter(|record| record.covers().contains(&command)).collect();
    assert_eq!(covering.len(), 1);
    assert_eq!(covering[0].message.plain_text(), NOT_ANSWERED);
    assert_eq!(world.summaries().await, []);
    world.model().resume();
}

/// The texts that were sent, sorted: the run that is stopped is woken before the person is told.
fn sent_in_any_order(app: &TestApp) -> Vec<String> {
    let mut texts = app.sent_texts();
    texts.sort();
    texts
}

fn listed(records: &[Record]) -> Vec<(String, String)> {
    records.iter().map(|record| (record.message_id.to_string(), record.message.plain_text())).collect()
}

impl World {
    /// A message of Ada so many seconds after the start, while the clock stands still: a run looks only when a test wants it.
    fn in_time(&self, seconds: i64, text: &str) -> Draft {
        let id = u64::try_from(seconds).unwrap() + 1;
        Draft { chat_id: "42".into(), ..self.message(id, seconds * 1000, text) }
    }

    /// Receives `/stop`; returns the confirmation, unless it was sent before.
    async fn stop(&self, seconds: i64) -> Option<String> {
        Box::pin(self.try_stop(seconds, &self.history)).await.unwrap()
    }

    async fn try_stop(&self, seconds: i64, history: &History) -> Result<Option<String>, IngressError> {
        let ingress = self.ingress_of(history);
        let draft = self.in_time(seconds, "/stop");
        let confirmation = ingress.command(&Command::Stop, &draft).await?.confirmation;
        let Some(confirmation) = confirmation else { return Ok(None) };
        let text = confirmation.text.clone();
        ingress.confirmed(&draft, confirmation).await?;
        Ok(Some(text))
    }
}
