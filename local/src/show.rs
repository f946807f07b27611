//! `history CHATKEY`, `archive CHATKEY` and `context CHATKEY`: prints the history of a chat, its archive, and the context of its
//! next turn.

use std::io::Write;

use annals_core::chat_key::ChatKey;
use annals_core::message::{PartView, Role, UiMessage};
use annals_core::record::Kind;
use annals_core::sort_key::Timestamp;
use annals_core::tokens;
use annals_engine::settings::ViewConfig;
use annals_store::history::{History, MAX_PAGE, Page, Position};
use anyhow::Context;

use crate::progress::Progress;
use crate::tty::printable;

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// One `UIMessage` a line.
    Jsonl,
}

/// Prints the whole history of `chat`, oldest first.
pub async fn history(
    history: &History,
    chat: &ChatKey,
    format: Format,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let mut position = Some(Position::Oldest);
    let mut count = 0;
    let mut progress = Progress::beside_output("history", "messages", None, history.clock());
    while let Some(at) = position {
        let Page { records, after, .. } = history.page(chat, &at, MAX_PAGE).await?;
        count += records.len();
        progress.advance(records.len() as u64);
        for record in &records {
            print(&record.listed_for_admins(), format, out)?;
        }
        position = after.map(Position::After);
    }
    progress.finish();
    if count == 0 && format == Format::Text {
        writeln!(out, "Nothing is stored under {chat}.")?;
    }
    Ok(())
}

/// Lists the segments of `chat`, oldest first.
pub async fn segments(history: &History, chat: &ChatKey, out: &mut impl Write) -> anyhow::Result<()> {
    let segments = history.segments(chat).await?;
    for info in &segments {
        writeln!(
            out,
            "{}  {} to {}  {} records, {} bytes ({} as JSON), archived {}",
            info.id,
            time(info.from.ts()),
            time(info.to.ts()),
            info.count,
            info.bytes,
            info.json_bytes,
            time(info.created_at)
        )?;
        writeln!(out, "    #{} to #{}", printable(info.from_id.as_str()), printable(info.to_id.as_str()))?;
    }
    if segments.is_empty() {
        writeln!(out, "Nothing of {chat} is archived.")?;
    }
    Ok(())
}

/// Prints the segment `id` of `chat`.
pub async fn segment(
    history: &History,
    chat: &ChatKey,
    id: &str,
    format: Format,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let found = history.segment(chat, &id.parse()?).await?;
    let segment = found.with_context(|| format!("{chat} has no segment {id}"))?;
    let mut from = 0;
    loop {
        let records = history.segment_records(&segment, from).await?;
        if records.is_empty() {
            return Ok(());
        }
        for record in &records {
            print(&record.listed_for_admins(), format, out)?;
        }
        from += records.len();
    }
}

/// Prints the context of a turn of `chat` that would run now.
pub async fn context_of(
    history: &History,
    chat: &ChatKey,
    view: &ViewConfig,
    system_prompt: Option<&str>,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let (chat, head) = &history.current(chat).await?;
    let system_tokens = system_prompt.map_or(0, tokens::of_text);
    let seen = history.context(chat, head, None, &view.policy(system_tokens)).await?.context;
    if let Some(system) = system_prompt {
        writeln!(out, "system\n{}", indented(system))?;
    }
    for message in &seen.messages {
        print(message, Format::Text, out)?;
    }
    writeln!(
        out,
        "{} messages, about {} of {} tokens, {} unanswered, {} left out",
        seen.messages.len(),
        seen.tokens + system_tokens,
        view.window,
        seen.unanswered.len(),
        seen.left_out
    )?;
    Ok(())
}

/// Prints a message.
pub(crate) fn print(message: &UiMessage, format: Format, out: &mut impl Write) -> anyhow::Result<()> {
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
