//! The number of attempts at a turn and the pauses between them: [`Attempt`].

use std::time::Duration;

/// Number of an attempt at one turn, from 1.
///
/// Only failures of the model and of the platform count; the chat's head counts them. What the queue delivers again because
/// it was throttled, because another run had the chat, or because a process died is the same attempt. Each failure is
/// retried after a pause that grows, so that a short fault costs seconds and a long one is waited out. Asking the model ends
/// after the third attempt, with a notice to the user; sending a stored reply goes on for the better part of an hour; a store
/// that fails ends nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attempt(pub u32);

impl Attempt {
    /// The first one.
    pub const FIRST: Self = Self(1);

    /// The attempt after so many failures.
    pub fn after(failures: u32) -> Self {
        Self(failures.saturating_add(1))
    }

    /// Returns whether the user is told now if the model gives no answer.
    pub fn ends_asking(self) -> bool {
        self.0 >= 3
    }

    /// Returns whether a reply that the platform cannot take now is given up.
    pub fn ends_sending(self) -> bool {
        self.0 >= 15
    }

    /// The next attempt.
    #[must_use]
    pub(crate) fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The pause before the next attempt.
    pub fn pause(self) -> Duration {
        match self.0 {
            0..=2 => Duration::from_secs(5),
            3 => Duration::from_secs(15),
            4 => Duration::from_secs(30),
            5 => Duration::from_mins(1),
            6 => Duration::from_mins(2),
            _ => Duration::from_mins(5),
        }
    }
}
