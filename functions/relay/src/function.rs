//! The scheduled function, and the process of a container that is always on.

use std::sync::Arc;
use std::time::Duration;

use annals_channel_discord::client::Client;
use annals_channel_discord::settings::DiscordConfig;
use annals_core::settings::{ConfigError, Env};
use annals_core::sort_key::Timestamp;
use annals_io::clock::Clock;
use annals_io::environment::process_env;
use annals_relay::Relay;
use annals_runtime::function::ChannelConfig;
use annals_runtime::metrics::Reporter;
use annals_runtime::process::{self, FunctionError, Process};
use lambda_runtime::{LambdaEvent, service_fn};
use serde_json::Value;

use crate::{DiscordHost, relay};

/// Time before the end of an invocation at which the relay hands over.
const MARGIN: Duration = Duration::from_secs(20);
/// Time between two reports of a container's counters.
const REPORT_EVERY: Duration = Duration::from_mins(1);

/// Settings of the relay.
pub struct Config {
    discord: DiscordConfig,
    channel: ChannelConfig,
}

impl Config {
    /// Reads the settings.
    pub fn from_env(env: Env<'_>, _: &Clock) -> Result<Self, FunctionError> {
        let discord = DiscordConfig::from_env(env)?;
        let discord = discord.ok_or_else(|| ConfigError::new("DISCORD_APPLICATION_ID", "is not set"))?;
        Ok(Self { discord, channel: ChannelConfig::from_env(env)? })
    }
}

/// Relays the gateway's events.
pub async fn serve(config: Config, process: Process) -> Result<(), FunctionError> {
    let Config { discord, channel } = config;
    let client = Client::new(&discord, process.clock.clone())?;
    let settings = channel.channels.clone();
    let ingress = channel.ingress(client, &process);
    let Process { reporter, clock, .. } = process;
    let relay = relay(&discord, &settings, ingress)?;
    if process_env("AWS_LAMBDA_RUNTIME_API").is_some() {
        in_lambda(relay, reporter, clock).await
    } else {
        in_container(relay, reporter, clock).await
    }
}

/// Relays during each invocation. Invocations overlap if the schedule starts one before the last has ended: it waits for
/// the lease.
async fn in_lambda(relay: Relay<DiscordHost>, reporter: Reporter, clock: Clock) -> Result<(), FunctionError> {
    let shared = Arc::new((relay, clock));
    lambda_runtime::run(service_fn(move |event: LambdaEvent<Value>| {
        let shared = Arc::clone(&shared);
        let invocation = reporter.invocation();
        // Boxed, since the compiler cannot lay out a future of this depth in one piece.
        Box::pin(async move {
            let (relay, clock) = &*shared;
            let ends_at = i64::try_from(event.context.deadline).ok().and_then(Timestamp::from_millis);
            let left = ends_at.unwrap_or_else(|| clock.now()).minus(MARGIN).since(clock.now());
            let ended = match relay.run(clock.sleep(left)).await {
                Ok(true) => Ok(()),
                // The alarm on errors reports it; the next invocation tries again.
                Ok(false) => Err("nothing of Discord's gateway was received, or it was not stored".into()),
                Err(error) => Err(FunctionError::from(error)),
            };
            invocation.ended().await;
            ended
        })
    }))
    .await
}

/// Relays until the container is stopped.
async fn in_container(
    relay: Relay<DiscordHost>,
    reporter: Reporter,
    clock: Clock,
) -> Result<(), FunctionError> {
    let reporting = async {
        loop {
            clock.sleep(REPORT_EVERY).await;
            reporter.invocation().ended().await;
        }
    };
    let ended = tokio::select! {
        ended = relay.run(process::stopped()) => ended.map(|_| ()),
        () = reporting => Ok(()),
    };
    reporter.invocation().ended().await;
    Ok(ended?)
}
