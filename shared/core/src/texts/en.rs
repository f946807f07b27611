//! English.

use super::{
    CommandOption, EntryDescription, FilesNotShown, NotShown, SaidIn, Spending, Texts, Whose, number,
    thousands,
};
use crate::command::name::CommandName;
use crate::limits::{Amount, Quota, Scope};
use crate::media::Unseen;
use crate::record::Channel;
use crate::time_zone::TimeZone;

/// The texts in English.
#[derive(Debug)]
pub struct En;

declare_texts! {
    commands() => "Commands:";
    /// Separates the syntax of a command from its description.
    colon() => ": ";
    /// Separates what is said of a file.
    comma() => ", ";
    /// Ends a sentence that another one follows.
    full_stop() => ". ";
    welcome() => "Hello! Write to me and I will answer.";
    /// Names the entry in Discord's menu of a message, in at most 32 characters.
    answer_this() => "Answer this";
    /// Describes Discord's command that asks, in at most 100 characters.
    ask() => "ask a question";
    unknown_command() =>
        "I do not know this command. Whoever runs me can register mine by 'annals setup'.";
    did_not_work() => "This did not work. Please try again.";
    not_allowed() => "You may not use this bot here. Whoever runs it can let you in.";

    new_conversation() => "New conversation. What is on your mind?";
    started_over() => "Done: we start over. Earlier messages are no longer in view.";
    stopped() => "Stopped.";
    nothing_to_stop() => "Nothing is being answered at the moment.";

    no_answer() =>
        "Sorry, I could not answer that: the model is not available at the moment. Please ask again later.";
    /// Says, in place of a reply, that the provider's filter refuses the question.
    filtered() =>
        "The provider refuses this message or one before it. If it refuses the next one too, /new starts over.";
    /// Says, as the last line of a reply, that the filter refuses what was said before the question.
    earlier_refused() =>
        "(Answered without the earlier messages: the provider refuses one of them. /new starts over.)";
    not_compacted() =>
        "Sorry, I could not compact this conversation: the model gave no usable summary. Nothing has changed. Please try \
         again later.";
    unfinished() =>
        "Sorry, I could not finish this: the model is not available at the moment. Please ask again later.";
    /// Ends a reply of calls that succeeded, if the model says nothing.
    done() => "Done.";
    /// Says, as the last line of a reply, that the model's limit cut it off there.
    cut_off() =>
        "(Cut off here: the answer reached the model's limit. Say \"continue\" to go on.)";
    /// Says, as the last line of a reply, that the provider's filter removed what follows.
    rest_filtered() => "(Cut off here: the provider's filter removed the rest.)";
    stopped_unanswered() => "Stopped before there was an answer.";
    /// Says, as the last line of a reply, that it was stopped there.
    stopped_here() => "(Stopped here.)";
    still_answering() =>
        "The answer is still being made: resume the stream, or load the conversation later.";
    answered_anew() => "The answer broke off and was made again: load the conversation to see it.";
    chat_forgotten() => "The chat was forgotten.";
    taken_over() => "An operator has taken this chat over.";
    handed_back() => "The operator has handed this chat back.";

    reminder(text: &str) => "⏰ {text}";
    reminders(list: &str) => "To come:\n{list}\n\n`/remind cancel` and a code cancels one.";
    no_reminders() =>
        "Nothing is to come. To be told something at a time: `/remind tomorrow 9:00 call Bo`.";
    reminder_cancelled(id: &str) => "`{id}` will not come, or there was none.";
    reminder_ended(id: &str) => "`{id}` has come already, or was cancelled.";
    how_to_remind() =>
        "I cannot read a date and a text in that. Examples: `/remind 9:00 tea`, `/remind tomorrow 9:00 call Bo`, \
         `/remind in 20 minutes the oven`, `/remind 2026-12-01 9:00 rent`, `/remind every weekday 9:15 stand-up`.";
    date_is_past() => "That date is past, or more than five years away.";
    too_many_reminders(most: usize) =>
        "This chat has {most} already. Cancel one first: `/remind` lists them.";
    cannot_write_later() => "I cannot write here later. Ask me in our direct messages.";
    /// Returns the text of a schedule that is sent late; `date` is when it was due.
    late_text(text: &str, date: &str) => "{text}\n\n(This is late: it was due at {date}.)";

    /// Asks if a tool may be called; its arguments follow.
    may_i_call(tool: &str) => "May I call `{tool}` with this?";
    /// Says that this many characters of an argument are left out. Not longer than in English.
    characters_left_out(count: usize) => "[{count} characters are not shown]";
    admins_must_approve() => "Only an administrator of this bot can approve it.";
    not_yours() => "Only the person who asked, or an administrator, can answer this.";
    admins_only() => "Only an administrator of this bot can answer this.";
    nothing_to_approve() => "Nothing waits for an approval here.";
    request_is_over() => "This request is no longer open.";
    /// Asks which request is meant, by number; `list` has one a line.
    which_number(list: &str) => "Which one? Say /approve or /deny and its number, or all:\n{list}";
    /// Asks which request is meant, by code; `list` has one a line.
    which_code(list: &str) => "Which one? Say /approve or /deny and its code:\n{list}";

    nothing_up_to(number: u32) => "There is nothing up to number {number}. /memory lists the newest.";
    older_entries(number: u32) => "Older ones: /memory {number}";
    how_to_forget() => "To forget one: /forget and its number";
    own_changes() => "What I changed or forgot myself, as it was:";
    how_to_undo() => "To bring one back: /memory undo and its number";
    which_to_forget() =>
        "Which one? Say /forget and its number in the list of /memory, such as /forget 2.";
    which_to_undo() =>
        "/memory lists what can be undone: say /memory undo and its number, such as /memory undo 2.";
    memory_is_off() =>
        "Memory is off: I keep nothing from our conversations, and use nothing that I kept before. /forget still deletes \
         what there is.";
    no_memory_here() => "What is said here is not kept in memory.";
    undone(number: u32, text: &str) => "Undone. Number {number} says again: {text}";
    forgotten(number: u32) => "Forgotten: number {number}.";

    spending_is_cut(messages: usize) => "Only the newest {messages} messages are counted.";

    time_zone_set(zone: TimeZone) => "Your time zone is {zone} now. Reminders that are set keep theirs.";
    time_zone_of_all(zone: TimeZone) =>
        "The time zone here is {zone}. Your own is for direct chats with me: use /timezone there.";

    link_not_here() => "This works in a direct chat with me only.";
    links_are_off() => "Linking is off. The owner of this bot can turn it on with DM_SCOPE=user.";
    link_code(code: &str) =>
        "Your code is {code}. Within ten minutes, say /link {code} in a direct chat with me in your other channel. \
         Nothing is linked before you have confirmed it in both chats. Tell the code to nobody.";
    wrong_code() =>
        "This code is wrong, was used, or is too old. /link in your other channel gives a new one.";
    too_many_wrong_codes() => "Too many wrong codes. Try again in an hour.";
    own_code() => "This code is for your other channel: enter it there.";
    code_of(first: &str) =>
        "This is the code of {first}. If that is you, say /link yes here; then I ask there, too. If it is not you, or \
         somebody gave you this code, say /link no.";
    confirm_there(first: &str) =>
        "Now say /link where you got the code, that is as {first}: I tell you there who asks, and you confirm. Nothing \
         is linked before.";
    code_entered(second: &str) =>
        "Your code was entered by {second}, who asks to be linked with you: to share this conversation and all that I \
         remember of you. If that is you, say /link yes. If not, say /link no.";
    nothing_to_confirm() =>
        "There is nothing to confirm here. /link gives a code for your other channel.";
    nobody_entered_code() =>
        "Nobody has entered your code and confirmed yet. In your other channel, say /link and the code, and then /link yes.";
    link_cancelled() => "Nothing is linked, and the code is no longer valid.";
    linked() =>
        "Linked: here and there you now have one conversation and one memory with me. Your earlier messages stay where they \
         are, and I know a summary of them. /unlink separates the channels again.";
    too_many_identities(most: usize) => "Not linked: a person may have at most {most} identities.";
    unlinked() => "Separated: each channel has its own conversation and memory again.";
    not_linked() => "This channel is not linked to another. /link links one.";
    linked_by_operator() =>
        "Whoever runs this bot has linked this channel, and only they can separate it.";

    /// Says, at the start of `annals chat`, how to get help and to leave.
    terminal_welcome() => "/help lists the commands, Ctrl-D leaves.";
    /// Stands for the model's name if another program answers.
    other_program() => "Through the program that serves";
    earlier_messages() => "answering earlier messages";
    waiting() => "waiting";
    summing_up() => "summing up";
    thinking() => "thinking";
    /// Comes before a summary.
    summed_up() => "summed up:";
    /// Comes after a reply that was stopped.
    answer_stopped() => "stopped";
    /// Separates an answer that broke off from the next one.
    broke_off() => "that broke off; once more";
    /// Follows the reason of a failure, before the next try.
    once_more() => "once more";
    reconnecting() => "the program has ended; connecting again";
    /// Follows the reason why a reply is not waited for.
    answered_later() => "If the message was stored, it is answered later.";
    not_waiting() => "not waiting any longer; /history shows the result";
    /// Follows the list of commands.
    how_to_type() => "A line that ends with \\ goes on in the next. Ctrl-C stops an answer.";
    /// Names the ways to decide about a call; the answer follows in the same line.
    how_to_decide() => "y allows it, n denies it, other text denies it with that reason: ";
    /// Says why a call is not asked about: something was typed before.
    typed_ahead() => "it waits, since more was typed already: decide with /approve or /deny";
    undecided() => "it waits: decide with /approve or /deny";
    call_failed(tool: &str, error: &str) => "{tool} failed: {error}";
    call_denied(tool: &str) => "{tool} was not allowed";
    /// Says that a call waits, and how to decide in a shell.
    call_waits(tool: &str, id: &str) =>
        "{tool} waits for approval: annals chat '/approve {id}', or /deny";
    in_room(room: &str, person: &str) => "room {room}, as {person}";
}

impl Texts for En {
    fn discord_locales(&self) -> &'static [&'static str] {
        &[]
    }
    fn command(&self, name: CommandName) -> (&'static str, &'static str) {
        match name {
            CommandName::New => {
                ("/new [message]", "start a new conversation, with your first message if you like")
            }
            CommandName::Reset => ("/reset", "start over with nothing of this conversation in view"),
            CommandName::Stop => ("/stop", "stop answering"),
            CommandName::Compact => ("/compact [what to keep in mind]", "sum up what was said so far"),
            CommandName::Memory => (
                "/memory",
                "list what I remember from earlier conversations; /memory undo <number> brings back what I changed",
            ),
            CommandName::Forget => ("/forget <number>", "forget one entry of that list"),
            CommandName::Approve => ("/approve [number]", "allow what I asked to do"),
            CommandName::Deny => ("/deny [number] [reason]", "do not allow it"),
            CommandName::Link => {
                ("/link [code]", "use one conversation and memory here and in another channel of yours")
            }
            CommandName::Unlink => ("/unlink", "separate this channel from your others again"),
            CommandName::Remind => {
                ("/remind [date text]", "be told something at a time; alone, list what is to come")
            }
            CommandName::Usage => {
                ("/usage", "say how many tokens this conversation took, and what they cost")
            }
            CommandName::TimeZone => {
                ("/timezone [zone]", "set your time zone, such as Asia/Shanghai, or say which it is")
            }
            CommandName::Help => ("/help", "show this list"),
        }
    }
    fn option(&self, option: CommandOption) -> &'static str {
        match option {
            CommandOption::Prompt => "your question",
            CommandOption::File => "a file that it is about",
            CommandOption::FirstMessage => "first message of the new conversation",
            CommandOption::Focus => "what the summary must keep",
            CommandOption::Undo => "bring back what the bot changed",
            CommandOption::Number => "number in the list",
            CommandOption::EntryNumber => "number in the list of /memory",
            CommandOption::Which => "number or code of the request, or all",
            CommandOption::Reason => "reason for the bot",
            CommandOption::Code => "code from another channel, or yes or no",
            CommandOption::TimeZone => "your time zone, such as Asia/Shanghai",
            CommandOption::Reminder => "date and text, such as: tomorrow 9:00 call Bo",
        }
    }
    fn compacted(&self, counted: u32, kept: usize) -> String {
        match counted {
            0 => format!(
                "There is nothing to compact: the last {kept} messages always stay as they were said."
            ),
            1 => {
                format!("Done: 1 message is in the summary now. The last {kept} stay as they were said.")
            }
            n => {
                format!("Done: {n} messages are in the summary now. The last {kept} stay as they were said.")
            }
        }
    }
    fn reminder_set(&self, text: &str, date: &str, repeats: Option<&str>, id: &str) -> String {
        let again = repeats.map_or(String::new(), |pattern| format!(", and again by `{pattern}`"));
        format!("I will say on {date}{again}: {text}\n\n`/remind cancel {id}` cancels it.")
    }
    fn scheduled_prompt(&self, prompt: &str, date: &str, late_at: Option<&str>) -> String {
        match late_at {
            None => format!("[Scheduled for {date}]\n{prompt}"),
            Some(now) => {
                format!("[Scheduled for {date}; late: it is {now}, and the answer should say so]\n{prompt}")
            }
        }
    }
    fn files_not_shown(&self, groups: &[FilesNotShown]) -> String {
        let told = groups.iter().map(|FilesNotShown { why, named, more }| {
            let others = if *more > 0 { format!("; and {more} more") } else { String::new() };
            format!("{}{others} ({})", named.join("; "), self.not_shown(*why))
        });
        format!("Not seen: {}.", told.collect::<Vec<_>>().join(". "))
    }
    fn not_shown(&self, why: NotShown) -> &'static str {
        match why {
            NotShown::Audio => "sound cannot be heard here",
            NotShown::Video => "videos cannot be watched here",
            NotShown::Document => "files of this kind cannot be opened here",
            NotShown::Address => "addresses are not opened here",
            NotShown::Blind => "the model that answers cannot see images, or not this one",
            NotShown::TooMany => "there are more images than can be shown at once",
            NotShown::Unseen(Unseen::TooLarge) => "it is larger than 3.75 MB or 8,000 pixels",
            NotShown::Unseen(Unseen::NoImage) => "it is damaged, or no JPEG, PNG, GIF or WebP",
            NotShown::Unseen(Unseen::Gone) => "it can no longer be fetched",
            NotShown::Unavailable => "it could not be fetched",
        }
    }
    fn file_kind(&self, kind: &str) -> String {
        kind.to_owned()
    }
    fn how_to_answer(&self, numbered: bool) -> &'static str {
        if numbered {
            "Answer with /approve or /deny and the number, and why if you like."
        } else {
            "Answer with /approve or /deny, and why if you like."
        }
    }
    fn button(&self, approved: bool) -> &'static str {
        if approved { "✅ Approve" } else { "❌ Deny" }
    }
    fn verdict(&self, tool: &str, approved: bool, already: bool) -> String {
        let word = if approved { "Approved" } else { "Denied" };
        format!("{word}{}: {tool}.", if already { " already" } else { "" })
    }
    fn approval_recorded(&self, tool: &str, missing: usize) -> String {
        let others = if missing == 1 { "1 more person".into() } else { format!("{missing} more people") };
        format!("Recorded. {tool} also needs the approval of {others} who asked, or of an administrator.")
    }
    fn request_again(&self, question: &str, commands: &[String]) -> String {
        let commands = commands.join(" or ");
        format!(
            "This waits, and something else was said since:\n\n{question}\n\nSay {commands}, or /deny with the code."
        )
    }
    fn remembered(&self, of: Whose) -> &'static str {
        match of {
            Whose::Yours => "What I remember about you:",
            Whose::Chats => "What I remember about this group:",
        }
    }
    fn nothing_remembered(&self, of: Whose) -> &'static str {
        match of {
            Whose::Yours => "I remember nothing about you yet.",
            Whose::Chats => "I remember nothing about this group yet.",
        }
    }
    fn entry(&self, entry: &EntryDescription<'_>) -> String {
        let EntryDescription { text, kind, said, day, until, is_pending, tools } = entry;
        let said = match said {
            Some(SaidIn::ThisChat) => "here, ",
            Some(SaidIn::On(channel)) => &format!("on {channel}, "),
            None => "",
        };
        let until = until.map(|until| format!("; valid until {until}")).unwrap_or_default();
        let pending = if *is_pending { "; not used until an administrator approves it" } else { "" };
        let outside = tools.map(|tools| format!("; saved after reading {tools}")).unwrap_or_default();
        format!("{text} ({kind}; {said}{day}{until}{pending}{outside})")
    }
    fn own_change(&self, forgotten: bool, text: &str) -> String {
        format!("I {}: {text}", if forgotten { "forgot" } else { "changed" })
    }
    fn nothing_to_undo(&self, number: u32) -> String {
        format!("There is nothing to undo for number {number}. {}", self.which_to_undo())
    }
    fn no_such_entry(&self, number: u32) -> String {
        format!("There is no number {number} in the list of /memory. {}", self.which_to_forget())
    }
    fn spent_today(&self, by: Whose, spent: &Spending) -> String {
        match by {
            Whose::Chats => format!("This conversation today: {}", shown(spent)),
            Whose::Yours => format!("Yours today: {}", shown(spent)),
        }
    }
    fn spent_lately(&self, by: Whose, days: u64, spent: &Spending) -> String {
        match by {
            Whose::Chats => format!("In the last {days} days: {}", shown(spent)),
            Whose::Yours => format!("Yours in the last {days} days: {}", shown(spent)),
        }
    }
    fn limit_reached(&self, quota: &Quota, until: &str) -> String {
        let who = who_has(quota.scope);
        format!("{who} used up today's limit of {}. I answer again from {until}.", amount(quota.limit))
    }
    fn limit_near(&self, quota: &Quota) -> String {
        let who = who_has(quota.scope);
        format!("{who} used {} of today's limit of {}.", number(quota.used), amount(quota.limit))
    }
    fn limit_left(&self, quota: &Quota) -> String {
        let whose = match quota.scope {
            Scope::Person => "you",
            Scope::Chat => "this conversation",
            Scope::Key => "this application",
        };
        format!("Today's limit for {whose}: {} of {} left", number(quota.left()), amount(quota.limit))
    }
    fn time_zone(&self, zone: TimeZone, is_own: bool) -> String {
        let whose = if is_own { "Your time zone is" } else { "You have not chosen a time zone. Yours is" };
        format!("{whose} {zone}. To change it: /timezone and a name such as Asia/Shanghai")
    }
    fn no_such_time_zone(&self, similar: Option<TimeZone>) -> String {
        let similar = similar.map(|zone| format!(" Did you mean {zone}?")).unwrap_or_default();
        format!("I do not know this time zone.{similar} Names are like Asia/Shanghai or Europe/Berlin.")
    }
    fn side(&self, identity: &str, channel: Channel, name: Option<&str>) -> String {
        let channel = match channel {
            Channel::Http => "the HTTP API",
            Channel::Web => "a web page",
            Channel::Terminal => "the terminal",
            platform => platform.title(),
        };
        let name = name.map(|name| format!(", called “{name}” there")).unwrap_or_default();
        format!("{identity} on {channel}{name}")
    }
    fn terminal_commands(&self) -> [(&'static str, &'static str); 2] {
        [("/history [number]", "show the last messages"), ("/quit", "leave; so does Ctrl-D")]
    }
    fn no_such_command(&self, name: &str, near: &[&str]) -> String {
        let hint = if near.is_empty() {
            "/help lists the commands.".to_owned()
        } else {
            format!("did you mean {}?", near.join(" or "))
        };
        format!("There is no command {name}: {hint} Nothing was sent.")
    }
    fn file_of_reply(&self, name: Option<&str>, media_type: &str, url: &str) -> String {
        format!("file {}, {media_type}, {url}", name.unwrap_or("without a name"))
    }
}

fn who_has(scope: Scope) -> &'static str {
    match scope {
        Scope::Person => "You have",
        Scope::Chat => "This conversation has",
        Scope::Key => "This application has",
    }
}

fn amount(amount: Amount) -> String {
    match amount {
        Amount::Tokens(_) => format!("{} tokens", number(amount)),
        Amount::Cost(_) => format!("{} in cost", number(amount)),
    }
}

fn shown(spent: &Spending) -> String {
    let Spending { replies, read, written, cost, unpriced } = spent;
    let replies =
        if *replies == 1 { "1 reply".to_owned() } else { format!("{} replies", thousands(*replies)) };
    let cost = match cost {
        Some(cost) if *unpriced > 0 => format!(", cost {cost} and {unpriced} without a price"),
        Some(cost) => format!(", cost {cost}"),
        None => String::new(),
    };
    format!("{replies}, {read} tokens read, {written} written{cost}")
}
