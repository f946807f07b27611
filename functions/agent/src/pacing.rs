//! How often a turn is tried, and how long between: [`Delivery`].

use std::time::Duration;

/// Which delivery of a turn by the queue this is, from 1.
///
/// Each failure is tried again after a pause that grows, so that a short fault costs seconds and a long one is waited
/// out. Asking the model ends after the third, with a notice to the user; sending a stored reply goes on for the
/// better part of an hour; a store that fails ends nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Delivery(pub u32);

impl Delivery {
    /// Whether the user is told now if the model gives no answer.
    pub fn ends_asking(self) -> bool {
        self.0 >= 3
    }

    /// Whether a reply that the platform cannot take now is given up.
    pub fn ends_sending(self) -> bool {
        self.0 >= 15
    }

    /// The one behind this.
    #[must_use]
    pub(crate) fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The pause before the next delivery.
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
