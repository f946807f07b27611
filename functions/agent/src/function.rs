//! The function that answers the turns of the queue, and [`Config`], the settings of each function that answers.

use std::sync::Arc;
use std::time::Duration;

use annals_channel::platform::Platform;
use annals_channel::settings::DeliveryConfig;
use annals_core::settings::{ConfigError, Env};
use annals_engine::delivery::Deliverer;
use annals_engine::ingress::{Ingress, IngressConfig};
use annals_engine::profiles::ProfilesSetting;
use annals_engine::settings::{AgentConfig, ToolsSetting, reply_quiet};
use annals_engine::usage::UsageConfig;
use annals_io::clock::Clock;
use annals_model::Models;
use annals_runtime::channels::platforms;
use annals_runtime::process::{FunctionError, Process};
use aws_lambda_events::sqs::SqsEvent;
use lambda_runtime::{LambdaEvent, service_fn};

use crate::mcp::Servers;
use crate::{Agent, batch};

/// Settings of a function that answers.
pub struct Config {
    /// Settings of the answers.
    pub agent: AgentConfig,
    tools: Option<ToolsSetting>,
    profiles: ProfilesSetting,
    usage: Arc<UsageConfig>,
}

impl Config {
    /// Reads the settings.
    pub fn from_env(env: Env<'_>) -> Result<Self, ConfigError> {
        let agent = AgentConfig::from_env(env, None)?;
        Ok(Self {
            tools: ToolsSetting::from_env(env)?,
            profiles: ProfilesSetting::from_env(env, &agent.memory.agents, agent.model.names())?,
            usage: UsageConfig::from_env(env)?.into(),
            agent,
        })
    }

    /// Creates an agent that sends to other chats by `outgoing`, and delivers nowhere. Reads the documents of tools and
    /// profiles.
    pub async fn agent(self, process: &Process, outgoing: Ingress) -> Result<Agent, FunctionError> {
        let Self { agent, tools, profiles, usage } = self;
        let clock = &process.clock;
        let tools = process.tools(tools).await?;
        let models = Models::new(&agent.model, clock, Some(process.aws()), &process.metrics)?;
        let profiles = process.profiles(&profiles).await?;
        let agent = Agent {
            servers: tools.map(|tools| Arc::new(Servers::new(tools, clock.clone()))),
            metrics: process.metrics.clone(),
            usage,
            outgoing: Some(outgoing),
            ..Agent::new(process.history.clone(), models, &agent)
        };
        Ok(agent.with_profiles(profiles)?)
    }
}

/// Settings of the function that answers the turns of the queue.
pub struct QueueConfig {
    config: Config,
    quiet: Duration,
    delivery: DeliveryConfig,
    platforms: Vec<Arc<dyn Platform>>,
}

impl QueueConfig {
    /// Reads the settings.
    pub fn from_env(env: Env<'_>, clock: &Clock) -> Result<Self, FunctionError> {
        let delivery = DeliveryConfig::from_env(env)?;
        Ok(Self {
            config: Config::from_env(env)?,
            quiet: reply_quiet(env)?,
            platforms: platforms(env, &delivery, clock)?,
            delivery,
        })
    }
}

/// Answers the turns of the queue.
pub async fn serve(config: QueueConfig, process: Process) -> Result<(), FunctionError> {
    let QueueConfig { config, quiet, delivery, platforms } = config;
    let agents = Arc::clone(&config.agent.memory.agents);
    let outgoing = process.ingress(IngressConfig { agents, ..IngressConfig::default() });
    let agent = Agent {
        deliverer: Deliverer::new(platforms, None).with_rate_limits(delivery.is_rate_limited),
        stream_replies: delivery.stream_replies,
        quiet,
        ..config.agent(&process, outgoing).await?
    };
    let Process { queue, reporter, .. } = process;
    let shared = Arc::new((agent, queue));
    // One invocation at a time, unless the environment allows more (`AWS_LAMBDA_MAX_CONCURRENCY`): a turn mostly waits.
    lambda_runtime::run_concurrent(service_fn(move |event: LambdaEvent<SqsEvent>| {
        let shared = Arc::clone(&shared);
        let invocation = reporter.invocation();
        async move {
            let response = batch::handle(&shared.0, &shared.1, event.payload).await;
            invocation.ended().await;
            Ok::<_, FunctionError>(response)
        }
    }))
    .await
}
