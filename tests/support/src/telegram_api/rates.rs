//! The rate limits on messages.

use super::refusal::{Refusal, too_many};

/// The messages that were taken, as their time and chat.
#[derive(Default)]
pub(super) struct Rates {
    pub(super) now: Option<Box<dyn Fn() -> i64 + Send + Sync>>,
    pub(super) taken: Vec<(i64, i64)>,
}

impl Rates {
    /// Takes another one, if there is a clock to judge it by.
    pub(super) fn take(&mut self, chat_id: i64) -> Result<(), Refusal> {
        let Some(now) = self.now.as_ref().map(|now| now()) else { return Ok(()) };
        let since = |millis: i64, chat: Option<i64>| {
            let is_within =
                |(at, of): &&(i64, i64)| *at > now - millis && chat.is_none_or(|chat| *of == chat);
            self.taken.iter().filter(is_within).count()
        };
        let in_chat =
            if chat_id > 0 { since(1000, Some(chat_id)) < 1 } else { since(60_000, Some(chat_id)) < 20 };
        if !in_chat || since(1000, None) >= 30 {
            return too_many(5);
        }
        self.taken.push((now, chat_id));
        Ok(())
    }
}
