//! Settings of the stores.

use std::time::Duration;

use annals_core::settings::{ConfigError, Env};

use crate::history::Retention;

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
        archive_grace: env.duration("ARCHIVE_GRACE", Duration::from_hours(168))?,
        archive: env.choice("ARCHIVE_ON_COMPACT", &[("true", true), ("false", false)], &true)?,
    })
}

/// `SESSION_STALE_AFTER`; `None` if Sessions never become stale.
pub fn stale_after(env: Env<'_>) -> Result<Option<Duration>, ConfigError> {
    let stale_after = env.duration("SESSION_STALE_AFTER", Duration::from_hours(48))?;
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
