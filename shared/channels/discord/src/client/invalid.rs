//! Count of the responses for which Discord bans an address: [`Invalid`].

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use annals_channel::client::Api;
use annals_core::sort_key::Timestamp;

use super::CallError;
use super::answer::token_refused;

/// Time over which Discord counts.
const WINDOW: Duration = Duration::from_mins(10);
/// Maximum number of invalid responses of this process in that time. Discord bans an address at 10,000, and an address may be
/// shared by many functions.
const MAX_INVALID: usize = 100;

/// Maximum number of channels that are known to be without a history.
const MAX_WITHOUT_HISTORY: usize = 1000;

/// The invalid responses (401, 403, 429) of the last ten minutes.
#[derive(Debug, Default)]
pub(super) struct Invalid(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    times: VecDeque<Timestamp>,
    /// Time of the last 401 for the bot's token.
    unauthorized: Option<Timestamp>,
    /// Channels of which the bot may not read the history, so that a reply there would be one more 403.
    without_history: HashSet<String>,
}

impl Invalid {
    /// Checks if the request `method` of `api` may be made now.
    ///
    /// # Errors
    ///
    /// The error that an equal request would get, or that there were too many invalid responses.
    pub(super) fn check(&self, method: &'static str, is_of_bot: bool, api: &Api) -> Result<(), CallError> {
        let now = api.clock.now();
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if is_of_bot && counted.unauthorized.is_some_and(|at| now.since(at) < WINDOW) {
            return Err(token_refused(method, "the bot's token was refused in the last ten minutes"));
        }
        while counted.times.front().is_some_and(|at| now.since(*at) >= WINDOW) {
            counted.times.pop_front();
        }
        match counted.times.front() {
            Some(first) if counted.times.len() >= MAX_INVALID => {
                Err(api.limited(first.plus(WINDOW).since(now)))
            }
            _ => Ok(()),
        }
    }

    /// Returns true if a reply in this channel was refused, since the bot may not read its history.
    pub(super) fn is_without_history(&self, channel_id: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).without_history.contains(channel_id)
    }

    pub(super) fn note_without_history(&self, channel_id: &str) {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counted.without_history.len() >= MAX_WITHOUT_HISTORY {
            counted.without_history.clear();
        }
        counted.without_history.insert(channel_id.to_owned());
    }

    pub(super) fn count(&self, status: u16, is_of_bot: bool, now: Timestamp) {
        if !matches!(status, 401 | 403 | 429) {
            return;
        }
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counted.times.push_back(now);
        if status == 401 && is_of_bot {
            counted.unauthorized = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use annals_io::clock::Clock;

    use super::*;

    /// Returns an API whose time is `secs`.
    fn at(secs: i64) -> Api {
        let clock = Clock::manual(Timestamp::from_secs(1_795_305_600 + secs));
        Api::new("Discord", ("A_BASE", "http://e.org"), Duration::ZERO, clock).unwrap()
    }

    #[test]
    fn requests_end_long_before_a_ban_and_begin_again_after_ten_minutes() {
        let invalid = Invalid::default();
        for _ in 0..MAX_INVALID {
            assert!(invalid.check("send", true, &at(0)).is_ok());
            invalid.count(403, true, at(0).clock.now());
            invalid.count(404, true, at(0).clock.now());
        }
        let refused = invalid.check("send", false, &at(60)).unwrap_err();
        assert!(
            matches!(refused, CallError::RateLimited { retry_after: Some(wait), .. } if wait.as_secs() == 540)
        );
        assert!(invalid.check("send", true, &at(600)).is_ok());
    }

    #[test]
    fn a_refused_token_is_not_tried_again_for_ten_minutes() {
        let invalid = Invalid::default();
        invalid.count(401, false, at(0).clock.now());
        assert!(
            invalid.check("send", true, &at(1)).is_ok(),
            "the token of an interaction says nothing of the bot's"
        );
        invalid.count(401, true, at(1).clock.now());
        let refused = invalid.check("send", true, &at(2)).unwrap_err();
        assert!(matches!(refused, CallError::Token { .. }), "{refused:?}");
        assert!(invalid.check("follow up", false, &at(2)).is_ok());
        assert!(invalid.check("send", true, &at(601)).is_ok());
    }
}
