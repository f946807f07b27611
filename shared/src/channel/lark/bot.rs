//! The bot that events are for, and the settings by which they are read.

pub use crate::channel::telegram::bot::{DmScope, GroupActivation};

/// The bot that the events are for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bot {
    /// `LARK_APP_ID` (`cli_…`): by what the API names the bot as a sender.
    pub app_id: Option<String>,
    /// Its `open_id` (`ou_…`): by what mentions name it. Needed only where
    /// [`needs_open_id`](super::parse::needs_open_id) says so.
    pub open_id: Option<String>,
}

impl Bot {
    /// Whether `id` is one of the bot's own.
    pub(super) fn is(&self, id: &str) -> bool {
        [&self.app_id, &self.open_id].into_iter().any(|own| own.as_deref() == Some(id))
    }
}

/// The settings that parsing depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `AGENT_ID`.
    pub agent_id: String,
    /// `GROUP_ACTIVATION`.
    pub group_activation: GroupActivation,
    /// `DM_SCOPE`.
    pub dm_scope: DmScope,
}
