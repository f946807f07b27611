//! Settings of how replies go out.

use super::{ConfigError, Env};
use crate::pace::Pace;

/// How replies go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryConfig {
    /// `STREAM_REPLIES`: whether private chats of Telegram see an answer grow.
    pub stream_replies: bool,
    /// `DELIVERY_PACING`: whether the platforms' limits are kept to, and not only met.
    pub is_paced: bool,
    /// `AGENT_MAXIMUM_TURNS`: how many processes share what a bot may send; 0 where nobody says.
    pub processes: u32,
}

impl DeliveryConfig {
    /// From the environment.
    pub fn from_env(env: Env<'_>) -> Result<Self, ConfigError> {
        let choices = [("true", true), ("false", false)];
        Ok(Self {
            stream_replies: env.choice("STREAM_REPLIES", &choices, &false)?,
            is_paced: env.choice("DELIVERY_PACING", &choices, &true)?,
            processes: env.number("AGENT_MAXIMUM_TURNS", 0, "a number of turns; 0 is no limit")?,
        })
    }

    /// A process's part of what a bot may send.
    pub fn share(&self, of_bot: Pace) -> Option<Pace> {
        self.is_paced.then(|| of_bot.shared_by(self.processes))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn with(settings: &[(&str, &str)]) -> Result<DeliveryConfig, String> {
        let lookup =
            |name: &str| settings.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
        DeliveryConfig::from_env(Env::new(&lookup)).map_err(|error| error.to_string())
    }

    #[test]
    fn processes_share_what_the_bot_may_send_unless_nobody_paces_it() {
        let bot = Pace::within(30, Duration::from_secs(1));
        let default = with(&[]).unwrap();
        assert_eq!((default.stream_replies, default.share(bot)), (false, Some(bot)));
        let shared = with(&[("AGENT_MAXIMUM_TURNS", "10"), ("STREAM_REPLIES", "true")]).unwrap();
        assert_eq!((shared.stream_replies, shared.share(bot)), (true, Some(bot.shared_by(10))));
        let off = with(&[("AGENT_MAXIMUM_TURNS", "10"), ("DELIVERY_PACING", "false")]).unwrap();
        assert_eq!(off.share(bot), None);
        let error = with(&[("AGENT_MAXIMUM_TURNS", "many")]).unwrap_err();
        assert_eq!(error, "AGENT_MAXIMUM_TURNS must be a number of turns; 0 is no limit");
        assert_eq!(
            with(&[("DELIVERY_PACING", "no")]).unwrap_err(),
            "DELIVERY_PACING must be one of: true, false"
        );
    }
}
