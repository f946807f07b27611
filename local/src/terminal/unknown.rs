//! Commands that do not exist, which are not sent to the model.

use annals_core::command::Command;
use annals_core::texts::Texts;

use super::editor::all;

/// Returns the note about `line` if it begins with a command that does not exist: those that it may have been meant to be.
pub(super) fn command(line: &str, texts: &dyn Texts) -> Option<String> {
    let name = line.split_whitespace().next()?;
    let bare = name.strip_prefix('/')?;
    // A path is a text.
    let is_name = bare.starts_with(|c: char| c.is_ascii_alphabetic())
        && bare.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    if !is_name
        || Command::parse(name, None).is_some()
        || names(texts).any(|known| known.eq_ignore_ascii_case(name))
    {
        return None;
    }
    let typed = name.to_ascii_lowercase();
    let begun: Vec<&str> = names(texts).filter(|known| known.starts_with(&typed)).collect();
    let near: Vec<&str> = if begun.is_empty() {
        names(texts).filter(|known| strsim::osa_distance(&typed, known) <= 2).collect()
    } else {
        begun
    };
    Some(texts.no_such_command(name, &near))
}

/// Returns the names of all commands.
fn names(texts: &dyn Texts) -> impl Iterator<Item = &'static str> {
    all(texts).filter_map(|(usage, _)| usage.split_whitespace().next())
}

#[cfg(test)]
mod tests {
    use annals_core::texts::en::En;

    use super::*;

    #[test]
    fn a_command_that_does_not_exist_is_named_with_those_that_are_near() {
        for (line, hint) in [
            ("/hlep", "There is no command /hlep: did you mean /help? Nothing was sent."),
            ("/mem now", "There is no command /mem: did you mean /memory? Nothing was sent."),
            ("/lin", "There is no command /lin: did you mean /link? Nothing was sent."),
            ("/frobnicate x", "There is no command /frobnicate: /help lists the commands. Nothing was sent."),
        ] {
            assert_eq!(command(line, &En).as_deref(), Some(hint), "{line}");
        }
        for text in [
            "hello",
            "/help",
            "/HELP",
            "/start",
            "/new day",
            "/history 3",
            "/quit",
            "/etc/hosts is wrong",
            "/ a",
            "//",
            "",
        ] {
            assert_eq!(command(text, &En), None, "{text}");
        }
    }
}
