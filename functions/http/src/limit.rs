//! Limits of one process for its callers: how often a key may call (`HTTP_RATE_LIMIT`), and how much may be posted at once.
//!
//! The generic cell rate algorithm, by the program's clock: of each key one time is kept, at which all that it has
//! called so far would be paid for. Each process counts for itself, since a count that all share would cost a write for
//! each call. Lambda gives an environment one call at a time, so there the limit is one of each environment; the
//! API's throttle (`ApiRateLimit`) is what bounds all of them.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use annals_shared::config::RateLimit;
use annals_shared::request_body::BodyReader;
use annals_shared::sort_key::Timestamp;

use crate::wrong_keys::WrongKeys;

/// What each key has called.
#[derive(Debug)]
pub struct Limits {
    limit: Option<RateLimit>,
    /// By a key's name, in microseconds: milliseconds are too coarse for a thousand calls a second.
    paid_at: Mutex<HashMap<String, i64>>,
    /// Senders of wrong keys.
    pub(crate) wrong_keys: WrongKeys,
    /// Reads what is posted.
    pub(crate) bodies: BodyReader,
}

impl Limits {
    /// With no `limit`, all may.
    pub fn new(limit: Option<RateLimit>) -> Self {
        let (wrong_keys, bodies) = (WrongKeys::default(), BodyReader::default());
        Self { limit, paid_at: Mutex::default(), wrong_keys, bodies }
    }

    /// Counts a call of `key` at `now`; or, uncounted, after how long it may come.
    pub(crate) fn take(&self, key: &str, now: Timestamp) -> Result<(), Duration> {
        let Some(RateLimit { per_second, burst }) = self.limit else { return Ok(()) };
        #[allow(clippy::cast_possible_truncation, reason = "a call that costs years is as good as none")]
        let cost = (1_000_000.0 / per_second) as i64;
        let room = cost.saturating_mul(i64::from(burst));
        let now = now.as_millis().saturating_mul(1000);
        let mut paid_at = self.paid_at.lock().unwrap_or_else(PoisonError::into_inner);
        let paid = paid_at.entry(key.to_owned()).or_insert(now);
        // No call leads further ahead; a clock that was set back does.
        if *paid < now || *paid > now.saturating_add(room) {
            *paid = now;
        }
        let next = paid.saturating_add(cost);
        let early = next.saturating_sub(now.saturating_add(room));
        if early > 0 {
            return Err(Duration::from_micros(u64::try_from(early).unwrap_or_default()));
        }
        *paid = next;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_the_rate_of_each_key() {
        let limits = Limits::new(Some(RateLimit { per_second: 2.0, burst: 3 }));
        let at = |millis: i64| Timestamp::from_millis(1_795_305_600_000 + millis).unwrap();
        let taken = |millis| limits.take("app", at(millis)).map_err(|wait| wait.as_millis());
        assert_eq!([taken(0), taken(0), taken(0), taken(0)], [Ok(()), Ok(()), Ok(()), Err(500)]);
        assert_eq!([taken(100), taken(499), taken(500), taken(500)], [Err(400), Err(1), Ok(()), Err(500)]);
        assert_eq!(limits.take("ops", at(500)), Ok(()), "each key has its own");
        // After a while all of the burst is there again, and no more.
        assert_eq!([0; 4].map(|_| taken(60_000)), [Ok(()), Ok(()), Ok(()), Err(500)]);
        assert_eq!(taken(0), Ok(()), "a clock that was set back locks nobody out");
    }

    #[test]
    fn fast_and_slow_rates_are_exact() {
        let at = |millis: i64| Timestamp::from_millis(millis).unwrap();
        let fast = Limits::new(Some(RateLimit { per_second: 4000.0, burst: 1 }));
        let count = (0..4000).filter(|n| fast.take("a", at(n / 4)).is_ok()).count();
        assert_eq!(count, 1000, "one in a millisecond, since the burst is one");
        let slow = Limits::new(Some(RateLimit { per_second: 0.01, burst: 1 }));
        assert_eq!(slow.take("a", at(0)), Ok(()));
        assert_eq!(slow.take("a", at(0)), Err(Duration::from_secs(100)));
    }
}
