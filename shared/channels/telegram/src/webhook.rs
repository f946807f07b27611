//! `POST /telegram`: [`TelegramWebhook`].
//!
//! The secret is in a header, so no byte of a body is read for a caller without it. Telegram delivers an update again after
//! a 5xx. An update of an unknown kind is answered with 200.
//!
//! Source: <https://core.telegram.org/bots/api#setwebhook>.

use annals_channel::about::About;
use annals_channel::settings::Settings;
use annals_channel::webhook::{
    ApprovalResult, Effect, Events, MAX_BODY_BYTES, Press, ReadError, Response, Unverified, Verified, Webhook,
};
use annals_core::secret::is_same;
use reqwest::header::{HeaderMap, HeaderValue};
use secrecy::ExposeSecret;
use serde_json::Value;

use crate::about::ABOUT;
use crate::bot::Bot;
use crate::buttons::Keyboard;
use crate::client::{CallError, Client};
use crate::parse::{needs_username, parse};
use crate::settings::{SECRET_HEADER, TelegramConfig};

/// User name of the bot if Telegram is not set up.
const LOCAL_USERNAME: &str = "annals_bot";

/// The webhook of one bot.
pub struct TelegramWebhook {
    /// Settings of all channels.
    pub settings: Settings,
    /// Settings of the bot.
    pub config: TelegramConfig,
    /// The client; `None` if Telegram is not set up.
    pub client: Option<Client>,
}

impl TelegramWebhook {
    /// Returns the bot, with its user name if `named`.
    async fn bot(&self, named: bool) -> Result<Bot, ReadError> {
        let username = match &self.client {
            _ if !named => None,
            None => Some(LOCAL_USERNAME.to_owned()),
            Some(client) => match client.username().await {
                Ok(username) => Some(username.to_owned()),
                Err(error @ (CallError::Refused { .. } | CallError::Token { .. })) => {
                    // Not kept, since the token may be corrected at any time.
                    tracing::error!(%error, "failed to get the bot's user name, so that mentions of it are not seen");
                    None
                }
                Err(error) => return Err(ReadError::Platform(error.to_string())),
            },
        };
        Ok(Bot { id: self.config.bot_id, username })
    }
}

impl Webhook for TelegramWebhook {
    const ABOUT: &'static About = &ABOUT;

    fn body_limit(&self, headers: &HeaderMap) -> Result<usize, Unverified> {
        let given = headers.get(SECRET_HEADER).map(HeaderValue::as_bytes).unwrap_or_default();
        let is_telegram = is_same(given, self.config.secret.expose_secret().as_bytes());
        if is_telegram { Ok(MAX_BODY_BYTES) } else { Err(Unverified) }
    }

    fn verify(&self, _headers: &HeaderMap, body: &[u8]) -> Result<Verified, Unverified> {
        Ok(serde_json::from_slice(body).map_or(Verified::NotAnEvent, Verified::Event))
    }

    async fn read(&self, update: Value) -> Result<Events, ReadError> {
        let bot = self.bot(needs_username(&update)).await?;
        let incoming = parse(&update, &bot, &self.settings)?;
        Ok(Events::new(incoming, Response::Empty))
    }

    async fn respond_to_press(&self, press: &Press, result: &ApprovalResult) -> Option<Response> {
        let client = self.client.as_ref()?;
        let Keyboard { callback_id, under, left } = Keyboard::of(&press.details, &press.button)?;
        if let Err(error) =
            client.answer_callback(&callback_id, &result.text, result.effect == Effect::Refused).await
        {
            tracing::info!(%error, "failed to answer a callback query");
        }
        if result.effect == Effect::Settled
            && let Err(error) = client.edit_keyboard(&under, &left).await
        {
            tracing::info!(%error, "failed to remove answered buttons");
        }
        None
    }
}
