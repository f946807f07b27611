//! `LIMITS`: replies are counted once, people are told before a limit and at it, and the next day is free again.

use std::time::Duration;

use annals_agent::Agent;
use annals_core::chat_key::ChatKey;
use annals_core::limits::Used;
use annals_core::record::Kind;
use annals_engine::usage::{day_of, start_of_day};
use annals_store::history::History;
use annals_store::history::counters::{Counter, CounterOf};
use serde_json::{Value, json};

use crate::app::{APP_KEY, Answer, OPS_KEY, TestApp};
use crate::faults::Plan;
use crate::meter::Consumed;
use crate::outside_tools::shop_with;
use crate::people::http;
use crate::turns::assert_answered_once;
use crate::updates::{Update, group, private};
use crate::world::{World, at_each_request};

/// Some hours into the day after the emulators' start, so that no day ends while a test runs.
const MORNING: i64 = 6 * 3600;
const DAY: i64 = 24 * 3600;

async fn limited(limits: &str, more: &[(&str, &str)]) -> TestApp {
    let builder = TestApp::builder().set("GROUP_ACTIVATION", "always").set("LIMITS", limits).set_all(more);
    let app = builder.telegram().model().start().await;
    app.clock().advance(Duration::from_secs(MORNING.unsigned_abs()));
    app
}

/// Lets a message come at its time, `at` seconds after the morning.
async fn say(app: &TestApp, message: Update, at: i64) {
    app.handle_as_time_passes(message.at(MORNING + at)).await;
}

async fn tokens(app: &TestApp, chat: &str) -> u64 {
    app.history(chat).await.iter().map(tokens_of).sum()
}

fn tokens_of(message: &Value) -> u64 {
    let used = &message["metadata"]["usage"];
    let of = |name: &str| used[name].as_u64().unwrap_or_default();
    of("inputTokens") + of("outputTokens")
}

async fn counted(history: &History, of: CounterOf) -> (Used, bool) {
    let day = day_of(history.clock().now());
    history.used(&Counter { of, day }).await.unwrap()
}

async fn counted_by(app: &TestApp, of: CounterOf) -> (u64, bool) {
    let (used, is_told) = counted(&app.open_history(), of).await;
    (used.tokens, is_told)
}

fn person(name: &str) -> CounterOf {
    CounterOf::Person(name.into())
}

#[tokio::test]
async fn a_person_has_one_limit_in_all_chats_until_the_next_day() {
    let app = limited("person=1 tokens/day", &[]).await;
    say(&app, private(42, 1, "hello"), 1).await;
    let first = app.last_sent().text;
    let used = tokens(&app, "telegram:chat:42").await;
    assert!(used > 1 && first.starts_with("You said: hello\n"), "{first}");
    assert!(first.ends_with(&format!("You have used {used} of today's limit of 1 tokens.")), "{first}");

    // In the group, another person still is answered.
    say(&app, group(-7, 2, "and here?").by(42), 2).await;
    let until = app.clock().now().plus(Duration::from_hours(24));
    let until = start_of_day(until).rfc3339()[..10].to_owned();
    let notice =
        format!("You have used up today's limit of 1 tokens. I answer again from {until} 00:00 UTC.");
    assert_eq!(app.last_sent().text, notice);
    let stored = app.history("telegram:chat:-7").await;
    let metadata = &stored.last().unwrap()["metadata"];
    assert_eq!((&metadata["kind"], &metadata["notice"]), (&json!("notice"), &json!("limitReached")));
    assert_eq!(app.model().count(), 1, "no model is asked");
    say(&app, group(-7, 3, "me?").by(43), 3).await;
    assert!(app.last_sent().text.starts_with("You said: "), "{:?}", app.last_sent());
    assert_eq!(app.model().count(), 2);
    // What was refused is in the context, and answered.
    assert!(app.last_request().to_string().contains("and here?"));
    assert_eq!(app.context_lines("telegram:chat:-7").await.len(), 3);
    assert_eq!(counted_by(&app, person("telegram-42")).await, (used, true));

    // A redelivery is a duplicate, and counts nothing.
    app.handle(private(42, 1, "hello").at(MORNING + 1)).await;
    assert_eq!((counted_by(&app, person("telegram-42")).await.0, app.model().count()), (used, 2));

    app.clock().advance(Duration::from_hours(24));
    say(&app, private(42, 4, "and today?"), DAY + 4).await;
    assert!(app.last_sent().text.starts_with("You said: and today?"), "{:?}", app.last_sent());
    app.finish().await;
}

/// Of the messages that one turn would answer, a person's limit refuses that person's alone.
#[tokio::test]
async fn a_person_at_the_limit_keeps_nobody_else_from_an_answer() {
    let app = limited("person:telegram-42=1 tokens/day", &[]).await;
    say(&app, private(42, 1, "hello"), 1).await;
    app.hold(group(-7, 2, "wait").by(44).at(MORNING + 2)).await;
    app.receive(group(-7, 3, "and here?").by(43).at(MORNING + 3)).await;
    app.receive(group(-7, 4, "me?").by(42).at(MORNING + 4)).await;
    app.model().resume();
    app.idle_as_time_passes().await;
    assert_eq!(app.model().count(), 3);
    assert_answered_once(&app.records("telegram:chat:-7").await);
    let lines = app.lines("telegram:chat:-7").await;
    for start in ["3/reply assistant: You said: ", "4/notice assistant notice: You have used up"] {
        assert!(lines.iter().any(|line| line.starts_with(start)), "{start}: {lines:#?}");
    }
    app.finish().await;
}

#[tokio::test]
async fn a_chat_has_a_limit_for_all_of_its_people_and_a_key_over_its_conversations() {
    let app = limited("chat:telegram:chat:-7=1 tokens/day,key:app=1 tokens/day", &[]).await;
    say(&app, group(-7, 1, "hello").by(42), 1).await;
    say(&app, group(-7, 2, "hello").by(43), 2).await;
    assert!(app.last_sent().text.starts_with("This conversation has used up"), "{:?}", app.last_sent());
    say(&app, group(-8, 3, "hello").by(43), 3).await;
    assert!(app.last_sent().text.starts_with("You said: "), "{:?}", app.last_sent());
    assert!(!app.last_sent().text.contains("limit"), "{:?}", app.last_sent());
    let chat = || CounterOf::Chat(ChatKey::telegram(-7, None));
    assert_eq!(counted_by(&app, chat()).await, (tokens(&app, "telegram:chat:-7").await, true));
    assert_eq!(app.forget("telegram:chat:-7", OPS_KEY).await.status, 200);
    assert_eq!(counted_by(&app, chat()).await, (0, false), "its counter goes with it");

    // Callers of the API get the notice.
    let ask = async |chat: &str, key: &str, user: &str| -> Answer {
        app.ask(chat, key, &json!({"userId": user, "text": "hello"})).await
    };
    let first = ask("c1", APP_KEY, "ada").await;
    assert!(first.status == 200 && first.reply_text().starts_with("You said: hello"), "{first:?}");
    let refused = ask("c2", APP_KEY, "bo").await;
    assert_eq!(refused.status, 200, "{refused:?}");
    assert!(refused.reply_text().starts_with("This application has used up today's limit of 1 tokens."));
    let other = ask("c1", "other-secret", "cy").await;
    assert!(other.reply_text().starts_with("You said: hello"), "{other:?}");
    let used = tokens(&app, "http:chat:app:c1").await;
    assert_eq!(counted_by(&app, CounterOf::Key("app".into())).await, (used, true));
    app.finish().await;
}

#[tokio::test]
async fn people_are_told_once_before_the_limit_and_by_usage_what_is_left() {
    let mut app = limited("person=1000000 tokens/day", &[]).await;
    say(&app, private(42, 1, "hello"), 1).await;
    assert_eq!(app.last_sent().text, "You said: hello");
    let used = tokens(&app, "telegram:chat:42").await;
    say(&app, private(42, 2, "/usage").command(), 2).await;
    let left = annals_core::texts::thousands(1_000_000 - used);
    let told = app.last_sent().text;
    assert!(told.ends_with(&format!("\nToday's limit for you: {left} of 1,000,000 tokens left")), "{told}");

    // The requests of a short conversation differ by little, so the fourth reply reaches four fifths, and the fifth all.
    let limit = used * 5;
    app.set("LIMITS", &format!("person={limit} tokens/day")).await;
    let mut texts = Vec::new();
    for n in 3..7 {
        say(&app, private(42, n, "你好"), n).await;
        texts.push(app.last_sent().text);
    }
    let total = tokens(&app, "telegram:chat:42").await;
    assert!(total >= limit && total < limit * 6 / 5, "{total} {limit}");
    let near: Vec<bool> = texts.iter().map(|text| text.contains("今天的限额")).collect();
    assert_eq!(near, [false, false, true, false], "{texts:?}");
    let shown = annals_core::texts::thousands(limit);
    assert!(texts[2].contains(&format!("\n你今天的限额为 {shown} 个 token，已用 ")), "{texts:?}");
    assert_eq!(counted_by(&app, person("telegram-42")).await, (total, true));
    // The note is for people alone.
    assert!(!app.last_request().to_string().contains("限额"));
    say(&app, private(42, 20, "还有吗？"), 20).await;
    let notice = app.last_sent().text;
    assert!(notice.starts_with(&format!("你今天的限额（{shown} 个 token）已用完。")), "{notice}");
    app.finish().await;
}

#[tokio::test]
async fn a_limit_by_a_linked_identity_holds_for_the_person() {
    let more = [("DM_SCOPE", "user"), ("LINKS", "ada,telegram-42;bo,telegram-43"), ("ADMINS", "telegram-43")];
    let app = limited("person:telegram-42=1 tokens/day,person:telegram-43=1 tokens/day", &more).await;
    say(&app, private(42, 1, "hello"), 1).await;
    let used = counted_by(&app, person("ada")).await.0;
    assert!(used > 1, "{used}");
    say(&app, private(42, 2, "again"), 2).await;
    assert!(app.last_sent().text.starts_with("You have used up today's limit"), "{:?}", app.last_sent());
    // In a group the sender is the identity, and over HTTP the Person.
    say(&app, group(-7, 3, "and here?").by(42), 3).await;
    assert!(app.last_sent().text.starts_with("You have used up today's limit"), "{:?}", app.last_sent());
    assert!(http(&app, "ada", "and here?").await.starts_with("You have used up today's limit"));
    assert_eq!(http(&app, "eve", "hello").await, "You said: hello");
    for id in 4..6 {
        say(&app, private(43, id, "hello"), id).await;
        assert_eq!(app.last_sent().text, "You said: hello", "one of ADMINS by a linked identity");
    }
    app.finish().await;
}

#[tokio::test]
async fn cost_is_limited_by_prices_and_admins_have_no_limit() {
    let more = [("MODEL_PRICES", "openai:test=2/8/0.5"), ("ADMINS", "telegram-43")];
    let app = limited("person=0.001 cost/day", &more).await;
    say(&app, private(42, 1, "hello"), 1).await;
    let first = app.last_sent().text;
    assert!(first.ends_with(" of today's limit of 0.0010 in cost."), "{first}");
    say(&app, private(42, 2, "again"), 2).await;
    assert!(app.last_sent().text.starts_with("You have used up today's limit"), "{:?}", app.last_sent());
    let usage = app.get("/v1/usage?by=person").await;
    let cost = usage["rows"][0]["cost"].as_f64().unwrap();
    let (used, _) = counted(&app.open_history(), person("telegram-42")).await;
    assert!(used.cost > 0.0 && (used.cost - cost).abs() < 1e-9, "{used:?} {cost}");
    for id in 3..5 {
        say(&app, private(43, id, "hello"), id).await;
        assert_eq!(app.last_sent().text, "You said: hello");
    }
    assert_eq!(counted_by(&app, person("telegram-43")).await, (0, false));
    app.finish().await;
}

#[tokio::test]
async fn a_reply_that_was_given_up_after_a_call_costs_what_its_requests_did() {
    let app = limited("person=1.00 cost/day", &[("MODEL_PRICES", "openai:test=2/8/0.5")]).await;
    app.model().answer_tools(&[("memory_search", json!({"query": "beans"}))]);
    app.model().edit(|stored| stored.failing_with_results = Some(401));
    say(&app, private(42, 1, "Which beans?"), 1).await;
    assert_eq!(app.model().count(), 2);
    let (used, _) = counted(&app.open_history(), person("telegram-42")).await;
    assert!(used.tokens > 0 && used.cost > 0.0, "{used:?}");
    app.finish().await;
}

/// A reply that continues after an approval is finished, and counts what each form adds; in the usage it is one reply.
#[tokio::test]
async fn a_continued_reply_counts_once_with_what_it_adds() {
    let fields = json!({"tools": {"refund": {"approval": true}}});
    let (shop, app) = shop_with(&fields, |app| app.set("LIMITS", "person=1 tokens/day")).await;
    app.clock().advance(Duration::from_secs(MORNING.unsigned_abs()));
    app.model().answer_tools(&[("shop_refund", json!({"order": "A1"}))]);
    say(&app, private(42, 1, "Pay A1 back."), 1).await;
    let (asked, is_told) = counted_by(&app, person("telegram-42")).await;
    assert!(asked > 0 && !is_told, "a question for approval is not a place to tell");
    say(&app, private(42, 2, "/approve").command(), 2).await;
    assert_eq!(shop.carried_out().len(), 1);
    let history = app.history("telegram:chat:42").await;
    let last = history.iter().rfind(|message| message["metadata"]["messageId"] == "1/reply").unwrap();
    let (counted, _) = counted_by(&app, person("telegram-42")).await;
    assert!(counted > asked && counted == tokens_of(last), "{counted} {asked} {last}");
    let row = app.get("/v1/usage?by=chat").await["rows"][0].take();
    assert_eq!(
        (&row["replies"], &row["inputTokens"]),
        (&json!(1), &last["metadata"]["usage"]["inputTokens"])
    );
    app.finish().await;
}

/// A turn is cut off at each request to a store, and done by the next run: its reply counts once.
#[tokio::test]
async fn a_reply_counts_once_wherever_its_turn_is_cut_off() {
    const LIMITS: &[(&str, &str)] =
        &[("LIMITS", "person=100000 tokens/day,chat=100000 tokens/day"), ("DM_SCOPE", "chat")];
    let requests = at_each_request(&[Plan::Before, Plan::Lost], async |faults, what| {
        let world = World::hosted(LIMITS).await;
        // The world starts shortly before midnight.
        let from = world.hear(3600, "hello", true).await;
        let run = world.start(world.agent_with(faults.clone()), &from);
        // A program that has died is heard of no more.
        let ended = tokio::time::timeout(Duration::from_secs(5), run).await;
        world.clock.advance(Duration::from_mins(6));
        if !matches!(ended, Ok(Ok(Ok(())))) {
            world.run(&from).await;
        }
        let records = world.records().await;
        let reply = records.iter().find(|record| record.kind() == Kind::Normal && record.key.is_reply());
        let used = tokens_of(&json!(reply.unwrap().listed()));
        let history = world.another_process();
        for of in [person("telegram-42"), CounterOf::Chat(world.chat.clone())] {
            assert_eq!(counted(&history, of.clone()).await.0.tokens, used, "{what}, {of:?}");
        }
    });
    assert!(requests.await >= 7);
}

/// Without `LIMITS`, and for one of `ADMINS`, a turn costs what it did; each limit that holds adds a read and 2 units, and the
/// transaction one unit for the reply.
#[tokio::test]
async fn a_limit_adds_a_read_and_three_write_units() {
    const PERSON: (&str, &str) = ("LIMITS", "person=100000 tokens/day");
    const BOTH: (&str, &str) = ("LIMITS", "person=100000 tokens/day,chat=100000 tokens/day");
    let cost = async |settings: &[(&str, &str)]| -> Consumed {
        let world = World::hosted(settings).await;
        let mut costs = Vec::new();
        for n in 0..2 {
            let from = world.hear(n * 60, "hello", true).await;
            let history = world.another_process();
            let agent: Agent = world.agent_of(&history);
            world.meter.take();
            world.start(agent, &from).await.unwrap().unwrap();
            costs.push(world.meter.take());
        }
        costs.pop().unwrap()
    };
    let free = cost(&[]).await;
    assert_eq!(free, cost(&[PERSON, ("ADMINS", "telegram-42")]).await);
    let (one, two) = (cost(&[PERSON]).await, cost(&[BOTH]).await);
    println!("{free:?} {one:?} {two:?}");
    let adds = |of: Consumed| {
        (of.read_units - free.read_units, of.write_units - free.write_units, of.calls - free.calls)
    };
    assert_eq!((adds(one), adds(two)), ((1.0, 3.0, 1), (2.0, 5.0, 2)));
}
