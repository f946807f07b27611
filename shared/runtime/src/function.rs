//! The function of a webhook: [`serve_webhook`].

use std::process::ExitCode;
use std::sync::Arc;

use annals_channel::channel::{self, ChannelDefinition};
use annals_channel::platform::Platform;
use annals_channel::settings::{Settings, access, channel_settings};
use annals_core::settings::{ConfigError, Env};
use annals_engine::delivery::Deliverer;
use annals_engine::ingress::{Ingress, IngressConfig};
use annals_engine::receiving::Receiver;
use annals_io::clock::Clock;

use crate::gateway;
use crate::process::{FunctionError, Process, run};
use crate::webhook;

/// Runs the function of the webhook of the channel `D`.
pub async fn serve_webhook<D: ChannelDefinition>() -> ExitCode {
    run(open::<D>, async |(config, webhook, platform), process| {
        let ingress = config.ingress(platform, &process);
        let router = webhook::router(Receiver { webhook, ingress, must_confirm: true });
        gateway::serve(process.reporter.of_router(router)).await
    })
    .await
}

/// Reads the settings of the function of `D`, and creates its webhook and the client that sends confirmations.
pub(crate) fn open<D: ChannelDefinition>(
    env: Env<'_>,
    clock: &Clock,
) -> Result<(ChannelConfig, D::Webhook, D::Client), FunctionError> {
    let config = ChannelConfig::from_env(env)?;
    let (webhook, client) = channel::webhook::<D>(env, &config.channels, clock)?;
    Ok((config, webhook, client))
}

/// Settings of a function that receives the events of a platform.
pub struct ChannelConfig {
    /// Settings of parsing messages.
    pub channels: Settings,
    ingress: IngressConfig,
}

impl ChannelConfig {
    /// Reads the settings.
    pub fn from_env(env: Env<'_>) -> Result<Self, ConfigError> {
        let ingress = IngressConfig { access: access(env)?, ..IngressConfig::from_env(env)? };
        Ok(Self { channels: channel_settings(env)?, ingress })
    }

    /// Creates the ingress of the events of `platform`, which sends the confirmations of commands.
    pub fn ingress(self, platform: impl Platform + 'static, process: &Process) -> Ingress {
        let platform: Arc<dyn Platform> = Arc::new(platform);
        process.ingress(self.ingress).with_deliverer(Deliverer::new([platform], None))
    }
}
