//! Parses `UIMessage`s of the AI SDK: one a line, as Annals exports them (`annals history --jsonl`, `GET …/messages` as
//! `application/x-ndjson`), or any `{id, role, parts}`; or an array of them, as programs with the AI SDK store them.
//!
//! An export of Annals is restored as it was: each message in its place, with its forms, replies, boundaries and notices.
//! Summaries are skipped: they do not name the messages that they summarize, and are made again when needed.

use std::collections::{HashMap, HashSet};

use annals_core::approval::Verdict;
use annals_core::chat_key::{ActorKey, ChatKey, Place as ChatPlace};
use annals_core::message::{Role, UiMessage};
use annals_core::record::{Channel, Draft, Kind, Origin};
use annals_core::sort_key::{MessageId, Timestamp};
use anyhow::{Context, anyhow, bail, ensure};
use serde_json::Value;

use super::item::{Chat, Content, Item, Options, Place, Skipped};

/// Parses the lines of `text`, the file `name`.
pub(super) fn read(name: &str, text: &str, options: &Options) -> anyhow::Result<Content> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let messages = lines.map(|(number, line)| {
        let message = serde_json::from_str(line).map_err(|error| anyhow!(in_line(&error)));
        (format!("line {}", number + 1), message)
    });
    read_messages(name, messages, options)
}

/// Parses the array `text`, the file `name`.
pub(super) fn read_array(name: &str, text: &str, options: &Options) -> anyhow::Result<Content> {
    let array: Vec<Value> = serde_json::from_str(text).with_context(|| format!("{name} is no JSON"))?;
    let messages = array.into_iter().enumerate().map(|(number, message)| {
        (format!("message {}", number + 1), serde_json::from_value(message).map_err(anyhow::Error::from))
    });
    read_messages(name, messages, options)
}

/// Returns the parser's error without its line number, which is always 1.
fn in_line(error: &serde_json::Error) -> String {
    let (line, column) = (error.line(), error.column());
    error.to_string().replace(&format!(" at line {line} column {column}"), &format!(" at column {column}"))
}

/// Parses messages, each with its place in the file `name`.
fn read_messages(
    name: &str,
    messages: impl Iterator<Item = (String, anyhow::Result<UiMessage>)>,
    options: &Options,
) -> anyhow::Result<Content> {
    let mut content = Content::default();
    let mut places: HashMap<ChatKey, usize> = HashMap::new();
    let mut earlier = Earlier::default();
    for (place, message) in messages {
        let parsed = message
            .context("it is no UIMessage: {id, role, parts}")
            .and_then(|message| parse(message, options, &mut earlier))
            .with_context(|| format!("{name}, {place}"))?;
        match parsed {
            Parsed::Skipped(skipped) => content.skip(skipped),
            Parsed::Item(item) => {
                let key = item.draft.chat.clone();
                let at = *places.entry(key.clone()).or_insert_with(|| {
                    content.chats.push(Chat { key, name: name.to_owned(), items: Vec::new() });
                    content.chats.len() - 1
                });
                content.chats[at].items.push(*item);
            }
        }
    }
    if let Some(only) = &options.chat
        && content.chats.len() > 1
    {
        content.chats.retain(|chat| chat.key == *only);
    }
    Ok(content)
}

enum Parsed {
    Item(Box<Item>),
    Skipped(Skipped),
}

/// Earlier messages of the file.
#[derive(Default)]
struct Earlier {
    boundaries: HashSet<(ChatKey, String)>,
    /// Time of the first form of each reply.
    replies: HashMap<(ChatKey, String), Timestamp>,
}

fn parse(message: UiMessage, options: &Options, earlier: &mut Earlier) -> anyhow::Result<Parsed> {
    if message.role == Role::System {
        let why = ": SYSTEM_PROMPT is used instead";
        return Ok(Parsed::Skipped(Skipped::of("system message", "system messages", why)));
    }
    let listed = Listed::of(&message);
    if listed.as_ref().is_some_and(|listed| listed.kind == Kind::Summary) {
        return Ok(Parsed::Skipped(Skipped::of(
            "summary: it is made anew",
            "summaries: they are made anew",
            "",
        )));
    }
    let named = message.metadata.chat_key().map(str::parse::<ChatKey>);
    // `--chat` is the target of an export of one chat, and selects one of several.
    let chat = match (named.transpose().context("its chatKey names no chat")?, &options.chat) {
        (_, Some(chat)) => chat.clone(),
        (Some(named), None) => named,
        (None, None) => bail!("it names no chat: say which with --chat, such as http:chat:dev:hello"),
    };
    match listed {
        Some(listed) => of_annals(&message, listed, chat, earlier),
        None => of_others(message, chat, options),
    }
}

/// Metadata of a message in a listing of Annals.
struct Listed {
    ts: Timestamp,
    id: String,
    kind: Kind,
    channel: Option<Channel>,
    chat_id: Option<String>,
    user_id: String,
    revision: u32,
}

impl Listed {
    fn of(message: &UiMessage) -> Option<Self> {
        let metadata = &message.metadata;
        metadata.chat_key()?;
        let id = metadata.message_id()?.to_owned();
        let revision = message.id.strip_prefix(&format!("{id}@")).and_then(|number| number.parse().ok());
        Some(Self {
            ts: metadata.ts()?,
            kind: metadata.kind()?,
            channel: metadata.channel(),
            chat_id: metadata.chat_id().map(str::to_owned),
            user_id: metadata.user_id()?.to_owned(),
            revision: revision.unwrap_or(0),
            id,
        })
    }
}

fn of_annals(
    message: &UiMessage,
    listed: Listed,
    chat: ChatKey,
    earlier: &mut Earlier,
) -> anyhow::Result<Parsed> {
    let Listed { ts, id, kind, channel, chat_id, user_id, revision } = listed;
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
    checked(draft, Some(ts), place, revision)
}

fn of_others(message: UiMessage, chat: ChatKey, options: &Options) -> anyhow::Result<Parsed> {
    ensure!(!message.id.is_empty(), "it has no id, which a second import needs to recognize it");
    let user = message.metadata.user_id().map(str::to_owned);
    let ts = ["ts", "createdAt"].into_iter().find_map(|name| time(message.metadata.fields().get(name)));
    let ts = ts.or_else(|| time(message.extra.get("createdAt")));
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
    checked(draft, ts, Place::Message, 0)
}

fn checked(draft: Draft, ts: Option<Timestamp>, place: Place, revision: u32) -> anyhow::Result<Parsed> {
    ActorKey::new(draft.chat.clone(), &draft.user_id).context("its userId is invalid")?;
    Ok(Parsed::Item(Box::new(Item { draft, ts, place, revision })))
}

/// Parses the id of a message.
fn id_of(id: &str) -> anyhow::Result<MessageId> {
    MessageId::new(id).context("its id is invalid")
}

/// Parses a derived id, `<id>/<suffix>/<suffix>`: only the length of the first part is bounded.
fn derived_id_of(id: &str, suffixes: &[&str]) -> anyhow::Result<MessageId> {
    let own = id.strip_suffix(&format!("/{}", suffixes.join("/"))).unwrap_or(id);
    Ok(suffixes.iter().fold(id_of(own)?, |id, suffix| id.derived(suffix)))
}

/// Parses milliseconds since 1970, or a time in RFC 3339.
fn time(value: Option<&Value>) -> Option<Timestamp> {
    let value = value?;
    value.as_i64().and_then(Timestamp::from_millis).or_else(|| Timestamp::parse_rfc3339(value.as_str()?))
}

fn channel_of(chat: &ChatKey) -> Channel {
    match chat.place() {
        ChatPlace::TelegramChat { .. } | ChatPlace::TelegramTopic { .. } => Channel::Telegram,
        ChatPlace::LarkChat { .. } | ChatPlace::LarkThread { .. } => Channel::Lark,
        ChatPlace::HttpChat { .. } => Channel::Http,
        ChatPlace::WebRoom { .. } => Channel::Web,
        ChatPlace::DiscordChannel { .. } | ChatPlace::DiscordThread { .. } => Channel::Discord,
        ChatPlace::Direct { .. } => Channel::Terminal,
    }
}
