//! Discord's ids, which contain the time of their making: [`time_of`].
//!
//! Source: <https://discord.com/developers/docs/reference#snowflakes>.

use annals_core::sort_key::Timestamp;

/// First second of 2015, in epoch milliseconds.
const DISCORD_EPOCH: i64 = 1_420_070_400_000;

/// Returns the time at which the object with this id was made: `(id >> 22) + 1420070400000`. `None` if it is not a snowflake.
pub fn time_of(id: &str) -> Option<Timestamp> {
    let id: u64 = id.parse().ok()?;
    Timestamp::from_millis(i64::try_from(id >> 22).ok()? + DISCORD_EPOCH)
}

/// Returns the lowest id of an object made at `time`.
pub fn first_at(time: Timestamp) -> u64 {
    u64::try_from(time.as_millis() - DISCORD_EPOCH).unwrap_or(0) << 22
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snowflake_contains_its_time() {
        // Of Discord's documentation.
        assert_eq!(time_of("175928847299117063").unwrap().as_millis(), 1_462_015_105_796);
        assert_eq!(first_at(time_of("175928847299117063").unwrap()), 175_928_847_299_117_063 >> 22 << 22);
        for not_an_id in ["", "INTERACTION789", "-1", "99999999999999999999999"] {
            assert_eq!(time_of(not_an_id), None, "{not_an_id}");
        }
        assert_eq!(first_at(Timestamp::MIN), 0);
    }
}
