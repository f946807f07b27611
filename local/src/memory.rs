//! `memory list`, `memory set` and `memory forget`: shows and changes memory entries.

use std::io::Write;

use annals_core::memory::{Correction, EntryId, Owner, StoredEntry};
use annals_store::memory::{Deleted, Memory, Overview};
use anyhow::{anyhow, bail};

use crate::show::{indented, time};

/// Prints the entries of `owner` in order of creation.
pub async fn list(memory: &Memory, owner: &Owner, out: &mut impl Write) -> anyhow::Result<()> {
    let Overview { kept, undoable } = memory.overview(owner).await?;
    if kept.is_empty() {
        writeln!(out, "Nothing is remembered of {}.", plain(owner))?;
    }
    for kept in &kept {
        print(kept, out)?;
    }
    for undoable in undoable {
        let did = if undoable.is_forgotten { "forgotten" } else { "changed" };
        let until = time(undoable.until);
        writeln!(
            out,
            "{}. {did} by the agent, /memory undo until {until}; it was:",
            undoable.earlier.number
        )?;
        writeln!(out, "{}", indented(&undoable.earlier.entry.text))?;
    }
    Ok(())
}

/// Replaces the text of an entry by `text`, or the whole entry if `text` is a Markdown document with front matter.
pub async fn set(memory: &Memory, id: &str, text: &str, out: &mut impl Write) -> anyhow::Result<()> {
    let correction = Correction::of_markdown(text)?;
    match memory.correct(&entry_id(id)?, &correction).await? {
        Some(kept) => print(&kept, out),
        None => bail!(NO_ENTRY),
    }
}

/// Deletes an entry.
pub async fn forget(memory: &Memory, id: &str, out: &mut impl Write) -> anyhow::Result<()> {
    match memory.delete(&entry_id(id)?).await? {
        Deleted::Now => Ok(writeln!(out, "Forgotten.")?),
        Deleted::Before => Ok(writeln!(out, "It was forgotten before.")?),
        Deleted::Unknown => bail!(NO_ENTRY),
    }
}

const NO_ENTRY: &str = "there is no such entry; `memory list` shows each entry's id";

fn entry_id(id: &str) -> anyhow::Result<EntryId> {
    id.parse().map_err(|_| anyhow!(NO_ENTRY))
}

fn print(kept: &StoredEntry, out: &mut impl Write) -> anyhow::Result<()> {
    let entry = &kept.entry;
    writeln!(out, "{}. {}  {}  {}", kept.number, entry.kind, time(entry.created), kept.id())?;
    writeln!(out, "{}", indented(&entry.text))?;
    if let Some(source) = &entry.source {
        let from = format!("from {}, messages {} to {}", source.chat, source.from_id, source.to_id);
        writeln!(out, "{}", indented(&from))?;
    }
    if !entry.outside.is_empty() {
        let read = format!("saved after reading {}", entry.outside.join(", "));
        writeln!(out, "{}", indented(&read))?;
    }
    if let Some(updated) = entry.updated {
        writeln!(out, "    corrected {}", time(updated))?;
    }
    Ok(())
}

fn plain(owner: &Owner) -> String {
    match owner {
        Owner::User(person) => format!("user {}", indented(person).trim_start()),
        Owner::Chat(chat) => format!("chat {chat}"),
    }
}
