//! Parses JSON exports of Telegram Desktop: one chat (`{name, type, id, messages}`), or an account
//! (`{personal_information, chats: {list}, left_chats: {list}}`).
//!
//! Each message is converted into the Bot API's form and parsed like a webhook's. So both make the same record, under the same
//! key.
//!
//! Ids in an export lack the sign and the prefix of the Bot API, where a group is `-<id>`, and a supergroup or channel
//! `-100<id>`. An export names a private chat by the other person, and the Bot API by the person whom the bot talks to. So a
//! private chat without the bot is skipped: it would be stored as a chat of that person with the bot.
//!
//! Sources: `export_output_json.cpp` of Telegram Desktop; [`Message`](https://core.telegram.org/bots/api#message).

mod content;
mod fields;
mod message;

use annals_core::chat_key::ChatKey;
use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use self::fields::{CHANNELS, int, text_of, user};
use self::message::{ChatKind, Source};
use super::item::{Chat, Content, Item, Options, Place, Skipped};

/// Fields of an export of one chat or of an account, which no message has.
pub(super) const FIELDS: [&str; 4] = ["messages", "chats", "left_chats", "personal_information"];

#[derive(Deserialize)]
struct File {
    personal_information: Option<Person>,
    chats: Option<List>,
    left_chats: Option<List>,
    // Fields of one chat.
    name: Option<String>,
    r#type: Option<String>,
    id: Option<i64>,
    messages: Option<Vec<Map<String, Value>>>,
}

#[derive(Deserialize)]
struct Person {
    user_id: Option<i64>,
}

#[derive(Deserialize)]
struct List {
    list: Vec<Exported>,
}

#[derive(Deserialize)]
struct Exported {
    name: Option<String>,
    r#type: Option<String>,
    id: i64,
    messages: Vec<Map<String, Value>>,
}

/// Parses an export.
pub(super) fn read(text: &str, options: &Options) -> anyhow::Result<Content> {
    let parsed = serde_json::from_str(text).or_else(|error| match with_json_escapes(text) {
        Some(text) => serde_json::from_str(&text),
        None => Err(error),
    });
    let file: File = match parsed {
        Ok(file) => file,
        Err(error) if error.is_data() && text.trim_start().starts_with('{') => {
            return Err(error).context("it is no export of Telegram Desktop, though it looks like one");
        }
        Err(error) if text.trim_start().starts_with('{') => return Err(error).context("it is no JSON"),
        Err(_) => bail!(NEITHER),
    };
    let owner = file.personal_information.and_then(|person| person.user_id);
    let mut content = Content::default();
    if let (Some(id), Some(messages)) = (file.id, file.messages) {
        let exported = Exported { name: file.name, r#type: file.r#type, id, messages };
        if options.bot.is_none() && exported.is_group() {
            bail!(
                "it is a group, in which the bot's messages are the assistant's: say who the bot is, with --bot USER_ID"
            );
        }
        chat(&exported, owner, options, options.chat.as_ref(), &mut content)?;
        return Ok(content);
    }
    ensure!(file.chats.is_some() || file.left_chats.is_some(), NEITHER);
    let all: Vec<Exported> =
        [file.chats, file.left_chats].into_iter().flatten().flat_map(|list| list.list).collect();
    if options.bot.is_none() {
        // All its bots would be taken for this one, in one history, and this one's messages in groups for a person's.
        ensure!(
            !all.iter().any(|exported| exported.is_group() || exported.is_with_bot()),
            "{}",
            which_bot(&all)
        );
    }
    for exported in &all {
        chat(exported, owner, options, None, &mut content)?;
    }
    if let Some(only) = &options.chat {
        content.chats.retain(|chat| chat.key == *only);
    }
    Ok(content)
}

const NEITHER: &str = "it is neither an export of Telegram Desktop as JSON nor UIMessages of the AI SDK, one a line or in an array";

/// Largest number of bots in the error.
const MAX_NAMED: usize = 8;

/// Returns the error for an account whose export does not tell which of its bots is meant.
fn which_bot(all: &[Exported]) -> String {
    const QUESTION: &str =
        "it is of an account, with groups or bots in it: say who the bot is, with --bot USER_ID";
    let bots = all.iter().filter(|exported| exported.is_with_bot()).take(MAX_NAMED);
    let bots: Vec<String> = bots
        .map(|exported| format!("{} {:?}", exported.id, exported.name.as_deref().unwrap_or_default()))
        .collect();
    if bots.is_empty() {
        return QUESTION.to_owned();
    }
    format!("{QUESTION}. Those it talks to are {}", bots.join(", "))
}

impl Exported {
    fn is_group(&self) -> bool {
        matches!(self.r#type.as_deref(), Some("private_group" | "private_supergroup" | "public_supergroup"))
    }

    fn is_with_bot(&self) -> bool {
        self.r#type.as_deref() == Some("bot_chat")
    }
}

/// Replaces escapes such as `\x1F`, which Telegram Desktop writes for control characters and JSON does not have.
fn with_json_escapes(text: &str) -> Option<String> {
    if !text.contains("\\x") {
        return None;
    }
    let mut mended = String::with_capacity(text.len() + 64);
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        mended.push(c);
        if c == '\\' {
            match chars.next() {
                Some('x') => mended.push_str("u00"),
                Some(escaped) => mended.push(escaped),
                None => {}
            }
        }
    }
    Some(mended)
}

fn chat(
    exported: &Exported,
    owner: Option<i64>,
    options: &Options,
    into: Option<&ChatKey>,
    content: &mut Content,
) -> anyhow::Result<()> {
    let name = exported.name.clone().unwrap_or_else(|| "without a name".into());
    let kind = match kind(exported, &name, owner, options, into.is_some()) {
        Ok(kind) => kind,
        Err(skipped) => {
            content.skip(skipped);
            return Ok(());
        }
    };
    let source = Source::new(kind, &exported.messages);
    let mut chats: Vec<Chat> = Vec::new();
    for (number, message) in exported.messages.iter().enumerate() {
        if text_of(message, "type") == Some("unsupported") {
            content.skip(Skipped::of("message", "messages", " that Telegram Desktop could not export"));
            continue;
        }
        let mut draft = source.draft(message, options).with_context(|| {
            format!(
                "message {} of {name:?} ({} in its list)",
                int(message, "id").unwrap_or_default(),
                number + 1
            )
        })?;
        if let Some(into) = into {
            draft.chat = into.clone();
            into.chat_id().clone_into(&mut draft.chat_id);
        }
        let at = chats.iter().position(|chat| chat.key == draft.chat).unwrap_or_else(|| {
            chats.push(Chat { key: draft.chat.clone(), name: name.clone(), items: Vec::new() });
            chats.len() - 1
        });
        chats[at].items.push(Item { ts: Some(draft.ts), draft, place: Place::Message, revision: 0 });
    }
    content.chats.append(&mut chats);
    Ok(())
}

/// Returns the kind of chat that `exported` is for the bot, or why it is skipped.
fn kind(
    exported: &Exported,
    name: &str,
    owner: Option<i64>,
    options: &Options,
    is_told: bool,
) -> Result<ChatKind, Skipped> {
    let bot = options.bot;
    let group = |id: i64, kind: &str| {
        let is_channel = kind == "channel";
        Ok(ChatKind { json: json!({"id": id, "type": kind, "title": name}), is_channel, bot })
    };
    let private = |id: i64, bot| {
        Ok(ChatKind {
            json: json!({"id": id, "type": "private", "first_name": name}),
            is_channel: false,
            bot,
        })
    };
    // Some tools write the Bot API's ids.
    let (id, channel) = match exported.id {
        id if id < 0 => (id, id),
        id => (-id, CHANNELS - id),
    };
    let speaks = |who: i64| {
        let from = format!("user{who}");
        exported.messages.iter().any(|message| text_of(message, "from_id") == Some(from.as_str()))
    };
    match exported.r#type.as_deref().unwrap_or_default() {
        "private_group" => group(id, "group"),
        "private_supergroup" | "public_supergroup" => group(channel, "supergroup"),
        "private_channel" | "public_channel" => group(channel, "channel"),
        "bot_chat" if bot.is_none_or(|bot| bot == exported.id) => {
            let others = exported.messages.iter().filter_map(|message| user(text_of(message, "from_id")?));
            let person = owner.or_else(|| others.into_iter().find(|id| *id != exported.id));
            let nobody =
                || Skipped::of("chat", "chats", " with the bot that have no message of anybody else");
            let person = person.ok_or_else(nobody)?;
            private(person, Some(exported.id))
        }
        _ if is_told => private(exported.id, bot),
        "personal_chat" if bot.is_some_and(|bot| owner == Some(bot) || speaks(bot)) => {
            private(exported.id, bot)
        }
        "bot_chat" => Err(Skipped::of("chat", "chats", " with another bot")),
        "personal_chat" | "saved_messages" | "replies" | "verify_codes" => {
            let who = if bot.is_none() { "--bot says who it is, " } else { "" };
            let why = format!(" that the bot is no part of ({who}--chat imports one all the same)");
            Err(Skipped::of("private chat", "private chats", &why))
        }
        kind => Err(Skipped::of("chat", "chats", &format!(" of the unknown type {kind:?}"))),
    }
}
