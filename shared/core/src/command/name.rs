//! The commands that people are told of: [`CommandName`].

use crate::names::string_enum;

/// A command in `/help`, in this order, and in a platform's menu. `/start` is not one, since nobody types it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandName {
    New,
    Reset,
    Stop,
    Compact,
    Memory,
    Forget,
    Approve,
    Deny,
    Link,
    Unlink,
    Remind,
    Usage,
    TimeZone,
    Help,
}

string_enum!(CommandName {
    New => "new", Reset => "reset", Stop => "stop", Compact => "compact", Memory => "memory", Forget => "forget",
    Approve => "approve", Deny => "deny", Link => "link", Unlink => "unlink", Remind => "remind", Usage => "usage",
    TimeZone => "timezone", Help => "help",
});
