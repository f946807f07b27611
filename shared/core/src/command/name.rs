//! The commands that people are told of: [`CommandName`].

use crate::names::listed;

listed! {
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
}
