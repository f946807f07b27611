//! Every path under a network that fails, delays, throttles, cuts, loses answers and repeats, by seed. Afterwards a reader that
//! shares no code with the program checks table and bucket.
//!
//! `FAULT_SEED=7 cargo test --test end_to_end under_faults` runs one seed.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::time::Duration;

use annals_test_support::audit::{Stored, Told};
use annals_test_support::discord_api::{APPLICATION_ID, BOT_TOKEN, DiscordApi, public_key, signed};
use annals_test_support::fault_proxy::{Dice, Fault, FaultProxy, Service};
use annals_test_support::lark_api::{APP_ID, APP_SECRET, LarkApi, Sent};
use futures::future::{BoxFuture, join_all};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::app::{APP_KEY, NOW, OPS_KEY, TELEGRAM_SECRET, TestApp, passing, wait_until};
use crate::discord::{CHANNEL, GUILD, ask, snowflake};
use crate::lark::{P2P, TOKEN, text};
use crate::remembering::notes_of_tea;
use crate::updates::{START, private};
use crate::world::A_LIFE;

/// Share of the requests that meet a fault.
const PERCENT: u8 = 12;
const SEEDS: [u64; 4] = [1, 2, 3, 4];
/// Time that passes at each poll while people talk.
const STEP: Duration = Duration::from_millis(300);
const HOUR: Duration = Duration::from_hours(1);

/// The program between proxies on all sides.
struct Stage {
    app: TestApp,
    lark: LarkApi,
    discord: DiscordApi,
    dice: Dice,
    /// In front of the program itself.
    front: FaultProxy,
    http: reqwest::Client,
    _proxies: [FaultProxy; 2],
}

impl Stage {
    async fn start(seed: u64) -> Self {
        let dice = Dice::new(seed, 0);
        let (lark, discord) = (LarkApi::start().await, DiscordApi::start().await);
        let proxies = [
            FaultProxy::start(Service::Lark, lark.base_url(), &dice).await,
            FaultProxy::start(Service::Discord, &discord.base_url(), &dice).await,
        ];
        let settings = [
            ("LARK_APP_ID", APP_ID),
            ("LARK_APP_SECRET", APP_SECRET),
            ("LARK_VERIFICATION_TOKEN", TOKEN),
            ("LARK_API_BASE", proxies[0].url()),
            ("DISCORD_APPLICATION_ID", APPLICATION_ID),
            ("DISCORD_PUBLIC_KEY", &public_key()),
            ("DISCORD_BOT_TOKEN", BOT_TOKEN),
            ("DISCORD_API_BASE", proxies[1].url()),
            ("CONTEXT_WINDOW", "1500"),
            ("KEEP_RECENT", "4"),
        ];
        let builder = TestApp::builder().telegram().model().refusals_are_fine().faulty(&dice);
        let builder = settings.iter().fold(builder, |builder, (name, value)| builder.set(name, value));
        let app = builder.start().await;
        app.model().answer_by(notes_of_tea);
        let front = FaultProxy::start(Service::Model, app.base(), &dice).await;
        dice.set_percent(PERCENT);
        Self { app, lark, discord, dice, front, http: reqwest::Client::new(), _proxies: proxies }
    }

    /// Sends a request until it is accepted, as platforms do.
    async fn send(&self, method: Method, path: &str, headers: &[(&str, String)], body: &Value) {
        for _ in 0..300 {
            let mut request = self.http.request(method.clone(), format!("{}{path}", self.front.url()));
            for (name, value) in headers {
                request = request.header(*name, value);
            }
            let Ok(answer) = request.body(body.to_string()).send().await else { continue };
            let status = answer.status();
            if status.is_success() {
                return;
            }
            let is_fault = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
            assert!(is_fault, "{path}: {status} {:?}", answer.text().await);
            tokio::task::yield_now().await;
        }
        panic!("{path} was not accepted: {:?}", self.dice);
    }

    async fn post(&self, path: &str, headers: &[(&str, String)], body: &Value) {
        let json = ("content-type", "application/json".to_owned());
        self.send(Method::POST, path, &[headers, &[json]].concat(), body).await;
    }

    async fn telegram(&self, update: impl Into<Value>) {
        let secret = ("X-Telegram-Bot-Api-Secret-Token", TELEGRAM_SECRET.to_owned());
        self.post("/telegram", &[secret], &update.into()).await;
    }

    async fn discord(&self, call: &Value) {
        let headers = signed(call.to_string().as_bytes());
        self.post("/discord", &headers, call).await;
        self.discord.responded(call, &json!({"type": 5}));
    }

    async fn call(&self, key: &str, method: Method, path: &str, body: &Value) {
        let headers =
            [("Authorization", format!("Bearer {key}")), ("content-type", "application/json".to_owned())];
        self.send(method, path, &headers, body).await;
    }

    /// Waits for `what` while time passes.
    async fn passing<T>(&self, what: impl Future<Output = T>) -> T {
        passing(self.app.clock(), STEP, Box::pin(what)).await
    }

    async fn idle(&self) {
        self.passing(self.app.idle()).await;
    }

    /// Lets `hours` pass, in steps. In each the compactor works until no request has been made for a while.
    async fn hours_pass(&self, hours: u32) {
        for _ in 0..hours / 6 {
            self.app.clock().advance(6 * HOUR);
            let quiet = Cell::new((0, 0));
            let works = wait_until("the compactor has worked", async || {
                let (requests, polls) = quiet.get();
                let now = self.dice.counts().0;
                quiet.set((now, if now == requests { polls + 1 } else { 0 }));
                quiet.get().1 > 8
            });
            self.passing(works).await;
        }
    }
}

/// Seconds between the start and now.
fn seconds(app: &TestApp) -> i64 {
    app.clock().now().as_millis() / 1000 - START
}

fn say(chat: &str, n: i64) -> String {
    format!(
        "{chat} says {n}, and tells a story of some length, with tea in it, so that a small window is soon full"
    )
}

/// Lets each chat say messages `from` to `to`.
async fn talk(stage: &Stage, from: i64, to: i64) {
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
            stage.post("/lark", &[], &event).await;
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
    app.model().answer_tools(&[("chat_history_search", json!({"query": "story"}))]);
    let all = join_all([telegram(42), telegram(43), telegram(44), lark, discord, http]);
    stage.passing(all).await;
    stage.idle().await;
}

/// Rows of a table of the embedded engine.
fn rows(data: &Path, table: &str) -> Vec<String> {
    let database = rusqlite::Connection::open(data.join("dynamodb.db")).unwrap();
    let mut query = database.prepare(&format!("SELECT item_json FROM \"{table}\"")).unwrap();
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
    let mut found = Stored::new(&rows(data, "annals"), &data.join("s3/annals")).findings(told);
    let queued = rows(data, "annals-queue").len();
    if queued > 0 {
        found.push(format!("{queued} turns are queued"));
    }
    found
}

async fn run(seed: u64) {
    let stage = Stage::start(seed).await;
    let (app, dice) = (&stage.app, &stage.dice);
    let began = seconds(app);
    talk(&stage, 1, 7).await;
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
    talk(&stage, 8, 12).await;
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
    let told = [
        all("telegram:chat:42", said("tg42", number)),
        all("telegram:chat:43", said("tg43", number)),
        Told {
            chat: "telegram:chat:44".into(),
            said: Vec::new(),
            forgotten: said("tg44", number).into_iter().map(|(_, text)| text).collect(),
        },
        all("lark:chat:oc_ada", said("lark", |n| format!("om_{n}"))),
        all(&format!("agent:annals:channel:{GUILD}:{CHANNEL}"), said("discord", snowflake)),
        all("http:chat:app:c1", said("http", |n| format!("m{n}"))),
    ];
    assert_eq!(settled_findings(app.data_dir(), &told).await, [""; 0], "{dice:?}");
    // What was answered has arrived.
    let sent = app.sent_texts().concat();
    let sent = sent + &stage.lark.sent().iter().map(Sent::text).collect::<String>();
    let sent = sent + &stage.discord.texts().concat();
    for (name, n) in ["tg42", "tg43", "lark", "discord"]
        .iter()
        .flat_map(|name| (1..7).chain(8..12).map(move |n| (name, n)))
    {
        assert!(sent.contains(&format!("{name} says {n},")), "{name} {n} has no answer: {dice:?}");
    }
    assert!(sent.contains("Tea is ready"), "{dice:?}");
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
