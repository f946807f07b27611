//! ChatKeys, sort keys, ids and cursors.

use annals_core::chat_key::{ChatKey, MAX_KEY_BYTES};
use annals_core::memory::EntryId;
use annals_core::sort_key::{MessageId, SortKey, Timestamp};
use annals_store::history::directory::ListCursor;
use annals_store::history::{Cursor, SegmentId};

/// Checks a text as every kind of key: it is refused, or written as it was read, or in one canonical form.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(chat) = text.parse::<ChatKey>() {
        check_chat(&chat);
    }
    if let Ok(id) = text.parse::<SegmentId>() {
        assert_eq!(id.to_string(), text);
    }
    if let Ok(id) = text.parse::<EntryId>() {
        assert_eq!(id.to_string().parse().as_ref(), Ok(&id));
    }
    if let Ok(key) = text.parse::<SortKey>() {
        assert_eq!(key.as_str(), text);
        check_sort_key(&key);
    }
    // The text as parts of a key and as an id.
    let (name, rest) = text.split_once('\n').unwrap_or((text, text));
    for chat in [ChatKey::http(name, rest), ChatKey::direct(name, rest)].into_iter().flatten() {
        check_chat(&chat);
    }
    if let Ok(id) = MessageId::new(text) {
        let key = SortKey::message(Timestamp::MAX, &id);
        assert_eq!((key.ts(), key.as_str().parse().as_ref()), (Timestamp::MAX, Ok(&key)));
        check_sort_key(&key);
    }
}

fn check_chat(chat: &ChatKey) {
    let written = chat.to_string();
    assert!(written.len() <= MAX_KEY_BYTES && !written.contains(char::is_control), "{written:?}");
    assert_eq!(written.parse().as_ref(), Ok(chat));
    assert!(chat.session_id().as_str().is_ascii());
    if let Some(window) = chat.window() {
        check_chat(&window);
    }
}

fn check_sort_key(key: &SortKey) {
    let base = key.base();
    assert_eq!(base.base(), base);
    let records = [
        base.opening_message(),
        base.revision(1),
        base.notice(),
        base.reply(),
        base.reply_form(1),
        base.summary(),
    ];
    assert!(records.is_sorted() && base < records[0], "{records:?}");
    for record in records {
        assert_eq!(record.base(), base);
        assert!(record.as_str() < base.end_of_base().as_str());
        assert_eq!(record.as_str().parse().as_ref(), Ok(&record));
        assert_eq!(record.ts(), key.ts());
    }
}

/// Checks a text as a cursor: it is refused, or what it names is written and read again.
pub fn check_cursors(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(cursor) = Cursor::decode(text) {
        assert_eq!(Cursor::decode(&cursor.encode()), Ok(cursor));
    }
    if let Ok(cursor) = ListCursor::decode(text) {
        assert_eq!(ListCursor::decode(&cursor.encode()), Ok(cursor));
    }
}
