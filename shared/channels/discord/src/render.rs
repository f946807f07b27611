//! Renders a model's Markdown for Discord: [`chunks`].
//!
//! Discord shows most of Markdown itself. What it does not show is rewritten: a table becomes a code block, in which its columns
//! stay columns, a heading of the fourth level and below becomes bold, an image becomes a link, a formula becomes
//! code. HTML is shown as it was written.
//!
//! *Invariants:* no text is lost; nobody is notified ([`no_mentions`]), and no address is fetched for a preview
//! ([`without_previews`]): a prompt injection could have put data into it.
//!
//! Source: <https://support.discord.com/hc/en-us/articles/210298617>.

use std::ops::Range;

use annals_channel::formula;
use annals_channel::split::{Dialect, split};
use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag};
use serde_json::{Value, json};

/// Maximum length of a message.
pub const LIMIT: usize = 2000;
/// Flag of a message whose links have no previews.
const SUPPRESS_EMBEDS: u64 = 1 << 2;

/// Discord's Markdown. The size of a text is the number of its UTF-16 units, which is never less than Discord counts.
pub const DIALECT: Dialect = Dialect { options: OPTIONS, cost_of: char::len_utf16, max_tables: usize::MAX };
const OPTIONS: Options = Options::ENABLE_STRIKETHROUGH.union(Options::ENABLE_TABLES);

/// Converts a model's Markdown into the messages that show it. An empty text gives no message.
pub fn chunks(markdown: &str) -> Vec<String> {
    let source = formula::to_code(&markdown.replace("\r\n", "\n").replace('\r', "\n"));
    split(&tidy(&source), LIMIT, &DIALECT)
}

/// Returns the value of `allowed_mentions` that notifies nobody.
pub fn no_mentions() -> Value {
    json!({"parse": []})
}

/// Returns `flags` with the one that shows no previews of links.
pub fn without_previews(flags: u64) -> u64 {
    flags | SUPPRESS_EMBEDS
}

/// Rewrites the markup that Discord does not show.
fn tidy(source: &str) -> String {
    let mut edits: Vec<(Range<usize>, String)> = Vec::new();
    for (event, range) in Parser::new_ext(source, OPTIONS).into_offset_iter() {
        match event {
            Event::Start(Tag::Table(_)) => edits.extend(fenced(source, range)),
            Event::Start(Tag::Heading {
                level: HeadingLevel::H4 | HeadingLevel::H5 | HeadingLevel::H6,
                ..
            }) => edits.extend(bold(source, range)),
            Event::Start(Tag::Image { .. }) if source[range.clone()].starts_with("![]") => {
                edits.push((range.start..range.start + 3, "[image]".into()));
            }
            Event::Start(Tag::Image { .. }) => edits.push((range.start..range.start + 1, String::new())),
            _ => {}
        }
    }
    let mut out = String::with_capacity(source.len());
    let mut at = 0;
    for (range, text) in edits.into_iter().filter(|(range, _)| !range.is_empty()) {
        // What is inside of a table that has been rewritten stays.
        if range.start >= at {
            out.push_str(&source[at..range.start]);
            out.push_str(&text);
            at = range.end;
        }
    }
    out.push_str(&source[at..]);
    out
}

/// Puts the table at `range` into a code block; one in a list or a quotation, or with a fence in it, stays.
fn fenced(source: &str, range: Range<usize>) -> Option<(Range<usize>, String)> {
    let is_line_start = range.start == 0 || source[..range.start].ends_with('\n');
    let table = source[range.clone()].trim_end();
    if !is_line_start || table.contains("```") {
        return None;
    }
    let end = range.start + table.len();
    Some((range.start..end, format!("```\n{table}\n```")))
}

/// Makes the heading `#### …` at `range` bold.
fn bold(source: &str, range: Range<usize>) -> Option<(Range<usize>, String)> {
    let line = source[range.clone()].trim_end();
    let words = line.trim_start_matches('#').trim().trim_end_matches('#').trim_end();
    let is_simple = line.starts_with('#') && !words.is_empty() && !words.contains('*');
    let end = range.start + line.len();
    is_simple.then(|| (range.start..end, format!("**{words}**")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_discord_does_not_show_is_rewritten() {
        let check = |markdown: &str, wanted: &str| assert_eq!(chunks(markdown), [wanted], "{markdown}");
        check("# Plan\n\n- **a**\n- `b`", "# Plan\n\n- **a**\n- `b`");
        check(
            "| a | b |\n|---|---|\n| 1 | ![x](y) |\n\nafter",
            "```\n| a | b |\n|---|---|\n| 1 | ![x](y) |\n```\n\nafter",
        );
        check("#### Small\ntext", "**Small**\ntext");
        check("#### A **b**", "#### A **b**");
        check("see ![a bean](https://e.org/b.png)", "see [a bean](https://e.org/b.png)");
        check("![](https://e.org/b.png)", "[image](https://e.org/b.png)");
        check("<b>x</b> @everyone", "<b>x</b> @everyone");
        check(r"so \(x\,y\), $x^*$ and $y^*$", r"so `x\,y`, `x^*` and `y^*`");
        check(r"\[ a \\ b \]", "```latex\na \\\\ b\n```");
        assert!(chunks(" \n").is_empty());
    }

    #[test]
    fn a_long_text_is_cut_between_paragraphs_and_code_is_opened_again() {
        let paragraph = "word ".repeat(100);
        let text = [paragraph.trim(); 9].join("\n\n");
        let pieces = chunks(&text);
        assert_eq!(pieces.len(), 3);
        assert_eq!(pieces.join("\n\n"), text);
        let code = format!("```rs\n{}```", "let a = 1;\n".repeat(400));
        for piece in chunks(&code) {
            assert!(piece.starts_with("```rs\n") && piece.ends_with("```"), "{piece}");
        }
        let emoji = "🌏".repeat(1500);
        assert!(chunks(&emoji).iter().all(|piece| piece.chars().count() <= 1000));
    }

    proptest! {
        #[test]
        fn any_text_fits_and_loses_no_word(text in "[-`~>|#*_\\[\\]()!<a \n0-9你]{0,3000}") {
            let pieces = chunks(&text);
            for piece in &pieces {
                prop_assert!(DIALECT.cost(piece) <= LIMIT && !piece.trim().is_empty());
            }
            let ink = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).count();
            prop_assert!(pieces.iter().map(|piece| ink(piece)).sum::<usize>() >= ink(&text));
        }
    }
}
