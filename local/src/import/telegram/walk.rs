//! Walks through an export, message by message, however large it is: [`walk`].

use std::fmt;
use std::io::BufRead;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::import::each::Each;
use crate::import::escapes::JsonEscapes;
use crate::import::parsed::invalid;

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
    let parsed = Object { walker, failed: &mut failed, is_file: true }.deserialize(&mut parser);
    let parsed = parsed.and_then(|()| parser.end());
    match (failed, parsed) {
        (Some(error), _) => Err(error.context(name.to_owned())),
        (None, Err(error)) if error.is_data() => {
            Err(invalid(name, error, ": it is no export of Telegram Desktop, though it looks like one"))
        }
        (None, Err(error)) => Err(invalid(name, error, ": it is no JSON")),
        (None, Ok(())) => Ok(()),
    }
}

/// The file, or a chat of an account's file.
struct Object<'a> {
    walker: &'a mut dyn Walker,
    failed: &'a mut Option<anyhow::Error>,
    is_file: bool,
}

impl<'de> DeserializeSeed<'de> for Object<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { walker, failed, is_file } = self;
        let mut fields = Fields::default();
        while let Some(field) = map.next_key::<String>()? {
            match field.as_str() {
                "name" => fields.name = map.next_value()?,
                "type" => fields.r#type = map.next_value()?,
                "id" => fields.id = map.next_value()?,
                "messages" => {
                    fields.has_messages = true;
                    let mut take = |message| walker.message(message);
                    map.next_value_seed(Each { take: &mut take, failed: &mut *failed })?;
                }
                "personal_information" if is_file => {
                    if let Some(owner) = map.next_value::<Option<Person>>()?.and_then(|person| person.user_id)
                    {
                        walker.owner(owner);
                    }
                }
                "chats" | "left_chats" if is_file => {
                    walker.list();
                    map.next_value_seed(List { walker: &mut *walker, failed: &mut *failed })?;
                }
                _ => {
                    let _: IgnoredAny = map.next_value()?;
                }
            }
        }
        if !is_file && fields.id.is_none() {
            return Err(A::Error::missing_field("id"));
        }
        if !is_file && !fields.has_messages {
            return Err(A::Error::missing_field("messages"));
        }
        if fields.id.is_some() && fields.has_messages {
            end(walker, fields, failed)?;
        }
        Ok(())
    }
}

fn end<E: Error>(
    walker: &mut dyn Walker,
    fields: Fields,
    failed: &mut Option<anyhow::Error>,
) -> Result<(), E> {
    walker.end_of_chat(fields).map_err(|error| {
        *failed = Some(error);
        E::custom("not taken")
    })
}

/// An object with a list of chats.
struct List<'a> {
    walker: &'a mut dyn Walker,
    failed: &'a mut Option<anyhow::Error>,
}

impl<'de> DeserializeSeed<'de> for List<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for List<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a list of chats")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut has_list = false;
        while let Some(field) = map.next_key::<String>()? {
            if field == "list" {
                has_list = true;
                map.next_value_seed(Chats(List { walker: &mut *self.walker, failed: &mut *self.failed }))?;
            } else {
                let _: IgnoredAny = map.next_value()?;
            }
        }
        if has_list { Ok(()) } else { Err(A::Error::missing_field("list")) }
    }
}

/// The list itself.
struct Chats<'a>(List<'a>);

impl<'de> DeserializeSeed<'de> for Chats<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Chats<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of chats")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut chats: A) -> Result<(), A::Error> {
        let List { walker, failed } = self.0;
        loop {
            let chat = Object { walker: &mut *walker, failed: &mut *failed, is_file: false };
            if chats.next_element_seed(chat)?.is_none() {
                return Ok(());
            }
        }
    }
}
