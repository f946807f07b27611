//! Interactions that are responded to before they are carried out: [`Deferral`].
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
use annals_channel::webhook::Response;
use reqwest::Method;
use serde_json::{Value, json};

use crate::buttons::Incoming;
use crate::client::{Client, SendError};
use crate::render::without_previews;
use crate::{interaction, respond};

/// Types of responses: a message, and the message of a pressed button.
const MESSAGE: i64 = 4;
const UPDATE: i64 = 7;

/// An interaction whose response may follow later.
pub struct Deferral {
    id: String,
    token: String,
    /// The response until then.
    response: Value,
    is_press: bool,
    /// The response if the interaction could not be stored.
    pub(crate) failure: Response,
}

impl Deferral {
    /// Reads an interaction; `None` for other calls, and for one that nothing is done for.
    pub(crate) fn of(event: &Value, settings: &Settings) -> Option<Self> {
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
        Some(Self { id, token, response, is_press, failure })
    }
}

impl Client {
    /// Tells Discord that the response follows.
    pub(crate) async fn defer(&self, call: &Deferral) -> Result<(), SendError> {
        let path = ["interactions", &call.id, &call.token, "callback"];
        self.answer_interaction("defer response", Method::POST, &path, &call.response).await
    }

    /// Sends the response that follows. Does nothing if it says that an answer follows, which the agent sends.
    pub(crate) async fn respond_later(&self, call: &Deferral, response: &Value) -> Result<(), SendError> {
        let (kind, mut data) = (response["type"].as_i64(), response["data"].clone());
        match kind {
            Some(MESSAGE) if call.is_press => {
                let path = ["webhooks", self.application_id(), &call.token];
                self.answer_interaction("respond to pressed button", Method::POST, &path, &data).await
            }
            Some(MESSAGE | UPDATE) => {
                if let Some(flags) = data.get("flags").and_then(Value::as_u64) {
                    // It has been decided who sees it.
                    data["flags"] = json!(flags & without_previews(0));
                }
                let path = ["webhooks", self.application_id(), &call.token, "messages", "@original"];
                self.answer_interaction("send deferred response", Method::PATCH, &path, &data).await
            }
            _ => Ok(()),
        }
    }
}
