//! Settings of Lark's channel: all or none.

use annals_channel::settings::all_or_none;
use annals_core::settings::{ConfigError, Env};
use secrecy::SecretString;

/// Secrets and settings of Lark.
#[derive(Clone, Debug)]
pub struct LarkConfig {
    /// `LARK_APP_ID`
    pub app_id: String,
    /// `LARK_APP_SECRET`
    pub app_secret: SecretString,
    /// `LARK_VERIFICATION_TOKEN`
    pub verification_token: SecretString,
    /// `LARK_ENCRYPT_KEY`, if the app encrypts its events.
    pub encrypt_key: Option<SecretString>,
    /// `LARK_API_BASE`
    pub api_base: String,
    /// `LARK_GROUP_CONTEXT`: maximum number of group messages that are fetched around one that addresses the bot; 0
    /// fetches none.
    pub group_context: usize,
}

impl LarkConfig {
    /// Reads the settings. The encrypt key is optional. Returns `None` if nothing is set.
    ///
    /// # Errors
    ///
    /// Fails if only a part is set, or a value is malformed.
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

#[cfg(test)]
mod tests {
    use annals_core::settings::from_table;

    use super::*;

    fn with(settings: &[(&str, &str)]) -> Result<Option<LarkConfig>, String> {
        from_table(settings, LarkConfig::from_env)
    }

    #[test]
    fn lark_is_set_wholly_or_not_at_all_and_its_encrypt_key_goes_only_with_the_rest() {
        assert!(with(&[]).unwrap().is_none());
        let error = with(&[("LARK_APP_ID", "cli_1"), ("LARK_APP_SECRET", "s")]).unwrap_err();
        assert_eq!(error, "LARK_VERIFICATION_TOKEN is not set, but LARK_APP_ID is: set all, or none");
        assert!(
            with(&[("LARK_ENCRYPT_KEY", "k")]).unwrap_err().starts_with("LARK_ENCRYPT_KEY is set without")
        );
        let all = [("LARK_APP_ID", "cli_1"), ("LARK_APP_SECRET", "s"), ("LARK_VERIFICATION_TOKEN", "t")];
        let config = with(&all).unwrap().unwrap();
        assert_eq!((config.group_context, config.encrypt_key.is_none()), (25, true));
        assert_eq!(config.api_base, "https://open.feishu.cn");
    }
}
