//! Sends messages: answers to interactions, and messages of the bot.

use annals_channel::client::WaitBudget;
use reqwest::Method;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use super::answer::{NO_HISTORY, is_deleted, is_ended};
use super::{Call, CallError, Client};
use crate::address::Address;
use crate::render::{no_mentions, without_previews};

/// The field with the message that a message replies to.
const REFERENCE: &str = "message_reference";

/// A message of a reply.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The text.
    pub content: &'a str,
    /// The rest of the reply, to be sent as a file, if there is one.
    pub file: Option<&'a str>,
    /// The buttons.
    pub components: Option<&'a Value>,
    /// See [`nonce`].
    pub nonce: &'a str,
    /// True for the first message of the first answer.
    pub is_first: bool,
}

/// Returns the `nonce` of message number `index` of the reply that is stored at `key` (chat and sort key): 24 characters, the
/// same in every attempt.
pub fn nonce(key: &str, index: usize) -> String {
    let hash = digest(&SHA256, format!("{key}\n{index}").as_bytes());
    hex::encode(&hash.as_ref()[..12])
}

impl Client {
    /// Sends `message`: as the answer to the interaction of `address` or a follow-up of it, or if that is over, as a message of
    /// the bot in the channel.
    pub async fn send_message(&self, address: &Address, message: Message<'_>) -> Result<(), CallError> {
        let mut budget = self.api.budget();
        let token = address.token.as_ref().and_then(|token| token.at(self.api.clock.now()));
        if let Some(token) = token {
            let answered = if message.is_first {
                match self.edit_original(token, message, &mut budget).await {
                    Err(error) if is_deleted(&error) => self.follow_up(token, message, &mut budget).await,
                    edited => edited,
                }
            } else {
                self.follow_up(token, message, &mut budget).await
            };
            match answered {
                Err(error) if is_ended(&error) => {
                    tracing::info!("an interaction has ended; its answer goes to the channel");
                }
                answered => return answered,
            }
        }
        self.create(address, message, &mut budget).await
    }

    async fn edit_original(
        &self,
        token: &str,
        message: Message<'_>,
        budget: &mut WaitBudget,
    ) -> Result<(), CallError> {
        let url = self.api.url(&["webhooks", &self.application_id, token, "messages", "@original"]);
        let body = body(message);
        let call = Call {
            name: "edit of the answer to an interaction",
            method: Method::PATCH,
            url,
            body: Some(&body),
            file: message.file,
            is_of_bot: false,
            is_repeatable: true,
        };
        self.send(&call, budget).await
    }

    async fn follow_up(
        &self,
        token: &str,
        message: Message<'_>,
        budget: &mut WaitBudget,
    ) -> Result<(), CallError> {
        let mut url = self.api.url(&["webhooks", &self.application_id, token]);
        url.query_pairs_mut().append_pair("wait", "true");
        let body = body(message);
        let call = Call {
            name: "follow-up to an interaction",
            method: Method::POST,
            url,
            body: Some(&body),
            file: message.file,
            is_of_bot: false,
            is_repeatable: false,
        };
        self.send(&call, budget).await
    }

    async fn create(
        &self,
        address: &Address,
        message: Message<'_>,
        budget: &mut WaitBudget,
    ) -> Result<(), CallError> {
        let mut body = body(message);
        body["nonce"] = message.nonce.into();
        body["enforce_nonce"] = true.into();
        let may_refer = message.is_first && !self.invalid.is_without_history(&address.channel_id);
        if let Some(id) = address.message_id.as_deref().filter(|_| may_refer) {
            body[REFERENCE] = json!({"message_id": id, "fail_if_not_exists": false});
        }
        loop {
            let call = Call {
                name: "create message",
                method: Method::POST,
                url: self.api.url(&["channels", &address.channel_id, "messages"]),
                body: Some(&body),
                file: message.file,
                is_of_bot: true,
                // By its nonce.
                is_repeatable: true,
            };
            match self.send(&call, budget).await {
                Err(CallError::Refused { code: NO_HISTORY, .. })
                    if body.as_object_mut().is_some_and(|body| body.remove(REFERENCE).is_some()) =>
                {
                    self.invalid.note_without_history(&address.channel_id);
                }
                sent => return sent,
            }
        }
    }

    async fn send(&self, call: &Call<'_>, budget: &mut WaitBudget) -> Result<(), CallError> {
        self.api.wait_for_slot(budget).await?;
        self.call::<Value>(call, budget).await.map(|_| ())
    }
}

fn body(message: Message<'_>) -> Value {
    let mut body = json!({
        "content": message.content,
        "flags": without_previews(0),
        "allowed_mentions": no_mentions(),
    });
    if let Some(components) = message.components {
        body["components"] = components.clone();
    }
    body
}
