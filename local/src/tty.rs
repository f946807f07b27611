//! Capabilities of a terminal.

use std::io::IsTerminal;

use annals_channel::settings::language as fixed_language;
use annals_core::language::Language;
use annals_core::settings::{ConfigError, Env};

/// Returns true if output to `stream` may have colours: on a terminal that is not dumb, unless `NO_COLOR` is set.
pub(crate) fn has_colours(env: Env<'_>, stream: &impl IsTerminal) -> bool {
    can_move(env, stream) && env.optional("NO_COLOR").is_none()
}

/// Returns true if output on `stream` may be overwritten, as spinners do: on a terminal that is not dumb.
pub(crate) fn can_move(env: Env<'_>, stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && env.optional("TERM").is_none_or(|term| term != "dumb")
}

/// Returns the language of texts on the terminal: `LANGUAGE`, or else that of the locale.
pub(crate) fn language(env: Env<'_>) -> Result<Language, ConfigError> {
    let locale = || ["LC_ALL", "LC_MESSAGES", "LANG"].into_iter().find_map(|name| env.optional(name));
    let of_locale = || locale().and_then(|locale| Language::of_tag(&locale));
    Ok(fixed_language(env)?.or_else(of_locale).unwrap_or(Language::En))
}

/// Replaces control characters other than line breaks and tabs, which could control the terminal.
pub(crate) fn printable(text: &str) -> String {
    let printable = |c: char| if c.is_control() && c != '\n' && c != '\t' { '\u{FFFD}' } else { c };
    text.replace("\r\n", "\n").chars().map(printable).collect()
}

/// Returns `text` in one line, without control characters.
pub(crate) fn line(text: &str) -> String {
    printable(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the first `chars` characters of `text` in one line; `…` ends one that is shortened.
pub(crate) fn excerpt(text: &str, chars: usize) -> String {
    let text = line(text);
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Returns the width of the terminal at standard output, in columns.
pub(crate) fn width() -> usize {
    usize::from(console::Term::stdout().size().1)
}

/// Returns the beginning of `text` that has at most `columns`; `…` ends one that is shortened.
pub(crate) fn fit(text: &str, columns: usize) -> String {
    console::truncate_str(text, columns, if columns > 0 { "…" } else { "" }).into_owned()
}
