//! Messages of a group that a platform does not send as events: [`Surroundings`].

use annals_core::draft::Draft;
use annals_core::record::{Channel, Record};
use async_trait::async_trait;

/// Returns true for a message that is not stored yet.
pub type IsNew<'a> = dyn Fn(&Draft) -> bool + Sync + 'a;

/// Fetches the messages around one of a group, for platforms that send an app only the messages that mention it.
#[async_trait]
pub trait Surroundings: Send + Sync {
    /// Returns the channel of the groups.
    fn channel(&self) -> Channel;

    /// Fetches the messages around `newest` for which `is_new` returns true, the oldest first.
    ///
    /// # Errors
    ///
    /// The reason why the platform does not give them, for the log.
    async fn around(&self, newest: &Record, is_new: &IsNew<'_>) -> Result<Vec<Draft>, String>;
}
