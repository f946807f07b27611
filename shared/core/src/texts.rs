//! The texts that the bot itself says to people, in each language: [`Texts`].
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

pub mod en;
pub mod zh;

use std::fmt::Debug;

use crate::command::name::CommandName;
use crate::limits::{Amount, Quota};
use crate::media::Unseen;
use crate::memory::EntryKind;
use crate::record::Channel;
use crate::time_zone::TimeZone;

/// The texts of one language. [`en`] shows what each says; only what it does not show is documented here.
pub trait Texts: Debug + Sync {
    /// Returns the locales of Discord whose people read these texts; none for those that everybody else reads.
    fn discord_locales(&self) -> &'static [&'static str];

    /// Returns the syntax and the description of a command. The description has at most 100 characters.
    fn command(&self, name: CommandName) -> (&'static str, &'static str);
    fn commands(&self) -> &'static str;
    /// Separates the syntax of a command from its description.
    fn colon(&self) -> &'static str;
    /// Separates what is said of a file.
    fn comma(&self) -> &'static str;
    /// Ends a sentence that another one follows.
    fn full_stop(&self) -> &'static str;
    fn welcome(&self) -> &'static str;
    /// Describes an option of a command of Discord, in at most 100 characters.
    fn option(&self, option: CommandOption) -> &'static str;
    /// Describes Discord's command that asks, in at most 100 characters.
    fn ask(&self) -> &'static str;
    /// Names the entry in Discord's menu of a message, in at most 32 characters.
    fn answer_this(&self) -> &'static str;
    fn unknown_command(&self) -> &'static str;
    fn did_not_work(&self) -> &'static str;
    fn not_allowed(&self) -> &'static str;

    fn new_conversation(&self) -> &'static str;
    fn started_over(&self) -> &'static str;
    fn stopped(&self) -> &'static str;
    fn nothing_to_stop(&self) -> &'static str;
    /// Says how many messages a `/compact` counted in a summary, and how many of the last ones stay.
    fn compacted(&self, counted: u32, kept: usize) -> String;

    fn no_answer(&self) -> &'static str;
    /// Says, in place of a reply, that the provider's filter refuses the question.
    fn filtered(&self) -> &'static str;
    /// Says, as the last line of a reply, that the filter refuses what was said before the question.
    fn earlier_refused(&self) -> &'static str;
    fn not_compacted(&self) -> &'static str;
    fn unfinished(&self) -> &'static str;
    /// Ends a reply of calls that succeeded, if the model says nothing.
    fn done(&self) -> &'static str;
    /// Says, as the last line of a reply, that the model's limit cut it off there.
    fn cut_off(&self) -> &'static str;
    /// Says, as the last line of a reply, that the provider's filter removed what follows.
    fn rest_filtered(&self) -> &'static str;
    fn stopped_unanswered(&self) -> &'static str;
    /// Says, as the last line of a reply, that it was stopped there.
    fn stopped_here(&self) -> &'static str;

    fn still_answering(&self) -> &'static str;
    fn answered_anew(&self) -> &'static str;
    fn chat_forgotten(&self) -> &'static str;

    fn taken_over(&self) -> &'static str;
    fn handed_back(&self) -> &'static str;

    fn reminder(&self, text: &str) -> String;
    /// Confirms a reminder, which next comes at `date`; `repeats` is the cron pattern of one that comes again.
    fn reminder_set(&self, text: &str, date: &str, repeats: Option<&str>, id: &str) -> String;
    fn reminders(&self, list: &str) -> String;
    fn no_reminders(&self) -> &'static str;
    fn reminder_cancelled(&self, id: &str) -> String;
    fn reminder_ended(&self, id: &str) -> String;
    fn how_to_remind(&self) -> &'static str;
    fn date_is_past(&self) -> &'static str;
    fn too_many_reminders(&self, most: usize) -> String;
    /// Returns the text of a schedule that is sent late; `date` is when it was due.
    fn late_text(&self, text: &str, date: &str) -> String;
    /// Returns what the model is asked by a schedule that was due at `date`; if it is late, as of `late_at`.
    fn scheduled_prompt(&self, prompt: &str, date: &str, late_at: Option<&str>) -> String;

    /// Names the files that the model was not shown, by reason, in one line.
    fn files_not_shown(&self, groups: &[FilesNotShown]) -> String;
    /// Gives the reason why the model is not shown a file.
    fn not_shown(&self, why: NotShown) -> &'static str;
    /// Names a kind of file, such as `voice message` or `image`.
    fn file_kind(&self, kind: &str) -> String;

    /// Asks if a tool may be called; its arguments follow.
    fn may_i_call(&self, tool: &str) -> String;
    /// Says that this many characters of an argument are left out. Not longer than in English.
    fn characters_left_out(&self, count: usize) -> String;
    fn admins_must_approve(&self) -> &'static str;
    /// Says how to answer the one request, or if `numbered` one of several.
    fn how_to_answer(&self, numbered: bool) -> &'static str;
    /// Labels the button that approves or denies a call.
    fn button(&self, approved: bool) -> &'static str;
    /// Confirms that a call is approved or denied, now or `already`.
    fn verdict(&self, tool: &str, approved: bool, already: bool) -> String;
    fn approval_recorded(&self, tool: &str, missing: usize) -> String;
    fn not_yours(&self) -> &'static str;
    fn admins_only(&self) -> &'static str;
    fn nothing_to_approve(&self) -> &'static str;
    fn request_is_over(&self) -> &'static str;
    /// Asks which request is meant, by number; `list` has one a line.
    fn which_number(&self, list: &str) -> String;
    /// Asks which request is meant, by code; `list` has one a line.
    fn which_code(&self, list: &str) -> String;
    /// Shows a request after which something else was said, to be answered by one of `commands`.
    fn request_again(&self, question: &str, commands: &[String]) -> String;

    /// Introduces a list of entries of memory.
    fn remembered(&self, of: Whose) -> &'static str;
    fn nothing_remembered(&self, of: Whose) -> &'static str;
    fn nothing_up_to(&self, number: u32) -> String;
    fn entry(&self, entry: &EntryDescription<'_>) -> String;
    fn older_entries(&self, number: u32) -> String;
    fn how_to_forget(&self) -> &'static str;
    fn own_changes(&self) -> &'static str;
    /// Describes a change of an entry that the agent made or, if `forgotten`, its deletion.
    fn own_change(&self, forgotten: bool, text: &str) -> String;
    fn how_to_undo(&self) -> &'static str;
    fn which_to_forget(&self) -> &'static str;
    fn which_to_undo(&self) -> &'static str;
    fn memory_is_off(&self) -> &'static str;
    fn no_memory_here(&self) -> &'static str;
    fn undone(&self, number: u32, text: &str) -> String;
    fn nothing_to_undo(&self, number: u32) -> String;
    fn forgotten(&self, number: u32) -> String;
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
    fn spending_is_cut(&self, messages: usize) -> String;

    /// Says which time zone a person has: one of their own, or `TIME_ZONE`.
    fn time_zone(&self, zone: TimeZone, is_own: bool) -> String;
    fn time_zone_set(&self, zone: TimeZone) -> String;
    fn no_such_time_zone(&self, similar: Option<TimeZone>) -> String;
    fn time_zone_of_all(&self, zone: TimeZone) -> String;

    fn link_not_here(&self) -> &'static str;
    fn links_are_off(&self) -> &'static str;
    fn link_code(&self, code: &str) -> String;
    fn wrong_code(&self) -> &'static str;
    fn too_many_wrong_codes(&self) -> &'static str;
    fn own_code(&self) -> &'static str;
    fn code_of(&self, first: &str) -> String;
    fn confirm_there(&self, first: &str) -> String;
    fn code_entered(&self, second: &str) -> String;
    /// Describes one side of a link: its identity, its channel, and the name that it has there.
    fn side(&self, identity: &str, channel: Channel, name: Option<&str>) -> String;
    fn nothing_to_confirm(&self) -> &'static str;
    fn nobody_entered_code(&self) -> &'static str;
    fn link_cancelled(&self) -> &'static str;
    fn linked(&self) -> &'static str;
    fn too_many_identities(&self, most: usize) -> String;
    fn unlinked(&self) -> &'static str;
    fn not_linked(&self) -> &'static str;
    fn linked_by_operator(&self) -> &'static str;

    // The texts of `annals chat`.
    /// Says at the start how to get help and to leave.
    fn terminal_welcome(&self) -> &'static str;
    /// Stands for the model's name if another program answers.
    fn other_program(&self) -> &'static str;
    fn earlier_messages(&self) -> &'static str;
    fn waiting(&self) -> &'static str;
    fn summing_up(&self) -> &'static str;
    fn thinking(&self) -> &'static str;
    /// Comes before a summary.
    fn summed_up(&self) -> &'static str;
    /// Comes after a reply that was stopped.
    fn answer_stopped(&self) -> &'static str;
    /// Separates an answer that broke off from the next one.
    fn broke_off(&self) -> &'static str;
    /// Follows the reason of a failure, before the next try.
    fn once_more(&self) -> &'static str;
    fn reconnecting(&self) -> &'static str;
    /// Follows the reason why a reply is not waited for.
    fn answered_later(&self) -> &'static str;
    fn not_waiting(&self) -> &'static str;
    /// Follows the list of commands.
    fn how_to_type(&self) -> &'static str;
    /// Names the ways to decide about a call; the answer follows in the same line.
    fn how_to_decide(&self) -> &'static str;
    /// Says why a call is not asked about: something was typed before.
    fn typed_ahead(&self) -> &'static str;
    fn undecided(&self) -> &'static str;
    /// Returns the syntax and the description of the commands of `annals chat` itself: of `/history` and `/quit`.
    fn terminal_commands(&self) -> [(&'static str, &'static str); 2];
    /// Says that there is no such command; `near` are those that may be meant.
    fn no_such_command(&self, name: &str, near: &[&str]) -> String;
    fn call_failed(&self, tool: &str, error: &str) -> String;
    fn call_denied(&self, tool: &str) -> String;
    /// Says that a call waits, and how to decide in a shell.
    fn call_waits(&self, tool: &str, id: &str) -> String;
    fn file_of_reply(&self, name: Option<&str>, media_type: &str, url: &str) -> String;
    fn in_room(&self, room: &str, person: &str) -> String;
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
