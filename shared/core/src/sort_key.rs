//! Position of a record in its chat: [`SortKey`], whose byte order is chat order.
//!
//! ```text
//! 1763765920000#00000000000000000042                a message; Telegram's ids are numbers, so they are padded
//! 1763765920000#00000000000000000042#1message       the text after `/new`; the boundary has the bare key
//! 1763765920000#00000000000000000042#2revision-000001 its first edit
//! 1763765920000#00000000000000000042#3notice        a confirmation about it
//! 1763765920000#00000000000000000042#4reply         the reply, or the failure notice, whose newest covered message it is
//! 1763765920000#00000000000000000042#4reply-approval-5f2b81c09a3de417 an answer to an approval request of the reply
//! 1763765920000#00000000000000000042#4reply-approval-5f2b81c09a3de417-9a0b1c2d3e4f one asker's approval, of several
//! 1763765920000#00000000000000000042#4reply-revision-000001 a form of the reply after that
//! 1763765920000#00000000000000000042#5summary       the summary that covers the messages up to here
//! 1763765920000#00000000000000000042#5summary-reply the same, if the reply is the last record that it counts
//! 1763765920000#om_dc13264520392913993dd051dba21dcf a message whose id is not a number
//! ```
//!
//! The part before a second `#` is the *base*. It identifies the message and is derived only from the event, so that a
//! repeated delivery gives the same base. `#` sorts below every byte of an id, so the records that belong to a message
//! directly follow it, before any other message, even one of the same millisecond.

use std::fmt;
use std::str::FromStr;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::names::{serde_as_string, text_of};

/// A point in time: milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(minimum = 0)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The epoch, the smallest timestamp.
    pub const MIN: Self = Self(0);
    /// The largest timestamp of 13 digits, in the year 2286.
    pub const MAX: Self = Self(9_999_999_999_999);

    /// Creates a timestamp from milliseconds since the epoch, which must be in `0..=9_999_999_999_999`.
    pub fn from_millis(millis: i64) -> Option<Self> {
        (Self::MIN.0..=Self::MAX.0).contains(&millis).then_some(Self(millis))
    }

    /// Creates a timestamp from seconds since the epoch, as Telegram counts. A value out of range is clamped.
    pub fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1000).clamp(Self::MIN.0, Self::MAX.0))
    }

    /// Returns milliseconds since the epoch.
    pub fn as_millis(self) -> i64 {
        self.0
    }

    /// Formats the time as `2025-11-21T22:58:40.000Z`.
    pub fn rfc3339(self) -> String {
        humantime::format_rfc3339_millis(UNIX_EPOCH + self.since(Self::MIN)).to_string()
    }

    /// Parses RFC 3339 in UTC (`Z`), with or without a fraction of the second.
    pub fn parse_rfc3339(text: &str) -> Option<Self> {
        let since_epoch = humantime::parse_rfc3339(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
        Self::from_millis(i64::try_from(since_epoch.as_millis()).ok()?)
    }

    /// Returns a later time, at most [`Timestamp::MAX`].
    #[must_use]
    pub fn plus(self, duration: std::time::Duration) -> Self {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(millis).min(Self::MAX.0))
    }

    /// Returns an earlier time, at least [`Timestamp::MIN`].
    #[must_use]
    pub fn minus(self, duration: std::time::Duration) -> Self {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self(self.0.saturating_sub(millis).max(Self::MIN.0))
    }

    /// Returns the time a millisecond later.
    #[must_use]
    pub fn next(self) -> Self {
        self.plus(std::time::Duration::from_millis(1))
    }

    /// Returns the time a millisecond earlier.
    #[must_use]
    pub fn previous(self) -> Self {
        self.minus(std::time::Duration::from_millis(1))
    }

    /// Returns the time that has passed since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> std::time::Duration {
        std::time::Duration::from_millis(u64::try_from(self.0 - earlier.0).unwrap_or(0))
    }

    /// Returns true if less than `lifetime` has passed since this time. False if it is later than `now`: then the clock
    /// was set back.
    pub fn is_fresh(self, lifetime: std::time::Duration, now: Self) -> bool {
        self <= now && now.since(self) < lifetime
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Id of a message from a platform or a caller: 1 to 256 bytes without control characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(transparent)]
#[schema(min_length = 1)]
pub struct MessageId(String);

/// Maximum length of a [`MessageId`] in bytes. Escaped and with its suffix it fits DynamoDB's limit of 1,024 bytes for
/// a sort key.
pub const MAX_MESSAGE_ID_BYTES: usize = 256;

/// Error for a string that is not a valid message id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageIdError {
    #[error("a message id is empty")]
    Empty,
    #[error("a message id of {0} bytes is longer than {MAX_MESSAGE_ID_BYTES}")]
    TooLong(usize),
    #[error("a message id contains the control character U+{:04X}", *.0 as u32)]
    ControlCharacter(char),
}

impl MessageId {
    /// Creates a checked id.
    pub fn new(id: impl Into<String>) -> Result<Self, MessageIdError> {
        let id = id.into();
        if id.is_empty() {
            return Err(MessageIdError::Empty);
        }
        if id.len() > MAX_MESSAGE_ID_BYTES {
            return Err(MessageIdError::TooLong(id.len()));
        }
        match id.chars().find(|c| c.is_control()) {
            Some(c) => Err(MessageIdError::ControlCharacter(c)),
            None => Ok(Self(id)),
        }
    }

    /// Creates the id of a message that its platform numbers.
    pub fn number(id: u64) -> Self {
        Self(id.to_string())
    }

    /// Returns the id of a record that belongs to this message: `<id>/reply`, `<id>/notice`, `<id>/boundary`,
    /// `<id>/summary`. It may be longer than [`MAX_MESSAGE_ID_BYTES`]: only short ones are in sort keys.
    #[must_use]
    pub fn derived(&self, what: &str) -> Self {
        Self(format!("{}/{what}", self.0))
    }
}
text_of!(MessageId, SortKey);

impl<'de> Deserialize<'de> for MessageId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Derived ids are read too, so only emptiness is checked here.
        let id = String::deserialize(deserializer)?;
        if id.is_empty() { Err(serde::de::Error::custom(MessageIdError::Empty)) } else { Ok(Self(id)) }
    }
}

/// Sort key of a record: byte order is chat order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SortKey(String);

/// The string is not the sort key of a record (but of a head or a marker, or from another program).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a sort key of a record: expected <13 digits>#<messageId>")]
pub struct SortKeyError;

impl SortKey {
    /// Returns a key that is at most that of any message at this time or later.
    pub fn start_of(ts: Timestamp) -> Self {
        Self(format!("{:013}#$", ts.0))
    }

    /// Returns the key of a message with this time and id.
    pub fn message(ts: Timestamp, id: &MessageId) -> Self {
        Self(format!("{:013}#{}", ts.0, encode_id(id.as_str())))
    }

    /// Returns the key of the message that this key is, or belongs to.
    #[must_use]
    pub fn base(&self) -> Self {
        let end = self.0[14..].find('#').map_or(self.0.len(), |at| 14 + at);
        Self(self.0[..end].to_owned())
    }

    /// Returns the key of the text that came with a boundary (`/new <text>`), directly after it.
    #[must_use]
    pub fn opening_message(&self) -> Self {
        self.with_suffix("1message")
    }

    /// Returns the key of the message's form with this number, from 1.
    #[must_use]
    pub fn revision(&self, number: u32) -> Self {
        self.with_suffix(&format!("2revision-{number:06}"))
    }

    /// Returns the key of a confirmation about the message.
    #[must_use]
    pub fn notice(&self) -> Self {
        self.with_suffix("3notice")
    }

    /// Returns the key of the reply, or failure notice, whose newest covered message this is.
    #[must_use]
    pub fn reply(&self) -> Self {
        self.with_suffix("4reply")
    }

    /// Returns the key of the form with this number, from 1, of the reply to this message.
    #[must_use]
    pub fn reply_form(&self, number: u32) -> Self {
        self.with_suffix(&format!("4reply-revision-{number:06}"))
    }

    /// Returns the key of the answer to the approval request `id` of the reply to this message.
    #[must_use]
    pub fn approval(&self, id: &str) -> Self {
        self.with_suffix(&format!("4reply-approval-{id}"))
    }

    /// Returns true if this belongs to a reply: a later form of it, or an answer to its requests. A reply in any form is
    /// `is_reply() || is_later_form() && belongs_to_reply()`.
    pub fn belongs_to_reply(&self) -> bool {
        self.suffix().starts_with("4reply-")
    }

    /// Returns the key of the summary whose newest counted message, or reply, this is.
    #[must_use]
    pub fn summary(&self) -> Self {
        // A message and its reply share a base, and a summary may end with either.
        self.with_suffix(if self.is_reply() { "5summary-reply" } else { "5summary" })
    }

    /// Returns a string above this key and all keys that belong to it, for range queries.
    pub fn end_of_base(&self) -> String {
        format!("{}#~", self.base().0)
    }

    /// Returns true if this is the key of a reply, in its first form.
    pub fn is_reply(&self) -> bool {
        self.0.ends_with("#4reply")
    }

    /// Returns true for the key of a later form of a message or a reply.
    pub fn is_later_form(&self) -> bool {
        self.suffix().starts_with("2revision-") || self.suffix().starts_with("4reply-revision-")
    }

    /// Returns the part after the base; empty for that of the message itself.
    fn suffix(&self) -> &str {
        self.0[14..].split_once('#').map_or("", |(_, suffix)| suffix)
    }

    pub fn ts(&self) -> Timestamp {
        Timestamp(self.0[..13].parse().unwrap_or(0))
    }

    fn with_suffix(&self, suffix: &str) -> Self {
        Self(format!("{}#{suffix}", self.base().0))
    }
}

impl FromStr for SortKey {
    type Err = SortKeyError;

    fn from_str(key: &str) -> Result<Self, SortKeyError> {
        let bytes = key.as_bytes();
        let is_key = bytes.len() > 14
            && bytes[..13].iter().all(u8::is_ascii_digit)
            && bytes[13] == b'#'
            && bytes[14] != b'#';
        if is_key { Ok(Self(key.to_owned())) } else { Err(SortKeyError) }
    }
}

serde_as_string!(SortKey);

/// Encodes `id` injectively, so that the order of numbers is kept and no byte up to `#` remains.
fn encode_id(id: &str) -> String {
    if let Ok(number) = id.parse::<u64>()
        && number.to_string() == id
    {
        return format!("{number:020}");
    }
    let mut encoded = String::with_capacity(id.len());
    // Distinguishes a text that looks like a padded number, or like this mark, from them.
    if id.starts_with('~') || (id.len() == 20 && id.bytes().all(|b| b.is_ascii_digit())) {
        encoded.push('~');
    }
    for c in id.chars() {
        match c {
            ' ' => encoded.push_str("%20"),
            '!' => encoded.push_str("%21"),
            '"' => encoded.push_str("%22"),
            '#' => encoded.push_str("%23"),
            '%' => encoded.push_str("%25"),
            other => encoded.push(other),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn key(millis: i64, id: &str) -> SortKey {
        SortKey::message(Timestamp::from_millis(millis).unwrap(), &MessageId::new(id).unwrap())
    }

    #[test]
    fn times_are_written_and_read_and_counted_from() {
        let at = |millis| Timestamp::from_millis(millis).unwrap();
        let time = at(1_763_765_920_512);
        assert_eq!(time.rfc3339(), "2025-11-21T22:58:40.512Z");
        assert_eq!(Timestamp::parse_rfc3339("2025-11-21T22:58:40.512Z"), Some(time));
        assert_eq!(Timestamp::parse_rfc3339("2025-11-21T22:58:40Z"), Some(at(1_763_765_920_000)));
        for other in ["1969-12-31T23:59:59Z", "2287-01-01T00:00:00Z", "2025-11-21", ""] {
            assert_eq!(Timestamp::parse_rfc3339(other), None, "{other}");
        }
        assert_eq!(time.to_string(), "1763765920512");
        assert_eq!(at(5000).since(at(2000)), Duration::from_secs(3));
        assert_eq!(at(2000).since(at(5000)), Duration::ZERO);
        let is_fresh = |now| at(2000).is_fresh(Duration::from_secs(3), at(now));
        assert_eq!([1999, 2000, 4999, 5000].map(is_fresh), [false, true, true, false]);
        assert_eq!(
            (at(2000).plus(Duration::from_secs(3)), at(5000).minus(Duration::from_secs(3))),
            (at(5000), at(2000))
        );
        assert_eq!(Timestamp::MAX.next(), Timestamp::MAX);
        assert_eq!(Timestamp::MIN.previous(), Timestamp::MIN);
        assert_eq!(
            (Timestamp::from_secs(i64::MAX), Timestamp::from_secs(-1)),
            (Timestamp::MAX, Timestamp::MIN)
        );
        assert_eq!((Timestamp::from_millis(-1), Timestamp::from_millis(10_000_000_000_000)), (None, None));
    }

    #[test]
    fn an_id_is_shown_as_it_is_and_its_records_ids_follow_from_it() {
        let id = MessageId::new("m1").unwrap();
        assert_eq!((id.to_string().as_str(), id.derived("reply").as_str()), ("m1", "m1/reply"));
        assert_eq!(MessageId::number(7).as_str(), "7");
        assert_eq!(MessageId::new(""), Err(MessageIdError::Empty));
        assert_eq!(MessageId::new("a\nb"), Err(MessageIdError::ControlCharacter('\n')));
    }

    #[test]
    fn numbers_of_one_second_keep_their_order() {
        let keys: Vec<_> = ["9", "10", "99", "100", "18446744073709551615"].map(|id| key(1000, id)).into();
        assert!(keys.is_sorted(), "{keys:?}");
        assert_eq!(keys[0].as_str(), "0000000001000#00000000000000000009");
    }

    #[test]
    fn records_of_a_message_come_after_it_and_before_the_next() {
        let base = key(1000, "a");
        let chain = [
            base.clone(),
            base.opening_message(),
            base.revision(1),
            base.revision(2),
            base.revision(10),
            base.notice(),
            base.reply(),
            base.approval("5f2b81c09a3de417"),
            base.reply_form(1),
            base.reply_form(10),
            base.summary(),
            base.reply().summary(),
            key(1000, "a$"),
            key(1000, "a!"),
            key(1001, "0"),
        ];
        assert!(chain.is_sorted(), "{chain:#?}");
        assert!(chain[1..12].iter().all(|k| k.base() == base));
        let hanging = chain.iter().filter(|key| key.belongs_to_reply()).count();
        assert_eq!(hanging, 3, "the reply itself hangs on nothing");
        assert_eq!(chain.iter().filter(|key| key.is_reply()).collect::<Vec<_>>(), [&base.reply()]);
        let later: Vec<_> = chain.iter().filter(|key| key.is_later_form()).cloned().collect();
        let revisions = [1, 2, 10].map(|number| base.revision(number));
        assert_eq!(later, [&revisions[..], &[base.reply_form(1), base.reply_form(10)]].concat());
        assert_eq!(base.reply().to_string(), "0000000001000#a#4reply");
        assert!(chain[11].as_str() < base.end_of_base().as_str());
        assert!(chain[12].as_str() > base.end_of_base().as_str());
    }

    #[test]
    fn an_id_that_looks_like_a_padded_number_or_has_low_bytes_has_a_key_of_its_own() {
        let encoded = |id: &str| key(0, id).as_str()[14..].to_owned();
        for (id, part) in [
            ("42", "00000000000000000042"),
            ("00000000000000000042", "~00000000000000000042"),
            ("~00000000000000000042", "~~00000000000000000042"),
            // Neither is a padded number.
            ("042", "042"),
            ("om_dc13264520392913a", "om_dc13264520392913a"),
            ("a !\"#%", "a%20%21%22%23%25"),
        ] {
            assert_eq!(encoded(id), part, "{id}");
        }
    }

    #[test]
    fn the_longest_id_fits_a_dynamodb_sort_key() {
        let longest = key(1, &"#".repeat(MAX_MESSAGE_ID_BYTES)).revision(u32::MAX);
        assert!(longest.as_str().len() <= 1024);
        assert_eq!(MessageId::new("x".repeat(257)), Err(MessageIdError::TooLong(257)));
    }

    #[test]
    fn heads_and_markers_are_not_records() {
        for other in
            ["!head", "!id#42", "", "1763765920000", "1763765920000#", "176376592000x#1", "1763765920000##1"]
        {
            assert_eq!(other.parse::<SortKey>(), Err(SortKeyError), "{other:?}");
        }
    }

    proptest! {
        #[test]
        fn no_two_ids_share_a_key(a in "[0-9~#%!\" 2a]{1,21}", b in "[0-9~#%!\" 2a]{1,21}") {
            prop_assert_eq!(a == b, key(5, &a) == key(5, &b));
        }

        #[test]
        fn byte_order_is_order_of_time_then_number(a in (0..5_i64, 0..u64::MAX), b in (0..5_i64, 0..u64::MAX)) {
            let (x, y) = (key(a.0, &a.1.to_string()), key(b.0, &b.1.to_string()));
            prop_assert_eq!(a.cmp(&b), x.cmp(&y));
        }
    }
}
