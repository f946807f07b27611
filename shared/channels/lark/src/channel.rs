//! The definition of Lark's channel: [`Lark`].

use annals_channel::channel::{ChannelDefinition, ProvedCall};
use annals_channel::finding::Finding;
use annals_channel::json::JsonView;
use annals_channel::settings::Settings;
use annals_channel::setup::{Failure, Setup};
use annals_core::settings::{ConfigError, Env};
use annals_io::clock::Clock;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use crate::client::Client;
use crate::settings::{APP_ID, APP_SECRET, LarkConfig, VERIFICATION_TOKEN};
use crate::verify::{NONCE_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, encrypt, sign};
use crate::webhook::LarkWebhook;
use crate::{doctor, setup};

/// Id and secret of the app for a function that runs beside the program, if Lark is not set up.
pub const DEV_APP: (&str, &str) = ("cli_development", "development");

/// Lark.
#[derive(Debug)]
pub struct Lark;

/// Returns the bytes of `event` with this verification token, in its header if it has one, as in schema 2.
fn with_token(mut event: Value, token: &SecretString) -> Vec<u8> {
    let is_v2 = event.get("header").is_some_and(Value::is_object);
    let holder = if is_v2 { &mut event["header"] } else { &mut event };
    holder["token"] = token.expose_secret().into();
    event.to_string().into_bytes()
}

impl ChannelDefinition for Lark {
    type Config = LarkConfig;
    type Webhook = LarkWebhook;
    type Client = Client;

    fn config(env: Env<'_>) -> Result<Option<LarkConfig>, ConfigError> {
        LarkConfig::from_env(env)
    }

    fn development(secret: &SecretString) -> Vec<(&'static str, SecretString)> {
        let (app_id, app_secret) = DEV_APP;
        vec![(APP_ID, app_id.into()), (APP_SECRET, app_secret.into()), (VERIFICATION_TOKEN, secret.clone())]
    }

    fn client(config: &LarkConfig, clock: &Clock) -> Result<Client, ConfigError> {
        let (id, secret) = (config.app_id.clone(), config.app_secret.clone());
        let mut client = Client::new(&config.api_base, id, secret, clock.clone())?;
        client.group_context = config.group_context;
        Ok(client)
    }

    fn webhook(config: &LarkConfig, client: Option<Client>, settings: Settings) -> LarkWebhook {
        LarkWebhook { settings, config: config.clone(), client }
    }

    fn hello(today: i64) -> Value {
        let message = json!({"message_id": "om_hello", "chat_id": "oc_hello", "chat_type": "p2p",
            "message_type": "text", "create_time": format!("{today}000"),
            "content": json!({"text": "hello"}).to_string()});
        let sender = json!({"sender_id": {"open_id": "ou_ada"}, "sender_type": "user"});
        let header = json!({"event_id": "hello-1", "event_type": "im.message.receive_v1"});
        json!({"schema": "2.0", "header": header, "event": {"sender": sender, "message": message}})
    }

    fn is_own(json: &Value) -> bool {
        let Some(call) = JsonView::of(json) else { return false };
        // Others have an `event`, too, and even one of this type, but without a `ts`.
        match call.text("type") {
            _ if call.has("header") => call.object("header").is_some_and(|header| header.has("event_type")),
            Some("event_callback") => call.has("event") && call.has("ts"),
            Some("url_verification") => call.has("challenge"),
            _ => call.text("encrypt").is_some(),
        }
    }

    fn prove(config: &LarkConfig, _: &SecretString, body: &[u8]) -> Result<ProvedCall, &'static str> {
        let plain = match serde_json::from_slice::<Value>(body) {
            Ok(event) if event.get("encrypt").is_some() => return Err("encrypted with a key of its own"),
            Ok(event) if event.is_object() => with_token(event, &config.verification_token),
            _ => body.to_vec(),
        };
        let Some(key) = config.encrypt_key.as_ref().map(ExposeSecret::expose_secret) else {
            return Ok(ProvedCall { headers: Vec::new(), body: plain });
        };
        let encrypted = encrypt(key, &plain).ok_or("cannot be encrypted")?;
        let body = json!({ "encrypt": encrypted }).to_string().into_bytes();
        let signature = sign(b"0", b"replay", key, &body);
        let headers = vec![
            (TIMESTAMP_HEADER, "0".to_owned()),
            (NONCE_HEADER, "replay".to_owned()),
            (SIGNATURE_HEADER, signature),
        ];
        Ok(ProvedCall { headers, body })
    }

    async fn setup(setup: Setup<'_>) -> Result<(), Failure> {
        setup::run(setup).await
    }

    async fn check(config: &LarkConfig, client: &Client, _: Option<&Settings>) -> Vec<Finding> {
        doctor::check(config, client).await
    }
}
