//! Settings of Lark's channel: all or none.

use annals_channel::settings::{GroupActivation, all_or_none, channel_settings};
use annals_core::settings::{ConfigError, Env, Setting};
use secrecy::SecretString;

/// Settings of Lark.
pub const SETTINGS: [Setting; 6] = [
    Setting::optional(
        APP_ID,
        "all three or none. None: locally the outbox, with `dev-lark-token` or the data directory's key; deployed, no Lark",
    ),
    Setting::optional(APP_SECRET, "the app's secret"),
    Setting::optional(VERIFICATION_TOKEN, "the token of event subscriptions"),
    Setting::optional(
        ENCRYPT_KEY,
        "any text, only with the three above. With it, plain and unsigned events are refused; without it, encrypted ones",
    ),
    API_BASE,
    GROUP_CONTEXT,
];

pub(crate) const APP_ID: &str = "LARK_APP_ID";
pub(crate) const APP_SECRET: &str = "LARK_APP_SECRET";
pub(crate) const VERIFICATION_TOKEN: &str = "LARK_VERIFICATION_TOKEN";
pub(crate) const NEEDED: [&str; 3] = [APP_ID, APP_SECRET, VERIFICATION_TOKEN];
pub(crate) const ENCRYPT_KEY: &str = "LARK_ENCRYPT_KEY";
pub(crate) const API_BASE: Setting = Setting::new(
    "LARK_API_BASE",
    "https://open.feishu.cn",
    "an `http` or `https` URL; `https://open.larksuite.com` outside China",
);
const GROUP_CONTEXT: Setting = Setting::new(
    "LARK_GROUP_CONTEXT",
    "25",
    "how many of the newest messages of a Lark group or thread are fetched before the bot answers there; `0` fetches \
     none",
);

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
    /// fetches none. It is 0 if every message of a group comes as an event that asks.
    pub group_context: usize,
}

impl LarkConfig {
    /// Reads the settings. The encrypt key is optional. Returns `None` if nothing is set.
    pub fn from_env(env: Env<'_>) -> Result<Option<Self>, ConfigError> {
        let group_context = env.number(&GROUP_CONTEXT, "a number of messages; 0 fetches none")?;
        let Some([app_id, app_secret, verification_token]) = all_or_none(env, NEEDED, &[ENCRYPT_KEY])? else {
            return Ok(None);
        };
        let hears_all = channel_settings(env)?.group_activation == GroupActivation::Always;
        Ok(Some(Self {
            app_id,
            app_secret: app_secret.into(),
            verification_token: verification_token.into(),
            encrypt_key: env.optional(ENCRYPT_KEY).map(SecretString::from),
            api_base: env.value(&API_BASE),
            group_context: if hears_all { 0 } else { group_context },
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
        for wrong in ["x", "-1"] {
            let error = with(&[("LARK_GROUP_CONTEXT", wrong)]).unwrap_err();
            assert_eq!(error, "LARK_GROUP_CONTEXT must be a number of messages; 0 fetches none");
        }
        let all = [("LARK_APP_ID", "cli_1"), ("LARK_APP_SECRET", "s"), ("LARK_VERIFICATION_TOKEN", "t")];
        let config = with(&all).unwrap().unwrap();
        assert_eq!((config.group_context, config.encrypt_key.is_none()), (25, true));
        assert_eq!(config.api_base, "https://open.feishu.cn");
        // Each message of a group then arrives as an event that asks.
        let always = with(&[&all[..], &[("GROUP_ACTIVATION", "always")]].concat()).unwrap().unwrap();
        assert_eq!(always.group_context, 0);
    }
}
