//! `annals export`: a whole chat as JSON lines or Markdown, or everything of a person.

use std::io::Write;

use annals_core::message::{Part, PartView, UiMessage};
use annals_core::record::Kind;
use annals_io::clock::Clock;
use anyhow::Context;
use reqwest::StatusCode;
use serde_json::Value;

use crate::api::{Api, encoded};
use crate::show::{status_of, time};
use crate::tty::line;

/// Writes the history of `chat`, oldest first: as Markdown if `is_markdown`, otherwise one `UIMessage` a line, as the API returns
/// it.
pub async fn chat(
    api: &Api,
    chat: &str,
    is_markdown: bool,
    clock: &Clock,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    if is_markdown {
        let entry: anyhow::Result<Value> = api.json(&api.of_chat(chat, "")?, &[]).await;
        let entry = match entry {
            Err(error) if status_of(&error) == Some(StatusCode::NOT_FOUND) => return Err(empty(chat)),
            entry => entry?,
        };
        let title = ["title", "speaker", "chatKey"].iter().find_map(|name| entry[*name].as_str());
        let at = time(clock.now());
        writeln!(out, "# {}\n\n`{}`, exported {at}", line(title.unwrap_or(chat)), line(chat))?;
    }
    let write = |json: &[u8]| {
        if is_markdown {
            let message = serde_json::from_slice(json).context("a line is not a message")?;
            return Ok(writeln!(out, "\n{}", section_of(&message))?);
        }
        out.write_all(json)?;
        Ok(writeln!(out)?)
    };
    if api.lines(&api.of_chat(chat, "/messages")?, write).await? == 0 { Err(empty(chat)) } else { Ok(()) }
}

/// Writes everything of `person`, one JSON object a line, as `GET /v1/people/{id}/export` returns it.
pub async fn person(api: &Api, person: &str, out: &mut impl Write) -> anyhow::Result<()> {
    let write = |json: &[u8]| {
        out.write_all(json)?;
        Ok(writeln!(out)?)
    };
    api.lines(&format!("/v1/people/{}/export", encoded(person)), write).await.map(drop)
}

fn empty(chat: &str) -> anyhow::Error {
    anyhow::anyhow!("nothing is stored under {}: `annals chats` lists what is", line(chat))
}

/// Returns a message as a section of a Markdown page.
fn section_of(message: &UiMessage) -> String {
    let metadata = &message.metadata;
    let at = metadata.sent_at().or(metadata.ts()).map(time).unwrap_or_default();
    if metadata.kind() == Some(Kind::Boundary) {
        let command = message.plain_text();
        return format!("---\n\n*{}, {at}*", line(command.split_whitespace().next().unwrap_or("/new")));
    }
    let who = metadata.sender_name().or(metadata.user_id()).unwrap_or(message.role.as_str());
    let kind = metadata.kind().filter(|kind| *kind != Kind::Normal);
    let kind = kind.map(|kind| format!(", {kind}")).unwrap_or_default();
    let head = format!("## {}, {at}{kind}", line(who));
    let parts = message.parts.iter().filter_map(part_of);
    [head].into_iter().chain(parts).collect::<Vec<_>>().join("\n\n")
}

fn part_of(part: &Part) -> Option<String> {
    match part.view() {
        PartView::Text(text) => Some(text.to_owned()),
        PartView::File { media_type, filename, .. } => {
            Some(format!("*[{}]*", line(filename.unwrap_or(media_type))))
        }
        PartView::Tool { name, input, error, .. } => {
            let output = part.as_map().get("output");
            let blocks = [input.map(text_of), output.map(text_of), error.map(str::to_owned)];
            let blocks = blocks.into_iter().flatten().map(|text| fenced(&text));
            let name = format!("**{}**", line(name));
            Some([name].into_iter().chain(blocks).collect::<Vec<_>>().join("\n\n"))
        }
        _ => None,
    }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => serde_json::to_string_pretty(value).unwrap_or_default(),
    }
}

/// Returns `text` as a block of code, whatever fences it has in it.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat((longest + 1).max(3));
    format!("{fence}\n{text}\n{fence}")
}
