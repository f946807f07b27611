//! `annals import FILE…`: imports histories of other programs, and of other deployments.
//!
//! - `telegram`: parses JSON exports of Telegram Desktop
//! - `jsonl`: parses `UIMessage`s of the AI SDK, one a line or in an array, from Annals or other programs
//! - `item`: the parsed content
//! - `store`: stores it
//!
//! All files are read and checked before anything is stored. Stored messages are left as they are, so importing a file again
//! changes nothing, and the same command continues an interrupted import.

mod item;
mod jsonl;
mod store;
mod telegram;

use std::io::Write;
use std::path::{Path, PathBuf};

use annals_store::history::History;
use anyhow::Context;
use serde_json::Value;

use self::item::Content;
pub use self::item::Options;
use crate::errors::counted;
use crate::progress::{Progress, Reading};

/// Imports `files`, and prints the result for each chat.
pub async fn import(
    history: &History,
    files: &[PathBuf],
    options: &Options,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let mut all = Content::default();
    for file in files {
        let content = read(file, options)?;
        all.chats.extend(content.chats);
        for (skipped, count) in content.skipped {
            *all.skipped.entry(skipped).or_default() += count;
        }
    }
    let total = all.chats.iter().map(|chat| chat.items.len() as u64).sum();
    let mut progress = Progress::new("import", "messages", Some(total), history.clock());
    for chat in all.chats {
        let counts = store::store(history, &chat, &mut progress).await.with_context(|| {
            format!("{} is not imported whole: run the same command again to continue", chat.key)
        })?;
        progress.aside(|| writeln!(out, "{}  {}: {counts}", chat.key, chat.name))?;
    }
    progress.finish();
    for (skipped, count) in &all.skipped {
        writeln!(out, "left out: {}", counted(*count, &skipped.one, &skipped.more))?;
    }
    if total == 0 {
        writeln!(out, "There is nothing to import.")?;
    }
    Ok(())
}

fn read(file: &Path, options: &Options) -> anyhow::Result<Content> {
    let name = file.display().to_string();
    let _reading = Reading::of(&name);
    let text = std::fs::read(file).with_context(|| format!("failed to read {name}"))?;
    let text = String::from_utf8(text).with_context(|| format!("{name} is not UTF-8"))?;
    let text = text.trim_start_matches('\u{feff}');
    if text.trim().is_empty() {
        // The export of an empty chat.
        return Ok(Content::default());
    }
    match Shape::of(text) {
        Shape::Lines => jsonl::read(&name, text, options),
        Shape::Array => jsonl::read_array(&name, text, options),
        Shape::Whole => telegram::read(text, options).with_context(|| name),
    }
}

/// Format of a file, by its first lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// A message a line.
    Lines,
    /// An array of messages.
    Array,
    /// A single object, usually over many lines: Telegram's.
    Whole,
}

impl Shape {
    fn of(text: &str) -> Self {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let first = lines.next().unwrap_or_default();
        if first.starts_with('[') {
            return Self::Array;
        }
        let is_line = match serde_json::from_str::<Value>(first) {
            Ok(Value::Object(first)) => {
                telegram::FIELDS.iter().all(|field| !first.contains_key(*field))
                    && ["id", "role", "parts"].iter().any(|field| first.contains_key(*field))
            }
            Ok(_) => false,
            // An invalid line of a message. An object over many lines continues on the second line.
            Err(_) => first.starts_with("{\"") && lines.next().is_none_or(|second| second.starts_with('{')),
        };
        if is_line { Self::Lines } else { Self::Whole }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_lines_tell_the_format() {
        for (text, shape) in [
            ("{\"id\":\"a\",\"role\":\"user\",\"parts\":[]}\n{\"id\":\"b\"}", Shape::Lines),
            ("\n{ \"id\": \"a\" }", Shape::Lines),
            ("{\"id\":\"a\",\"role\"\n{\"id\":\"b\"}\n", Shape::Lines),
            ("{\"id\":\"a\", role}", Shape::Lines),
            ("[{\"id\":\"a\"}]", Shape::Array),
            ("[\n  {\n", Shape::Array),
            ("{\n \"name\": \"Ada\",", Shape::Whole),
            ("{\"name\": \"Ada\",\n \"type\": \"bot_chat\",", Shape::Whole),
            ("{\"name\":\"Ada\",\"id\":7,\"messages\":[]}", Shape::Whole),
            ("{\"about\":\"\",\"chats\":{\"list\":[]}}", Shape::Whole),
            ("{\"some\": \"JSON\"}", Shape::Whole),
            ("words", Shape::Whole),
            ("", Shape::Whole),
        ] {
            assert_eq!(Shape::of(text), shape, "{text}");
        }
    }
}
