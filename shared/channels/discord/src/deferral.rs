//! Interactions that are responded to before they are carried out: [`Interaction`].
//!
//! ```text
//! POST  /interactions/<id>/<token>/callback {"type": 5, "data": {"flags": 64}}          in three seconds
//! PATCH /webhooks/<application>/<token>/messages/@original {"content": "I remember …"}  later
//! POST  /webhooks/<application>/<token> {"content": "You may not …", "flags": 64}       later, to a pressed button
//! ```
//!
//! Discord then needs no response to its own call, so this works in a function, too, which ends with its response.
//!
//! Source: <https://discord.com/developers/docs/interactions/receiving-and-responding#interaction-callback>.

use annals_channel::json::JsonView;
use annals_channel::settings::Settings;
use annals_channel::webhook::{Deferral, Incoming, Response};
use async_trait::async_trait;
use reqwest::Method;
use serde_json::{Value, json};

use crate::client::{CallError, Client};
use crate::render::without_previews;
use crate::{interaction, respond};

/// Types of responses: a message, and the message of a pressed button.
const MESSAGE: i64 = 4;
const UPDATE: i64 = 7;

/// An interaction whose response may follow later.
pub struct Interaction {
    client: Client,
    id: String,
    token: String,
    /// The response until then.
    response: Value,
    is_press: bool,
    /// The response if the interaction could not be stored.
    failure: Response,
}

impl Interaction {
    /// Reads an interaction; `None` for other calls, and for one that nothing is done for.
    pub(crate) fn of(event: &Value, settings: &Settings, client: &Client) -> Option<Self> {
        let call = JsonView::of(event)?;
        let (id, token) = (call.id("id")?.to_owned(), call.text("token")?.to_owned());
        let (incoming, response) = interaction::parse(call, settings);
        let incoming = incoming.ok()?;
        let is_press = matches!(incoming, Incoming::Press(_));
        let response = match (&incoming, response) {
            (Incoming::Command { command, .. }, _) => respond::deferred_command(command),
            (Incoming::Press(_), _) => respond::deferred_press(),
            (_, Response::Json(response)) => response,
            _ => return None,
        };
        let failure = respond::privately(interaction::texts(call, settings).did_not_work());
        Some(Self { client: client.clone(), id, token, response, is_press, failure })
    }

    /// Sends the response that follows. Does nothing if it says that an answer follows, which the agent sends.
    async fn send(&self, response: &Value) -> Result<(), CallError> {
        let (kind, mut data) = (response["type"].as_i64(), response["data"].clone());
        match kind {
            Some(MESSAGE) if self.is_press => {
                let path = ["webhooks", self.client.application_id(), &self.token];
                self.client.answer_interaction("respond to pressed button", Method::POST, &path, &data).await
            }
            Some(MESSAGE | UPDATE) => {
                if let Some(flags) = data.get("flags").and_then(Value::as_u64) {
                    // It has been decided who sees it.
                    data["flags"] = json!(flags & without_previews(0));
                }
                let path = ["webhooks", self.client.application_id(), &self.token, "messages", "@original"];
                self.client.answer_interaction("send deferred response", Method::PATCH, &path, &data).await
            }
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl Deferral for Interaction {
    async fn defer(&self) -> bool {
        let path = ["interactions", &self.id, &self.token, "callback"];
        let deferred =
            self.client.answer_interaction("defer response", Method::POST, &path, &self.response).await;
        if let Err(error) = &deferred {
            tracing::warn!(%error, "failed to defer the response to an interaction");
        }
        deferred.is_ok()
    }

    async fn respond(&self, response: Option<Response>) {
        let Response::Json(response) = response.as_ref().unwrap_or(&self.failure) else { return };
        if let Err(error) = self.send(response).await {
            tracing::warn!(%error, "failed to send the deferred response to an interaction");
        }
    }
}
