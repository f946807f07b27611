use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Returns the text with `⟨kind …⟩` around each entity, which is easier to read than offsets.
fn marked(styled: &Styled) -> String {
    let units: Vec<u16> = styled.text.encode_utf16().collect();
    let mut marked = String::new();
    for at in 0..=units.len() {
        marked.extend(styled.entities.iter().filter(|entity| entity.range().end == at).map(|_| '⟩'));
        for entity in styled.entities.iter().filter(|entity| entity.offset == at) {
            let kind = match &entity.kind {
                EntityKind::Bold => "b ".to_owned(),
                EntityKind::Italic => "i ".to_owned(),
                EntityKind::Strikethrough => "s ".to_owned(),
                EntityKind::Code => "c ".to_owned(),
                EntityKind::Pre { language } => format!("pre:{} ", language.as_deref().unwrap_or_default()),
                EntityKind::TextLink { url } => format!("{url} "),
                EntityKind::Blockquote => "q ".to_owned(),
            };
            marked.extend(["⟨", &kind]);
        }
        if let Some(unit) = units.get(at) {
            // Tests use markup only in the basic plane, where a character is one unit.
            marked.push(char::from_u32(u32::from(*unit)).unwrap_or('\u{fffd}'));
        }
    }
    marked
}

#[track_caller]
fn check(markdown: &str, expect: &str) {
    assert_eq!(marked(&render(markdown)), expect, "{markdown:?}");
}

#[test]
fn a_text_without_markup_is_not_changed() {
    for text in [
        "hello world",
        "line1\nline2\n\n\nline3",
        "a  b\n   indented\n    more\n\n\tcode?",
        "    four\n    spaces".trim_start(),
        "snake_case and a_b_c and _ alone",
        "2 * 3 * 4",
        "2*3*4 = 24, 2**3**4 is more",
        "5*3 and 4*2",
        "#hashtag and #1",
        "a - b\n+1 to that\n1.5 and 3)\n-5 degrees",
        "**open and `open and ~~open [open](",
        "~5 to ~10, H~2~O",
        "__init__ of __main__.py",
        "f[i](x) and [README](README.md) and ![alt](x)",
        "<b>raw</b> &nope; <br>\n<div>\nx\n</div>",
        "[TODO]: milk",
        "[TODO]: milk\n\nthen [TODO] again",
        "[^1] and\n\n[^1]: a footnote",
        "[a]: https://example.com/unused",
        "one\n-\ntwo",
        "one\n=\ntwo",
        "$5 and $$y$$",
        "a | b | c",
        "你好，世界。\n第二行",
        "👩‍👩‍👧 family",
        "C:\\dir\\file.rs",
        "https://example.com/a_b_c?d=e&f=g",
        "-",
        "1.",
        "#",
        ">",
        "```",
        "```rust",
        "***open",
        "[]()",
        "|-|",
        "*",
    ] {
        assert_eq!(render(text), Styled::plain(text));
    }
    assert_eq!(render("a\r\nb\rc"), Styled::plain("a\nb\nc"));
    assert_eq!(render(" \n a \n"), Styled::plain("a"));
    assert_eq!(render(" \n"), Styled::default());
}

#[test]
fn inline_styles() {
    check("**b** *i* _i_ ~~s~~ `c`", "⟨b b⟩ ⟨i i⟩ ⟨i i⟩ ⟨s s⟩ ⟨c c⟩");
    check("***both***", "⟨i ⟨b both⟩⟩");
    check("**a `c` b**", "⟨b a ⟩⟨c c⟩⟨b  b⟩");
    check("**a __b b__ c**", "⟨b a b b c⟩");
    check("x\\*y\\* &amp; &copy; *z*", "x*y* & © ⟨i z⟩");
    check("one *two\nthree* four  \nfive\\\nsix", "one ⟨i two\nthree⟩ four\nfive\nsix");
    check("**重点：**内容，**“引用”**后", "⟨b 重点：⟩内容，⟨b “引用”⟩后");
    check("- **优点：**快，**缺点：**贵**", "• ⟨b 优点：⟩快，⟨b 缺点：⟩贵**");
    check("这是**重点**内容", "这是⟨b 重点⟩内容");
    check("`a ** b`**重点：**内容", "⟨c a ** b⟩⟨b 重点：⟩内容");
}

#[test]
fn headings_are_bold_lines() {
    check("# One\ntext\n\n## Two **b** ##\n\nmore", "⟨b One⟩\ntext\n\n⟨b Two b⟩\n\nmore");
    check("Title\n=====\ntext", "⟨b Title⟩\ntext");
    check("text\n---\n*more*", "text\n———\n⟨i more⟩");
    check("a\n\n***\n\nb", "a\n\n———\n\nb");
}

#[test]
fn lists_keep_their_shape() {
    check(
        "Buy:\n- a\n- b\n  - c\n    more\n\n      para\n- d",
        "Buy:\n• a\n• b\n  • c\n    more\n\n    para\n• d",
    );
    check("* a\n\n* b", "• a\n\n• b");
    check("1. a\n2. b\n   1) c", "1. a\n2. b\n   1) c");
    check("1. a\n1. b\n1. c", "1. a\n2. b\n3. c");
    check("3. a\n2. b\n1. c", "3. a\n2. b\n1. c");
    check("- [ ] a\n- [x] b\n\n1. [x] c", "☐ a\n☑ b\n\n1. ☑ c");
    check("- - a\n-", "• • a\n-");
    check("- **a**:\n  ```sh\n  ls\n  ```\n  then", "• ⟨b a⟩:\n⟨pre:sh ls⟩\n  then");
    check("1. ```\n   x\n   ```\n2. y", "1.\n⟨pre: x⟩\n2. y");
    check("- a\n\n      indented\n- b", "• a\n\n      indented\n• b");
}

#[test]
fn quotations() {
    check("> a\n> b\n>\n> c\n\nd", "⟨q a\nb\n\nc⟩\n\nd");
    check("> a\n> > b\n\nc", "⟨q a\nb⟩\n\nc");
    check("> - *a*\n> - b", "⟨q • ⟨i a⟩\n• b⟩");
    check("a\n> q\n\n- > r", "a\n⟨q q⟩\n\n•\n  ⟨q r⟩");
}

#[test]
fn code_blocks() {
    check("a\n```rust\nfn main() {\n\n    x();\n}\n```\nb", "a\n⟨pre:rust fn main() {\n\n    x();\n}⟩\nb");
    check("```\n  **x**\n```", "⟨pre:   **x**⟩");
    check("```js title=\"a.js\"\nx\n```", "title=\"a.js\"\n⟨pre:js x⟩");
    check("~~~\nnever closed", "⟨pre: never closed⟩");
    check(
        "# h\n\n    indented *code*\n\n      more\n\nend",
        "⟨b h⟩\n\n    indented *code*\n\n      more\n\nend",
    );
    check("**a**\n```\n```", "⟨b a⟩\n```\n```");
    check("> ```py\n> x\n>   y\n> ```", "⟨q ⟨pre:py x\n  y⟩⟩");
}

#[test]
fn formulas_are_code() {
    check(r"so \(x\,y\), $x^*$ and $y^*$", r"so ⟨c x\,y⟩, ⟨c x^*⟩ and ⟨c y^*⟩");
    check("- so\n  \\[\n  a \\\\ b\n  \\]\n- c", "• so\n⟨pre:latex a \\\\ b⟩\n• c");
}

#[test]
fn links_and_images() {
    check("[a *b*](https://e.org/x)", "⟨https://e.org/x a ⟨i b⟩⟩");
    check("[`f`](https://e.org/x)", "⟨https://e.org/x f⟩");
    check("[https://e.org](https://e.org) <https://e.org> *x*", "https://e.org https://e.org ⟨i x⟩");
    check("[a](https://e.org \"Title\")", "⟨https://e.org a⟩ (Title)");
    check("[](https://e.org)", "https://e.org");
    check("![alt](https://e.org/i.png)", "⟨https://e.org/i.png alt⟩");
    check("[![alt](https://e.org/i.png)](https://e.org)", "⟨https://e.org alt (https://e.org/i.png)⟩");
    check("[mail](mailto:a@e.org)", "mail (a@e.org)");
    check("*x* [a](./a.md) [b](http://localhost:3000)", "⟨i x⟩ [a](./a.md) [b](http://localhost:3000)");
    check(
        "[a][1] and [b]\n\n[1]: https://e.org/1\n[b]: https://e.org/b",
        "⟨https://e.org/1 a⟩ and ⟨https://e.org/b b⟩",
    );
    check(
        "[a][1]\n\n[1]: https://e.org/1\n[1]: https://e.org/2\n[c]: https://e.org/3\n\nend",
        "⟨https://e.org/1 a⟩\n\n[1]: https://e.org/2\n[c]: https://e.org/3\n\nend",
    );
    check("so[^1]\n\n[^1]: https://e.org/1", "so⟨https://e.org/1 [^1]⟩");
}

#[test]
fn tables_are_aligned() {
    check(
        "t\n\n| Fruit | Count |\n|:--|--:|\n| Apple | 3 |\n| 苹果 | **12** |\n| [x](https://e.org) | `a` |",
        "t\n\n⟨pre: Fruit             | Count\n------------------+------\nApple             |     3\n苹果              |    12\nx (https://e.org) |     a⟩",
    );
    check("|a|b|\n|-|-|\n|1|2|3|4|\n\nend", "⟨pre: a | b\n--+---+----\n1 | 2 | 3|4⟩\n\nend");
    check(
        "|a|b|\n|-|-|\n|☑️e\u{301}|1|\n|你好x|2|\n\nend",
        "⟨pre: a     | b\n------+--\n☑️e\u{301}   | 1\n你好x | 2⟩\n\nend",
    );
}

#[test]
fn a_small_table_cannot_become_a_large_text() {
    let source = format!(
        "|{}\n|{}\n{}",
        "wide header cell|".repeat(200),
        "-|".repeat(200),
        "|||||||||x|\n".repeat(500)
    );
    assert!(render(&source).text.len() < 4 * source.len());
}

#[test]
fn deep_nesting_does_not_blow_up_the_text() {
    for part in ["> ", "- ", "*a ", "**a* ", "[", "1. ", "~~a ", "`", "<a ", "| "] {
        let source = part.repeat(1000);
        assert!(render(&source).text.len() <= source.len() * 30, "{part}");
    }
}

#[test]
fn entities_are_telegrams_json() {
    let styled = render("😀 **b** [l](https://e.org)\n```rs\nx\n```\n```\ny\n```");
    assert_eq!(
        json!(styled.entities),
        json!([
            {"type": "bold", "offset": 3, "length": 1},
            {"type": "text_link", "url": "https://e.org", "offset": 5, "length": 1},
            {"type": "pre", "language": "rs", "offset": 7, "length": 1},
            {"type": "pre", "offset": 9, "length": 1}
        ])
    );
}

#[test]
fn plain_text_keeps_addresses() {
    let styled = render("😀 [a **b**](https://e.org/1), [c](https://e.org/2)");
    assert_eq!(styled.to_plain(), "😀 a b (https://e.org/1), c (https://e.org/2)");
}

/// Generates pieces with a meaning in `CommonMark`, and pieces of text.
fn any_markdown() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        3 => "[a-zäé你好，。“”😀0-9]{1,6}",
        2 => Just(" ".to_owned()),
        2 => Just("\n".to_owned()),
        1 => Just("\n\n".to_owned()),
        4 => prop::sample::select(vec![
            "*", "**", "_", "__", "~~", "~", "`", "```", "```rs x\n", "# ", "#", "> ", ">", "- ", "+ ", "* ", "1. ", "2) ",
            "[", "]", "(", ")", "[a](https://e.org/u)", "[b](c)", "![", "![d](https://e.org/i)", "<", "</b>", "<b>",
            "<!-- ", "-->", "|", "| a | b |\n|--|--|\n", "---", "===", "\n---\n", "    ", "\t", "\\", "\\*", "[ ] ", "[x] ",
            "[ref]: ", "[ref]", "[r][ref]", "[ref]: https://e.org/r\n", "[^1]", "[^1]: ", "https://e.org/x_y_z", "\"t\"",
            "<https://e.org/auto>", "<a@e.org>", "&", "mailto:", "$", "$$", "$a_", "\\(", "\\)", "\\[", "\\]", "\r\n", "![a][ref]", "\u{a0}",
        ]).prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// Returns everything that a rendered text shows: text, URLs, languages.
fn shown(styled: &Styled) -> String {
    let mut shown = styled.text.clone();
    for entity in &styled.entities {
        match &entity.kind {
            EntityKind::TextLink { url } => shown.push_str(url),
            EntityKind::Pre { language: Some(language) } => shown.push_str(language),
            _ => {}
        }
    }
    shown
}

fn counts(text: &str) -> std::collections::BTreeMap<char, usize> {
    let mut counts = std::collections::BTreeMap::new();
    for c in text.chars().filter(|c| !c.is_whitespace() && !c.is_ascii_punctuation() && !c.is_ascii_digit()) {
        *counts.entry(c).or_default() += 1;
    }
    counts
}

#[track_caller]
fn check_whole(source: &str) {
    let styled = render(source);
    let shown = counts(&shown(&styled));
    // The x of a task becomes a box; `mailto:` and the label of a link definition are dropped.
    let markup = |c: char| "xrefmailto".contains(c);
    for (c, count) in counts(source) {
        let is_there = shown.get(&c).copied().unwrap_or(0) >= count;
        assert!(is_there || markup(c), "{c:?} of {source:?} is not in {styled:?}");
    }
    let units: Vec<u16> = styled.text.encode_utf16().collect();
    for entity in &styled.entities {
        let part = &units[entity.range()];
        assert!(String::from_utf16(part).is_ok_and(|part| !part.is_empty()), "{entity:?} of {source:?}");
    }
    assert_eq!(styled.text.trim().is_empty(), source.trim().is_empty(), "{source:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost(source in any_markdown()) {
        check_whole(&source);
    }

    #[test]
    fn no_text_is_lost(source in "\\PC{0,60}") {
        check_whole(&source.replace('&', "+"));
    }

    #[test]
    fn prose_is_not_changed(
        lines in prop::collection::vec("(  )?[(]?[a-zé你😀][a-z0-9é你😀 ,.?!:;()'\"/+=%-]{0,30}", 1..8),
        breaks in "\n{1,3}",
    ) {
        let text = lines.join(&breaks);
        prop_assert_eq!(render(&text), Styled::plain(text.trim()));
    }
}
