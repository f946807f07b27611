//! The smallest channel that keeps the rules of `docs/adding-a-channel.md`. A new one begins as a copy, with a file for each heading.
//!
//! ```text
//! POST /pager                  X-Pager-Time: 1764057600    X-Pager-Signature: …
//!     {"events": [{"id": "17", "from": "ada", "to": "bot", "at": 1764057600, "text": "hello"},
//!         {"id": "18", "from": "ada", "to": "g1", "thread": "t1", "at": 1764057600, "mentions": ["bot"], "text": "@bot hello"},
//!         {"id": "18", …, "text": "@bot hello!", "edited": 1764057605},
//!         {"id": "a/19", …, "file": {"id": "f1", "type": "image/png", "name": "bean.png", "size": 73212}},
//!         {"id": "20", "from": "ada", "to": "g1", "thread": "t1", "at": 1764057610, "press": "y5f2b…"}]}
//! POST https://pager.example/send    Authorization: Bearer …
//!     {"to": "g1", "thread": "t1", "replyTo": "a/19", "text": "May I?", "key": "…", "buttons": [{"label": "…", "press": "y5f2b…"}, …]}
//! POST https://pager.example/file    {"id": "f1"}    200    {"url": "https://files.pager.example/…"}
//! ```

use std::time::Duration;

use annals_channel::about::About;
use annals_channel::channel::{ChannelDefinition, ProvedCall};
use annals_channel::client::{Answer, Api, CallError};
use annals_channel::delivery::{DeliveryError, OutgoingReply, Piece, Pieces, Progress, RequestedCall};
use annals_channel::file::{FileError, read_limited};
use annals_channel::finding::Finding;
use annals_channel::json::JsonView;
use annals_channel::platform::Platform;
use annals_channel::rate_limit::RateLimit;
use annals_channel::settings::{Settings, all_or_none};
use annals_channel::setup::{self, Failure, Setup, SetupCommand};
use annals_channel::split::{Dialect, split};
use annals_channel::webhook::{
    ApprovalResult, Events, Incoming, MAX_BODY_BYTES, ParseError, Press, ReadError, Response, Unverified,
    Verified, Webhook,
};
use annals_core::approval::Button;
use annals_core::chat_key::{ChatKey, Place};
use annals_core::command::Command;
use annals_core::draft::{Asks, Draft, Origin};
use annals_core::message::{Part, PartView};
use annals_core::metadata::{ChatType, FromPlatform, Metadata};
use annals_core::record::{Channel, Kind};
use annals_core::secret::is_same;
use annals_core::settings::{ConfigError, Env, Setting};
use annals_core::sort_key::{MessageId, Timestamp};
use annals_io::clock::Clock;
use async_trait::async_trait;
use pulldown_cmark::Options;
use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::{Method, Url};
use ring::hmac;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

mod tests;

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
        needed: &[SECRET, TOKEN],
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
        let Some([secret, token]) = all_or_none(env, [SECRET, TOKEN], &[])? else {
            return Ok(None);
        };
        Ok(Some(PagerConfig { secret: secret.into(), token: token.into(), api_base: env.value(&API_BASE) }))
    }

    fn development(secret: &SecretString) -> Vec<(&'static str, SecretString)> {
        vec![(SECRET, secret.clone()), (TOKEN, secret.clone())]
    }

    fn client(config: &PagerConfig, clock: &Clock) -> Result<Client, ConfigError> {
        let base = (API_BASE.name, config.api_base.as_str());
        let api = Api::new("Pager", base, Duration::from_secs(10), clock.clone())?;
        Ok(Client { api, token: config.token.clone() })
    }

    fn webhook(config: &PagerConfig, _: Option<Client>, settings: Settings) -> PagerWebhook {
        PagerWebhook { config: config.clone(), settings }
    }

    fn hello(today: i64) -> Value {
        json!({"events": [{"id": "17", "from": "ada", "to": BOT, "at": today, "text": "hello"}]})
    }

    fn is_own(json: &Value) -> bool {
        json["events"][0].get("at").is_some()
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

const SETTINGS: [Setting; 3] =
    [Setting::optional(SECRET, "any text"), Setting::optional(TOKEN, "any text"), API_BASE];
const SECRET: &str = "PAGER_SECRET";
const TOKEN: &str = "PAGER_TOKEN";
const API_BASE: Setting = Setting::new("PAGER_API_BASE", "https://pager.example", "an `http` or `https` URL");

#[derive(Clone, Debug)]
struct PagerConfig {
    secret: SecretString,
    token: SecretString,
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

// parse.rs, gate.rs

/// Id of the bot, as which people write to it and mention it. If it were a setting, `hello` would leave it out.
const BOT: &str = "bot";

/// Returns the events of a call. One that cannot be read is ignored, so that the others are not lost.
fn parse(call: &Value, settings: &Settings) -> Result<Vec<Incoming>, ReadError> {
    let call = JsonView::of(call).ok_or(ReadError::NotAnEvent)?;
    let incoming = call.objects("events").map(|event| match event.text("press") {
        Some(data) => Incoming::parsed("press", press(event, data, settings)),
        None => Incoming::parsed("message", message(event, settings)),
    });
    Ok(incoming.collect())
}

fn message(event: JsonView<'_>, settings: &Settings) -> Result<Incoming, ParseError> {
    let draft = draft(event, settings)?.with_parts(parts(event));
    if draft.user_id == BOT {
        return Err("the bot's own message, which is stored as a reply".into());
    }
    let is_mentioned = event.list("mentions").is_some_and(|ids| ids.iter().any(|id| id == BOT));
    let asks = if draft.metadata.is_private() || is_mentioned { Asks::Addressed } else { Asks::Unaddressed };
    // Otherwise two bots could talk to each other without end.
    let asks = if event.flag("isBot") { Asks::Never } else { asks };
    let typed = event.text("text").unwrap_or_default().trim_start_matches("@bot").trim_start();
    let command = Command::parse(typed, None).filter(|_| asks == Asks::Addressed && !event.has("edited"));
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
    let id = event.id("id").and_then(stored_id).ok_or("the event has no id")?;
    let to = event.id("to").ok_or("the event has no chat")?;
    let group_id = (to != BOT).then_some(to);
    // In a group, a message without a sender is kept as one of the window's.
    let user_id = event.id("from").or(group_id).ok_or("the event has no sender")?;
    let chat_id = group_id.unwrap_or(user_id).to_owned();
    let thread_id = event.id("thread").map(str::to_owned);
    // A real channel has places of its own: these are Lark's. In a private chat, no key names a thread.
    let place = match thread_id.clone().filter(|_| group_id.is_some()) {
        Some(thread_id) => Place::LarkThread { chat_id: chat_id.clone(), thread_id },
        None => Place::LarkChat { chat_id: chat_id.clone() },
    };
    let direct = if group_id.is_none() { settings.direct(ABOUT.channel, user_id)? } else { None };
    let chat = direct.map_or_else(|| ChatKey::new(place), Ok)?;
    let origin = Origin { chat, channel: ABOUT.channel, chat_id, user_id: user_id.to_owned() };
    let chat_type = Some(if group_id.is_some() { ChatType::Group } else { ChatType::Private });
    let sender_is_bot = event.flag("isBot");
    let mut metadata = Metadata::from(FromPlatform { sender_is_bot, chat_type, ..FromPlatform::default() });
    // Here a press is no message that a reply can name.
    let message_id = event.id("id").filter(|_| !event.has("press")).map(str::to_owned);
    metadata.set_ids_of(ABOUT.channel, &Ids { thread_id, message_id });
    // An edit has the id and the time of the message that it changes.
    let at = event.time("at");
    Ok(Draft::new(origin, id, at.unwrap_or(Timestamp::MIN))
        .with_form_ts(event.time("edited").or(at))
        .with_metadata(metadata))
}

// content.rs

/// Returns the text and the file of a message. One without them is stored too, as a line that says what it has.
fn parts(event: JsonView<'_>) -> Vec<Part> {
    let text = event.text("text").map(Part::text);
    let parts: Vec<Part> = text.into_iter().chain(event.object("file").and_then(file)).collect();
    let is_known = |name: &&str| matches!(*name, "id" | "from" | "to" | "thread" | "at" | "mentions");
    let names = event.fields().map(|(name, _)| name).filter(|name| !is_known(name));
    let unsupported = format!("[unsupported message: {}]", names.collect::<Vec<_>>().join(", "));
    if parts.is_empty() { vec![Part::text(unsupported)] } else { parts }
}

/// Returns the part of a file. `Platform::fetch` asks for the address by its URL, since an address ends.
fn file(file: JsonView<'_>) -> Option<Part> {
    let id = file.id("id")?;
    let known = json!({"fileUniqueId": id, "size": file.int("size")});
    let media_type = file.text("type").unwrap_or("application/octet-stream");
    Some(Part::file(media_type, file.text("name"), format!("lark:{id}"), ("lark", &known)))
}

// metadata.rs

/// Ids that a reply needs beside the chat's, as the platform writes them. Schedules and operators' messages copy them whole.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Ids {
    #[serde(skip_serializing_if = "Option::is_none")]
    thread_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<String>,
}

/// Returns the id under which a message is stored. It has no `/`, after which derived ids have a suffix.
fn stored_id(id: &str) -> Option<MessageId> {
    MessageId::new(id.replace('%', "%25").replace('/', "%2F")).ok()
}

// client.rs

#[derive(Clone)]
struct Client {
    api: Api,
    token: SecretString,
}

impl Client {
    /// Makes a request, which may be repeated (`true`): the platform knows a message by its `key`, else it would be sent twice.
    async fn call(&self, method: &'static str, body: &Value) -> Result<Answer, CallError> {
        let (mut budget, token) = (self.api.budget(), self.token.expose_secret());
        if method == "send" {
            self.api.wait_for_slot(&mut budget).await?;
        }
        let attempt = || async {
            let to = (Method::POST, self.api.url(&[method]));
            let answer = self.api.send(method, to, |request| request.bearer_auth(token).json(body)).await?;
            match answer.status {
                ..300 => Ok(answer),
                // The token has ended, or is being changed: the reply waits. After `Refused` it would be lost.
                401 => Err(CallError::Token { code: 0, reason: format!("{method} refused: check {TOKEN}") }),
                403 => Err(CallError::Blocked { reason: "the person blocked the bot".into() }),
                429 => Err(answer.limited(answer.seconds("retry-after"))),
                500.. => Err(answer.failed(format!("HTTP status {}", answer.status))),
                status => Err(CallError::Refused { status, code: 0, reason: format!("{method} refused") }),
            }
        };
        budget.retry(true, attempt).await
    }
}

// platform.rs, render.rs

const LIMIT: usize = 1000;
/// Number of calls with buttons. Further ones are answered by commands.
const MAX_CALLS: usize = 5;
const FILE_SERVERS: [&str; 1] = ["https://files.pager.example"];
const DIALECT: Dialect = Dialect { options: Options::empty(), cost_of: |_| 1, max_tables: usize::MAX };

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

    async fn fetch(&self, part: &Part, limit: usize) -> Result<Vec<u8>, FileError> {
        let PartView::File { url, .. } = part.view() else { return Err(FileError::NoChannel) };
        let id = url.strip_prefix("lark:").ok_or(FileError::NoChannel)?;
        let answer: Value = self.call("file", &json!({"id": id})).await?.parse()?;
        let url = answer["url"].as_str().and_then(|url| Url::parse(url).ok());
        let is_listed = |url: &Url| FILE_SERVERS.contains(&url.origin().ascii_serialization().as_str());
        let url = url.filter(|url| is_listed(url) || url.origin() == self.api.base.origin());
        let url = url.ok_or_else(|| FileError::Gone("its address is on no host of files".into()))?;
        // No token is sent, and no redirect followed, which could lead into the operator's network.
        let response = self.api.open((Method::GET, url), |request| request).await?;
        match response.status().as_u16() {
            200 => read_limited(response, limit).await,
            status @ (403 | 404 | 410) => Err(FileError::Gone(format!("HTTP status {status}"))),
            status => Err(FileError::Unavailable(format!("HTTP status {status}"))),
        }
    }
}

/// Returns the request that sends `text`, a piece of `reply`, to the thread or the window of what it answers.
fn body(reply: &OutgoingReply<'_>, text: &str, Piece { index, is_last }: Piece) -> Value {
    let Ids { thread_id, message_id } = reply.to.message.metadata.ids_of(ABOUT.channel);
    let asked = reply.requests.iter().filter(|_| is_last).take(MAX_CALLS);
    let button = |of: &RequestedCall, yes| json!({"label": of.label(yes), "press": of.button(yes).data()});
    let buttons: Vec<Value> = asked.flat_map(|of| [button(of, true), button(of, false)]).collect();
    json!({"to": reply.to.chat_id, "thread": thread_id, "replyTo": message_id, "text": text, "buttons": buttons,
        "key": format!("{} {index}", reply.id())})
}
