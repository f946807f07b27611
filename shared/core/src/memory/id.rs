//! Public ids of entries: [`EntryId`].

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::owner::Owner;
use crate::chat_key::ChatKey;

/// Public id of an entry, opaque and fit for a URL. It contains the owner, so that access can be checked before the
/// entry is read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EntryId {
    pub owner: Owner,
    /// See [`StoredEntry::number`](super::StoredEntry::number).
    pub number: u32,
}

/// The text is not an id that this program made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the id of an entry")]
pub struct EntryIdError;

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(format!("{}#{}", self.owner, self.number)))
    }
}

impl FromStr for EntryId {
    type Err = EntryIdError;

    fn from_str(id: &str) -> Result<Self, EntryIdError> {
        let bytes = URL_SAFE_NO_PAD.decode(id).map_err(|_| EntryIdError)?;
        let plain = String::from_utf8(bytes).map_err(|_| EntryIdError)?;
        let (owner, number) = plain.rsplit_once('#').ok_or(EntryIdError)?;
        let owner = match owner.split_once(':') {
            Some(("user", person)) if !person.is_empty() => Owner::User(person.to_owned()),
            Some(("agent", rest)) => match rest.split_once(":user:") {
                Some((agent, person)) if !agent.is_empty() && !agent.contains(':') && !person.is_empty() => {
                    Owner::of_person(Some(agent), person.to_owned())
                }
                _ => return Err(EntryIdError),
            },
            Some(("chat", chat)) => Owner::Chat(chat.parse::<ChatKey>().map_err(|_| EntryIdError)?),
            _ => return Err(EntryIdError),
        };
        let known = Self { owner, number: number.parse().map_err(|_| EntryIdError)? };
        // Accepts only the exact form that is written, so that an entry has one id.
        if known.to_string() == id { Ok(known) } else { Err(EntryIdError) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_the_exact_form_of_an_id_is_accepted() {
        let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
        for bad in ["", "!", "x", "ada", &encode("user:#1"), &encode("user:ada"), &encode("user:ada#01")] {
            assert_eq!(bad.parse::<EntryId>(), Err(EntryIdError), "{bad}");
        }
        for bad in ["ada#1", "chat:telegram:42#1", "user:ada#x", "user:ada#-1", "group:ada#1"] {
            assert_eq!(encode(bad).parse::<EntryId>(), Err(EntryIdError), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn an_id_reads_back_and_is_fit_for_a_url(person in ".{1,20}", chat in "[^\\p{Cc}]{1,20}", number: u32) {
            for owner in [Owner::User(person.clone()), Owner::of_person(Some("shop"), person), Owner::Chat(ChatKey::http("app", &chat).unwrap())] {
                let id = EntryId { owner, number };
                let written = id.to_string();
                prop_assert!(written.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'));
                prop_assert_eq!(written.parse::<EntryId>(), Ok(id));
            }
        }
    }
}
