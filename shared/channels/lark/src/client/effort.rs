//! Waiting time that is left to one call: [`Effort`].

use std::time::Duration;

/// The part of a call's patience that is left.
pub(super) struct Effort {
    pub(super) patience: Duration,
    /// The next wait if Lark does not name one.
    pub(super) slowdown: Duration,
}

impl Effort {
    /// Returns the next wait if that much patience is left. `told` is the wait that Lark asks for.
    pub(super) fn wait(&mut self, told: Option<Duration>) -> Option<Duration> {
        let wait = told.unwrap_or(self.slowdown);
        self.patience = self.patience.checked_sub(wait)?;
        if told.is_none() {
            self.slowdown *= 2;
        }
        Some(wait)
    }
}
