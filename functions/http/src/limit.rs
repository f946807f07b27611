//! Limits of one process for its callers: calls of a key (`HTTP_RATE_LIMIT`), and memory for request bodies.
//!
//! Uses the generic cell rate algorithm with the program's clock: for each key it keeps the time at which its calls so far
//! would have been due. Each process counts for itself, since a shared count would cost a write for each call. Lambda gives an
//! environment one call at a time, so there the limit is one of each environment; the API's throttle (`ApiRateLimit`) bounds
//! all of them.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use annals_core::sort_key::Timestamp;
use annals_runtime::request_body::BodyReader;

use crate::settings::CallRateLimit;
use crate::wrong_keys::WrongKeys;

/// The limits, and the use of each key.
#[derive(Debug)]
pub struct Limits {
    limit: Option<CallRateLimit>,
    /// Time at which the calls of a key would have been due, by its name, in microseconds: milliseconds are too coarse for a
    /// thousand calls a second.
    due_at: Mutex<HashMap<String, i64>>,
    /// Wrong keys by source address.
    pub(crate) wrong_keys: WrongKeys,
    pub(crate) bodies: BodyReader,
}

impl Limits {
    /// Returns limits of `limit` calls for each key; unlimited calls if it is `None`.
    pub fn new(limit: Option<CallRateLimit>) -> Self {
        let (wrong_keys, bodies) = (WrongKeys::default(), BodyReader::default());
        Self { limit, due_at: Mutex::default(), wrong_keys, bodies }
    }

    /// Counts a call of `key` at `now`.
    ///
    /// # Errors
    /// Returns the time after which the call is allowed, and does not count it, if there were too many.
    pub(crate) fn take(&self, key: &str, now: Timestamp) -> Result<(), Duration> {
        let Some(CallRateLimit { per_second, burst }) = self.limit else { return Ok(()) };
        #[allow(
            clippy::cast_possible_truncation,
            reason = "a limit of one call in thousands of years may be rounded"
        )]
        let cost = (1_000_000.0 / per_second) as i64;
        let burst = cost.saturating_mul(i64::from(burst));
        let now = now.as_millis().saturating_mul(1000);
        let mut due_at = self.due_at.lock().unwrap_or_else(PoisonError::into_inner);
        let due = due_at.entry(key.to_owned()).or_insert(now);
        // Calls never lead further ahead than a burst; a clock that was set back does.
        if *due < now || *due > now.saturating_add(burst) {
            *due = now;
        }
        let next = due.saturating_add(cost);
        let early = next.saturating_sub(now.saturating_add(burst));
        if early > 0 {
            return Err(Duration::from_micros(u64::try_from(early).unwrap_or_default()));
        }
        *due = next;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_a_burst_and_then_its_rate() {
        let limits = Limits::new(Some(CallRateLimit { per_second: 2.0, burst: 3 }));
        let at = |millis: i64| Timestamp::from_millis(1_795_305_600_000 + millis).unwrap();
        let taken = |millis| limits.take("app", at(millis)).map_err(|wait| wait.as_millis());
        assert_eq!([taken(0), taken(0), taken(0), taken(0)], [Ok(()), Ok(()), Ok(()), Err(500)]);
        assert_eq!([taken(100), taken(499), taken(500), taken(500)], [Err(400), Err(1), Ok(()), Err(500)]);
        assert_eq!(limits.take("ops", at(500)), Ok(()), "each key has its own");
        // After a pause the whole burst is available again, and no more.
        assert_eq!([0; 4].map(|_| taken(60_000)), [Ok(()), Ok(()), Ok(()), Err(500)]);
        assert_eq!(taken(0), Ok(()), "a clock that was set back locks nobody out");
    }

    #[test]
    fn fast_and_slow_rates_are_exact() {
        let at = |millis: i64| Timestamp::from_millis(millis).unwrap();
        let fast = Limits::new(Some(CallRateLimit { per_second: 4000.0, burst: 1 }));
        let count = (0..4000).filter(|n| fast.take("a", at(n / 4)).is_ok()).count();
        assert_eq!(count, 1000, "one in a millisecond, since the burst is one");
        let slow = Limits::new(Some(CallRateLimit { per_second: 0.01, burst: 1 }));
        assert_eq!(slow.take("a", at(0)), Ok(()));
        assert_eq!(slow.take("a", at(0)), Err(Duration::from_secs(100)));
    }
}
