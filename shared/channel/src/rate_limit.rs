//! Rate limits of outgoing messages: [`RateLimit`], and `SharedRateLimit`, the part of a process in a bot's rate limit.
//!
//! This is the generic cell rate algorithm. Its state is one time: the time up to which the messages sent so far have
//! used up the rate, if each takes the same interval. So the state of a chat is one number, from which any process can
//! continue.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use annals_core::sort_key::Timestamp;

/// A rate limit: number of messages per time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// Interval per message, in milliseconds.
    interval: u64,
    /// Maximum number of messages at once after a pause, at least 1.
    burst: u64,
}

impl RateLimit {
    /// Creates a limit of `count` messages in any period of length `time`: a quarter of them at once, the others spread
    /// over the rest of the period.
    pub const fn within(count: u32, time: Duration) -> Self {
        let burst = if count < 8 { 1 } else { count as u64 / 4 };
        #[allow(clippy::cast_possible_truncation, reason = "the time is a few minutes at most")]
        let millis = time.as_millis() as u64;
        Self { interval: millis.div_ceil(count as u64 - burst + 1), burst }
    }

    /// Returns the share of each of this number of processes.
    #[must_use]
    pub fn shared_by(self, processes: u32) -> Self {
        let processes = u64::from(processes.max(1));
        Self { interval: self.interval.saturating_mul(processes), burst: (self.burst / processes).max(1) }
    }

    /// Returns the time to wait after `now` before the next message. `paid` is the time up to which the rate is used
    /// up.
    pub fn wait(self, paid: Option<Timestamp>, now: Timestamp) -> Duration {
        let room = Duration::from_millis(self.interval * (self.burst - 1));
        paid.unwrap_or(Timestamp::MIN).since(now.plus(room))
    }

    /// Returns the new state after sending a message at `now`.
    pub fn paid(self, paid: Option<Timestamp>, now: Timestamp) -> Timestamp {
        paid.unwrap_or(now).max(now).plus(Duration::from_millis(self.interval))
    }

    /// Limits a state from another process to a plausible value: with this rate limit it cannot be further ahead,
    /// unless the other clock is.
    pub fn believed(self, paid: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
        paid.map(|paid| paid.min(now.plus(Duration::from_millis(self.interval * self.burst))))
    }
}

/// A rate limit that a whole process shares. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct SharedRateLimit {
    rate_limit: RateLimit,
    /// Time of the last call, and the time up to which the rate is used up.
    state: Arc<Mutex<Option<(Timestamp, Timestamp)>>>,
}

impl SharedRateLimit {
    /// Creates an unused share.
    pub(crate) fn new(rate_limit: RateLimit) -> Self {
        Self { rate_limit, state: Arc::default() }
    }

    /// Takes the next slot and returns the time to wait for it. If the wait is longer than `patience`, nothing is
    /// taken, and the error is the wait.
    pub(crate) fn take(&self, now: Timestamp, patience: Duration) -> Result<Duration, Duration> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // If the clock was set back, waits stay as they were.
        let paid = state.map(|(last, paid)| paid.minus(last.since(now)));
        let wait = self.rate_limit.wait(paid, now);
        if wait > patience {
            *state = paid.map(|paid| (now, paid));
            return Err(wait);
        }
        *state = Some((now, self.rate_limit.paid(paid, now)));
        Ok(wait)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START: i64 = 1_795_305_600_000;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(START + millis).unwrap()
    }

    /// Returns the times at which messages are sent, in milliseconds, if each is ready `pauses` after the one before.
    fn sent(rate_limit: RateLimit, pauses: &[i64]) -> Vec<i64> {
        let (mut now, mut paid) = (0, None);
        let send = |pause: &i64| {
            now += pause;
            now += i64::try_from(rate_limit.wait(paid, at(now)).as_millis()).unwrap();
            assert_eq!(rate_limit.believed(paid, at(now)), paid);
            paid = Some(rate_limit.paid(paid, at(now)));
            now
        };
        pauses.iter().map(send).collect()
    }

    #[test]
    fn a_private_chat_gets_one_message_per_second_and_a_group_a_few_at_once() {
        let one = RateLimit::within(1, Duration::from_secs(1));
        assert_eq!(sent(one, &[0, 0, 0, 5000, 400]), [0, 1000, 2000, 7000, 8000]);
        let group = RateLimit::within(20, Duration::from_mins(1));
        assert_eq!(sent(group, &[0; 8]), [0, 0, 0, 0, 0, 3750, 7500, 11_250]);
        let of_three = RateLimit::within(30, Duration::from_secs(1)).shared_by(3);
        assert_eq!(sent(of_three, &[0; 4]), [0, 0, 126, 252]);
        let of_many = RateLimit::within(30, Duration::from_secs(1)).shared_by(1000);
        assert_eq!(sent(of_many, &[0; 3]), [0, 42_000, 84_000]);
    }

    #[test]
    fn a_clock_that_is_far_ahead_delays_nothing_for_long() {
        let one = RateLimit::within(1, Duration::from_secs(1));
        let believed = one.believed(Some(at(3_600_000)), at(0));
        assert_eq!(one.wait(believed, at(0)), Duration::from_secs(1));
    }

    #[test]
    fn a_share_gives_each_caller_its_own_slot_unless_it_cannot_wait() {
        let share = SharedRateLimit::new(RateLimit::within(1, Duration::from_secs(1)));
        let take =
            |now, secs| share.clone().take(at(now), Duration::from_secs(secs)).map_err(|w| w.as_secs());
        assert_eq!(take(0, 9), Ok(Duration::ZERO));
        assert_eq!(take(0, 9), Ok(Duration::from_secs(1)));
        assert_eq!(take(0, 1), Err(2));
        assert_eq!(take(0, 2), Ok(Duration::from_secs(2)));
        assert_eq!(take(9000, 0), Ok(Duration::ZERO));
        // The clock is set back by an hour.
        assert_eq!(take(-3_591_000, 0), Err(1));
        assert_eq!(take(-3_590_000, 0), Ok(Duration::ZERO));
    }

    proptest! {
        #[test]
        fn no_period_has_more_messages_than_the_limit(count in 1_u32..60, secs in 1_u64..90, pauses in prop::collection::vec(0_i64..3000, 1..200)) {
            let sent = sent(RateLimit::within(count, Duration::from_secs(secs)), &pauses);
            let length = i64::try_from(secs * 1000).unwrap();
            for (first, from) in sent.iter().enumerate() {
                let within = sent[first..].iter().take_while(|at| **at < from + length).count();
                prop_assert!(within <= count as usize, "{within} within {secs} s of {from}");
            }
        }
    }
}
