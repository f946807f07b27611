//! Texts that operators and people write: settings, dates, commands, entries of memory, profiles of agents.

use std::collections::BTreeMap;

use annals_core::agents::Agents;
use annals_core::agents::profile::{AGENT_FILE, Profile};
use annals_core::command::{Command, addressee};
use annals_core::limits::Limits;
use annals_core::memory::{Correction, Entry};
use annals_core::schedule::{Timing, when};
use annals_core::sort_key::Timestamp;
use annals_core::testing::entry;
use annals_core::time_zone::TimeZone;

/// 2025-11-21T23:58:40Z
const NOW: i64 = 1_763_769_520_000;

/// Checks a text as each of them. What is accepted is in order: a date follows now, an entry is written as it was read.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let now = Timestamp::from_millis(NOW).unwrap();
    let _ = (Limits::parse(text), Agents::parse("annals".into(), text), addressee(text));
    for zone in ["UTC", "America/New_York"] {
        let zone = TimeZone::named(zone).unwrap();
        let _ = when::date(text, zone);
        if let Some(Ok((timing, content))) = when::parse(text, now, zone) {
            assert!(!content.trim().is_empty());
            assert!(!matches!(timing, Timing::At(at) if at <= now), "{text:?}");
        }
        if let Ok(timing) = Timing::cron(text, zone, now) {
            assert!(matches!(timing, Timing::Cron(pattern) if pattern == text.trim()));
        }
    }
    let _ = Command::parse(text, None);
    if let Ok(entry) = Entry::parse(text) {
        assert_eq!(Entry::parse(&entry.render()).as_ref(), Ok(&entry));
    }
    if let Ok(correction) = Correction::of_markdown(text) {
        assert!(!correction.apply(&entry(1, "Likes tea.").entry, now).text.is_empty());
    }
    let files =
        BTreeMap::from([(AGENT_FILE.to_owned(), text.to_owned()), ("skills/a/SKILL.md".into(), text.into())]);
    let _ = Profile::parse("agents", "annals", &files);
}
