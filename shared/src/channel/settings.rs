//! The settings by which every platform's messages are read.

/// What parsing depends on beside the message and the bot.
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
