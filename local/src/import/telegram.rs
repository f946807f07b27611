//! What Telegram Desktop exports as JSON: one chat (`{name, type, id, messages}`), or an account
//! (`{personal_information, chats: {list}, left_chats: {list}}`).
//!
//! Each message is brought into the form that the Bot API gives it, and read as a webhook's is. So both make the same record,
//! under the same key.
//!
//! An export has ids without the sign and the prefix of the Bot API: a group is `-<id>` there, a supergroup or channel
//! `-100<id>`. A private chat is told apart by its other person in an export; for the bot, by the person it talks to. So
//! one that the bot is no part of is left out: under the other person's id it would become what the bot and that person said.
//!
//! Sources: `export_output_json.cpp` of Telegram Desktop; [`Message`](https://core.telegram.org/bots/api#message).

mod content;

use std::collections::{HashMap, HashSet};

use annals_shared::channel::telegram::bot::Bot;
use annals_shared::channel::telegram::parse::{Incoming, parse};
use annals_shared::chat_key::ChatKey;
use annals_shared::message::Part;
use annals_shared::record::{Draft, Kind};
use annals_shared::sort_key::MessageId;
use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use self::content::{event, medium, said, structure};
use super::{Chat, Item, Left, Options, Place, Read};

/// What an export has, of one chat or of an account, and no message has.
pub(super) const FIELDS: [&str; 4] = ["messages", "chats", "left_chats", "personal_information"];

/// How the Bot API numbers supergroups and channels.
const CHANNELS: i64 = -1_000_000_000_000;
/// What stands for a person who writes in a channel's name.
const CHANNEL_BOT: i64 = 136_817_688;

#[derive(Deserialize)]
struct File {
    personal_information: Option<Person>,
    chats: Option<List>,
    left_chats: Option<List>,
    // Of one chat.
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

/// Reads an export.
pub(super) fn read(text: &str, options: &Options) -> anyhow::Result<Read> {
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
    let mut read = Read::default();
    if let (Some(id), Some(messages)) = (file.id, file.messages) {
        let exported = Exported { name: file.name, r#type: file.r#type, id, messages };
        if options.bot.is_none() && exported.is_group() {
            bail!(
                "it is a group, in which the bot's messages are the assistant's: say who the bot is, with --bot USER_ID"
            );
        }
        chat(&exported, owner, options, options.chat.as_ref(), &mut read)?;
        return Ok(read);
    }
    ensure!(file.chats.is_some() || file.left_chats.is_some(), NEITHER);
    let all: Vec<Exported> =
        [file.chats, file.left_chats].into_iter().flatten().flat_map(|list| list.list).collect();
    if options.bot.is_none() {
        // Each of its bots would become this one, all in one history, and this one's words in groups a person's.
        ensure!(
            !all.iter().any(|exported| exported.is_group() || exported.is_with_bot()),
            "{}",
            which_bot(&all)
        );
    }
    for exported in &all {
        chat(exported, owner, options, None, &mut read)?;
    }
    if let Some(only) = &options.chat {
        read.chats.retain(|chat| chat.key == *only);
    }
    Ok(read)
}

const NEITHER: &str = "it is neither an export of Telegram Desktop as JSON nor UIMessages of the AI SDK, one a line or in an array";

/// How many bots of an account are named.
const MAX_NAMED: usize = 8;

/// What is asked where an account's export does not tell which of its bots is meant.
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

/// Telegram Desktop writes control characters as `\x1F`, which is no JSON.
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

/// What kind of a chat it is, as the Bot API has it.
struct Window {
    json: Value,
    is_channel: bool,
    bot: Option<i64>,
}

fn chat(
    exported: &Exported,
    owner: Option<i64>,
    options: &Options,
    into: Option<&ChatKey>,
    read: &mut Read,
) -> anyhow::Result<()> {
    let name = exported.name.clone().unwrap_or_else(|| "without a name".into());
    let window = match window(exported, &name, owner, options, into.is_some()) {
        Ok(window) => window,
        Err(why) => {
            read.leave(why);
            return Ok(());
        }
    };
    let by_id: HashMap<i64, &Map<String, Value>> =
        exported.messages.iter().filter_map(|message| Some((int(message, "id")?, message))).collect();
    let is_topic = |message: &&Map<String, Value>| text_of(message, "action") == Some("topic_created");
    let topics: HashSet<i64> =
        exported.messages.iter().filter(is_topic).filter_map(|message| int(message, "id")).collect();
    let mut chats: Vec<Chat> = Vec::new();
    for (number, message) in exported.messages.iter().enumerate() {
        if text_of(message, "type") == Some("unsupported") {
            read.leave(Left::of("message", "messages", " that Telegram Desktop could not export"));
            continue;
        }
        let mut draft = draft(message, &window, &by_id, &topics, options).with_context(|| {
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
    read.chats.append(&mut chats);
    Ok(())
}

/// The window that `exported` is for the bot, or why it is none.
fn window(
    exported: &Exported,
    name: &str,
    owner: Option<i64>,
    options: &Options,
    is_told: bool,
) -> Result<Window, Left> {
    let bot = options.bot;
    let group = |id: i64, kind: &str| {
        let is_channel = kind == "channel";
        Ok(Window { json: json!({"id": id, "type": kind, "title": name}), is_channel, bot })
    };
    let private = |id: i64, bot| {
        Ok(Window { json: json!({"id": id, "type": "private", "first_name": name}), is_channel: false, bot })
    };
    // Some tools write ids as the Bot API has them.
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
            let nobody = || Left::of("chat", "chats", " with the bot in which nobody else has said anything");
            let person = person.ok_or_else(nobody)?;
            private(person, Some(exported.id))
        }
        _ if is_told => private(exported.id, bot),
        "personal_chat" if bot.is_some_and(|bot| owner == Some(bot) || speaks(bot)) => {
            private(exported.id, bot)
        }
        "bot_chat" => Err(Left::of("chat", "chats", " with another bot")),
        "personal_chat" | "saved_messages" | "replies" | "verify_codes" => {
            let who = if bot.is_none() { "--bot says who it is, " } else { "" };
            let why = format!(" that the bot is no part of ({who}--chat imports one all the same)");
            Err(Left::of("private chat", "private chats", &why))
        }
        kind => Err(Left::of("chat", "chats", &format!(" of the unknown type {kind:?}"))),
    }
}

/// The message as its webhook would have made it.
fn draft(
    message: &Map<String, Value>,
    window: &Window,
    by_id: &HashMap<i64, &Map<String, Value>>,
    topics: &HashSet<i64>,
    options: &Options,
) -> anyhow::Result<Draft> {
    let id = int(message, "id").context("it has no id")?;
    let Some(date) = seconds(message, "date_unixtime") else {
        bail!("it has no date_unixtime: export it again with a Telegram Desktop of 2022 or later")
    };
    let mut update = json!({ "message_id": id, "date": date, "chat": window.json });
    if let Some(edited) = seconds(message, "edited_unixtime") {
        update["edit_date"] = edited.into();
    }
    sender(message, window, &mut update);
    for (field, name) in [("author_signature", "author")] {
        if let Some(text) = text_of(message, name) {
            update[field] = text.into();
        }
    }
    if let Some(name) = text_of(message, "via_bot") {
        update["via_bot"] = json!({"id": 0, "is_bot": true, "username": name.trim_start_matches('@')});
    }
    if let Some(name) = message.get("forwarded_from") {
        let name = name.as_str().unwrap_or("Deleted account");
        update["forward_origin"] = json!({"type": "hidden_user", "sender_user_name": name});
    }
    if let Some(topic) = topic_of(id, by_id, topics) {
        update["message_thread_id"] = topic.into();
        update["is_topic_message"] = true.into();
    }
    reply(message, window, by_id, topics, &mut update);

    let (text, entities) = said(message);
    let has_structure = structure(message, &mut update);
    let media = medium(message);
    let event = (text_of(message, "type") == Some("service")).then(|| event(message));
    // Without words the parser would take it for something unknown.
    let stand_in = event.as_ref().or(media.as_ref()).filter(|_| text.is_empty());
    if let Some(words) = stand_in.or(Some(&text)).filter(|words| !words.is_empty()) {
        update["text"] = words.as_str().into();
        update["entities"] = if text.is_empty() { json!([]) } else { entities };
    } else if !has_structure {
        update["text"] = "[empty]".into();
    }

    let kind = if window.is_channel { "channel_post" } else { "message" };
    let bot = Bot { id: window.bot.unwrap_or(0), username: None };
    let parsed = parse(&json!({"update_id": 0, kind: update}), &bot, &options.settings)?;
    let mut draft = match parsed.into_iter().next() {
        Some(Incoming::Message(draft)) => *draft,
        Some(Incoming::Command { command, draft }) => {
            let kind = if command.is_boundary() { Kind::Boundary } else { Kind::Notice };
            Draft { kind, ..*draft }
        }
        _ => bail!("it is no message"),
    };
    if id < 0 {
        // From before the group became a supergroup: numbered on its own, and below zero in an export.
        draft.message_id = MessageId::new(format!("before{id}"))?;
    }
    if let Some(event) = event {
        (draft.kind, draft.parts) = (Kind::Event, vec![Part::text(event)]);
        draft.role = annals_shared::message::Role::User;
    } else if let Some(media) = media.filter(|_| !text.is_empty()) {
        draft.parts.push(Part::text(media));
    }
    draft.asks = false;
    draft.metadata.insert("imported".into(), "telegram".into());
    Ok(draft)
}

/// Who says it.
fn sender(message: &Map<String, Value>, window: &Window, update: &mut Value) {
    let is_service = text_of(message, "type") == Some("service");
    let (id, name) = if is_service { ("actor_id", "actor") } else { ("from_id", "from") };
    let name = text_of(message, name).unwrap_or("Deleted account");
    let Some(id) = text_of(message, id) else { return };
    if let Some(user) = user(id) {
        // In a channel nobody speaks but the channel.
        if !window.is_channel {
            update["from"] = json!({"id": user, "is_bot": window.bot == Some(user), "first_name": name});
        }
    } else if let Some(channel) = number(id, "channel") {
        update["sender_chat"] = json!({"id": CHANNELS - channel, "type": "channel", "title": name});
        if !window.is_channel {
            update["from"] = json!({"id": CHANNEL_BOT, "is_bot": true, "first_name": "Channel"});
        }
    } else if let Some(group) = number(id, "chat") {
        update["sender_chat"] = json!({"id": -group, "type": "group", "title": name});
    }
}

/// What it replies to, where that is no topic.
fn reply(
    message: &Map<String, Value>,
    window: &Window,
    by_id: &HashMap<i64, &Map<String, Value>>,
    topics: &HashSet<i64>,
    update: &mut Value,
) {
    let Some(id) = int(message, "reply_to_message_id").filter(|id| !topics.contains(id)) else { return };
    if message.contains_key("reply_to_peer_id") {
        update["external_reply"] = json!({ "message_id": id });
        return;
    }
    let mut original = json!({ "message_id": id });
    if let Some(exported) = by_id.get(&id) {
        sender(exported, window, &mut original);
        let (text, _) = said(exported);
        let text = if text.is_empty() { medium(exported).unwrap_or_default() } else { text };
        original["text"] = text.into();
    }
    update["reply_to_message"] = original;
}

/// The topic that the message `id` is in: that of what it replies to, or the one that that is.
fn topic_of(id: i64, by_id: &HashMap<i64, &Map<String, Value>>, topics: &HashSet<i64>) -> Option<i64> {
    let mut at = id;
    // A reply is to something earlier; more steps than messages are a loop.
    for _ in 0..=by_id.len() {
        if topics.contains(&at) {
            return Some(at);
        }
        at = int(by_id.get(&at)?, "reply_to_message_id")?;
    }
    None
}

fn int(message: &Map<String, Value>, field: &str) -> Option<i64> {
    message.get(field)?.as_i64()
}

fn text_of<'a>(message: &'a Map<String, Value>, field: &str) -> Option<&'a str> {
    message.get(field)?.as_str()
}

/// Seconds since 1970, which an export has as a string.
fn seconds(message: &Map<String, Value>, field: &str) -> Option<i64> {
    let value = message.get(field)?;
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}

fn user(id: &str) -> Option<i64> {
    number(id, "user")
}

fn number(id: &str, prefix: &str) -> Option<i64> {
    id.strip_prefix(prefix)?.parse().ok()
}
