//! Commands that control a chat: [`Command`].
//!
//! They are the same on every channel. To add a command, add a variant of [`Command`] and of [`CommandName`], and an arm in
//! [`Command::parse`] and [`Command::confirmation`]; if it needs the store, see `ingress/recollection.rs`.

pub mod name;

use crate::texts::Texts;

use self::name::CommandName;

/// A command. It acts on the chat in which it is typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `/new [first message]`: starts a new Session.
    New {
        /// The rest of the text, as the new Session's first message; trimmed and never empty.
        first_message: Option<String>,
    },
    /// `/reset`: starts a new Session. Text after it is ignored.
    Reset,
    /// `/compact [focus]`: summarises all but the most recent messages. It is carried out by the chat's next turn,
    /// since it needs the model.
    Compact,
    /// `/stop`: ends the current answer. Messages before it are not answered any more.
    Stop,
    /// `/start`: sent by Telegram when a person opens the bot. Text after it is the payload of a deep link.
    Start,
    /// `/help`: lists the commands.
    Help,
    /// `/memory [number]`: lists the newest entries of memory.
    Memory {
        /// The newest entry to list, for paging to older ones.
        up_to: Option<u32>,
    },
    /// `/memory undo <number>`: restores an entry that the agent replaced or forgot.
    UndoMemory {
        /// Number in the list of `/memory`; `None` if the argument is missing or not a single number.
        number: Option<u32>,
    },
    /// `/forget <number>`: deletes an entry of memory.
    Forget {
        /// Number in the list of `/memory`; `None` if the argument is missing or not a single number.
        number: Option<u32>,
    },
    /// `/usage`: says how many tokens this chat took, and what they cost.
    Usage,
    /// `/timezone [zone]`: sets the person's time zone, or says which it is.
    TimeZone {
        /// The zone as it was typed; trimmed and never empty.
        zone: Option<String>,
    },
    /// `/remind`: what the chat is to be told at a time.
    Remind { step: RemindStep },
    /// `/approve [number]`: approves a call.
    Approve { which: Which },
    /// `/link [code]`: links two channels of one person.
    Link { step: LinkStep },
    /// `/unlink`: separates the channel from the others of the person.
    Unlink,
    /// `/deny [number] [reason]`: denies a call.
    Deny {
        which: Which,
        /// Reason: the rest of the text, trimmed and never empty.
        reason: Option<String>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemindStep {
    /// `/remind`, `/remind list`, and `/remind cancel` without an id: lists what is to come.
    List,
    /// `/remind cancel <id>`: cancels one.
    Cancel(String),
    /// `/remind <date> <text>`: adds one. See [`when`](crate::schedule::when).
    Add(String),
}

impl RemindStep {
    fn parse(rest: &str) -> Self {
        let rest = rest.trim();
        let (word, id) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        match word.to_ascii_lowercase().as_str() {
            "" | "list" | "cancel" | "取消" if id.is_empty() => Self::List,
            "cancel" | "取消" => Self::Cancel(id.trim().to_owned()),
            _ => Self::Add(rest.to_owned()),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkStep {
    /// `/link`: asks for a code, or for the person who entered it.
    Start,
    /// `/link <code>`: in the other channel. Capital letters and digits alone.
    Code(String),
    /// `/link yes`: confirms.
    Yes,
    /// `/link no`: ends the exchange.
    No,
}

impl LinkStep {
    /// Parses the text after `/link`. In a code, hyphens and spaces are left out, and `O`, `I` and `L` are read as the
    /// digits that they look like, which codes have instead.
    fn parse(rest: &str) -> Self {
        match rest.trim() {
            "" => Self::Start,
            rest if rest.eq_ignore_ascii_case("yes") || rest == "是" => Self::Yes,
            rest if rest.eq_ignore_ascii_case("no") || rest == "否" => Self::No,
            rest => {
                let kept = rest.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_uppercase());
                Self::Code(
                    kept.map(|c| match c {
                        'O' => '0',
                        'I' | 'L' => '1',
                        c => c,
                    })
                    .collect(),
                )
            }
        }
    }
}

/// Selection among the open requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// The only open request.
    Only,
    /// The one with this number in the last reply with requests.
    Number(u32),
    /// The one whose id starts with these four or more hexadecimal digits.
    Code(String),
    /// All requests of the last reply with requests.
    All,
}

impl Which {
    /// Parses the first word of `rest` as a selection. Returns it and the text after it, or all of `rest` if the word
    /// is not a selection.
    fn parse(rest: &str) -> (Self, &str) {
        let rest = rest.trim();
        let (word, behind) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let is_code = (4..=16).contains(&word.len())
            && word.bytes().all(|b| b.is_ascii_hexdigit())
            && word.bytes().any(|b| b.is_ascii_digit());
        let which = match number(word) {
            Some(number) if word.len() < 4 => Self::Number(number),
            _ if word.eq_ignore_ascii_case("all") => Self::All,
            _ if is_code => Self::Code(word.to_ascii_lowercase()),
            _ => return (Self::Only, rest),
        };
        (which, behind.trim())
    }
}

/// Returns each command's bare name and description, for a platform's menu.
pub fn menu(texts: &dyn Texts) -> impl Iterator<Item = (&'static str, &'static str)> {
    CommandName::ALL.iter().map(|command| (command.as_str(), texts.command(*command).1))
}

impl Command {
    /// Parses a command: `/name`, or `/name@bot` if `bot` is `me`, in any case, at the very start of `text` and
    /// separated from the rest by white space or Chinese punctuation.
    ///
    /// Returns `None` for ordinary text, for unknown commands, and for commands to another bot. If `me` is `None`, the
    /// name of the bot is not known, and every command with a name is for another bot.
    pub fn parse(text: &str, me: Option<&str>) -> Option<Self> {
        let head = Head::of(text)?;
        if head.addressee.is_some_and(|addressee| !me.is_some_and(|me| addressee.eq_ignore_ascii_case(me))) {
            return None;
        }
        let name = head.name.to_ascii_lowercase();
        if name == "start" {
            return Some(Self::Start);
        }
        let rest = head.rest.trim();
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Some(match name.parse::<CommandName>().ok()? {
            CommandName::New => Self::New { first_message: given(rest) },
            CommandName::Reset => Self::Reset,
            CommandName::Stop => Self::Stop,
            CommandName::Compact => Self::Compact,
            CommandName::Memory => match undo(rest) {
                Some(which) => Self::UndoMemory { number: number(which) },
                None => Self::Memory { up_to: number(rest) },
            },
            CommandName::Forget => Self::Forget { number: number(rest) },
            CommandName::Approve => Self::Approve { which: Which::parse(rest).0 },
            CommandName::Deny => {
                let (which, reason) = Which::parse(rest);
                Self::Deny { which, reason: given(reason) }
            }
            CommandName::Link => Self::Link { step: LinkStep::parse(rest) },
            CommandName::Unlink => Self::Unlink,
            CommandName::Remind => Self::Remind { step: RemindStep::parse(rest) },
            CommandName::Usage => Self::Usage,
            CommandName::TimeZone => Self::TimeZone { zone: given(rest) },
            CommandName::Help => Self::Help,
        })
    }

    /// Returns true if the command starts a new Session, and so is stored as a boundary.
    pub fn is_boundary(&self) -> bool {
        matches!(self, Self::New { .. } | Self::Reset)
    }

    /// Returns the confirmation for the user. `None` means that the agent's answer follows, or that the confirmation
    /// depends on the store.
    pub fn confirmation(&self, texts: &dyn Texts) -> Option<String> {
        match self {
            Self::New { first_message: Some(_) }
            | Self::Compact
            | Self::Stop
            | Self::Memory { .. }
            | Self::UndoMemory { .. }
            | Self::Forget { .. }
            | Self::Link { .. }
            | Self::Unlink
            | Self::Usage
            | Self::TimeZone { .. }
            | Self::Remind { .. }
            | Self::Approve { .. }
            | Self::Deny { .. } => None,
            Self::New { first_message: None } => Some(texts.new_conversation().into()),
            Self::Reset => Some(texts.started_over().into()),
            Self::Start => Some(format!("{}\n\n{}", texts.welcome(), list(texts))),
            Self::Help => Some(list(texts)),
        }
    }
}

/// Returns the name after the `@` of a command at the start of `text`, for any command.
pub fn addressee(text: &str) -> Option<&str> {
    Head::of(text)?.addressee
}

/// Returns the text after the command at the start of `text`, for any command; trimmed.
pub fn rest(text: &str) -> Option<&str> {
    Some(Head::of(text)?.rest.trim())
}

/// Chinese punctuation that separates a command from the rest. A question mark makes it a question about the command.
const PUNCTUATION: [char; 8] = ['。', '，', '、', '；', '：', '！', '…', '～'];

/// `/name[@addressee]` at the start of a text, also with the slash of a Chinese keyboard, and the rest.
struct Head<'a> {
    name: &'a str,
    addressee: Option<&'a str>,
    rest: &'a str,
}

impl<'a> Head<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let text = text.trim_start().strip_prefix(['/', '／'])?;
        let is_end = |c: char| c.is_whitespace() || PUNCTUATION.contains(&c);
        let (head, rest) = text.split_at(text.find(is_end).unwrap_or(text.len()));
        let rest = rest.trim_start_matches(PUNCTUATION);
        let (name, addressee) = match head.split_once('@') {
            Some((name, addressee)) => (name, Some(addressee)),
            None => (head, None),
        };
        let is_word = |word: &str| {
            !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        (is_word(name) && addressee.is_none_or(is_word)).then_some(Self { name, addressee, rest })
    }
}

/// Returns the number in `rest` if there is nothing else: `2`, also as `#2`, `2.` or `<2>`.
fn number(rest: &str) -> Option<u32> {
    let digits = rest.trim().trim_start_matches(['#', '<']).trim_end_matches(['.', '>']);
    digits.parse().ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns the text after the word `undo`, if that comes first.
fn undo(rest: &str) -> Option<&str> {
    let (word, which) = rest.trim().split_once(char::is_whitespace).unwrap_or((rest.trim(), ""));
    word.eq_ignore_ascii_case("undo").then_some(which)
}

fn list(texts: &dyn Texts) -> String {
    let lines = CommandName::ALL.iter().map(|command| {
        let (usage, meaning) = texts.command(*command);
        format!("{usage}{}{meaning}", texts.colon())
    });
    format!("{}\n{}", texts.commands(), lines.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::language::Language;

    fn new(first_message: &str) -> Command {
        Command::New { first_message: Some(first_message.into()) }
    }

    #[test]
    fn a_command_is_read_in_any_case_with_and_without_the_bots_name() {
        let check = |text, wanted: Option<Command>| {
            assert_eq!(Command::parse(text, Some("AnnalsBot")), wanted, "{text:?}");
        };
        check("/new", Some(Command::New { first_message: None }));
        check("/NEW@annalsbot  ", Some(Command::New { first_message: None }));
        check("/new hello there", Some(new("hello there")));
        check("／new hello there", Some(new("hello there")));
        check("/new@AnnalsBot\nhello\nthere", Some(new("hello\nthere")));
        check("  /new x", Some(new("x")));
        check("/new@AnnalsBot，你好", Some(new("你好")));
        check("/new，帮我看看", Some(new("帮我看看")));
        check("/new ，帮我看看", Some(new("，帮我看看")));
        check("/stop。", Some(Command::Stop));
        check("/approve，谢谢", Some(Command::Approve { which: Which::Only }));
        assert_eq!(rest("/compact，预算 "), Some("预算"));
        check("/reset", Some(Command::Reset));
        check("/Reset now", Some(Command::Reset));
        check("/compact the budget", Some(Command::Compact));
        check("/STOP@AnnalsBot now", Some(Command::Stop));
        check("/start ref_42", Some(Command::Start));
        check("/help@ANNALSBOT", Some(Command::Help));
        check("/memory", Some(Command::Memory { up_to: None }));
        check("/Memory@annalsbot 30", Some(Command::Memory { up_to: Some(30) }));
        check("/memory UNDO 3", Some(Command::UndoMemory { number: Some(3) }));
        check("/memory undo", Some(Command::UndoMemory { number: None }));
        let link = |step| Some(Command::Link { step });
        check("/link", link(LinkStep::Start));
        check("/Link@annalsbot  YES", link(LinkStep::Yes));
        check("/link no", link(LinkStep::No));
        check("/link 是", link(LinkStep::Yes));
        check("/link 否", link(LinkStep::No));
        check("/link abcde-fghjk", link(LinkStep::Code("ABCDEFGHJK".into())));
        check("/link o1l 2i", link(LinkStep::Code("01121".into())));
        check("/unlink now", Some(Command::Unlink));
        check("/USAGE@annalsbot", Some(Command::Usage));
        let zone = |zone: Option<&str>| Some(Command::TimeZone { zone: zone.map(str::to_owned) });
        check("/timezone", zone(None));
        check("/TimeZone@annalsbot  Asia/Shanghai ", zone(Some("Asia/Shanghai")));
        check("/timezone new york", zone(Some("new york")));
        let remind = |step| Some(Command::Remind { step });
        for typed in ["/remind", "/remind List", "/remind cancel ", "/remind 取消"] {
            check(typed, remind(RemindStep::List));
        }
        check("/remind list tomorrow", remind(RemindStep::Add("list tomorrow".into())));
        check("/Remind@annalsbot Cancel 3fa2c1 ", remind(RemindStep::Cancel("3fa2c1".into())));
        check("/remind 取消 3fa2c1", remind(RemindStep::Cancel("3fa2c1".into())));
        check("/remind 9:00 tea", remind(RemindStep::Add("9:00 tea".into())));
        check("/memory undone", Some(Command::Memory { up_to: None }));
        for (typed, number) in [
            ("/forget 2", Some(2)),
            ("/FORGET@annalsbot  #2 ", Some(2)),
            ("/forget <12>", Some(12)),
            ("/forget 3.", Some(3)),
            ("/forget", None),
            ("/forget two", None),
            ("/forget 2 3", None),
            ("/forget -2", None),
            ("/forget +2", None),
            ("/forget 2.5", None),
            ("/forget 99999999999", None),
        ] {
            check(typed, Some(Command::Forget { number }));
        }
    }

    #[test]
    fn requests_are_selected_by_number_code_or_not_at_all() {
        let approve = |which| Some(Command::Approve { which });
        for (typed, which) in [
            ("/approve", Which::Only),
            ("/Approve@annalsbot 2", Which::Number(2)),
            ("/approve #2.", Which::Number(2)),
            ("/approve ALL", Which::All),
            ("/approve 5F2b", Which::Code("5f2b".into())),
            ("/approve please", Which::Only),
            ("/approve face", Which::Only),
        ] {
            assert_eq!(Command::parse(typed, Some("AnnalsBot")), approve(which), "{typed}");
        }
        for (typed, which, reason) in [
            ("/deny", Which::Only, None),
            ("/deny 2", Which::Number(2), None),
            ("/deny 2 too much", Which::Number(2), Some("too much")),
            ("/deny too much", Which::Only, Some("too much")),
            ("/deny all not today", Which::All, Some("not today")),
        ] {
            let wanted = Command::Deny { which, reason: reason.map(str::to_owned) };
            assert_eq!(Command::parse(typed, None), Some(wanted), "{typed}");
        }
    }

    #[test]
    fn everything_else_is_an_ordinary_message() {
        let ordinary = "|/|new|hello /new|/news|/new-york|/new@|/new@otherbot|/new@otherbot hi|/unknown|\
            //new|/ new|/new@a@b|/new你好|/approve？|/approve吗|/news，你好|/new@otherbot，你好|/new@，你好";
        for text in ordinary.split('|') {
            assert_eq!(Command::parse(text, Some("AnnalsBot")), None, "{text:?}");
        }
        assert_eq!(Command::parse("/new@anybot", None), None);
    }

    #[test]
    fn the_addressee_is_found_for_any_command() {
        assert_eq!(addressee("/weather@OtherBot paris"), Some("OtherBot"));
        assert_eq!(addressee("/weather paris"), None);
        assert_eq!(addressee("mail me@example.com"), None);
    }

    #[test]
    fn help_names_each_command_that_exists() {
        for texts in Language::ALL.map(Language::texts) {
            let help = Command::Help.confirmation(texts).unwrap();
            for &command in CommandName::ALL {
                let (usage, _) = texts.command(command);
                assert!(help.contains(usage));
                assert_eq!(usage.split_whitespace().next(), Some(format!("/{command}").as_str()));
            }
            assert_eq!(new("x").confirmation(texts), None);
        }
    }

    proptest! {
        #[test]
        fn the_first_message_is_the_typed_text(text in "\\PC{0,40}") {
            let trimmed = text.trim();
            let wanted = (!trimmed.is_empty()).then(|| trimmed.to_owned());
            prop_assert_eq!(
                Command::parse(&format!("/new {text}"), None),
                Some(Command::New { first_message: wanted })
            );
        }
    }
}
