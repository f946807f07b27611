//! Senders of records, as a model is told them: [`of`], [`are_several`].
//!
//! A name is free text, and two people may have the same. The id is derived only from the Person, so it is the same
//! after a change of the name, in every chat, in summaries, in memory and in search results.

use std::collections::BTreeSet;

use ring::digest;

use crate::chat_key::Speakers;
use crate::markup::{Sender, clean_name};
use crate::message::Role;
use crate::record::{Kind, Record};

/// Number of characters of an id, of 5 bits each. 60 bits are necessary, since callers of the API choose their users'
/// ids, and could search for one with the same digest as another.
const ID_CHARS: u32 = 12;
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Returns the sender of `record`, or `None` for messages of the agent.
pub fn of(record: &Record) -> Option<Sender> {
    if record.role() != Role::User {
        return None;
    }
    let name = record.message.metadata.sender_name();
    // On the platforms, user ids are numbers and codes.
    let user_id = (!record.channel.is_platform()).then_some(record.user_id.as_str());
    let name = name.or(user_id).unwrap_or_default();
    let is_event = record.kind() == Kind::Event;
    Some(Sender { id: id_of(&record.sender()), name: clean_name(name), is_event })
}

/// Returns true if several people speak in `said`, or may in the messages that `summary` covers: in a group by the
/// platform's type of chat, or if messages are from more than one Person.
pub fn are_several<'a>(said: impl IntoIterator<Item = &'a Record>, summary: Option<&Record>) -> bool {
    let mut persons = BTreeSet::new();
    for record in said {
        if record.is_group() {
            return true;
        }
        if record.is_interaction() {
            persons.insert(record.sender());
        }
    }
    if let Some(summary) = summary {
        let is_open = summary.chat.speakers() == Speakers::Callers;
        match &summary.person {
            // It may cover messages of anybody.
            None if is_open => return true,
            None => {}
            Some(person) => {
                persons.insert(person.clone());
            }
        }
    }
    persons.len() > 1
}

fn id_of(person: &str) -> String {
    let digest = digest::digest(&digest::SHA256, person.as_bytes());
    let mut bits = digest.as_ref().iter().take(8).fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
    let mut id = String::new();
    for _ in 0..ID_CHARS {
        bits = bits.rotate_left(5);
        id.push(char::from(ALPHABET[usize::try_from(bits & 31).unwrap_or(0)]));
    }
    id
}

#[cfg(test)]
mod tests;
