//! One chat and its agent, without the program: a test starts each run and controls its clock: [`Solo`].

use std::sync::Arc;
use std::time::Duration;

use annals_agent::{Agent, TurnError};
use annals_core::chat_key::ChatKey;
use annals_core::command::Command;
use annals_core::context::{Context, Policy, context};
use annals_core::record::{Draft, Kind, Record};
use annals_core::settings::Env;
use annals_core::sort_key::{SortKey, Timestamp};
use annals_core::testing::set;
use annals_engine::ingress::Ingress;
use annals_engine::settings::AgentConfig;
use annals_engine::upkeep::Upkeep;
use annals_model::Model;
use annals_store::history::History;
use annals_store::queue::{QueueError, Turn, TurnQueue};
use annals_test_support::model_api::{API_KEY, ModelApi};
use futures::future::BoxFuture;
use tokio::task::JoinHandle;

use crate::app::wait_until;
use crate::faults::Faults;
use crate::world::{START, World, echo_agent, fail_turn, message};

/// A private chat with Ada, who is user 42, and a model of its own.
pub(crate) struct Solo {
    pub(crate) world: World,
    pub(crate) model: ModelApi,
    pub(crate) chat: ChatKey,
    settings: Vec<(String, String)>,
}

/// Turns are run by the test.
pub(crate) struct NoQueue;

impl TurnQueue for NoQueue {
    fn enqueue<'a>(&'a self, _: &'a Turn) -> BoxFuture<'a, Result<(), QueueError>> {
        Box::pin(async { Ok(()) })
    }
}

impl Solo {
    pub(crate) async fn new(settings: &[(&str, &str)]) -> Self {
        let model = ModelApi::start().await;
        let (base_url, own) =
            (model.base_url(), |(name, value): &(&str, &str)| ((*name).into(), (*value).into()));
        let hosted = [("MODEL", "openai:test"), ("MODEL_BASE_URL", &base_url), ("MODEL_API_KEY", API_KEY)];
        let settings = settings.iter().chain(&hosted).map(own).collect();
        Self { world: World::new().await, model, chat: ChatKey::telegram(42, None), settings }
    }

    fn config(&self) -> AgentConfig {
        let lookup =
            |name: &str| self.settings.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone());
        AgentConfig::from_env(Env::new(&lookup), None).unwrap()
    }

    /// The agent of a process of its own, whose requests to the stores meet `faults`.
    pub(crate) fn agent(&self, faults: Faults) -> Agent {
        let (history, config) = (self.world.history_with(faults, true), self.config());
        let model = Model::new(&config.model, &self.world.clock, None).unwrap();
        let (view, system_prompt) = (config.view, config.system_prompt);
        Agent { model, view, system_prompt, ..echo_agent(&history) }
    }

    /// Returns the upkeep that visits the chat when it is due.
    pub(crate) fn upkeep(&self) -> Upkeep {
        let config = self.config();
        let model = Model::new(&config.model, &self.world.clock, None).unwrap();
        Upkeep::new(self.history(), model, &config)
    }

    pub(crate) fn draft(&self, minute: i64, text: &str, asks: bool) -> Draft {
        let (id, ms) = (u64::try_from(minute).unwrap() + 1, minute * 60_000);
        let at = Timestamp::from_millis(START + ms).unwrap();
        self.world.clock.advance(at.since(self.world.clock.now()));
        let mut draft = Draft { chat_id: "42".into(), asks, ..message(&self.chat, id, ms, text) };
        set(&mut draft.metadata, "chatType", "private");
        draft
    }

    /// Ada says this so many minutes after the start; if it `asks`, a run is to answer it.
    pub(crate) async fn hear(&self, minute: i64, text: &str, asks: bool) -> SortKey {
        self.world.history().append(&self.draft(minute, text, asks)).await.unwrap().base
    }

    /// Ada types `/compact`.
    pub(crate) async fn hear_compact(&self, minute: i64) -> SortKey {
        let ingress = Ingress::new(self.world.history(), Arc::new(NoQueue), "annals".into());
        let draft = self.draft(minute, "/compact", true);
        ingress.command(&Command::Compact, &draft).await.unwrap().appended.base
    }

    /// A run of `agent` beside the test.
    pub(crate) fn start(&self, agent: Agent, from: &SortKey) -> JoinHandle<Result<(), TurnError>> {
        let (chat, from) = (self.chat.clone(), from.clone());
        tokio::spawn(async move { agent.run(&chat, Some(&from)).await.map_err(|undone| undone.error) })
    }

    /// Fails the turn `times` times.
    pub(crate) async fn fail_turn(&self, times: u32) {
        fail_turn(&self.history(), &self.chat, times).await;
    }

    /// A run, from its start to its end.
    pub(crate) async fn run(&self, from: &SortKey) {
        self.start(self.agent(Faults::default()), from).await.unwrap().unwrap();
    }

    /// Returns the run's result, which needs no more time.
    pub(crate) async fn ended(&self, run: JoinHandle<Result<(), TurnError>>) -> Result<(), TurnError> {
        wait_until("the run has ended", async || run.is_finished()).await;
        run.await.unwrap()
    }

    pub(crate) fn advance(&self, seconds: u64) {
        self.world.clock.advance(Duration::from_secs(seconds));
    }

    pub(crate) fn history(&self) -> History {
        self.world.history()
    }

    /// All that is in the table, in order.
    pub(crate) async fn records(&self) -> Vec<Record> {
        self.history().range(&self.chat, None).await.unwrap()
    }

    pub(crate) async fn summaries(&self) -> Vec<Record> {
        self.records().await.into_iter().filter(|record| record.kind() == Kind::Summary).collect()
    }

    /// Returns the context of a model with an unlimited window.
    pub(crate) async fn whole_context(&self) -> Context {
        let policy = Policy { token_budget: u32::MAX, ..self.config().view.policy(0) };
        context(&self.records().await, self.world.clock.now(), &policy)
    }
}
