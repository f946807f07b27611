//! `annals import FILE…`: histories of other programs, and of other deployments, into histories.
//!
//! - `telegram`: what Telegram Desktop exports as JSON
//! - `jsonl`: `UIMessage`s of the AI SDK, one a line or in an array, as Annals exports them or anybody
//! - `store`: what is read, stored
//!
//! Everything is read and checked before anything is stored. What is there already is left as it is, so that the same file
//! twice changes nothing, and an import that broke off goes on.

mod jsonl;
mod store;
mod telegram;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use annals_shared::channel::settings::Settings;
use annals_shared::chat_key::ChatKey;
use annals_shared::history::History;
use annals_shared::record::Draft;
use annals_shared::sort_key::Timestamp;
use anyhow::Context;
use serde_json::Value;

use crate::progress::{Progress, Reading};
use crate::said::counted;

/// What the files do not say.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which chat, where a file does not name one; of a file of several, only this.
    pub chat: Option<ChatKey>,
    /// The user id of the bot, whose messages are the assistant's.
    pub bot: Option<i64>,
    /// How a channel's messages are read.
    pub settings: Settings,
}

/// What one file has of one chat, in its order.
#[derive(Debug)]
struct Chat {
    key: ChatKey,
    /// For people.
    name: String,
    items: Vec<Item>,
}

/// A message on its way into a history.
#[derive(Debug)]
struct Item {
    /// With a time of no meaning where `ts` has none.
    draft: Draft,
    /// When it was said, where the file tells.
    ts: Option<Timestamp>,
    place: Place,
    /// Which form it is.
    revision: u32,
}

/// Where a message stands beside the one that it is of.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// It is one.
    Message,
    /// The text that came with a boundary.
    Opening,
    /// Its later form, beside it.
    Form,
    /// The reply to it.
    Reply,
    /// A later form of that reply.
    ReplyForm,
    /// A confirmation.
    Notice,
    /// An answer to what the reply asks to be allowed.
    Approval(String),
}

/// What a file holds.
#[derive(Debug, Default)]
struct Read {
    chats: Vec<Chat>,
    /// What cannot be taken, and how much of it there is.
    left: BTreeMap<Left, u64>,
}

/// What cannot be taken, and why: in words for one, and for several.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Left {
    one: String,
    more: String,
}

impl Left {
    /// `one` and `more` such things, each with `why` behind it.
    fn of(one: &str, more: &str, why: &str) -> Self {
        Self { one: format!("{one}{why}"), more: format!("{more}{why}") }
    }
}

impl Read {
    fn leave(&mut self, left: Left) {
        *self.left.entry(left).or_default() += 1;
    }
}

/// Imports `files`, and says of each chat what came of it.
pub async fn import(
    history: &History,
    files: &[PathBuf],
    options: &Options,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let mut all = Read::default();
    for file in files {
        let read = read(file, options)?;
        all.chats.extend(read.chats);
        for (left, count) in read.left {
            *all.left.entry(left).or_default() += count;
        }
    }
    let total = all.chats.iter().map(|chat| chat.items.len() as u64).sum();
    let mut progress = Progress::new("import", "messages", Some(total), history.clock());
    for chat in all.chats {
        let counts = store::store(history, &chat, &mut progress).await.with_context(|| {
            format!("{} is not imported whole; the same command goes on with it", chat.key)
        })?;
        progress.aside(|| writeln!(out, "{}  {}: {counts}", chat.key, chat.name))?;
    }
    progress.finish();
    for (left, count) in &all.left {
        writeln!(out, "left out: {}", counted(*count, &left.one, &left.more))?;
    }
    if total == 0 {
        writeln!(out, "There is nothing to import.")?;
    }
    Ok(())
}

fn read(file: &Path, options: &Options) -> anyhow::Result<Read> {
    let name = file.display().to_string();
    let _reading = Reading::of(&name);
    let text = std::fs::read(file).with_context(|| format!("cannot read {name}"))?;
    let text = String::from_utf8(text).with_context(|| format!("{name} is no UTF-8"))?;
    let text = text.trim_start_matches('\u{feff}');
    if text.trim().is_empty() {
        // As a chat is exported that has no messages.
        return Ok(Read::default());
    }
    match Shape::of(text) {
        Shape::Lines => jsonl::read(&name, text, options),
        Shape::Array => jsonl::read_array(&name, text, options),
        Shape::Whole => telegram::read(text, options).with_context(|| name),
    }
}

/// What a file looks like by its first lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// An object a line: messages.
    Lines,
    /// Messages in one array.
    Array,
    /// One object, mostly over many lines: Telegram's.
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
            // A line that is broken; an object over many lines has its first field behind the first, or more of it in the second.
            Err(_) => first.starts_with("{\"") && lines.next().is_none_or(|second| second.starts_with('{')),
        };
        if is_line { Self::Lines } else { Self::Whole }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_told_by_its_beginning() {
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
