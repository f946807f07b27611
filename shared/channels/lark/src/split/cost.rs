//! Size of a text in the body of a request: [`cost`].

/// Returns the bytes that `text` takes in the body of a request, where it is a JSON string within a JSON string. A `<`
/// counts as the five bytes of the character reference that a card may need for it.
pub fn cost(text: &str) -> usize {
    super::DIALECT.cost(text)
}

pub(super) fn cost_of(c: char) -> usize {
    match c {
        '"' | '\\' => 4,
        '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 3,
        '\0'..='\u{1f}' => 7,
        '<' => 5,
        c => c.len_utf8(),
    }
}
