//! `memory list`, `memory set` and `memory forget`: show and change memory entries.

use std::io::Write;

use annals_core::memory::Correction;
use annals_core::sort_key::Timestamp;
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;

use crate::api::{Api, encoded};
use crate::show::{indented, status_of, time};
use crate::tty::line;

/// Whose entries are listed.
#[derive(Clone, Debug)]
pub enum Owner {
    /// A person.
    User(String),
    /// A group.
    Chat(String),
}

#[derive(Deserialize)]
struct Overview {
    memories: Vec<Entry>,
    #[serde(default)]
    forgotten: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    id: String,
    number: u32,
    #[serde(rename = "type")]
    kind: String,
    text: String,
    #[serde(default)]
    outside: Vec<String>,
    earlier: Option<Earlier>,
    /// `past` and `pending` are shown; that of an older stack is not known.
    #[serde(default)]
    state: String,
    valid_to: Option<Timestamp>,
    superseded_by: Option<u32>,
    source: Option<Source>,
    created_at: Timestamp,
    updated_at: Option<Timestamp>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Earlier {
    text: String,
    undo_until: Timestamp,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::struct_field_names, reason = "the names are the route's")]
struct Source {
    chat_key: String,
    from_id: String,
    to_id: String,
}

/// Prints the entries of `owner` in order of creation.
pub async fn list(api: &Api, owner: &Owner, out: &mut impl Write) -> anyhow::Result<()> {
    let query = match owner {
        Owner::User(person) => ("userId", person.clone()),
        Owner::Chat(chat) => {
            api.of_chat(chat, "")?;
            ("chatKey", chat.clone())
        }
    };
    let Overview { memories, forgotten } = api.json("/v1/memory", &[query]).await?;
    if memories.is_empty() {
        let (kind, name) = match owner {
            Owner::User(person) => ("user", person),
            Owner::Chat(chat) => ("chat", chat),
        };
        writeln!(out, "Nothing is remembered of {kind} {}.", line(name))?;
    }
    for entry in &memories {
        print(entry, out)?;
    }
    let changed = memories.iter().map(|entry| ("changed", entry));
    for (did, Entry { number, earlier, .. }) in
        changed.chain(forgotten.iter().map(|entry| ("forgotten", entry)))
    {
        if let Some(Earlier { text, undo_until }) = earlier {
            let until = time(*undo_until);
            writeln!(out, "{number}. {did} by the agent, /memory undo until {until}; it was:")?;
            writeln!(out, "{}", indented(text))?;
        }
    }
    Ok(())
}

/// Replaces the text of an entry by `text`, or the whole entry if `text` is a Markdown document with front matter.
pub async fn set(api: &Api, id: &str, text: &str, out: &mut impl Write) -> anyhow::Result<()> {
    // Here too, for an error that does not name the route's fields.
    Correction::of_markdown(text)?;
    let body = json!({"markdown": text});
    let answer = api.send(Method::PUT, &path(id), "application/json", Some(&body)).await.map_err(no_entry)?;
    print(&api.parsed(answer).await?, out)
}

/// Deletes an entry.
pub async fn forget(api: &Api, id: &str, out: &mut impl Write) -> anyhow::Result<()> {
    api.send(Method::DELETE, &path(id), "application/json", None).await.map_err(no_entry)?;
    Ok(writeln!(out, "Forgotten.")?)
}

fn path(id: &str) -> String {
    format!("/v1/memory/{}", encoded(id))
}

fn no_entry(error: anyhow::Error) -> anyhow::Error {
    match status_of(&error) {
        Some(StatusCode::NOT_FOUND) => {
            anyhow::anyhow!("there is no such entry; `memory list` shows each entry's id")
        }
        _ => error,
    }
}

fn print(entry: &Entry, out: &mut impl Write) -> anyhow::Result<()> {
    writeln!(
        out,
        "{}. {}  {}  {}",
        entry.number,
        line(&entry.kind),
        time(entry.created_at),
        line(&entry.id)
    )?;
    writeln!(out, "{}", indented(&entry.text))?;
    if let Some(Source { chat_key, from_id, to_id }) = &entry.source {
        writeln!(out, "{}", indented(&format!("from {chat_key}, messages {from_id} to {to_id}")))?;
    }
    if !entry.outside.is_empty() {
        let read = format!("saved after reading {}", entry.outside.join(", "));
        writeln!(out, "{}", indented(&read))?;
    }
    let note = match (entry.state.as_str(), entry.valid_to, entry.superseded_by) {
        ("pending", ..) => Some("waits for approval".to_owned()),
        ("past", Some(to), Some(newer)) => Some(format!("valid until {}, superseded by {newer}", time(to))),
        ("past", Some(to), None) => Some(format!("valid until {}", time(to))),
        _ => None,
    };
    if let Some(note) = note {
        writeln!(out, "{}", indented(&note))?;
    }
    if let Some(updated) = entry.updated_at {
        writeln!(out, "    corrected {}", time(updated))?;
    }
    Ok(())
}
