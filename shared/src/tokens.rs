//! How many tokens a text takes, roughly: no tokenizer, since one costs 75 to 135 ms and 50 MB at start.

use crate::message::{PartView, UiMessage};

/// Tokens that a message takes beside its text: role and separators.
const PER_MESSAGE: u32 = 4;

/// The estimate for `text`: one for each CJK character, a quarter for each other one, rounded up.
pub fn of_text(text: &str) -> u32 {
    let (mut cjk, mut other) = (0_u32, 0_u32);
    for c in text.chars() {
        if is_cjk(c) { cjk = cjk.saturating_add(1) } else { other = other.saturating_add(1) }
    }
    cjk.saturating_add(other.div_ceil(4))
}

/// The estimate for a message as a model is sent it.
pub fn of_message(message: &UiMessage) -> u32 {
    message.parts.iter().fold(PER_MESSAGE, |sum, part| {
        sum.saturating_add(match part.view() {
            PartView::Text(text) => of_text(text),
            PartView::File { filename, media_type, .. } => {
                of_text(filename.unwrap_or_default()) + of_text(media_type)
            }
            PartView::Tool { name, input, output, error, .. } => {
                let json = |value: Option<&serde_json::Value>| value.map_or(0, |v| of_text(&v.to_string()));
                of_text(name) + json(input) + json(output) + of_text(error.unwrap_or_default())
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

/// By how much a model's own count of a request exceeds the estimate of that request, within 0.5 and 2: a count that
/// is further off counts something else.
pub fn correction(counted: u32, estimated: u32) -> f64 {
    if counted == 0 || estimated == 0 {
        return 1.0;
    }
    (f64::from(counted) / f64::from(estimated)).clamp(0.5, 2.0)
}

fn is_cjk(c: char) -> bool {
    matches!(c,
        '\u{2E80}'..='\u{30FF}' | '\u{3100}'..='\u{31FF}' | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}'
        | '\u{A960}'..='\u{A97F}' | '\u{AC00}'..='\u{D7FF}' | '\u{F900}'..='\u{FAFF}' | '\u{FF00}'..='\u{FFEF}'
        | '\u{20000}'..='\u{3FFFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chinese_counts_by_character_and_the_rest_by_quarters() {
        assert_eq!(of_text(""), 0);
        assert_eq!(of_text("hello"), 2);
        assert_eq!(of_text("你好世界"), 4);
        assert_eq!(of_text("你好 ok"), 2 + 1);
    }
}
