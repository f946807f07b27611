//! Takes the values of a JSON array one by one, as they are parsed: [`Each`].

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};

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
