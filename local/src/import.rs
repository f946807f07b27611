//! `annals import FILE…`: histories of other programs, and of other deployments, into histories.
//!
//! - `telegram`: what Telegram Desktop exports as JSON
//! - `jsonl`: `UIMessage`s of the AI SDK, one a line, as Annals exports them or anybody
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
use annals_shared::message::UiMessage;
use annals_shared::record::Draft;
use annals_shared::sort_key::Timestamp;
use anyhow::Context;
use serde_json::Value;

use crate::progress::Progress;

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
    /// What cannot be taken, by why, and how much of it there is.
    left: BTreeMap<String, u64>,
}

impl Read {
    fn leave(&mut self, why: impl Into<String>) {
        *self.left.entry(why.into()).or_default() += 1;
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
        for (why, count) in read.left {
            *all.left.entry(why).or_default() += count;
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
    for (why, count) in &all.left {
        writeln!(out, "left out: {count} {why}")?;
    }
    if total == 0 {
        writeln!(out, "There is nothing to import.")?;
    }
    Ok(())
}

fn read(file: &Path, options: &Options) -> anyhow::Result<Read> {
    let text = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let text = String::from_utf8(text).with_context(|| format!("{} is no UTF-8", file.display()))?;
    let text = text.trim_start_matches('\u{feff}');
    if text.trim().is_empty() {
        // As a chat is exported that has no messages.
        return Ok(Read::default());
    }
    // Telegram's is one object over many lines.
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let is_message = serde_json::from_str::<UiMessage>(first).is_ok();
    let is_whole = serde_json::from_str::<Value>(first).is_ok_and(|value| value.get("role").is_some());
    if is_message || is_whole {
        return jsonl::read(&file.display().to_string(), text, options);
    }
    telegram::read(text, options).with_context(|| {
        format!(
            "{} is neither an export of Telegram Desktop as JSON nor one UIMessage a line",
            file.display()
        )
    })
}
