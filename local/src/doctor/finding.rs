//! Result of a check, printed as a line: [`Finding`].

use std::io::{Result, Write};

use crate::tty::printable;

/// Result of a check.
#[derive(Clone, Debug)]
pub(super) struct Finding {
    check: String,
    verdict: Verdict,
    words: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Ok,
    /// It works, but may not be intended.
    Warning,
    Fault,
    /// There is nothing to check, or it cannot be checked here.
    None,
}

impl Finding {
    /// Returns a success, with its details.
    pub(super) fn ok(check: impl Into<String>, words: impl Into<String>) -> Self {
        Self { check: check.into(), verdict: Verdict::Ok, words: words.into() }
    }

    /// Returns a warning, with its remedy.
    pub(super) fn warning(check: impl Into<String>, words: impl Into<String>) -> Self {
        Self { check: check.into(), verdict: Verdict::Warning, words: words.into() }
    }

    /// Returns a fault, with its remedy.
    pub(super) fn fault(check: impl Into<String>, words: impl Into<String>) -> Self {
        Self { check: check.into(), verdict: Verdict::Fault, words: words.into() }
    }

    /// Returns the reason why there is nothing to check.
    pub(super) fn none(check: impl Into<String>, words: impl Into<String>) -> Self {
        Self { check: check.into(), verdict: Verdict::None, words: words.into() }
    }

    /// Returns a success with `good` if `is_well`, else a fault with `bad`.
    pub(super) fn of(check: &str, is_well: bool, good: impl Into<String>, bad: impl Into<String>) -> Self {
        if is_well { Self::ok(check, good) } else { Self::fault(check, bad) }
    }

    pub(super) fn is_fault(&self) -> bool {
        self.verdict == Verdict::Fault
    }

    pub(super) fn print(&self, colours: bool, out: &mut impl Write) -> Result<()> {
        let (mark, colour) = match self.verdict {
            Verdict::Ok => ("ok", "32"),
            Verdict::Warning => ("warn", "33"),
            Verdict::Fault => ("fault", "31"),
            Verdict::None => ("-", "2"),
        };
        let mark = if colours { format!("\x1b[{colour}m{mark:<6}\x1b[0m") } else { format!("{mark:<6}") };
        // Text from other systems must stay on its line, and must not control the terminal.
        let line = |text: &str| printable(text).replace('\n', " ");
        writeln!(out, "{mark} {:<20} {}", line(&self.check), line(&self.words))
    }
}
