use serde_json::json;

use super::*;
use crate::message::UiMessage;
use crate::record::Channel;
use crate::sort_key::{MessageId, SortKey, Timestamp};
use crate::testing::{as_kind, set};

/// Builds a record of `user_id` in `chat` on `channel`, with `name`.
fn said(chat: &str, channel: Channel, user_id: &str, name: &str) -> Record {
    let ts = Timestamp::from_secs(1_763_765_920);
    let id = MessageId::number(1);
    let mut record = crate::testing::record(SortKey::message(ts, &id), id, Role::User, Kind::Normal, "hello");
    record.message = UiMessage::text("1", Role::User, "hello");
    if !name.is_empty() {
        set(&mut record.message.metadata, "senderName", json!(name));
    }
    Record { chat: chat.parse().unwrap(), channel, user_id: user_id.into(), ..record }
}

fn id(record: &Record) -> String {
    of(record).unwrap().id
}

#[test]
fn an_id_belongs_to_one_person_under_any_name_and_in_any_chat() {
    let ada = said("telegram:chat:-7", Channel::Telegram, "42", "Ada");
    // printf telegram-42 | sha256sum: b47b…; the first 60 bits in base 32
    assert_eq!(id(&ada).len(), 12);
    assert!(id(&ada).bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()));
    let renamed = said("telegram:chat:-7", Channel::Telegram, "42", "Countess");
    let elsewhere = said("telegram:chat:-8:topic:3", Channel::Telegram, "42", "Ada");
    let private = said("telegram:chat:42", Channel::Telegram, "42", "Ada");
    let direct = said("agent:annals:user:telegram-42", Channel::Telegram, "42", "Ada");
    for same in [&renamed, &elsewhere, &private, &direct] {
        assert_eq!(id(same), id(&ada));
    }
    let other = said("telegram:chat:-7", Channel::Telegram, "43", "Ada");
    let lark = said("lark:chat:oc_1", Channel::Lark, "42", "Ada");
    let of_key = said("http:chat:app:c", Channel::Http, "ada", "");
    let of_admin = Record { person: Some("ada".into()), ..of_key.clone() };
    let ids: BTreeSet<String> = [&ada, &other, &lark, &of_key, &of_admin].map(id).into();
    assert_eq!(ids.len(), 5);
    assert_eq!(of(&of_key).unwrap().name, "ada");
    assert_eq!(of(&said("telegram:chat:-7", Channel::Telegram, "42", "")).unwrap().name, "");
    let reply = Record { message: UiMessage::text("1", Role::Assistant, "hi"), ..ada };
    assert_eq!(of(&reply), None);
}

#[test]
fn several_people_speak_in_a_group_or_if_there_are_several_persons() {
    let ada = said("http:chat:app:c", Channel::Http, "ada", "");
    let bob = said("http:chat:app:c", Channel::Http, "bob", "");
    assert!(!are_several([], None) && !are_several([&ada, &ada], None));
    assert!(are_several([&ada, &bob], None));
    let event = as_kind(bob.clone(), Kind::Event);
    assert!(!are_several([&ada, &event], None));
    let summary = |person: Option<&str>| {
        let message = UiMessage::text("1", Role::Assistant, "s");
        as_kind(Record { person: person.map(str::to_owned), message, ..ada.clone() }, Kind::Summary)
    };
    assert!(!are_several([&ada], Some(&summary(Some("app/ada")))));
    assert!(are_several([&ada], Some(&summary(Some("app/bob")))));
    assert!(are_several([&ada], Some(&summary(None))));
    let mut group = said("telegram:chat:-7", Channel::Telegram, "42", "Ada");
    set(&mut group.message.metadata, "chatType", json!("supergroup"));
    assert!(are_several([&group], None));
}
