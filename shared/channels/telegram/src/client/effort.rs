//! Waiting time that is left to one call: [`Effort`].

use std::time::Duration;

/// The part of a call's patience that is left.
pub(super) struct Effort(pub(super) Duration);

impl Effort {
    pub(super) fn new(patience: Duration) -> Self {
        Self(patience)
    }

    /// Subtracts `wait` and returns true if that much is left; otherwise changes nothing and returns false.
    pub(super) fn take(&mut self, wait: Duration) -> bool {
        let left = self.0.checked_sub(wait);
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }
}
