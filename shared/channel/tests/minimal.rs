//! The smallest channel that keeps the rules of `docs/adding-a-channel.md`: texts of single people in, texts out. A new channel
//! begins as a copy of it, with a file for each part.
//!
//! ```text
//! POST /pager                        X-Pager-Secret: …     {"id": "17", "from": "ada", "at": 1764057600, "text": "hello"}
//! POST https://pager.example/send    {"to": "ada", "text": "Hello, Ada.", "key": "…"}
//! ```
#![allow(clippy::unwrap_used, reason = "a panic is a failure that names its line")]

use std::time::Duration;

use annals_channel::about::About;
use annals_channel::channel::{ChannelDefinition, ProvedCall};
use annals_channel::client::{Answer, Api, CallError};
use annals_channel::delivery::{DeliveryError, NO_PROGRESS, OutgoingReply, Piece, Pieces, Progress};
use annals_channel::finding::Finding;
use annals_channel::json::JsonView;
use annals_channel::platform::Platform;
use annals_channel::rate_limit::RateLimit;
use annals_channel::settings::{Settings, all_or_none};
use annals_channel::setup::{self, Failure, Setup, SetupCommand};
use annals_channel::split::{Dialect, split};
use annals_channel::testing::{check_sound, draft_of, settings, shown, survives};
use annals_channel::webhook::{
    Events, Incoming, ParseError, ReadError, Response, Unverified, Verified, Webhook,
};
use annals_core::chat_key::ChatKey;
use annals_core::command::Command;
use annals_core::draft::{Draft, Origin};
use annals_core::message::Part;
use annals_core::metadata::{ChatType, FromPlatform, Metadata};
use annals_core::record::{Channel, Record};
use annals_core::secret::is_same;
use annals_core::settings::{ConfigError, Env, Setting};
use annals_core::sort_key::{MessageId, Timestamp};
use annals_io::clock::Clock;
use async_trait::async_trait;
use pulldown_cmark::Options;
use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

// about.rs, channel.rs

/// Facts about the channel. In place of Telegram's variant it would have its own.
static ABOUT: About = About {
    channel: Channel::Telegram,
    path: "/pager",
    proofs: &[SECRET],
    unverified: "X-Pager-Secret is missing or wrong",
    left: "the person blocked the bot",
    development_secret: "dev-pager-secret",
    settings: &SETTINGS,
    api_base: API_BASE,
    bot_rate_limit: RateLimit::within(30, Duration::from_secs(1)),
    chat_rate_limit: RateLimit::within(1, Duration::from_secs(1)),
    webhook_patience: Duration::from_secs(5),
    setup: SetupCommand {
        about: "Check the address of the webhook",
        url: "Address for messages: https://…/pager",
        secret: "Read the settings from this secret in Secrets Manager",
        needed: &[SECRET],
        held: &[SECRET],
        options: &[],
    },
};

#[derive(Debug)]
struct Pager;

impl ChannelDefinition for Pager {
    type Config = PagerConfig;
    type Webhook = PagerWebhook;
    type Client = Client;

    fn config(env: Env<'_>) -> Result<Option<PagerConfig>, ConfigError> {
        let Some([secret]) = all_or_none(env, [SECRET], &[])? else { return Ok(None) };
        Ok(Some(PagerConfig { secret: secret.into(), api_base: env.value(&API_BASE) }))
    }

    fn development(secret: &SecretString) -> Vec<(&'static str, SecretString)> {
        vec![(SECRET, secret.clone())]
    }

    fn client(config: &PagerConfig, _: Option<&Settings>, clock: &Clock) -> Result<Client, ConfigError> {
        let base = (API_BASE.name, config.api_base.as_str());
        Ok(Client { api: Api::new("Pager", base, Duration::from_secs(10), clock.clone())? })
    }

    fn webhook(config: &PagerConfig, _: Option<Client>, settings: Settings) -> PagerWebhook {
        PagerWebhook { config: config.clone(), settings }
    }

    fn hello(today: i64) -> Value {
        json!({"id": "17", "from": "ada", "at": today, "text": "hello"})
    }

    fn is_own(json: &Value) -> bool {
        json.get("from").is_some() && json.get("at").is_some()
    }

    fn prove(config: &PagerConfig, _: &SecretString, body: &[u8]) -> Result<ProvedCall, &'static str> {
        let headers = vec![(SECRET_HEADER, config.secret.expose_secret().to_owned())];
        Ok(ProvedCall { headers, body: body.to_vec() })
    }

    async fn setup(setup: Setup<'_>) -> Result<(), Failure> {
        let Setup { url, out, .. } = setup;
        let (status, _) = setup::probe(&url, |request| request.body("{}")).await.map_err(|words| words.en)?;
        Ok(writeln!(out, "address   {url} answers {status}")?)
    }

    async fn check(_: &PagerConfig, client: &Client, _: Option<&Settings>) -> Vec<Finding> {
        vec![match client.call("me", &json!({})).await {
            Ok(_) => Finding::ok("pager bot", "it answers".to_owned()),
            Err(error) => Finding::fault("pager bot", error.to_string()),
        }]
    }
}

// settings.rs

const SETTINGS: [Setting; 2] = [Setting::optional(SECRET, "any text"), API_BASE];
const SECRET: &str = "PAGER_SECRET";
const API_BASE: Setting = Setting::new("PAGER_API_BASE", "https://pager.example", "an `http` or `https` URL");

#[derive(Clone, Debug)]
struct PagerConfig {
    secret: SecretString,
    api_base: String,
}

// webhook.rs

const SECRET_HEADER: &str = "X-Pager-Secret";

struct PagerWebhook {
    config: PagerConfig,
    settings: Settings,
}

impl Webhook for PagerWebhook {
    type Button = ();

    const ABOUT: &'static About = &ABOUT;

    fn verify(&self, headers: &HeaderMap, body: &[u8]) -> Result<Verified, Unverified> {
        let given = headers.get(SECRET_HEADER).map(HeaderValue::as_bytes).unwrap_or_default();
        if !is_same(given, self.config.secret.expose_secret().as_bytes()) {
            return Err(Unverified);
        }
        Ok(serde_json::from_slice(body).map_or(Verified::NotAnEvent, Verified::Event))
    }

    async fn read(&self, event: Value) -> Result<Events<()>, ReadError> {
        Ok(Events::new(parse(&event, &self.settings)?, Response::Empty))
    }
}

// parse.rs

fn parse(event: &Value, settings: &Settings) -> Result<Vec<Incoming<()>>, ReadError> {
    let event = JsonView::of(event).ok_or(ReadError::NotAnEvent)?;
    Ok(vec![Incoming::parsed("message", message(event, settings))])
}

fn message(event: JsonView<'_>, settings: &Settings) -> Result<Incoming<()>, ParseError> {
    // Without a window, it could not be answered. A channel with groups keeps it, as one of the window's: see Lark's `draft`.
    let user_id = event.id("from").ok_or("the message has no sender")?;
    let id = event.id("id").and_then(|id| MessageId::new(id).ok()).ok_or("the message has no id")?;
    let text = if let Some(text) = event.text("text") {
        text.to_owned()
    } else {
        // It is stored too, as a line that says what it has.
        let names = event.fields().map(|(name, _)| name).filter(|name| !["id", "from", "at"].contains(name));
        format!("[unsupported message: {}]", names.collect::<Vec<_>>().join(", "))
    };
    let chat = match settings.direct(ABOUT.channel, user_id)? {
        Some(direct) => direct,
        // A real channel has a `Place` of its own here: this key is that of another channel's person with the same id.
        None => ChatKey::direct(&settings.agent_id, user_id)?,
    };
    let (chat_id, user_id) = (user_id.to_owned(), user_id.to_owned());
    let origin = Origin { chat, channel: ABOUT.channel, chat_id, user_id };
    let metadata = FromPlatform { chat_type: Some(ChatType::Private), ..FromPlatform::default() };
    let draft = Draft::new(origin, id, event.time("at").unwrap_or(Timestamp::MIN))
        .with_parts(vec![Part::text(&text)])
        .with_metadata(Metadata::from(metadata));
    Ok(match Command::parse(&text, None) {
        Some(command) => Incoming::command(command, draft),
        None => Incoming::message(draft.asking(true)),
    })
}

// client.rs, platform.rs, render.rs

const LIMIT: usize = 1000;
const DIALECT: Dialect = Dialect { options: Options::empty(), cost_of: |_| 1, max_tables: usize::MAX };

#[derive(Clone)]
struct Client {
    api: Api,
}

impl Client {
    /// Makes a request. It may be repeated, as `true` says, since the platform knows a repeated message by `key`. Without such a key,
    /// that would send a message twice.
    async fn call(&self, method: &'static str, body: &Value) -> Result<Answer, CallError> {
        let mut budget = self.api.budget();
        self.api.wait_for_slot(&mut budget).await?;
        let attempt = || async {
            let to = (Method::POST, self.api.url(&[method]));
            let answer = self.api.send(method, to, |request| request.json(body)).await?;
            match answer.status {
                ..300 => Ok(answer),
                403 => Err(CallError::Blocked { reason: "the person blocked the bot".into() }),
                429 => Err(answer.limited(answer.seconds("retry-after"))),
                500.. => Err(answer.failed(format!("HTTP status {}", answer.status))),
                status => {
                    Err(CallError::Refused { status, code: 0, reason: format!("{method} was refused") })
                }
            }
        };
        budget.retry(true, attempt).await
    }
}

#[async_trait]
impl Platform for Client {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn api(&mut self) -> &mut Api {
        &mut self.api
    }

    async fn send(
        &self,
        reply: OutgoingReply<'_>,
        sent: usize,
        progress: &Progress<'_>,
    ) -> Result<(), DeliveryError> {
        let chunks: Vec<String> = reply.texts().flat_map(|text| split(text, LIMIT, &DIALECT)).collect();
        let mut pieces = Pieces::new(chunks.len(), sent, progress);
        while let Some(Piece { index, .. }) = pieces.next().await? {
            let (to, key) = (&reply.to.chat_id, format!("{} {index}", reply.id()));
            self.call("send", &json!({"to": to, "text": chunks[index], "key": key})).await?;
        }
        Ok(())
    }
}

// tests.rs

fn config() -> PagerConfig {
    PagerConfig { secret: "s3cret".into(), api_base: "http://127.0.0.1:9".into() }
}

#[tokio::test]
async fn a_message_is_verified_and_read() {
    let webhook = Pager::webhook(&config(), None, settings());
    let hello = Pager::hello(1_764_057_600);
    let body = hello.to_string().into_bytes();
    assert_eq!(webhook.verify(&HeaderMap::new(), &body).unwrap_err(), Unverified);
    assert!(Pager::is_own(&hello));
    let ProvedCall { headers, body } = Pager::prove(&config(), &"".into(), &body).unwrap();
    let header = |(name, value): (&'static str, String)| (name.parse().unwrap(), value.parse().unwrap());
    let Ok(Verified::Event(event)) = webhook.verify(&headers.into_iter().map(header).collect(), &body) else {
        panic!()
    };
    let events = webhook.read(event).await.unwrap();
    let draft = draft_of(&events.incoming[0]).unwrap();
    check_sound(draft);
    assert_eq!((shown(draft).as_str(), draft.asks, draft.message_id.as_str()), ("hello", true, "17"));
    let picture = json!({"id": "18", "from": "ada", "at": 1_764_057_601, "picture": "https://…"});
    let events = webhook.read(picture).await.unwrap();
    assert_eq!(shown(draft_of(&events.incoming[0]).unwrap()), "[unsupported message: picture]");
    for event in [json!([]), json!({}), json!({"from": "ada", "text": "x", "id": 5})] {
        survives(&event, |event| parse(event, &settings()));
    }
}

#[tokio::test]
async fn a_reply_that_cannot_be_sent_is_kept_for_later() {
    let clock = Clock::manual(Timestamp::from_secs(1_764_057_600));
    let client = Pager::client(&config(), None, &clock).unwrap();
    let to: Record = annals_core::testing::user(0, 1);
    let (text, question, requests) = ("Hello, Ada.", "", &[]);
    let reply = OutgoingReply { to: &to, key: &to.key, text, question, ts: to.ts, moved_to: None, requests };
    let sent = clock.advance_during(client.send(reply, 0, NO_PROGRESS)).await.0;
    assert!(matches!(sent, Err(DeliveryError::Unavailable { .. })), "{sent:?}");
}
