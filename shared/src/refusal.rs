//! stub
/// stub
pub fn is_refusal(text: &str) -> bool { text.starts_with("I'm sorry") }
