//! Whose memory it is: [`Owner`], [`person_of`] a record, and [`owner_of_session`].
//!
//! *Invariant:* a person's entries are recalled where that person alone speaks, and nowhere else. So whatever is not
//! clearly one person's direct chat counts as a group.

use std::collections::BTreeSet;
use std::fmt;

use aws_lc_rs::digest;
use serde_json::Value;

use crate::chat_key::{ChatKey, MAX_KEY_BYTES, Place};
use crate::record::{Kind, Record};

/// Whose entries.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// A person's, through every door, by the id that crosses channels: `ada`, `app/ada`, `telegram-42`, `lark-ou_ada`.
    User(String),
    /// A group's.
    Chat(ChatKey),
}

impl Owner {
    /// The partition that the entries lie in: `memory:user:<person>` or `memory:chat:<ChatKey>`. No ChatKey starts so.
    pub fn partition(&self) -> String {
        let key = format!("memory:{self}");
        if key.len() <= MAX_KEY_BYTES {
            return key;
        }
        // Cut short would be another's: the digest of the whole stands for it.
        let digest = digest::digest(&digest::SHA256, key.as_bytes());
        format!("memory:{}:~~{}", self.scope(), hex::encode(digest))
    }

    /// `user` or `chat`.
    pub fn scope(&self) -> &'static str {
        match self {
            Self::User(_) => "user",
            Self::Chat(_) => "chat",
        }
    }
}

impl fmt::Display for Owner {
    /// `user:<person>` or `chat:<ChatKey>`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(person) => write!(f, "user:{person}"),
            Self::Chat(chat) => write!(f, "chat:{chat}"),
        }
    }
}

/// Who says `record`, as one person through every door: in the direct chat of a person, that person; in a Telegram
/// private chat `telegram-<user id>`; in a Lark p2p chat `lark-<open_id>`; over HTTP and on the web
/// [`Record::person`].
///
/// `None` where nobody speaks for themselves: in groups, channels and their topics; on a business's line, whose words
/// never enter memory; for what the agent says; and where somebody else is made to speak in a person's own chat.
pub fn person_of(record: &Record) -> Option<String> {
    if record.role() != crate::message::Role::User || record.line().is_some() {
        return None;
    }
    let text = |key: &str| record.message.metadata.get(key).and_then(Value::as_str);
    let is_private = text("chatType") == Some("private");
    match record.chat.place() {
        Place::Direct { user_id, .. } => {
            let is_own = record.person.as_ref().is_none_or(|person| person == user_id);
            is_own.then(|| user_id.clone())
        }
        // The id of a private chat is the person's; in a guest's it need not be.
        Place::TelegramChat { chat_id } | Place::TelegramTopic { chat_id, .. }
            if is_private && *chat_id == record.user_id && !is_guest(record) =>
        {
            Some(format!("telegram-{chat_id}"))
        }
        // Whose sender has no id is known by the window.
        Place::LarkChat { chat_id } if is_private && *chat_id != record.user_id => {
            Some(format!("lark-{}", record.user_id))
        }
        Place::HttpChat { .. } | Place::WebRoom { .. } => record.person.clone(),
        _ => None,
    }
}

fn is_guest(record: &Record) -> bool {
    record.message.metadata.get("telegram").is_some_and(|telegram| telegram.get("guestQueryId").is_some())
}

/// Whose memory a Session of `chat` is captured to and recalled from: the person's, where every message of a person
/// among `records` is the same one's; else the group's, where groups have a memory (`CAPTURE_GROUP_MEMORY`).
///
/// A summary stands for what people said. Where several can speak in one chat, over HTTP and on the web, it says in
/// [`Record::person`] who alone did; one that names nobody may stand for anybody.
///
/// `None` where nobody spoke, and where anything of a business's line is among `records`, which must be of one line.
pub fn owner_of_session(chat: &ChatKey, records: &[Record], groups: bool) -> Option<Owner> {
    if records.iter().any(|record| record.line().is_some()) {
        return None;
    }
    let speakers: BTreeSet<Option<String>> = records.iter().filter_map(speaker).collect();
    let mut speakers = speakers.into_iter();
    match (speakers.next(), speakers.next()) {
        (None, _) => None,
        (Some(Some(person)), None) => Some(Owner::User(person)),
        _ => groups.then(|| Owner::Chat(chat.clone())),
    }
}

/// Who spoke `record`, or what it stands for: `Some(None)` is somebody who is nobody's owner.
#[allow(clippy::option_option, reason = "whether somebody spoke, and whether it is known who")]
fn speaker(record: &Record) -> Option<Option<String>> {
    match (record.kind, record.chat.place()) {
        (Kind::Summary, Place::HttpChat { .. } | Place::WebRoom { .. }) => Some(record.person.clone()),
        _ => record.is_interaction().then(|| person_of(record)),
    }
}

/// The one person who speaks in `said` and in an earlier summary; `None` where several do, or a group.
pub fn only_person<'a>(
    said: impl IntoIterator<Item = &'a Record>,
    folded: Option<&Record>,
) -> Option<String> {
    let said = said.into_iter().filter(|record| record.is_interaction()).map(person_of);
    let mut persons = said.chain(folded.map(|summary| summary.person.clone()));
    let first = persons.next()??;
    persons.all(|person| person.as_ref() == Some(&first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;
    use crate::message::{Role, UiMessage};
    use crate::record::Channel;
    use crate::sort_key::{MessageId, SortKey, Timestamp};

    /// What `user_id` says in `chat`.
    fn said(chat: &str, user_id: &str, metadata: Value, person: Option<&str>) -> Record {
        let chat: ChatKey = chat.parse().unwrap();
        let id = MessageId::number(1);
        let ts = Timestamp::from_millis(1000).unwrap();
        let mut message = UiMessage::text("1", Role::User, "hello");
        message.metadata = match metadata {
            Value::Object(map) => map,
            _ => Map::new(),
        };
        Record {
            key: SortKey::message(ts, &id),
            channel: Channel::Http,
            chat_id: chat.chat_id().into(),
            chat,
            user_id: user_id.into(),
            message_id: id,
            ts,
            sent_at: ts,
            form_ts: None,
            revision: 0,
            kind: Kind::Normal,
            message,
            tokens: 1,
            expires_at: None,
            album: None,
            asks: true,
            covers: Vec::new(),
            delivery_failure: None,
            source: None,
            person: person.map(str::to_owned),
        }
    }

    fn private() -> Value {
        json!({"chatType": "private"})
    }

    #[test]
    fn a_person_is_known_in_their_direct_chats_alone() {
        let check = |record: Record, wanted: Option<&str>| {
            assert_eq!(person_of(&record).as_deref(), wanted, "{} {}", record.chat, record.user_id);
        };
        let none = || Value::Null;
        check(said("agent:annals:user:ada", "ada", none(), Some("ada")), Some("ada"));
        check(said("agent:annals:user:telegram-42", "42", private(), None), Some("telegram-42"));
        check(said("agent:annals:user:ada", "bo", none(), Some("bo")), None);
        check(said("telegram:chat:42", "42", private(), None), Some("telegram-42"));
        check(said("telegram:chat:42:topic:7", "42", private(), None), Some("telegram-42"));
        check(said("telegram:chat:42", "43", private(), None), None);
        check(said("telegram:chat:-42", "42", json!({"chatType": "group"}), None), None);
        check(said("telegram:chat:-42:topic:7", "42", json!({"chatType": "supergroup"}), None), None);
        check(said("telegram:chat:-42", "-42", json!({"chatType": "channel"}), None), None);
        // An admin who writes into it over HTTP is not the person.
        check(said("telegram:chat:42", "42", none(), Some("42")), None);
        let business = json!({"chatType": "private", "telegram": {"businessConnectionId": "b"}});
        check(said("telegram:chat:42", "42", business, None), None);
        let guest = json!({"chatType": "private", "telegram": {"guestQueryId": "g"}});
        check(said("telegram:chat:42", "42", guest, None), None);
        check(said("lark:chat:oc_1", "ou_ada", private(), None), Some("lark-ou_ada"));
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
    fn a_session_is_one_persons_or_a_groups() {
        let chat: ChatKey = "http:chat:app:c1".parse().unwrap();
        let owner = |records: &[Record], groups| owner_of_session(&chat, records, groups);
        let by = |user: &str| said("http:chat:app:c1", user, Value::Null, Some(&format!("app/{user}")));
        let (ada, bo) = (by("ada"), by("bo"));
        assert_eq!(owner(&[], true), None);
        assert_eq!(owner(&[ada.clone(), ada.clone()], false), Some(Owner::User("app/ada".into())));
        assert_eq!(owner(&[ada.clone(), bo.clone()], false), None);
        assert_eq!(owner(&[ada.clone(), bo.clone()], true), Some(Owner::Chat(chat.clone())));
        // A stretch that somebody unknown spoke in is nobody's own.
        let stranger = Record { person: None, ..ada.clone() };
        assert_eq!(owner(&[ada.clone(), stranger], false), None);
        // Who resets a chat does not speak in it.
        let reset = Record { kind: Kind::Boundary, ..bo };
        assert_eq!(owner(&[reset.clone(), ada.clone()], false), Some(Owner::User("app/ada".into())));
        assert_eq!(owner(&[reset], true), None);
        // A summary may stand for what another said.
        let summary = |person: Option<&str>| {
            let mut summary = said("http:chat:app:c1", "annals", Value::Null, person);
            summary.kind = Kind::Summary;
            summary.message.role = Role::Assistant;
            summary
        };
        assert_eq!(
            owner(&[summary(Some("app/ada")), ada.clone()], false),
            Some(Owner::User("app/ada".into()))
        );
        assert_eq!(owner(&[summary(Some("app/bo")), ada.clone()], false), None);
        assert_eq!(owner(&[summary(None), ada.clone()], true), Some(Owner::Chat(chat.clone())));
        let telegram = said("telegram:chat:42", "42", private(), None);
        let of_telegram = Record { chat: telegram.chat.clone(), ..summary(None) };
        assert_eq!(owner(&[of_telegram, telegram], false), Some(Owner::User("telegram-42".into())));
        let business = json!({"chatType": "private", "telegram": {"businessConnectionId": "b"}});
        let mut reply = said("telegram:chat:42", "annals", business, None);
        reply.message.role = Role::Assistant;
        assert_eq!(owner(&[ada, reply], true), None);
    }

    #[test]
    fn partitions_are_apart_and_never_too_long() {
        let user = Owner::User("ada".into());
        assert_eq!(user.partition(), "memory:user:ada");
        let chat: ChatKey = "telegram:chat:-42".parse().unwrap();
        assert_eq!(Owner::Chat(chat).partition(), "memory:chat:telegram:chat:-42");
        let long = |end: &str| Owner::User(format!("{}{end}", "x".repeat(2048))).partition();
        assert!(long("a").len() <= MAX_KEY_BYTES && long("a") != long("b"));
        assert!("memory:user:ada".parse::<ChatKey>().is_err());
    }
}
