//! Every path under a network that fails, delays, throttles, cuts, loses answers and repeats, by seed. Afterwards a reader that
//! shares no code with the program checks table and bucket.
//!
//! `FAULT_SEED=7 cargo test --test end_to_end under_faults` runs one seed.

mod stage;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use annals_agent::TurnError;
use annals_core::record::Channel;
use annals_test_support::audit::{Stored, Told};
use annals_test_support::fault_proxy::{Dice, Fault};
use annals_test_support::lark_api::Sent;
use futures::future::{BoxFuture, join, join_all};
use reqwest::Method;
use serde_json::{Value, json};

use self::stage::Stage;
use crate::app::{APP_KEY, NOW, OPS_KEY, TestApp, passing, text_of, wait_until};
use crate::chat::ROOM;
use crate::discord::{CHANNEL, GUILD, ask, snowflake};
use crate::faults::{Faults, Plan};
use crate::lark::{P2P, text};
use crate::updates::{START, private};
use crate::world::{A_LIFE, World};

const SEEDS: [u64; 4] = [1, 2, 3, 4];
/// Time that passes at each poll while people talk.
const STEP: Duration = Duration::from_millis(300);
const HOUR: Duration = Duration::from_hours(1);
const CONVERSATION: &str = "http:chat:app:c1";
/// Number of messages that are imported.
const OLD: i64 = 20;

/// Seconds between the start and now.
fn seconds(app: &TestApp) -> i64 {
    app.clock().now().as_millis() / 1000 - START
}

fn say(chat: &str, n: i64) -> String {
    format!(
        "{chat} says {n}, and tells a story of some length, with tea in it, so that a small window is soon full"
    )
}

/// Lets each chat say messages `from` to `to`. Returns the id and the text of each reply that was streamed.
async fn talk(stage: &Stage, from: i64, to: i64) -> Vec<(String, String)> {
    let app = &stage.app;
    let base = seconds(app);
    let telegram = |chat: i64| -> BoxFuture<'_, ()> {
        Box::pin(async move {
            for n in from..to {
                stage.telegram(private(chat, n, &say(&format!("tg{chat}"), n)).at(base + n)).await;
            }
        })
    };
    let lark: BoxFuture<'_, ()> = Box::pin(async {
        for n in from..to {
            let event = text(&format!("om_{n}"), P2P, &say("lark", n), base - (NOW - START) + n);
            stage.post(Channel::Lark, &event).await;
        }
    });
    let discord: BoxFuture<'_, ()> = Box::pin(async {
        for n in from..to {
            stage.discord(&ask(&say("discord", n), n)).await;
        }
    });
    let http: BoxFuture<'_, ()> = Box::pin(async {
        for n in from..to {
            let long = if n == 3 { "long ".repeat(80_000) } else { String::new() };
            let body = json!({"userId": "ada", "messageId": format!("m{n}"), "text": say("http", n) + &long});
            stage.call(APP_KEY, Method::POST, "/v1/chats/c1/messages", &body).await;
        }
    });
    let web = Box::pin(async {
        let mut told = Vec::new();
        for n in from..to {
            told.push(stage.chat(&format!("w{n}"), &say("web", n)).await);
        }
        told
    });
    app.model().answer_tools(&[("chat_history_search", json!({"query": "story"}))]);
    for n in from..to {
        app.model().answer_tools(&[("shop_lookup", json!({"order": format!("A{n}")}))]);
    }
    let all = join_all([telegram(42), telegram(43), telegram(44), lark, discord, http]);
    let (_, told) = stage.passing(join(all, web)).await;
    stage.idle().await;
    told
}

/// Checks that the shop got no call twice and no request that it refuses. Returns the orders of these calls.
fn orders(stage: &Stage, tool: &str) -> BTreeSet<String> {
    assert_eq!(stage.shop.refusals(), [""; 0], "{:?}", stage.dice);
    let mut orders = BTreeSet::new();
    for (name, input) in stage.shop.carried_out() {
        let order = input["order"].as_str().unwrap().to_owned();
        assert!(name != tool || orders.insert(order), "{tool} {input} came twice: {:?}", stage.dice);
    }
    orders
}

/// Rows of the embedded engine's table.
fn rows(data: &Path) -> Vec<String> {
    let database = rusqlite::Connection::open(data.join("dynamodb.db")).unwrap();
    let mut query = database.prepare("SELECT item_json FROM annals").unwrap();
    query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// Returns what the reader finds when no run and no visit of the compactor is at work: the same twice in a row, without a lease.
pub(crate) async fn settled_findings(data: &Path, told: &[Told]) -> Vec<String> {
    let last = RefCell::new(None);
    wait_until("no run and no visit is at work", async || {
        let found = findings(data, told);
        let is_leased = found.iter().any(|line| line.ends_with(": its head has leaseUntil"));
        let before = last.replace(Some(found));
        !is_leased && before == *last.borrow()
    })
    .await;
    last.take().unwrap()
}

/// Returns what the reader finds in a data directory.
pub(crate) fn findings(data: &Path, told: &[Told]) -> Vec<String> {
    let mut found = Stored::new(&rows(data), &data.join("s3/annals")).findings(told);
    let queue = rusqlite::Connection::open(data.join("queue.db")).unwrap();
    let queued: i64 = queue.query_row("SELECT COUNT(*) FROM turns", [], |row| row.get(0)).unwrap();
    if queued > 0 {
        found.push(format!("{queued} turns are queued"));
    }
    found
}

async fn run(seed: u64) {
    let stage = Stage::start(seed, "1500").await;
    let (app, dice) = (&stage.app, &stage.dice);
    let began = seconds(app);
    let (mut streamed, ()) = join(Box::pin(talk(&stage, 1, 7)), Box::pin(stage.import())).await;
    // An edit, a new session, a schedule.
    let base = seconds(app);
    let edit = private(42, 6, &say("tg42", 6)).at(began + 6).edited(base + 1, "tg42 has edited this");
    let at = app.clock().now().plus(2 * HOUR).rfc3339();
    let schedule = json!({"id": "tea", "text": "Tea is ready", "at": at});
    stage
        .passing(async {
            stage.telegram(edit).await;
            stage.telegram(private(43, 7, "/new").at(base + 2).command()).await;
            let path = "/v1/chats/telegram%3Achat%3A42/schedules";
            stage.call(OPS_KEY, Method::POST, path, &schedule).await;
        })
        .await;
    stage.idle().await;
    stage.hours_pass(60).await;
    streamed.extend(Box::pin(talk(&stage, 8, 12)).await);
    let path = "/v1/chats/telegram%3Achat%3A44";
    stage.passing(stage.call(OPS_KEY, Method::DELETE, path, &Value::Null)).await;
    stage.hours_pass(u32::try_from(A_LIFE.as_secs() / 3600).unwrap()).await;
    dice.set_percent(0);
    stage.idle().await;
    stage.hours_pass(96).await;
    stage.idle().await;

    let said = |name: &str, id: fn(i64) -> String| {
        (1..7).chain(8..12).map(|n| (id(n), say(name, n))).collect::<Vec<_>>()
    };
    let number: fn(i64) -> String = |n| n.to_string();
    let all = |chat: &str, said| Told { chat: chat.into(), said, forgotten: Vec::new() };
    let forgotten = said("tg44", number).into_iter().map(|(_, text)| text).collect();
    let of_http = said("http", |n| format!("m{n}"));
    let of_http = of_http.into_iter().chain((1..=OLD).map(|n| (format!("old{n}"), say("old", n)))).collect();
    let told = [
        all("telegram:chat:42", said("tg42", number)),
        all("telegram:chat:43", said("tg43", number)),
        Told { forgotten, ..all("telegram:chat:44", Vec::new()) },
        all("lark:chat:oc_ada", said("lark", |n| format!("om_{n}"))),
        all(&format!("agent:annals:channel:{GUILD}:{CHANNEL}"), said("discord", snowflake)),
        all(CONVERSATION, of_http),
        all(ROOM, said("web", |n| format!("w{n}"))),
    ];
    assert_eq!(settled_findings(app.data_dir(), &told).await, [""; 0], "{dice:?}");
    // What was answered has arrived.
    let sent = app.sent_texts().concat();
    let sent = sent + &stage.lark.sent().iter().map(Sent::text).collect::<String>();
    let sent = sent + &stage.discord.texts().concat();
    for name in ["tg42", "tg43", "lark", "discord"] {
        for n in (1..7).chain(8..12) {
            assert!(sent.contains(&format!("{name} says {n},")), "{name} {n} has no answer: {dice:?}");
        }
    }
    assert!(sent.contains("Tea is ready"), "{dice:?}");
    // What was streamed is what is stored.
    let history = app.history(ROOM).await;
    for (id, text) in streamed {
        let reply = history.iter().find(|message| message["id"] == *id);
        assert_eq!(reply.map(text_of), Some(text), "{id}: {dice:?}");
    }
    // On a slow machine, every call so far may have failed.
    app.model().answer_tools(&[("shop_lookup", json!({"order": "A12"}))]);
    stage.passing(stage.telegram(private(42, 12, "Where is it?").at(seconds(app)))).await;
    stage.idle().await;
    assert!(!orders(&stage, "lookup").is_empty(), "no call was made: {dice:?}");
    let (requests, faults) = dice.counts();
    println!("seed {seed}: {faults} faults in {requests} requests");
    stage.app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_path_keeps_its_promises_on_a_network_that_fails() {
    #[allow(clippy::disallowed_methods, reason = "a setting of the test, not of the program")]
    let one = std::env::var("FAULT_SEED").ok().map(|seed| seed.parse().unwrap());
    for seed in one.map_or_else(|| SEEDS.to_vec(), |seed| vec![seed]) {
        Box::pin(run(seed)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approved_call_is_made_at_most_once_on_a_network_that_fails() {
    let stage = Stage::start(5, "16000").await;
    let app = &stage.app;
    for n in 0..10 {
        app.model().answer_tools(&[("shop_refund", json!({"order": format!("A{n}")}))]);
        for (id, text) in [(2 * n + 1, "Pay it back."), (2 * n + 2, "/approve")] {
            let said = private(42, id, text).at(seconds(app));
            let said = if text.starts_with('/') { said.command() } else { said };
            stage.passing(stage.telegram(said)).await;
            stage.idle().await;
        }
    }
    stage.dice.set_percent(0);
    stage.idle().await;
    let paid = orders(&stage, "refund").len();
    println!("{paid} of 10 refunds were made");
    assert!(paid > 2, "{paid} refunds: {:?} {:?}", app.sent_texts(), stage.dice);
    assert_eq!(settled_findings(app.data_dir(), &[]).await, [""; 0], "{:?}", stage.dice);
    stage.app.finish().await;
}

/// The queue of the local program frees a chat after an error of the store alone. Otherwise the chat would wait for an hour.
#[tokio::test]
async fn a_failed_run_that_cannot_release_its_chat_ends_with_an_error_of_the_store() {
    // From that request on, all fail. The last is the release; how many there are depends on the time that the run takes.
    for from in 1.. {
        let world = World::hosted(&[]).await;
        world.model().fail(3, 500);
        let asked = world.hear(0, "hello", true).await;
        let faults = Faults::new(Plan::Before(from));
        let run = world.start(world.agent_with(faults.clone()), &asked);
        let ended = passing(&world.clock, STEP, Box::pin(world.ended(run))).await;
        let error = ended.unwrap_err();
        if faults.requests() < from {
            assert!(error.counts() && from > 2, "{from}: {error}");
            break;
        }
        assert!(matches!(error, TurnError::History(_)) && !error.continues_elsewhere(), "{from}: {error}");
    }
}

/// A run that fails together with the stores cannot release its chat. The local program has its next run at once, and not after
/// the lease of an hour.
#[tokio::test]
async fn a_chat_goes_on_after_an_outage_of_the_stores_in_the_middle_of_a_run() {
    let dice = Dice::new(1, 0);
    let app = TestApp::builder().telegram().model().faulty(&dice).start().await;
    app.hold(private(42, 1, "hello")).await;
    let began = app.clock().now();
    dice.cut(true);
    app.model().resume();
    passing(app.clock(), STEP, wait_until("the run has failed", async || dice.count(Fault::Reset) > 12))
        .await;
    dice.cut(false);
    passing(app.clock(), STEP, Box::pin(app.idle())).await;
    assert_eq!(app.sent_texts(), ["You said: hello"]);
    assert!(app.clock().now().since(began) < HOUR);
    app.finish().await;
}
