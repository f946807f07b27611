//! The client as a [`Platform`].

use std::error::Error;

use annals_channel::delivery::{DeliveryError, Drafted, OutgoingReply, Progress, SendStep};
use annals_channel::file::FileError;
use annals_channel::platform::{Platform, Registered, Sign};
use annals_channel::rate_limit::RateLimit;
use annals_channel::settings::{DeliveryConfig, Settings, channel_settings};
use annals_core::message::Part;
use annals_core::record::{Channel, Record};
use annals_core::settings::{ConfigError, Env};
use annals_io::clock::Clock;
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;

use crate::address::Address;
use crate::client::{APP_RATE_LIMIT, CHAT_RATE_LIMIT, Client, TYPING};
use crate::settings::LarkConfig;
use crate::surroundings::LarkSurroundings;
use crate::{buttons, render};

/// Creates the client that sends replies; `None` if the channel is not set up.
///
/// # Errors
///
/// A setting is missing or malformed.
pub fn from_env(
    env: Env<'_>,
    delivery: &DeliveryConfig,
    clock: &Clock,
) -> Result<Option<Registered>, Box<dyn Error + Send + Sync>> {
    let Some(config) = LarkConfig::from_env(env)? else { return Ok(None) };
    Ok(Some(registered(&config, &channel_settings(env)?, client(&config, *delivery, clock)?)))
}

/// Creates the client of the app of `config`.
pub(crate) fn client(
    config: &LarkConfig,
    delivery: DeliveryConfig,
    clock: &Clock,
) -> Result<Client, ConfigError> {
    let client =
        Client::new(&config.api_base, config.app_id.clone(), config.app_secret.clone(), clock.clone())?;
    Ok(client.with_rate_limit(delivery.share(APP_RATE_LIMIT)))
}

/// Registers `client` to send replies, with its surroundings.
pub(crate) fn registered(config: &LarkConfig, settings: &Settings, client: Client) -> Registered {
    let (app_id, limit) = (config.app_id.clone(), config.group_context);
    let surroundings = LarkSurroundings::of(client.clone(), app_id, settings.clone(), limit);
    Registered { surroundings, ..Registered::new(Channel::Lark, client) }
}

impl Platform for Client {
    fn rate_limit(&self, _to: &Record) -> Option<RateLimit> {
        Some(CHAT_RATE_LIMIT)
    }

    fn send<'a, 'p: 'a>(
        &'a self,
        reply: OutgoingReply<'a>,
        sent: usize,
        progress: &'a Progress<'p>,
    ) -> BoxFuture<'a, Result<(), DeliveryError>> {
        send(self, reply, sent, progress).boxed()
    }

    fn fetch<'a>(&'a self, part: &'a Part, limit: usize) -> BoxFuture<'a, Result<Vec<u8>, FileError>> {
        async move {
            let lark = part.as_map().get("providerMetadata").and_then(|provider| provider.get("lark"));
            let text = |name| lark?.get(name)?.as_str().filter(|text: &&str| !text.is_empty());
            let key = text("imageKey").map(|key| (key, "image"));
            let key = key.or_else(|| Some((text("fileKey")?, "file")));
            match (text("messageId"), key) {
                (Some(message_id), Some((key, kind))) => self.resource(message_id, key, kind, limit).await,
                _ => Err(FileError::Gone("the file has no message or no key".into())),
            }
        }
        .boxed()
    }

    fn is_administrator<'a>(
        &'a self,
        chat_id: &'a str,
        user_id: &'a str,
    ) -> BoxFuture<'a, Result<bool, String>> {
        async move { self.is_manager(chat_id, user_id).await.map_err(|error| error.to_string()) }.boxed()
    }

    /// Asks for the name of a group: events carry none. A chat with one person has no name.
    fn chat_title<'a>(&'a self, to: &'a Record) -> Option<BoxFuture<'a, Result<Option<String>, String>>> {
        if !to.is_group() {
            return None;
        }
        let name = async move { self.group_name(&to.chat_id).await.map_err(|error| error.to_string()) };
        Some(name.boxed())
    }

    /// False: who writes to the bot, or mentions it in a group, has let it in again.
    fn is_heard_when_blocked(&self, _to: &Record) -> bool {
        false
    }

    fn sign(&self) -> Sign {
        Sign::Reaction
    }

    /// Does nothing: Lark has no typing indicator, but [reactions](Platform::add_reaction).
    fn show_typing<'a>(&'a self, _to: &'a Record) -> BoxFuture<'a, ()> {
        async {}.boxed()
    }

    fn takes_drafts(&self, _to: &Record) -> bool {
        false
    }

    fn show_draft<'a>(&'a self, _to: &'a Record, _markdown: &'a str) -> BoxFuture<'a, Drafted> {
        async { Drafted::Never }.boxed()
    }

    fn add_reaction<'a>(&'a self, to: &'a Record) -> BoxFuture<'a, Option<String>> {
        async move {
            let message_id = Address::of(to)?.message_id?;
            match self.react(&message_id, TYPING).await {
                Ok(reaction) => reaction,
                Err(error) => {
                    tracing::debug!(%error, "failed to add a reaction");
                    None
                }
            }
        }
        .boxed()
    }

    fn remove_reaction<'a>(&'a self, to: &'a Record, id: &'a str) -> BoxFuture<'a, ()> {
        async move {
            let Some(message_id) = Address::of(to).and_then(|address| address.message_id) else { return };
            if let Err(error) = self.unreact(&message_id, id).await {
                tracing::debug!(%error, "failed to remove a reaction");
            }
        }
        .boxed()
    }
}

async fn send(
    client: &Client,
    reply: OutgoingReply<'_>,
    sent: usize,
    progress: &Progress<'_>,
) -> Result<(), DeliveryError> {
    let nowhere = || DeliveryError::Refused { reason: "the answered message names no Lark chat".into() };
    let address = Address::of(reply.to).ok_or_else(nowhere)?;
    let chunks: Vec<_> = reply.texts().flat_map(render::chunks).collect();
    for (index, chunk) in chunks.iter().enumerate().skip(sent) {
        let is_last = index + 1 == chunks.len() && reply.requests.is_empty();
        progress(SendStep::Next { piece: index, is_last }).await?;
        client.send_chunk(&address, chunk, &reply.id(), index).await?;
        if !is_last {
            progress(SendStep::Sent { pieces: index + 1 }).await?;
        }
    }
    if !reply.requests.is_empty() {
        // A card of its own after the text, since a text has no buttons.
        let card: Value = buttons::of(&reply.to.chat, reply.requests);
        progress(SendStep::Next { piece: chunks.len(), is_last: true }).await?;
        match client.send_card(&address, &card, &reply.id(), chunks.len()).await {
            // The text before it says how to answer without buttons.
            Err(error) if error.is_permanent() => {
                tracing::warn!(%error, "Lark refused the card with buttons");
            }
            sent => drop(sent?),
        }
    }
    Ok(())
}
