//! `POST /lark`: [`LarkWebhook`].
//!
//! Lark delivers an event again after a 5xx (after 15 s, 5 min, 1 h and 6 h). An event of another kind is answered with
//! 200. All calls that are not Lark's get the same answer.
//!
//! Source: <https://open.feishu.cn/document/server-docs/event-subscription-guide/overview>.

use std::time::Duration;

use annals_channel::about::About;
use annals_channel::settings::Settings;
use annals_channel::webhook::{
    ApprovalResult, Effect, Events, Incoming, MAX_BODY_BYTES, Patience, Press, ReadError, Response,
    Unverified, Verified, Webhook,
};
use annals_core::draft::Draft;
use annals_core::sort_key::{MessageId, Timestamp};
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::about::ABOUT;
use crate::bot::Bot;
use crate::client::Client;
use crate::listed::{with_children, with_parent};
use crate::metadata;
use crate::parse::{self, parse};
use crate::settings::LarkConfig;
use crate::verify::{SIGNATURE_HEADER, verify};

/// Longest body of a call without a signature if an encrypt key is set, in bytes. Lark then signs every event; only its
/// challenge, of about 300 bytes, comes unsigned.
const MAX_UNSIGNED_BYTES: usize = 4096;

/// Time in which an event is stored. Lark waits three seconds.
const DEADLINE: Duration = Duration::from_millis(2500);
/// Longest time for one question to Lark's API, without whose answer an event cannot be stored. It is asked again when Lark
/// delivers the event again.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest time for a question without whose answer an event is stored all the same.
const ADVISORY_TIMEOUT: Duration = Duration::from_secs(1);
/// Age from which a message comes by a redelivery. Lark's first redelivery is after 15 seconds.
const LATE: Duration = Duration::from_secs(10);

/// `open_id` of the bot if Lark is not set up.
const LOCAL_BOT: &str = "ou_annals";

/// The webhook of one app.
pub struct LarkWebhook {
    /// Settings of all channels.
    pub settings: Settings,
    /// Settings of the app.
    pub config: LarkConfig,
    /// The client; `None` if Lark is not set up.
    pub client: Option<Client>,
}

impl LarkWebhook {
    /// Returns the bot, with its `open_id` if `named`.
    async fn bot(&self, named: bool) -> Result<Bot, ReadError> {
        let with = |open_id| Bot { app_id: Some(self.config.app_id.clone()), open_id };
        let Some(client) = &self.client else { return Ok(with(Some(LOCAL_BOT.to_owned()))) };
        if !named {
            return Ok(with(None));
        }
        match timeout(QUESTION_TIMEOUT, client.bot()).await.map_err(|_| ReadError::Late)? {
            Err(error) if error.is_permanent() => {
                // Not kept, since the app's settings may be corrected at any time.
                tracing::error!(%error, "failed to get the bot's open_id, so that mentions of it are not seen");
                Ok(with(None))
            }
            bot => bot.map_err(|error| ReadError::Platform(error.to_string())),
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

    fn is_unsigned_challenge(&self, headers: &HeaderMap) -> bool {
        self.config.encrypt_key.is_some() && !headers.contains_key(SIGNATURE_HEADER)
    }

    /// Returns the event with the topic of its message, if the event leaves that out.
    async fn with_thread(&self, event: Value) -> Result<Value, ReadError> {
        let Some(message_id) = parse::missing_thread(&event) else { return Ok(event) };
        let items = self.message(&message_id).await?;
        let thread_id = items.first().and_then(|item| item.get("thread_id")).and_then(Value::as_str);
        Ok(match thread_id {
            Some(thread_id) => parse::with_thread(event, thread_id),
            None => event,
        })
    }
}

impl Webhook for LarkWebhook {
    const ABOUT: &'static About = &ABOUT;

    fn body_limit(&self, headers: &HeaderMap) -> Result<usize, Unverified> {
        Ok(if self.is_unsigned_challenge(headers) { MAX_UNSIGNED_BYTES } else { MAX_BODY_BYTES })
    }

    fn verify(&self, headers: &HeaderMap, body: &[u8]) -> Result<Verified, Unverified> {
        verify(headers, body, &self.config).map_err(|reason| {
            tracing::warn!(?reason, "refused a call to /lark that is not from Lark");
            Unverified
        })
    }

    async fn read(&self, event: Value) -> Result<Events, ReadError> {
        let event = self.with_thread(event).await?;
        let bot = self.bot(parse::needs_open_id(&event)).await?;
        let has_own_time = parse::has_own_time(&event);
        let mut incoming = parse(&event, &bot, &self.settings)?;
        for incoming in &mut incoming {
            if let Incoming::Withdrawal { message_id, places, .. } = incoming {
                let items = self.message(message_id).await?;
                places.exact = items.first().and_then(|item| parse::places(item, &self.settings));
            }
        }
        Ok(Events { has_own_time, ..Events::new(incoming, Response::Json(json!({}))) })
    }

    /// Adds the messages that a merged message forwards, or what the replied-to message says, if Lark gives that soon.
    async fn complete(&self, draft: Draft) -> Result<Draft, ReadError> {
        if let Some(parent) = metadata::parent_of(&draft.metadata) {
            let Some(client) = &self.client else { return Ok(draft) };
            let asked = timeout(ADVISORY_TIMEOUT, client.get_message(parent)).await;
            return Ok(match asked {
                Ok(Ok(items)) => with_parent(draft, &items, &self.bot(false).await?),
                Ok(Err(error)) => {
                    tracing::warn!(%error, "failed to get a replied-to message from Lark; continuing without it");
                    draft
                }
                Err(_) => draft,
            });
        }
        let items = self.message(&draft.message_id).await?;
        Ok(with_children(draft, &items))
    }

    fn patience(&self, _event: &Value) -> Patience {
        Patience::Redelivered(DEADLINE)
    }

    /// Asks Lark about a message that comes late, since its recall may have come first and found nothing to change.
    async fn is_withdrawn(&self, draft: &Draft, now: Timestamp) -> bool {
        let is_late = now.since(draft.ts) > LATE;
        let Some(client) = self.client.as_ref().filter(|_| is_late) else { return false };
        match timeout(ADVISORY_TIMEOUT, client.get_message(draft.message_id.as_str())).await {
            Ok(Ok(items)) => items.first().and_then(|item| item.get("deleted")) == Some(&Value::Bool(true)),
            Ok(Err(error)) => {
                tracing::warn!(%error, "failed to ask Lark whether a late message was recalled; it is stored");
                false
            }
            Err(_) => false,
        }
    }

    async fn respond_to_press(&self, _press: &Press, result: &ApprovalResult) -> Option<Response> {
        let kind = if result.effect == Effect::Refused { "warning" } else { "success" };
        Some(Response::Json(json!({"toast": {"type": kind, "content": result.text}})))
    }
}
