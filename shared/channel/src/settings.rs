//! Settings that all channels share.

use annals_core::access::Access;
use annals_core::agents::Agents;
use annals_core::chat_key::{ChatKey, KeyError};
pub use annals_core::chat_settings::GroupActivation;
use annals_core::language::Language;
use annals_core::person::Links;
use annals_core::record::Channel;
use annals_core::settings::{ConfigError, Env, Setting};
use annals_core::time_zone::TimeZone;

use crate::rate_limit::RateLimit;

/// Settings that all channels share.
pub const SETTINGS: [Setting; 12] = [
    AGENT_ID,
    AGENTS,
    LANGUAGE,
    TIME_ZONE,
    GROUP_ACTIVATION,
    DM_SCOPE,
    LINKS,
    Setting::described(
        ALLOW_FROM,
        "everybody",
        "Persons (`telegram-42`), comma-separated: [guide](guide.md#who-may-use-the-bot)",
    ),
    Setting::described(
        ALLOW_CHATS,
        "every chat",
        "ChatKeys, comma-separated (`telegram:chat:-100123`, `lark:chat:oc_…`, `agent:annals:channel:<guild>:<channel>`)",
    ),
    STREAM_REPLIES,
    DELIVERY_PACING,
    AGENT_MAXIMUM_TURNS,
];

const AGENT_ID: Setting = Setting::new(
    "AGENT_ID",
    "annals",
    "at most 64 bytes, no control characters. Changing it changes the ChatKeys of direct chats and of all of Discord: \
     entries of `ALLOW_CHATS` with the old one match nothing",
);
const AGENTS: Setting = Setting::described(
    "AGENTS",
    "one agent",
    "JSON rules that choose an `agent` of `AGENTS_FOLDER`: `[{\"agent\": \"support\", \"channel\": \"telegram\"}]`. \
     [Several agents](guide.md#several-agents)",
);
const LANGUAGE: Setting = Setting::new(
    "LANGUAGE",
    "auto",
    "`auto` (each person's), `en`, `zh`: the language of the bot's own texts. A list of locales, as desktops set it \
     (`en_GB:en`), is `auto`",
);
const TIME_ZONE: Setting = Setting::new(
    "TIME_ZONE",
    "UTC",
    "an IANA zone, such as `Asia/Shanghai`, for the times that the model is told; people may have one of their own",
);
const GROUP_ACTIVATION: Setting = Setting::new(
    "GROUP_ACTIVATION",
    "mention",
    "`mention`, `always`: which group messages ask for an answer",
);
const DM_SCOPE: Setting = Setting::new(
    "DM_SCOPE",
    "chat",
    "`chat`: a private chat has its own history. `user`: it is the [person's direct \
     chat](guide.md#one-person-in-several-channels); on Discord it always is",
);
const LINKS: Setting = Setting::described(
    "LINKS",
    "no one",
    "with `DM_SCOPE=user`: identities of one person, comma-separated, the one whose chat it is first; persons \
     separated by semicolons: `ada,telegram-42,lark-ou_ada;bo,telegram-43`",
);
const ALLOW_FROM: &str = "ALLOW_FROM";
const ALLOW_CHATS: &str = "ALLOW_CHATS";
const STREAM_REPLIES: Setting = Setting::new(
    "STREAM_REPLIES",
    "false",
    "`true`: private Telegram chats show the answer while it grows. Not in groups, nor in business chats",
);
const DELIVERY_PACING: Setting = Setting::new(
    "DELIVERY_PACING",
    "true",
    "`true` keeps to the platforms' [rates](channels.md#telegram-and-lark-compared); `false` does not",
);
const AGENT_MAXIMUM_TURNS: Setting = Setting::new(
    "AGENT_MAXIMUM_TURNS",
    "0",
    "deployed only, set by `AgentMaximumTurns`: the number of environments that share the bot's rate; `0`: each may \
     use all of it",
);

/// Settings of parsing messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `AGENT_ID`.
    pub agent_id: String,
    /// `GROUP_ACTIVATION`, for chats without a setting of their own.
    pub group_activation: GroupActivation,
    /// `DM_SCOPE`.
    pub dm_scope: DmScope,
    /// `LANGUAGE`; `None` for that of each person.
    pub language: Option<Language>,
}

impl Settings {
    /// Returns the direct chat of a person, to which a private chat with the bot belongs with `DM_SCOPE=user`.
    ///
    /// # Errors
    ///
    /// The id cannot be part of a key.
    pub fn direct(&self, channel: Channel, user_id: &str) -> Result<Option<ChatKey>, KeyError> {
        match self.dm_scope {
            DmScope::Chat => Ok(None),
            DmScope::User => ChatKey::direct(&self.agent_id, &channel.identity(user_id)).map(Some),
        }
    }
}

/// `DM_SCOPE`: history of a private chat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DmScope {
    /// The chat's own.
    #[default]
    Chat,
    /// The person's, shared by all channels.
    User,
}

/// Reads `AGENT_ID`, which is a part of chat keys.
pub fn agent_id(env: Env<'_>) -> Result<String, ConfigError> {
    let agent_id = env.value(&AGENT_ID);
    if agent_id.trim().is_empty() {
        return Err(ConfigError::new(AGENT_ID.name, "is blank: give a name, or unset it"));
    }
    if agent_id.len() > 64 {
        return Err(ConfigError::new(
            AGENT_ID.name,
            "is longer than 64 bytes: it is part of every direct chat's key",
        ));
    }
    ChatKey::direct(&agent_id, "x")
        .map_err(|error| ConfigError::new(AGENT_ID.name, format!("is unusable: {error}")))?;
    Ok(agent_id)
}

/// Reads `AGENT_ID` and `AGENTS`: the agents, and the rules that choose one.
pub fn agents(env: Env<'_>) -> Result<Agents, ConfigError> {
    let default = agent_id(env)?;
    match env.optional(AGENTS.name) {
        None => Ok(Agents::only(default)),
        Some(rules) => Agents::parse(default, &rules)
            .map_err(|error| ConfigError::new(AGENTS.name, format!("is not a list of rules: {error}"))),
    }
}

/// Reads `TIME_ZONE`.
pub fn time_zone(env: Env<'_>) -> Result<TimeZone, ConfigError> {
    TimeZone::named(&env.value(&TIME_ZONE)).ok_or_else(|| {
        ConfigError::new(TIME_ZONE.name, "must be a zone of the IANA database, such as Asia/Shanghai or UTC")
    })
}

/// Reads `LANGUAGE`: the language of the bot's own texts, or `None` for that of each person.
pub fn language(env: Env<'_>) -> Result<Option<Language>, ConfigError> {
    // Desktops set a variable of this name for themselves, to a list such as `zh_CN:zh`.
    if env.value(&LANGUAGE).contains([':', '_']) {
        return Ok(None);
    }
    let all = Language::ALL.map(|language| (language.code(), Some(language)));
    env.choice(&LANGUAGE, &[&[("auto", None)], &all[..]].concat())
}

/// Reads `DM_SCOPE`.
pub fn dm_scope(env: Env<'_>) -> Result<DmScope, ConfigError> {
    env.choice(&DM_SCOPE, &[("chat", DmScope::Chat), ("user", DmScope::User)])
}

/// Reads `LINKS`.
pub fn links(env: Env<'_>) -> Result<Links, ConfigError> {
    let links = Links::parse(&env.value(&LINKS));
    let links = links.map_err(|error| ConfigError::new(LINKS.name, error.to_string()))?;
    let agent_id = agent_id(env)?;
    for identity in links.identities() {
        ChatKey::direct(&agent_id, identity).map_err(|error| {
            ConfigError::new(LINKS.name, format!("has {identity:?}, which is not an identity: {error}"))
        })?;
    }
    Ok(links)
}

/// Reads the settings for parsing messages of every channel: `AGENT_ID`, `GROUP_ACTIVATION`, `DM_SCOPE`.
pub fn channel_settings(env: Env<'_>) -> Result<Settings, ConfigError> {
    let activations = [("mention", GroupActivation::Mention), ("always", GroupActivation::Always)];
    Ok(Settings {
        agent_id: agent_id(env)?,
        group_activation: env.choice(&GROUP_ACTIVATION, &activations)?,
        dm_scope: dm_scope(env)?,
        language: language(env)?,
    })
}

/// Reads `ALLOW_FROM` and `ALLOW_CHATS`, comma-separated. A variable that is not set allows everybody.
pub fn access(env: Env<'_>) -> Result<Access, ConfigError> {
    let entries = |variable: &str| {
        let value = env.optional(variable)?;
        Some(value.split(',').map(|entry| entry.trim().to_owned()).collect::<Vec<_>>())
    };
    let persons = entries(ALLOW_FROM);
    for person in persons.iter().flatten() {
        let is_platform = |name: &str| name.parse().is_ok_and(Channel::is_platform);
        let id = person.split_once('-').filter(|(channel, _)| is_platform(channel));
        if id.is_none_or(|(_, id)| id.is_empty()) {
            let forms: Vec<_> = Channel::platforms().map(|channel| format!("{channel}-<id>")).collect();
            let forms = forms.join(" or ");
            let problem = format!(
                "has {person:?}, which is not a Person of a platform: give {forms}, as the log names whom it refuses, with \
                 commas between"
            );
            return Err(ConfigError::new(ALLOW_FROM, problem));
        }
    }
    let chats = entries(ALLOW_CHATS).map(|chats| {
        let parse = |chat: &String| {
            chat.parse::<ChatKey>().map_err(|error| {
                let problem =
                    format!("has {chat:?}, which is not a ChatKey such as telegram:chat:-100123: {error}");
                ConfigError::new(ALLOW_CHATS, problem)
            })
        };
        chats.iter().map(parse).collect::<Result<Vec<_>, _>>()
    });
    Ok(Access { persons, chats: chats.transpose()? })
}

/// Returns the values of `names` if all are set, and `None` if none is.
///
/// # Errors
///
/// If only some are set, names one that is missing. If none is, none of `optional` may be set either.
pub fn all_or_none<const N: usize>(
    env: Env<'_>,
    names: [&str; N],
    optional: &[&str],
) -> Result<Option<[String; N]>, ConfigError> {
    let values = names.map(|name| env.optional(name));
    let Some(set) = values.iter().position(Option::is_some) else {
        let Some(alone) = optional.iter().find(|name| env.optional(name).is_some()) else { return Ok(None) };
        let others = names.join(", ");
        return Err(ConfigError::new(alone, format!("is set without {others}: set all, or unset it")));
    };
    if let Some(missing) = values.iter().position(Option::is_none) {
        let problem = format!("is not set, but {} is: set all, or none", names[set]);
        return Err(ConfigError::new(names[missing], problem));
    }
    Ok(Some(values.map(Option::unwrap_or_default)))
}

/// Settings of sending replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryConfig {
    /// `STREAM_REPLIES`: if true, private chats of Telegram see an answer grow.
    pub stream_replies: bool,
    /// `DELIVERY_PACING`: if true, messages are sent within the platforms' rate limits, instead of only reacting to
    /// 429s.
    pub is_rate_limited: bool,
    /// `AGENT_MAXIMUM_TURNS`: number of processes that share the bot's rate limit; 0 if it is not known.
    pub processes: u32,
}

impl DeliveryConfig {
    /// Reads the settings.
    pub fn from_env(env: Env<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            stream_replies: env.flag(&STREAM_REPLIES)?,
            is_rate_limited: env.flag(&DELIVERY_PACING)?,
            processes: env.number(&AGENT_MAXIMUM_TURNS, "a number of turns; 0 is no limit")?,
        })
    }

    /// Returns this process's share of the bot's rate limit.
    pub fn share_of(self, bot: RateLimit) -> Option<RateLimit> {
        self.is_rate_limited.then(|| bot.shared_by(self.processes))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use annals_core::settings::from_table;

    use super::*;

    fn with(settings: &[(&str, &str)]) -> Result<DeliveryConfig, String> {
        from_table(settings, DeliveryConfig::from_env)
    }

    #[test]
    fn processes_share_what_the_bot_may_send_unless_nobody_paces_it() {
        let bot = RateLimit::within(30, Duration::from_secs(1));
        let default = with(&[]).unwrap();
        assert_eq!((default.stream_replies, default.share_of(bot)), (false, Some(bot)));
        let shared = with(&[("AGENT_MAXIMUM_TURNS", "10"), ("STREAM_REPLIES", "true")]).unwrap();
        assert_eq!((shared.stream_replies, shared.share_of(bot)), (true, Some(bot.shared_by(10))));
        let off = with(&[("AGENT_MAXIMUM_TURNS", "10"), ("DELIVERY_PACING", "false")]).unwrap();
        assert_eq!(off.share_of(bot), None);
        let error = with(&[("AGENT_MAXIMUM_TURNS", "many")]).unwrap_err();
        assert_eq!(error, "AGENT_MAXIMUM_TURNS must be a number of turns; 0 is no limit");
        assert_eq!(
            with(&[("DELIVERY_PACING", "no")]).unwrap_err(),
            "DELIVERY_PACING must be one of: true, false"
        );
    }

    #[test]
    fn a_desktops_list_of_locales_fixes_no_language() {
        let of = |value| from_table(&[("LANGUAGE", value)], language);
        for auto in ["", "auto", "en_GB:en", "zh_CN"] {
            assert_eq!(of(auto), Ok(None), "{auto}");
        }
        assert_eq!((of("en"), of("zh")), (Ok(Some(Language::En)), Ok(Some(Language::Zh))));
        assert_eq!(of("hunter2").unwrap_err(), "LANGUAGE must be one of: auto, en, zh");
    }

    #[test]
    fn an_agent_has_a_name() {
        let of = |value| from_table(&[("AGENT_ID", value)], agent_id);
        assert_eq!((of(""), of("my bot")), (Ok("annals".into()), Ok("my bot".into())));
        for wrong in [" ", "\t", &"x".repeat(65)] {
            assert!(of(wrong).unwrap_err().starts_with("AGENT_ID is "), "{wrong:?}");
        }
    }

    #[test]
    fn links_name_the_setting_in_their_errors() {
        let of = |value| from_table(&[("LINKS", value)], links);
        assert_eq!(of("").unwrap(), Links::default());
        assert_eq!(of("ada,telegram-42").unwrap().person_of("telegram-42"), Some("ada"));
        for wrong in ["ada", "ada,ada", "ada,b\u{7}"] {
            assert!(of(wrong).unwrap_err().starts_with("LINKS "), "{wrong:?}");
        }
    }

    #[test]
    fn who_may_use_the_bot_is_read_strictly() {
        let of = |from, chats| from_table(&[("ALLOW_FROM", from), ("ALLOW_CHATS", chats)], access);
        assert!(of("", "").unwrap().is_open());
        let access =
            of("telegram-42, lark-ou_ada,telegram--1001", "telegram:chat:-7,feishu:chat:oc_1").unwrap();
        assert_eq!(access.persons.unwrap(), ["telegram-42", "lark-ou_ada", "telegram--1001"]);
        assert_eq!(
            access.chats.unwrap().iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["telegram:chat:-7", "lark:chat:oc_1"]
        );
        for wrong in ["42", "ada", "telegram-", "telegram-42,,lark-1", "http-ada"] {
            assert!(of(wrong, "").unwrap_err().starts_with("ALLOW_FROM has "), "{wrong}");
        }
        for wrong in ["-7", "telegram", "telegram:chat:", "telegram:chat:1,"] {
            assert!(of("", wrong).unwrap_err().starts_with("ALLOW_CHATS has "), "{wrong}");
        }
    }
}
