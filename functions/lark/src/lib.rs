//! `POST /lark`: Lark's (Feishu's) event subscription.
//!
//! Verify, parse, append, enqueue, and only then 200. Any failure before that is a 503, which makes Lark deliver the
//! event again (after 15 s, 5 min, 1 h and 6 h); an event of another kind is a 200 and one line in the log. Every way in
//! which a call can be no call of Lark's has one answer.
//!
//! Source of the protocol facts: <https://open.feishu.cn/document/server-docs/event-subscription-guide/overview>.

mod recall;

use std::sync::Arc;
use std::time::Duration;

use annals_shared::access::Admission;
use annals_shared::channel::lark::bot::Bot;
use annals_shared::channel::lark::client::{Client, SendError};
use annals_shared::channel::lark::listed::with_children;
use annals_shared::channel::lark::parse::{self, Incoming};
use annals_shared::channel::lark::verify::{Reason, Secrets, Signature, Verified, verify};
use annals_shared::channel::settings::Settings;
use annals_shared::clock::Clock;
use annals_shared::delivery::Deliverer;
use annals_shared::history::HistoryError;
use annals_shared::ingress::{Effect, Ingress, IngressError, Told};
use annals_shared::problem::Problem;
use annals_shared::record::{DeliveryFailure, Draft};
use annals_shared::request_body::{BodyError, BodyReader};
use annals_shared::telemetry;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::from_fn;
use axum::routing::post;
use axum::{Json, Router};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio::time::error::Elapsed;
use tokio::time::timeout;

/// The longest webhook body taken.
const MAX_BODY_BYTES: usize = 6 * 1024 * 1024;
/// The longest body taken without a signature where an encrypt key is set: Lark signs every event then, and only its
/// challenge of some 300 bytes comes unsigned.
const MAX_UNSIGNED_BYTES: usize = 4096;

/// How long a call of Lark's API may wait for its rate limit while the webhook waits for its answer: Lark gives it
/// three seconds.
pub const WEBHOOK_PATIENCE: Duration = Duration::from_secs(1);

/// How long one question to Lark's API may take in all there. What is not answered by then is asked again when Lark
/// delivers the event again.
const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(2);

/// How long the whole of an event may take, so that Lark has its answer within three seconds.
const WEBHOOK_DEADLINE: Duration = Duration::from_millis(2500);
/// How long a question may take without whose answer an event is stored all the same.
const ADVISORY_TIMEOUT: Duration = Duration::from_secs(1);
/// How old a message is that comes by a redelivery: Lark's first comes 15 seconds behind.
const LATE: Duration = Duration::from_secs(10);

/// What the webhook needs.
pub struct Lark {
    /// Appends and enqueues.
    pub ingress: Ingress,
    /// Sends confirmations of commands.
    pub deliverer: Deliverer,
    /// How messages are read.
    pub settings: Settings,
    /// `LARK_VERIFICATION_TOKEN`
    pub verification_token: SecretString,
    /// `LARK_ENCRYPT_KEY`, where events are encrypted.
    pub encrypt_key: Option<SecretString>,
    /// Who the bot is.
    pub identity: Identity,
    /// The time.
    pub clock: Clock,
}

/// Who the bot is: the app by its settings, its `open_id` from Lark when a group first needs it.
pub struct Identity {
    app_id: Option<String>,
    client: Option<Client>,
    open_id: OnceCell<String>,
}

impl Identity {
    /// The bot of this app, whose `open_id` `client` asks for.
    pub fn asked_for(app_id: String, client: Client) -> Self {
        Self { app_id: Some(app_id), client: Some(client), open_id: OnceCell::new() }
    }

    /// A bot that is no real one: the local program's, without an app.
    pub fn local(open_id: &str) -> Self {
        Self { app_id: None, client: None, open_id: OnceCell::new_with(Some(open_id.to_owned())) }
    }

    /// The bot, with its `open_id` if `named`; an error where Lark cannot be asked just now.
    async fn bot(&self, named: bool) -> Result<Bot, WebhookError> {
        let app_id = self.app_id.clone();
        let Some(client) = self.client.as_ref().filter(|_| named) else {
            return Ok(Bot { app_id, open_id: self.open_id.get().cloned() });
        };
        let ask = async || Ok(client.bot_info().await?.open_id);
        match timeout(WEBHOOK_TIMEOUT, self.open_id.get_or_try_init(ask)).await? {
            Ok(open_id) => Ok(Bot { app_id, open_id: Some(open_id.clone()) }),
            Err(error) if SendError::is_permanent(&error) => {
                // Not kept: somebody may be about to correct the app's settings.
                tracing::error!(%error, "the bot's open_id is unknown, so nobody can mention it");
                Ok(Bot { app_id, open_id: None })
            }
            Err(error) => Err(WebhookError::Lark(error)),
        }
    }
}

/// The event is not, or not known to be, stored: Lark must deliver it again.
#[derive(Debug, thiserror::Error)]
enum WebhookError {
    #[error(transparent)]
    Ingress(#[from] IngressError),
    #[error(transparent)]
    History(#[from] HistoryError),
    #[error("Lark does not tell what the event leaves out: {0}")]
    Lark(#[from] SendError),
    #[error("the event took longer than Lark waits")]
    Late(#[from] Elapsed),
    #[error("a message was recalled that may still be on its way")]
    EarlyRecall,
    #[error(transparent)]
    Parse(#[from] parse::ParseError),
}

/// The route.
pub fn router(lark: Lark) -> Router {
    Router::new()
        .route("/lark", post(webhook).fallback(async || Problem::method_not_allowed()))
        .layer(from_fn(telemetry::of_request))
        .with_state((Arc::new(lark), BodyReader::default()))
}

async fn webhook(
    State((lark, bodies)): State<(Arc<Lark>, BodyReader)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, Problem> {
    let signature = Signature::of(|name| headers.get(name).map(HeaderValue::as_bytes));
    let is_unsigned_challenge = lark.encrypt_key.is_some() && signature.signature.is_none();
    let limit = if is_unsigned_challenge { MAX_UNSIGNED_BYTES } else { MAX_BODY_BYTES };
    let body = match bodies.read(body, limit, &lark.clock).await {
        Ok(body) => body,
        Err(BodyError::TooLarge) if is_unsigned_challenge => return Err(refused(Reason::Unsigned)),
        Err(error) => return Err(error.problem("a request may have at most 6 MiB")),
    };
    let secrets = Secrets {
        encrypt_key: lark.encrypt_key.as_ref().map(ExposeSecret::expose_secret),
        verification_token: lark.verification_token.expose_secret(),
    };
    let verified = verify(&signature, &body, &secrets);
    drop(body);
    match verified {
        Ok(Verified::Challenge(challenge)) => Ok(Json(json!({ "challenge": challenge }))),
        // Cut off anywhere, an event is taken up again by its redelivery.
        Ok(Verified::Event(event)) => match in_time(Box::pin(lark.receive(event))).await {
            Ok(answer) => Ok(Json(answer)),
            Err(error) => {
                tracing::error!(%error, "an event is not stored; Lark will deliver it again");
                Err(Problem::unavailable())
            }
        },
        Err(error) => Err(refused(error.reason)),
    }
}

/// 401, the same for every reason: whoever forges learns it from the log alone.
fn refused(reason: Reason) -> Problem {
    tracing::warn!(?reason, "a call to /lark is not Lark's");
    Problem::unauthorized("the call is not signed, encrypted or marked as Lark's calls are")
}

impl Lark {
    /// What the event is answered with: nothing but for a press on a button, which gets a word for whoever pressed.
    async fn receive(&self, event: Value) -> Result<Value, WebhookError> {
        let mut answer = json!({});
        let event = self.with_thread(event).await?;
        let bot = self.identity.bot(parse::needs_open_id(&event)).await?;
        let has_own_time = parse::has_own_time(&event);
        for incoming in parse::parse(&event, &bot, &self.settings)? {
            match incoming {
                Incoming::Message(draft) => self.message(*draft, has_own_time).await?,
                Incoming::MergeForward(draft) => {
                    telemetry::about(&draft.chat);
                    if self.ingress.admit(&draft).await == Admission::Refused {
                        continue;
                    }
                    let draft = self.with_forwarded(*draft).await?;
                    self.message(draft, has_own_time).await?;
                }
                Incoming::Command { command, draft } => {
                    telemetry::about(&draft.chat);
                    match self.ingress.admit(&draft).await {
                        Admission::Full => {}
                        Admission::Context => {
                            self.message(*draft, has_own_time).await?;
                            continue;
                        }
                        Admission::Refused => continue,
                    }
                    let draft = self.timed(*draft, has_own_time).await?;
                    let now = self.clock.now();
                    let appended =
                        self.ingress.command_and_tell(&command, &draft, &self.deliverer, now).await?;
                    tracing::info!(outcome = ?appended.outcome, "command");
                }
                Incoming::Recall { chat_id, message_id, at } => {
                    self.recall(&chat_id, &message_id, at).await?;
                }
                Incoming::Membership { chat, can_write, at } => {
                    telemetry::about(&chat);
                    if !self.ingress.access().may_hold(&chat) {
                        continue;
                    }
                    let left =
                        DeliveryFailure { reason: "the bot was removed, or the group is gone".into(), at };
                    self.ingress.history().set_blocked(&chat, Some(&left).filter(|_| !can_write)).await?;
                    tracing::info!(can_write, "membership");
                }
                Incoming::Entered { chat, .. } => {
                    telemetry::about(&chat);
                    self.ingress.history().set_blocked(&chat, None).await?;
                    tracing::info!("chat entered");
                }
                Incoming::Press(press) => {
                    telemetry::about(&press.by.chat);
                    let told = if self.ingress.admits_press(&press.by) {
                        self.ingress.pressed(&press.button, &press.by).await?
                    } else {
                        Told::refused()
                    };
                    let kind = if told.effect == Effect::Refused { "warning" } else { "success" };
                    answer = json!({"toast": {"type": kind, "content": told.text}});
                }
                Incoming::Ignored { kind, reason } => tracing::info!(kind, reason, "event ignored"),
            }
        }
        Ok(answer)
    }

    async fn message(&self, draft: Draft, has_own_time: bool) -> Result<(), WebhookError> {
        telemetry::about(&draft.chat);
        let draft = match self.ingress.admit(&draft).await {
            Admission::Full => draft,
            Admission::Context => draft.as_context(),
            Admission::Refused => return Ok(()),
        };
        let mut draft = self.timed(draft, has_own_time).await?;
        if self.is_taken_back(&draft).await {
            // Kept for the audit, and in no context from the first.
            draft.asks = false;
            draft.metadata.insert("recalled".into(), json!(true));
        }
        let appended = self.ingress.receive(&draft).await?;
        tracing::info!(outcome = ?appended.outcome, asks = draft.asks, "message");
        Ok(())
    }

    /// Whether a message that comes late has been taken back meanwhile: its recall may have come first, when there was
    /// nothing yet to take back. Where Lark does not tell at once, it counts as standing: to ask must lose no message.
    async fn is_taken_back(&self, draft: &Draft) -> bool {
        let is_late = self.clock.now().since(draft.ts) > LATE;
        let Some(client) = self.identity.client.as_ref().filter(|_| is_late) else { return false };
        match timeout(ADVISORY_TIMEOUT, client.get_message(draft.message_id.as_str())).await {
            Ok(Ok(items)) => items.first().and_then(|item| item.get("deleted")) == Some(&Value::Bool(true)),
            Ok(Err(error)) => {
                tracing::warn!(%error, "Lark does not tell whether a late message still stands");
                false
            }
            Err(_) => false,
        }
    }

    /// The draft with the first time that came with its id, where the event's time is not the message's own.
    async fn timed(&self, draft: Draft, has_own_time: bool) -> Result<Draft, WebhookError> {
        if has_own_time {
            return Ok(draft);
        }
        let ts = self.ingress.history().first_time(&draft.chat, &draft.message_id, draft.ts).await?;
        Ok(Draft { ts, form_ts: None, ..draft })
    }

    /// The event with the topic that its message is in, where the event leaves that out.
    async fn with_thread(&self, event: Value) -> Result<Value, WebhookError> {
        let (Some(client), Some(message_id)) = (&self.identity.client, parse::missing_thread(&event)) else {
            return Ok(event);
        };
        let items = asked(client.get_message(message_id.as_str())).await?;
        let thread_id = items.first().and_then(|item| item.get("thread_id")).and_then(Value::as_str);
        Ok(match thread_id {
            Some(thread_id) => parse::with_thread(event, thread_id),
            None => event,
        })
    }

    /// A message that holds others, with them.
    async fn with_forwarded(&self, draft: Draft) -> Result<Draft, WebhookError> {
        let Some(client) = &self.identity.client else { return Ok(draft) };
        let items = asked(client.get_message(draft.message_id.as_str())).await?;
        Ok(with_children(draft, &items))
    }
}

async fn in_time(
    receiving: impl Future<Output = Result<Value, WebhookError>>,
) -> Result<Value, WebhookError> {
    timeout(WEBHOOK_DEADLINE, receiving).await?
}

/// What the API gives; nothing where it refuses for good, so that a missing permission holds no message back.
async fn asked(
    question: impl Future<Output = Result<Vec<Value>, SendError>>,
) -> Result<Vec<Value>, WebhookError> {
    match timeout(WEBHOOK_TIMEOUT, question).await? {
        Err(error) if error.is_permanent() => {
            tracing::warn!(%error, "Lark does not tell what the event leaves out; going on without it");
            Ok(Vec::new())
        }
        answer => Ok(answer?),
    }
}
