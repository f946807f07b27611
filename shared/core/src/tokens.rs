//! Estimates the number of tokens of a text. A real tokenizer would take 75 to 135 ms and 50 MB at start.
//!
//! A tokenizer splits a text into words, numbers, punctuation and white space, and then into sequences that it knows.
//! The estimate does the first and guesses the second with weights per class of characters. `tests/token_estimate.rs`
//! compares it with a real tokenizer; [`correction`] adapts it to the model's own count.

use crate::markup::{self, Sender, escape};
use crate::media;
use crate::message::{PartView, UiMessage};

/// Tokens of a message without its content: role and separators.
const PER_MESSAGE: u32 = 4;

/// Hundredths of a token for white space that is not part of a word; twice that for a run of it.
const BLANK: u64 = 44;

/// Estimates `text`: 0 for an empty text, at least 1 for any other, and never less for a longer text. Allocates nothing
/// and takes about 10 ns per character.
pub fn of_text(text: &str) -> u32 {
    let mut hundredths: u64 = 0;
    let mut previous = Class::None;
    let mut run: u32 = 0;
    for c in text.chars() {
        let class = Class::of(c);
        // A single space is part of the following word, but not of a number.
        if previous == Class::Space && run == 1 && class == Class::Digit {
            hundredths += BLANK;
        }
        run = if class.continues(previous) { run.saturating_add(1) } else { 1 };
        hundredths += class.weight(previous, run);
        previous = class;
    }
    if previous == Class::Space && run == 1 {
        hundredths += BLANK;
    }
    u32::try_from(hundredths.div_ceil(100)).unwrap_or(u32::MAX)
}

/// Estimates a message as it is sent to a model, without its [sender](crate::markup::Sender::tokens).
pub fn of_message(message: &UiMessage) -> u32 {
    let lead = markup::lead_lines(message).map(|line| of_text(&escape(&line)));
    message.parts.iter().fold(lead.fold(PER_MESSAGE, u32::saturating_add), |sum, part| {
        sum.saturating_add(match part.view() {
            PartView::Text(text) => of_text(&escape(text)),
            // In words; an image that is shown takes more, see `media::IMAGE_TOKENS`.
            PartView::File { .. } => media::line(part).map_or(0, |line| of_text(&line)),
            PartView::Tool { name, input, output, error, .. } => {
                [of_text(name), of_json(input), of_json(output), of_text(error.unwrap_or_default())]
                    .into_iter()
                    .fold(0, u32::saturating_add)
            }
            // Not sent to a model.
            PartView::Reasoning(_)
            | PartView::Source { .. }
            | PartView::Data { .. }
            | PartView::StepStart
            | PartView::Unknown => 0,
        })
    })
}

/// Estimates a request: its instructions and its messages.
pub fn of_request(system: Option<&str>, messages: &[UiMessage]) -> u32 {
    let system = system.map_or(0, |text| of_text(text).saturating_add(PER_MESSAGE));
    messages.iter().map(of_message).fold(system, u32::saturating_add)
}

/// Estimates a JSON value as it is sent; `None` takes nothing.
pub fn of_json(value: Option<&serde_json::Value>) -> u32 {
    value.map_or(0, |value| of_text(&escape(&value.to_string())))
}

/// Returns the factor for later estimates, if a request that was estimated at `estimated` took `used` tokens: from 0.5
/// to 2, and 1 if either is not known (0).
pub fn correction(used: u32, estimated: u32) -> f64 {
    if used == 0 || estimated == 0 { 1.0 } else { (f64::from(used) / f64::from(estimated)).clamp(0.5, 2.0) }
}

/// Multiplies `estimate` by a [`correction`] and rounds up.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates, as intended")]
pub fn corrected(estimate: u32, correction: f64) -> u32 {
    (f64::from(estimate) * correction).ceil() as u32
}

/// Classes of characters that tokenizers treat differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// Before the first character.
    None,
    Space,
    Newline,
    Lower,
    Upper,
    Digit,
    Punctuation,
    Han,
    WidePunctuation,
    Kana,
    Hangul,
    /// Alphabets of which tokenizers know whole words: Greek, Cyrillic, Armenian, Georgian.
    OtherAlphabet,
    /// Other scripts.
    Script,
    /// Characters that join and modify emoji.
    Joiner,
    /// Emoji and rare symbols.
    Symbol,
}

impl Class {
    fn of(c: char) -> Self {
        match c {
            ' ' | '\t' => Self::Space,
            '\n' | '\r' => Self::Newline,
            'a'..='z' | '\u{C0}'..='\u{24F}' => Self::Lower,
            'A'..='Z' => Self::Upper,
            '0'..='9' => Self::Digit,
            '\0'..='\u{7F}' => Self::Punctuation,
            '\u{80}'..='\u{BF}'
            | '\u{2000}'..='\u{200C}'
            | '\u{200E}'..='\u{206F}'
            | '\u{3000}'..='\u{303F}'
            | '\u{FE30}'..='\u{FE4F}'
            | '\u{FF00}'..='\u{FF65}' => Self::WidePunctuation,
            '\u{200D}' | '\u{FE00}'..='\u{FE0F}' => Self::Joiner,
            '\u{370}'..='\u{58F}' | '\u{10A0}'..='\u{10FF}' => Self::OtherAlphabet,
            '\u{1100}'..='\u{11FF}' | '\u{AC00}'..='\u{D7FF}' => Self::Hangul,
            '\u{590}'..='\u{109F}' | '\u{1200}'..='\u{1FFF}' => Self::Script,
            '\u{3040}'..='\u{30FF}' | '\u{31F0}'..='\u{31FF}' => Self::Kana,
            '\u{2E80}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}' => Self::Han,
            _ => Self::Symbol,
        }
    }

    /// Returns true if a character of this class continues a run that `previous` began.
    fn continues(self, previous: Self) -> bool {
        let is_blank = |class| matches!(class, Self::Space | Self::Newline);
        self == previous
            || (previous == Self::Upper && self == Self::Lower)
            || (is_blank(previous) && is_blank(self))
    }

    /// Returns hundredths of a token for character number `run` of its run. The weights are fitted to two thirds of the
    /// texts in `tests/token_estimate.rs`. No first weight is below that of white space, and none falls along a run, so
    /// that a longer text never takes less.
    fn weight(self, previous: Self, run: u32) -> u64 {
        match (self, run) {
            // A first space is counted with the next character, and words of common length are one token.
            (Self::None, _) | (Self::Space, 1 | 3..) | (Self::Newline, 3..) | (Self::Lower, 2..=7) => 0,
            (Self::Space | Self::Newline, 2) if previous == Self::Space => 2 * BLANK,
            (Self::Space | Self::Newline, _) => BLANK,
            // Within a name such as `maxTokens`.
            (Self::Upper, 1) if previous == Self::Lower => 70,
            (Self::Lower | Self::Upper | Self::OtherAlphabet, 1) => 100,
            (Self::Lower, _) => 25,
            (Self::Upper, _) => 15,
            (Self::OtherAlphabet, _) => 17,
            // Numbers are split into groups of three.
            (Self::Digit, run) => u64::from(run % 3 == 1) * 100,
            (Self::Punctuation, 1) => 78,
            (Self::Punctuation, _) => 24,
            // Tokenizers differ most here: o200k_base takes 60 to 90, cl100k_base 100 to 130.
            (Self::Han, _) => 93,
            (Self::WidePunctuation, _) => 80,
            (Self::Kana, _) => 75,
            (Self::Hangul, _) => 88,
            (Self::Script, _) => 50,
            (Self::Joiner, _) => 120,
            (Self::Symbol, _) => 190,
        }
    }
}

impl Sender {
    /// Returns the token estimate of both tags.
    pub fn tokens(&self) -> u32 {
        of_text(&self.opening()).saturating_add(of_text(&self.closing()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::message::{Part, Role};

    #[test]
    fn words_numbers_and_characters_count() {
        for (text, tokens) in [
            ("", 0),
            (" ", 1),
            ("\u{200D}", 2),
            ("hello", 1),
            ("hello world", 2),
            ("123456", 2),
            ("在 2026", 4),
            ("你好世界", 4),
            ("你好 ok", 3),
            ("maxTokens", 2),
        ] {
            assert_eq!(of_text(text), tokens, "{text:?}");
        }
    }

    #[test]
    fn a_request_is_its_instructions_and_its_messages() {
        let question = UiMessage::text("1", Role::User, "你好世界");
        assert_eq!(of_request(None, &[]), 0);
        assert_eq!(of_request(Some("你好世界"), &[question.clone(), question]), 3 * (PER_MESSAGE + 4));
    }

    #[test]
    fn a_tool_counts_by_name_input_and_output() {
        let part = |value| vec![Part::new(value).unwrap()];
        let call = json!({"type": "tool-search", "toolCallId": "c", "state": "input-available", "input": {"q": "a"}});
        let mut done = call.clone();
        done["output"] = json!(["你好世界"]);
        let tokens = |value| of_message(&UiMessage::new("1", Role::Assistant, part(value)));
        assert!(tokens(call.clone()) > PER_MESSAGE + of_text("search"));
        assert!(tokens(done) >= tokens(call) + 4);
    }

    #[test]
    fn a_correction_is_limited_and_needs_both_numbers() {
        for (used, estimated, wanted) in
            [(150, 100, 1.5), (10, 100, 0.5), (1000, 100, 2.0), (0, 100, 1.0), (100, 0, 1.0)]
        {
            assert!((correction(used, estimated) - wanted).abs() < 1e-9, "{used}/{estimated}");
        }
        assert_eq!(corrected(100, 1.005), 101);
        assert_eq!(corrected(u32::MAX, 2.0), u32::MAX);
    }

    /// Generates text of all classes, in runs and mixed.
    fn text() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            ".{0,8}",
            "[a-zA-Z]{0,12}",
            "[0-9]{1,5}",
            "[ \t\n]{1,3}",
            "[{}\":,;.]{1,4}",
            "[一-龥]{1,6}",
            "[，。！]",
            "[ぁ-んァ-ン]{1,4}",
            "[가-힣]{1,4}",
            "[а-я]{1,9}",
            "[\u{1F600}-\u{1F64F}\u{200D}\u{FE0F}]{1,3}",
        ];
        prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn a_longer_text_never_takes_fewer_tokens(before in text(), after in text()) {
            let whole = of_text(&format!("{before}{after}"));
            prop_assert!(whole >= of_text(&before), "{whole} < {}", of_text(&before));
            prop_assert!(whole >= of_text(&after), "{whole} < {}", of_text(&after));
        }

        #[test]
        fn only_an_empty_text_takes_no_tokens(text in text()) {
            prop_assert_eq!(of_text(&text) == 0, text.is_empty());
        }
    }
}
