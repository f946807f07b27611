//! The HTTP API as commands use it: [`Api`]. A program or stack elsewhere answers over the network, the data directory of this
//! machine inside the process, by the same routes. So a command is written once, and needs no running program.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use annals_channel::settings::{dm_scope, links};
use annals_core::chat_key::{ChatKey, KeyError};
use annals_core::settings::Env;
use annals_engine::ingress::{Ingress, IngressConfig};
use annals_engine::profiles::ProfilesSetting;
use annals_engine::settings::{MemoryConfig, ViewConfig, model_names};
use annals_http::chat::Web;
use annals_http::settings::{ApiKey, HttpConfig, api_keys};
use annals_http::{Http, random_id};
use annals_io::clock::Clock;
use annals_io::errors::chain;
use annals_io::tls;
use annals_store::queue::{QueueError, Turn, TurnQueue};
use annals_store::settings::retention;
use anyhow::{Context, ensure};
use axum::Router;
use axum::body::Body;
use futures::future::BoxFuture;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{ClientBuilder, Method, Request, Response, StatusCode, header};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::Value;

use crate::config::{DATA_DIR, data_dir};
use crate::histories::open_history;
use crate::profiles;
use crate::stores::check_writable;
use crate::tty::line;

/// Time within which a server must begin to answer, and send each further part.
const PATIENCE: Duration = Duration::from_secs(30);

/// Media type of JSON lines.
pub(crate) const NDJSON: &str = "application/x-ndjson";

/// A program, a stack or a data directory, and the key for it.
#[derive(Clone)]
pub struct Api {
    client: reqwest::Client,
    /// The address, without a slash at the end.
    base: String,
    /// The routes over the data directory, in place of the network.
    routes: Option<Router>,
    key: SecretString,
    /// Its name for people: the address, of a program elsewhere.
    name: String,
    /// The source of the key and the address, for errors.
    key_name: String,
    url_name: String,
}

/// A request without success, for people.
#[derive(Debug)]
pub(crate) struct Failed {
    words: String,
    /// Status of the answer; `None` without an answer.
    pub(crate) status: Option<StatusCode>,
    /// Pause that the server asks for.
    pub(crate) retry_after: Option<Duration>,
}

impl Failed {
    /// Returns true if the same request may succeed later.
    pub(crate) fn may_pass(&self) -> bool {
        self.status.is_none_or(may_pass)
    }
}

fn may_pass(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl std::error::Error for Failed {}

impl Api {
    /// Returns the API at `base`. `key_name` and `url_name` say in errors where the key and the address are from.
    pub fn elsewhere(
        base: &str,
        key: SecretString,
        key_name: String,
        url_name: String,
    ) -> anyhow::Result<Self> {
        let client = tls::client().connect_timeout(PATIENCE).read_timeout(PATIENCE).build()?;
        let base = base.trim_end_matches('/').to_owned();
        let name = base.clone();
        Ok(Self { client, base, routes: None, key, name, key_name, url_name })
    }

    /// Returns the endpoint for terminals, to whose socket `client` sends every request.
    pub(crate) fn of_terminal(client: ClientBuilder, key: SecretString) -> anyhow::Result<Self> {
        Ok(Self {
            client: client.read_timeout(PATIENCE).build()?,
            base: "http://localhost".into(),
            routes: None,
            key,
            name: "the program".into(),
            key_name: "the terminal".into(),
            url_name: DATA_DIR.name.into(),
        })
    }

    /// Returns the API over the data directory, whether a program uses it or not, with an admin key of the name that its
    /// program has. Checks first that it can be written if the command `writes`.
    pub async fn of_this_machine(env: Env<'_>, clock: Clock, writes: bool) -> anyhow::Result<Self> {
        let data_dir = data_dir(env);
        let history = open_history(&data_dir, retention(env)?, clock).await?;
        if writes {
            check_writable(&data_dir)?;
        }
        let keys = api_keys(env)?.unwrap_or_default();
        let name = keys.into_iter().find(|key| key.admin).map_or_else(|| "dev".to_owned(), |key| key.name);
        // Nobody else can call these routes.
        let secret: SecretString = random_id().into();
        let (memory, models) = (MemoryConfig::from_env(env)?, model_names(env)?);
        let ingress = IngressConfig {
            agents: Arc::clone(&memory.agents),
            dm_scope: dm_scope(env)?,
            links: links(env)?,
            memory_is_on: memory.is_on,
            ..IngressConfig::default()
        };
        let ingress = Ingress::new(history, Arc::new(NoQueue), ingress);
        let keys = vec![ApiKey { name, secret: secret.clone(), admin: true }];
        let web = Web::buffered(ingress.clone());
        let profiles = profiles::read(&ProfilesSetting::from_env(env, &memory.agents, models.clone())?)?;
        let system_prompt = env.optional("SYSTEM_PROMPT");
        let config = HttpConfig { keys, models, system_prompt, ..HttpConfig::default() };
        let http = Http::new(config, ingress, web, ViewConfig::from_env(env)?, (memory, profiles));
        Ok(Self {
            client: tls::loopback_client().build()?,
            base: "http://localhost".into(),
            routes: Some(annals_http::router(http)),
            key: secret,
            name: "this machine".into(),
            key_name: "the key".into(),
            url_name: DATA_DIR.name.into(),
        })
    }

    /// Returns the name of the program, for people.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns true for a program on this machine, whose requests cost nothing.
    pub(crate) fn is_near(&self) -> bool {
        let url = reqwest::Url::parse(&self.base).ok();
        url.and_then(|url| url.host_str().map(str::to_owned))
            .is_some_and(|host| matches!(host.as_str(), "localhost" | "127.0.0.1" | "[::1]"))
    }

    /// Returns the path of `rest` of the chat that a person has named. Over the data directory, it must be a ChatKey.
    pub(crate) fn of_chat(&self, chat: &str, rest: &str) -> anyhow::Result<String> {
        if self.routes.is_some() {
            parse_chat_key(chat)?;
        }
        Ok(chat_path(chat, rest))
    }

    /// Fetches JSON.
    pub(crate) async fn json<T: for<'de> Deserialize<'de>>(
        &self,
        path: &str,
        query: &[(&str, String)],
    ) -> anyhow::Result<T> {
        let answer = self.get(path, query, "application/json").await?;
        self.parsed(answer).await
    }

    /// Reads the JSON of an answer.
    pub(crate) async fn parsed<T: for<'de> Deserialize<'de>>(&self, answer: Response) -> anyhow::Result<T> {
        let body = answer.bytes().await.with_context(|| self.broke_off())?;
        serde_json::from_slice(&body).with_context(|| self.not_annals())
    }

    /// Fetches lines, and hands each to `take`, without its end. Returns their number.
    pub(crate) async fn lines(
        &self,
        path: &str,
        mut take: impl FnMut(&[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<u64> {
        let mut lines = Lines::of(self.get(path, &[], NDJSON).await?, self.broke_off());
        let mut count = 0;
        while let Some(line) = lines.next().await? {
            // At a function URL, an answer that breaks off ends so.
            ensure!(!line.starts_with(br#"{"type":"urn:annals:problem:"#), "{}", self.broke_off());
            take(&line)?;
            count += 1;
        }
        Ok(count)
    }

    async fn get(&self, path: &str, query: &[(&str, String)], accept: &str) -> anyhow::Result<Response> {
        let query: Vec<String> =
            query.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        let mark = if query.is_empty() { "" } else { "?" };
        self.send(Method::GET, &format!("{path}{mark}{}", query.join("&")), accept, None).await
    }

    /// Sends a request, with `body` as JSON. Returns the answer to one with success.
    pub(crate) async fn send(
        &self,
        method: Method,
        path_and_query: &str,
        accept: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Response> {
        let request = self
            .client
            .request(method, format!("{}{path_and_query}", self.base))
            .bearer_auth(self.key.expose_secret())
            .header(header::ACCEPT, accept);
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        let request = request.build()?;
        let answer = match &self.routes {
            None => self.client.execute(request).await.map_err(|error| {
                let (name, why, url_name) = (&self.name, chain(&error.without_url()), &self.url_name);
                failed(format!("{name} does not answer ({why}): check {url_name}, and that it runs"))
            })?,
            Some(router) => answer_of(router, request).await?,
        };
        if answer.status().is_success() { Ok(answer) } else { Err(self.refusal(answer).await.into()) }
    }

    async fn refusal(&self, answer: Response) -> Failed {
        let (status, base, key) = (answer.status(), &self.name, &self.key_name);
        let retry_after = answer.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after = retry_after.and_then(|secs| secs.parse().ok()).map(Duration::from_secs);
        let problem = answer.json::<Problem>().await.ok();
        let said = problem.as_ref().map(Problem::words).unwrap_or_default();
        let words = match status {
            StatusCode::UNAUTHORIZED => format!(
                "{base} does not accept the key (401): {key} must be the secret of one of its HTTP_API_KEYS"
            ),
            // Of what is in front of a program: AWS's gateways, a proxy, a tunnel.
            _ if problem.is_none() && may_pass(status) => format!(
                "{base} is overloaded, took too long or does not run ({}): try again; long answers need StreamingUrl",
                status.as_u16()
            ),
            _ if problem.is_none() => format!("{} ({})", self.not_annals(), status.as_u16()),
            StatusCode::FORBIDDEN if base.starts_with("http") => {
                format!("{key} may not do this at {base} (403): {said}")
            }
            _ if base.starts_with("http") => format!("{base}: {said} ({})", status.as_u16()),
            _ => said,
        };
        Failed { words, status: Some(status), retry_after }
    }

    fn broke_off(&self) -> String {
        format!("the answer of {} broke off", self.name())
    }

    fn not_annals(&self) -> String {
        let Self { name, url_name, .. } = self;
        format!("{name} does not answer as this version of Annals does: check {url_name}")
    }
}

/// The queue of commands over the data directory, which ask for no answers.
struct NoQueue;

impl TurnQueue for NoQueue {
    fn enqueue<'a>(&'a self, _: &'a Turn) -> BoxFuture<'a, Result<(), QueueError>> {
        Box::pin(async { Err(QueueError { reason: "a command beside the program has no queue".into() }) })
    }
}

fn failed(words: String) -> Failed {
    Failed { words, status: None, retry_after: None }
}

/// Hands a request to routes in this process.
async fn answer_of(router: &Router, request: Request) -> anyhow::Result<Response> {
    let request = hyper::Request::<reqwest::Body>::try_from(request)?.map(Body::new);
    let Ok(answer) = TowerToHyperService::new(router.clone()).call(request).await;
    Ok(answer.map(|body| reqwest::Body::wrap_stream(body.into_data_stream())).into())
}

/// Lines of an answer.
pub(crate) struct Lines {
    answer: Response,
    received: Vec<u8>,
    is_over: bool,
    broke_off: String,
}

impl Lines {
    /// Returns the lines of `answer`; `broke_off` is the error if that breaks off.
    pub(crate) fn of(answer: Response, broke_off: String) -> Self {
        Self { answer, received: Vec::new(), is_over: false, broke_off }
    }

    /// Returns the next line that is not empty, without its end. Cancel-safe.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<Vec<u8>>> {
        loop {
            if let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.received.drain(..=end).collect();
                line.pop();
                if !line.is_empty() {
                    return Ok(Some(line));
                }
                continue;
            }
            if self.is_over {
                let rest = std::mem::take(&mut self.received);
                return Ok((!rest.is_empty()).then_some(rest));
            }
            match self.answer.chunk().await.with_context(|| self.broke_off.clone())? {
                Some(chunk) => self.received.extend_from_slice(&chunk),
                None => self.is_over = true,
            }
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
        match &self.detail {
            Some(detail) => line(&format!("{}: {detail}", self.title)),
            None => line(&self.title),
        }
    }
}

/// Parses a ChatKey that a person has given.
pub fn parse_chat_key(text: &str) -> anyhow::Result<ChatKey> {
    text.parse().map_err(|error| match error {
        // The error names the text itself.
        KeyError::UnknownShape => anyhow::anyhow!("{text:?} is {error}"),
        error => anyhow::anyhow!("{text:?} names no chat: {error}"),
    })
}

/// Returns the path of `rest` of a chat.
pub(crate) fn chat_path(chat: &str, rest: &str) -> String {
    format!("/v1/chats/{}{rest}", encoded(chat))
}

/// Encodes `text` for a path or a query.
pub(crate) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_refusal_says_whether_annals_or_what_is_in_front_of_it_has_answered() {
        const PROBLEM: &str = r#"{"title":"Forbidden","detail":"an admin key is needed"}"#;
        let base = "https://bot.example.com";
        let api = Api::elsewhere(base, "k".into(), "ANNALS_KEY".into(), "ANNALS_URL".into()).unwrap();
        for (status, body, words) in [
            (401_u16, "", "does not accept the key (401): ANNALS_KEY must be"),
            (403, PROBLEM, "ANNALS_KEY may not do this at https://bot.example.com (403): Forbidden: an"),
            (403, r#"{"Message":null}"#, "as this version of Annals does: check ANNALS_URL (403)"),
            (404, "<html>", "as this version of Annals does: check ANNALS_URL (404)"),
            (429, r#"{"message":"Too Many Requests"}"#, "is overloaded, took too long or does not run (429)"),
            (429, PROBLEM, "https://bot.example.com: Forbidden: an admin key is needed (429)"),
            (503, r#"{"message":"Service Unavailable"}"#, "(503): try again; long answers need StreamingUrl"),
            (504, "", "is overloaded, took too long or does not run (504)"),
        ] {
            let answer = hyper::Response::builder().status(status).body(body).unwrap();
            let failed = api.refusal(answer.into()).await;
            assert!(failed.words.contains(words), "{status} {body}: {}", failed.words);
            assert_eq!(failed.may_pass(), status >= 429, "{status}");
        }
    }
}
