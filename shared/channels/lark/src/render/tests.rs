use proptest::prelude::*;
use pulldown_cmark::{Event, Parser, Tag};

use super::super::split::OPTIONS;
use super::*;

fn only(markdown: &str) -> Chunk {
    let mut chunks = chunks(markdown);
    assert_eq!(chunks.len(), 1, "{markdown}");
    chunks.remove(0)
}

/// Returns the Markdown of the card for `markdown`.
fn card(markdown: &str) -> String {
    match only(markdown).primary() {
        Content::Card(card) => card,
        Content::Text(text) => panic!("a text: {text}"),
    }
}

fn check(markdown: &str, expect: &str) {
    assert_eq!(card(markdown), expect, "{markdown}");
}

#[test]
fn text_without_markup_is_sent_as_text() {
    for text in
        ["hello", "one\ntwo\n\nthree", "1 < 2 & 3 > 2", "a * b ~ c", "https://example.org/a_b_c", "你好，😀"]
    {
        let chunk = only(text);
        assert_eq!(chunk.primary(), Content::Text(text.into()));
        assert_eq!(chunk.plain(), chunk.primary());
        assert_eq!(chunk.to_plain(), None);
    }
    assert_eq!(chunks(" \n "), []);
    assert_eq!(chunks("a\r\nb")[0].primary(), Content::Text("a\nb".into()));
}

#[test]
fn text_with_markup_is_sent_as_card() {
    for markdown in [
        "# Plan",
        "**bold** and *italic*",
        "- one\n- two",
        "1. one\n    - two",
        "`code`",
        "```rs\nfn main() {}\n```",
        "[link](https://example.org)",
        "> quote",
        "| a | b |\n|---|---|\n| 1 | 2 |",
        "a<br>b",
        "~~gone~~",
        "\\*",
        "&amp;",
    ] {
        check(markdown, markdown);
        assert_eq!(only(markdown).plain(), Content::Text(markdown.into()));
    }
}

#[test]
fn cards_and_texts_have_larks_shape() {
    let content = Content::Card("# \"Plan\"".into());
    assert_eq!(content.msg_type(), "interactive");
    let json = r##"{"schema":"2.0","body":{"elements":[{"tag":"markdown","content":"# \"Plan\""}]}}"##;
    assert_eq!(content.to_json(), json);
    let content = Content::Text("a\n\"".into());
    assert_eq!((content.msg_type(), content.to_json().as_str()), ("text", r#"{"text":"a\n\""}"#));
    assert_eq!(content.bytes() + 2, serde_json::to_string(&content.to_json()).unwrap().len());
}

#[test]
fn html_is_shown_as_it_was_written() {
    check("a <b>x</b>", "a &#60;b>x&#60;/b>");
    check("<div>\nx\n</div>", "&#60;div>\nx\n&#60;/div>");
    check("`<b>` <!-- c -->", "`<b>` &#60;!-- c -->");
    check("<font color='red'>x</font>", "&#60;font color='red'>x&#60;/font>");
}

#[test]
fn accidental_markup_is_shown_as_text() {
    check("# 2*3*4", "# 2&#42;3&#42;4");
    check("call __init__ now", "call &#95;&#95;init&#95;&#95; now");
    check("# ~a~ b", "# &#126;a&#126; b");
    check("这是**重点**内容", "这是**重点**内容");
    check("**a**\n---\nb", "**a**\n\n---\nb");
}

#[test]
fn formulas_are_code() {
    check(r"so \(x\,y\), $x^*$ and $y^*$", r"so `x\,y`, `x^*` and `y^*`");
    check(r"\[ a \\ b \]", "```latex\na \\\\ b\n```");
}

#[test]
fn bold_needs_no_spaces_in_chinese() {
    check("**重点：**内容", "**重点：\u{200b}**内容");
    check("内容**“重点”**内容", "内容**\u{200b}“重点”\u{200b}**内容");
    check("**a** f(**kwargs), g(**opts)", "**a** f(**kwargs), g(**opts)");
    check("`x` 一**：二", "`x` 一**：二");
}

#[test]
fn images_become_links() {
    check("![a cat](https://e.org/cat.png)", "[a cat](https://e.org/cat.png)");
    check("![](https://e.org/cat.png)", "[https://e.org/cat.png](https://e.org/cat.png)");
    check("`![a](b)`", "`![a](b)`");
}

#[test]
fn links_become_inline_links() {
    check("see [it][1] now\n\n[1]: https://e.org/a \"T\"", "see [it](https://e.org/a \"T\") now");
    check(
        "see [it] or [it][]\n\n[it]: <https://e.org/a b>",
        "see [it](<https://e.org/a b>) or [it](<https://e.org/a b>)",
    );
    check("see\n\n[1]: https://e.org", "see\n\n\\[1]: https://e.org");
}

#[test]
fn nested_lists_are_indented_by_four() {
    check("- a\n  - b\n    - c\n  - d\n- e", "- a\n    - b\n        - c\n    - d\n- e");
    check("1. a\n   - b\n     more\n   - c", "1. a\n    - b\n      more\n    - c");
    check("- a\n  ```\n    x\n  ```\n  - b", "- a\n  ```\n    x\n  ```\n    - b");
    check("100. a\n     - b", "100. a\n     - b");
    check("> - a\n>   - b", "> - a\n>   - b");
    check("- a\n\t- b", "- a\n\t- b");
}

#[test]
fn nobody_is_notified() {
    for mention in [
        "<at user_id=\"all\"></at>",
        "<at id=all></at>",
        "hi <AT id=ou_1>Tom</AT>",
        "`<at id=all></at>`",
        "```\n<at id=all></at>\n```",
        "**< at\tids=a,b></at>**",
        "\\<at id=all>",
        "&lt;at id=all&gt;",
        "&#0060;at id=all>",
        "＜at id=all>",
        "<<at email=a@e.org></at>",
        "&<at id=all>",
    ] {
        for content in [only(mention).primary(), only(mention).plain()] {
            let (Content::Card(text) | Content::Text(text)) = content;
            let lower = text.to_lowercase();
            assert_eq!(
                lower.replace(|c: char| c.is_whitespace() || c == ';', "").find("<at"),
                None,
                "{text}"
            );
            assert!(
                !lower.contains("lt;at") && !lower.contains("60;at") && !lower.contains("＜at"),
                "{text}"
            );
        }
    }
    assert_eq!(only("x <attic> y").plain(), Content::Text("x <attic> y".into()));
}

#[test]
fn a_long_answer_is_several_cards() {
    let lines: Vec<String> = (0..2000)
        .map(|n| format!("{n}. **bold {n}** and `code` 你好 \"😀\" <b>in</b> a sentence.\n"))
        .collect();
    let all = chunks(&lines.concat());
    assert!(all.len() > 4 && all.len() < 20, "{}", all.len());
    for chunk in &all {
        assert!(chunk.primary().bytes() <= CARD_LIMIT);
        assert!(matches!(chunk.primary(), Content::Card(_)));
    }
    let half: Vec<Chunk> = all[0].halves();
    assert!(half.len() >= 2 && half.iter().all(|half| half.is_card));
    let plain = chunks(&"word \"word\" ".repeat(40_000));
    assert!(plain.len() > 2);
    assert!(plain.iter().all(|chunk| chunk.primary().bytes() <= TEXT_LIMIT));
    // Markup that takes more bytes in a card.
    let tags = chunks(&"<b> ".repeat(20_000));
    assert!(tags.iter().all(|chunk| chunk.primary().bytes() <= CARD_LIMIT));
}

/// Returns the words that a reader of a card sees, in order.
fn words(markdown: &str) -> Vec<String> {
    let mut said = String::new();
    for event in Parser::new_ext(markdown, OPTIONS) {
        match event {
            Event::Text(text) | Event::Code(text) => said.push_str(&text),
            Event::Start(Tag::Link { dest_url, .. }) => said.extend([" ", &dest_url, " "]),
            Event::Html(_) => {}
            _ => said.push(' '),
        }
    }
    let is_word = |word: &&str| word.starts_with('w');
    said.split(|c: char| !c.is_ascii_alphanumeric()).filter(is_word).map(str::to_owned).collect()
}

/// Generates a document of blocks with numbered words.
fn any_markdown() -> impl Strategy<Value = String> {
    let block = prop::sample::select(vec![
        "W W W",
        "**W** *W* `W` ~~W~~",
        "- W\n  - W W\n    - W\n  - W\n- W",
        "1. W\n   - W\n     W\n10. W\n    - W",
        "* W\n\n  W\n\n  ```py\n  W\n      W\n  ```\n  + W",
        "> W\n> - W\n>   - W",
        "```\nW <W>\n```",
        "<p>\nW <b>W</b>\n</p>",
        "W <W> W</W> W<br>W",
        "[W](https://e.org/W) ![W](https://e.org/W)",
        "| W | W |\n|---|---|\n| W | <W> |",
        "W*W*W __W__",
        "<at id=W>W</at>",
        "***\nW\n***",
        "    W\n    W",
    ]);
    prop::collection::vec(block, 1..10).prop_map(|blocks| {
        let whole = blocks.join("\n\n");
        let parts = whole.split('W').enumerate();
        parts.map(|(n, part)| if n == 0 { part.to_owned() } else { format!("w{n}x{part}") }).collect()
    })
}

/// Returns every word of the source, in order.
fn all_words(source: &str) -> Vec<String> {
    let is_word = |word: &&str| word.starts_with('w');
    source.split(|c: char| !c.is_ascii_alphanumeric()).filter(is_word).map(str::to_owned).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn every_word_is_shown(markdown in any_markdown()) {
        let cards: Vec<String> = chunks(&markdown).iter().map(|chunk| match chunk.primary() {
            Content::Card(text) | Content::Text(text) => text,
        }).collect();
        let mut shown: Vec<String> = cards.iter().flat_map(|card| words(card)).collect();
        let mut said = all_words(&markdown);
        // The parser returns the URL of a link before its text.
        shown.sort();
        said.sort();
        prop_assert_eq!(shown, said, "{:?}", cards);
    }

    #[test]
    fn tidying_changes_no_structure(markdown in any_markdown()) {
        let kinds = |text: &str| -> Vec<String> {
            let events = Parser::new_ext(text, OPTIONS);
            let kinds = events.filter(|event| !matches!(event, Event::Html(_) | Event::InlineHtml(_)));
            kinds.map(|event| format!("{event:?}").replace("Image", "Link")).collect()
        };
        prop_assert_eq!(kinds(&markdown::tidy(&markdown)), kinds(&markdown));
    }
}
