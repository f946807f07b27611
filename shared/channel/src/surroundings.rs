//! Messages of a group that a platform does not send as events: [`Surroundings`].

use annals_core::draft::Draft;
use annals_core::record::{Channel, Record};
use futures::future::BoxFuture;

/// Fetches the messages around one of a group, for platforms that send an app only the messages that mention it.
pub trait Surroundings: Send + Sync {
    /// Returns the channel of the groups.
    fn channel(&self) -> Channel;

    /// Fetches the messages around `newest` for which `is_new` returns true, the oldest first.
    ///
    /// # Errors
    ///
    /// The reason why the platform does not give them, for the log.
    fn around<'a>(
        &'a self,
        newest: &'a Record,
        is_new: &'a (dyn Fn(&Draft) -> bool + Sync),
    ) -> BoxFuture<'a, Result<Vec<Draft>, String>>;
}
