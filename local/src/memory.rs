//! `memory list`, `memory set` and `memory forget`: show and change memory entries.

use std::io::Write;

use annals_core::memory::Correction;
use annals_core::settings::Env;
use annals_core::sort_key::Timestamp;
use annals_io::clock::Clock;
use clap::{Args, Subcommand};
use reqwest::{Method, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::{Api, encoded};
use crate::show::{indented, is_not_found, time};
use crate::target::Target;
use crate::tty::line;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List the entries of a person, or of a group
    List {
        #[command(flatten)]
        owner: Owner,
        #[command(flatten)]
        at: Target,
    },
    /// Correct an entry
    Set {
        /// As `memory list` shows it
        id: String,
        /// The text, or a Markdown document with front matter
        text: String,
        #[command(flatten)]
        at: Target,
    },
    /// Delete an entry for good
    Forget {
        /// As `memory list` shows it
        id: String,
        #[command(flatten)]
        at: Target,
    },
}

/// The person or the group whose entries are listed.
#[derive(Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Owner {
    /// Such as telegram-42 or app/ada
    #[arg(long, value_name = "ID")]
    user: Option<String>,
    /// Such as telegram:chat:-42
    #[arg(long, value_name = "CHATKEY")]
    chat: Option<String>,
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

impl Command {
    pub(crate) async fn run(self, env: Env<'_>, clock: Clock, out: &mut impl Write) -> anyhow::Result<()> {
        match self {
            Self::List { owner, at } => list(&at.api(env, clock, false).await?, &owner, out).await,
            Self::Set { id, text, at } => {
                let api = at.api(env, clock, true).await?;
                // Here too, for an error that does not name the route's fields.
                Correction::of_markdown(&text)?;
                let entry = sent(&api, Method::PUT, &id, Some(&json!({"markdown": text}))).await?;
                print(&api.parsed(entry).await?, out)
            }
            Self::Forget { id, at } => {
                sent(&at.api(env, clock, true).await?, Method::DELETE, &id, None).await?;
                Ok(writeln!(out, "Forgotten.")?)
            }
        }
    }
}

/// Prints the entries of `owner` in order of creation.
async fn list(api: &Api, owner: &Owner, out: &mut impl Write) -> anyhow::Result<()> {
    let (parameter, kind, name) = match owner {
        Owner { user: Some(person), .. } => ("userId", "user", person.as_str()),
        Owner { chat, .. } => ("chatKey", "chat", chat.as_deref().unwrap_or_default()),
    };
    if kind == "chat" {
        api.of_chat(name, "")?;
    }
    let Overview { memories, forgotten } = api.json("/v1/memory", &[(parameter, name.to_owned())]).await?;
    if memories.is_empty() {
        writeln!(out, "Nothing is remembered of {kind} {}.", line(name))?;
    }
    for entry in &memories {
        print(entry, out)?;
    }
    let changed = memories.iter().map(|entry| ("changed", entry));
    let forgotten = forgotten.iter().map(|entry| ("forgotten", entry));
    for (did, Entry { number, earlier, .. }) in changed.chain(forgotten) {
        if let Some(Earlier { text, undo_until }) = earlier {
            let until = time(*undo_until);
            writeln!(out, "{number}. {did} by the agent, /memory undo until {until}; it was:")?;
            writeln!(out, "{}", indented(text))?;
        }
    }
    Ok(())
}

/// Sends a request about the entry `id`.
async fn sent(api: &Api, method: Method, id: &str, body: Option<&Value>) -> anyhow::Result<Response> {
    let path = format!("/v1/memory/{}", encoded(id));
    let unknown = || anyhow::anyhow!("there is no such entry; `memory list` shows each entry's id");
    let sent = api.send(method, &path, "application/json", body).await;
    sent.map_err(|error| if is_not_found(&error) { unknown() } else { error })
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
