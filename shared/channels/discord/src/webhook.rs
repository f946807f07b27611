//! `POST /discord`: [`DiscordWebhook`].
//!
//! Interactions and webhook events come to one address, and are signed in the same way. Discord does not deliver an interaction
//! again, so one that takes long is never cut off: its response is [deferred](Interaction). It delivers a webhook event again
//! for ten minutes. The relay passes the dispatches of the gateway to [`DiscordWebhook::read`], too.
//!
//! Source: <https://discord.com/developers/docs/interactions/overview>.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use annals_channel::about::About;
use annals_channel::json::JsonView;
use annals_channel::settings::Settings;
use annals_channel::webhook::{
    ApprovalResult, Events, Incoming, MAX_BODY_BYTES, Patience, Places, Press, ReadError, Response,
    Unverified, Verified, Webhook,
};
use annals_core::chat_key::ChatKey;
use annals_core::command::Command;
use annals_core::draft::Draft;
use reqwest::header::{HeaderMap, HeaderValue};
use serde_json::Value;

use crate::about::ABOUT;
use crate::bot::Bot;
use crate::buttons::Pressed;
use crate::client::Client;
use crate::deferral::Interaction;
use crate::parse::{is_webhook_event, parse};
use crate::verify::{KEY_BYTES, SIGNATURE_HEADER, TIMESTAMP_HEADER, is_signed};
use crate::{message, respond};

/// Types of an interaction that checks the address, and of such a webhook event.
const PING: i64 = 1;
const EVENT_PING: i64 = 0;
/// Maximum number of channels whose type is known.
const MAX_KNOWN_CHANNELS: usize = 10_000;

/// The webhook of one application.
pub struct DiscordWebhook {
    settings: Settings,
    public_key: [u8; KEY_BYTES],
    bot: Bot,
    /// `None` if Discord is not set up.
    client: Option<Client>,
    /// Types of channels, for messages that do not tell them.
    types: Mutex<HashMap<String, i64>>,
}

impl DiscordWebhook {
    /// Creates the webhook of the application with this key and this bot. `client` reads what a message of the gateway leaves
    /// out.
    pub fn new(settings: Settings, public_key: [u8; KEY_BYTES], bot: Bot, client: Option<Client>) -> Self {
        Self { settings, public_key, bot, client, types: Mutex::default() }
    }

    /// Returns the client, if the bot's token is set.
    fn bot_client(&self) -> Option<&Client> {
        self.client.as_ref().filter(|client| client.has_bot())
    }

    /// Returns the event with the type of its channel, if the event leaves that out. A channel that cannot be read for good
    /// counts as one of a guild that is not a thread.
    async fn with_type(&self, event: Value) -> Result<Value, ReadError> {
        let Some(channel_id) = message::missing_type(&event) else { return Ok(event) };
        let known = self.types.lock().unwrap_or_else(PoisonError::into_inner).get(channel_id).copied();
        if let Some(kind) = known {
            return Ok(message::with_type(event, kind));
        }
        let Some(client) = self.bot_client() else { return Ok(event) };
        match client.channel(channel_id).await {
            Ok(channel) => {
                let mut types = self.types.lock().unwrap_or_else(PoisonError::into_inner);
                if types.len() >= MAX_KNOWN_CHANNELS {
                    types.clear();
                }
                types.insert(channel_id.to_owned(), channel.kind);
                drop(types);
                Ok(message::with_type(event, channel.kind))
            }
            // A command needs no bot's token, so the event is received all the same.
            Err(error) if error.is_refusal() => {
                tracing::warn!(%error, "failed to get the type of a channel; it counts as no thread");
                Ok(event)
            }
            Err(error) => Err(ReadError::Platform(error.to_string())),
        }
    }

    /// Returns the chat of the direct messages `channel_id`, if the bot can read with whom they are.
    async fn direct(&self, channel_id: &str) -> Result<Option<ChatKey>, ReadError> {
        let Some(client) = self.bot_client() else { return Ok(None) };
        let channel = match client.channel(channel_id).await {
            Err(error) if error.is_refusal() => return Ok(None),
            channel => channel.map_err(|error| ReadError::Platform(error.to_string()))?,
        };
        let user_id = channel.recipient();
        Ok(user_id.and_then(|user_id| ChatKey::direct(&self.settings.agent_id, user_id).ok()))
    }
}

impl Webhook for DiscordWebhook {
    const ABOUT: &'static About = &ABOUT;

    fn body_limit(&self, headers: &HeaderMap) -> Result<usize, Unverified> {
        let is_complete = [SIGNATURE_HEADER, TIMESTAMP_HEADER].iter().all(|name| headers.contains_key(*name));
        if is_complete { Ok(MAX_BODY_BYTES) } else { Err(Unverified) }
    }

    fn verify(&self, headers: &HeaderMap, body: &[u8]) -> Result<Verified, Unverified> {
        let header = |name| headers.get(name).map(HeaderValue::as_bytes);
        if !is_signed(&self.public_key, header(SIGNATURE_HEADER), header(TIMESTAMP_HEADER), body) {
            return Err(Unverified);
        }
        let Ok(call) = serde_json::from_slice::<Value>(body) else { return Ok(Verified::NotAnEvent) };
        Ok(match JsonView::of(&call) {
            None => Verified::NotAnEvent,
            Some(view) if is_webhook_event(view) && view.int("type") == Some(EVENT_PING) => {
                Verified::Answer(Response::NoContent)
            }
            Some(view) if !is_webhook_event(view) && view.int("type") == Some(PING) => {
                Verified::Answer(respond::pong())
            }
            Some(_) => Verified::Event(call),
        })
    }

    async fn read(&self, event: Value) -> Result<Events, ReadError> {
        let event = self.with_type(event).await?;
        let mut events = parse(&event, &self.bot, &self.settings)?;
        if let Some(channel_id) = message::deleted_in_direct_messages(&event) {
            let direct = self.direct(channel_id).await?;
            for incoming in &mut events.incoming {
                if let Incoming::Withdrawal { places: Places { exact: Some((_, chats)), .. }, .. } = incoming
                {
                    chats.extend(direct.clone());
                }
            }
        }
        Ok(events)
    }

    /// Returns [`Patience::Unlimited`] for a call that is no interaction, and if there is no Discord to respond to.
    fn patience(&self, event: &Value) -> Patience {
        let interaction =
            self.client.as_ref().and_then(|client| Interaction::of(event, &self.settings, client));
        interaction.map_or(Patience::Unlimited, |call| Patience::Deferred(Box::new(call)))
    }

    async fn respond_to_press(&self, press: &Press, result: &ApprovalResult) -> Option<Response> {
        Some(respond::to_press(&Pressed::of(&press.details, &press.button), &result.text, result.effect))
    }

    /// Returns `None` for a command in a message, to which there is no response.
    fn respond_to_command(&self, command: &Command, draft: &Draft, confirmation: &str) -> Option<Response> {
        draft.reply_token.as_ref().map(|_| respond::to_command(command, confirmation))
    }
}
