//! `history`, `context`, `archive`, `search` and `chats`: print what the API returns.

use std::io::Write;

use annals_core::message::{PartView, Role, UiMessage};
use annals_core::record::Kind;
use annals_core::sort_key::Timestamp;
use annals_io::clock::Clock;
use anyhow::Context as _;
use clap::Args;
use reqwest::StatusCode;
use serde::Deserialize;
use serde_json::Value;

use crate::api::{Api, Failed, encoded};
use crate::progress::Progress;
use crate::target::Target;
use crate::tty::{line, printable};

/// Arguments of `history`.
#[derive(Args)]
pub(crate) struct History {
    /// Such as telegram:chat:42 or http:chat:dev:hello
    chat_key: String,
    /// One UIMessage a line
    #[arg(long)]
    jsonl: bool,
    #[command(flatten)]
    pub(crate) at: Target,
}

impl History {
    pub(crate) async fn run(&self, api: &Api, out: &mut impl Write) -> anyhow::Result<()> {
        let Self { chat_key, jsonl, .. } = self;
        let count = messages(api, &api.of_chat(chat_key, "/messages")?, *jsonl, out).await?;
        if count == 0 && !jsonl {
            writeln!(out, "Nothing is stored under {}.", line(chat_key))?;
        }
        Ok(())
    }
}

/// Arguments of `context`.
#[derive(Args)]
pub(crate) struct Context {
    /// Such as telegram:chat:42 or http:chat:dev:hello
    chat_key: String,
    #[command(flatten)]
    pub(crate) at: Target,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContextView {
    messages: Vec<UiMessage>,
    system: Option<String>,
    tokens: u32,
    window: u32,
    unanswered: usize,
    left_out: usize,
}

impl Context {
    pub(crate) async fn run(&self, api: &Api, out: &mut impl Write) -> anyhow::Result<()> {
        let ContextView { messages, system, tokens, window, unanswered, left_out } =
            api.json(&api.of_chat(&self.chat_key, "/context")?, &[]).await?;
        if let Some(system) = system {
            writeln!(out, "system\n{}", indented(&system))?;
        }
        for message in &messages {
            print(message, false, out)?;
        }
        let count = messages.len();
        writeln!(
            out,
            "{count} messages, about {tokens} of {window} tokens, {unanswered} unanswered, {left_out} left out"
        )?;
        Ok(())
    }
}

/// Arguments of `archive`.
#[derive(Args)]
pub(crate) struct Archive {
    /// Such as telegram:chat:42 or http:chat:dev:hello
    chat_key: String,
    /// The segment to print
    segment: Option<String>,
    /// One UIMessage a line
    #[arg(long, requires = "segment")]
    jsonl: bool,
    #[command(flatten)]
    pub(crate) at: Target,
}

#[derive(Deserialize)]
struct Segments {
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

impl Archive {
    pub(crate) async fn run(&self, api: &Api, out: &mut impl Write) -> anyhow::Result<()> {
        let chat = &self.chat_key;
        if let Some(id) = &self.segment {
            let path = api.of_chat(chat, &format!("/segments/{}", encoded(id)))?;
            return match messages(api, &path, self.jsonl, out).await {
                Err(error) if is_not_found(&error) => {
                    let (chat, id) = (line(chat), line(id));
                    anyhow::bail!("{chat} has no segment {id}: `annals archive {chat}` lists them")
                }
                printed => printed.map(drop),
            };
        }
        let Segments { segments } = api.json(&api.of_chat(chat, "/segments")?, &[]).await?;
        for Segment { id, from_id, to_id, count, bytes, created_at } in &segments {
            let (id, from_id, to_id) = (line(id), line(from_id), line(to_id));
            let archived = time(*created_at);
            writeln!(
                out,
                "{id}  {count} records, {bytes} bytes, archived {archived}\n    #{from_id} to #{to_id}"
            )?;
        }
        if segments.is_empty() {
            writeln!(out, "Nothing of {} is archived.", line(chat))?;
        }
        Ok(())
    }
}

/// Arguments of `search`.
#[derive(Args)]
pub(crate) struct Search {
    /// Such as telegram:chat:42 or http:chat:dev:hello
    chat_key: String,
    /// Words to look for
    #[arg(required = true)]
    words: Vec<String>,
    /// Maximum number of hits
    #[arg(long, default_value_t = 8)]
    limit: usize,
    /// One UIMessage a line
    #[arg(long)]
    jsonl: bool,
    #[command(flatten)]
    pub(crate) at: Target,
}

#[derive(Deserialize)]
struct Found {
    hits: Vec<Hit>,
    partial: bool,
}

#[derive(Deserialize)]
struct Hit {
    message: UiMessage,
}

impl Search {
    pub(crate) async fn run(&self, api: &Api, out: &mut impl Write) -> anyhow::Result<()> {
        let Self { chat_key, words, limit, jsonl, .. } = self;
        let query = [("q", words.join(" ")), ("limit", limit.to_string())];
        let Found { hits, partial } = api.json(&api.of_chat(chat_key, "/search")?, &query).await?;
        for Hit { message } in &hits {
            print(message, *jsonl, out)?;
        }
        let chat = line(chat_key);
        if partial && !jsonl {
            writeln!(out, "Not all of {chat} was searched, or not every hit is shown.")?;
        } else if hits.is_empty() && !jsonl {
            writeln!(out, "Nothing in {chat} fits.")?;
        }
        Ok(())
    }
}

/// Arguments of `chats`.
#[derive(Args)]
pub(crate) struct Chats {
    /// Only chats with this in their title, a person or the ChatKey
    words: Vec<String>,
    /// Only chats in this state, as `GET /v1/chats` names it
    #[arg(long)]
    state: Option<String>,
    /// Maximum number of chats
    #[arg(long, default_value_t = 25)]
    limit: usize,
    /// One chat a line, as JSON
    #[arg(long)]
    jsonl: bool,
    #[command(flatten)]
    pub(crate) at: Target,
}

#[derive(Deserialize)]
struct ChatsPage {
    chats: Vec<Value>,
    before: Option<String>,
}

impl Chats {
    pub(crate) async fn run(&self, api: &Api, out: &mut impl Write) -> anyhow::Result<()> {
        let words = (!self.words.is_empty()).then(|| self.words.join(" "));
        let (mut left, mut before) = (self.limit, None);
        loop {
            let given = [("q", &words), ("state", &self.state), ("before", &before)];
            let given = given.into_iter().filter_map(|(name, value)| Some((name, value.clone()?)));
            let query: Vec<_> = given.chain([("limit", left.min(100).to_string())]).collect();
            let ChatsPage { chats, before: next } = api.json("/v1/chats", &query).await?;
            for chat in chats.iter().take(left) {
                if self.jsonl {
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
        if left == self.limit && !self.jsonl {
            writeln!(out, "There is no such chat.")?;
        }
        Ok(())
    }
}

/// Prints an entry of the list of chats.
fn print_chat(chat: &Value, out: &mut impl Write) -> anyhow::Result<()> {
    let text = |name: &str| chat[name].as_str().map(line);
    let at = chat["lastInteractionAt"].as_i64().and_then(Timestamp::from_millis);
    let title = text("title").or_else(|| text("speaker")).unwrap_or_default();
    let state = text("pendingTurn").map(|state| format!(" [{state}]")).unwrap_or_default();
    let failed = if chat["deliveryFailure"].is_object() { " [not delivered]" } else { "" };
    let (at, key) = (at.map(time).unwrap_or_default(), text("chatKey").unwrap_or_default());
    writeln!(out, "{at}  {key}  {title}{state}{failed}")?;
    if let Some(excerpt) = chat["lastMessage"]["text"].as_str() {
        writeln!(out, "    {}", line(excerpt))?;
    }
    Ok(())
}

/// Prints the messages at `path`, one a line there. Returns their number.
async fn messages(api: &Api, path: &str, jsonl: bool, out: &mut impl Write) -> anyhow::Result<u64> {
    let mut progress = Progress::beside_output("history", "messages", None, &Clock::system());
    let count = api.lines(path, |line| {
        let message = serde_json::from_slice(line).context("a line is not a message")?;
        progress.advance(1);
        print(&message, jsonl, out)
    });
    let count = count.await;
    progress.finish();
    count
}

/// Returns true if the API answered that what was asked for does not exist.
pub(crate) fn is_not_found(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Failed>().is_some_and(|failed| failed.status == Some(StatusCode::NOT_FOUND))
}

fn print(message: &UiMessage, jsonl: bool, out: &mut impl Write) -> anyhow::Result<()> {
    if jsonl {
        serde_json::to_writer(&mut *out, message)?;
        writeln!(out)?;
        return Ok(());
    }
    let metadata = &message.metadata;
    let time = metadata.ts().map(time).unwrap_or_default();
    let kind = metadata.kind().filter(|kind| *kind != Kind::Normal);
    let kind = kind.map(|kind| format!(" [{kind}]")).unwrap_or_default();
    let who = match (message.role, metadata.sender_name()) {
        (Role::User, Some(name)) => format!("{name} ({})", metadata.user_id().unwrap_or_default()),
        (_, _) => metadata.user_id().unwrap_or(message.role.as_str()).to_owned(),
    };
    writeln!(out, "{time}  {}  #{}{kind}", line(&who), message.id)?;
    for part in &message.parts {
        let line = match part.view() {
            PartView::Text(text) => text.to_owned(),
            PartView::File { media_type, filename, url } => {
                format!("[file {}, {media_type}, {url}]", filename.unwrap_or("without a name"))
            }
            _ => format!("[{}]", part.kind()),
        };
        writeln!(out, "{}", indented(&line))?;
    }
    Ok(())
}

/// Returns `text` indented, without control characters.
pub(crate) fn indented(text: &str) -> String {
    printable(text).lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

/// Formats a time to the second, in UTC.
pub(crate) fn time(ts: Timestamp) -> String {
    let since_epoch = ts.since(Timestamp::MIN);
    humantime::format_rfc3339_seconds(std::time::UNIX_EPOCH + since_epoch).to_string()
}
