//! Rate limits of platforms: replies are sent no faster, also by several processes.

use std::sync::Arc;
use std::time::Duration;

use annals_agent::{Agent, TurnError};
use annals_channel::platform::Platform;
use annals_channel_lark::client as lark;
use annals_channel_telegram::client::{BOT_RATE_LIMIT, Client};
use annals_core::chat_key::ChatKey;
use annals_core::draft::Draft;
use annals_core::record::{Channel, Record};
use annals_core::sort_key::{MessageId, SortKey};
use annals_engine::delivery::Deliverer;
use annals_test_support::lark_api::{self, LarkApi};
use annals_test_support::telegram_api::{TOKEN, TelegramApi};
use serde_json::json;

use crate::app::{passing, wait_until};
use crate::faults::{Faults, Plan};
use crate::turns::assert_answered_once;
use crate::world::{World, message};

struct Bench {
    world: World,
    telegram: TelegramApi,
    lark: LarkApi,
}

impl Bench {
    async fn new() -> Self {
        let (world, telegram, lark) =
            (World::new().await, TelegramApi::start().await, LarkApi::start().await);
        let clock = world.clock.clone();
        telegram.police(move || clock.now().as_millis());
        let clock = world.clock.clone();
        lark.police(move || clock.now().as_millis());
        Self { world, telegram, lark }
    }

    /// One of `of` environments, that says again what was said.
    fn agent(&self, of: u32) -> Agent {
        let clock = self.world.clock.clone();
        let mut client =
            Client::new(self.telegram.base_url(), TOKEN.to_owned().into(), clock.clone()).unwrap();
        let (id, secret) = (lark_api::APP_ID.to_owned(), lark_api::APP_SECRET.to_owned().into());
        let mut app = lark::Client::new(self.lark.base_url(), id, secret, clock).unwrap();
        client.api().set_rate_limit(Some(BOT_RATE_LIMIT.shared_by(of)));
        app.api().set_rate_limit(Some(lark::APP_RATE_LIMIT.shared_by(of)));
        let platforms: [Arc<dyn Platform>; 2] = [Arc::new(client), Arc::new(app)];
        let deliverer = Deliverer::new(platforms, None).with_rate_limits(true);
        Agent { deliverer, ..self.world.agent() }
    }

    /// Returns the agent of an environment whose requests to the stores meet `faults`.
    fn agent_with(&self, faults: Faults) -> Agent {
        Agent { history: self.world.history_with(faults), ..self.agent(1) }
    }

    /// Somebody says a text of so many pieces, each with its number.
    async fn hear(&self, chat: &ChatKey, chat_id: &str, number: u64, pieces: usize) -> SortKey {
        let text: Vec<String> =
            (0..pieces).map(|n| format!("p{number}-{n:03} {}", "lorem ".repeat(640))).collect();
        let said = message(chat, number, number.cast_signed(), &text.join("\n\n"));
        let draft = Draft { chat_id: chat_id.into(), asks: true, ..said };
        self.world.append(&draft).await.base
    }

    /// Runs a turn while the clock moves forward by `step` milliseconds at each poll.
    async fn run(&self, step: u64, agent: &Agent, chat: &ChatKey, from: &SortKey) -> Result<(), TurnError> {
        let run = Box::pin(agent.run(chat, std::slice::from_ref(from)));
        let done = passing(&self.world.clock, Duration::from_millis(step), run).await;
        done.map_err(|undone| undone.error)
    }

    fn sent(&self) -> Vec<String> {
        self.telegram.sent().iter().map(|sent| sent.text.split(' ').next().unwrap().to_owned()).collect()
    }

    async fn records(&self, chat: &ChatKey) -> Vec<Record> {
        self.world.history.range(chat, None).await.unwrap()
    }
}

fn numbered(number: u64, pieces: usize) -> impl Iterator<Item = String> {
    (0..pieces).map(move |n| format!("p{number}-{n:03}"))
}

/// Two environments, whichever answers.
#[tokio::test]
async fn two_environments_send_one_chat_one_message_a_second() {
    let bench = Bench::new().await;
    let (chat, agents) = (ChatKey::telegram(42, None), [bench.agent(2), bench.agent(2)]);
    let started = bench.world.clock.now();
    for number in 1..=4 {
        let from = bench.hear(&chat, "42", number, 3).await;
        bench.run(100, &agents[usize::try_from(number % 2).unwrap()], &chat, &from).await.unwrap();
    }
    assert!(bench.telegram.statuses("sendMessage").iter().all(|status| *status == 200));
    assert_eq!(bench.sent(), (1..=4).flat_map(|number| numbered(number, 3)).collect::<Vec<_>>());
    let took = bench.world.clock.now().since(started);
    // On a busy machine more of the clock passes during each call.
    assert!((Duration::from_secs(11)..Duration::from_secs(16)).contains(&took), "{took:?}");
    assert_answered_once(&bench.records(&chat).await);
}

/// The times of sends are stored with the writes that a turn makes anyway, and read with its claim.
#[tokio::test]
async fn a_rate_limit_costs_no_units() {
    let bench = Bench::new().await;
    let (chat, agent) = (ChatKey::telegram(42, None), bench.agent(1));
    let from = bench.world.ask(1, 0, "hello").await;
    bench.world.meter.take();
    agent.run(&chat, &[from]).await.unwrap();
    let cost = bench.world.meter.take();
    assert_eq!((cost.write_units, cost.calls), (4.0, 5), "{cost:?}");
    let paced = bench.world.history.head(&chat).await.unwrap().paced;
    assert_eq!(paced, Some(bench.world.clock.now().plus(Duration::from_secs(1))));
}

#[tokio::test]
async fn a_long_reply_in_a_group_goes_on_in_the_next_run_where_one_has_no_time_for_it() {
    let bench = Bench::new().await;
    let chat = ChatKey::telegram(-5, None);
    // Of its 90 seconds a run waits up to 60.
    let agents =
        [bench.agent(1), bench.agent(1)].map(|agent| Agent { lease: Duration::from_secs(90), ..agent });
    let from = bench.hear(&chat, "-5", 1, 40).await;
    let mut sent = Vec::new();
    for number in 1..10 {
        let agent = &agents[usize::try_from(number % 2).unwrap()];
        let ended = bench.run(250, agent, &chat, &from).await;
        sent.push(bench.sent().len());
        match ended {
            Ok(()) => break,
            Err(TurnError::Unfinished) => {}
            Err(error) => panic!("{error}"),
        }
    }
    // Five at once, then sixteen in a minute.
    assert!((19..=21).contains(&sent[0]) && sent.len() >= 3 && sent.last() == Some(&40), "{sent:?}");
    assert!(bench.telegram.statuses("sendMessage").iter().all(|status| *status == 200));
    assert_eq!(bench.sent(), numbered(1, 40).collect::<Vec<_>>());
    assert_answered_once(&bench.records(&chat).await);
    assert_eq!(bench.world.history.head(&chat).await.unwrap().turn, None);
}

#[tokio::test]
async fn messages_sent_by_a_dead_run_count_for_the_next_one_s_rate_limit() {
    let bench = Bench::new().await;
    let chat = ChatKey::telegram(42, None);
    let from = bench.hear(&chat, "42", 1, 4).await;
    let agent = bench.agent(2);
    let noted = wait_until("two pieces are noted", async || {
        bench.world.history.head(&chat).await.unwrap().turn.is_some_and(|turn| turn.sent == 2)
    });
    tokio::select! {
        biased;
        ended = bench.run(100, &agent, &chat, &from) => panic!("{ended:?}"),
        () = noted => {}
    }
    assert!(bench.world.head().await.paced.is_some());
    bench.world.history.free(&chat).await.unwrap();
    bench.run(100, &bench.agent(2), &chat, &from).await.unwrap();
    assert!(bench.telegram.statuses("sendMessage").iter().all(|status| *status == 200));
    let sent = bench.sent();
    assert!(sent.ends_with(&numbered(1, 4).skip(2).collect::<Vec<_>>()) && sent.len() <= 5, "{sent:?}");
}

/// The table fails when the first piece is noted.
#[tokio::test]
async fn a_store_that_fails_between_two_pieces_does_not_end_the_reply() {
    let asked = async |pieces| {
        let bench = Bench::new().await;
        let from = bench.hear(&bench.world.chat, "42", 1, pieces).await;
        bench.world.fail_turn(14).await;
        (bench, from)
    };
    // After one piece the run ends, with as many requests before that.
    let (bench, from) = asked(1).await;
    let requests = Faults::default();
    bench.agent_with(requests.clone()).run(&bench.world.chat, &[from]).await.unwrap();

    let (bench, from) = asked(2).await;
    let (chat, world) = (&bench.world.chat, &bench.world);
    let agent = bench.agent_with(Faults::new(Plan::Lost(requests.requests())));
    let undone = agent.run(chat, std::slice::from_ref(&from)).await.unwrap_err();
    assert!(matches!(undone.error, TurnError::History(_)), "{undone}");
    assert_eq!(world.head().await.failures, 14, "it counted as a failure of Telegram");
    assert_eq!(bench.sent().len(), 1);
    bench.run(100, &bench.agent(1), chat, &from).await.unwrap();
    assert_eq!(bench.sent(), numbered(1, 2).collect::<Vec<_>>());
    assert!(bench.records(chat).await.iter().all(|record| record.delivery_failure().is_none()));
}

#[tokio::test]
async fn a_chat_of_lark_is_sent_five_in_a_second() {
    let bench = Bench::new().await;
    let chat: ChatKey = "lark:chat:oc_ada".parse().unwrap();
    let text: Vec<String> = (0..7).map(|n| format!("p1-{n:03} {}", "# lorem\n".repeat(3000))).collect();
    let said = message(&chat, 1, 1, &text.join("\n\n"));
    let id = MessageId::new("om_1").unwrap();
    let draft =
        Draft { channel: Channel::Lark, chat_id: "oc_ada".into(), message_id: id, asks: true, ..said };
    bench.lark.seed(json!({"message_id": "om_1", "chat_id": "oc_ada", "create_time": "1"}));
    let from = bench.world.append(&draft).await.base;
    let started = bench.world.clock.now();
    bench.run(50, &bench.agent(1), &chat, &from).await.unwrap();
    let sent = bench.lark.sent().len();
    assert!(sent >= 7 && !bench.lark.codes("send").contains(&230_020), "{sent}");
    assert!(!bench.lark.codes("reply").contains(&230_020));
    let least = Duration::from_millis(200) * u32::try_from(sent - 1).unwrap();
    assert!(bench.world.clock.now().since(started) >= least);
}
