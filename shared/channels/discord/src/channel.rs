//! Discord with its settings, as every program opens it, and its commands for operators: [`Discord`].

use annals_channel::channel::{About, Clients, ConfiguredChannel, Example, Opened, Replayed};
use annals_channel::finding::Finding;
use annals_channel::platform::Registered;
use annals_channel::settings::{DeliveryConfig, Settings};
use annals_channel::setup::{Failure, Setup};
use annals_channel::webhook::Webhook;
use annals_core::record::Channel;
use annals_core::settings::{ConfigError, Env};
use annals_core::sort_key::Timestamp;
use annals_io::clock::Clock;
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use futures::FutureExt;
use futures::future::{BoxFuture, LocalBoxFuture};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use crate::bot::Bot;
use crate::client::{BOT_RATE_LIMIT, CHANNEL_RATE_LIMIT, Client};
use crate::settings::{APPLICATION_ID, BOT_TOKEN, DiscordConfig, PUBLIC_KEY};
use crate::snowflake;
use crate::verify::{KEY_BYTES, SIGNATURE_HEADER, TIMESTAMP_HEADER};
use crate::webhook::{DiscordWebhook, WEBHOOK_PATIENCE};
use crate::{doctor, setup};

/// Text from which the development key pair is made, if no platform is set up.
const DEV_KEY: &str = "dev-discord-key";
/// Application if Discord is not set up.
const LOCAL_APPLICATION: &str = "1000000000000000000";

/// Discord, with its settings if it is set up.
#[derive(Clone, Debug)]
pub struct Discord(Option<DiscordConfig>);

impl Discord {
    /// Returns the key pair with which calls are signed if Discord is not set up.
    fn key_pair(key: Option<&SecretString>) -> Option<Ed25519KeyPair> {
        let seed = digest(&SHA256, key.map_or(DEV_KEY, ExposeSecret::expose_secret).as_bytes());
        Ed25519KeyPair::from_seed_unchecked(seed.as_ref()).ok()
    }

    fn public_key(&self, key: Option<&SecretString>) -> [u8; KEY_BYTES] {
        let own = || Self::key_pair(key).and_then(|pair| pair.public_key().as_ref().try_into().ok());
        match &self.0 {
            Some(config) => config.public_key,
            // No signature holds under it.
            None => own().unwrap_or([0xff; KEY_BYTES]),
        }
    }

    /// Returns the headers that sign `body`, if Discord is not set up: otherwise only Discord can.
    fn signed(&self, key: Option<&SecretString>, body: &[u8]) -> Option<Vec<(&'static str, String)>> {
        const TIMESTAMP: &str = "0";
        let pair = Self::key_pair(key).filter(|_| !self.is_set_up())?;
        let signature = pair.sign(&[TIMESTAMP.as_bytes(), body].concat());
        Some(vec![
            (SIGNATURE_HEADER, hex::encode(signature.as_ref())),
            (TIMESTAMP_HEADER, TIMESTAMP.to_owned()),
        ])
    }
}

impl ConfiguredChannel for Discord {
    type Webhook = DiscordWebhook;
    type Client = Client;

    fn about() -> &'static About {
        &About {
            channel: Channel::Discord,
            platform: "Discord",
            path: DiscordWebhook::PATH,
            proofs: &[PUBLIC_KEY],
            setup: setup::COMMAND,
        }
    }

    fn from_env(env: Env<'_>) -> Result<Self, ConfigError> {
        DiscordConfig::from_env(env).map(Self)
    }

    fn open(
        &self,
        key: Option<&SecretString>,
        settings: &Settings,
        delivery: Option<&DeliveryConfig>,
        clock: &Clock,
    ) -> Result<Opened<Self>, Failure> {
        let (bot, clients) = match &self.0 {
            None => (Bot { id: LOCAL_APPLICATION.to_owned() }, None),
            Some(config) => {
                let limit = DeliveryConfig::limit(delivery, BOT_RATE_LIMIT, CHANNEL_RATE_LIMIT);
                let client = Client::new(config, clock.clone())?.with_rate_limit(limit);
                let patient = client.clone().with_patience(WEBHOOK_PATIENCE);
                let agent = Registered::new(Channel::Discord, client);
                let clients = Clients { agent, webhook: patient.clone() };
                (config.bot.clone(), Some((clients, patient)))
            }
        };
        let (clients, client) = clients.unzip();
        let webhook = DiscordWebhook::new(settings.clone(), self.public_key(key), bot, client);
        Ok(Opened { webhook, clients })
    }

    fn setup(setup: Setup<'_>) -> LocalBoxFuture<'_, Result<(), Failure>> {
        setup::run(setup).boxed_local()
    }

    fn is_set_up(&self) -> bool {
        self.0.is_some()
    }

    fn secrets(&self, key: Option<&SecretString>) -> Vec<(&'static str, SecretString)> {
        let config = self.0.as_ref();
        let application_id = config.map_or(LOCAL_APPLICATION, |config| config.application_id.as_str());
        let bot_token = config.and_then(|config| config.bot_token.clone());
        let secrets =
            [(APPLICATION_ID, application_id.into()), (PUBLIC_KEY, hex::encode(self.public_key(key)).into())];
        secrets.into_iter().chain(bot_token.map(|token| (BOT_TOKEN, token))).collect()
    }

    fn example(&self, key: Option<&SecretString>, today: i64) -> Option<Example> {
        let id = snowflake::first_at(Timestamp::from_secs(today)).to_string();
        let user = json!({"id": "42", "username": "ada", "global_name": "Ada"});
        let prompt = json!({"name": "prompt", "type": 3, "value": "hello"});
        let data = json!({"name": "ask", "type": 1, "options": [prompt]});
        let body = json!({"id": id, "type": 2, "application_id": LOCAL_APPLICATION, "context": 1, "channel_id": "7",
            "token": "hello", "user": user, "data": data});
        Some(Example { headers: self.signed(key, body.to_string().as_bytes())?, body })
    }

    fn replay(&self, key: Option<&SecretString>, body: &[u8], json: &Value) -> Option<Replayed> {
        let is_call = json.get("application_id").is_some() && json.get("type").is_some_and(Value::is_u64);
        let is_call = is_call && ["token", "event", "version"].iter().any(|field| json.get(field).is_some());
        if !is_call {
            return None;
        }
        Some(match self.signed(key, body) {
            Some(headers) => Replayed::Call { headers, body: body.to_vec() },
            None => Replayed::Skipped("only Discord can sign it"),
        })
    }

    fn api_base(&self) -> Option<&str> {
        self.0.as_ref().map(|config| config.api_base.as_str())
    }

    fn check<'a>(&'a self, settings: Option<&'a Settings>, clock: &'a Clock) -> BoxFuture<'a, Vec<Finding>> {
        doctor::check(self.0.as_ref(), settings, clock).boxed()
    }
}
