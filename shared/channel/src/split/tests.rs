use proptest::prelude::*;
use pulldown_cmark::{Event, Parser};

use super::{Dialect, Options};

const OPTIONS: Options =
    Options::ENABLE_STRIKETHROUGH.union(Options::ENABLE_TABLES).union(Options::ENABLE_TASKLISTS);

/// Counts the bytes in a JSON string within a JSON string.
const DIALECT: Dialect = Dialect { options: OPTIONS, cost_of, max_tables: 3 };

fn cost_of(c: char) -> usize {
    match c {
        '"' | '\\' => 4,
        '\n' | '\r' | '\t' => 3,
        '\0'..='\u{1f}' => 7,
        '<' => 5,
        c => c.len_utf8(),
    }
}

fn cost(text: &str) -> usize {
    DIALECT.cost(text)
}

fn split(markdown: &str, limit: usize) -> Vec<String> {
    super::split(markdown, limit, &DIALECT)
}

fn check(markdown: &str, limit: usize, pieces: &[&str]) {
    assert_eq!(split(markdown, limit), pieces, "{markdown}");
}

/// Returns the words that a reader sees, in order.
fn words(markdown: &str) -> Vec<String> {
    let mut said = String::new();
    for event in Parser::new_ext(markdown, OPTIONS) {
        match event {
            Event::Text(text) | Event::Code(text) => said.push_str(&text),
            Event::SoftBreak | Event::HardBreak | Event::Start(_) | Event::End(_) => said.push(' '),
            _ => {}
        }
    }
    said.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn a_text_that_fits_is_one_piece() {
    check("a\n\nb", 64, &["a\n\nb"]);
    check("\n\n  - a\n", 64, &["  - a"]);
    check(" \n ", 64, &[]);
    check("", 64, &[]);
    assert_eq!(split(&"x".repeat(64), 64).len(), 1);
    assert_eq!(split(&"x".repeat(65), 64).len(), 2);
    assert_eq!(split(&"你".repeat(21), 63).len(), 1);
    assert_eq!(split(&"你".repeat(22), 64).len(), 2);
    // A quotation mark takes four bytes in a string within a string.
    assert_eq!(split(&"\"".repeat(16), 64).len(), 1);
    assert_eq!(split(&"\"".repeat(17), 64).len(), 2);
}

#[test]
fn a_cut_is_made_at_the_best_place() {
    let (a, b) = ("one two three four five.", "six seven eight nine ten eleven twelve.");
    check(&format!("{a}\n\n{b}\n\n{a}"), 70, &[&format!("{a}\n\n{b}"), a]);
    check(&format!("{a} {b}\n{b}"), 80, &[&format!("{a} {b}"), b]);
    check(&format!("{b} {a} {a}"), 70, &[&format!("{b} {a}"), a]);
    let item = "item with some words in it";
    check(
        &format!("- {item}\n- {item}\n- {item}"),
        64,
        &[&format!("- {item}\n- {item}"), &format!("- {item}")],
    );
    check(&"一二三四五六。".repeat(4), 64, &[&"一二三四五六。".repeat(3), "一二三四五六。"]);
}

#[test]
fn a_code_block_is_closed_and_opened_again() {
    let line = "let it be = 1;";
    let code = format!("```rs\n{line}\n{line}\n\n{line}\n{line}\n```");
    check(&code, 64, &[&format!("```rs\n{line}\n{line}\n\n```"), &format!("```rs\n{line}\n{line}\n```")]);
    let quoted = code.replace('\n', "\n> ");
    let pieces = split(&format!("> {quoted}"), 90);
    assert!(pieces.len() > 1);
    for piece in &pieces {
        assert!(piece.starts_with("> ```rs\n> ") && piece.ends_with("\n> ```"), "{piece}");
    }
    // Without a closing fence.
    let open = format!("~~~\n{line}\n{line}\n{line}\n{line}\n{line}");
    let pieces = split(&open, 70);
    assert_eq!(pieces.concat().matches("~~~").count(), 2 * pieces.len() - 1);
}

#[test]
fn a_table_repeats_its_head() {
    let rows: Vec<String> = (10..20).map(|n| format!("| row {n} | x |")).collect();
    let table = format!("| a | b |\n|---|---|\n{}", rows.join("\n"));
    let pieces = split(&table, 128);
    assert!(pieces.len() > 1);
    assert!(pieces.iter().all(|piece| piece.starts_with("| a | b |\n|---|---|\n| row ")), "{pieces:?}");
    let all: Vec<&str> = pieces.iter().flat_map(|piece| piece.lines().skip(2)).collect();
    assert_eq!(all, rows);
}

#[test]
fn a_piece_has_at_most_three_tables() {
    let tables: Vec<String> = (0..7).map(|n| format!("# T{n}\n\n| a |\n|---|\n| {n} |")).collect();
    let pieces = split(&tables.join("\n\n"), 10_000);
    let counts: Vec<usize> = pieces.iter().map(|piece| piece.matches("|---|").count()).collect();
    assert_eq!(counts, [3, 3, 1]);
}

#[test]
fn a_list_that_continues_is_not_indented() {
    let items = "    - nested item\n".repeat(10);
    let pieces = split(&format!("- top\n{items}- end"), 100);
    assert!(pieces.len() > 2);
    assert!(pieces.iter().all(|piece| piece.starts_with("- ")), "{pieces:?}");
}

#[test]
fn characters_stay_whole() {
    let family = "👩‍👩‍👧";
    let text = family.repeat(10);
    assert!(split(&text, 64).iter().all(|piece| piece.chars().count() % 5 == 0));
    // A cluster longer than a piece has to be cut.
    let marks = format!("e{}", "\u{301}".repeat(100));
    assert_eq!(split(&marks, 64).concat(), marks);
}

#[test]
fn a_long_text_is_cut_quickly() {
    let all = [
        "**b** `code` [l](https://e.org) word ",
        "- a\n  - b\n",
        "| a |\n|---|\n| b |\n\n",
        "```\nx\n```\n",
        "\u{301}",
    ];
    for part in all {
        let text = part.repeat(120_000 / part.len());
        assert!(split(&text, 28_000).len() >= 4, "{part}");
    }
}

/// Generates a document of blocks with a number in each word.
fn any_markdown() -> impl Strategy<Value = String> {
    let block = prop_oneof![
        4 => (1..40_usize).prop_map(|n| vec!["w".to_owned(); n].join(" ")),
        2 => (1..12_usize).prop_map(|n| vec!["- w w w".to_owned(); n].join("\n")),
        1 => (1..6_usize).prop_map(|n| format!("1. w\n{}", vec!["    - w w 你w".to_owned(); n].join("\n"))),
        2 => (1..20_usize).prop_map(|n| format!("```rs\n{}\n```", vec!["  w w;".to_owned(); n].join("\n"))),
        1 => (1..9_usize).prop_map(|n| format!("- w\n\n    ```\n{}    ```", "    w w\n".repeat(n))),
        1 => (1..9_usize).prop_map(|n| vec!["> w \"w\"".to_owned(); n].join("\n")),
        1 => Just("## w w".to_owned()),
        1 => Just("w。w？w".repeat(5)),
        1 => Just("w".repeat(70)),
    ];
    prop::collection::vec(block, 1..12).prop_map(|blocks| {
        let whole = blocks.join("\n\n");
        let parts = whole.split('w').enumerate();
        parts.map(|(n, part)| if n == 0 { part.to_owned() } else { format!("w{n}x{part}") }).collect()
    })
}

/// Returns the text without white space and without fences.
fn ink(markdown: &str) -> String {
    words(markdown).concat()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn pieces_fit_and_lose_nothing(markdown in any_markdown(), limit in 128..900_usize) {
        let pieces = split(&markdown, limit);
        for piece in &pieces {
            prop_assert!(cost(piece) <= limit, "{} > {limit}: {piece}", cost(piece));
            prop_assert!(!piece.trim().is_empty());
        }
        let said: String = pieces.iter().map(|piece| ink(piece)).collect();
        // If a word is cut in two, a mark may be cut too.
        let only = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).collect::<String>();
        prop_assert_eq!(only(&said), only(&ink(&markdown)));
    }
}
