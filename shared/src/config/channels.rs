//! Settings of the channels: each all or nothing.

use secrecy::SecretString;

use super::{ConfigError, Env, agent_id};
use crate::access::Access;
use crate::channel::settings::{DmScope, GroupActivation, Settings};
use crate::chat_key::ChatKey;

/// Telegram's secrets and settings.
#[derive(Clone, Debug)]
pub struct TelegramConfig {
    /// `TELEGRAM_BOT_TOKEN`
    pub token: SecretString,
    /// The bot's id: the number that its token starts with.
    pub bot_id: i64,
    /// `TELEGRAM_WEBHOOK_SECRET`
    pub secret: SecretString,
    /// `TELEGRAM_API_BASE`
    pub api_base: String,
}

impl TelegramConfig {
    /// From the environment: all of it, none of it (`None`), or an error that names what is missing.
    pub fn from_env(env: Env<'_>) -> Result<Option<Self>, ConfigError> {
        let variables = ["TELEGRAM_BOT_TOKEN", "TELEGRAM_WEBHOOK_SECRET"];
        let Some([token, secret]) = all_or_none(env, variables)? else { return Ok(None) };
        let bot_id = token.split_once(':').and_then(|(id, _)| id.parse().ok()).ok_or_else(|| {
            ConfigError::new("TELEGRAM_BOT_TOKEN", "must look like 123456:ABC…, as @BotFather gives it")
        })?;
        // https://core.telegram.org/bots/api#setwebhook, secret_token
        let is_secret = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if secret.len() > 256 || !secret.chars().all(is_secret) {
            let problem = "must be 1 to 256 characters of A-Z, a-z, 0-9, _ and -, as Telegram wants it";
            return Err(ConfigError::new("TELEGRAM_WEBHOOK_SECRET", problem));
        }
        let api_base = env.optional("TELEGRAM_API_BASE").unwrap_or_else(|| "https://api.telegram.org".into());
        Ok(Some(Self { token: token.into(), bot_id, secret: secret.into(), api_base }))
    }
}

/// Lark's secrets and settings.
#[derive(Clone, Debug)]
pub struct LarkConfig {
    /// `LARK_APP_ID`
    pub app_id: String,
    /// `LARK_APP_SECRET`
    pub app_secret: SecretString,
    /// `LARK_VERIFICATION_TOKEN`
    pub verification_token: SecretString,
    /// `LARK_ENCRYPT_KEY`, where the app encrypts its events.
    pub encrypt_key: Option<SecretString>,
    /// `LARK_API_BASE`
    pub api_base: String,
    /// `LARK_GROUP_CONTEXT`: how many messages of a group are fetched around one that addresses the bot; 0 none.
    pub group_context: usize,
}

impl LarkConfig {
    /// From the environment: all of it (the encrypt key may be missing), none of it (`None`), or an error that names
    /// what is missing.
    pub fn from_env(env: Env<'_>) -> Result<Option<Self>, ConfigError> {
        let variables = ["LARK_APP_ID", "LARK_APP_SECRET", "LARK_VERIFICATION_TOKEN"];
        let encrypt_key = env.optional("LARK_ENCRYPT_KEY");
        let Some([app_id, app_secret, verification_token]) = all_or_none(env, variables)? else {
            return match encrypt_key {
                Some(_) => Err(ConfigError::new(
                    "LARK_ENCRYPT_KEY",
                    "is set without LARK_APP_ID, LARK_APP_SECRET and LARK_VERIFICATION_TOKEN: set those too, or unset it",
                )),
                None => Ok(None),
            };
        };
        Ok(Some(Self {
            app_id,
            app_secret: app_secret.into(),
            verification_token: verification_token.into(),
            encrypt_key: encrypt_key.map(SecretString::from),
            api_base: env.optional("LARK_API_BASE").unwrap_or_else(|| "https://open.feishu.cn".into()),
            group_context: env.number("LARK_GROUP_CONTEXT", 25, "a number of messages; 0 fetches none")?,
        }))
    }
}

/// How every channel's messages are read: `AGENT_ID`, `GROUP_ACTIVATION`, `DM_SCOPE`.
pub fn channel_settings(env: Env<'_>) -> Result<Settings, ConfigError> {
    let activations = [("mention", GroupActivation::Mention), ("always", GroupActivation::Always)];
    Ok(Settings {
        agent_id: agent_id(env)?,
        group_activation: env.choice("GROUP_ACTIVATION", &activations, &GroupActivation::Mention)?,
        dm_scope: env.choice(
            "DM_SCOPE",
            &[("chat", DmScope::Chat), ("user", DmScope::User)],
            &DmScope::Chat,
        )?,
    })
}

/// `ALLOW_FROM` and `ALLOW_CHATS`, comma-separated; one that is not set admits everybody.
pub fn access(env: Env<'_>) -> Result<Access, ConfigError> {
    let entries = |variable: &str| {
        let value = env.optional(variable)?;
        Some(value.split(',').map(|entry| entry.trim().to_owned()).collect::<Vec<_>>())
    };
    let persons = entries("ALLOW_FROM");
    for person in persons.iter().flatten() {
        let id =
            person.split_once('-').filter(|(channel, _)| matches!(*channel, "telegram" | "lark" | "discord"));
        if id.is_none_or(|(_, id)| id.is_empty()) {
            let problem = format!(
                "has {person:?}, which is not a Person of a platform: give telegram-<id>, lark-<open_id> or \
                 discord-<id>, with commas between"
            );
            return Err(ConfigError::new("ALLOW_FROM", problem));
        }
    }
    let chats = entries("ALLOW_CHATS").map(|chats| {
        let parse = |chat: &String| {
            chat.parse::<ChatKey>().map_err(|error| {
                let problem =
                    format!("has {chat:?}, which is not a ChatKey such as telegram:chat:-100123: {error}");
                ConfigError::new("ALLOW_CHATS", problem)
            })
        };
        chats.iter().map(parse).collect::<Result<Vec<_>, _>>()
    });
    Ok(Access { persons, chats: chats.transpose()? })
}

fn all_or_none<const N: usize>(env: Env<'_>, names: [&str; N]) -> Result<Option<[String; N]>, ConfigError> {
    let values = names.map(|name| env.optional(name));
    let Some(set) = values.iter().position(Option::is_some) else { return Ok(None) };
    if let Some(missing) = values.iter().position(Option::is_none) {
        let problem = format!("is not set, but {} is: set all, or none", names[set]);
        return Err(ConfigError::new(names[missing], problem));
    }
    Ok(Some(values.map(Option::unwrap_or_default)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lark(settings: &[(&str, &str)]) -> Result<Option<LarkConfig>, String> {
        let lookup =
            |name: &str| settings.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
        LarkConfig::from_env(Env::new(&lookup)).map_err(|error| error.to_string())
    }

    #[test]
    fn who_may_use_the_bot_is_read_strictly() {
        let of = |from: &str, chats: &str| {
            let lookup = |name: &str| match name {
                "ALLOW_FROM" => Some(from.to_owned()),
                "ALLOW_CHATS" => Some(chats.to_owned()),
                _ => None,
            };
            access(Env::new(&lookup)).map_err(|error| error.to_string())
        };
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

    #[test]
    fn lark_is_set_wholly_or_not_at_all_and_its_encrypt_key_goes_only_with_the_rest() {
        assert!(lark(&[]).unwrap().is_none());
        let error = lark(&[("LARK_APP_ID", "cli_1"), ("LARK_APP_SECRET", "s")]).unwrap_err();
        assert_eq!(error, "LARK_VERIFICATION_TOKEN is not set, but LARK_APP_ID is: set all, or none");
        assert!(
            lark(&[("LARK_ENCRYPT_KEY", "k")]).unwrap_err().starts_with("LARK_ENCRYPT_KEY is set without")
        );
        let all = [("LARK_APP_ID", "cli_1"), ("LARK_APP_SECRET", "s"), ("LARK_VERIFICATION_TOKEN", "t")];
        let config = lark(&all).unwrap().unwrap();
        assert_eq!((config.group_context, config.encrypt_key.is_none()), (25, true));
        assert_eq!(config.api_base, "https://open.feishu.cn");
    }
}
