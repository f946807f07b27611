//! `POST /telegram`: Telegram's webhook.
//!
//! Verify, read, parse, append, enqueue, and only then 200: the secret is in a header, so no byte of a body is read for a
//! caller without it. Any failure before that is a 5xx, which makes Telegram deliver
//! the update again. An update of an unknown kind is a 200; a body that is no update at all, which Telegram never
//! sends, a 400.
//!
//! Source of the protocol facts: <https://core.telegram.org/bots/api#setwebhook>.

use std::sync::Arc;
use std::time::Duration;

use annals_shared::access::Admission;
use annals_shared::channel::settings::Settings;
use annals_shared::channel::telegram::bot::Bot;
use annals_shared::channel::telegram::client::{Client, SendError};
use annals_shared::channel::telegram::parse::{self, Incoming, Press};
use annals_shared::channel::telegram::verify::{SECRET_HEADER, secret_matches};
use annals_shared::clock::Clock;
use annals_shared::delivery::Deliverer;
use annals_shared::history::HistoryError;
use annals_shared::ingress::{Effect, Ingress, IngressError, Told};
use annals_shared::problem::Problem;
use annals_shared::record::{DeliveryFailure, Draft};
use annals_shared::request_body::BodyReader;
use annals_shared::telemetry;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::from_fn;
use axum::routing::post;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use tokio::sync::OnceCell;

/// The longest webhook body taken.
const MAX_BODY_BYTES: usize = 6 * 1024 * 1024;

/// How long a confirmation may wait for Telegram's rate limit while the webhook waits for its answer.
pub const WEBHOOK_PATIENCE: Duration = Duration::from_secs(5);

/// What the webhook needs.
pub struct Telegram {
    /// Appends and enqueues.
    pub ingress: Ingress,
    /// Sends confirmations of commands.
    pub deliverer: Deliverer,
    /// How messages are read.
    pub settings: Settings,
    /// What Telegram sends as `X-Telegram-Bot-Api-Secret-Token`.
    pub secret: SecretString,
    /// Who the bot is.
    pub identity: Identity,
    /// The time.
    pub clock: Clock,
}

/// Who the bot is: its id from its token, its name from Telegram when a group first needs it.
pub struct Identity {
    id: i64,
    client: Option<Client>,
    username: OnceCell<String>,
}

impl Identity {
    /// The bot with this id, whose name `client` asks for.
    pub fn asked_for(id: i64, client: Client) -> Self {
        Self { id, client: Some(client), username: OnceCell::new() }
    }

    /// A bot that is no real one: the local program's, without a token.
    pub fn local(id: i64, username: &str) -> Self {
        Self { id, client: None, username: OnceCell::new_with(Some(username.to_owned())) }
    }

    /// The bot, with its name if `named`; an error where Telegram cannot be asked just now.
    async fn bot(&self, named: bool) -> Result<Bot, WebhookError> {
        if !named {
            return Ok(Bot { id: self.id, username: None });
        }
        let Some(client) = &self.client else {
            return Ok(Bot { id: self.id, username: self.username.get().cloned() });
        };
        let username = match self.username.get_or_try_init(async || Ok(client.get_me().await?.username)).await
        {
            Ok(username) => Some(username.clone()),
            Err(error @ SendError::Refused { .. }) => {
                // Not kept: somebody may be about to correct the token.
                tracing::error!(%error, "the bot's name is unknown, so nobody can mention it");
                None
            }
            Err(error) => return Err(WebhookError::Name(error)),
        };
        Ok(Bot { id: self.id, username })
    }
}

/// The update is not, or not known to be, stored: Telegram must deliver it again.
#[derive(Debug, thiserror::Error)]
enum WebhookError {
    #[error(transparent)]
    Ingress(#[from] IngressError),
    #[error(transparent)]
    History(#[from] HistoryError),
    #[error("Telegram does not tell the bot's name: {0}")]
    Name(SendError),
}

/// The route.
pub fn router(telegram: Telegram) -> Router {
    Router::new()
        .route("/telegram", post(webhook).fallback(async || Problem::method_not_allowed()))
        .layer(from_fn(telemetry::of_request))
        .with_state((Arc::new(telegram), BodyReader::default()))
}

async fn webhook(
    State((telegram, bodies)): State<(Arc<Telegram>, BodyReader)>,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, Problem> {
    let header = headers.get(SECRET_HEADER).map(HeaderValue::as_bytes);
    if !secret_matches(header, telegram.secret.expose_secret()) {
        return Err(Problem::unauthorized("X-Telegram-Bot-Api-Secret-Token is missing or wrong"));
    }
    let body = bodies.read(body, MAX_BODY_BYTES, &telegram.clock).await;
    let body = body.map_err(|error| error.problem("a request may have at most 6 MiB"))?;
    let not_an_update =
        || Problem::bad_request("not-an-update", "Not an update", "the body is no JSON object");
    let update: Value = serde_json::from_slice(&body).map_err(|_| not_an_update())?;
    drop(body);

    let received = async {
        let bot = telegram.identity.bot(parse::needs_username(&update)).await?;
        match parse::parse(&update, &bot, &telegram.settings) {
            Ok(incoming) => {
                for item in &incoming {
                    telegram.receive(item).await?;
                }
                Ok(Some(()))
            }
            Err(_) => Ok(None),
        }
    };
    match received.await {
        Ok(Some(())) => Ok(StatusCode::OK),
        Ok(None) => Err(not_an_update()),
        Err::<_, WebhookError>(error) => {
            tracing::error!(%error, "an update is not stored; Telegram will deliver it again");
            Err(Problem::unavailable())
        }
    }
}

impl Telegram {
    /// Takes a press up; then tells whoever pressed. That word is a courtesy: where Telegram does not take it, the press
    /// counts all the same.
    async fn press(&self, press: &Press) -> Result<(), WebhookError> {
        telemetry::about(&press.by.chat);
        let told = if self.ingress.admits_press(&press.by) {
            self.ingress.pressed(&press.button, &press.by).await?
        } else {
            Told::refused()
        };
        let Some(client) = &self.identity.client else { return Ok(()) };
        if let Err(error) =
            client.answer_callback(&press.callback_id, &told.text, told.effect == Effect::Refused).await
        {
            tracing::info!(%error, "a press is not answered");
        }
        if told.effect == Effect::Settled
            && let Err(error) = client.edit_keyboard(&press.under, &press.left).await
        {
            tracing::info!(%error, "answered buttons stay");
        }
        Ok(())
    }

    async fn message(&self, draft: &Draft) -> Result<(), WebhookError> {
        let appended = self.ingress.receive(draft).await?;
        tracing::info!(outcome = ?appended.outcome, asks = draft.asks, "message");
        Ok(())
    }

    async fn receive(&self, incoming: &Incoming) -> Result<(), WebhookError> {
        match incoming {
            Incoming::Message(draft) => {
                telemetry::about(&draft.chat);
                match self.ingress.admit(draft).await {
                    Admission::Full => self.message(draft).await?,
                    Admission::Context => self.message(&draft.as_context()).await?,
                    Admission::Refused => {}
                }
            }
            Incoming::Command { command, draft } => {
                telemetry::about(&draft.chat);
                match self.ingress.admit(draft).await {
                    Admission::Full => {}
                    Admission::Context => return self.message(&draft.as_context()).await,
                    Admission::Refused => return Ok(()),
                }
                let now = self.clock.now();
                let appended = self.ingress.command_and_tell(command, draft, &self.deliverer, now).await?;
                tracing::info!(outcome = ?appended.outcome, "command");
            }
            Incoming::Migration { old, new, at, event } => {
                telemetry::about(new);
                if self.ingress.admit(event).await == Admission::Refused {
                    return Ok(());
                }
                self.ingress.history().rename(old, new, *at).await?;
                self.ingress.receive(event).await?;
                tracing::info!(old = %old.session_id(), "a group has moved");
            }
            Incoming::Membership { chat, can_write, at } => {
                telemetry::about(chat);
                if !self.ingress.access().may_hold(chat) {
                    return Ok(());
                }
                let left = DeliveryFailure { reason: "the bot was blocked or removed".into(), at: *at };
                self.ingress.history().set_blocked(chat, Some(&left).filter(|_| !can_write)).await?;
                tracing::info!(can_write, "membership");
            }
            Incoming::Press(press) => self.press(press).await?,
            Incoming::Ignored { kind, reason } => tracing::info!(kind, reason, "update ignored"),
        }
        Ok(())
    }
}
