//! The content of a file to import, item by item, and the errors of a file that cannot be parsed.

use std::fmt;
use std::marker::PhantomData;

use anyhow::anyhow;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};

use super::item::{Item, Skipped};

/// An entry of a file, in the file's order.
#[derive(Debug)]
pub(super) enum Parsed {
    /// A message.
    Item(Box<Item>),
    /// Content that is left out.
    Skipped(Skipped),
}

/// Takes what a file contains; an error ends the reading.
pub(super) type Take<'a> = &'a mut dyn FnMut(Parsed) -> anyhow::Result<()>;

/// Returns the error for a file that breaks off in `line`.
pub(super) fn ends_early(name: &str, line: usize) -> anyhow::Error {
    anyhow!("{name} ends early, in line {line}: it is only a part of the file, so export or copy it again")
}

/// Returns the error of a file that is a single JSON document.
pub(super) fn invalid(name: &str, error: serde_json::Error, what: &str) -> anyhow::Error {
    if error.is_eof() {
        return ends_early(name, error.line());
    }
    let what = if error.is_io() { format!("failed to read {name}") } else { format!("{name}{what}") };
    anyhow::Error::new(error).context(what)
}

/// Calls `take` with each value of an array. Its error ends the parsing, and is left in `failed`.
pub(super) struct Each<'a, T> {
    pub(super) take: &'a mut dyn FnMut(T) -> anyhow::Result<()>,
    pub(super) failed: &'a mut Option<anyhow::Error>,
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for Each<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        struct Values<'a, T>(Each<'a, T>, PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Values<'_, T> {
            type Value = ();

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<(), A::Error> {
                let Each { take, failed } = self.0;
                while let Some(value) = values.next_element()? {
                    if let Err(error) = take(value) {
                        *failed = Some(error);
                        return Err(A::Error::custom("not taken"));
                    }
                }
                Ok(())
            }
        }
        deserializer.deserialize_seq(Values(self, PhantomData))
    }
}
