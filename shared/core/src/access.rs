//! People and chats that may use the bot: `ALLOW_FROM` and `ALLOW_CHATS`.
//!
//! | | a private chat is answered | a group is recorded |
//! | --- | --- | --- |
//! | neither is set | always | always, and anybody in it may ask |
//! | `ALLOW_FROM` | with a person of the list | always, and the persons of the list may ask |
//! | `ALLOW_CHATS` | if it is listed | if it is listed, and anybody in it may ask |
//! | both | with a person of the list, or if it is listed | if it is listed, and the persons of the list may ask |
//!
//! While a list is set, messages of Telegram's business connections are refused: they were not written to the bot, and
//! the readers of the answer are not known. The entry of a group includes its topics and threads. The HTTP API has keys
//! and is not affected.

use crate::chat_key::{ChatKey, Speakers};
use crate::draft::Draft;

/// Warning for a bot with tools that everybody may use.
pub const OPEN_WITH_TOOLS: &str = "TOOLS is set, and neither ALLOW_FROM nor ALLOW_CHATS is: everybody who can write to the \
    bot can have its tools called. Set ALLOW_FROM to the Persons who may use it, such as telegram-42,lark-ou_…";

/// The Persons and chats that may use the bot. By default everybody may.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// `ALLOW_FROM`: Persons, such as `telegram-42`; `None` means everybody.
    pub persons: Option<Vec<String>>,
    /// `ALLOW_CHATS`; `None` means every chat.
    pub chats: Option<Vec<ChatKey>>,
}

/// Treatment of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may ask and command.
    Full,
    /// It is recorded as context, but does not ask.
    Context,
    /// It is not recorded.
    Refused,
}

impl Access {
    /// Returns true if neither list is set, so that everybody may use the bot.
    pub fn is_open(&self) -> bool {
        self.persons.is_none() && self.chats.is_none()
    }

    /// Returns the treatment of a message.
    pub fn of(&self, draft: &Draft) -> Admission {
        if !draft.channel.is_platform() || self.is_open() {
            return Admission::Full;
        }
        // Messages to a business are not written to the bot, and do not tell whose connection they used.
        if draft.metadata.line().is_some() {
            return Admission::Refused;
        }
        let sender = draft.sender();
        if draft.metadata.is_private() {
            return self.of_private(&draft.chat, &sender);
        }
        if self.chats.is_some() && !self.lists(&draft.chat) {
            return Admission::Refused;
        }
        match &self.persons {
            Some(persons) if !persons.contains(&sender) => Admission::Context,
            _ => Admission::Full,
        }
    }

    /// Returns true if the person who pressed a button may answer requests there. A press does not tell the type of its
    /// chat.
    pub fn admits_press(&self, draft: &Draft) -> bool {
        let is_listed = self.lists(&draft.chat);
        let is_private = draft.chat.is_private();
        match &self.persons {
            Some(persons) if persons.contains(&draft.sender()) => {
                self.chats.is_none() || is_listed || is_private != Some(false)
            }
            Some(_) => is_listed && is_private == Some(true),
            None => self.chats.is_none() || is_listed,
        }
    }

    /// Returns true if what is scheduled for the sender of `draft` may come. A direct chat is that of their Person; the lists
    /// have the channel's identity, its own direct chat or its window.
    pub fn admits_scheduled(&self, draft: &Draft) -> bool {
        let mut by = Draft { person: None, ..draft.clone() };
        let (identity, window) = (by.identity(), ChatKey::private_window(by.channel, &by.chat_id));
        let is_own = |listed: &&ChatKey| {
            listed.person() == Some(identity.as_str()) || Some(*listed) == window.as_ref()
        };
        if by.chat.person().is_some()
            && let Some(listed) = self.chats.iter().flatten().find(is_own)
        {
            by.chat = listed.clone();
        }
        self.of(&by) != Admission::Refused
    }

    /// Returns the treatment of `person` in a private chat with the bot.
    pub fn of_private(&self, chat: &ChatKey, person: &str) -> Admission {
        let is_admitted = match &self.persons {
            Some(persons) => persons.iter().any(|listed| listed == person) || self.lists(chat),
            None => self.chats.is_none() || self.lists(chat),
        };
        if is_admitted { Admission::Full } else { Admission::Refused }
    }

    /// Returns true if records of `chat` may be stored, as far as its key tells.
    pub fn may_hold(&self, chat: &ChatKey) -> bool {
        match chat.speakers() {
            // Discord's people have their bare id in the key of their direct chat.
            Speakers::One(person) => [format!("discord-{person}"), person]
                .iter()
                .any(|person| self.of_private(chat, person) == Admission::Full),
            Speakers::Callers | Speakers::Untold(_) | Speakers::Several => {
                self.chats.is_none() || self.lists(chat)
            }
        }
    }

    fn lists(&self, chat: &ChatKey) -> bool {
        let window = chat.window();
        let listed = self.chats.as_deref().unwrap_or_default();
        listed.iter().any(|listed| listed == chat || Some(listed) == window.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Channel;
    use crate::testing::{set, user as said};

    fn access(persons: Option<&[&str]>, chats: Option<&[&str]>) -> Access {
        Access {
            persons: persons.map(|persons| persons.iter().map(|&person| person.to_owned()).collect()),
            chats: chats.map(|chats| chats.iter().map(|chat| chat.parse().unwrap()).collect()),
        }
    }

    #[test]
    fn access_is_as_in_the_table() {
        use Admission::{Context, Full, Refused};
        let draft = |chat: &str, id: &str, chat_type: &str| {
            let mut draft =
                Draft { chat: chat.parse().unwrap(), user_id: id.into(), ..Draft::from(&said(0, 1)) };
            set(&mut draft.metadata, "chatType", chat_type);
            draft
        };
        let cases = [
            ("telegram:chat:42", "42", "private"),
            ("telegram:chat:43", "43", "private"),
            ("telegram:chat:-7", "42", "group"),
            ("telegram:chat:-7:topic:5", "43", "supergroup"),
            ("telegram:chat:-8", "42", "group"),
            ("telegram:chat:-9", "-9", "channel"),
        ];
        let of = |access: Access| cases.map(|(chat, user, kind)| access.of(&draft(chat, user, kind)));
        let (ada, group) = (Some(&["telegram-42"][..]), Some(&["telegram:chat:-7"][..]));
        assert_eq!(of(access(None, None)), [Full; 6]);
        assert_eq!(of(access(ada, None)), [Full, Refused, Full, Context, Full, Context]);
        assert_eq!(of(access(None, group)), [Refused, Refused, Full, Full, Refused, Refused]);
        assert_eq!(of(access(ada, group)), [Full, Refused, Full, Context, Refused, Refused]);
        let own = access(ada, Some(&["telegram:chat:43"]));
        assert_eq!(
            own.of(&draft("telegram:chat:43", "43", "private")),
            Full,
            "a private chat may be listed, too"
        );
        let http = Draft { channel: Channel::Http, ..draft("http:chat:app:c", "x", "private") };
        assert_eq!(access(ada, group).of(&http), Full);
    }

    #[test]
    fn a_key_tells_whose_presses_and_records_are_admitted() {
        let (ada, both) = (Some(&["telegram-42"][..]), Some(&["telegram:chat:43", "telegram:chat:-7"][..]));
        let may_press = |access: &Access, chat: &str, user: &str| {
            let by = Draft { chat: chat.parse().unwrap(), user_id: user.into(), ..Draft::from(&said(0, 1)) };
            access.admits_press(&by)
        };
        let chats = ["telegram:chat:42", "telegram:chat:43", "telegram:chat:-7:topic:5", "telegram:chat:-8"];
        let held = |access: &Access| chats.map(|chat| access.may_hold(&chat.parse().unwrap()));
        let users = ["42", "43"];
        let presses = |access: &Access| chats.map(|chat| users.map(|user| may_press(access, chat, user)));
        let only_ada = access(ada, None);
        assert_eq!(presses(&only_ada), [[true, false]; 4]);
        assert_eq!(held(&only_ada), [true, false, true, true]);
        let only_chats = access(None, both);
        assert_eq!(presses(&only_chats), [[false; 2], [true; 2], [true; 2], [false; 2]]);
        assert_eq!(held(&only_chats), [false, true, true, false]);
        let all = access(ada, both);
        assert_eq!(presses(&all), [[true, false], [true, true], [true, false], [false, false]]);
        assert_eq!(held(&all), [true, true, true, false]);
    }

    #[test]
    fn what_is_scheduled_is_admitted_by_the_channels_identity() {
        for (persons, chats, is_admitted) in [
            (Some(&["telegram-42"][..]), None, true),
            (Some(&["ada"][..]), None, false),
            (None, Some(&["telegram:chat:42"][..]), true),
            (None, Some(&["agent:annals:user:telegram-42"][..]), true),
            (Some(&["telegram-43"][..]), Some(&["telegram:chat:43"][..]), false),
        ] {
            let chat = "agent:annals:user:ada".parse().unwrap();
            let by = Draft { chat, chat_id: "42".into(), user_id: "42".into(), ..Draft::from(&said(0, 1)) };
            let mut by = by.of_person("ada".to_owned());
            set(&mut by.metadata, "chatType", "private");
            assert_eq!(access(persons, chats).admits_scheduled(&by), is_admitted, "{persons:?} {chats:?}");
        }
    }

    #[test]
    fn a_person_of_the_list_is_admitted_to_their_private_chat_on_each_platform() {
        for channel in Channel::platforms() {
            let person = format!("{channel}-7");
            let listed = access(Some(&[person.as_str()]), None);
            let [own, other] = ["7", "8"].map(|id| ChatKey::direct("annals", &channel.identity(id)).unwrap());
            assert!(listed.may_hold(&own) && !listed.may_hold(&other), "{channel}");
            for chat in ChatKey::private_window(channel, "7").into_iter().chain([own]) {
                let mut by = Draft { channel, chat, user_id: "7".into(), ..Draft::from(&said(0, 1)) };
                set(&mut by.metadata, "chatType", "private");
                assert_eq!(listed.of(&by), Admission::Full, "{}", by.chat);
                by.user_id = "8".into();
                assert_eq!(listed.of(&by), Admission::Refused, "{}", by.chat);
            }
        }
    }
}
