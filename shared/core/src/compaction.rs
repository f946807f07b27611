//! Compaction: replaces older messages of a Session by one summary, an assistant message of kind `summary` that names
//! exactly the messages that it covers. Nothing is deleted: the raw records are archived first, and stay in the table
//! until they expire.
//!
//! # Layout
//!
//! - [`mod@cut`]: which messages, and which stay (pure)
//! - [`summary`]: what a model is asked, and which answers are a summary (pure)

pub mod cut;
pub mod summary;

#[cfg(test)]
mod tests;
