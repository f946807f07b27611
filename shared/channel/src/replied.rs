//! The words of a replied-to message that the metadata of its reply keeps: [`words`], [`shortened`].

use annals_core::media;
use annals_core::message::{Part, PartView};

/// Maximum number of characters of a message of the bot itself, which the history has in full.
const OWN_CHARS: usize = 200;
/// Maximum number of characters of any other message. Often nothing else has it: in a group, the bot may receive only
/// messages that address it.
const CHARS: usize = 1_000;

/// Returns the texts of a message and the names of its files, [`shortened`].
pub fn words(parts: &[Part], is_own: bool) -> String {
    let lines = parts.iter().filter_map(|part| match part.view() {
        PartView::Text(text) => Some(text.to_owned()),
        _ => media::line(part),
    });
    shortened(&lines.collect::<Vec<_>>().join("\n"), is_own)
}

/// Returns the start of `text`; less if it is the bot's own.
pub fn shortened(text: &str, is_own: bool) -> String {
    match text.char_indices().nth(if is_own { OWN_CHARS } else { CHARS }) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_is_kept_of_the_bot_s_own_words() {
        let said = [Part::text("é".repeat(1_001))];
        assert_eq!(words(&said, true), "é".repeat(200) + "…");
        assert_eq!(words(&said, false), "é".repeat(1_000) + "…");
        assert_eq!(words(&[Part::text("é".repeat(1_000))], false), "é".repeat(1_000));
    }
}
