//! The texts that the bot itself says to people, in each language: [`Texts`], and among them [`Plain`] ones.
//!
//! # Layout
//!
//! - [`en`], [`zh`]: the languages. A further one is a file like these, and a variant of
//!   [`Language`](crate::language::Language), whose matches the compiler then names.
//!
//! Texts are Markdown. What callers of the API and models are told is English and is not here; what `doctor` finds is in
//! `annals_channel::finding`.

/// Writes the methods of a language that need no code, one a line: a constant text, or a text with its arguments in it.
macro_rules! texts {
    (@signature $(#[$doc:meta])* $name:ident()) => {
        $(#[$doc])*
        fn $name(&self) -> &'static str;
    };
    (@signature $(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),+)) => {
        $(#[$doc])*
        fn $name(&self, $($argument: $type),+) -> String;
    };
    (@method $name:ident() $text:literal) => {
        fn $name(&self) -> &'static str {
            $text
        }
    };
    (@method $name:ident($($argument:ident: $type:ty),+) $text:literal) => {
        fn $name(&self, $($argument: $type),+) -> String {
            format!($text)
        }
    };
    ($($name:ident($($argument:ident: $type:ty),*) => $text:literal;)+) => {
        $(texts!(@method $name($($argument: $type),*) $text);)+
    };
}

/// Declares these methods by their English texts, so that each is named once beside its translations.
macro_rules! declare_texts {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) => $text:literal;)+) => {
        /// The texts that need no code in any language.
        pub trait Plain {
            $(texts!(@signature $(#[$doc])* $name($($argument: $type),*));)+
        }

        impl Plain for En {
            texts! { $($name($($argument: $type),*) => $text;)+ }
        }

        /// Returns each of these texts in a language, with the name of its method.
        #[cfg(test)]
        pub(super) fn plain(
            texts: &dyn Texts,
            arguments: &super::tests::Arguments,
        ) -> Vec<(&'static str, String)> {
            vec![$((
                stringify!($name),
                String::from(texts.$name($(<$type as super::tests::Sample<'_>>::of(arguments)),*)),
            )),+]
        }
    };
}

pub mod en;
pub mod zh;

use std::fmt::Debug;

pub use self::en::Plain;
use crate::command::name::CommandName;
use crate::limits::{Amount, Quota};
use crate::media::Unseen;
use crate::memory::EntryKind;
use crate::record::Channel;
use crate::time_zone::TimeZone;

/// The texts of one language. [`en`] shows what each says; only what it does not show is documented here.
pub trait Texts: Plain + Debug + Sync {
    /// Returns the locales of Discord whose people read these texts; none for those that everybody else reads.
    fn discord_locales(&self) -> &'static [&'static str];

    /// Returns the syntax and the description of a command. The description has at most 100 characters.
    fn command(&self, name: CommandName) -> (&'static str, &'static str);
    /// Describes an option of a command of Discord, in at most 100 characters.
    fn option(&self, option: CommandOption) -> &'static str;

    /// Says how many messages a `/compact` counted in a summary, and how many of the last ones stay.
    fn compacted(&self, counted: u32, kept: usize) -> String;

    /// Confirms a reminder, which next comes at `date`; `repeats` is the cron pattern of one that comes again.
    fn reminder_set(&self, text: &str, date: &str, repeats: Option<&str>, id: &str) -> String;
    /// Returns what the model is asked by a schedule that was due at `date`; if it is late, as of `late_at`.
    fn scheduled_prompt(&self, prompt: &str, date: &str, late_at: Option<&str>) -> String;

    /// Names the files that the model was not shown, by reason, in one line.
    fn files_not_shown(&self, groups: &[FilesNotShown]) -> String;
    /// Gives the reason why the model is not shown a file.
    fn not_shown(&self, why: NotShown) -> &'static str;
    /// Names a kind of file, such as `voice message` or `image`.
    fn file_kind(&self, kind: &str) -> String;

    /// Says how to answer the one request, or if `numbered` one of several.
    fn how_to_answer(&self, numbered: bool) -> &'static str;
    /// Labels the button that approves or denies a call.
    fn button(&self, approved: bool) -> &'static str;
    /// Confirms that a call is approved or denied, now or `already`.
    fn verdict(&self, tool: &str, approved: bool, already: bool) -> String;
    fn approval_recorded(&self, tool: &str, missing: usize) -> String;
    /// Shows a request after which something else was said, to be answered by one of `commands`.
    fn request_again(&self, question: &str, commands: &[String]) -> String;

    /// Introduces a list of entries of memory.
    fn remembered(&self, of: Whose) -> &'static str;
    fn nothing_remembered(&self, of: Whose) -> &'static str;
    fn entry(&self, entry: &EntryDescription<'_>) -> String;
    /// Describes a change of an entry that the agent made or, if `forgotten`, its deletion.
    fn own_change(&self, forgotten: bool, text: &str) -> String;
    fn nothing_to_undo(&self, number: u32) -> String;
    fn no_such_entry(&self, number: u32) -> String;

    /// Says what was spent since midnight, in the conversation or by the person.
    fn spent_today(&self, by: Whose, spent: &Spending) -> String;
    /// Says what was spent in the last days, in the conversation or by the person.
    fn spent_lately(&self, by: Whose, days: u64, spent: &Spending) -> String;
    /// Says, in place of a reply, that a limit is reached, and from when on there are replies again.
    fn limit_reached(&self, quota: &Quota, until: &str) -> String;
    /// Says, in a reply, how much is used of a limit that is near.
    fn limit_near(&self, quota: &Quota) -> String;
    fn limit_left(&self, quota: &Quota) -> String;

    /// Says which time zone a person has: one of their own, or `TIME_ZONE`.
    fn time_zone(&self, zone: TimeZone, is_own: bool) -> String;
    fn no_such_time_zone(&self, similar: Option<TimeZone>) -> String;

    /// Describes one side of a link: its identity, its channel, and the name that it has there.
    fn side(&self, identity: &str, channel: Channel, name: Option<&str>) -> String;

    /// Returns the syntax and the description of the commands of `annals chat` itself: of `/history` and `/quit`.
    fn terminal_commands(&self) -> [(&'static str, &'static str); 2];
    /// Says that there is no such command; `near` are those that may be meant.
    fn no_such_command(&self, name: &str, near: &[&str]) -> String;
    fn file_of_reply(&self, name: Option<&str>, media_type: &str, url: &str) -> String;
}

/// An option of a command of Discord: [`en`] shows what each is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandOption {
    Prompt,
    File,
    FirstMessage,
    Focus,
    Undo,
    Number,
    EntryNumber,
    Which,
    Reason,
    Code,
    TimeZone,
    Reminder,
}

/// An entry of memory in a list.
#[derive(Clone, Copy, Debug)]
pub struct EntryDescription<'a> {
    pub text: &'a str,
    pub kind: EntryKind,
    /// The chat in which it was said; `None` if that is not known.
    pub said: Option<SaidIn>,
    /// The day on which it was said, as `2025-11-21`.
    pub day: &'a str,
    /// The day on which its validity ended, if it is past.
    pub until: Option<&'a str>,
    pub is_pending: bool,
    /// The tools after whose results it was saved.
    pub tools: Option<&'a str>,
}

/// The chat in which an entry was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaidIn {
    /// The chat that is being shown the entry.
    ThisChat,
    /// A chat on the platform or protocol of this name.
    On(&'static str),
}

/// The owner of a memory, or the author of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The person who is answered.
    Yours,
    Chats,
}

/// A reason why the model is not shown a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NotShown {
    Audio,
    Video,
    Document,
    /// It is an address on the web.
    Address,
    Blind,
    TooMany,
    Unseen(Unseen),
    Unavailable,
}

/// Files that the model was not shown for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilesNotShown {
    pub why: NotShown,
    /// Short descriptions of some.
    pub named: Vec<String>,
    pub more: usize,
}

/// Tokens and cost of replies, with numbers as people read them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spending {
    pub replies: u64,
    pub read: String,
    pub written: String,
    /// The cost, as far as prices are known.
    pub cost: Option<String>,
    /// Number of replies without a price.
    pub unpriced: u64,
}

/// Returns the number of an amount: `12,345` tokens, a cost of `0.0150`.
fn number(amount: Amount) -> String {
    match amount {
        Amount::Tokens(tokens) => thousands(tokens),
        Amount::Cost(cost) => format!("{cost:.4}"),
    }
}

/// Returns `number` with commas: `12,345`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

#[cfg(test)]
mod tests;
