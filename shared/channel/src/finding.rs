//! Result of a check of `doctor`: [`Finding`].
//!
//! - `finding/words.rs`: what a finding can say: [`Words`]
//! - `finding/en.rs`, `finding/zh.rs`: the same in each language; a further one is a file like these

mod en;
mod words;
mod zh;

use annals_core::language::Language;
use serde::Serialize;

pub use words::{KeysOf, Words};

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
    pub fn ok(check: impl Into<String>, words: Words) -> Self {
        Self { check: check.into(), verdict: Verdict::Ok, words }
    }

    /// Returns a warning, with its remedy.
    pub fn warning(check: impl Into<String>, words: Words) -> Self {
        Self { check: check.into(), verdict: Verdict::Warning, words }
    }

    /// Returns a fault, with its remedy.
    pub fn fault(check: impl Into<String>, words: Words) -> Self {
        Self { check: check.into(), verdict: Verdict::Fault, words }
    }

    /// Returns the reason why there is nothing to check.
    pub fn none(check: impl Into<String>, words: Words) -> Self {
        Self { check: check.into(), verdict: Verdict::None, words }
    }

    /// Returns a success with `good` if `is_well`, else a fault with `bad`.
    pub fn of(check: &str, is_well: bool, good: Words, bad: Words) -> Self {
        if is_well { Self::ok(check, good) } else { Self::fault(check, bad) }
    }
}

impl Words {
    /// Returns the text in `language`.
    pub fn text(&self, language: Language) -> String {
        match language {
            Language::En => en::text(self),
            Language::Zh => zh::text(self),
        }
    }
}

/// The command that sets the webhook of a channel.
fn set_up(channel: &str) -> String {
    format!("cargo run -- setup {channel} --url https://…/{channel}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::Unreachable;

    #[test]
    fn words_are_said_in_each_language_with_the_same_values_and_commands() {
        let words = Words::DiskLow { free: "12.5 MB".into() };
        assert!(words.text(Language::En).starts_with("12.5 MB free: delete or move"));
        let chinese = words.text(Language::Zh);
        assert!(chinese.contains("12.5 MB") && chinese.contains("ANNALS_DATA_DIR"), "{chinese}");
        let words = Words::TelegramUnreachable {
            url: "https://bot.example/telegram".into(),
            why: Unreachable::NoConnection,
        };
        for language in Language::ALL {
            let text = words.text(language);
            assert!(
                text.contains("https://bot.example/telegram") && text.contains(&set_up("telegram")),
                "{text}"
            );
        }
        let error = "ResourceNotFoundException: no such table";
        assert_eq!(Words::Error(error.into()).text(Language::Zh), error);
    }
}
