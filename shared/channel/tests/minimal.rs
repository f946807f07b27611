//! The smallest channel that keeps the rules of `docs/adding-a-channel.md`: texts of people and groups, edits and pressed buttons
//! in, texts and buttons out. A new channel begins as a copy of it, with a file for each part.
//!
//! ```text
//! POST /pager                  X-Pager-Time: 1764057600    X-Pager-Signature: …
//!     {"id": "17", "from": "ada", "to": "bot", "at": 1764057600, "text": "hello"}
//!     {"id": "18", "from": "ada", "to": "g1", "thread": "t1", "at": 1764057600, "mentions": ["bot"], "text": "@bot hello"}
//!     {"id": "18", …, "text": "@bot hello!", "edited": 1764057605}
//!     {"id": "19", "from": "ada", "to": "g1", "thread": "t1", "at": 1764057610, "press": "y5f2b…"}
//! POST https://pager.example/send
//!     {"to": "g1", "thread": "t1", "text": "May I?", "key": "…", "buttons": [{"label": "…", "press": "y5f2b…"}, …]}
//! ```
#![allow(clippy::unwrap_used, reason = "a panic is a failure that names its line")]

use std::time::Duration;

use annals_channel::about::About;
use annals_channel::channel::{ChannelDefinition, ProvedCall};
use annals_channel::client::{Answer, Api, CallError};
use annals_channel::delivery::{
    DeliveryError, NO_PROGRESS, OutgoingReply, Piece, Pieces, Progress, RequestedCall,
};
use annals_channel::finding::Finding;
use annals_channel::json::JsonView;
use annals_channel::platform::Platform;
use annals_channel::rate_limit::RateLimit;
use annals_channel::settings::{Settings, all_or_none};
use annals_channel::setup::{self, Failure, Setup, SetupCommand};
use annals_channel::split::{Dialect, split};
use annals_channel::testing::{check_rules, check_sound, draft_of, outgoing, settings, shown, survives};
use annals_channel::webhook::{
    ApprovalResult, Events, Incoming, MAX_BODY_BYTES, ParseError, Press, ReadError, Response, Unverified,
    Verified, Webhook,
};
use annals_core::approval::Button;
use annals_core::chat_key::{ChatKey, Place};
use annals_core::command::Command;
use annals_core::draft::{Asks, Draft, Origin};
use annals_core::language::Language;
use annals_core::message::Part;
use annals_core::metadata::{ChatType, FromPlatform, Metadata};
use annals_core::record::{Channel, Kind, Record};
use annals_core::secret::is_same;
use annals_core::settings::{ConfigError, Env, Setting};
use annals_core::sort_key::{MessageId, Timestamp};
use annals_io::clock::Clock;
use async_trait::async_trait;
use pulldown_cmark::Options;
use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderValue};
use ring::hmac;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

// about.rs, channel.rs

/// Facts about the channel. In place of Lark's variant it would have its own.
static ABOUT: About = About {
    channel: Channel::Lark,
    proofs: &[SECRET],
    unverified: "X-Pager-Signature is missing or wrong",
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

    fn client(config: &PagerConfig, clock: &Clock) -> Result<Client, ConfigError> {
        let base = (API_BASE.name, config.api_base.as_str());
        Ok(Client { api: Api::new("Pager", base, Duration::from_secs(10), clock.clone())? })
    }

    fn webhook(config: &PagerConfig, _: Option<Client>, settings: Settings) -> PagerWebhook {
        PagerWebhook { config: config.clone(), settings }
    }

    fn hello(today: i64) -> Value {
        json!({"id": "17", "from": "ada", "to": BOT, "at": today, "text": "hello"})
    }

    fn is_own(json: &Value) -> bool {
        json.get("from").is_some() && json.get("at").is_some()
    }

    fn prove(config: &PagerConfig, _: &SecretString, body: &[u8]) -> Result<ProvedCall, &'static str> {
        let signature = signature(&config.secret, b"0", body);
        let headers = vec![(TIME_HEADER, "0".to_owned()), (SIGNATURE_HEADER, signature)];
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

// verify.rs

const TIME_HEADER: &str = "X-Pager-Time";
const SIGNATURE_HEADER: &str = "X-Pager-Signature";

/// Returns the signature of `time` and `body`.
fn signature(secret: &SecretString, time: &[u8], body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.expose_secret().as_bytes());
    hex::encode(hmac::sign(&key, &[time, body].concat()))
}

// webhook.rs

struct PagerWebhook {
    config: PagerConfig,
    settings: Settings,
}

impl Webhook for PagerWebhook {
    const ABOUT: &'static About = &ABOUT;

    fn body_limit(&self, headers: &HeaderMap) -> Result<usize, Unverified> {
        if headers.contains_key(SIGNATURE_HEADER) { Ok(MAX_BODY_BYTES) } else { Err(Unverified) }
    }

    fn verify(&self, headers: &HeaderMap, body: &[u8]) -> Result<Verified, Unverified> {
        let header = |name: &str| headers.get(name).map(HeaderValue::as_bytes).unwrap_or_default();
        let wanted = signature(&self.config.secret, header(TIME_HEADER), body);
        if !is_same(header(SIGNATURE_HEADER), wanted.as_bytes()) {
            return Err(Unverified);
        }
        Ok(serde_json::from_slice(body).map_or(Verified::NotAnEvent, Verified::Event))
    }

    async fn read(&self, event: Value) -> Result<Events, ReadError> {
        Ok(Events::new(parse(&event, &self.settings)?, Response::Empty))
    }

    async fn respond_to_press(&self, _: &Press, result: &ApprovalResult) -> Option<Response> {
        Some(Response::Json(json!({"text": result.text})))
    }
}

// parse.rs, gate.rs, metadata.rs

/// Id of the bot, as which people write to it and mention it.
const BOT: &str = "bot";
const NO_CONTENT: [&str; 6] = ["id", "from", "to", "thread", "at", "mentions"];

/// Ids that a reply needs beside the chat's. Schedules and operators' messages copy them whole.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Ids {
    #[serde(skip_serializing_if = "Option::is_none")]
    thread_id: Option<String>,
}

fn parse(event: &Value, settings: &Settings) -> Result<Vec<Incoming>, ReadError> {
    let event = JsonView::of(event).ok_or(ReadError::NotAnEvent)?;
    Ok(vec![match event.text("press") {
        Some(data) => Incoming::parsed("press", press(event, data, settings)),
        None => Incoming::parsed("message", message(event, settings)),
    }])
}

fn message(event: JsonView<'_>, settings: &Settings) -> Result<Incoming, ParseError> {
    let draft = draft(event, settings)?;
    if draft.user_id == BOT {
        return Err("the bot's own message, which is stored as a reply".into());
    }
    let text = if let Some(text) = event.text("text") {
        text.to_owned()
    } else {
        // It is stored too, as a line that says what it has.
        let names = event.fields().map(|(name, _)| name).filter(|name| !NO_CONTENT.contains(name));
        format!("[unsupported message: {}]", names.collect::<Vec<_>>().join(", "))
    };
    let is_mentioned = event.list("mentions").is_some_and(|ids| ids.iter().any(|id| id == BOT));
    let asks = if draft.metadata.is_private() || is_mentioned { Asks::Addressed } else { Asks::Unaddressed };
    // Otherwise two bots could talk to each other without end.
    let asks = if event.flag("isBot") { Asks::Never } else { asks };
    let typed = text.strip_prefix("@bot").unwrap_or(&text).trim_start();
    let command = Command::parse(typed, None).filter(|_| asks == Asks::Addressed && !event.has("edited"));
    let draft = draft.with_parts(vec![Part::text(&text)]);
    Ok(match command {
        Some(command) => Incoming::command(command, draft),
        None => Incoming::message(draft.asking_as(asks, settings.group_activation)),
    })
}

fn press(event: JsonView<'_>, data: &str, settings: &Settings) -> Result<Incoming, ParseError> {
    let button = Button::parse(data).ok_or("a button that is not from this program")?;
    let by = draft(event, settings)?.of_kind(Kind::Notice);
    Ok(Incoming::Press(Box::new(Press { button, by, details: Value::Null })))
}

/// Returns what a message and a press have in common.
fn draft(event: JsonView<'_>, settings: &Settings) -> Result<Draft, ParseError> {
    let id = event.id("id").and_then(|id| MessageId::new(id).ok()).ok_or("the event has no id")?;
    let to = event.id("to").ok_or("the event has no chat")?;
    let group_id = (to != BOT).then_some(to);
    // In a group, a message without a sender is kept as one of the window's.
    let user_id = event.id("from").or(group_id).ok_or("the event has no sender")?;
    let chat_id = group_id.unwrap_or(user_id).to_owned();
    let thread_id = event.id("thread").map(str::to_owned);
    let direct = if group_id.is_none() { settings.direct(ABOUT.channel, user_id)? } else { None };
    let chat = match (direct, &thread_id) {
        (Some(direct), _) => direct,
        // A real channel has places of its own: these are Lark's. In a private chat, no key names a thread.
        (None, Some(thread_id)) if group_id.is_some() => {
            ChatKey::new(Place::LarkThread { chat_id: chat_id.clone(), thread_id: thread_id.clone() })?
        }
        (None, _) => ChatKey::new(Place::LarkChat { chat_id: chat_id.clone() })?,
    };
    let origin = Origin { chat, channel: ABOUT.channel, chat_id, user_id: user_id.to_owned() };
    let mut metadata = Metadata::from(FromPlatform {
        sender_is_bot: event.flag("isBot"),
        chat_type: Some(if group_id.is_some() { ChatType::Group } else { ChatType::Private }),
        ..FromPlatform::default()
    });
    metadata.set_ids_of(ABOUT.channel, &Ids { thread_id });
    // An edit has the id and the time of the message that it changes.
    let at = event.time("at");
    Ok(Draft::new(origin, id, at.unwrap_or(Timestamp::MIN))
        .with_form_ts(event.time("edited").or(at))
        .with_metadata(metadata))
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
        while let Some(piece) = pieces.next().await? {
            self.call("send", &body(&reply, &chunks[piece.index], piece)).await?;
        }
        Ok(())
    }
}

/// Returns the request that sends `text`, a piece of `reply`, to the thread or the window of what it answers.
fn body(reply: &OutgoingReply<'_>, text: &str, Piece { index, is_last }: Piece) -> Value {
    let Ids { thread_id } = reply.to.message.metadata.ids_of(ABOUT.channel);
    let buttons = reply.requests.iter().filter(|_| is_last).flat_map(|asked| {
        [true, false]
            .map(|approved| json!({"label": asked.label(approved), "press": asked.button(approved).data()}))
    });
    let (buttons, key): (Vec<Value>, String) = (buttons.collect(), format!("{} {index}", reply.id()));
    json!({"to": reply.to.chat_id, "thread": thread_id, "text": text, "buttons": buttons, "key": key})
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
    assert_eq!(webhook.body_limit(&HeaderMap::new()), Err(Unverified));
    assert!(Pager::is_own(&hello));
    let ProvedCall { headers, body } = Pager::prove(&config(), &"".into(), &body).unwrap();
    let header = |(name, value): (&'static str, String)| (name.parse().unwrap(), value.parse().unwrap());
    let headers: HeaderMap = headers.into_iter().map(header).collect();
    assert_eq!(webhook.verify(&headers, b"{}").unwrap_err(), Unverified);
    let Ok(Verified::Event(event)) = webhook.verify(&headers, &body) else { panic!() };
    let events = webhook.read(event).await.unwrap();
    let draft = draft_of(&events.incoming[0]).unwrap();
    check_sound(draft);
    assert_eq!((shown(draft).as_str(), draft.asks, draft.message_id.as_str()), ("hello", true, "17"));
    for event in [json!([]), json!({}), json!({"from": "ada", "to": BOT, "text": "x", "id": 5})] {
        survives(&event, |event| parse(event, &settings()));
    }
}

/// Returns an event of Ada in a group, with these fields.
fn event(fields: &Value) -> Value {
    let mut event = json!({"id": "18", "from": "ada", "to": "g1", "at": 1_764_057_600});
    event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    event
}

#[test]
fn each_case_follows_its_rule() {
    let cases = [
        json!({"text": "hi", "is": "message | lark:chat:g1 of ada | 1764057600000#00000000000000000018 | normal silent"}),
        json!({"text": "hi", "settings": "always", "is": "| normal asks"}),
        json!({"text": "@bot hi", "mentions": [BOT], "is": "| normal asks"}),
        json!({"text": "@bot hi", "mentions": [BOT], "isBot": true, "is": "| normal silent"}),
        json!({"text": "hi", "thread": "t1", "is": "message | lark:chat:g1:thread:t1 of ada"}),
        json!({"text": "hi", "to": BOT, "thread": "t1", "is": "message | lark:chat:ada of ada"}),
        json!({"text": "hi", "to": BOT, "settings": "user", "is": "agent:annals:user:lark-ada of ada"}),
        json!({"text": "hi", "from": null, "is": "message | lark:chat:g1 of g1"}),
        json!({"text": "hi", "from": BOT, "is": "ignored message: the bot's own message"}),
        json!({"text": "@bot /stop", "mentions": [BOT], "is": "Stop | lark:chat:g1 of ada"}),
        json!({"text": "/stop", "to": BOT, "edited": 1_764_057_605, "is": "#00000000000000000018 form 1764057605000 |"}),
        json!({"press": "y0123456789abcdef", "is": "press y0123456789abcdef by ada"}),
        json!({"press": "of another program", "is": "ignored press: a button"}),
    ];
    check_rules(&json!(cases).to_string(), event, parse);
    let picture = parse(&event(&json!({"picture": "https://…"})), &settings()).unwrap();
    assert_eq!(shown(draft_of(&picture[0]).unwrap()), "[unsupported message: picture]");
}

#[test]
fn a_button_is_sent_to_the_thread_and_its_press_is_of_that_chat() {
    let asked = parse(&event(&json!({"thread": "t1", "text": "hi"})), &settings()).unwrap();
    let to = annals_core::testing::stored(draft_of(&asked[0]).unwrap());
    let (tool, id, base) = ("refund".to_owned(), "0123456789abcdef".to_owned(), to.key.clone());
    let requests = [RequestedCall { number: None, tool, id, base, language: Language::En }];
    let question = "May I?";
    let reply = OutgoingReply { requests: &requests, ..outgoing(&to, "", question) };
    let sent = body(&reply, question, Piece { index: 0, is_last: true });
    assert_eq!((&sent["to"], &sent["thread"]), (&json!("g1"), &json!("t1")));
    let denied = event(&json!({"thread": "t1", "press": sent["buttons"][1]["press"]}));
    let pressed = parse(&denied, &settings()).unwrap();
    let [Incoming::Press(press)] = &pressed[..] else { panic!("{pressed:?}") };
    assert_eq!((&press.button, &press.by.chat), (&requests[0].button(false), &to.chat));
}

#[tokio::test]
async fn a_reply_that_cannot_be_sent_is_kept_for_later() {
    let clock = Clock::manual(Timestamp::from_secs(1_764_057_600));
    let client = Pager::client(&config(), &clock).unwrap();
    let to: Record = annals_core::testing::user(0, 1);
    let reply = outgoing(&to, "Hello, Ada.", "");
    let sent = clock.advance_during(client.send(reply, 0, NO_PROGRESS)).await.0;
    assert!(matches!(sent, Err(DeliveryError::Unavailable { .. })), "{sent:?}");
}
