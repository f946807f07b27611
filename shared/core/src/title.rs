//! The title of a chat: [`Title`], as far as the records tell, and [`clean`], which makes one of untrusted text.
//!
//! ```json
//! {"name": "Book club", "topic": "Plans", "isTopicRenamed": true}
//! {"opening": "Where is the boat?"}
//! ```

use serde::{Deserialize, Serialize};

use crate::record::{Kind, Record};
use crate::sort_key::Timestamp;
use crate::visible::is_hidden;

/// Maximum number of characters of a title. Telegram allows no longer ones.
pub const MAX_TITLE_CHARS: usize = 128;

/// Maximum number of characters of a title that is made of a chat's first words.
const MAX_OPENING_CHARS: usize = 60;

/// The automatic title of a chat: that of its platform, or else its first words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Title {
    /// Title of the group or channel, or name of the person, by the platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Name of the topic in the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<String>,
    /// True if an event has given the topic its name. Other messages only know the name that it was created with.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_topic_renamed: bool,
    /// First line of the first message, if there is no name.
    #[serde(skip_serializing_if = "Option::is_none")]
    opening: Option<String>,
    /// Time at which the platform was last asked for the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_at: Option<Timestamp>,
}

impl Title {
    /// Returns the title after `records`, which are in order. With `from_start`, the first of them is the chat's first, as
    /// far as anybody knows.
    #[must_use]
    pub fn after(mut self, records: &[Record], from_start: bool) -> Self {
        for record in records.iter().filter(|record| record.is_interaction() || record.kind() == Kind::Event)
        {
            let metadata = &record.message.metadata;
            let person = || metadata.sender_name().filter(|_| metadata.is_private());
            if let Some(name) = metadata.chat_title().or_else(person).and_then(clean) {
                self.name = Some(name);
            }
            let is_event = record.kind() == Kind::Event;
            if let Some(topic) = metadata.topic_title().and_then(clean)
                && (is_event || !self.is_topic_renamed)
            {
                self.topic = Some(topic);
                self.is_topic_renamed |= is_event;
            }
        }
        if self.name.is_some() {
            self.opening = None;
        } else if self.opening.is_none() && from_start {
            let mut said = records.iter().filter(|record| record.is_interaction());
            self.opening = said.find_map(|record| opening_of(&record.message.plain_text()));
        }
        self
    }

    /// Returns the title after the platform was asked for the name at `now`: `name`, or if it did not tell (`None`) as before.
    #[must_use]
    pub fn asked(mut self, name: Option<&str>, now: Timestamp) -> Self {
        if let Some(name) = name.and_then(clean) {
            self.name = Some(name);
            self.opening = None;
        }
        self.asked_at = Some(now);
        self
    }

    /// Returns the title for people, such as `Book club / Plans`; `None` if nothing is known.
    pub fn shown(&self) -> Option<String> {
        match (&self.name, &self.topic) {
            (Some(name), Some(topic)) => Some(format!("{name} / {topic}")),
            (name, topic) => name.as_ref().or(topic.as_ref()).or(self.opening.as_ref()).cloned(),
        }
    }
}

/// Returns `text` as a title, in one line: without control characters, characters that change the direction of a line
/// and other invisible ones, and at most [`MAX_TITLE_CHARS`] long. `None` if nothing is left.
///
/// ```
/// # use annals_core::title::clean;
/// assert_eq!(clean(" Book\n\u{202e}club ").as_deref(), Some("Book club"));
/// assert_eq!(clean("\u{200b} "), None);
/// ```
pub fn clean(text: &str) -> Option<String> {
    shortened(text, MAX_TITLE_CHARS)
}

/// Returns the first line of `text` that shows anything, shortened.
fn opening_of(text: &str) -> Option<String> {
    text.lines().find_map(|line| shortened(line, MAX_OPENING_CHARS))
}

fn shortened(text: &str, max_chars: usize) -> Option<String> {
    // Both join characters of emoji and of some scripts.
    let joins = |c: &char| matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe0f}');
    let visible: String = text
        .chars()
        .map(|c| if matches!(c, '\n' | '\r' | '\t' | '\u{2028}' | '\u{2029}') { ' ' } else { c })
        .filter(|c| !is_hidden(*c) || joins(c))
        .collect();
    if !visible.contains(|c: char| !c.is_whitespace() && !joins(&c)) {
        return None;
    }
    let line = visible.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= max_chars {
        return Some(line);
    }
    let cut: String = line.chars().take(max_chars - 1).collect();
    Some(format!("{}…", cut.trim_end()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::chat_key::ChatKey;
    use crate::draft::{Draft, Origin};
    use crate::message::Part;
    use crate::metadata::Metadata;
    use crate::record::Channel;
    use crate::recording::record_of;
    use crate::sort_key::MessageId;

    fn record(number: u64, kind: Kind, text: &str, metadata: Value) -> Record {
        let chat = ChatKey::telegram(-42, None);
        let origin = Origin { chat, channel: Channel::Telegram, chat_id: "-42".into(), user_id: "7".into() };
        let Value::Object(metadata) = metadata else { panic!("metadata is an object") };
        let draft = Draft::new(origin, MessageId::number(number), Timestamp::MIN)
            .of_kind(kind)
            .with_parts(vec![Part::text(text)])
            .with_metadata(Metadata::from(metadata));
        record_of(&draft, draft.key(), 0, Timestamp::MIN)
    }

    fn shown(records: &[Record]) -> Option<String> {
        Title::default().after(records, true).shown()
    }

    #[test]
    fn the_newest_title_of_the_platform_counts() {
        let named = |number, title| record(number, Kind::Normal, "hi", json!({"chatTitle": title}));
        assert_eq!(shown(&[named(1, "Old"), named(2, "New")]).as_deref(), Some("New"));
        let person = json!({"senderName": "Ada", "chatType": "private"});
        assert_eq!(shown(&[record(1, Kind::Normal, "hi", person)]).as_deref(), Some("Ada"));
        let in_group = json!({"senderName": "Ada", "chatType": "group"});
        assert_eq!(shown(&[record(1, Kind::Normal, "hi\nyou", in_group)]).as_deref(), Some("hi"));
        assert_eq!(shown(&[]), None);
    }

    #[test]
    fn a_renamed_topic_keeps_its_new_name() {
        let title = |number, kind, topic: &str| {
            record(number, kind, "x", json!({"chatTitle": "G", "topicTitle": topic}))
        };
        let created = [title(1, Kind::Event, "Plans"), title(2, Kind::Normal, "Plans")];
        assert_eq!(shown(&created).as_deref(), Some("G / Plans"));
        let renamed =
            [title(1, Kind::Normal, "Plans"), title(2, Kind::Event, "Done"), title(3, Kind::Normal, "Plans")];
        assert_eq!(shown(&renamed).as_deref(), Some("G / Done"));
        let noted = Title::default().after(&renamed[..2], true);
        let noted: Title = serde_json::from_value(json!(noted)).unwrap();
        assert_eq!(noted.after(&renamed[2..], false).shown().as_deref(), Some("G / Done"));
    }

    #[test]
    fn the_first_words_are_kept_until_there_is_a_name() {
        let said = |number, text: &str| record(number, Kind::Normal, text, json!({}));
        let long = format!("{} end", "word ".repeat(20));
        let title = Title::default().after(&[said(1, "\n \n"), said(2, &long)], true);
        let first = title.shown().unwrap();
        assert!(first.chars().count() <= MAX_OPENING_CHARS && first.ends_with("word…"), "{first}");
        assert_eq!(title.clone().after(&[said(3, "other")], true), title);
        assert_eq!(Title::default().after(&[said(3, "other")], false).shown(), None, "not the first");
        let named = title.after(&[record(4, Kind::Normal, "x", json!({"chatTitle": "Club"}))], false);
        assert_eq!(json!(named), json!({"name": "Club"}));
    }

    #[test]
    fn a_family_of_emoji_stays_one() {
        assert_eq!(clean("👨\u{200d}👩\u{200d}👧 家").as_deref(), Some("👨\u{200d}👩\u{200d}👧 家"));
        assert_eq!(clean("\u{200d}\u{fe0f}"), None);
    }

    proptest! {
        #[test]
        fn a_title_is_short_and_hides_nothing(text in "\\PC{0,200}|[a\u{0}-\u{1f}\u{202a}-\u{202e}\u{2066}-\u{2069}]{0,9}") {
            let Some(title) = clean(&text) else { return Ok(()) };
            prop_assert!(!title.is_empty() && title.chars().count() <= MAX_TITLE_CHARS);
            let is_unsafe = |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
            let shows_all = !title.contains(is_unsafe);
            prop_assert!(shows_all);
            prop_assert_eq!(clean(&title), Some(title));
        }
    }
}
