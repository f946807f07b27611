//! Settings of Telegram's channel: all or none.

use annals_channel::settings::all_or_none;
use annals_core::settings::{ConfigError, Env, Setting};
use secrecy::SecretString;

/// Settings of Telegram.
pub const SETTINGS: [Setting; 3] = [
    Setting::optional(
        TOKEN,
        "both or neither. Neither: locally the outbox, with `dev-telegram-secret` or the data directory's key; \
         deployed, no Telegram",
    ),
    Setting::optional(SECRET, "1 to 256 of `A-Z a-z 0-9 _ -`"),
    API_BASE,
];

pub(crate) const TOKEN: &str = "TELEGRAM_BOT_TOKEN";
pub(crate) const SECRET: &str = "TELEGRAM_WEBHOOK_SECRET";
/// Header with the secret that was given to `setWebhook`.
pub(crate) const SECRET_HEADER: &str = "X-Telegram-Bot-Api-Secret-Token";
pub(crate) const API_BASE: Setting =
    Setting::new("TELEGRAM_API_BASE", "https://api.telegram.org", "an `http` or `https` URL");

/// Secrets and settings of Telegram.
#[derive(Clone, Debug)]
pub struct TelegramConfig {
    /// `TELEGRAM_BOT_TOKEN`
    pub token: SecretString,
    /// Id of the bot: the number at the start of its token.
    pub bot_id: i64,
    /// `TELEGRAM_WEBHOOK_SECRET`
    pub secret: SecretString,
    /// `TELEGRAM_API_BASE`
    pub api_base: String,
}

impl TelegramConfig {
    /// Reads the settings. Returns `None` if nothing is set.
    pub fn from_env(env: Env<'_>) -> Result<Option<Self>, ConfigError> {
        let Some([token, secret]) = all_or_none(env, [TOKEN, SECRET], &[])? else { return Ok(None) };
        let bot_id = token
            .split_once(':')
            .and_then(|(id, _)| id.parse().ok())
            .ok_or_else(|| ConfigError::new(TOKEN, "must look like 123456:ABC…, as @BotFather gives it"))?;
        // https://core.telegram.org/bots/api#setwebhook, secret_token
        let is_secret = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if secret.len() > 256 || !secret.chars().all(is_secret) {
            let problem = "must be 1 to 256 characters of A-Z, a-z, 0-9, _ and -, as Telegram wants it";
            return Err(ConfigError::new(SECRET, problem));
        }
        let api_base = env.value(&API_BASE);
        Ok(Some(Self { token: token.into(), bot_id, secret: secret.into(), api_base }))
    }
}

#[cfg(test)]
mod tests {
    use annals_core::settings::from_table as with;

    use super::*;

    #[test]
    fn a_channel_is_set_wholly_or_not_at_all() {
        let error = with(&[("TELEGRAM_BOT_TOKEN", "1:x")], TelegramConfig::from_env).unwrap_err();
        assert_eq!(error, "TELEGRAM_WEBHOOK_SECRET is not set, but TELEGRAM_BOT_TOKEN is: set all, or none");
        let empty = [("TELEGRAM_BOT_TOKEN", ""), ("TELEGRAM_WEBHOOK_SECRET", "")];
        assert!(with(&empty, TelegramConfig::from_env).unwrap().is_none());
        let both = [("TELEGRAM_BOT_TOKEN", "77:x"), ("TELEGRAM_WEBHOOK_SECRET", "s-3")];
        assert_eq!(with(&both, TelegramConfig::from_env).unwrap().unwrap().bot_id, 77);
    }
}
