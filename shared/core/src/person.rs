//! Identities of people in their direct chats, and the chats of people whose identities are linked: [`Links`], [`Join`].
//!
//! An *identity* is a person in one channel, and the user part of that person's direct chat: `telegram-42`,
//! `lark-ou_ada`, Discord's bare id, `app/ada` or an admin key's `ada` over HTTP, `local` in the terminal. A Person is
//! one of their identities; the others are linked to it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::chat_key::ChatKey;
use crate::draft::Draft;
use crate::message::Role;
use crate::record::{Channel, Kind, Record};
use crate::sort_key::{MessageId, Timestamp};

/// Returns the identity that people may also write `<channel>-<id>` although it is the bare id ([`Channel::identity`]), as
/// on Discord, whose ids are digits. All other identities are returned as they are.
pub fn canonical(identity: &str) -> &str {
    let Some((name, id)) = identity.split_once('-') else { return identity };
    let is_bare = |channel: Channel| channel.is_platform() && channel.identity(id) == id;
    let is_number = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
    if is_number && name.parse().is_ok_and(is_bare) { id } else { identity }
}

/// Returns the identity of the sender of a message in a direct chat. Over HTTP, on the web and in the terminal it is the
/// id of the window.
fn identity_of(channel: Channel, chat_id: &str, user_id: &str) -> String {
    if channel.is_platform() { channel.identity(user_id) } else { chat_id.to_owned() }
}

impl Draft {
    /// Returns the identity of its sender in a direct chat, before any link.
    pub fn identity(&self) -> String {
        identity_of(self.channel, &self.chat_id, &self.user_id)
    }
}

impl Record {
    /// Returns the identity of its sender, as [`Draft::identity`] does.
    pub fn identity(&self) -> String {
        identity_of(self.channel, &self.chat_id, &self.user_id)
    }
}

/// The groups of `LINKS`: of each the Person, then the identities that are linked to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links(Vec<Vec<String>>);

/// A list of links that contradicts itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinksError {
    #[error(
        "has a group of fewer than two identities: separate identities by commas, and groups by semicolons"
    )]
    TooFew,
    #[error("names {0:?} twice")]
    Twice(String),
}

impl Links {
    /// Parses groups: `ada,telegram-42,lark-ou_ada;bo,telegram-43`.
    pub fn parse(text: &str) -> Result<Self, LinksError> {
        let mut known = BTreeSet::new();
        let mut groups = Vec::new();
        for group in text.split(';').map(str::trim).filter(|group| !group.is_empty()) {
            let identities: Vec<String> =
                group.split(',').map(|identity| canonical(identity.trim()).to_owned()).collect();
            if identities.len() < 2 || identities.iter().any(String::is_empty) {
                return Err(LinksError::TooFew);
            }
            if let Some(twice) = identities.iter().find(|identity| !known.insert((*identity).clone())) {
                return Err(LinksError::Twice(twice.clone()));
            }
            groups.push(identities);
        }
        Ok(Self(groups))
    }

    /// Returns the Person that `identity` is linked to.
    pub fn person_of(&self, identity: &str) -> Option<&str> {
        let group = self.0.iter().find(|group| group[1..].iter().any(|linked| linked == identity))?;
        Some(&group[0])
    }

    /// Returns every identity and Person of the groups.
    pub fn identities(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flatten().map(String::as_str)
    }
}

/// Something that was said in another chat, and that the model of a chat is to know: it is noted in the chat's head, and
/// the next run carries it out. Safe to repeat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Join {
    /// Id of the event that tells it, unique in the chat.
    pub id: MessageId,
    pub ts: Timestamp,
    /// The chat in which it was said.
    pub from: ChatKey,
    /// The part of it that the model is to know.
    pub part: Part,
    /// Owner of the memory from which entries come.
    pub from_person: String,
    /// Owner of the memory to which they go.
    pub to_person: String,
}

/// The part of a chat that a [`Join`] is about, and the memory entries that move with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Part {
    /// The conversation of the last Session; all entries.
    All,
    /// The messages of this identity before the join, and the replies to them; the entries from there.
    Only(String),
    /// Everything else; no entries.
    Without(Vec<String>),
}

impl Part {
    /// Returns the records of this part before `until`. Summaries speak of all windows, so they are in [`Part::All`]
    /// only.
    pub fn of(&self, mut records: Vec<Record>, until: Timestamp) -> Vec<Record> {
        let (identities, is_in) = match self {
            Self::All => {
                records.retain(|record| record.ts < until);
                return records;
            }
            Self::Only(identity) => (std::slice::from_ref(identity), true),
            Self::Without(identities) => (identities.as_slice(), false),
        };
        let windows = windows(&records, identities);
        // What a link told of them, even if they have said nothing since.
        let tells_of = |record: &Record| {
            let about = record.message.metadata.about();
            about.is_some_and(|about| identities.iter().any(|identity| identity == about))
        };
        records.retain(|record| {
            record.ts < until
                && record.kind() != Kind::Summary
                && !tells_of(record)
                && windows.contains(&(record.channel, record.chat_id.clone())) == is_in
        });
        records
    }
}

/// Returns the windows in which `identities` speak in `records`.
pub fn windows(records: &[Record], identities: &[String]) -> BTreeSet<(Channel, String)> {
    let said = records.iter().filter(|record| record.role() == Role::User && record.kind() != Kind::Event);
    said.filter(|record| identities.contains(&record.identity()))
        .map(|record| (record.channel, record.chat_id.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat_key::Place;
    use crate::testing::{reply, user};

    #[test]
    fn groups_are_read_strictly() {
        let links = Links::parse(" ada, telegram-42,discord-7 ; bo,lark-ou_bo;").unwrap();
        assert_eq!(links.person_of("telegram-42"), Some("ada"));
        assert_eq!(links.person_of("7"), Some("ada"));
        assert_eq!(links.person_of("lark-ou_bo"), Some("bo"));
        assert_eq!((links.person_of("ada"), links.person_of("telegram-43")), (None, None));
        assert_eq!(Links::parse("").unwrap(), Links::default());
        for (wrong, error) in [
            ("ada", LinksError::TooFew),
            ("ada,", LinksError::TooFew),
            ("ada,,bo", LinksError::TooFew),
            ("ada,bo;bo,cy", LinksError::Twice("bo".into())),
            ("7,discord-7", LinksError::Twice("7".into())),
        ] {
            assert_eq!(Links::parse(wrong), Err(error), "{wrong}");
        }
        assert_eq!(canonical("discord-7"), "7");
        for other in ["discord-", "ada", "discord-bot/ada", "discord-alice", "discord-7a"] {
            assert_eq!(canonical(other), other);
        }
    }

    #[test]
    fn a_part_has_the_windows_of_its_identities() {
        let place = Place::Direct { agent_id: "annals".into(), user_id: "ada".into() };
        let chat = ChatKey::new(place).unwrap();
        let said = |record: Record, channel, window: &str, person: &str| Record {
            chat: chat.clone(),
            channel,
            chat_id: window.into(),
            user_id: person.into(),
            ..record
        };
        let records = vec![
            said(user(0, 1), Channel::Telegram, "42", "42"),
            said(reply(&[(0, 1)]), Channel::Telegram, "42", "annals"),
            said(user(1, 2), Channel::Lark, "oc_1", "ou_ada"),
            said(reply(&[(1, 2)]), Channel::Lark, "oc_1", "annals"),
            said(user(2, 3), Channel::Http, "ada", "ada"),
        ];
        let windows = |part: Part, until| {
            let of = part.of(records.clone(), until);
            of.iter().map(|record| record.chat_id.clone()).collect::<Vec<_>>()
        };
        let end = records[4].ts.plus(std::time::Duration::from_secs(1));
        assert_eq!(windows(Part::All, end).len(), 5);
        assert_eq!(windows(Part::Only("lark-ou_ada".into()), end), ["oc_1", "oc_1"]);
        assert_eq!(windows(Part::Only("ou_ada".into()), end), [""; 0]);
        let rest = Part::Without(vec!["lark-ou_ada".into(), "ada".into()]);
        assert_eq!(windows(rest.clone(), end), ["42", "42"]);
        assert_eq!(windows(rest, records[0].ts), [""; 0], "nothing from after the join");
    }
}
