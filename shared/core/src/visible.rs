//! Makes text safe for people who decide by it, so that nothing in it is hidden: [`escaped`], [`shown_input`]. Shortens texts:
//! [`without_middle`].
//!
//! A character that changes the direction of a line, joins letters invisibly or has no width can make a text look like
//! another one. So it is written as its escape, such as `\u202e`, in every approval request.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::Value;

/// Maximum number of characters of an argument that is shown in full.
const MAX_VALUE_CHARS: usize = 400;
/// Number of characters shown at the start of a longer value.
const HEAD_CHARS: usize = 240;
/// Number of characters shown at the end of a longer value.
const TAIL_CHARS: usize = 120;
/// Maximum number of characters of a shown input, after its long values are shortened.
const MAX_INPUT_CHARS: usize = 6_000;

/// Error for an input that is too long to be shown with each of its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not carried out: somebody has to allow this call first, and its arguments are too long to be shown; shown with \
     long values shortened they take {chars} characters, and at most {MAX_INPUT_CHARS} can be. Call it with fewer or \
     shorter arguments."
)]
pub struct TooLongToShow {
    chars: usize,
}

/// Writes each character of `text` that is invisible, or that changes how others look, as `\uXXXX`, in UTF-16 as in
/// JSON. Line feeds and tabs are kept.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_hidden(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a string does not fail.
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

/// Returns `input` for people: JSON with every argument, in which long values have their start, their end and the
/// number of omitted characters, which `left_out` says, and hidden characters are escaped.
pub fn shown_input(
    input: &Value,
    left_out: impl Fn(usize) -> String + Copy,
) -> Result<String, TooLongToShow> {
    let json = serde_json::to_string_pretty(&shortened(input, left_out)).unwrap_or_default();
    // Nothing in it can end the code fence around it.
    let shown = escaped(&json).replace("```", "\\u0060\\u0060\\u0060");
    let chars = shown.chars().count();
    if chars > MAX_INPUT_CHARS { Err(TooLongToShow { chars }) } else { Ok(shown) }
}

fn shortened(value: &Value, left_out: impl Fn(usize) -> String + Copy) -> Value {
    match value {
        Value::String(text) => Value::String(shortened_text(text, left_out)),
        Value::Array(values) => Value::Array(values.iter().map(|value| shortened(value, left_out)).collect()),
        // Names are not shortened: two different ones could become equal.
        Value::Object(fields) => Value::Object(
            fields.iter().map(|(name, value)| (name.clone(), shortened(value, left_out))).collect(),
        ),
        other => other.clone(),
    }
}

fn shortened_text(text: &str, left_out: impl Fn(usize) -> String) -> String {
    if text.chars().count() <= MAX_VALUE_CHARS {
        return text.to_owned();
    }
    without_middle(text, HEAD_CHARS, TAIL_CHARS, |count| format!(" … {} … ", left_out(count)))
}

/// Returns `text` with a `mark` in place of all but its first `head` and last `tail` characters; the mark is given their number.
pub fn without_middle(text: &str, head: usize, tail: usize, mark: impl FnOnce(usize) -> String) -> String {
    let left_out = text.chars().count().saturating_sub(head + tail);
    if left_out == 0 {
        return text.to_owned();
    }
    let start: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(head + left_out).collect();
    format!("{start}{}{end}", mark(left_out))
}

/// Returns whether `c` is a control or format character, a line or paragraph separator, a variation selector or a filler
/// that shows nothing. Source: the general categories Cc, Cf, Zl and Zp and `Default_Ignorable_Code_Point` of Unicode 16; and the object replacement character.
pub(crate) fn is_hidden(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\t'))
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}'
            | '\u{8e2}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffc}' | '\u{110bd}' | '\u{110cd}'
            | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::texts::Plain;
    use crate::texts::en::En;

    fn left_out(count: usize) -> String {
        En.characters_left_out(count)
    }

    #[test]
    fn invisible_characters_are_escaped() {
        assert_eq!(escaped("Ada, 好 👋 é\n\t"), "Ada, 好 👋 é\n\t");
        assert_eq!(escaped("pay \u{202e}001\u{202c}"), "pay \\u202e001\\u202c");
        assert_eq!(
            escaped("a\u{200b}b\u{feff}c\u{2066}d\u{0}e\u{7f}"),
            "a\\u200bb\\ufeffc\\u2066d\\u0000e\\u007f"
        );
        assert_eq!(escaped("tag\u{e0041}"), "tag\\udb40\\udc41", "in UTF-16, as JSON has it");
    }

    #[test]
    fn every_argument_is_shown_and_long_values_tell_how_much_is_omitted() {
        let input = json!({"note": "x".repeat(5_000), "lines": ["y".repeat(401), {"deep": "z"}], "payTo": "mallory", "amount": 9_999});
        let shown = shown_input(&input, left_out).unwrap();
        assert!(
            shown.contains("[4640 characters are not shown]")
                && shown.contains("[41 characters are not shown]")
        );
        assert!(
            shown.contains("\"deep\": \"z\"")
                && shown.ends_with("\"payTo\": \"mallory\",\n  \"amount\": 9999\n}")
        );
        let many: serde_json::Map<String, Value> =
            (0..400).map(|at| (format!("name-{at}"), json!("value"))).collect();
        let error = shown_input(&Value::Object(many), left_out).unwrap_err().to_string();
        assert!(error.starts_with("not carried out: somebody has to allow this call first"), "{error}");
        let name = json!({ "n".repeat(7_000): 1 });
        assert!(shown_input(&name, left_out).is_err(), "a long name is no way around it");
    }

    proptest! {
        #[test]
        fn the_end_of_every_value_and_every_name_is_shown(
            fields in proptest::collection::btree_map("[a-z]{1,12}", "\\PC{0,900}", 0..6)
        ) {
            let shown = shown_input(&json!(fields), left_out).unwrap();
            let read: std::collections::BTreeMap<String, String> = serde_json::from_str(&shown).unwrap();
            prop_assert_eq!(read.keys().collect::<Vec<_>>(), fields.keys().collect::<Vec<_>>());
            for (name, value) in &fields {
                let tail: String = value.chars().skip(value.chars().count().saturating_sub(TAIL_CHARS)).collect();
                prop_assert!(read[name].ends_with(&tail), "the escapes read back as what they stand for");
            }
            prop_assert!(!shown.chars().any(is_hidden));
        }
    }
}
