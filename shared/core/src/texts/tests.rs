use proptest::prelude::*;

use super::*;
use crate::command::Command;
use crate::command::name::CommandName;
use crate::language::Language;
use crate::limits::{Amount, Scope};

/// Longest text of a message on Discord, the strictest platform; and of a note that Telegram shows above a pressed button.
const MAX_MESSAGE: usize = 2_000;
const MAX_NOTE: usize = 200;

/// Texts that people choose, and numbers.
#[derive(Clone, Debug)]
pub(super) struct Arguments {
    tool: String,
    words: String,
    number: u32,
}

/// A type of arguments of [`Plain`] texts.
pub(super) trait Sample<'a> {
    fn of(arguments: &'a Arguments) -> Self;
}

impl<'a> Sample<'a> for &'a str {
    fn of(arguments: &'a Arguments) -> Self {
        &arguments.tool
    }
}

impl Sample<'_> for u32 {
    fn of(arguments: &Arguments) -> Self {
        arguments.number
    }
}

impl Sample<'_> for usize {
    fn of(arguments: &Arguments) -> Self {
        arguments.number as usize
    }
}

impl Sample<'_> for TimeZone {
    fn of(_: &Arguments) -> Self {
        Self::UTC
    }
}

fn arguments() -> impl Strategy<Value = Arguments> {
    ("t_[a-z0-9_-]{4,62}", "[b-df-hj-np-tv-z]{6,12}", any::<u32>())
        .prop_map(|(tool, words, number)| Arguments { tool, words, number })
}

/// Returns every text of `texts` with the name of its method, which is repeated for each variant.
#[allow(clippy::too_many_lines, reason = "a list of all texts")]
fn all(texts: &dyn Texts, arguments: &Arguments) -> Vec<(&'static str, String)> {
    let Arguments { tool, words, number } = arguments;
    let (number, count) = (*number, *number as usize);
    let mut all = en::plain(texts, arguments);
    macro_rules! add {
        ($($method:ident($($argument:expr),*)),* $(,)?) => {
            $(all.push((stringify!($method), String::from(texts.$method($($argument),*))));)*
        };
    }
    add!(
        reminder_set(words, words, None, words),
        reminder_set(words, words, Some("0 9 * * *"), words),
        scheduled_prompt(words, words, None),
        scheduled_prompt(words, words, Some(words)),
        request_again(words, &[format!("`/approve {words}`")]),
        nothing_to_undo(number),
        no_such_entry(number),
        no_such_command(words, &[]),
        no_such_command(words, &["/help", "/history"]),
        file_of_reply(None, words, words),
        no_such_time_zone(None),
        no_such_time_zone(Some(TimeZone::UTC)),
    );
    for (_, description) in texts.terminal_commands() {
        all.push(("terminal_commands", description.to_owned()));
    }
    for counted in [0, 1, number] {
        add!(compacted(counted, count));
    }
    for yes in [false, true] {
        add!(
            time_zone(TimeZone::UTC, yes),
            how_to_answer(yes),
            button(yes),
            own_change(yes, words),
            verdict(tool, yes, false),
            verdict(tool, yes, true)
        );
    }
    for missing in [1, count] {
        add!(approval_recorded(tool, missing));
    }
    for whose in [Whose::Yours, Whose::Chats] {
        let some = |cost: Option<&str>, unpriced| Spending {
            replies: u64::from(number),
            read: thousands(u64::from(number)),
            written: "7".into(),
            cost: cost.map(str::to_owned),
            unpriced,
        };
        add!(
            remembered(whose),
            nothing_remembered(whose),
            spent_today(whose, &some(None, 3)),
            spent_lately(whose, 30, &some(Some("0.0123"), 0)),
            spent_lately(whose, 30, &some(Some("0.0123"), 2)),
        );
    }
    let quota = |scope, limit| Quota { scope, limit, used: limit };
    for quota in [
        quota(Scope::Person, Amount::Tokens(u64::from(number))),
        quota(Scope::Chat, Amount::Cost(f64::from(number))),
        quota(Scope::Key, Amount::Tokens(1)),
    ] {
        add!(limit_reached(&quota, words), limit_near(&quota), limit_left(&quota));
    }
    for &kind in EntryKind::ALL {
        let plain = EntryDescription {
            text: words,
            kind,
            said: None,
            day: words,
            until: None,
            is_pending: false,
            tools: None,
        };
        add!(entry(&plain));
        for said in [SaidIn::ThisChat, SaidIn::On("Telegram")] {
            let (until, tools) = (Some(words.as_str()), Some(tool.as_str()));
            add!(entry(&EntryDescription { said: Some(said), until, is_pending: true, tools, ..plain }));
        }
    }
    for &channel in Channel::ALL {
        add!(side(words, channel, None), side(words, channel, Some(words)));
    }
    let unseen = [Unseen::TooLarge, Unseen::NoImage, Unseen::Gone].map(NotShown::Unseen);
    let reasons = [
        NotShown::Audio,
        NotShown::Video,
        NotShown::Document,
        NotShown::Address,
        NotShown::Blind,
        NotShown::TooMany,
        NotShown::Unavailable,
    ];
    for why in reasons.into_iter().chain(unseen) {
        let named = vec![texts.file_kind("file"), format!("{words}.pdf")];
        add!(not_shown(why), files_not_shown(&[FilesNotShown { why, named, more: count }]));
    }
    for kind in
        ["image", "photo", "audio", "video", "voice message", "video message", "sticker", "animation", "file"]
    {
        add!(file_kind(kind));
    }
    let options = [
        CommandOption::Prompt,
        CommandOption::File,
        CommandOption::FirstMessage,
        CommandOption::Focus,
        CommandOption::Undo,
        CommandOption::Number,
        CommandOption::EntryNumber,
        CommandOption::Which,
        CommandOption::Reason,
        CommandOption::Code,
        CommandOption::TimeZone,
        CommandOption::Reminder,
    ];
    for option in options {
        add!(option(option));
    }
    for &command in CommandName::ALL {
        all.push(("command", texts.command(command).1.to_owned()));
    }
    all
}

#[test]
fn every_text_is_checked() {
    let methods = include_str!("../texts.rs").split("\n    fn ").skip(1);
    let methods: Vec<&str> = methods.map(|rest| rest.split('(').next().unwrap()).collect();
    let arguments = Arguments { tool: "shop_refund".into(), words: "x".into(), number: 7 };
    let checked = all(Language::En.texts(), &arguments);
    // The names of locales say nothing.
    for method in methods.iter().filter(|method| **method != "discord_locales") {
        assert!(checked.iter().any(|(name, _)| name == method), "{method} is not checked");
    }
    assert!(methods.len() > 20, "{methods:?}");
}

#[test]
fn lists_of_commands_fit_a_message() {
    for texts in Language::ALL.map(Language::texts) {
        let help = Command::Start.confirmation(texts).unwrap();
        assert!(help.chars().count() <= MAX_MESSAGE, "{help}");
        assert!(texts.answer_this().chars().count() <= 32);
        // The English decides whether arguments can be shown.
        let omission = |texts: &dyn Texts| texts.characters_left_out(640).chars().count();
        assert!(omission(texts) <= omission(Language::En.texts()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn texts_say_something_and_fit(arguments in arguments()) {
        for language in Language::ALL {
            for (name, text) in all(language.texts(), &arguments) {
                prop_assert!(!text.trim().is_empty(), "{name}");
                let most = match name {
                    "button" => 80,
                    "command" | "option" | "ask" => 100,
                    "verdict" | "approval_recorded" | "not_yours" | "admins_only" | "request_is_over" => MAX_NOTE,
                    _ => MAX_MESSAGE,
                };
                let length = text.chars().count();
                prop_assert!(length <= most, "{name} in {language:?} has {length} characters: {text}");
            }
        }
    }

    /// Names, commands and units are the same in every language; three words in a row are none of these.
    #[test]
    fn no_text_in_chinese_has_an_english_sentence(arguments in arguments()) {
        for (name, text) in all(Language::Zh.texts(), &arguments) {
            // The side of a link may be names alone, and marks are no words.
            let has_han = text.chars().any(|c| ('\u{4e00}'..='\u{9fff}').contains(&c));
            prop_assert!(has_han || ["side", "colon", "comma", "full_stop"].contains(&name), "{name}: {text}");
            let said = text.replace(&arguments.tool, "").replace(&arguments.words, "");
            let words = said.split(|c: char| !c.is_ascii_alphabetic() && c != ' ');
            let longest = words.map(|words| words.split_whitespace().count()).max().unwrap_or_default();
            prop_assert!(longest < 3, "{name}: {text}");
        }
    }
}
