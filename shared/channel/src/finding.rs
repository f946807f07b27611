//! Result of a check of `doctor`: [`Finding`].

use serde::Serialize;

/// Result of a check.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// Name of the check, such as `telegram webhook`.
    pub check: String,
    /// The verdict.
    pub verdict: Verdict,
    /// Details of a success, or the fault with its remedy. Contains no secret.
    pub words: String,
}

/// Verdict of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It works.
    Ok,
    /// It works, but may not be intended.
    Warning,
    /// It does not work.
    Fault,
    /// There is nothing to check, or it cannot be checked here.
    None,
}

impl Finding {
    /// Returns a success, with its details.
    pub fn ok(check: impl Into<String>, words: impl Into<String>) -> Self {
        Self { check: check.into(), verdict: Verdict::Ok, words: words.into() }
    }

    /// Returns a warning, with its remedy.
    pub fn warning(check: impl Into<String>, words: impl Into<String>) -> Self {
        Self { check: check.into(), verdict: Verdict::Warning, words: words.into() }
    }

    /// Returns a fault, with its remedy.
    pub fn fault(check: impl Into<String>, words: impl Into<String>) -> Self {
        Self { check: check.into(), verdict: Verdict::Fault, words: words.into() }
    }

    /// Returns the reason why there is nothing to check.
    pub fn none(check: impl Into<String>, words: impl Into<String>) -> Self {
        Self { check: check.into(), verdict: Verdict::None, words: words.into() }
    }

    /// Returns a success with `good` if `is_well`, else a fault with `bad`.
    pub fn of(check: &str, is_well: bool, good: impl Into<String>, bad: impl Into<String>) -> Self {
        if is_well { Self::ok(check, good) } else { Self::fault(check, bad) }
    }
}
