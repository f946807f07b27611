use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

#[test]
fn every_row_of_the_keys_table() {
    let s = String::from;
    let mut rows = BTreeSet::new();
    let mut check = |key: &str, place: &Place| {
        let parsed: ChatKey = key.parse().unwrap();
        assert_eq!(parsed.place(), place);
        assert_eq!(parsed.to_string(), key);
        rows.insert(place.form().0);
    };
    check("telegram:chat:42", &Place::TelegramChat { chat_id: s("42") });
    check("telegram:chat:-100:topic:7", &Place::TelegramTopic { chat_id: s("-100"), thread_id: s("7") });
    check("lark:chat:oc_1", &Place::LarkChat { chat_id: s("oc_1") });
    check("lark:chat:oc_1:thread:omt_2", &Place::LarkThread { chat_id: s("oc_1"), thread_id: s("omt_2") });
    check("http:chat:dev:a%3Ab%25c", &Place::HttpChat { key_name: s("dev"), chat_id: s("a:b%c") });
    check("web:room:dev:r", &Place::WebRoom { key_name: s("dev"), room_id: s("r") });
    check(
        "agent:annals:channel:1:2",
        &Place::DiscordChannel { agent_id: s("annals"), guild_id: s("1"), channel_id: s("2") },
    );
    check(
        "agent:annals:thread:1:2",
        &Place::DiscordThread { agent_id: s("annals"), guild_id: s("1"), thread_id: s("2") },
    );
    check("agent:annals:user:k/u", &Place::Direct { agent_id: s("annals"), user_id: s("k/u") });
    assert_eq!(rows.len(), Place::FORMS.len(), "{rows:?}");
}

#[test]
fn a_key_tells_its_window_its_agent_and_its_channel() {
    for (key, chat_id, agent_id, window, channel) in [
        ("telegram:chat:42", "42", None, None, Some(Channel::Telegram)),
        ("telegram:chat:-100:topic:7", "-100", None, Some("telegram:chat:-100"), Some(Channel::Telegram)),
        ("lark:chat:oc_1", "oc_1", None, None, Some(Channel::Lark)),
        ("lark:chat:oc_1:thread:omt_2", "oc_1", None, Some("lark:chat:oc_1"), Some(Channel::Lark)),
        ("http:chat:dev:c", "c", None, None, Some(Channel::Http)),
        ("web:room:dev:r", "r", None, None, Some(Channel::Web)),
        ("agent:annals:channel:1:2", "2", Some("annals"), None, Some(Channel::Discord)),
        ("agent:annals:thread:1:3", "3", Some("annals"), None, Some(Channel::Discord)),
        ("agent:annals:user:ada", "ada", Some("annals"), None, None),
    ] {
        let chat: ChatKey = key.parse().unwrap();
        assert_eq!((chat.chat_id(), chat.agent_id(), chat.channel()), (chat_id, agent_id, channel), "{key}");
        assert_eq!(chat.window().map(|window| window.to_string()).as_deref(), window, "{key}");
        let (family, _) = key.split_once(':').unwrap();
        let id = chat.session_id().to_string();
        assert!(id.starts_with(&format!("{family}-")) && id == chat.session_id().as_str(), "{id}");
        let of_other = chat.of_agent("other").unwrap();
        assert_eq!(of_other.to_string(), key.replace("annals", "other"));
        assert_eq!(chat.actor_key("a:b"), Ok(format!("{key}:user:a%3Ab")));
    }
}

#[test]
fn a_key_tells_who_can_speak() {
    let one = |identity: &str| Speakers::One(identity.to_owned());
    for (key, speakers, is_private, person, key_name) in [
        ("telegram:chat:42", one("telegram-42"), Some(true), None, None),
        ("telegram:chat:42:topic:7", one("telegram-42"), Some(true), None, None),
        ("telegram:chat:-100", Speakers::Several, Some(false), None, None),
        ("telegram:chat:-100:topic:7", Speakers::Several, Some(false), None, None),
        ("lark:chat:oc_1", Speakers::Untold(Channel::Lark), None, None, None),
        ("lark:chat:oc_1:thread:omt_2", Speakers::Several, None, None, None),
        ("http:chat:dev:c", Speakers::Callers, None, None, Some("dev")),
        ("web:room:dev:r", Speakers::Callers, None, None, Some("dev")),
        ("agent:annals:channel:1:2", Speakers::Several, Some(false), None, None),
        ("agent:annals:thread:1:3", Speakers::Several, Some(false), None, None),
        ("agent:annals:user:ada", one("ada"), None, Some("ada"), None),
    ] {
        let chat: ChatKey = key.parse().unwrap();
        assert_eq!(chat.speakers(), speakers, "{key}");
        assert_eq!(
            (chat.is_private(), chat.person(), chat.key_name()),
            (is_private, person, key_name),
            "{key}"
        );
    }
}

#[test]
fn an_identity_may_tell_its_private_window() {
    for (identity, window) in [
        ("telegram-42", Some("telegram:chat:42")),
        // A group that writes in its own name.
        ("telegram--42", None),
        ("telegram-", None),
        ("telegram", None),
        ("lark-ou_ada", None),
        ("discord-7", None),
        ("7", None),
        ("http-ada", None),
        ("my-name", None),
    ] {
        let found = ChatKey::window_of_identity(identity).map(|chat| chat.to_string());
        assert_eq!(found.as_deref(), window, "{identity}");
    }
    for channel in Channel::ALL {
        let Some(window) = ChatKey::private_window(*channel, "1") else { continue };
        assert_eq!((window.channel(), window.chat_id()), (Some(*channel), "1"));
        assert_ne!(window.speakers(), Speakers::Several, "{channel}");
    }
}

#[test]
fn feishu_is_read_as_lark() {
    assert_eq!("feishu:chat:oc_1".parse::<ChatKey>().unwrap().to_string(), "lark:chat:oc_1");
}

#[test]
fn older_forms_of_direct_chats_are_read_and_never_written() {
    for (older, key) in [
        ("telegram:annals:dm:42", "agent:annals:user:telegram-42"),
        ("lark:annals:dm:ou_ada", "agent:annals:user:lark-ou_ada"),
        ("feishu:annals:dm:ou_ada", "agent:annals:user:lark-ou_ada"),
        ("discord:annals:dm:80351110224678912", "agent:annals:user:80351110224678912"),
        ("http:annals:dm:app/ada", "agent:annals:user:app/ada"),
        ("web:my%3Aagent:dm:a%25b", "agent:my%3Aagent:user:a%25b"),
        ("terminal:annals:dm:local", "agent:annals:user:local"),
        // A key named `dm` of today's form stays what it is.
        ("http:chat:dm:c1", "http:chat:dm:c1"),
        ("web:room:dm:r1", "web:room:dm:r1"),
    ] {
        assert_eq!(older.parse::<ChatKey>().unwrap().to_string(), key, "{older}");
    }
    let error = |key: &str| key.parse::<ChatKey>().unwrap_err();
    assert_eq!(error("telegram:annals:dm:"), KeyError::EmptyPart { part: "userId" });
    assert_eq!(error("telegram::dm:42"), KeyError::EmptyPart { part: "agentId" });
    assert_eq!(
        error("lark:annals:dm:a\u{7}"),
        KeyError::ControlCharacter { part: "userId", character: '\u{7}' }
    );
    assert_eq!(error("lark:annals:dm:%3a"), KeyError::BadEscape);
    assert_eq!(error("smoke:annals:dm:42"), KeyError::UnknownShape);
    assert_eq!(
        error(&format!("discord:annals:dm:{}", "7".repeat(2048))),
        KeyError::TooLong { bytes: 18 + 2048 }
    );
}

#[test]
fn errors_name_the_problem() {
    let error = |key: &str| key.parse::<ChatKey>().unwrap_err();
    assert_eq!(error("telegram:chat:"), KeyError::EmptyPart { part: "chatId" });
    assert_eq!(error("http:chat::x"), KeyError::EmptyPart { part: "keyName" });
    assert_eq!(error("lark:chat:a\u{7}"), KeyError::ControlCharacter { part: "chatId", character: '\u{7}' });
    assert_eq!(error("lark:chat:a%3a"), KeyError::BadEscape);
    assert_eq!(error("lark:chat:%"), KeyError::BadEscape);
    assert_eq!(error("smoke:signal:1"), KeyError::UnknownShape);
    assert_eq!(error("telegram:chat:1:topic"), KeyError::UnknownShape);
    assert_eq!(error(&format!("lark:chat:{}", "x".repeat(2048))), KeyError::TooLong { bytes: 2058 });
    assert!(format!("lark:chat:{}", "x".repeat(2038)).parse::<ChatKey>().is_ok(), "2,048 bytes are stored");
    // An escape counts with the length in which it is stored.
    let colons = ":".repeat(700);
    assert_eq!(ChatKey::http("k", &colons).unwrap_err(), KeyError::TooLong { bytes: 12 + 2100 });
}

#[test]
fn a_session_id_has_96_bits() {
    let id = ChatKey::telegram(42, None).session_id();
    // printf 'telegram:chat:42' | sha256sum | cut -c1-24
    assert_eq!(id.as_str(), "telegram-14b939505d456e7b24cefa3a");
    assert_ne!(id, ChatKey::telegram(43, None).session_id());
}

fn part() -> impl Strategy<Value = String> {
    prop_oneof![
        "[^\\p{Cc}]{1,24}",
        "[:%3A25#/ a]{1,12}",
        Just("user".to_owned()),
        Just("topic".to_owned()),
        Just("::".to_owned()),
    ]
}

fn place() -> impl Strategy<Value = Place> {
    (0..Place::FORMS.len(), [part(), part(), part()]).prop_map(|(row, parts)| {
        let mut parts = parts.iter().map(|part| Escaped(part).to_string());
        let segments: Vec<String> = Place::FORMS[row]
            .split(':')
            .map(|of| if of == "{}" { parts.next().unwrap() } else { of.to_owned() })
            .collect();
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        Place::read(&segments).unwrap().unwrap()
    })
}

proptest! {
    #[test]
    fn parse_is_the_inverse_of_render(place in place()) {
        let key = ChatKey::new(place).unwrap();
        prop_assert_eq!(key.to_string().parse::<ChatKey>().unwrap(), key);
    }

    #[test]
    fn render_is_the_inverse_of_parse(key in "(telegram|lark|http|web|agent):(chat|room|a):[:%3A25a-z]{0,20}") {
        prop_assume!(!key.contains(":dm:"));
        if let Ok(parsed) = key.parse::<ChatKey>() {
            prop_assert_eq!(parsed.to_string(), key);
        }
    }

    #[test]
    fn different_places_have_different_keys(a in place(), b in place()) {
        let (x, y) = (ChatKey::new(a.clone()).unwrap(), ChatKey::new(b.clone()).unwrap());
        prop_assert_eq!(a == b, x.to_string() == y.to_string());
    }
}
