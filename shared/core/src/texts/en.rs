//! English.

use super::{
    CommandOption, EntryDescription, FilesNotShown, NotShown, SaidIn, Spending, TerminalText, Texts, Whose,
    number, thousands,
};
use crate::command::name::CommandName;
use crate::limits::{Amount, Quota, Scope};
use crate::media::Unseen;
use crate::record::Channel;
use crate::time_zone::TimeZone;

/// The texts in English.
#[derive(Debug)]
pub struct En;

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
    fn commands(&self) -> &'static str {
        "Commands:"
    }
    fn colon(&self) -> &'static str {
        ": "
    }
    fn comma(&self) -> &'static str {
        ", "
    }
    fn full_stop(&self) -> &'static str {
        ". "
    }
    fn welcome(&self) -> &'static str {
        "Hello! Write to me and I will answer."
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
    fn answer_this(&self) -> &'static str {
        "Answer this"
    }
    fn ask(&self) -> &'static str {
        "ask a question"
    }
    fn unknown_command(&self) -> &'static str {
        "I do not know this command. Whoever runs me can register mine by 'annals setup'."
    }
    fn did_not_work(&self) -> &'static str {
        "This did not work. Please try again."
    }
    fn not_allowed(&self) -> &'static str {
        "You may not use this bot here. Whoever runs it can let you in."
    }

    fn new_conversation(&self) -> &'static str {
        "New conversation. What is on your mind?"
    }
    fn started_over(&self) -> &'static str {
        "Done: we start over. Earlier messages are no longer in view."
    }
    fn stopped(&self) -> &'static str {
        "Stopped."
    }
    fn nothing_to_stop(&self) -> &'static str {
        "Nothing is being answered at the moment."
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

    fn no_answer(&self) -> &'static str {
        "Sorry, I could not answer that: the model is not available at the moment. Please ask again later."
    }
    fn not_compacted(&self) -> &'static str {
        "Sorry, I could not compact this conversation: the model gave no usable summary. Nothing has changed. Please try \
         again later."
    }
    fn unfinished(&self) -> &'static str {
        "Sorry, I could not finish this: the model is not available at the moment. Please ask again later."
    }
    fn stopped_unanswered(&self) -> &'static str {
        "Stopped before there was an answer."
    }
    fn stopped_here(&self) -> &'static str {
        "(Stopped here.)"
    }
    fn still_answering(&self) -> &'static str {
        "The answer is still being made: resume the stream, or load the conversation later."
    }
    fn answered_anew(&self) -> &'static str {
        "The answer broke off and was made again: load the conversation to see it."
    }
    fn chat_forgotten(&self) -> &'static str {
        "The chat was forgotten."
    }
    fn taken_over(&self) -> &'static str {
        "An operator has taken this chat over."
    }
    fn handed_back(&self) -> &'static str {
        "The operator has handed this chat back."
    }

    fn reminder(&self, text: &str) -> String {
        format!("⏰ {text}")
    }
    fn reminder_set(&self, text: &str, date: &str, repeats: Option<&str>, id: &str) -> String {
        let again = repeats.map_or(String::new(), |pattern| format!(", and again by `{pattern}`"));
        format!("I will say on {date}{again}: {text}\n\n`/remind cancel {id}` cancels it.")
    }
    fn reminders(&self, list: &str) -> String {
        format!("To come:\n{list}\n\n`/remind cancel` and a code cancels one.")
    }
    fn no_reminders(&self) -> &'static str {
        "Nothing is to come. To be told something at a time: `/remind tomorrow 9:00 call Bo`."
    }
    fn reminder_cancelled(&self, id: &str) -> String {
        format!("`{id}` will not come, or there was none.")
    }
    fn how_to_remind(&self) -> &'static str {
        "I cannot read a date and a text in that. Examples: `/remind 9:00 tea`, `/remind tomorrow 9:00 call Bo`, \
         `/remind in 20 minutes the oven`, `/remind 2026-12-01 9:00 rent`, `/remind every weekday 9:15 stand-up`."
    }
    fn date_is_past(&self) -> &'static str {
        "That date is past, or more than five years away."
    }
    fn too_many_reminders(&self, most: usize) -> String {
        format!("This chat has {most} already. Cancel one first: `/remind` lists them.")
    }
    fn late_text(&self, text: &str, date: &str) -> String {
        format!("{text}\n\n(This is late: it was due at {date}.)")
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

    fn may_i_call(&self, tool: &str) -> String {
        format!("May I call `{tool}` with this?")
    }
    fn characters_left_out(&self, count: usize) -> String {
        format!("[{count} characters are not shown]")
    }
    fn admins_must_approve(&self) -> &'static str {
        "Only an administrator of this bot can approve it."
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
    fn not_yours(&self) -> &'static str {
        "Only the person who asked, or an administrator, can answer this."
    }
    fn admins_only(&self) -> &'static str {
        "Only an administrator of this bot can answer this."
    }
    fn nothing_to_approve(&self) -> &'static str {
        "Nothing waits for an approval here."
    }
    fn request_is_over(&self) -> &'static str {
        "This request is no longer open."
    }
    fn which_number(&self, list: &str) -> String {
        format!("Which one? Say /approve or /deny and its number, or all:\n{list}")
    }
    fn which_code(&self, list: &str) -> String {
        format!("Which one? Say /approve or /deny and its code:\n{list}")
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
    fn nothing_up_to(&self, number: u32) -> String {
        format!("There is nothing up to number {number}. /memory lists the newest.")
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
    fn older_entries(&self, number: u32) -> String {
        format!("Older ones: /memory {number}")
    }
    fn how_to_forget(&self) -> &'static str {
        "To forget one: /forget and its number"
    }
    fn own_changes(&self) -> &'static str {
        "What I changed or forgot myself, as it was:"
    }
    fn own_change(&self, forgotten: bool, text: &str) -> String {
        format!("I {}: {text}", if forgotten { "forgot" } else { "changed" })
    }
    fn how_to_undo(&self) -> &'static str {
        "To bring one back: /memory undo and its number"
    }
    fn which_to_forget(&self) -> &'static str {
        "Which one? Say /forget and its number in the list of /memory, such as /forget 2."
    }
    fn which_to_undo(&self) -> &'static str {
        "/memory lists what can be undone: say /memory undo and its number, such as /memory undo 2."
    }
    fn memory_is_off(&self) -> &'static str {
        "Memory is off: I keep nothing from our conversations, and use nothing that I kept before. /forget still deletes \
         what there is."
    }
    fn no_memory_here(&self) -> &'static str {
        "What is said here is not kept in memory."
    }
    fn undone(&self, number: u32, text: &str) -> String {
        format!("Undone. Number {number} says again: {text}")
    }
    fn nothing_to_undo(&self, number: u32) -> String {
        format!("There is nothing to undo for number {number}. {}", self.which_to_undo())
    }
    fn forgotten(&self, number: u32) -> String {
        format!("Forgotten: number {number}.")
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
    fn spending_is_cut(&self, messages: usize) -> String {
        format!("Only the newest {messages} messages are counted.")
    }

    fn time_zone(&self, zone: TimeZone, is_own: bool) -> String {
        let whose = if is_own { "Your time zone is" } else { "You have not chosen a time zone. Yours is" };
        format!("{whose} {zone}. To change it: /timezone and a name such as Asia/Shanghai")
    }
    fn time_zone_set(&self, zone: TimeZone) -> String {
        format!("Your time zone is {zone} now.")
    }
    fn no_such_time_zone(&self, similar: Option<TimeZone>) -> String {
        let similar = similar.map(|zone| format!(" Did you mean {zone}?")).unwrap_or_default();
        format!("I do not know this time zone.{similar} Names are like Asia/Shanghai or Europe/Berlin.")
    }
    fn time_zone_of_all(&self, zone: TimeZone) -> String {
        format!("The time zone here is {zone}. Your own is for direct chats with me: use /timezone there.")
    }

    fn link_not_here(&self) -> &'static str {
        "This works in a direct chat with me only."
    }
    fn links_are_off(&self) -> &'static str {
        "Linking is off. The owner of this bot can turn it on with DM_SCOPE=user."
    }
    fn link_code(&self, code: &str) -> String {
        format!(
            "Your code is {code}. Within ten minutes, say /link {code} in a direct chat with me in your other channel. \
             Nothing is linked before you have confirmed it in both chats. Tell the code to nobody."
        )
    }
    fn wrong_code(&self) -> &'static str {
        "This code is wrong, was used, or is too old. /link in your other channel gives a new one."
    }
    fn too_many_wrong_codes(&self) -> &'static str {
        "That were too many wrong codes. Try again in an hour."
    }
    fn own_code(&self) -> &'static str {
        "This code is for your other channel: enter it there."
    }
    fn code_of(&self, first: &str) -> String {
        format!(
            "This is the code of {first}. If that is you, say /link yes here; then I ask there, too. If it is not you, or \
             somebody gave you this code, say /link no."
        )
    }
    fn confirm_there(&self, first: &str) -> String {
        format!(
            "Now say /link where you got the code, that is as {first}: I tell you there who asks, and you confirm. Nothing \
             is linked before."
        )
    }
    fn code_entered(&self, second: &str) -> String {
        format!(
            "Your code was entered by {second}, who asks to be linked with you: to share this conversation and all that I \
             remember of you. If that is you, say /link yes. If not, say /link no."
        )
    }
    fn side(&self, identity: &str, channel: Channel, name: Option<&str>) -> String {
        let channel = match channel {
            Channel::Telegram => "Telegram",
            Channel::Lark => "Lark",
            Channel::Discord => "Discord",
            Channel::Http => "the HTTP API",
            Channel::Web => "a web page",
            Channel::Terminal => "the terminal",
        };
        let name = name.map(|name| format!(", called “{name}” there")).unwrap_or_default();
        format!("{identity} on {channel}{name}")
    }
    fn nothing_to_confirm(&self) -> &'static str {
        "There is nothing to confirm here. /link gives a code for your other channel."
    }
    fn nobody_entered_code(&self) -> &'static str {
        "Nobody has entered your code and confirmed yet. In your other channel, say /link and the code, and then /link yes."
    }
    fn link_cancelled(&self) -> &'static str {
        "Nothing is linked, and the code is no longer valid."
    }
    fn linked(&self) -> &'static str {
        "Linked: here and there you now have one conversation and one memory with me. Your earlier messages stay where they \
         are, and I know a summary of them. /unlink separates the channels again."
    }
    fn too_many_identities(&self, most: usize) -> String {
        format!("Not linked: a person may have at most {most} identities.")
    }
    fn unlinked(&self) -> &'static str {
        "Separated: each channel has its own conversation and memory again."
    }
    fn not_linked(&self) -> &'static str {
        "This channel is not linked to another. /link links one."
    }
    fn linked_by_operator(&self) -> &'static str {
        "Whoever runs this bot has linked this channel, and only they can separate it."
    }

    fn terminal(&self, text: TerminalText) -> &'static str {
        match text {
            TerminalText::Welcome => "/help lists the commands, Ctrl-D leaves.",
            TerminalText::OtherProgram => "Through the program that serves",
            TerminalText::EarlierMessages => "answering earlier messages",
            TerminalText::Waiting => "waiting",
            TerminalText::SummingUp => "summing up",
            TerminalText::Thinking => "thinking",
            TerminalText::SummedUp => "summed up:",
            TerminalText::Stopped => "stopped",
            TerminalText::BrokeOff => "that broke off; once more",
            TerminalText::OnceMore => "once more",
            TerminalText::Reconnecting => "the program has ended; connecting again",
            TerminalText::AnsweredLater => "If the message was stored, it is answered later.",
            TerminalText::NotWaiting => "not waiting any longer; /history shows the result",
            TerminalText::HowToType => {
                "A line that ends with \\ goes on in the next. Ctrl-C stops an answer."
            }
            TerminalText::HowToDecide => "y allows it, n denies it, other text denies it with that reason: ",
            TerminalText::TypedAhead => {
                "it waits, since more was typed already: decide with /approve or /deny"
            }
            TerminalText::Undecided => "it waits: decide with /approve or /deny",
        }
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
    fn call_failed(&self, tool: &str, error: &str) -> String {
        format!("{tool} failed: {error}")
    }
    fn call_denied(&self, tool: &str) -> String {
        format!("{tool} was not allowed")
    }
    fn call_waits(&self, tool: &str, id: &str) -> String {
        format!("{tool} waits for approval: annals chat '/approve {id}', or /deny")
    }
    fn file_of_reply(&self, name: Option<&str>, media_type: &str, url: &str) -> String {
        format!("file {}, {media_type}, {url}", name.unwrap_or("without a name"))
    }
    fn in_room(&self, room: &str, person: &str) -> String {
        format!("room {room}, as {person}")
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
