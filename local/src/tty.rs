//! Capabilities of a terminal.

use std::io::IsTerminal;

use annals_core::settings::Env;

/// Returns true if output to `stream` may have colours: on a terminal that is not dumb, unless `NO_COLOR` is set.
pub fn has_colours(env: Env<'_>, stream: &impl IsTerminal) -> bool {
    can_move(env, stream) && env.optional("NO_COLOR").is_none()
}

/// Returns true if output on `stream` may be overwritten, as spinners do: on a terminal that is not dumb.
pub fn can_move(env: Env<'_>, stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && env.optional("TERM").is_none_or(|term| term != "dumb")
}

/// Replaces control characters other than line breaks and tabs, which could control the terminal.
pub(crate) fn printable(text: &str) -> String {
    let printable = |c: char| if c.is_control() && c != '\n' && c != '\t' { '\u{FFFD}' } else { c };
    text.replace("\r\n", "\n").chars().map(printable).collect()
}
