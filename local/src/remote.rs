//! Reads chats of a program or a stack over its HTTP API: `history`, `context` and `archive` with `ANNALS_URL`, and `chats` and
//! `search`, which ask the local program otherwise.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use annals_core::message::UiMessage;
use annals_core::settings::{ConfigError, Env};
use annals_core::sort_key::Timestamp;
use annals_io::errors::chain;
use anyhow::{Context, anyhow, bail};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Response, StatusCode, Url, header};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::Value;

use crate::config::{KEY, LocalConfig, URL};
use crate::show::{self, Format};
use crate::tty::printable;

/// Time within which a server must begin to answer, and send each further part.
const PATIENCE: Duration = Duration::from_secs(30);

/// A program or stack, and the key for it.
#[derive(Clone, Debug)]
pub struct Remote {
    /// Its address, without a slash at the end.
    base: String,
    key: SecretString,
    client: reqwest::Client,
    /// What to do if it does not answer.
    remedy: &'static str,
}

/// Which chats are listed.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Text in the title, a person or the key.
    pub query: Option<String>,
    /// State, as `GET /v1/chats` names it.
    pub state: Option<String>,
    /// Maximum number.
    pub limit: usize,
}

impl Remote {
    /// Returns the program that `url` and `key`, or `ANNALS_URL` and `ANNALS_KEY`, name; `None` if neither names one.
    pub fn given(env: Env<'_>, url: Option<&str>, key: Option<&str>) -> anyhow::Result<Option<Self>> {
        let Some(base) = url.map(str::to_owned).or_else(|| env.optional(URL.name)) else {
            anyhow::ensure!(key.is_none(), "--key is for the program at --url, or at ANNALS_URL");
            return Ok(None);
        };
        let is_url =
            Url::parse(&base).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        if !is_url {
            return Err(ConfigError::new(
                URL.name,
                "must be an http or https URL, such as https://bot.example.com",
            )
            .into());
        }
        let Some(key) = key.map(str::to_owned).or_else(|| env.optional(KEY.name)) else {
            return Err(ConfigError::new(
                KEY.name,
                "is not set: it is the secret of one of that program's HTTP_API_KEYS",
            )
            .into());
        };
        let remedy = "check ANNALS_URL, and that it runs";
        Self::new(&base, key.into(), remedy).map(Some)
    }

    /// Returns [`Remote::given`], or else the local program.
    pub fn or_local(env: Env<'_>, url: Option<&str>, key: Option<&str>) -> anyhow::Result<Self> {
        if let Some(given) = Self::given(env, url, key)? {
            return Ok(given);
        }
        let config = LocalConfig::from_env(env)?.with_key()?;
        let host = match config.host {
            IpAddr::V4(host) if host.is_unspecified() => IpAddr::from([127, 0, 0, 1]),
            host => host,
        };
        let keys = config.api_keys();
        let key = keys.iter().find(|key| key.admin).or(keys.first()).context("HTTP_API_KEYS has no key")?;
        let base = format!("http://{}", SocketAddr::new(host, config.port));
        Self::new(&base, key.secret.clone(), "start it with cargo run, or set ANNALS_URL to a stack's")
    }

    fn new(base: &str, key: SecretString, remedy: &'static str) -> anyhow::Result<Self> {
        let client = reqwest::Client::builder().connect_timeout(PATIENCE).read_timeout(PATIENCE).build()?;
        Ok(Self { base: base.trim_end_matches('/').to_owned(), key, client, remedy })
    }

    /// Prints the whole history of the chat, oldest first.
    pub async fn history(&self, chat: &str, format: Format, out: &mut impl Write) -> anyhow::Result<()> {
        let answer = self.get(&chat_path(chat, "/messages"), &[], "application/x-ndjson").await?;
        let count = self.print_lines(answer, format, out).await?;
        if count == 0 && format == Format::Text {
            writeln!(out, "Nothing is stored under {}.", printable(chat))?;
        }
        Ok(())
    }

    /// Prints the context of the chat's next turn.
    pub async fn context(&self, chat: &str, out: &mut impl Write) -> anyhow::Result<()> {
        #[derive(Deserialize)]
        struct View {
            messages: Vec<UiMessage>,
            system: Option<String>,
            tokens: u32,
            window: u32,
        }
        let View { messages, system, tokens, window } = self.json(&chat_path(chat, "/context"), &[]).await?;
        if let Some(system) = system {
            writeln!(out, "system\n{}", show::indented(&system))?;
        }
        for message in &messages {
            show::print(message, Format::Text, out)?;
        }
        writeln!(out, "{} messages, about {tokens} of {window} tokens", messages.len())?;
        Ok(())
    }

    /// Lists the segments of the chat, oldest first.
    pub async fn segments(&self, chat: &str, out: &mut impl Write) -> anyhow::Result<()> {
        #[derive(Deserialize)]
        struct List {
            segments: Vec<Segment>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Segment {
            id: String,
            from_id: String,
            to_id: String,
            count: u64,
            bytes: u64,
            created_at: Timestamp,
        }
        let List { segments } = self.json(&chat_path(chat, "/segments"), &[]).await?;
        for Segment { id, from_id, to_id, count, bytes, created_at } in &segments {
            let (id, from_id, to_id) = (printable(id), printable(from_id), printable(to_id));
            let archived = show::time(*created_at);
            writeln!(
                out,
                "{id}  {count} records, {bytes} bytes, archived {archived}\n    #{from_id} to #{to_id}"
            )?;
        }
        if segments.is_empty() {
            writeln!(out, "Nothing of {} is archived.", printable(chat))?;
        }
        Ok(())
    }

    /// Prints the segment `id` of the chat.
    pub async fn segment(
        &self,
        chat: &str,
        id: &str,
        format: Format,
        out: &mut impl Write,
    ) -> anyhow::Result<()> {
        let path = chat_path(chat, &format!("/segments/{}", encoded(id)));
        let answer = self.get(&path, &[], "application/x-ndjson").await?;
        self.print_lines(answer, format, out).await?;
        Ok(())
    }

    /// Prints the messages of the chat that fit `words` best, the best first.
    pub async fn search(
        &self,
        chat: &str,
        words: &str,
        limit: usize,
        format: Format,
        out: &mut impl Write,
    ) -> anyhow::Result<()> {
        #[derive(Deserialize)]
        struct Found {
            hits: Vec<Hit>,
        }
        #[derive(Deserialize)]
        struct Hit {
            message: UiMessage,
        }
        let query = [("q", words.to_owned()), ("limit", limit.to_string())];
        let Found { hits } = self.json(&chat_path(chat, "/search"), &query).await?;
        for Hit { message } in &hits {
            show::print(message, format, out)?;
        }
        if hits.is_empty() && format == Format::Text {
            writeln!(out, "Nothing in {} fits.", printable(chat))?;
        }
        Ok(())
    }

    /// Lists chats, the most recently used first: with `format` as JSON, as the API returns them.
    pub async fn chats(
        &self,
        selection: &Selection,
        format: Format,
        out: &mut impl Write,
    ) -> anyhow::Result<()> {
        #[derive(Deserialize)]
        struct List {
            chats: Vec<Value>,
            before: Option<String>,
        }
        let mut left = selection.limit;
        let mut before: Option<String> = None;
        loop {
            let given = [("q", &selection.query), ("state", &selection.state), ("before", &before)];
            let given = given.into_iter().filter_map(|(name, value)| Some((name, value.clone()?)));
            let query: Vec<_> = given.chain([("limit", left.min(100).to_string())]).collect();
            let List { chats, before: next } = self.json("/v1/chats", &query).await?;
            for chat in chats.iter().take(left) {
                if format == Format::Jsonl {
                    writeln!(out, "{chat}")?;
                } else {
                    print_chat(chat, out)?;
                }
            }
            left = left.saturating_sub(chats.len());
            before = next;
            if left == 0 || before.is_none() {
                break;
            }
        }
        if left == selection.limit && format == Format::Text {
            writeln!(out, "There is no such chat.")?;
        }
        Ok(())
    }

    async fn print_lines(
        &self,
        mut answer: Response,
        format: Format,
        out: &mut impl Write,
    ) -> anyhow::Result<u64> {
        let (mut received, mut count) = (Vec::new(), 0);
        loop {
            let chunk = answer.chunk().await.with_context(|| format!("{} broke off", self.base))?;
            match &chunk {
                Some(chunk) => received.extend_from_slice(chunk),
                None if !received.is_empty() => received.push(b'\n'),
                None => {}
            }
            let whole = received.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            for line in received[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                let message = serde_json::from_slice(line).with_context(|| not_annals(&self.base))?;
                show::print(&message, format, out)?;
                count += 1;
            }
            received.drain(..whole);
            if chunk.is_none() {
                return Ok(count);
            }
        }
    }

    async fn json<T: for<'de> Deserialize<'de>>(
        &self,
        path: &str,
        query: &[(&str, String)],
    ) -> anyhow::Result<T> {
        let answer = self.get(path, query, "application/json").await?;
        answer.json().await.with_context(|| not_annals(&self.base))
    }

    async fn get(&self, path: &str, query: &[(&str, String)], accept: &str) -> anyhow::Result<Response> {
        let query: Vec<String> =
            query.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        let mark = if query.is_empty() { "" } else { "?" };
        let request = self
            .client
            .get(format!("{}{path}{mark}{}", self.base, query.join("&")))
            .bearer_auth(self.key.expose_secret())
            .header(header::ACCEPT, accept);
        let answer = request.send().await.map_err(|error| {
            anyhow!("{} does not answer ({}): {}", self.base, chain(&error.without_url()), self.remedy)
        })?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let problem = answer.json::<Problem>().await.ok();
        let said = problem.as_ref().map(Problem::words).unwrap_or_default();
        match status {
            StatusCode::UNAUTHORIZED => bail!(
                "{} does not accept the key (401): ANNALS_KEY must be the secret of one of its HTTP_API_KEYS",
                self.base
            ),
            StatusCode::FORBIDDEN => bail!("the key may not do this (403): {said}"),
            _ if problem.is_none() => bail!("{} ({})", not_annals(&self.base), status.as_u16()),
            _ => bail!("{said} ({})", status.as_u16()),
        }
    }
}

/// An error of the API.
#[derive(Deserialize)]
struct Problem {
    title: String,
    detail: Option<String>,
}

impl Problem {
    fn words(&self) -> String {
        let words = self
            .detail
            .as_ref()
            .map_or_else(|| self.title.clone(), |detail| format!("{}: {detail}", self.title));
        printable(&words).replace('\n', " ")
    }
}

fn not_annals(base: &str) -> String {
    format!("{base} does not answer as this version of Annals does: check ANNALS_URL")
}

fn chat_path(chat: &str, rest: &str) -> String {
    format!("/v1/chats/{}{rest}", encoded(chat))
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// Prints an entry of the list of chats.
fn print_chat(chat: &Value, out: &mut impl Write) -> anyhow::Result<()> {
    let line = |text: &str| printable(text).replace('\n', " ");
    let text = |name: &str| chat[name].as_str().map(line);
    let at = chat["lastInteractionAt"].as_i64().and_then(Timestamp::from_millis);
    let title = text("title").or_else(|| text("speaker")).unwrap_or_default();
    let state = text("pendingTurn").map(|state| format!(" [{state}]")).unwrap_or_default();
    let failed = if chat["deliveryFailure"].is_object() { " [not delivered]" } else { "" };
    let (at, key) = (at.map(show::time).unwrap_or_default(), text("chatKey").unwrap_or_default());
    writeln!(out, "{at}  {key}  {title}{state}{failed}")?;
    if let Some(excerpt) = chat["lastMessage"]["text"].as_str() {
        writeln!(out, "    {}", line(excerpt))?;
    }
    Ok(())
}
