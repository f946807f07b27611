//! The bot that updates are for.

/// The bot that the updates are for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bot {
    /// Its user id: the digits before the `:` of its token.
    pub id: i64,
    /// Its name, without `@`. Needed only where [`needs_username`](super::parse::needs_username) says so.
    pub username: Option<String>,
}
