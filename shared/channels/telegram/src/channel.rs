//! The definition of Telegram's channel: [`Telegram`].

use annals_channel::channel::{ChannelDefinition, ProvedCall};
use annals_channel::finding::Finding;
use annals_channel::settings::Settings;
use annals_channel::setup::{Failure, Setup};
use annals_core::settings::{ConfigError, Env};
use annals_io::clock::Clock;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use crate::client::Client;
use crate::settings::{SECRET, SECRET_HEADER, TOKEN, TelegramConfig};
use crate::webhook::TelegramWebhook;
use crate::{doctor, setup};

/// Bot token for a function that runs beside the program, if Telegram is not set up. Telegram refuses it.
const DEV_TOKEN: &str = "1:development";

/// Telegram.
#[derive(Debug)]
pub struct Telegram;

impl ChannelDefinition for Telegram {
    type Config = TelegramConfig;
    type Webhook = TelegramWebhook;
    type Client = Client;

    fn config(env: Env<'_>) -> Result<Option<TelegramConfig>, ConfigError> {
        TelegramConfig::from_env(env)
    }

    fn development(secret: &SecretString) -> Vec<(&'static str, SecretString)> {
        vec![(TOKEN, DEV_TOKEN.into()), (SECRET, secret.clone())]
    }

    fn client(config: &TelegramConfig, clock: &Clock) -> Result<Client, ConfigError> {
        Client::new(&config.api_base, config.token.clone(), clock.clone())
    }

    fn webhook(config: &TelegramConfig, client: Option<Client>, settings: Settings) -> TelegramWebhook {
        TelegramWebhook { settings, config: config.clone(), client }
    }

    fn hello(today: i64) -> Value {
        json!({"update_id": 1, "message": {"message_id": 1, "date": today,
            "chat": {"id": 42, "type": "private", "first_name": "Ada"},
            "from": {"id": 42, "is_bot": false, "first_name": "Ada"}, "text": "hello"}})
    }

    fn is_own(json: &Value) -> bool {
        json.get("update_id").is_some()
    }

    fn prove(config: &TelegramConfig, _: &SecretString, body: &[u8]) -> Result<ProvedCall, &'static str> {
        let secret = config.secret.expose_secret().to_owned();
        Ok(ProvedCall { headers: vec![(SECRET_HEADER, secret)], body: body.to_vec() })
    }

    async fn setup(setup: Setup<'_>) -> Result<(), Failure> {
        setup::run(setup).await
    }

    async fn check(config: &TelegramConfig, client: &Client, settings: Option<&Settings>) -> Vec<Finding> {
        doctor::check(config, client, settings).await
    }
}
