//! Parses `UIMessage`s of the AI SDK: one a line, as Annals exports them (`annals history --jsonl`, `GET …/messages` as
//! `application/x-ndjson`), or any `{id, role, parts}`; or an array of them, as programs with the AI SDK store them.
//!
//! An export of Annals is restored as far as it is listed: each message in its place, with its forms, replies, boundaries
//! and notices. Summaries are skipped: they do not name the messages that they summarize, and are made again when needed.

use std::collections::{HashMap, HashSet};
use std::io::BufRead;
use std::sync::Arc;
use std::time::Duration;

use annals_core::approval::Verdict;
use annals_core::chat_key::ChatKey;
use annals_core::draft::{Draft, Origin};
use annals_core::message::{Role, UiMessage};
use annals_core::metadata::Listed;
use annals_core::record::{Channel, Kind};
use annals_core::sort_key::{MessageId, Timestamp};
use anyhow::{Context, anyhow, bail, ensure};
use serde::Deserialize;
use serde::de::{DeserializeOwned, DeserializeSeed};
use serde_json::Value;

use super::item::{Item, Options, Place, Skipped};
use super::parsed::{Each, Parsed, Take, ends_early, invalid};

/// Minimum time of another program's message, in 1973: seconds that are taken for milliseconds are before it.
const MIN_MILLIS: i64 = 100_000_000_000;

/// Maximum time by which another program's message may be ahead of our clock.
const MAX_AHEAD: Duration = Duration::from_hours(24);

/// Facts of a file that parsing its messages needs.
#[derive(Clone, Debug)]
pub(super) struct Survey {
    /// True for an array, false for a message a line.
    is_array: bool,
    /// True if `--chat` selects one of several chats.
    selects: bool,
}

/// A message as far as it names a chat.
#[derive(Deserialize)]
struct Named {
    metadata: Option<NamedMetadata>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NamedMetadata {
    chat_key: Option<String>,
}

impl Survey {
    /// Looks for the chats that the messages of `file` name. Invalid messages are reported when they are read.
    pub(super) fn of(
        is_array: bool,
        name: &str,
        file: impl BufRead,
        options: &Options,
    ) -> anyhow::Result<Self> {
        let mut chats = HashSet::new();
        if options.chat.is_some() {
            each(is_array, name, file, &mut |_, message: anyhow::Result<Named>| {
                let chat = message.ok().and_then(|message| message.metadata?.chat_key);
                chats.extend(chat.filter(|_| chats.len() < 2));
                Ok(())
            })?;
        }
        Ok(Self { is_array, selects: chats.len() > 1 })
    }
}

/// Parses the messages of `file`, called `name`.
pub(super) fn read(
    name: &str,
    file: impl BufRead,
    survey: &Survey,
    options: &Options,
    take: Take<'_>,
) -> anyhow::Result<()> {
    let mut reader = Reader { name: name.into(), survey, options, earlier: Earlier::default() };
    let unit = if survey.is_array { "message" } else { "line" };
    each(survey.is_array, name, file, &mut |number, message| {
        reader.take(message, take).with_context(|| format!("{name}, {unit} {number}"))
    })
}

/// Calls `take` with each value of an array, or of each line, and its number from 1.
fn each<T: DeserializeOwned>(
    is_array: bool,
    name: &str,
    mut file: impl BufRead,
    take: &mut dyn FnMut(usize, anyhow::Result<T>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut number = 0;
    if is_array {
        let mut failed = None;
        let mut take = |value: Value| {
            number += 1;
            take(number, serde_json::from_value(value).map_err(anyhow::Error::from))
        };
        let mut parser = serde_json::Deserializer::from_reader(file);
        let parsed = Each { take: &mut take, failed: &mut failed }.deserialize(&mut parser);
        let parsed = parsed.and_then(|()| parser.end());
        return failed.map_or(parsed.map_err(|error| invalid(name, error, " is not JSON")), Err);
    }
    let mut line = Vec::new();
    while file.read_until(b'\n', &mut line).with_context(|| format!("failed to read {name}"))? > 0 {
        number += 1;
        if !line.trim_ascii().is_empty() {
            let value = match serde_json::from_slice(&line) {
                Err(error) if error.is_eof() && !line.ends_with(b"\n") => {
                    return Err(ends_early(name, number));
                }
                value => value.map_err(|error| anyhow!(in_line(&error))),
            };
            take(number, value)?;
        }
        line.clear();
    }
    Ok(())
}

/// Returns the parser's error without its line number, which is always 1.
fn in_line(error: &serde_json::Error) -> String {
    let (line, column) = (error.line(), error.column());
    error.to_string().replace(&format!(" at line {line} column {column}"), &format!(" at column {column}"))
}

/// Parses messages, one after another.
struct Reader<'a> {
    name: Arc<str>,
    survey: &'a Survey,
    options: &'a Options,
    earlier: Earlier,
}

impl Reader<'_> {
    fn take(&mut self, message: anyhow::Result<UiMessage>, take: Take<'_>) -> anyhow::Result<()> {
        let message = message.context("it is not a UIMessage: {id, role, parts}")?;
        match self.parse(message)? {
            Some(parsed) => take(parsed),
            None => Ok(()),
        }
    }

    /// Parses a message; `None` if it is of a chat that is not selected.
    fn parse(&mut self, message: UiMessage) -> anyhow::Result<Option<Parsed>> {
        let skipped =
            |one: &str, more: &str, why: &str| Ok(Some(Parsed::Skipped(Skipped::of(one, more, why))));
        if message.role == Role::System {
            return skipped("system message", "system messages", ": SYSTEM_PROMPT is used instead");
        }
        let restored = Restored::of(&message);
        if restored.as_ref().is_some_and(|restored| restored.kind == Kind::Summary) {
            return skipped("summary: it is made anew", "summaries: they are made anew", "");
        }
        let named = message.metadata.chat_key().map(str::parse::<ChatKey>);
        // `--chat` is the target of an export of one chat, and selects one of several.
        let chat = match (named.transpose().context("its chatKey names no chat")?, &self.options.chat) {
            (named, Some(chat)) if self.survey.selects && named.as_ref() != Some(chat) => return Ok(None),
            (_, Some(chat)) => chat.clone(),
            (Some(named), None) => named,
            (None, None) => bail!("it names no chat: say which with --chat, such as http:chat:dev:hello"),
        };
        let mut item = match restored {
            Some(restored) => of_annals(&message, restored, chat, &mut self.earlier)?,
            None => of_others(message, chat, self.options)?,
        };
        item.draft.person = self.options.person_of(&item.draft)?;
        item.chat_name = Arc::clone(&self.name);
        Ok(Some(Parsed::Item(Box::new(item))))
    }
}

/// Earlier messages of the file.
#[derive(Default)]
struct Earlier {
    boundaries: HashSet<(ChatKey, String)>,
    /// Time of the first form of each reply.
    replies: HashMap<(ChatKey, String), Timestamp>,
}

/// The fields of a message in a listing of Annals that an import restores.
struct Restored {
    ts: Timestamp,
    id: String,
    kind: Kind,
    channel: Option<Channel>,
    chat_id: Option<String>,
    user_id: String,
    revision: u32,
    sent_at: Option<Timestamp>,
}

impl Restored {
    fn of(message: &UiMessage) -> Option<Self> {
        let Listed {
            ts,
            chat_key,
            channel,
            chat_id,
            user_id,
            message_id,
            kind,
            sent_at,
            // They follow from the others.
            actor_key: _,
            source_range: _,
            // It is about a delivery from another place.
            delivery_failure: _,
        } = message.metadata.listed();
        let millis = |value: &Value| value.as_i64().and_then(Timestamp::from_millis);
        // The reader of the file parses it.
        chat_key?.as_str()?;
        let id = message_id?.as_str()?.to_owned();
        let revision = message.id.strip_prefix(&format!("{id}@")).and_then(|number| number.parse().ok());
        Some(Self {
            ts: ts.and_then(millis)?,
            kind: Kind::deserialize(kind?).ok()?,
            channel: channel.and_then(|channel| Channel::deserialize(channel).ok()),
            chat_id: chat_id.and_then(Value::as_str).map(str::to_owned),
            user_id: user_id?.as_str()?.to_owned(),
            revision: revision.unwrap_or(0),
            sent_at: sent_at.and_then(millis),
            id,
        })
    }
}

fn of_annals(
    message: &UiMessage,
    restored: Restored,
    chat: ChatKey,
    earlier: &mut Earlier,
) -> anyhow::Result<Item> {
    let Restored { ts, id, kind, channel, chat_id, user_id, revision, sent_at } = restored;
    let mut metadata = message.metadata.clone();
    metadata.unlist();
    let is_again = metadata.replaces_from().is_some();
    let known = (chat.clone(), id.clone());
    let approval: Option<Verdict> = metadata.approval();
    let is_agents = message.role == Role::Assistant;
    let (place, id) = match (kind, &approval) {
        (Kind::Notice, Some(Verdict { id: request, .. }))
            if id.ends_with(&format!("/approval-{request}")) =>
        {
            (
                Place::Approval(request.clone()),
                derived_id_of(&id, &["reply", &format!("approval-{request}")])?,
            )
        }
        (Kind::Boundary, _) => {
            let own = id.strip_suffix("/boundary").unwrap_or(&id).to_owned();
            earlier.boundaries.insert((chat.clone(), own.clone()));
            (Place::Message, id_of(&own)?)
        }
        _ if is_agents && id.ends_with("/notice") => (Place::Notice, derived_id_of(&id, &["notice"])?),
        _ if is_agents && id.ends_with("/reply") && revision == 0 => {
            earlier.replies.insert(known, ts);
            (Place::Reply, derived_id_of(&id, &["reply"])?)
        }
        _ if is_agents && id.ends_with("/reply") => {
            let is_beside = earlier.replies.get(&known) == Some(&ts);
            (if is_beside { Place::ReplyForm } else { Place::Reply }, derived_id_of(&id, &["reply"])?)
        }
        _ if revision > 0 && !is_again => (Place::Form, id_of(&id)?),
        _ if !is_again && earlier.boundaries.contains(&known) => (Place::Opening, id_of(&id)?),
        _ => (Place::Message, id_of(&id)?),
    };
    // A message that was sent again has a place of its own and a number, but is not a form of another.
    let kind = match place {
        Place::Message | Place::Reply if kind == Kind::Revision => Kind::Normal,
        _ => kind,
    };
    let origin = Origin {
        channel: channel.unwrap_or_else(|| channel_of(&chat)),
        chat_id: chat_id.unwrap_or_else(|| chat.chat_id().to_owned()),
        user_id,
        chat,
    };
    let draft = Draft::new(origin, id, ts)
        .by(message.role)
        .of_kind(kind)
        .with_parts(message.parts.clone())
        .with_metadata(metadata)
        .opening_session(place == Place::Opening);
    checked(draft, Some(ts), sent_at, place, revision)
}

fn of_others(message: UiMessage, chat: ChatKey, options: &Options) -> anyhow::Result<Item> {
    ensure!(!message.id.is_empty(), "it has no id, which a second import needs to recognize it");
    let user = message.metadata.user_id().map(str::to_owned);
    let ts = time_of(&message, options.now)?;
    let mut metadata = message.metadata;
    metadata.unlist();
    let user_id = match message.role {
        Role::Assistant => options.settings.agent_id.clone(),
        _ => user.unwrap_or_else(|| chat.chat_id().to_owned()),
    };
    let origin = Origin { channel: channel_of(&chat), chat_id: chat.chat_id().to_owned(), user_id, chat };
    let draft = Draft::new(origin, id_of(&message.id)?, ts.unwrap_or(Timestamp::MIN))
        .by(message.role)
        .with_parts(message.parts)
        .with_metadata(metadata);
    checked(draft, ts, None, Place::Message, 0)
}

fn checked(
    draft: Draft,
    ts: Option<Timestamp>,
    sent_at: Option<Timestamp>,
    place: Place,
    revision: u32,
) -> anyhow::Result<Item> {
    draft.chat.actor_key(&draft.user_id).context("its userId is invalid")?;
    Ok(Item { chat_name: "".into(), draft, ts, sent_at, place, revision })
}

fn id_of(id: &str) -> anyhow::Result<MessageId> {
    MessageId::new(id).context("its id is invalid")
}

/// Parses a derived id, `<id>/<suffix>/<suffix>`: only the length of the first part is bounded.
fn derived_id_of(id: &str, suffixes: &[&str]) -> anyhow::Result<MessageId> {
    let own = id.strip_suffix(&format!("/{}", suffixes.join("/"))).unwrap_or(id);
    Ok(suffixes.iter().fold(id_of(own)?, |id, suffix| id.derived(suffix)))
}

/// Parses the time of another program's message, if it has one: milliseconds since 1970, or a time in RFC 3339.
fn time_of(message: &UiMessage, now: Timestamp) -> anyhow::Result<Option<Timestamp>> {
    const TO_GIVE: &str = "give milliseconds since 1970, or a time in UTC such as 2026-01-31T12:00:00Z";
    let fields = message.metadata.fields();
    let values = [
        ("ts", fields.get("ts")),
        ("createdAt", fields.get("createdAt")),
        ("createdAt", message.extra.get("createdAt")),
    ];
    let given = values.into_iter().find_map(|(name, value)| Some((name, value.filter(|v| !v.is_null())?)));
    let Some((name, value)) = given else { return Ok(None) };
    let millis = value.as_i64().and_then(Timestamp::from_millis);
    let ts = millis
        .or_else(|| Timestamp::parse_rfc3339(value.as_str()?))
        .with_context(|| format!("its {name} is invalid: {TO_GIVE}"))?;
    let is_possible = ts.as_millis() >= MIN_MILLIS && ts <= now.plus(MAX_AHEAD);
    ensure!(is_possible, "its {name} is in {}: {TO_GIVE}", &ts.rfc3339()[..10]);
    Ok(Some(ts))
}

pub(super) fn channel_of(chat: &ChatKey) -> Channel {
    chat.channel().unwrap_or(Channel::Terminal)
}
