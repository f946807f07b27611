//! The language that a person is answered in by the bot itself: [`Language`]. Pure functions of records and settings, so that
//! a repeated message is told the same.

use crate::message::{Role, UiMessage};
use crate::metadata::Metadata;
use crate::record::Record;
use crate::texts::Texts;
use crate::texts::en::En;
use crate::texts::zh::Zh;

/// A language that the bot speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// English, also for people of all languages that are not here.
    En,
    Zh,
}

impl Language {
    pub const ALL: [Self; 2] = [Self::En, Self::Zh];

    pub fn texts(self) -> &'static dyn Texts {
        match self {
            Self::En => &En,
            Self::Zh => &Zh,
        }
    }

    /// Returns the code by ISO 639-1.
    pub fn code(self) -> &'static str {
        match self {
            Self::En => "en",
            Self::Zh => "zh",
        }
    }

    /// Returns the language of a tag such as `zh-hans` or `en_GB`, if it is one of these.
    pub fn of_tag(tag: &str) -> Option<Self> {
        let primary = tag.trim().split(['-', '_']).next().unwrap_or_default();
        Self::ALL.into_iter().find(|language| primary.eq_ignore_ascii_case(language.code()))
    }

    /// Returns the most wanted tag of an `Accept-Language` header whose language is one of these.
    pub fn most_wanted(header: &str) -> Option<&str> {
        let tags = header.split(',').filter_map(|entry| {
            let (tag, parameters) = entry.split_once(';').unwrap_or((entry, ""));
            let quality =
                parameters.trim().strip_prefix("q=").unwrap_or("1").trim().parse().unwrap_or(0.0_f32);
            (quality > 0.0 && Self::of_tag(tag).is_some()).then_some((tag.trim(), quality))
        });
        // Of equal ones, the first.
        let best = tags.reduce(|best, next| if next.1 > best.1 { next } else { best });
        best.map(|(tag, _)| tag)
    }

    /// Returns the language that a text is written in, by its script: Chinese if it has more Han characters than words in
    /// other scripts, counting each kana and hangul as a word. `None` for a text without letters.
    pub fn of_script(text: &str) -> Option<Self> {
        let (mut han, mut others) = (0_usize, 0_usize);
        for word in text.split_whitespace() {
            let own = word.chars().filter(|c| is_han(*c)).count();
            let syllables = word.chars().filter(|c| is_kana_or_hangul(*c)).count();
            han += own;
            others += syllables;
            others += usize::from(own == 0 && syllables == 0 && word.chars().any(char::is_alphabetic));
        }
        match (han, others) {
            (0, 0) => None,
            (han, others) if han > others => Some(Self::Zh),
            _ => Some(Self::En),
        }
    }

    /// Returns the sign of its author's language in a message: what the platform says, else the script of the text. Words of
    /// a command are in Latin letters everywhere, so only Chinese ones count.
    pub fn of_message(message: &UiMessage) -> Option<Self> {
        Self::told(&message.metadata).or_else(|| {
            let text = message.plain_text();
            let is_command = text.trim_start().starts_with(['/', '／']);
            Self::of_script(&text).filter(|script| !is_command || *script == Self::Zh)
        })
    }

    /// Returns the language that the platform tells of the author. One that is not here is English.
    pub fn told(metadata: &Metadata) -> Option<Self> {
        metadata.language().map(|tag| Self::of_tag(tag).unwrap_or(Self::En))
    }

    /// Returns the language of the person `user_id`, by `records`, which are in order: by the newest of their messages that
    /// shows one, else by the newest of anybody's. English if none does.
    pub fn of_records<'a>(
        records: impl DoubleEndedIterator<Item = &'a Record> + Clone,
        user_id: &str,
    ) -> Self {
        let is_said =
            |record: &&Record| record.role() == Role::User && !record.message.metadata.is_of_operator();
        let said = records.filter(is_said).rev();
        let own = said.clone().filter(|record| record.user_id == user_id);
        own.chain(said).find_map(|record| Self::of_message(&record.message)).unwrap_or(Self::En)
    }
}

fn is_han(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{323af}')
}

fn is_kana_or_hangul(c: char) -> bool {
    matches!(c, '\u{1100}'..='\u{11ff}' | '\u{3040}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{ac00}'..='\u{d7af}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Part;
    use crate::testing::{aside, set};

    #[test]
    fn the_newest_sign_of_the_person_decides_and_then_that_of_others() {
        let said = |id: u64, text: &str, user_id: &str| {
            let mut record = aside(0, id);
            record.message.parts = vec![Part::text(text)];
            record.user_id = user_id.into();
            record
        };
        let of = |records: &[Record]| Language::of_records(records.iter(), "7");
        assert_eq!(of(&[]), Language::En);
        assert_eq!(
            of(&[said(1, "你好", "7"), said(2, "👍", "7"), said(3, "/memory undo 3", "7")]),
            Language::Zh
        );
        assert_eq!(of(&[said(1, "你好", "7"), said(2, "ok", "7")]), Language::En);
        assert_eq!(of(&[said(1, "你好", "7"), said(2, "hello", "8")]), Language::Zh);
        assert_eq!(of(&[said(1, "你好", "8"), said(2, "/new", "7")]), Language::Zh);
        assert_eq!(of(&[said(1, "hello", "7"), said(2, "/new 你好", "7")]), Language::Zh);
        // An operator's own words are no sign of a person's language.
        let mut operator = said(2, "An operator has taken this chat over.", "ops");
        operator.message.metadata.set_takeover(true);
        assert_eq!(of(&[said(1, "你好", "8"), operator]), Language::Zh);
        let mut told = said(2, "你好", "7");
        for (tag, language) in [("en", Language::En), ("zh-hans", Language::Zh), ("de", Language::En)] {
            set(&mut told.message.metadata, "language", tag);
            assert_eq!(of(&[said(1, "hello", "7"), told.clone()]), language, "{tag}");
        }
    }

    #[test]
    fn the_script_of_a_text_tells_chinese_from_the_rest() {
        for (text, language) in [
            ("你好", Some(Language::Zh)),
            ("帮我看下 DynamoDB 的 TTL", Some(Language::Zh)),
            ("看看 https://example.com/a/b-c", Some(Language::Zh)),
            ("hello", Some(Language::En)),
            ("What does 你好 mean in English?", Some(Language::En)),
            ("今日はいい天気ですね", Some(Language::En)),
            ("오늘 날씨", Some(Language::En)),
            ("42 👍 !?", None),
            ("", None),
        ] {
            assert_eq!(Language::of_script(text), language, "{text}");
        }
    }

    #[test]
    fn tags_and_headers_name_languages() {
        for tag in ["zh", "zh-hans", "zh_CN", "ZH-Hant-TW", " zh "] {
            assert_eq!(Language::of_tag(tag), Some(Language::Zh), "{tag}");
        }
        for tag in ["", "zhx", "yue", "de"] {
            assert_eq!(Language::of_tag(tag), None, "{tag}");
        }
        for (header, wanted) in [
            ("zh-CN,zh;q=0.9,en;q=0.8", Some("zh-CN")),
            ("de-DE, en;q=0.5, zh;q=0.7", Some("zh")),
            ("en-GB", Some("en-GB")),
            ("zh;q=0, en;q=0.1", Some("en")),
            ("*", None),
            ("", None),
            ("zh;q=x", None),
        ] {
            assert_eq!(Language::most_wanted(header), wanted, "{header}");
        }
    }
}
