//! Lark with its settings, as every program opens it, and its commands for operators: [`Lark`].

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

use crate::client::{APP_RATE_LIMIT, CHAT_RATE_LIMIT, Client};
use crate::settings::{APP_ID, APP_SECRET, ENCRYPT_KEY, LarkConfig, VERIFICATION_TOKEN};
use crate::surroundings::LarkSurroundings;
use crate::verify::{NONCE_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, encrypt, sign};
use crate::webhook::{Identity, LarkWebhook, WEBHOOK_PATIENCE};
use crate::{doctor, setup};

/// Token of `/lark`'s events if no platform is set up.
pub const DEV_TOKEN: &str = "dev-lark-token";
/// Id and secret of the app for a function that runs beside the program, if Lark is not set up.
pub const DEV_APP: (&str, &str) = ("cli_development", "development");
/// Bot if Lark is not set up, as mentions name it.
const LOCAL_BOT: &str = "ou_annals";

/// Lark, with its settings if it is set up.
#[derive(Clone, Debug)]
pub struct Lark(Option<LarkConfig>);

impl Lark {
    fn token(&self, key: Option<&SecretString>) -> SecretString {
        match &self.0 {
            Some(config) => config.verification_token.clone(),
            None => key.cloned().unwrap_or_else(|| DEV_TOKEN.into()),
        }
    }

    fn encrypt_key(&self) -> Option<&SecretString> {
        self.0.as_ref()?.encrypt_key.as_ref()
    }
}

impl ConfiguredChannel for Lark {
    type Webhook = LarkWebhook;
    type Client = Client;

    fn about() -> &'static About {
        &About {
            channel: Channel::Lark,
            platform: "Lark",
            path: LarkWebhook::PATH,
            proofs: &[VERIFICATION_TOKEN, ENCRYPT_KEY],
            setup: setup::COMMAND,
        }
    }

    fn from_env(env: Env<'_>) -> Result<Self, ConfigError> {
        LarkConfig::from_env(env).map(Self)
    }

    fn open(
        &self,
        key: Option<&SecretString>,
        settings: &Settings,
        delivery: Option<&DeliveryConfig>,
        clock: &Clock,
    ) -> Result<Opened<Self>, Failure> {
        let (identity, clients) = match &self.0 {
            None => (Identity::local(LOCAL_BOT), None),
            Some(config) => {
                let (id, secret) = (config.app_id.clone(), config.app_secret.clone());
                let limit = DeliveryConfig::limit(delivery, APP_RATE_LIMIT, CHAT_RATE_LIMIT);
                let client = Client::new(&config.api_base, id.clone(), secret, clock.clone())?;
                let client = client.with_rate_limit(limit);
                let patient = client.clone().with_patience(WEBHOOK_PATIENCE);
                let (of, limit) = (settings.clone(), config.group_context);
                let surroundings = LarkSurroundings::of(client.clone(), id.clone(), of, limit);
                let agent = Registered { surroundings, ..Registered::new(Channel::Lark, client) };
                let clients = Clients { agent, webhook: patient.clone() };
                (Identity::asked_for(id, patient), Some(clients))
            }
        };
        let webhook = LarkWebhook {
            settings: settings.clone(),
            verification_token: self.token(key),
            encrypt_key: self.encrypt_key().cloned(),
            identity,
        };
        Ok(Opened { webhook, clients })
    }

    fn setup(setup: Setup<'_>) -> LocalBoxFuture<'_, Result<(), Failure>> {
        setup::run(setup).boxed_local()
    }

    fn is_set_up(&self) -> bool {
        self.0.is_some()
    }

    fn secrets(&self, key: Option<&SecretString>) -> Vec<(&'static str, SecretString)> {
        let (app_id, app_secret) = match &self.0 {
            Some(config) => (config.app_id.as_str().into(), config.app_secret.clone()),
            None => (DEV_APP.0.into(), DEV_APP.1.into()),
        };
        let encrypt_key = self.encrypt_key().map(|key| (ENCRYPT_KEY, key.clone()));
        let secrets = [(APP_ID, app_id), (APP_SECRET, app_secret), (VERIFICATION_TOKEN, self.token(key))];
        secrets.into_iter().chain(encrypt_key).collect()
    }

    fn example(&self, key: Option<&SecretString>, today: i64) -> Option<Example> {
        if self.is_set_up() {
            return None;
        }
        let message = json!({"message_id": "om_hello", "chat_id": "oc_hello", "chat_type": "p2p",
            "message_type": "text", "create_time": format!("{today}000"),
            "content": json!({"text": "hello"}).to_string()});
        let sender = json!({"sender_id": {"open_id": "ou_ada"}, "sender_type": "user"});
        let header = json!({"event_id": "hello-1", "event_type": "im.message.receive_v1",
            "token": self.token(key).expose_secret()});
        let event = json!({"sender": sender, "message": message});
        Some(Example {
            headers: Vec::new(),
            body: json!({"schema": "2.0", "header": header, "event": event}),
        })
    }

    fn replay(&self, key: Option<&SecretString>, _body: &[u8], json: &Value) -> Option<Replayed> {
        if !["header", "event", "challenge"].iter().any(|field| json.get(field).is_some()) {
            json.get("encrypt")?;
            return Some(Replayed::Skipped("encrypted with a key of its own"));
        }
        let mut event = json.clone();
        let is_v2 = event.get("header").is_some_and(Value::is_object);
        let holder = if is_v2 { &mut event["header"] } else { &mut event };
        holder["token"] = self.token(key).expose_secret().into();
        let plain = event.to_string().into_bytes();
        let Some(key) = self.encrypt_key().map(ExposeSecret::expose_secret) else {
            return Some(Replayed::Call { headers: Vec::new(), body: plain });
        };
        let Some(encrypted) = encrypt(key, &plain) else {
            return Some(Replayed::Skipped("cannot be encrypted"));
        };
        let body = json!({ "encrypt": encrypted }).to_string().into_bytes();
        let signature = sign(b"0", b"replay", key, &body);
        let headers = vec![
            (TIMESTAMP_HEADER, "0".to_owned()),
            (NONCE_HEADER, "replay".to_owned()),
            (SIGNATURE_HEADER, signature),
        ];
        Some(Replayed::Call { headers, body })
    }

    fn api_base(&self) -> Option<&str> {
        self.0.as_ref().map(|config| config.api_base.as_str())
    }

    fn check<'a>(&'a self, _settings: Option<&'a Settings>, clock: &'a Clock) -> BoxFuture<'a, Vec<Finding>> {
        doctor::check(self.0.as_ref(), clock).boxed()
    }
}
