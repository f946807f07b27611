//! Settings of the stores.

use std::time::Duration;

use annals_core::settings::{ConfigError, Env, Setting};

use crate::history::Retention;

/// Settings of the stores and of the queue.
pub const SETTINGS: [Setting; 6] = [
    SESSION_STALE_AFTER,
    ARCHIVE_ON_COMPACT,
    ARCHIVE_GRACE,
    Setting::described(
        "ANNALS_TABLE",
        "required",
        "deployed only: the table. Set by the template, as the next two",
    ),
    Setting::described("ANNALS_BUCKET", "required", "deployed only: the bucket"),
    Setting::described("ANNALS_QUEUE_URL", "required", "deployed only: the FIFO queue"),
];

const SESSION_STALE_AFTER: Setting = Setting::new(
    "SESSION_STALE_AFTER",
    "48h",
    "a duration (`48h`, `30m`, `2days`), at most 100 years: a session ends so long after the last message of a person; \
     `0` never",
);
const ARCHIVE_ON_COMPACT: Setting = Setting::new(
    "ARCHIVE_ON_COMPACT",
    "true",
    "`true`, or `false`: nothing is archived or deleted, except records from before the change",
);
const ARCHIVE_GRACE: Setting = Setting::new(
    "ARCHIVE_GRACE",
    "168h",
    "a duration: a record's time in the table beyond `SESSION_STALE_AFTER` (48 h if that is `0`), and so how long the \
     compactor may fail. Holds for records stored later. They are summarised after three quarters of it, so one much \
     shorter than `SESSION_STALE_AFTER` shortens what the model sees verbatim",
);

/// `ANNALS_TABLE`, `ANNALS_BUCKET` and the settings of expiry.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// Name of the DynamoDB table.
    pub table: String,
    /// Name of the S3 bucket.
    pub bucket: String,
    /// Time that records stay in the table.
    pub retention: Retention,
}

impl StoreConfig {
    /// Reads the settings. Both names are required.
    pub fn from_env(env: Env<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            table: env.required("ANNALS_TABLE")?,
            bucket: env.required("ANNALS_BUCKET")?,
            retention: retention(env)?,
        })
    }
}

/// Reads `SESSION_STALE_AFTER`, `ARCHIVE_GRACE` and `ARCHIVE_ON_COMPACT`, which decide when records expire.
pub fn retention(env: Env<'_>) -> Result<Retention, ConfigError> {
    Ok(Retention {
        stale_after: stale_after(env)?,
        archive_grace: env.duration(&ARCHIVE_GRACE)?,
        archive: env.flag(&ARCHIVE_ON_COMPACT)?,
    })
}

/// `SESSION_STALE_AFTER`; `None` if Sessions never become stale.
pub fn stale_after(env: Env<'_>) -> Result<Option<Duration>, ConfigError> {
    let stale_after = env.duration(&SESSION_STALE_AFTER)?;
    Ok(Some(stale_after).filter(|duration| !duration.is_zero()))
}

#[cfg(test)]
mod tests {
    use annals_core::settings::from_table as with;

    use super::*;

    #[test]
    fn expiry_is_stale_time_plus_grace_and_never_without_an_archive() {
        let arrival = annals_core::sort_key::Timestamp::from_millis(1_000_000).unwrap();
        let expiry = |pairs: &[(&str, &str)]| with(pairs, retention).unwrap().expires_at(arrival);
        assert_eq!(expiry(&[]), Some(1_000 + (48 + 168) * 3600));
        assert_eq!(expiry(&[("SESSION_STALE_AFTER", "0")]), Some(1_000 + (48 + 168) * 3600));
        assert_eq!(expiry(&[("SESSION_STALE_AFTER", "1h"), ("ARCHIVE_GRACE", "1h")]), Some(1_000 + 7200));
        assert_eq!(expiry(&[("ARCHIVE_ON_COMPACT", "false")]), None);
        // A boundary expires after everything that was said before it, in any order of arrival.
        let boundary = with(&[], retention).unwrap().boundary_expires_at(arrival);
        assert_eq!(boundary, Some(1_000 + 2 * (48 + 168) * 3600));
    }
}
