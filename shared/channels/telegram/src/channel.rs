//! Telegram with its settings, as every program opens it, and its commands for operators: [`Telegram`].

use annals_channel::channel::{About, Clients, ConfiguredChannel, Example, Opened, Replayed};
use annals_channel::finding::Finding;
use annals_channel::platform::Registered;
use annals_channel::settings::{DeliveryConfig, Settings};
use annals_channel::setup::{Failure, Setup};
use annals_channel::webhook::Webhook;
use annals_core::record::Channel;
use annals_core::settings::{ConfigError, Env};
use annals_io::clock::Clock;
use futures::FutureExt;
use futures::future::{BoxFuture, LocalBoxFuture};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use crate::client::{BOT_RATE_LIMIT, Client, PRIVATE_RATE_LIMIT};
use crate::settings::{SECRET, TOKEN, TelegramConfig};
use crate::verify::SECRET_HEADER;
use crate::webhook::{Identity, TelegramWebhook, WEBHOOK_PATIENCE};
use crate::{doctor, setup};

/// Secret header of `/telegram` if no platform is set up.
pub const DEV_SECRET: &str = "dev-telegram-secret";
/// Bot token for a function that runs beside the program, if Telegram is not set up. Telegram refuses it.
const DEV_TOKEN: &str = "1:development";
/// Bot if Telegram is not set up: `@annals_bot`, with an id that Telegram does not use.
const LOCAL_BOT: (i64, &str) = (1, "annals_bot");

/// Telegram, with its settings if it is set up.
#[derive(Clone, Debug)]
pub struct Telegram(Option<TelegramConfig>);

impl Telegram {
    fn secret(&self, key: Option<&SecretString>) -> SecretString {
        match &self.0 {
            Some(config) => config.secret.clone(),
            None => key.cloned().unwrap_or_else(|| DEV_SECRET.into()),
        }
    }
}

impl ConfiguredChannel for Telegram {
    type Webhook = TelegramWebhook;
    type Client = Client;

    fn about() -> &'static About {
        &About {
            channel: Channel::Telegram,
            platform: "Telegram",
            path: TelegramWebhook::PATH,
            proofs: &[SECRET],
            setup: setup::COMMAND,
        }
    }

    fn from_env(env: Env<'_>) -> Result<Self, ConfigError> {
        TelegramConfig::from_env(env).map(Self)
    }

    fn open(
        &self,
        key: Option<&SecretString>,
        settings: &Settings,
        delivery: Option<&DeliveryConfig>,
        clock: &Clock,
    ) -> Result<Opened<Self>, Failure> {
        let (identity, clients) = match &self.0 {
            None => (Identity::local(LOCAL_BOT.0, LOCAL_BOT.1), None),
            Some(config) => {
                let limit = DeliveryConfig::limit(delivery, BOT_RATE_LIMIT, PRIVATE_RATE_LIMIT);
                let client = Client::new(&config.api_base, config.token.clone(), clock.clone())?;
                let client = client.with_rate_limit(limit);
                let patient = client.clone().with_patience(WEBHOOK_PATIENCE);
                let agent = Registered::new(Channel::Telegram, client);
                let clients = Clients { agent, webhook: patient.clone() };
                (Identity::asked_for(config.bot_id, patient), Some(clients))
            }
        };
        let webhook = TelegramWebhook { settings: settings.clone(), secret: self.secret(key), identity };
        Ok(Opened { webhook, clients })
    }

    fn setup(setup: Setup<'_>) -> LocalBoxFuture<'_, Result<(), Failure>> {
        setup::run(setup).boxed_local()
    }

    fn is_set_up(&self) -> bool {
        self.0.is_some()
    }

    fn secrets(&self, key: Option<&SecretString>) -> Vec<(&'static str, SecretString)> {
        let token = self.0.as_ref().map_or_else(|| DEV_TOKEN.into(), |config| config.token.clone());
        vec![(TOKEN, token), (SECRET, self.secret(key))]
    }

    fn example(&self, key: Option<&SecretString>, today: i64) -> Option<Example> {
        // A user's own secret is not shown.
        let secret = match &self.0 {
            Some(_) => format!("${SECRET}"),
            None => self.secret(key).expose_secret().to_owned(),
        };
        let body = json!({"update_id": 1, "message": {"message_id": 1, "date": today,
            "chat": {"id": 42, "type": "private", "first_name": "Ada"},
            "from": {"id": 42, "is_bot": false, "first_name": "Ada"}, "text": "hello"}});
        Some(Example { headers: vec![("X-Telegram-Bot-Api-Secret-Token", secret)], body })
    }

    fn replay(&self, key: Option<&SecretString>, body: &[u8], json: &Value) -> Option<Replayed> {
        json.get("update_id")?;
        let secret = self.secret(key).expose_secret().to_owned();
        Some(Replayed::Call { headers: vec![(SECRET_HEADER, secret)], body: body.to_vec() })
    }

    fn api_base(&self) -> Option<&str> {
        self.0.as_ref().map(|config| config.api_base.as_str())
    }

    fn check<'a>(&'a self, settings: Option<&'a Settings>, clock: &'a Clock) -> BoxFuture<'a, Vec<Finding>> {
        doctor::check(self.0.as_ref(), settings, clock).boxed()
    }
}
