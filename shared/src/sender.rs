//! Who a record is from, as a model is told: [`of`], [`are_several`].
//!
//! A name is free text, and two people may have the same. The id is made of the Person alone: so it is the
//! same after a change of the name, in every chat, in summaries, in memory and in what a search finds.

use std::collections::BTreeSet;

use aws_lc_rs::digest;

use crate::chat_key::Place;
use crate::markup::{Sender, clean_name};
use crate::message::Role;
use crate::record::{Channel, Kind, Record};

/// How many characters an id has, of 5 bits each: 60 bits, since the callers of an API choose their users' ids, and
/// could search for one that has another's digest.
const ID_CHARS: u32 = 12;
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Returns the sender of `record`; `None` for what the agent says.
pub fn of(record: &Record) -> Option<Sender> {
    if record.role() != Role::User {
        return None;
    }
    let name = record.message.metadata.get("senderName").and_then(serde_json::Value::as_str);
    // The platforms' own ids are numbers and codes.
    let has_named_users = matches!(record.channel, Channel::Http | Channel::Web | Channel::Terminal);
    let name = name.or_else(|| has_named_users.then_some(record.user_id.as_str())).unwrap_or_default();
    let is_event = record.kind == Kind::Event;
    Some(Sender { id: id_of(&person(record)), name: clean_name(name), is_event })
}

/// Returns whether several people speak in `said`, or could in what `summary` stands for: what platforms call a
/// group, or messages of more than one Person.
pub fn are_several<'a>(said: impl IntoIterator<Item = &'a Record>, summary: Option<&Record>) -> bool {
    let mut persons = BTreeSet::new();
    for record in said {
        if record.is_group() {
            return true;
        }
        if record.is_interaction() {
            persons.insert(person(record));
        }
    }
    if let Some(summary) = summary {
        let is_open = matches!(summary.chat.place(), Place::HttpChat { .. } | Place::WebRoom { .. });
        match &summary.person {
            // It may stand for anybody.
            None if is_open => return true,
            None => {}
            Some(person) => {
                persons.insert(person.clone());
            }
        }
    }
    persons.len() > 1
}

/// Returns the Person who says `record`, by the id that crosses channels; in a group, of the one member.
fn person(record: &Record) -> String {
    if let Some(person) = &record.person {
        return person.clone();
    }
    let user_id = &record.user_id;
    match (record.channel, record.chat.place()) {
        (_, Place::Direct { user_id, .. }) => user_id.clone(),
        (Channel::Telegram, _) => format!("telegram-{user_id}"),
        (Channel::Lark, _) => format!("lark-{user_id}"),
        (Channel::Discord, _) => format!("discord-{user_id}"),
        // As a key that is no admin's: see `Caller::crossing_user_id`.
        (_, Place::HttpChat { key_name, .. } | Place::WebRoom { key_name, .. }) => {
            format!("{key_name}/{user_id}")
        }
        _ => user_id.clone(),
    }
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
