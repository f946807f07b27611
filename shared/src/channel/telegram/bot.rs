//! The bot that updates are for, and the settings by which they are read.

/// The bot that the updates are for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bot {
    /// Its user id: the digits before the `:` of its token.
    pub id: i64,
    /// Its name, without `@`. Needed only where [`needs_username`](super::parse::needs_username) says so.
    pub username: Option<String>,
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

/// `GROUP_ACTIVATION`: which messages of a group or channel ask for an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupActivation {
    /// Those that address the bot.
    #[default]
    Mention,
    /// Every person's.
    Always,
}

/// `DM_SCOPE`: which history a private chat has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DmScope {
    /// Its own.
    #[default]
    Chat,
    /// The person's, through every door.
    User,
}
