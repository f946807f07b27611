//! `annals export`: a whole chat as JSON lines or Markdown, or everything of a person.

use std::io::Write;

use annals_core::message::{Part, PartView, UiMessage};
use annals_core::record::Kind;
use annals_io::clock::Clock;
use anyhow::Context;
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::api::{Api, encoded};
use crate::show::{is_not_found, time};
use crate::target::Target;
use crate::tty::line;

/// Arguments of `export`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Such as telegram:chat:42 or http:chat:dev:hello
    #[arg(required_unless_present = "person", conflicts_with = "person")]
    chat_key: Option<String>,
    /// Everything of this person instead: an identity such as telegram-42 or app/ada
    #[arg(long, value_name = "ID", conflicts_with = "format", value_parser = NonEmptyStringValueParser::new())]
    person: Option<String>,
    /// `jsonl` is what `import` takes, `markdown` is for reading
    #[arg(long, value_enum, default_value_t = Format::Jsonl)]
    format: Format,
    #[command(flatten)]
    pub(crate) at: Target,
}

/// Format of an exported chat.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Jsonl,
    Markdown,
}

impl Arguments {
    /// Writes lines as the API returns them: a history, oldest first, or everything of a person; or a history as Markdown.
    pub(crate) async fn run(&self, api: &Api, clock: &Clock, out: &mut impl Write) -> anyhow::Result<()> {
        if let Some(person) = &self.person {
            let path = format!("/v1/people/{}/export", encoded(person));
            return api.lines(&path, |json| write(json, out)).await.map(drop);
        }
        let chat = self.chat_key.as_deref().unwrap_or_default();
        let path = api.of_chat(chat, "/messages")?;
        let count = match self.format {
            Format::Jsonl => api.lines(&path, |json| write(json, out)).await?,
            Format::Markdown => {
                let entry: anyhow::Result<Value> = api.json(&api.of_chat(chat, "")?, &[]).await;
                let entry = entry.map_err(|error| if is_not_found(&error) { empty(chat) } else { error })?;
                let title = ["title", "speaker", "chatKey"].iter().find_map(|name| entry[*name].as_str());
                let at = time(clock.now());
                writeln!(out, "# {}\n\n`{}`, exported {at}", line(title.unwrap_or(chat)), line(chat))?;
                let section = |json: &[u8]| {
                    let message = serde_json::from_slice(json).context("a line is not a message")?;
                    Ok(writeln!(out, "\n{}", section_of(&message))?)
                };
                api.lines(&path, section).await?
            }
        };
        if count == 0 { Err(empty(chat)) } else { Ok(()) }
    }
}

fn write(json: &[u8], out: &mut impl Write) -> anyhow::Result<()> {
    out.write_all(json)?;
    Ok(writeln!(out)?)
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
