//! The application: its endpoints and its commands.
//!
//! Source: <https://discord.com/developers/docs/resources/application>.

use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{CallError, Client};
use crate::parse::WEBHOOK_EVENTS;

/// `GATEWAY_MESSAGE_CONTENT` and `GATEWAY_MESSAGE_CONTENT_LIMITED`.
const MESSAGE_CONTENT: u64 = (1 << 18) | (1 << 19);
/// Permissions of the bot in a guild that installs it: view channels, send messages (in threads, too), attach files, read the
/// history.
const PERMISSIONS: u64 = (1 << 10) | (1 << 11) | (1 << 15) | (1 << 16) | (1 << 38);
/// `event_webhooks_status`: enabled.
const ENABLED: u8 = 2;

/// The application, as Discord has it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Application {
    /// Its id.
    pub id: String,
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Its public key, in hex.
    #[serde(default)]
    pub verify_key: String,
    /// Address of interactions.
    pub interactions_endpoint_url: Option<String>,
    /// Address of webhook events.
    pub event_webhooks_url: Option<String>,
    #[serde(default)]
    flags: u64,
}

impl Application {
    /// Returns true if the gateway may send the content of all messages.
    pub fn has_message_content(&self) -> bool {
        self.flags & MESSAGE_CONTENT != 0
    }
}

impl Client {
    /// Reads the application of the bot's token.
    pub async fn application(&self) -> Result<Application, CallError> {
        self.as_bot("get current application", Method::GET, self.api.url(&["applications", "@me"]), None)
            .await
    }

    /// Sets `url` as the address of interactions and of webhook events, and how people install the application: for a server,
    /// and for themselves. Discord checks the address first, with a valid and an invalid signature.
    pub async fn set_endpoints(&self, url: &str) -> Result<Application, CallError> {
        let body = json!({
            "interactions_endpoint_url": url,
            "event_webhooks_url": url,
            "event_webhooks_status": ENABLED,
            "event_webhooks_types": WEBHOOK_EVENTS,
            "integration_types_config": {
                "0": {"oauth2_install_params": {
                    "scopes": ["applications.commands", "bot"], "permissions": PERMISSIONS.to_string(),
                }},
                "1": {"oauth2_install_params": {"scopes": ["applications.commands"], "permissions": "0"}},
            },
        });
        let url = self.api.url(&["applications", "@me"]);
        self.as_bot("edit current application", Method::PATCH, url, Some(&body)).await
    }

    /// Replaces the application's commands; returns their number.
    pub async fn set_commands(&self, commands: &[Value]) -> Result<usize, CallError> {
        let url = self.api.url(&["applications", &self.application_id, "commands"]);
        let body = Value::from(commands);
        let set: Vec<Value> = self.as_bot("overwrite global commands", Method::PUT, url, Some(&body)).await?;
        Ok(set.len())
    }

    /// Reads the names of the application's commands.
    pub async fn command_names(&self) -> Result<Vec<String>, CallError> {
        let url = self.api.url(&["applications", &self.application_id, "commands"]);
        let commands: Vec<Value> = self.as_bot("get global commands", Method::GET, url, None).await?;
        let name = |command: Value| command["name"].as_str().map(str::to_owned);
        Ok(commands.into_iter().filter_map(name).collect())
    }
}
