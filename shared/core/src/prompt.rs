//! A request to a model outside the conversation: [`Prompt`].

use crate::tokens;

/// Tokens of the instructions of a request outside the conversation, with a margin.
const INSTRUCTION_TOKENS: u32 = 600;

/// A request outside the conversation: for a summary, or for memories to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The task, as the system part. Never `SYSTEM_PROMPT`.
    pub instructions: String,
    /// The text to work on, as the only user message.
    pub text: String,
    /// Maximum length of the answer. A model that reasons may use all of it for reasoning and return no text: it is then asked
    /// without a limit.
    pub max_tokens: u32,
}

impl Prompt {
    /// Returns the token budget for messages besides the instructions, if a conversation has `budget`.
    pub fn source_budget(budget: u32) -> u32 {
        budget.saturating_sub(INSTRUCTION_TOKENS).max(budget / 2)
    }

    /// Returns the token estimate of the whole request.
    pub fn tokens(&self) -> u32 {
        let of = |text: &str| tokens::of_request(Some(text), &[]);
        of(&self.instructions).saturating_add(of(&self.text))
    }
}
