//! A model's Markdown as each platform is sent it.

use annals_channel_discord::render as discord;
use annals_channel_lark::render::{self as lark, Content};
use annals_channel_telegram::render::{Styled, render};
use annals_channel_telegram::split::{LIMIT, MAX_ENTITIES, split};
use serde_json::Value;

/// Checks that each message is one that its platform takes: neither empty nor too large, with styles of text that is there.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let styled = render(text);
    check_styles(&styled);
    let _ = styled.to_plain();
    for limit in [LIMIT, 50] {
        for piece in split(&styled, limit) {
            check_styles(&piece);
            assert!(piece.units() <= limit && piece.entities.len() <= MAX_ENTITIES);
            assert!(!piece.text.trim().is_empty());
        }
    }
    for chunk in discord::chunks(text) {
        assert!(chunk.encode_utf16().count() <= discord::LIMIT && !chunk.trim().is_empty(), "{chunk:?}");
    }
    for chunk in lark::chunks(text) {
        for content in [chunk.primary(), chunk.plain()] {
            let (said, limit) = match &content {
                Content::Card(said) => (said, lark::CARD_LIMIT),
                Content::Text(said) => (said, lark::TEXT_LIMIT),
            };
            assert!(content.bytes() <= limit && !said.trim().is_empty(), "{said:?}");
            serde_json::from_str::<Value>(&content.to_json()).unwrap();
        }
    }
}

fn check_styles(styled: &Styled) {
    let mut at = 0;
    let mut boundaries: Vec<usize> = styled.text.chars().map(|c| (at, at += c.len_utf16()).0).collect();
    boundaries.push(at);
    for entity in &styled.entities {
        let range = entity.range();
        let is_within = [range.start, range.end].iter().all(|place| boundaries.binary_search(place).is_ok());
        assert!(is_within && !range.is_empty(), "{styled:?}");
    }
    assert!(styled.entities.is_sorted_by_key(|entity| entity.offset), "{styled:?}");
}
