//! The relay of Discord's gateway, with Discord's channel as the place where messages are stored and read.
//!
//! The binary has two homes: a scheduled Lambda function that hands over to its next invocation, and a container that is
//! always on. The local program is the third.

pub mod function;

use std::collections::HashSet;

use annals_channel::channel::ChannelDefinition;
use annals_channel::settings::{GroupActivation, Settings};
use annals_channel::webhook::ReadError;
use annals_channel_discord::channel::Discord;
use annals_channel_discord::client::{AGENT, Client};
use annals_channel_discord::settings::DiscordConfig;
use annals_channel_discord::webhook::DiscordWebhook;
use annals_core::settings::ConfigError;
use annals_engine::ingress::{Ingress, IngressError};
use annals_engine::receiving::{ReceiveError, Receiver};
use annals_relay::host::PAGE;
use annals_relay::{Host, HostError, Relay, RelayConfig};
use annals_store::history::directory::MAX_CHATS;
use annals_store::history::{History, HistoryError};
use annals_store::relay::RelayStore;
use serde_json::Value;
use tracing::Instrument;
use tracing::field::Empty;

/// Pages of the list of chats that are searched for direct messages.
const MAX_PAGES: usize = 50;

/// Creates the relay of the application of `config`. It stores and confirms commands by `ingress`.
pub fn relay(
    config: &DiscordConfig,
    settings: &Settings,
    ingress: Ingress,
) -> Result<Relay<DiscordHost>, ConfigError> {
    let token = config.bot_token.clone();
    let token =
        token.ok_or_else(|| ConfigError::new("DISCORD_BOT_TOKEN", "is not set, which the relay needs"))?;
    let clock = ingress.history().clock().clone();
    let client = Client::new(config, clock.clone())?;
    let store = RelayStore::beside(ingress.history(), &config.application_id);
    let webhook = Discord::webhook(config, Some(client.clone()), settings.clone());
    // Messages of other chats must not wait for a confirmation.
    let receiver = Receiver { webhook, ingress, must_confirm: false };
    let relay = RelayConfig {
        application_id: config.application_id.clone(),
        bot_id: config.bot.id.clone(),
        token,
        api_base: config.api_base.trim_end_matches('/').to_owned(),
        user_agent: AGENT,
        needs_message_content: settings.group_activation == GroupActivation::Always,
    };
    Ok(Relay::new(relay, store, DiscordHost { receiver, client }, clock))
}

/// Stores messages as Discord's webhook does, and reads missed ones with Discord's REST API.
pub struct DiscordHost {
    receiver: Receiver<DiscordWebhook>,
    client: Client,
}

impl Host for DiscordHost {
    async fn receive(&self, dispatch: Value) -> Result<(), HostError> {
        let span = tracing::error_span!("dispatch", session = Empty);
        match self.receiver.receive(dispatch).instrument(span).await {
            // Dispatches come in order, so a message that is not stored yet is not on its way either.
            Ok(_) | Err(ReceiveError::EarlyWithdrawal) => Ok(()),
            Err(error) if may_pass(&error) => Err(HostError::Failed(error.into())),
            Err(error) => {
                if !matches!(error, ReceiveError::Read(_)) {
                    tracing::error!(%error, "a message of Discord is lost: what is stored of its chat is damaged");
                }
                Err(HostError::Refused(error.into()))
            }
        }
    }

    async fn messages_after(&self, channel_id: &str, after: u64) -> Result<Vec<Value>, HostError> {
        self.client.messages_after(channel_id, after, PAGE).await.map_err(|error| match error {
            error if error.is_permanent() => HostError::Refused(error.into()),
            error => HostError::Failed(error.into()),
        })
    }

    async fn direct_channels(&self) -> Result<Vec<String>, HostError> {
        let channels = direct_channels(self.receiver.ingress.history()).await;
        channels.map_err(|error| HostError::Failed(error.into()))
    }
}

/// Returns true if a retry may succeed: what came is an event, and nothing that is stored of its chat is damaged. One chat must
/// not hold up the others.
fn may_pass(error: &ReceiveError) -> bool {
    match error {
        ReceiveError::Read(ReadError::NotAnEvent) => false,
        ReceiveError::History(error) | ReceiveError::Ingress(IngressError::History(error)) => {
            error.may_pass()
        }
        _ => true,
    }
}

/// Returns the channels of the direct messages with the people who wrote last, on any channel.
async fn direct_channels(history: &History) -> Result<Vec<String>, HistoryError> {
    let (mut channels, mut before) = (Vec::new(), None);
    for _ in 0..MAX_PAGES {
        let page = history.chats(before.as_ref(), MAX_CHATS).await?;
        channels.extend(page.chats.into_iter().filter_map(|listed| listed.head.discord_channel));
        before = page.before;
        if before.is_none() {
            break;
        }
    }
    // A person who was linked has it in the chat before, too.
    let mut seen = HashSet::new();
    channels.retain(|channel| seen.insert(channel.clone()));
    Ok(channels)
}
