//! `POST /lark`: [`LarkWebhook`].
//!
//! Lark delivers an event again after a 5xx (after 15 s, 5 min, 1 h and 6 h). An event of another kind is answered with
//! 200. All calls that are not Lark's get the same answer.
//!
//! Source: <https://open.feishu.cn/document/server-docs/event-subscription-guide/overview>.

use std::time::Duration;

use annals_channel::settings::Settings;
use annals_channel::webhook::{
    ApprovalResult, Effect, Events, MAX_BODY_BYTES, Patience, Press, ReadError, Response, Unverified,
    Verified, Webhook,
};
use annals_core::command::Command;
use annals_core::draft::Draft;
use annals_core::record::Channel;
use annals_core::sort_key::{MessageId, Timestamp};
use reqwest::header::{HeaderMap, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio::time::timeout;

use crate::bot::Bot;
use crate::client::{CallError, Client};
use crate::listed::with_children;
use crate::parse::{self, Incoming, parse};
use crate::verify::{self, Secrets, Signature, verify};

/// Longest body of a call without a signature if an encrypt key is set, in bytes. Lark then signs every event; only its
/// challenge, of about 300 bytes, comes unsigned.
const MAX_UNSIGNED_BYTES: usize = 4096;

/// Time in which an event is stored. Lark waits three seconds.
const DEADLINE: Duration = Duration::from_millis(2500);
/// Longest wait for Lark's rate limit while the webhook waits for its answer. Lark waits three seconds for ours.
pub const WEBHOOK_PATIENCE: Duration = Duration::from_secs(1);
/// Longest time for one question to Lark's API, without whose answer an event cannot be stored. It is asked again when Lark
/// delivers the event again.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest time for a question without whose answer an event is stored all the same.
const ADVISORY_TIMEOUT: Duration = Duration::from_secs(1);
/// Age from which a message comes by a redelivery. Lark's first redelivery is after 15 seconds.
const LATE: Duration = Duration::from_secs(10);

/// The webhook of one app.
pub struct LarkWebhook {
    /// Settings of all channels.
    pub settings: Settings,
    /// `LARK_VERIFICATION_TOKEN`
    pub verification_token: SecretString,
    /// `LARK_ENCRYPT_KEY`, if the app encrypts its events.
    pub encrypt_key: Option<SecretString>,
    /// Identity of the bot.
    pub identity: Identity,
}

/// Identity of the bot: the app id from the settings, and its `open_id` from Lark as soon as a group needs it.
pub struct Identity {
    app_id: Option<String>,
    client: Option<Client>,
    open_id: OnceCell<String>,
}

impl Identity {
    /// Creates the identity of the bot of this app, whose `open_id` `client` asks for.
    pub fn asked_for(app_id: String, client: Client) -> Self {
        Self { app_id: Some(app_id), client: Some(client), open_id: OnceCell::new() }
    }

    /// Creates the identity of the local program's bot, which Lark does not know.
    pub fn local(open_id: &str) -> Self {
        Self { app_id: None, client: None, open_id: OnceCell::new_with(Some(open_id.to_owned())) }
    }

    /// Returns the bot, with its `open_id` if `named`.
    async fn bot(&self, named: bool) -> Result<Bot, ReadError> {
        let app_id = self.app_id.clone();
        let Some(client) = self.client.as_ref().filter(|_| named) else {
            return Ok(Bot { app_id, open_id: self.open_id.get().cloned() });
        };
        let ask = async || Ok(client.bot_info().await?.open_id);
        let asked = timeout(QUESTION_TIMEOUT, self.open_id.get_or_try_init(ask)).await;
        match asked.map_err(|_| ReadError::Late)? {
            Ok(open_id) => Ok(Bot { app_id, open_id: Some(open_id.clone()) }),
            Err(error) if CallError::is_permanent(&error) => {
                // Not kept, since the app's settings may be corrected at any time.
                tracing::error!(%error, "failed to get the bot's open_id, so that mentions of it are not seen");
                Ok(Bot { app_id, open_id: None })
            }
            Err(error) => Err(ReadError::Platform(error.to_string())),
        }
    }

    /// Returns what the API has of a message; nothing if there is no API, or if it refuses for good, so that a missing
    /// permission holds no message back.
    async fn message(&self, message_id: &MessageId) -> Result<Vec<Value>, ReadError> {
        let Some(client) = &self.client else { return Ok(Vec::new()) };
        let asked = timeout(QUESTION_TIMEOUT, client.get_message(message_id.as_str())).await;
        match asked.map_err(|_| ReadError::Late)? {
            Err(error) if error.is_permanent() => {
                tracing::warn!(%error, "failed to get a message from Lark; continuing without it");
                Ok(Vec::new())
            }
            answer => answer.map_err(|error| ReadError::Platform(error.to_string())),
        }
    }
}

impl LarkWebhook {
    fn is_unsigned_challenge(&self, headers: &HeaderMap) -> bool {
        self.encrypt_key.is_some() && signature(headers).signature.is_none()
    }

    /// Returns the event with the topic of its message, if the event leaves that out.
    async fn with_thread(&self, event: Value) -> Result<Value, ReadError> {
        let Some(message_id) = parse::missing_thread(&event) else { return Ok(event) };
        let items = self.identity.message(&message_id).await?;
        let thread_id = items.first().and_then(|item| item.get("thread_id")).and_then(Value::as_str);
        Ok(match thread_id {
            Some(thread_id) => parse::with_thread(event, thread_id),
            None => event,
        })
    }
}

fn signature(headers: &HeaderMap) -> Signature<'_> {
    Signature::of(|name| headers.get(name).map(HeaderValue::as_bytes))
}

impl Webhook for LarkWebhook {
    type Button = ();

    const CHANNEL: Channel = Channel::Lark;
    const PATH: &'static str = "/lark";
    const REFUSAL: &'static str = "the call is not signed, encrypted or marked as Lark's calls are";
    const LEFT: &'static str = "the bot was removed, or the group is gone";

    fn body_limit(&self, headers: &HeaderMap) -> Result<usize, Unverified> {
        Ok(if self.is_unsigned_challenge(headers) { MAX_UNSIGNED_BYTES } else { MAX_BODY_BYTES })
    }

    fn verify(&self, headers: &HeaderMap, body: &[u8]) -> Result<Verified, Unverified> {
        let secrets = Secrets {
            encrypt_key: self.encrypt_key.as_ref().map(ExposeSecret::expose_secret),
            verification_token: self.verification_token.expose_secret(),
        };
        match verify(&signature(headers), body, &secrets) {
            Ok(verify::Verified::Challenge(challenge)) => {
                Ok(Verified::Answer(Response::Json(json!({ "challenge": challenge }))))
            }
            Ok(verify::Verified::Event(event)) => Ok(Verified::Event(event)),
            Err(error) => {
                tracing::warn!(reason = ?error.reason, "refused a call to /lark that is not from Lark");
                Err(Unverified)
            }
        }
    }

    async fn read(&self, event: Value) -> Result<Events<()>, ReadError> {
        let event = self.with_thread(event).await?;
        let bot = self.identity.bot(parse::needs_open_id(&event)).await?;
        let has_own_time = parse::has_own_time(&event);
        let mut incoming = parse(&event, &bot, &self.settings)?;
        for incoming in &mut incoming {
            if let Incoming::Withdrawal { message_id, places, .. } = incoming {
                let items = self.identity.message(message_id).await?;
                places.exact = items.first().and_then(|item| parse::places(item, &self.settings));
            }
        }
        Ok(Events {
            incoming,
            has_own_time,
            response: Response::Json(json!({})),
            refusal: Response::Json(json!({})),
        })
    }

    /// Adds the messages that a merged message forwards.
    async fn complete(&self, draft: Draft) -> Result<Draft, ReadError> {
        let items = self.identity.message(&draft.message_id).await?;
        Ok(with_children(draft, &items))
    }

    fn patience(&self, _event: &Value) -> Patience {
        Patience::Redelivered(DEADLINE)
    }

    /// Asks Lark about a message that comes late, since its recall may have come first and found nothing to change.
    async fn is_withdrawn(&self, draft: &Draft, now: Timestamp) -> bool {
        let is_late = now.since(draft.ts) > LATE;
        let Some(client) = self.identity.client.as_ref().filter(|_| is_late) else { return false };
        match timeout(ADVISORY_TIMEOUT, client.get_message(draft.message_id.as_str())).await {
            Ok(Ok(items)) => items.first().and_then(|item| item.get("deleted")) == Some(&Value::Bool(true)),
            Ok(Err(error)) => {
                tracing::warn!(%error, "failed to ask Lark whether a late message was recalled; it is stored");
                false
            }
            Err(_) => false,
        }
    }

    async fn respond_to_press(&self, _press: &Press<()>, result: &ApprovalResult) -> Option<Response> {
        let kind = if result.effect == Effect::Refused { "warning" } else { "success" };
        Some(Response::Json(json!({"toast": {"type": kind, "content": result.text}})))
    }

    /// Returns `None`: Lark shows no text of a response.
    fn respond_to_command(
        &self,
        _command: &Command,
        _draft: &Draft,
        _confirmation: &str,
    ) -> Option<Response> {
        None
    }
}
