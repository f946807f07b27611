//! Compaction: older messages of a Session become one summary, an assistant message of kind `summary` that says exactly
//! what it stands for. Nothing is deleted: the raw records are archived first, and stay in the table until their time.
//!
//! # Layout
//!
//! - [`mod@cut`]: which messages, and which stay (pure)
//! - [`summary`]: what a model is asked, and which answers are a summary (pure)
//! - [`run`]: the sequence of steps over the stores, any prefix of which is harmless

pub mod cut;
pub mod run;
pub mod summary;

#[cfg(test)]
mod tests;
