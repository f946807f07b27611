//! Identity of the bot that receives the updates.

/// The bot that receives the updates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bot {
    /// User id: the digits before the `:` of its token.
    pub id: i64,
    /// User name, without `@`. Required only for updates for which [`needs_username`](super::parse::needs_username)
    /// returns true.
    pub username: Option<String>,
}
