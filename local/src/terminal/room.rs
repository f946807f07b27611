//! A conversation by the routes that browsers use: [`Room`], a web room of a key elsewhere, or a person's direct chat here.

use std::time::Duration;

use annals_core::command::Command;
use annals_core::language::Language;
use annals_core::message::{Role, UiMessage};
use annals_core::record::Kind;
use annals_core::texts::{Plain, Texts};
use annals_io::clock::Clock;
use anyhow::{Context, bail};
use reqwest::{Method, Response, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::chunks::Decoder;
use super::event::Event;
use crate::api::{Api, Lines, chat_path, encoded};

const EVENTS: &str = "text/event-stream";
/// Pause before a request is repeated: the connection was lost, or the reply takes long.
const PAUSE: Duration = Duration::from_secs(2);
/// Number of messages among which a reply is looked for that was just stored.
const NEWEST: usize = 20;

/// A room.
#[derive(Clone)]
pub(super) struct Room {
    api: Api,
    id: String,
    user: String,
    /// Path of its messages, for a key that may read them.
    messages: Option<String>,
    clock: Clock,
}

impl Room {
    /// Opens the room `id`, or that of the terminal, for `user`. Checks the address and the key.
    pub(super) async fn open(
        api: Api,
        id: Option<String>,
        user: String,
        clock: Clock,
    ) -> anyhow::Result<Self> {
        #[derive(Deserialize)]
        struct Key {
            name: String,
            admin: bool,
        }
        let Key { name, admin } = api.json("/v1/key", &[]).await?;
        let id = id.unwrap_or_else(|| format!("terminal-{user}"));
        let escaped = |text: &str| text.replace('%', "%25").replace(':', "%3A");
        let chat = if id.starts_with("web:room:") {
            id.clone()
        } else {
            format!("web:room:{}:{}", escaped(&name), escaped(&id))
        };
        let messages = admin.then(|| chat_path(&chat, "/messages"));
        Ok(Self { api, id, user, messages, clock })
    }

    /// Returns the direct chat of `user` at the endpoint for terminals.
    pub(super) fn direct(api: Api, user: String, clock: Clock) -> Self {
        let messages = Some(format!("/messages/{}", encoded(&user)));
        Self { api, id: "terminal".into(), user, messages, clock }
    }

    /// Waits before a request is repeated.
    pub(super) async fn pause(&self) {
        self.clock.sleep(PAUSE).await;
    }

    /// Returns a description of it for people.
    pub(super) fn name(&self, texts: &dyn Texts) -> String {
        format!("{}{}{}", self.api.name(), texts.comma(), texts.in_room(&self.id, &self.user))
    }

    /// Sends `text` under `id`; a repeated message has the same id. Or sends `answered`, a reply with an answer to its request for
    /// approval.
    pub(super) async fn say(
        &self,
        id: &str,
        text: &str,
        answered: Option<&UiMessage>,
    ) -> anyhow::Result<Events> {
        let message = match answered {
            Some(reply) => json!(reply),
            None => json!({"id": id, "role": "user", "parts": [{"type": "text", "text": text}]}),
        };
        let body =
            json!({"id": self.id, "userId": self.user, "trigger": "submit-message", "message": message});
        let events = Events::new(self.clone(), self.post(&body).await?);
        if let Some(reply) = answered {
            return Ok(Events { decoder: Decoder::after(reply), ..events });
        }
        let command = Command::parse(text, None);
        let resumes = matches!(command, Some(Command::Approve { .. } | Command::Deny { .. }));
        Ok(Events { resumes, again: Some(body), ..events })
    }

    /// Returns the reply that is being made, if there is one.
    pub(super) async fn pending(&self) -> anyhow::Result<Option<Events>> {
        let path = format!("/api/chat/{}/stream?userId={}", encoded(&self.id), encoded(&self.user));
        let answer = self.api.send(Method::GET, &path, EVENTS, None).await?;
        let has_reply = answer.status() != StatusCode::NO_CONTENT;
        Ok(has_reply.then(|| Events::new(self.clone(), answer)))
    }

    /// Returns the last `limit` messages; none for a key that may not read them.
    pub(super) async fn history(&self, limit: usize) -> anyhow::Result<Vec<UiMessage>> {
        #[derive(Deserialize)]
        struct Page {
            messages: Vec<UiMessage>,
        }
        let Some(path) = &self.messages else { return Ok(Vec::new()) };
        let page: Page = self.api.json(path, &[("limit", limit.to_string())]).await?;
        Ok(page.messages)
    }

    async fn post(&self, body: &Value) -> anyhow::Result<Response> {
        self.api.send(Method::POST, "/api/chat", EVENTS, Some(body)).await
    }
}

/// A streamed answer.
pub(super) struct Events {
    room: Room,
    lines: Lines,
    decoder: Decoder,
    /// True if a reply may continue after this confirmation.
    resumes: bool,
    /// The message, to ask for its reply again.
    again: Option<Value>,
    is_over: bool,
}

impl Events {
    fn new(room: Room, answer: Response) -> Self {
        let (lines, decoder) = (lines_of(answer), Decoder::default());
        Self { room, lines, decoder, resumes: false, again: None, is_over: false }
    }

    /// Returns the next event, or `None` after the last. Fails if the program has ended. Cancel-safe, except between two streams.
    pub(super) async fn next(&mut self) -> anyhow::Result<Option<Event>> {
        while !self.is_over {
            let line = self.lines.next().await?;
            let line = line.context("the connection has ended before the reply")?;
            let Some(data) = line.strip_prefix(b"data: ") else {
                // A sign of life.
                return Ok(Some(Event::Still));
            };
            if data.trim_ascii() == b"[DONE]" {
                self.is_over = true;
                break;
            }
            let Some(event) = self.decoder.take(&serde_json::from_slice(data)?) else { continue };
            let event = match event {
                Event::Broken { text } if is(&text, Plain::still_answering) => {
                    return self.ask_again().await.map(Some);
                }
                Event::Broken { text } if is(&text, Plain::answered_anew) => {
                    self.stored().await?.unwrap_or(Event::Broken { text })
                }
                Event::Broken { text } if is(&text, Plain::chat_forgotten) => Event::Forgotten,
                Event::Done { message, .. } if self.resumes => {
                    match self.room.pending().await? {
                        Some(rest) => *self = rest,
                        None => self.is_over = true,
                    }
                    return Ok(Some(Event::Confirmed { text: message.plain_text() }));
                }
                Event::Broken { .. } | Event::Done { .. } => event,
                // The confirmation is shown whole.
                _ if self.resumes => continue,
                event => return Ok(Some(event)),
            };
            self.is_over = true;
            return Ok(Some(event));
        }
        Ok(None)
    }

    /// Asks for a reply that takes longer than a request may: by the same message, which is stored once.
    async fn ask_again(&mut self) -> anyhow::Result<Event> {
        let Some(body) = &self.again else {
            bail!("the reply takes long; /history shows it later");
        };
        self.room.pause().await;
        self.lines = lines_of(self.room.post(body).await?);
        self.decoder = Decoder::default();
        Ok(Event::Still)
    }

    /// Returns the reply as it is stored, which is another one than was streamed; `None` for a key that may not read it.
    async fn stored(&self) -> anyhow::Result<Option<Event>> {
        let messages = self.room.history(NEWEST).await?;
        let is_reply = |message: &UiMessage| {
            let kind = message.metadata.kind();
            message.role == Role::Assistant && matches!(kind, Some(Kind::Normal | Kind::Revision))
        };
        Ok(messages.into_iter().rfind(is_reply).map(Event::done))
    }
}

fn lines_of(answer: Response) -> Lines {
    Lines::of(answer, "the connection has ended".into())
}

/// Returns true if the error `text` is that of `said`, in any language.
fn is(text: &str, said: impl Fn(&'static dyn Texts) -> &'static str) -> bool {
    Language::ALL.into_iter().any(|language| said(language.texts()) == text)
}
