//! Time as a parameter: [`Clock`] is the system's or a test's, so that days pass in a test in milliseconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use annals_core::sort_key::Timestamp;
use tokio::sync::Notify;

/// Source of the time. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Clock(Source);

#[derive(Clone, Debug, Default)]
enum Source {
    #[default]
    System,
    Manual(Arc<Manual>),
}

#[derive(Debug)]
struct Manual {
    millis: AtomicI64,
    moved: Notify,
}

impl Clock {
    /// Returns the system's clock.
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// Returns a clock that shows `start` until it is [advanced](Clock::advance).
    pub fn manual(start: Timestamp) -> Self {
        let millis = AtomicI64::new(start.as_millis());
        Self(Source::Manual(Arc::new(Manual { millis, moved: Notify::new() })))
    }

    /// Returns the current time.
    #[allow(clippy::disallowed_methods, reason = "this is the only place that reads the system's time")]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System => {
                let since_epoch =
                    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
                Timestamp::MIN.plus(since_epoch)
            }
            Source::Manual(manual) => {
                Timestamp::from_millis(manual.millis.load(Ordering::SeqCst)).unwrap_or(Timestamp::MAX)
            }
        }
    }

    /// Waits until `duration` has passed on this clock.
    #[allow(clippy::disallowed_methods, reason = "this is the only place that sleeps")]
    pub async fn sleep(&self, duration: Duration) {
        match &self.0 {
            Source::System => tokio::time::sleep(duration).await,
            Source::Manual(manual) => {
                let until = self.now().plus(duration);
                loop {
                    let moved = manual.moved.notified();
                    tokio::pin!(moved);
                    // Registered before reading the time, so that no advance falls in between.
                    moved.as_mut().enable();
                    if self.now() >= until {
                        return;
                    }
                    moved.await;
                }
            }
        }
    }

    /// Does `work` within `limit`. Returns `None` if it takes longer. Work that is done by then counts, even at the last moment.
    pub async fn within<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.sleep(limit) => None,
        }
    }

    /// Advances a manual clock and wakes its sleepers. Does nothing on the system's clock.
    pub fn advance(&self, duration: Duration) {
        if let Source::Manual(manual) = &self.0 {
            let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
            manual.millis.fetch_add(millis, Ordering::SeqCst);
            manual.moved.notify_waiters();
        }
    }

    /// Runs `call` while a manual clock advances, 50 times as fast as the system's. Returns its result and its duration on
    /// the manual clock. For tests of clients, whose requests take real time.
    #[allow(clippy::disallowed_methods, reason = "real time for a loopback server to answer")]
    pub async fn advance_during<T>(&self, call: impl Future<Output = T>) -> (T, Duration) {
        let start = self.now();
        let pass = async {
            loop {
                tokio::time::sleep(Duration::from_millis(2)).await;
                self.advance(Duration::from_millis(100));
            }
        };
        tokio::select! {
            done = call => (done, self.now().since(start)),
            () = pass => unreachable!("the clock advances for ever"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_manual_clock_passes_days_at_once() {
        let clock = Clock::manual(Timestamp::from_millis(1_000).unwrap());
        let sleeper = tokio::spawn({
            let clock = clock.clone();
            async move {
                clock.sleep(Duration::from_hours(48)).await;
                clock.now()
            }
        });
        tokio::task::yield_now().await;
        clock.advance(Duration::from_hours(47));
        tokio::task::yield_now().await;
        assert!(!sleeper.is_finished());
        clock.advance(Duration::from_hours(1));
        assert_eq!(sleeper.await.unwrap().as_millis(), 1_000 + 48 * 3_600_000);
    }

    #[tokio::test]
    async fn work_counts_if_it_is_done_at_the_last_moment() {
        let (clock, limit) = (Clock::manual(Timestamp::MIN), Duration::from_secs(5));
        for (takes, wanted) in [(limit, Some(())), (limit * 2, None)] {
            let work = clock.within(limit, clock.sleep(takes));
            let (done, ()) = tokio::join!(biased; work, async { clock.advance(limit) });
            assert_eq!(done, wanted, "{takes:?}");
        }
    }
}
