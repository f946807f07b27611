//! The HTTP API at an address that streams, with the agent in the same process: clients of `/api/chat` get tokens as the model
//! makes them.
//!
//! A run in another process could pass on its tokens only through a store, with a write for every few of them. So this
//! function contains the agent and makes the replies of its rooms itself. A turn is queued too, as for every channel, with a
//! short delay: [`annals_store::queue::Sqs::as_safety_net`]. Both runs are ordinary: the claim of the chat and the key of the reply
//! decide between them, and one continues what the other leaves unfinished.

use std::sync::Arc;
use std::time::Duration;

use annals_agent::function::Config as AnsweringConfig;
use annals_agent::{Agent, LEASE, TurnError, Undone};
use annals_core::chat_key::ChatKey;
use annals_core::record::Channel;
use annals_core::settings::Env;
use annals_core::sort_key::SortKey;
use annals_engine::ingress::{Ingress, IngressConfig};
use annals_engine::live::Live;
use annals_http::chat::Web;
use annals_http::settings::HttpConfig;
use annals_http::{Http, router};
use annals_io::clock::Clock;
use annals_runtime::gateway;
use annals_runtime::process::{FunctionError, Process};

/// Longest time that a stream waits for its reply, so that it ends before the function is stopped.
const PATIENCE: Duration = LEASE.saturating_sub(Duration::from_secs(15));
/// Latest start of a run after its request. The function's timeout must leave it time; after that, the queued turn answers.
const LATEST: Duration = Duration::from_mins(1);
/// Pause between two checks of a chat that another run holds.
const PAUSE: Duration = Duration::from_secs(1);

/// Settings of the function.
pub struct Config {
    answering: AnsweringConfig,
    http: HttpConfig,
    ingress: IngressConfig,
}

impl Config {
    /// Reads the settings.
    pub fn from_env(env: Env<'_>, _: &Clock) -> Result<Self, FunctionError> {
        Ok(Self {
            answering: AnsweringConfig::from_env(env)?,
            http: HttpConfig::deployed(env)?,
            ingress: IngressConfig::from_env(env)?,
        })
    }
}

/// Serves the API, and answers its rooms. It delivers nowhere: clients of rooms fetch their replies.
pub async fn serve(config: Config, process: Process) -> Result<(), FunctionError> {
    let Config { answering, http, ingress: config } = config;
    let (view, memory, config) = (answering.agent.view, answering.agent.memory.clone(), Arc::new(config));
    let ingress = process.ingress(Arc::clone(&config));
    let live = Live::on();
    let agent = Agent { live: live.clone(), ..answering.agent(&process, ingress.clone()).await? };
    let profiles = agent.profiles.clone();
    let agent = Arc::new(agent);
    let Process { history, queue, metrics, reporter, .. } = process;
    let runs = reporter.clone();
    let web = Web {
        ingress: Ingress::new(history, Arc::new(queue.as_safety_net()), config).with_metrics(metrics),
        live,
        run: Some(Arc::new(move |chat, from| {
            // Metrics of a run are reported when it ends, which is after the head of the answer is sent.
            let (agent, invocation) = (Arc::clone(&agent), runs.invocation());
            Box::pin(async move {
                run(&agent, &chat, &from).await;
                invocation.ended().await;
            })
        })),
        patience: PATIENCE,
        channel: Channel::Web,
    };
    let http = Http::new(http, ingress, web, view, (memory, profiles));
    gateway::stream(reporter.of_router(router(http))).await
}

/// Runs the turn of the message at `from` as soon as no other run holds the chat. The queued turn does what this run leaves
/// undone.
pub async fn run(agent: &Agent, chat: &ChatKey, from: &SortKey) {
    let latest = agent.clock.now().plus(LATEST);
    loop {
        match agent.run_within_lease(chat, std::slice::from_ref(from)).await {
            Ok(()) => return,
            Err(Undone { error: TurnError::Busy { .. } | TurnError::Unfinished, .. })
                if agent.clock.now() < latest =>
            {
                if !is_free(agent, chat, latest).await {
                    return;
                }
            }
            Err(error) => {
                tracing::error!(%error, "failed to run a turn here; the queued turn runs it");
                return;
            }
        }
    }
}

/// Waits until no run holds the chat; returns false if that takes too long.
async fn is_free(agent: &Agent, chat: &ChatKey, latest: annals_core::sort_key::Timestamp) -> bool {
    loop {
        match agent.history.busy_until(chat).await {
            Ok(None) => return true,
            Ok(Some(_)) => {}
            Err(error) => {
                tracing::warn!(%error, "failed to read whether another run holds the chat");
                return false;
            }
        }
        if agent.clock.now() >= latest {
            return false;
        }
        agent.clock.sleep(PAUSE).await;
    }
}
