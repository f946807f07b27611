//! Identity of the bot that receives the events.

/// The bot that receives the events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bot {
    /// `LARK_APP_ID` (`cli_…`): the bot's id as a sender in the API.
    pub app_id: Option<String>,
    /// `open_id` (`ou_…`): the bot's id in mentions. Required only for events for which
    /// [`needs_open_id`](super::parse::needs_open_id) returns true.
    pub open_id: Option<String>,
}

impl Bot {
    /// Returns true if `id` is one of the bot's ids.
    pub(super) fn is(&self, id: &str) -> bool {
        [&self.app_id, &self.open_id].into_iter().any(|own| own.as_deref() == Some(id))
    }
}
