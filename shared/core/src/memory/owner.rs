//! Owners of memory: [`Owner`], [`person_of`] a record, and [`owner_of_session`].
//!
//! *Invariant:* a person's entries are recalled only if that person alone is speaking. So anything that is not clearly
//! the direct chat of one person counts as a group.

use std::collections::BTreeSet;
use std::fmt;

use ring::digest;

use crate::chat_key::{ChatKey, MAX_KEY_BYTES, Speakers};
use crate::record::{Kind, Record};

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// A person on every channel, by the id that they have across channels: `ada`, `app/ada`, `telegram-42`,
    /// `lark-ou_ada`.
    User(String),
    /// A person, for an agent that is not the default one and so has memory of its own.
    UserOf {
        agent: String,
        person: String,
    },
    Chat(ChatKey),
}

impl Owner {
    /// Returns the memory that an agent has of `person`; `None` is the default agent.
    pub fn of_person(agent: Option<&str>, person: String) -> Self {
        match agent {
            Some(agent) => Self::UserOf { agent: agent.to_owned(), person },
            None => Self::User(person),
        }
    }

    /// Returns the person; `None` for a group.
    pub fn person(&self) -> Option<&str> {
        match self {
            Self::User(person) | Self::UserOf { person, .. } => Some(person),
            Self::Chat(_) => None,
        }
    }

    /// Returns the agent, if it is not the default one.
    pub fn agent(&self) -> Option<&str> {
        match self {
            Self::UserOf { agent, .. } => Some(agent),
            Self::User(_) | Self::Chat(_) => None,
        }
    }

    /// Returns the partition key of the entries: `memory:user:<person>`, `memory:agent:<agentId>:user:<person>`
    /// or `memory:chat:<ChatKey>`. No ChatKey starts
    /// like that.
    pub fn partition(&self) -> String {
        let key = format!("memory:{self}");
        if key.len() <= MAX_KEY_BYTES {
            return key;
        }
        // Two truncated keys could be equal, so a digest of the whole key is used.
        let digest = digest::digest(&digest::SHA256, key.as_bytes());
        format!("memory:{}:~~{}", self.scope(), hex::encode(digest))
    }

    /// Returns `user` or `chat`.
    pub fn scope(&self) -> &'static str {
        match self {
            Self::User(_) | Self::UserOf { .. } => "user",
            Self::Chat(_) => "chat",
        }
    }
}

impl fmt::Display for Owner {
    /// Writes `user:<person>`, `agent:<agentId>:user:<person>` or `chat:<ChatKey>`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(person) => write!(f, "user:{person}"),
            // The id of an agent has no colon.
            Self::UserOf { agent, person } => write!(f, "agent:{agent}:user:{person}"),
            Self::Chat(chat) => write!(f, "chat:{chat}"),
        }
    }
}

/// Returns the person who wrote `record`, by the id that they have across channels: in the direct chat of a person,
/// that person; in a Telegram private chat `telegram-<user id>`; in a Lark p2p chat `lark-<open_id>`; over HTTP and on
/// the web [`Record::person`].
///
/// Returns `None` for groups, channels and their topics, for messages to a business, which never enter memory, for
/// messages of the agent, and for messages in a person's own chat under another name.
pub fn person_of(record: &Record) -> Option<String> {
    if record.role() != crate::message::Role::User || record.line().is_some() {
        return None;
    }
    let is_private = record.message.metadata.is_private();
    match (record.chat.speakers(), record.chat.channel()) {
        (Speakers::One(own), None) => {
            record.person.as_ref().is_none_or(|person| *person == own).then_some(own)
        }
        // In a private window on a platform.
        (Speakers::One(own), Some(channel)) => {
            (is_private && channel.identity(&record.user_id) == own).then_some(own)
        }
        // A sender without an id gets the id of the window.
        (Speakers::Untold(channel), _) => {
            (is_private && record.user_id != record.chat.chat_id()).then(|| channel.identity(&record.user_id))
        }
        (Speakers::Callers, _) => record.person.clone(),
        (Speakers::Several, _) => None,
    }
}

/// Returns the owner from whose memory a Session of `chat` is recalled and to which it is captured: the person, if all
/// messages of people in `records` are from the same one; otherwise the group, if groups have a memory
/// (`CAPTURE_GROUP_MEMORY`).
///
/// A summary counts for the single person whose messages it covers ([`Record::person`]); without one it may cover anybody.
///
/// Returns `None` if nobody spoke, or if `records`, which must be of one line, contain messages to a business.
pub fn owner_of_session<'a>(
    chat: &ChatKey,
    records: impl Iterator<Item = &'a Record> + Clone,
    groups: bool,
) -> Option<Owner> {
    if records.clone().any(|record| record.line().is_some()) {
        return None;
    }
    owner_of_speakers(chat, records.filter_map(speaker).collect(), groups)
}

/// Returns the owner from whose memory a Session of `chat` is recalled in which nobody has spoken but schedules, in `records`: like
/// [`owner_of_session`], with the recipients of the occurrences as senders. Returns `None` if somebody has spoken.
pub fn owner_of_occurrences<'a>(
    chat: &ChatKey,
    records: impl Iterator<Item = &'a Record> + Clone,
    groups: bool,
) -> Option<Owner> {
    if records.clone().any(|record| record.line().is_some() || speaker(record).is_some()) {
        return None;
    }
    let is_asked = |record: &&Record| record.role() == crate::message::Role::User && record.due().is_some();
    owner_of_speakers(chat, records.filter(is_asked).map(person_of).collect(), groups)
}

fn owner_of_speakers(chat: &ChatKey, speakers: BTreeSet<Option<String>>, groups: bool) -> Option<Owner> {
    let mut speakers = speakers.into_iter();
    match (speakers.next(), speakers.next()) {
        (None, _) => None,
        (Some(Some(person)), None) => Some(Owner::User(person)),
        _ => groups.then(|| Owner::Chat(chat.clone())),
    }
}

/// Returns the person who wrote `record`, or whose messages it covers: `Some(None)` is an unknown person.
#[allow(clippy::option_option, reason = "the outer option tells if a person spoke, the inner one who it was")]
fn speaker(record: &Record) -> Option<Option<String>> {
    if record.kind() == Kind::Summary {
        return Some(record.person.clone());
    }
    record.is_interaction().then(|| person_of(record))
}

/// Returns the only person in `records`, summaries included, or `None` if there are several, or a group.
pub fn only_person<'a>(records: impl Iterator<Item = &'a Record>) -> Option<String> {
    let mut persons = records.filter_map(speaker);
    let first = persons.next()??;
    persons.all(|person| person.as_ref() == Some(&first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::message::Role;
    use crate::record::Channel;
    use crate::sort_key::MessageId;
    use crate::testing::{as_kind, asking, key, record};

    /// Builds a record of `user_id` in `chat`.
    fn said(chat: &str, user_id: &str, metadata: Value, person: Option<&str>) -> Record {
        let chat: ChatKey = chat.parse().unwrap();
        let mut record =
            asking(record(key(0, 1), MessageId::number(1), Role::User, Kind::Normal, "hello"), true);
        record.message.metadata = serde_json::from_value(metadata).unwrap_or_default();
        let (user_id, person) = (user_id.into(), person.map(str::to_owned));
        Record { channel: Channel::Http, chat_id: chat.chat_id().into(), chat, user_id, person, ..record }
    }

    fn private() -> Value {
        json!({"chatType": "private"})
    }

    #[test]
    fn a_person_is_known_only_in_their_direct_chats() {
        let check = |record: Record, wanted: Option<&str>| {
            assert_eq!(person_of(&record).as_deref(), wanted, "{} {}", record.chat, record.user_id);
        };
        let none = || Value::Null;
        check(said("agent:annals:user:ada", "ada", none(), Some("ada")), Some("ada"));
        check(said("agent:annals:user:ada", "bo", none(), Some("bo")), None);
        check(said("telegram:chat:42:topic:7", "42", private(), None), Some("telegram-42"));
        check(said("telegram:chat:42", "43", private(), None), None);
        check(said("telegram:chat:-42", "42", json!({"chatType": "group"}), None), None);
        check(said("telegram:chat:-42:topic:7", "42", json!({"chatType": "supergroup"}), None), None);
        check(said("telegram:chat:-42", "-42", json!({"chatType": "channel"}), None), None);
        // An admin who writes to the chat over HTTP is not that person.
        check(said("telegram:chat:42", "42", none(), Some("42")), None);
        let business = json!({"chatType": "private", "telegram": {"businessConnectionId": "b"}});
        check(said("telegram:chat:42", "42", business, None), None);
        check(said("lark:chat:oc_1", "oc_1", private(), None), None);
        check(said("lark:chat:oc_1", "ou_ada", json!({"chatType": "group"}), None), None);
        check(said("lark:chat:oc_1:thread:omt_1", "ou_ada", json!({"chatType": "group"}), None), None);
        check(said("http:chat:app:c1", "ada", none(), Some("app/ada")), Some("app/ada"));
        check(said("http:chat:ops:c1", "ada", none(), Some("ada")), Some("ada"));
        check(said("web:room:app:r1", "ada", none(), None), None);
        check(said("agent:annals:channel:1:2", "7", none(), None), None);
        let mut reply = said("agent:annals:user:ada", "annals", none(), None);
        reply.message.role = Role::Assistant;
        check(reply, None);
    }

    #[test]
    fn a_private_chat_on_each_platform_is_its_persons() {
        for channel in Channel::platforms() {
            let own = channel.identity("7");
            // A sender without an id has that of such a window.
            let id = if ChatKey::are_private_windows_untold(channel) { "w" } else { "7" };
            let direct = ChatKey::direct("annals", &own).unwrap();
            for chat in ChatKey::private_window(channel, id).into_iter().chain([direct]) {
                let record = Record { channel, ..said(&chat.to_string(), "7", private(), None) };
                assert_eq!(person_of(&record).as_ref(), Some(&own), "{chat}");
                let owner = owner_of_session(&chat, [record].iter(), false);
                assert_eq!(owner, Some(Owner::User(own.clone())), "{chat}");
            }
        }
    }

    #[test]
    fn a_session_belongs_to_one_person_or_to_a_group() {
        let chat: ChatKey = "http:chat:app:c1".parse().unwrap();
        let owner = |records: &[Record], groups| owner_of_session(&chat, records.iter(), groups);
        let by = |user: &str| said("http:chat:app:c1", user, Value::Null, Some(&format!("app/{user}")));
        let (ada, bo) = (by("ada"), by("bo"));
        assert_eq!(owner(&[], true), None);
        assert_eq!(owner(&[ada.clone(), ada.clone()], false), Some(Owner::User("app/ada".into())));
        assert_eq!(owner(&[ada.clone(), bo.clone()], false), None);
        assert_eq!(owner(&[ada.clone(), bo.clone()], true), Some(Owner::Chat(chat.clone())));
        // With an unknown person in it, the Session does not belong to one person.
        let stranger = Record { person: None, ..ada.clone() };
        assert_eq!(owner(&[ada.clone(), stranger], false), None);
        // A reset is not a message of a person.
        let reset = as_kind(bo, Kind::Boundary);
        assert_eq!(owner(&[reset.clone(), ada.clone()], false), Some(Owner::User("app/ada".into())));
        assert_eq!(owner(&[reset], true), None);
        // A summary may cover messages of another person.
        let summary = |person: Option<&str>| {
            let mut summary = said("http:chat:app:c1", "annals", Value::Null, person);
            summary.message.role = Role::Assistant;
            as_kind(summary, Kind::Summary)
        };
        assert_eq!(
            owner(&[summary(Some("app/ada")), ada.clone()], false),
            Some(Owner::User("app/ada".into()))
        );
        assert_eq!(owner(&[summary(Some("app/bo")), ada.clone()], false), None);
        assert_eq!(owner(&[summary(None), ada.clone()], true), Some(Owner::Chat(chat.clone())));
        let business = json!({"chatType": "private", "telegram": {"businessConnectionId": "b"}});
        let mut reply = said("telegram:chat:42", "annals", business, None);
        reply.message.role = Role::Assistant;
        assert_eq!(owner(&[ada, reply], true), None);
    }

    #[test]
    fn partition_keys_differ_and_are_never_too_long() {
        let user = Owner::User("ada".into());
        assert_eq!(user.partition(), "memory:user:ada");
        let chat: ChatKey = "telegram:chat:-42".parse().unwrap();
        assert_eq!(Owner::Chat(chat).partition(), "memory:chat:telegram:chat:-42");
        let long = |end: &str| Owner::User(format!("{}{end}", "x".repeat(2048))).partition();
        assert!(long("a").len() <= MAX_KEY_BYTES && long("a") != long("b"));
        assert!("memory:user:ada".parse::<ChatKey>().is_err());
    }
}
