//! Settings of Discord's channel: application id and public key, both or neither; a bot token beside them.

use annals_channel::settings::all_or_none;
use annals_core::settings::{ConfigError, Env, Setting};
use secrecy::SecretString;

use crate::bot::Bot;
use crate::verify::{KEY_BYTES, public_key};

/// Settings of Discord.
pub const SETTINGS: [Setting; 4] = [
    Setting::optional(
        APPLICATION_ID,
        "both or neither: the application's number. Neither: locally the outbox, with a development key pair or one of the \
         data directory's key; deployed, no Discord",
    ),
    Setting::optional(PUBLIC_KEY, "the application's public key: 64 hexadecimal digits"),
    Setting::optional(
        BOT_TOKEN,
        "the bot's token, only with the two above. Without it the bot answers commands alone: \
         [channels](channels.md#discord)",
    ),
    API_BASE,
];

pub(crate) const APPLICATION_ID: &str = "DISCORD_APPLICATION_ID";
pub(crate) const PUBLIC_KEY: &str = "DISCORD_PUBLIC_KEY";
pub(crate) const BOT_TOKEN: &str = "DISCORD_BOT_TOKEN";
pub(crate) const API_BASE: Setting =
    Setting::new("DISCORD_API_BASE", "https://discord.com/api/v10", "an `http` or `https` URL");

/// Secrets and settings of Discord.
#[derive(Clone, Debug)]
pub struct DiscordConfig {
    /// `DISCORD_APPLICATION_ID`
    pub application_id: String,
    /// `DISCORD_PUBLIC_KEY`
    pub public_key: [u8; KEY_BYTES],
    /// `DISCORD_BOT_TOKEN`
    pub bot_token: Option<SecretString>,
    /// `DISCORD_API_BASE`
    pub api_base: String,
    /// The application's bot.
    pub bot: Bot,
}

impl DiscordConfig {
    /// Reads the settings. The bot token is optional. Returns `None` if nothing is set.
    pub fn from_env(env: Env<'_>) -> Result<Option<Self>, ConfigError> {
        let Some([application_id, key]) = all_or_none(env, [APPLICATION_ID, PUBLIC_KEY], &[BOT_TOKEN])?
        else {
            return Ok(None);
        };
        let bot_token = env.optional(BOT_TOKEN);
        if application_id.is_empty() || !application_id.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(ConfigError::new(
                APPLICATION_ID,
                "must be a number, as the developer portal shows it",
            ));
        }
        let public_key = public_key(&key).ok_or_else(|| {
            ConfigError::new(PUBLIC_KEY, "must be 64 hexadecimal digits, as the developer portal shows it")
        })?;
        let bot = Bot::of(&application_id, bot_token.as_deref());
        let bot_token = bot_token.map(SecretString::from);
        Ok(Some(Self { application_id, public_key, bot_token, api_base: env.value(&API_BASE), bot }))
    }
}

#[cfg(test)]
mod tests {
    use annals_core::settings::from_table;

    use super::*;

    const KEY: &str = "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8";

    fn with(settings: &[(&str, &str)]) -> Result<Option<DiscordConfig>, String> {
        from_table(settings, DiscordConfig::from_env)
    }

    #[test]
    fn discord_is_set_wholly_or_not_at_all_and_its_token_goes_only_with_the_rest() {
        assert!(with(&[]).unwrap().is_none());
        let error = with(&[(APPLICATION_ID, "1")]).unwrap_err();
        assert_eq!(error, "DISCORD_PUBLIC_KEY is not set, but DISCORD_APPLICATION_ID is: set all, or none");
        assert!(with(&[(BOT_TOKEN, "t")]).unwrap_err().starts_with("DISCORD_BOT_TOKEN is set without"));
        let config = with(&[(APPLICATION_ID, "1457469483726668048"), (PUBLIC_KEY, KEY)]).unwrap().unwrap();
        assert_eq!((config.bot.id.as_str(), config.bot_token.is_none()), ("1457469483726668048", true));
        assert_eq!(config.api_base, "https://discord.com/api/v10");
        for (id, key, wrong) in
            [("app", KEY, APPLICATION_ID), ("1", "03a1", PUBLIC_KEY), ("1", "x", PUBLIC_KEY)]
        {
            let error = with(&[(APPLICATION_ID, id), (PUBLIC_KEY, key)]).unwrap_err();
            assert!(error.starts_with(wrong), "{error}");
        }
    }
}
