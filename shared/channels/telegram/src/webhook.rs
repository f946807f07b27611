//! `POST /telegram`: [`TelegramWebhook`].
//!
//! The secret is in a header, so no byte of a body is read for a caller without it. Telegram delivers an update again after
//! a 5xx. An update of an unknown kind is answered with 200.
//!
//! Source: <https://core.telegram.org/bots/api#setwebhook>.

use std::time::Duration;

use annals_channel::settings::Settings;
use annals_channel::webhook::{
    ApprovalResult, Effect, Events, MAX_BODY_BYTES, Patience, Press, ReadError, Response, Unverified,
    Verified, Webhook,
};
use annals_core::command::Command;
use annals_core::draft::Draft;
use annals_core::record::Channel;
use annals_core::sort_key::Timestamp;
use reqwest::header::{HeaderMap, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::bot::Bot;
use crate::buttons::Keyboard;
use crate::client::{CallError, Client};
use crate::parse::{needs_username, parse};
use crate::verify::{SECRET_HEADER, secret_matches};

/// Longest wait for Telegram's rate limit while the webhook waits for its answer.
pub const WEBHOOK_PATIENCE: Duration = Duration::from_secs(5);

/// The webhook of one bot.
pub struct TelegramWebhook {
    /// Settings of all channels.
    pub settings: Settings,
    /// The expected `X-Telegram-Bot-Api-Secret-Token`.
    pub secret: SecretString,
    /// Identity of the bot.
    pub identity: Identity,
}

/// Identity of the bot: its id from its token, and its user name from Telegram as soon as a group needs it.
pub struct Identity {
    id: i64,
    client: Option<Client>,
    username: OnceCell<String>,
}

impl Identity {
    /// Creates the identity of the bot with this id, whose user name `client` asks for.
    pub fn asked_for(id: i64, client: Client) -> Self {
        Self { id, client: Some(client), username: OnceCell::new() }
    }

    /// Creates the identity of the local program's bot, which Telegram does not know.
    pub fn local(id: i64, username: &str) -> Self {
        Self { id, client: None, username: OnceCell::new_with(Some(username.to_owned())) }
    }

    /// Returns the bot, with its user name if `named`.
    async fn bot(&self, named: bool) -> Result<Bot, ReadError> {
        if !named {
            return Ok(Bot { id: self.id, username: None });
        }
        let Some(client) = &self.client else {
            return Ok(Bot { id: self.id, username: self.username.get().cloned() });
        };
        let username = self.username.get_or_try_init(async || Ok(client.get_me().await?.username)).await;
        let username = match username {
            Ok(username) => Some(username.clone()),
            Err(error @ CallError::Refused { .. }) => {
                // Not kept, since the token may be corrected at any time.
                tracing::error!(%error, "failed to get the bot's user name, so that mentions of it are not seen");
                None
            }
            Err(error) => return Err(ReadError::Platform(error.to_string())),
        };
        Ok(Bot { id: self.id, username })
    }
}

impl Webhook for TelegramWebhook {
    type Button = Keyboard;

    const CHANNEL: Channel = Channel::Telegram;
    const PATH: &'static str = "/telegram";
    const REFUSAL: &'static str = "X-Telegram-Bot-Api-Secret-Token is missing or wrong";
    const LEFT: &'static str = "the bot was blocked or removed";

    fn body_limit(&self, headers: &HeaderMap) -> Result<usize, Unverified> {
        let header = headers.get(SECRET_HEADER).map(HeaderValue::as_bytes);
        if secret_matches(header, self.secret.expose_secret()) { Ok(MAX_BODY_BYTES) } else { Err(Unverified) }
    }

    fn verify(&self, _headers: &HeaderMap, body: &[u8]) -> Result<Verified, Unverified> {
        Ok(serde_json::from_slice(body).map_or(Verified::NotAnEvent, Verified::Event))
    }

    async fn read(&self, update: Value) -> Result<Events<Keyboard>, ReadError> {
        let bot = self.identity.bot(needs_username(&update)).await?;
        let incoming = parse(&update, &bot, &self.settings)?;
        Ok(Events { incoming, has_own_time: true, response: Response::Empty, refusal: Response::Empty })
    }

    /// Returns `draft`: updates are complete.
    async fn complete(&self, draft: Draft) -> Result<Draft, ReadError> {
        Ok(draft)
    }

    fn patience(&self, _event: &Value) -> Patience {
        Patience::Unlimited
    }

    /// Returns false: Telegram does not tell bots of deleted messages.
    async fn is_withdrawn(&self, _draft: &Draft, _now: Timestamp) -> bool {
        false
    }

    async fn respond_to_press(&self, press: &Press<Keyboard>, result: &ApprovalResult) -> Option<Response> {
        let client = self.identity.client.as_ref()?;
        let Keyboard { callback_id, under, left } = &press.details;
        if let Err(error) =
            client.answer_callback(callback_id, &result.text, result.effect == Effect::Refused).await
        {
            tracing::info!(%error, "failed to answer a callback query");
        }
        if result.effect == Effect::Settled
            && let Err(error) = client.edit_keyboard(under, left).await
        {
            tracing::info!(%error, "failed to remove answered buttons");
        }
        None
    }

    /// Returns `None`: Telegram shows no text of a response.
    fn respond_to_command(
        &self,
        _command: &Command,
        _draft: &Draft,
        _confirmation: &str,
    ) -> Option<Response> {
        None
    }
}
