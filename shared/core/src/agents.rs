//! The agents of one program, and the rules that choose one for a chat: [`Agents`].
//!
//! ```json
//! [{"agent": "support", "channel": "telegram"}, {"agent": "shop", "key": "shop"},
//!  {"agent": "ops", "chat": "lark:chat:oc_1"}, {"agent": "vip", "person": "telegram-42"}]
//! ```
//!
//! The first rule chooses whose conditions all hold. If none matches, the default agent answers:
//! `AGENT_ID` with `SYSTEM_PROMPT`. A ChatKey that names an agent, `agent:<agentId>:…`, is of that agent; so the rules name
//! such a chat as it would be called under the default agent, and [`Agents::placed`] gives it its name.
//!
//! - [`profile`]: who an agent is: the files of its folder

mod front_matter;
pub mod profile;

use serde::Deserialize;

pub use self::profile::{Profile, ProfileError, Skill};
use crate::chat_key::{ChatKey, KeyError, Speakers};
use crate::draft::Draft;
use crate::memory::Owner;
use crate::memory::owner::person_of;
use crate::record::{Channel, Record};

/// The agents of one program, and the rules that choose one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agents {
    default: String,
    rules: Vec<Rule>,
}

/// A rule. What it does not name may be anything.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    agent: AgentId,
    channel: Option<Channel>,
    chat: Option<ChatKey>,
    person: Option<String>,
    key: Option<String>,
}

/// Id of an agent with a profile: the name of its folder, and a part of ChatKeys.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct AgentId(String);

impl TryFrom<String> for AgentId {
    type Error = &'static str;

    fn try_from(id: String) -> Result<Self, &'static str> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if (1..=64).contains(&id.len()) && id.chars().all(is_part) {
            Ok(Self(id))
        } else {
            Err("the id of an agent has 1 to 64 letters, digits, '-' and '_'")
        }
    }
}

/// The circumstances that rules look at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Circumstances<'a> {
    pub channel: Option<Channel>,
    /// The person, if they speak alone: by their identity and by their Person.
    pub person: [Option<&'a str>; 2],
    /// Name of the API key.
    pub key: Option<&'a str>,
    /// The window of the platform in which it is said, if that is not the chat.
    pub window: Option<&'a ChatKey>,
}

impl Agents {
    /// Returns the default agent alone.
    pub fn only(default: String) -> Self {
        Self { default, rules: Vec::new() }
    }

    /// Reads the rules beside the agent `default`.
    /// Fails with line and column of what cannot be read.
    pub fn parse(default: String, rules: &str) -> Result<Self, serde_json::Error> {
        Ok(Self { default, rules: serde_json::from_str(rules)? })
    }

    /// Returns the id of the default agent.
    pub fn default_id(&self) -> &str {
        &self.default
    }

    /// Returns the ids of all agents: the default one first, then those with a profile.
    pub fn ids(&self) -> Vec<&str> {
        let mut ids = vec![self.default.as_str()];
        for rule in &self.rules {
            if !ids.contains(&rule.agent.0.as_str()) {
                ids.push(&rule.agent.0);
            }
        }
        ids
    }

    /// Returns the agent of `chat`; `person` is who speaks there, if that is one person alone, as far as the caller knows.
    pub fn of(&self, chat: &ChatKey, person: Option<&str>) -> &str {
        if let Some(id) = chat.agent_id() {
            return self.known(id);
        }
        let of_key = shown_by(chat);
        let (channel, person) = (chat.channel(), [person, of_key.as_deref()]);
        self.chosen(chat, &Circumstances { channel, person, key: chat.key_name(), window: None })
    }

    /// Returns the agent of the chat in which `draft` is said.
    pub fn of_draft(&self, draft: &Draft) -> &str {
        self.of(&draft.chat, (!draft.metadata.is_group()).then(|| draft.sender()).as_deref())
    }

    /// Returns the agent of `chat` with these records.
    pub fn of_records(&self, chat: &ChatKey, records: &[Record]) -> &str {
        let person = if self.needs_person(chat) { records.iter().rev().find_map(person_of) } else { None };
        self.of(chat, person.as_deref())
    }

    /// Returns true if only its records tell which agent `chat` has: a rule names a person, and the ChatKey does not show who
    /// speaks there.
    pub fn needs_person(&self, chat: &ChatKey) -> bool {
        chat.agent_id().is_none()
            && shown_by(chat).is_none()
            && self.rules.iter().any(|rule| rule.person.is_some())
    }

    /// Returns `chat`, whose key, if it names an agent, names the default one, under the agent that the rules choose.
    /// Fails if the name would be too long.
    pub fn placed(&self, chat: &ChatKey, said: &Circumstances<'_>) -> Result<ChatKey, KeyError> {
        match chat.agent_id() {
            Some(id) if id == self.default => chat.of_agent(self.chosen(chat, said)),
            _ => Ok(chat.clone()),
        }
    }

    /// Returns `id` unless it is that of the default agent.
    pub fn profiled<'a>(&self, id: &'a str) -> Option<&'a str> {
        (id != self.default).then_some(id)
    }

    /// Returns the memories that all agents have of a person.
    pub fn owners<'a>(&'a self, person: &'a str) -> impl Iterator<Item = Owner> + 'a {
        self.ids().into_iter().map(|id| Owner::of_person(self.profiled(id), person.to_owned()))
    }

    /// Returns the direct chats that all agents have with a person, as far as their keys are not too long.
    pub fn direct_chats<'a>(&'a self, person: &'a str) -> impl Iterator<Item = ChatKey> + 'a {
        self.ids().into_iter().filter_map(|id| ChatKey::direct(id, person).ok())
    }

    fn known(&self, id: &str) -> &str {
        let rule = self.rules.iter().find(|rule| rule.agent.0 == id);
        rule.map_or(&self.default, |rule| &rule.agent.0)
    }

    fn chosen(&self, chat: &ChatKey, said: &Circumstances<'_>) -> &str {
        let topic_of = chat.window();
        let windows = [Some(chat), topic_of.as_ref(), said.window];
        let matches = |rule: &&Rule| {
            rule.channel.is_none_or(|channel| said.channel == Some(channel))
                && rule.chat.as_ref().is_none_or(|named| windows.contains(&Some(named)))
                && rule.person.as_deref().is_none_or(|person| said.person.contains(&Some(person)))
                && rule.key.as_deref().is_none_or(|key| said.key == Some(key))
        };
        self.rules.iter().find(matches).map_or(&self.default, |rule| &rule.agent.0)
    }
}

/// Returns the person that a ChatKey shows.
fn shown_by(chat: &ChatKey) -> Option<String> {
    match chat.speakers() {
        Speakers::One(person) => Some(person),
        Speakers::Callers | Speakers::Untold(_) | Speakers::Several => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agents() -> Agents {
        let rules = r#"[
            {"agent": "annals", "person": "telegram-1"},
            {"agent": "vip", "person": "ada"},
            {"agent": "vip", "person": "telegram-42"},
            {"agent": "vip", "person": "lark-ou_ada"},
            {"agent": "ops", "chat": "lark:chat:oc_ops"},
            {"agent": "ops", "chat": "agent:annals:channel:1:2"},
            {"agent": "shop", "key": "shop"},
            {"agent": "web", "channel": "web", "key": "site"},
            {"agent": "support", "channel": "telegram"}]"#;
        Agents::parse("annals".into(), rules).unwrap()
    }

    #[test]
    fn the_first_rule_that_matches_chooses_the_agent_of_a_chat() {
        let agents = agents();
        for (chat, person, agent) in [
            ("telegram:chat:7", None, "support"),
            ("telegram:chat:-7", Some("telegram-42"), "vip"),
            ("telegram:chat:-7", None, "support"),
            ("telegram:chat:42", None, "vip"),
            ("telegram:chat:42:topic:3", None, "vip"),
            ("telegram:chat:1", None, "annals"),
            ("lark:chat:oc_1", None, "annals"),
            ("lark:chat:oc_1", Some("lark-ou_ada"), "vip"),
            ("lark:chat:oc_ops", None, "ops"),
            ("lark:chat:oc_ops:thread:omt_1", None, "ops"),
            ("http:chat:shop:c1", None, "shop"),
            ("http:chat:app:c1", None, "annals"),
            ("http:chat:app:c1", Some("ada"), "vip"),
            ("web:room:site:r", None, "web"),
            ("http:chat:site:r", None, "annals"),
            ("agent:shop:user:bo", None, "shop"),
            ("agent:annals:channel:1:2", None, "annals"),
            ("agent:unknown:user:bo", Some("ada"), "annals"),
        ] {
            assert_eq!(agents.of(&chat.parse().unwrap(), person), agent, "{chat} {person:?}");
        }
        assert_eq!(agents.ids(), ["annals", "vip", "ops", "shop", "web", "support"]);
    }

    #[test]
    fn a_chat_that_names_an_agent_is_named_by_the_rules() {
        use Channel::{Discord, Http, Telegram};
        let agents = agents();
        for (chat, channel, person, key, placed) in [
            (
                "agent:annals:user:telegram-42",
                Telegram,
                Some("telegram-42"),
                None,
                "agent:vip:user:telegram-42",
            ),
            ("agent:annals:user:telegram-7", Telegram, None, None, "agent:support:user:telegram-7"),
            ("agent:annals:user:shop/bo", Http, None, Some("shop"), "agent:shop:user:shop/bo"),
            ("agent:annals:user:bo", Http, None, Some("app"), "agent:annals:user:bo"),
            ("agent:annals:channel:1:2", Discord, None, None, "agent:ops:channel:1:2"),
            ("agent:annals:thread:1:9", Discord, None, None, "agent:annals:thread:1:9"),
            ("agent:other:user:bo", Http, None, Some("shop"), "agent:other:user:bo"),
            ("telegram:chat:42", Telegram, None, None, "telegram:chat:42"),
        ] {
            let said = Circumstances { channel: Some(channel), person: [person, None], key, window: None };
            assert_eq!(agents.placed(&chat.parse().unwrap(), &said).unwrap().to_string(), placed, "{chat}");
        }
    }

    #[test]
    fn only_some_chats_need_a_look_at_who_speaks() {
        let needs = |agents: &Agents, chat: &str| agents.needs_person(&chat.parse().unwrap());
        for (chat, is_needed) in [
            ("telegram:chat:42", false),
            ("telegram:chat:-42", true),
            ("lark:chat:oc_1", true),
            ("http:chat:app:c1", true),
            ("agent:annals:user:ada", false),
        ] {
            assert_eq!(needs(&agents(), chat), is_needed, "{chat}");
        }
        assert!(!needs(&Agents::only("annals".into()), "lark:chat:oc_1"));
    }

    #[test]
    fn rules_that_cannot_be_read_are_errors_with_a_place() {
        for (rules, told) in [
            ("{}", "invalid type"),
            ("[{\"agent\": \"a\", \"chanel\": \"x\"}]", "unknown field `chanel`"),
            ("[{\"channel\": \"telegram\"}]", "missing field `agent`"),
            ("[{\"agent\": \"a/b\"}]", "the id of an agent has"),
            ("[{\"agent\": \"a\", \"channel\": \"x\"}]", "line 1 column"),
            ("[{\"agent\": \"a\", \"chat\": \"x\"}]", "line 1 column"),
        ] {
            let error = Agents::parse("annals".into(), rules).unwrap_err().to_string();
            assert!(error.contains(told) && error.contains("at line 1 column"), "{rules}: {error}");
        }
    }

    #[test]
    fn each_agent_has_a_memory_of_each_person() {
        let agents = Agents::parse("annals".into(), r#"[{"agent": "shop"}]"#).unwrap();
        let owners: Vec<String> = agents.owners("ada").map(|owner| owner.partition()).collect();
        assert_eq!(owners, ["memory:user:ada", "memory:agent:shop:user:ada"]);
    }
}
