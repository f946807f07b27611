//! The bot that events are for.

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
