//! The commands that people are told of: [`CommandName`].

/// A command in `/help` and in a platform's menu. `/start` is not one, since nobody types it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandName {
    /// `/new`
    New,
    /// `/reset`
    Reset,
    /// `/stop`
    Stop,
    /// `/compact`
    Compact,
    /// `/memory`
    Memory,
    /// `/forget`
    Forget,
    /// `/approve`
    Approve,
    /// `/deny`
    Deny,
    /// `/link`
    Link,
    /// `/unlink`
    Unlink,
    /// `/remind`
    Remind,
    /// `/usage`
    Usage,
    /// `/timezone`
    TimeZone,
    /// `/help`
    Help,
}

impl CommandName {
    /// All, in the order of `/help`.
    pub const ALL: [Self; 14] = [
        Self::New,
        Self::Reset,
        Self::Stop,
        Self::Compact,
        Self::Memory,
        Self::Forget,
        Self::Approve,
        Self::Deny,
        Self::Link,
        Self::Unlink,
        Self::Remind,
        Self::Usage,
        Self::TimeZone,
        Self::Help,
    ];
}
