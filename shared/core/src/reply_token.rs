//! Secrets with which a platform's message is answered: [`ReplyToken`].

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::sort_key::Timestamp;

/// A secret of a platform with which one message can be answered for a while, such as the token of a Discord interaction.
///
/// It is stored as an attribute of the message's record in the table, and nowhere else: it is in no [`UiMessage`], segment,
/// export or log.
///
/// It also means that the platform shows its sender that the bot is at work. So the agent answers the message alone
/// (`coverage.rs`), sends a text for it after a `/stop` (`stop.rs`), and sends an operator's message by it (`task.rs`); and
/// while it is valid, a platform's earlier refusal does not count (`deliver.rs`). A token that is only another way to send
/// needs a flag that these four read (`coverage.rs` compares the tokens themselves), by default as today, since stored tokens
/// have none.
///
/// One for a single use is used in piece 0 alone, without a repeat; if it is refused, the piece goes the ordinary way, as in
/// Discord's `send_message`.
///
/// [`UiMessage`]: crate::message::UiMessage
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplyToken {
    token: String,
    until: Timestamp,
}

impl ReplyToken {
    /// Creates a token that the platform accepts before `until`.
    pub fn new(token: impl Into<String>, until: Timestamp) -> Self {
        Self { token: token.into(), until }
    }

    /// Returns the secret, if the platform accepts it at `now`.
    pub fn at(&self, now: Timestamp) -> Option<&str> {
        (now < self.until).then_some(self.token.as_str())
    }
}

impl fmt::Debug for ReplyToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplyToken").field("until", &self.until).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_given_out_until_its_end_and_never_shown() {
        let at = |millis| Timestamp::from_millis(millis).unwrap();
        let token = ReplyToken::new("s3cret", at(1000));
        assert_eq!((token.at(at(999)), token.at(at(1000))), (Some("s3cret"), None));
        assert!(!format!("{token:?}").contains("s3cret"));
    }
}
