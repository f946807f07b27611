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
mod survey;
mod walk;

use std::io::BufRead;
use std::sync::Arc;

use annals_core::chat_key::ChatKey;
use anyhow::{Context, bail, ensure};
use serde_json::{Map, Value, json};

use self::fields::{CHANNELS, int, text_of};
use self::message::{ChatKind, Source};
use self::survey::Chat;
pub(super) use self::survey::Survey;
use self::walk::{Fields, Walker, walk};
use super::item::{Item, Options, Place, Skipped};
use super::parsed::{Parsed, Take};

/// Fields of an export of one chat or of an account, which no message has.
pub(super) const FIELDS: [&str; 4] = ["messages", "chats", "left_chats", "personal_information"];

impl Survey {
    /// Looks through `file`, called `name`, and checks that it tells who the bot is.
    pub(super) fn of(name: &str, mut file: impl BufRead, options: &Options) -> anyhow::Result<Self> {
        let beginning = file.fill_buf().with_context(|| format!("failed to read {name}"))?;
        ensure!(beginning.trim_ascii_start().starts_with(b"{"), "{name}: {NEITHER}");
        let mut survey = Self::default();
        walk(name, file, &mut survey)?;
        let of_several = || survey.chats.iter().any(|chat| chat.is_group() || chat.is_with_bot());
        ensure!(survey.is_account || !survey.chats.is_empty(), "{name}: {NEITHER}");
        if options.bot.is_none() && survey.is_account {
            // All its bots would be taken for this one, in one history, and this one's messages in groups for a person's.
            ensure!(!of_several(), "{name}: {}", which_bot(&survey.chats));
        } else if options.bot.is_none() && survey.chats.iter().any(Chat::is_group) {
            bail!(
                "{name}: it is a group, in which the bot's messages are the assistant's: say who the bot is, with --bot USER_ID"
            );
        }
        Ok(survey)
    }
}

/// Converts the messages of `file`, called `name`.
pub(super) fn read(
    name: &str,
    file: impl BufRead,
    survey: &Survey,
    options: &Options,
    take: Take<'_>,
) -> anyhow::Result<()> {
    // `--chat` is the target of an export of one chat, and selects one of an account.
    let into = options.chat.as_ref().filter(|_| !survey.is_account);
    let mut reader = Reader { survey, options, into, take, number: 0, current: None };
    walk(name, file, &mut reader)
}

/// Converts messages, one after another.
struct Reader<'a> {
    survey: &'a Survey,
    options: &'a Options,
    into: Option<&'a ChatKey>,
    take: Take<'a>,
    /// Number of chats that have ended.
    number: usize,
    current: Option<Current<'a>>,
}

/// The chat whose messages are read.
struct Current<'a> {
    name: Arc<str>,
    /// `None` if the chat is left out.
    source: Option<Source<'a>>,
    /// Number of its messages that were read.
    read: usize,
}

impl<'a> Reader<'a> {
    /// Begins a chat; reports it if it is left out.
    fn begin(&mut self) -> anyhow::Result<Current<'a>> {
        let survey = self.survey;
        let chat = survey.chats.get(self.number).context("the file has changed while it was read")?;
        let name = chat.name.clone().unwrap_or_else(|| "without a name".into());
        let source = match kind(chat, &name, survey.owner, self.options, self.into.is_some()) {
            Ok(kind) => Some(Source::new(kind, chat)),
            Err(skipped) => {
                (self.take)(Parsed::Skipped(skipped))?;
                None
            }
        };
        Ok(Current { name: name.into(), source, read: 0 })
    }
}

impl Walker for Reader<'_> {
    fn message(&mut self, message: Map<String, Value>) -> anyhow::Result<()> {
        let mut current = match self.current.take() {
            Some(current) => current,
            None => self.begin()?,
        };
        current.read += 1;
        if let Some(source) = &mut current.source {
            if text_of(&message, "type") == Some("unsupported") {
                let why = " that Telegram Desktop could not export";
                (self.take)(Parsed::Skipped(Skipped::of("message", "messages", why)))?;
            } else {
                let mut draft = source.draft(&message, self.options).with_context(|| {
                    let id = int(&message, "id").unwrap_or_default();
                    format!("message {id} of {:?} ({} in its list)", &*current.name, current.read)
                })?;
                if let Some(into) = self.into {
                    draft.chat = into.clone();
                    into.chat_id().clone_into(&mut draft.chat_id);
                }
                let selected = self.options.chat.as_ref();
                if selected.is_none_or(|selected| draft.chat == *selected) {
                    let (chat_name, ts) = (Arc::clone(&current.name), Some(draft.ts));
                    let item =
                        Item { chat_name, ts, draft, sent_at: None, place: Place::Message, revision: 0 };
                    (self.take)(Parsed::Item(Box::new(item)))?;
                }
            }
            source.remember(message);
        }
        self.current = Some(current);
        Ok(())
    }

    fn end_of_chat(&mut self, _: Fields) -> anyhow::Result<()> {
        if self.current.take().is_none() {
            // Without messages, but maybe left out.
            self.begin()?;
        }
        self.number += 1;
        Ok(())
    }
}

const NEITHER: &str = "it is neither an export of Telegram Desktop as JSON nor UIMessages of the AI SDK, one a line or in an array";

/// Largest number of bots in the error.
const MAX_NAMED: usize = 8;

/// Returns the error for an account whose export does not tell which of its bots is meant.
fn which_bot(all: &[Chat]) -> String {
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

/// Returns the kind of chat that `exported` is for the bot, or why it is skipped.
fn kind(
    exported: &Chat,
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
    let speaks = |who: i64| exported.users.contains(&who);
    match exported.r#type.as_deref().unwrap_or_default() {
        "private_group" => group(id, "group"),
        "private_supergroup" | "public_supergroup" => group(channel, "supergroup"),
        "private_channel" | "public_channel" => group(channel, "channel"),
        "bot_chat" if bot.is_none_or(|bot| bot == exported.id) => {
            let person = owner.or_else(|| exported.users.iter().copied().find(|id| *id != exported.id));
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
