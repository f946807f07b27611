//! `history`, `context`, `archive`, `search` and `chats`: print what the API returns.

use std::io::Write;

use annals_core::message::{PartView, Role, UiMessage};
use annals_core::record::Kind;
use annals_core::sort_key::Timestamp;
use annals_io::clock::Clock;
use anyhow::Context;
use reqwest::StatusCode;
use serde::Deserialize;
use serde_json::Value;

use crate::api::{Api, Failed, encoded};
use crate::progress::Progress;
use crate::tty::{line, printable};

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// One `UIMessage` a line.
    Jsonl,
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

/// Prints the whole history of `chat`, oldest first.
pub async fn history(api: &Api, chat: &str, format: Format, out: &mut impl Write) -> anyhow::Result<()> {
    let count = messages(api, &api.of_chat(chat, "/messages")?, format, out).await?;
    if count == 0 && format == Format::Text {
        writeln!(out, "Nothing is stored under {}.", line(chat))?;
    }
    Ok(())
}

/// Prints the context of the chat's next turn.
pub async fn context(api: &Api, chat: &str, out: &mut impl Write) -> anyhow::Result<()> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct View {
        messages: Vec<UiMessage>,
        system: Option<String>,
        tokens: u32,
        window: u32,
        unanswered: usize,
        left_out: usize,
    }
    let view: View = api.json(&api.of_chat(chat, "/context")?, &[]).await?;
    if let Some(system) = view.system {
        writeln!(out, "system\n{}", indented(&system))?;
    }
    for message in &view.messages {
        print(message, Format::Text, out)?;
    }
    let View { tokens, window, unanswered, left_out, messages, .. } = view;
    let count = messages.len();
    writeln!(
        out,
        "{count} messages, about {tokens} of {window} tokens, {unanswered} unanswered, {left_out} left out"
    )?;
    Ok(())
}

/// Lists the segments of `chat`, oldest first.
pub async fn segments(api: &Api, chat: &str, out: &mut impl Write) -> anyhow::Result<()> {
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
    let List { segments } = api.json(&api.of_chat(chat, "/segments")?, &[]).await?;
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

/// Prints the segment `id` of `chat`.
pub async fn segment(
    api: &Api,
    chat: &str,
    id: &str,
    format: Format,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let path = api.of_chat(chat, &format!("/segments/{}", encoded(id)))?;
    match messages(api, &path, format, out).await {
        Err(error) if status_of(&error) == Some(StatusCode::NOT_FOUND) => {
            let (chat, id) = (line(chat), line(id));
            anyhow::bail!("{chat} has no segment {id}: `annals archive {chat}` lists them")
        }
        printed => printed.map(drop),
    }
}

/// Prints the messages of `chat` that fit `words` best, the best first.
pub async fn search(
    api: &Api,
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
    let Found { hits } = api.json(&api.of_chat(chat, "/search")?, &query).await?;
    for Hit { message } in &hits {
        print(message, format, out)?;
    }
    if hits.is_empty() && format == Format::Text {
        writeln!(out, "Nothing in {} fits.", line(chat))?;
    }
    Ok(())
}

/// Lists chats, the most recently used first: with `format` as JSON, as the API returns them.
pub async fn chats(
    api: &Api,
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
        let List { chats, before: next } = api.json("/v1/chats", &query).await?;
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
async fn messages(api: &Api, path: &str, format: Format, out: &mut impl Write) -> anyhow::Result<u64> {
    let mut progress = Progress::beside_output("history", "messages", None, &Clock::system());
    let count = api.lines(path, |line| {
        let message = serde_json::from_slice(line).context("a line is not a message")?;
        progress.advance(1);
        print(&message, format, out)
    });
    let count = count.await;
    progress.finish();
    count
}

/// Returns the status of an answer that is an error.
pub(crate) fn status_of(error: &anyhow::Error) -> Option<StatusCode> {
    error.downcast_ref::<Failed>().and_then(|failed| failed.status)
}

/// Prints a message.
fn print(message: &UiMessage, format: Format, out: &mut impl Write) -> anyhow::Result<()> {
    if format == Format::Jsonl {
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
    // On one line, whatever the name contains.
    let who = printable(&who).replace('\n', " ");
    writeln!(out, "{time}  {who}  #{}{kind}", message.id)?;
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
