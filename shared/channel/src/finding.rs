//! Result of a check of `doctor`: [`Finding`]. Its [`Words`] are beside the check, made by [`words!`](crate::words).

use annals_core::language::Language;
use annals_core::settings::Setting;
use annals_io::errors::chain;
use serde::Serialize;

use crate::client::CallError;

/// Result of a check.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Name of the check, such as `telegram webhook`, which is the same in every language.
    pub check: String,
    /// The verdict.
    pub verdict: Verdict,
    /// Details of a success, or the fault with its remedy. Contains no secret.
    pub words: Words,
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
    pub fn ok(check: impl Into<String>, words: impl Into<Words>) -> Self {
        Self { check: check.into(), verdict: Verdict::Ok, words: words.into() }
    }

    /// Returns a warning, with its remedy.
    pub fn warning(check: impl Into<String>, words: impl Into<Words>) -> Self {
        Self { check: check.into(), verdict: Verdict::Warning, words: words.into() }
    }

    /// Returns a fault, with its remedy.
    pub fn fault(check: impl Into<String>, words: impl Into<Words>) -> Self {
        Self { check: check.into(), verdict: Verdict::Fault, words: words.into() }
    }

    /// Returns the reason why there is nothing to check.
    pub fn none(check: impl Into<String>, words: impl Into<Words>) -> Self {
        Self { check: check.into(), verdict: Verdict::None, words: words.into() }
    }

    /// Returns the finding for a channel that is not set up.
    pub fn not_set_up(channel: &str) -> Self {
        Self::none(channel, crate::words!("not set up", "未配置"))
    }

    /// Returns a success with `good` if `is_well`, else a fault with `bad`.
    pub fn of(check: &str, is_well: bool, good: impl Into<Words>, bad: impl Into<Words>) -> Self {
        if is_well { Self::ok(check, good) } else { Self::fault(check, bad) }
    }
}

/// Details of a finding in each language. Errors, ids and commands are the same in all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    /// In English.
    pub en: String,
    /// In Chinese.
    pub zh: String,
}

/// Formats the [`Words`](crate::finding::Words) of a finding, in English and Chinese.
#[macro_export]
macro_rules! words {
    ($en:literal, $zh:literal) => {
        $crate::finding::Words { en: format!($en), zh: format!($zh) }
    };
}

/// Words without a language: an error of another system, a name, an address or a number.
impl From<String> for Words {
    fn from(text: String) -> Self {
        Self { en: text.clone(), zh: text }
    }
}

impl Words {
    /// Returns the words of a request that failed: if nobody answered, with the remedy for the address of `api_base`. A refusal
    /// names its own.
    pub fn of_failure(error: &CallError, api_base: &Setting) -> Self {
        let (said, setting) = (chain(error), api_base.name);
        match error {
            CallError::Unavailable { .. } | CallError::Unreadable { .. } => {
                crate::words!("{said}; check {setting} and the network", "{said}；请检查 {setting} 和网络")
            }
            _ => said.into(),
        }
    }

    /// Returns the text in `language`.
    pub fn text(&self, language: Language) -> &str {
        match language {
            Language::En => &self.en,
            Language::Zh => &self.zh,
        }
    }

    /// Returns these words, a colon, and `more`: a reason, or a remedy.
    #[must_use]
    pub fn followed_by(self, more: &Self) -> Self {
        Self { en: format!("{}: {}", self.en, more.en), zh: format!("{}：{}", self.zh, more.zh) }
    }
}
