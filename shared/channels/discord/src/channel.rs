//! The definition of Discord's channel: [`Discord`].

use annals_channel::channel::{ChannelDefinition, ProvedCall};
use annals_channel::finding::Finding;
use annals_channel::settings::Settings;
use annals_channel::setup::{Failure, Setup};
use annals_core::settings::{ConfigError, Env};
use annals_core::sort_key::Timestamp;
use annals_io::clock::Clock;
use ring::digest::{SHA256, digest};
use ring::signature::{Ed25519KeyPair, KeyPair};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use crate::client::Client;
use crate::settings::{APPLICATION_ID, DiscordConfig, PUBLIC_KEY};
use crate::snowflake;
use crate::verify::{SIGNATURE_HEADER, TIMESTAMP_HEADER};
use crate::webhook::DiscordWebhook;
use crate::{doctor, setup};

/// Application if Discord is not set up.
const LOCAL_APPLICATION: &str = "1000000000000000000";

/// Discord.
#[derive(Debug)]
pub struct Discord;

/// Returns the key pair with which calls are signed if Discord is not set up.
fn key_pair(secret: &SecretString) -> Option<Ed25519KeyPair> {
    let seed = digest(&SHA256, secret.expose_secret().as_bytes());
    Ed25519KeyPair::from_seed_unchecked(seed.as_ref()).ok()
}

impl ChannelDefinition for Discord {
    type Config = DiscordConfig;
    type Webhook = DiscordWebhook;
    type Client = Client;

    fn config(env: Env<'_>) -> Result<Option<DiscordConfig>, ConfigError> {
        DiscordConfig::from_env(env)
    }

    fn development(secret: &SecretString) -> Vec<(&'static str, SecretString)> {
        let public_key = key_pair(secret).map(|pair| hex::encode(pair.public_key()).into());
        [(APPLICATION_ID, LOCAL_APPLICATION.into())]
            .into_iter()
            .chain(public_key.map(|key| (PUBLIC_KEY, key)))
            .collect()
    }

    fn client(config: &DiscordConfig, clock: &Clock) -> Result<Client, ConfigError> {
        Client::new(config, clock.clone())
    }

    fn webhook(config: &DiscordConfig, client: Option<Client>, settings: Settings) -> DiscordWebhook {
        DiscordWebhook::new(settings, config.public_key, config.bot.clone(), client)
    }

    fn hello(today: i64) -> Value {
        let id = snowflake::first_at(Timestamp::from_secs(today)).to_string();
        let user = json!({"id": "42", "username": "ada", "global_name": "Ada"});
        let prompt = json!({"name": "prompt", "type": 3, "value": "hello"});
        let data = json!({"name": "ask", "type": 1, "options": [prompt]});
        json!({"id": id, "type": 2, "application_id": LOCAL_APPLICATION, "context": 1, "channel_id": "7",
            "token": "hello", "user": user, "data": data})
    }

    fn is_own(json: &Value) -> bool {
        let is_call = json.get("application_id").is_some() && json.get("type").is_some_and(Value::is_u64);
        is_call && ["token", "event", "version"].iter().any(|field| json.get(field).is_some())
    }

    fn prove(config: &DiscordConfig, secret: &SecretString, body: &[u8]) -> Result<ProvedCall, &'static str> {
        const TIMESTAMP: &str = "0";
        let pair = key_pair(secret).filter(|pair| pair.public_key().as_ref() == config.public_key.as_slice());
        let pair = pair.ok_or("only Discord can sign it")?;
        let signature = pair.sign(&[TIMESTAMP.as_bytes(), body].concat());
        let headers = vec![
            (SIGNATURE_HEADER, hex::encode(signature.as_ref())),
            (TIMESTAMP_HEADER, TIMESTAMP.to_owned()),
        ];
        Ok(ProvedCall { headers, body: body.to_vec() })
    }

    async fn setup(setup: Setup<'_>) -> Result<(), Failure> {
        setup::run(setup).await
    }

    async fn check(config: &DiscordConfig, client: &Client, settings: Option<&Settings>) -> Vec<Finding> {
        doctor::check(config, client, settings).await
    }
}
