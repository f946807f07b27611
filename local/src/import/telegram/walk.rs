//! Walks through an export, message by message, however large it is: [`walk`].

use std::fmt;
use std::io::BufRead;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::import::escapes::JsonEscapes;
use crate::import::parsed::{Each, invalid};

/// Takes the parts of an export, in the order of the file.
pub(super) trait Walker {
    /// Takes the user id of the account's owner.
    fn owner(&mut self, _owner: i64) {}

    /// Takes a message of the chat whose end is the next.
    fn message(&mut self, message: Map<String, Value>) -> anyhow::Result<()>;

    /// Takes the end of a chat, whose fields may follow its messages.
    fn end_of_chat(&mut self, fields: Fields) -> anyhow::Result<()>;

    /// Takes the beginning of a list of chats.
    fn list(&mut self) {}
}

/// The fields of a chat, beside its messages.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields {
    pub(super) name: Option<String>,
    pub(super) r#type: Option<String>,
    pub(super) id: Option<i64>,
    pub(super) has_messages: bool,
}

#[derive(Deserialize)]
struct Person {
    user_id: Option<i64>,
}

/// Parses `file`, called `name`.
pub(super) fn walk(name: &str, file: impl BufRead, walker: &mut dyn Walker) -> anyhow::Result<()> {
    let mut failed = None;
    let mut parser = serde_json::Deserializer::from_reader(JsonEscapes::new(file));
    let parsed = Part { walker, failed: &mut failed, level: Level::File }.deserialize(&mut parser);
    let parsed = parsed.and_then(|()| parser.end());
    match (failed, parsed) {
        (Some(error), _) => Err(error.context(name.to_owned())),
        (None, Err(error)) if error.is_data() => {
            Err(invalid(name, error, ": it is no export of Telegram Desktop, though it looks like one"))
        }
        (None, Err(error)) => Err(invalid(name, error, ": it is not JSON")),
        (None, Ok(())) => Ok(()),
    }
}

/// Part of an export that holds others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    /// The file: a chat, or an account.
    File,
    /// An object with a list of an account's chats.
    Chats,
    /// That list.
    List,
    /// A chat of it.
    Chat,
}

/// Reads a part.
struct Part<'a> {
    walker: &'a mut dyn Walker,
    failed: &'a mut Option<anyhow::Error>,
    level: Level,
}

impl Part<'_> {
    fn inner(&mut self, level: Level) -> Part<'_> {
        Part { walker: &mut *self.walker, failed: &mut *self.failed, level }
    }
}

impl<'de> DeserializeSeed<'de> for Part<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.level {
            Level::List => deserializer.deserialize_seq(self),
            _ => deserializer.deserialize_map(self),
        }
    }
}

impl<'de> Visitor<'de> for Part<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.level {
            Level::File | Level::Chat => "an object",
            Level::Chats => "an object with a list of chats",
            Level::List => "a list of chats",
        })
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let (mut fields, mut has_list) = (Fields::default(), false);
        while let Some(field) = map.next_key::<String>()? {
            match (self.level, field.as_str()) {
                (Level::Chats, "list") => {
                    has_list = true;
                    map.next_value_seed(self.inner(Level::List))?;
                }
                (Level::File | Level::Chat, "name") => fields.name = map.next_value()?,
                (Level::File | Level::Chat, "type") => fields.r#type = map.next_value()?,
                (Level::File | Level::Chat, "id") => fields.id = map.next_value()?,
                (Level::File | Level::Chat, "messages") => {
                    fields.has_messages = true;
                    let mut take = |message| self.walker.message(message);
                    map.next_value_seed(Each { take: &mut take, failed: &mut *self.failed })?;
                }
                (Level::File, "personal_information") => {
                    if let Some(owner) = map.next_value::<Option<Person>>()?.and_then(|person| person.user_id)
                    {
                        self.walker.owner(owner);
                    }
                }
                (Level::File, "chats" | "left_chats") => {
                    self.walker.list();
                    map.next_value_seed(self.inner(Level::Chats))?;
                }
                _ => {
                    let _: IgnoredAny = map.next_value()?;
                }
            }
        }
        match self.level {
            Level::Chats if !has_list => return Err(A::Error::missing_field("list")),
            Level::Chat if fields.id.is_none() => return Err(A::Error::missing_field("id")),
            Level::Chat if !fields.has_messages => return Err(A::Error::missing_field("messages")),
            _ => {}
        }
        if fields.id.is_some() && fields.has_messages {
            self.walker.end_of_chat(fields).map_err(|error| {
                *self.failed = Some(error);
                A::Error::custom("not taken")
            })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut chats: A) -> Result<(), A::Error> {
        while chats.next_element_seed(self.inner(Level::Chat))?.is_some() {}
        Ok(())
    }
}
