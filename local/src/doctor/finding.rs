//! Prints the result of a check as a line.

use std::io::{Result, Write};

use annals_channel::finding::{Finding, Verdict};
use annals_core::language::Language;

use crate::tty::printable;

/// Prints `finding` in `language`. `colours` are for a terminal.
pub(super) fn print(
    finding: &Finding,
    language: Language,
    colours: bool,
    out: &mut impl Write,
) -> Result<()> {
    let (mark, colour) = match finding.verdict {
        Verdict::Ok => ("ok", "32"),
        Verdict::Warning => ("warn", "33"),
        Verdict::Fault => ("fault", "31"),
        Verdict::None => ("-", "2"),
    };
    let mark = if colours { format!("\x1b[{colour}m{mark:<6}\x1b[0m") } else { format!("{mark:<6}") };
    // Text from other systems must stay on its line, and must not control the terminal.
    let line = |text: &str| printable(text).replace('\n', " ");
    writeln!(out, "{mark} {:<20} {}", line(&finding.check), line(&finding.words.text(language)))
}
