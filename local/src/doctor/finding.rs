//! What a check has found: one line.

use std::io::{Result, Write};

/// What a check has found.
#[derive(Clone, Debug)]
pub(super) struct Finding {
    check: String,
    verdict: Verdict,
    words: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Ok,
    /// It works, and is not what most people want.
    Warning,
    Fault,
    /// There is nothing to check, or not from here.
    None,
}

impl Finding {
    /// All is well; what there is.
    pub(super) fn ok(check: impl Into<String>, words: impl Into<String>) -> Self {
        Self { check: check.into(), verdict: Verdict::Ok, words: words.into() }
    }

    /// What works and may not be meant, and what to do.
    pub(super) fn warning(check: impl Into<String>, words: impl Into<String>) -> Self {
        Self { check: check.into(), verdict: Verdict::Warning, words: words.into() }
    }

    /// What is wrong, and what to do.
    pub(super) fn fault(check: impl Into<String>, words: impl Into<String>) -> Self {
        Self { check: check.into(), verdict: Verdict::Fault, words: words.into() }
    }

    /// Why there is nothing to check.
    pub(super) fn none(check: impl Into<String>, words: impl Into<String>) -> Self {
        Self { check: check.into(), verdict: Verdict::None, words: words.into() }
    }

    /// Well where `is_well`, with `good` or else `bad` to say.
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
        // Names and words come from elsewhere too: one line each, and nothing that drives a terminal.
        let line = |text: &str| -> String {
            text.chars()
                .map(|c| if c == '\n' { ' ' } else { c })
                .map(|c| if c.is_control() { '\u{FFFD}' } else { c })
                .collect()
        };
        writeln!(out, "{mark} {:<20} {}", line(&self.check), line(&self.words))
    }
}
