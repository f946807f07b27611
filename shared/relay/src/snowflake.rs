//! Discord's ids as times: [`at`], [`before`].

use std::time::Duration;

use annals_core::sort_key::Timestamp;
use serde_json::Value;

/// Milliseconds of Discord's epoch, the first of January 2015.
const EPOCH: i64 = 1_420_070_400_000;
/// Bits below the time.
const TIME_SHIFT: u32 = 22;

/// Returns the smallest id of the time `at`.
pub(crate) fn at(at: Timestamp) -> u64 {
    u64::try_from(at.as_millis() - EPOCH).unwrap_or(0) << TIME_SHIFT
}

/// Returns the id that is `duration` older than `id`.
pub(crate) fn before(id: u64, duration: Duration) -> u64 {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX >> TIME_SHIFT);
    id.saturating_sub(millis << TIME_SHIFT)
}

/// Returns the id of a message.
pub(crate) fn of(message: &Value) -> Option<u64> {
    message.get("id")?.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_time() {
        // The example of Discord's documentation.
        let id = 175_928_847_299_117_063;
        let at_its_time = at(Timestamp::from_millis(1_462_015_105_796).unwrap());
        assert_eq!(id >> TIME_SHIFT, at_its_time >> TIME_SHIFT);
        assert_eq!(before(id, Duration::from_millis(1)) >> TIME_SHIFT, (id >> TIME_SHIFT) - 1);
        assert_eq!(before(5, Duration::from_secs(1)), 0);
    }
}
