use proptest::prelude::*;

use super::*;
use crate::render::render;

fn texts(text: &str, limit: usize) -> Vec<String> {
    split(&Styled::plain(text), limit).into_iter().map(|piece| piece.text).collect()
}

#[test]
fn a_cut_is_made_at_the_best_place() {
    assert_eq!(texts("one two\nthree\n\nfour five\nsix", 24), ["one two\nthree", "four five\nsix"]);
    assert_eq!(texts("one two three\nfour five six", 20), ["one two three", "four five six"]);
    assert_eq!(texts("One two. Three four five", 14), ["One two.", "Three four", "five"]);
    assert_eq!(texts("一二三四五。六七八九十", 8), ["一二三四五。", "六七八九十"]);
    assert_eq!(texts("他说：“好。”然后走了", 9), ["他说：“好。”", "然后走了"]);
    assert_eq!(texts("one two three four", 10), ["one two", "three four"]);
    assert_eq!(texts("abcdefghij", 4), ["abcd", "efgh", "ij"]);
    // An early place is better than none, and words are not cut if that is possible.
    assert_eq!(texts("a bcdefghij klm", 10), ["a", "bcdefghij", "klm"]);
}

#[test]
fn a_text_that_fits_is_one_piece() {
    assert_eq!(texts("  a\n\nb  ", 4096), ["a\n\nb"]);
    assert_eq!(texts(&"x".repeat(4096), LIMIT).len(), 1);
    assert_eq!(texts(&"x".repeat(4097), LIMIT).len(), 2);
    assert_eq!(texts(&"😀".repeat(2048), LIMIT).len(), 1);
    assert_eq!(texts(&"😀".repeat(2049), LIMIT).len(), 2);
    assert!(texts(" \n ", 10).is_empty());
    assert!(texts("", 10).is_empty());
}

#[test]
fn characters_stay_whole() {
    assert_eq!(texts("😀😀😀", 3), ["😀", "😀", "😀"]);
    assert_eq!(texts("ae\u{301}e\u{301}", 4), ["ae\u{301}", "e\u{301}"]);
    let family = "👩‍👩‍👧";
    assert_eq!(texts(&format!("a{family}{family}"), 10), [format!("a{family}"), family.to_owned()]);
    // A cluster longer than a piece has to be cut.
    assert_eq!(texts(family, 5).concat(), family);
}

#[test]
fn styles_continue_in_the_next_piece() {
    let pieces = split(&render("**one two three** four"), 8);
    let texts: Vec<_> = pieces.iter().map(|piece| piece.text.as_str()).collect();
    assert_eq!(texts, ["one two", "three", "four"]);
    let lengths = pieces
        .iter()
        .map(|piece| piece.entities.iter().map(|entity| (entity.offset, entity.length)).collect());
    assert_eq!(lengths.collect::<Vec<Vec<_>>>(), [vec![(0, 7)], vec![(0, 5)], vec![]]);
}

#[test]
fn short_code_and_links_stay_whole() {
    let code = format!("{}\n```\na\nb\nc\n```\nend", "word ".repeat(9).trim_end());
    let pieces = split(&render(&code), 48);
    assert_eq!(pieces[1].text, "a\nb\nc\nend");
    let link = format!("{} [a b c](https://e.org) end", "word ".repeat(8).trim_end());
    assert_eq!(split(&render(&link), 43)[1].text, "a b c end");
    assert_eq!(split(&render(&link), 43)[1].entities.len(), 1);
}

#[test]
fn a_long_code_block_is_cut_at_lines_and_keeps_every_character() {
    let lines: Vec<String> = (0..2000).map(|n| format!("{}line {n}\n\n", " ".repeat(n % 9))).collect();
    let code = lines.concat();
    let styled = render(&format!("Look:\n```rs\n{code}```\nend"));
    let pieces = split(&styled, LIMIT);
    let mut inside = String::new();
    for piece in &pieces {
        for entity in &piece.entities {
            assert_eq!(entity.kind, EntityKind::Pre { language: Some("rs".into()) });
            let units: Vec<u16> = piece.text.encode_utf16().collect();
            inside.push_str(&String::from_utf16(&units[entity.range()]).unwrap());
        }
    }
    assert_eq!(inside, code.strip_suffix('\n').unwrap());
    assert!(pieces[..pieces.len() - 1].iter().all(|piece| piece.text.ends_with('\n')));
}

#[test]
fn a_message_has_at_most_a_hundred_entities() {
    let styled = render(&"**b** x ".repeat(250));
    let pieces = split(&styled, LIMIT);
    assert_eq!(pieces.len(), 3);
    assert_eq!(pieces.iter().map(|piece| piece.entities.len()).sum::<usize>(), 250);
    let many = (0..150).map(|_| Entity { kind: EntityKind::Bold, offset: 0, length: 1 }).collect();
    assert_eq!(split(&Styled { text: "ab".into(), entities: many }, LIMIT)[0].entities.len(), MAX_ENTITIES);
}

#[test]
fn a_long_text_is_cut_quickly() {
    let styled = render(&"**b** `code` [l](https://e.org) word ".repeat(20_000));
    assert!(split(&styled, LIMIT).len() > 100);
    assert!(split(&Styled::plain("\u{301}".repeat(100_000)), LIMIT).len() > 20);
    assert!(split(&Styled::plain(" \n".repeat(100_000)), LIMIT).is_empty());
    let code = render(&format!("```\n{}x\n```", " \n".repeat(100_000)));
    assert_eq!(split(&code, LIMIT).len(), 1);
}

fn any_styled() -> impl Strategy<Value = Styled> {
    let text = prop::collection::vec(
        prop::sample::select(vec![
            "a",
            "word",
            " ",
            "  ",
            "\n",
            "\n\n",
            ". ",
            "。",
            "？",
            "”",
            "😀",
            "e\u{301}",
            "👩‍👩‍👧",
            "你好",
            "longerword",
            "\u{a0}",
        ]),
        0..60,
    );
    let kind = prop_oneof![
        Just(EntityKind::Bold),
        Just(EntityKind::Code),
        Just(EntityKind::Pre { language: None }),
        Just(EntityKind::TextLink { url: "https://e.org".into() }),
        Just(EntityKind::Blockquote),
    ];
    let entities = prop::collection::vec((kind, 0..80_usize, 0..80_usize), 0..6);
    (text, entities).prop_map(|(text, entities)| {
        let entities =
            entities.into_iter().map(|(kind, offset, length)| Entity { kind, offset, length }).collect();
        Styled { text: text.concat(), entities }
    })
}

fn ink(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, ..ProptestConfig::default() })]

    #[test]
    fn pieces_fit_and_lose_nothing(styled in any_styled(), limit in 2..90_usize) {
        let pieces = split(&styled, limit);
        let whole: String = pieces.iter().map(|piece| piece.text.as_str()).collect();
        prop_assert_eq!(ink(&whole), ink(&styled.text));
        for piece in &pieces {
            prop_assert!(piece.units() <= limit);
            prop_assert!(!piece.text.trim().is_empty());
            let units: Vec<u16> = piece.text.encode_utf16().collect();
            for entity in &piece.entities {
                prop_assert!(entity.length > 0 && entity.range().end <= units.len());
                prop_assert!(String::from_utf16(&units[entity.range()]).is_ok());
            }
        }
    }

    #[test]
    fn a_code_block_keeps_every_character(lines in prop::collection::vec("[ \t]{0,4}[a-z😀]{1,12}[ ]{0,2}", 1..30), limit in 20..60_usize) {
        let text = lines.join("\n");
        let pre = Entity { kind: EntityKind::Pre { language: None }, offset: 0, length: utf16_len(&text) };
        let pieces = split(&Styled { text: text.clone(), entities: vec![pre] }, limit);
        let whole: String = pieces.iter().map(|piece| piece.text.as_str()).collect();
        // White space at the end that would be a message of its own is dropped.
        prop_assert!(text.starts_with(&whole) && text[whole.len()..].trim().is_empty());
    }

    #[test]
    fn styles_cover_the_same_text(words in prop::collection::vec("[a-z]{1,9}", 1..40), bold in (0..100_usize, 1..100_usize), limit in 4..60_usize) {
        let text = words.join(" ");
        let entity = Entity { kind: EntityKind::Bold, offset: bold.0, length: bold.1 };
        let covered: String = text.chars().skip(bold.0).take(bold.1).collect();
        let pieces = split(&Styled { text, entities: vec![entity] }, limit);
        let parts: String = pieces
            .iter()
            .flat_map(|piece| piece.entities.iter().map(|entity| piece.text[entity.range()].to_owned()))
            .collect();
        prop_assert_eq!(ink(&parts), ink(&covered));
    }
}
