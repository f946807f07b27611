//! Finds the start of the context of a chat after an import: [`ImportedChat::start`].

use std::time::Duration;

use annals_core::sort_key::Timestamp;
use annals_engine::settings::ViewConfig;

/// Messages of a chat, as far as they decide where a Session starts.
#[derive(Clone, Debug, Default)]
pub(super) struct ImportedChat {
    messages: Vec<Message>,
    /// Time of the last boundary.
    boundary: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Message {
    ts: Timestamp,
    is_interaction: bool,
    /// Of a new message, with its time and sender.
    tokens: u32,
}

/// The start of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Start {
    /// Time from which the records are to be read.
    pub(super) from: Timestamp,
    /// Place of a boundary, if the last Session is so long that a model would have to summarise it before the first answer.
    pub(super) boundary: Option<Timestamp>,
}

impl ImportedChat {
    /// Adds a message; `tokens` if it is new.
    pub(super) fn add(&mut self, ts: Timestamp, is_interaction: bool, tokens: u32) {
        self.messages.push(Message { ts, is_interaction, tokens });
    }

    pub(super) fn add_boundary(&mut self, ts: Timestamp) {
        self.boundary = self.boundary.max(Some(ts));
    }

    /// Returns where the context starts: with the last Session, and earlier messages that may still join it. If its new messages
    /// exceed the budget of a context, only the newest of them are left in it, as many as a compaction leaves. `None` if nobody has
    /// spoken, or if the Session never ends and fits.
    pub(super) fn start(mut self, view: &ViewConfig) -> Option<Start> {
        self.messages.sort_unstable();
        let in_session = self.session(view.stale_after)?;
        let (first, budget) = (in_session.first()?.ts, view.policy(0).token_budget);
        let sum = |messages: &[Message]| {
            messages.iter().fold(0_u32, |sum, message| sum.saturating_add(message.tokens))
        };
        if sum(in_session) <= budget {
            let from = match view.stale_after {
                Some(stale_after) => first.minus(stale_after).max(self.boundary.unwrap_or(Timestamp::MIN)),
                None => return None,
            };
            return Some(Start { from, boundary: None });
        }
        // A question is not separated from its answer.
        let newest = in_session.len().saturating_sub(view.keep_recent);
        let kept = (newest..in_session.len())
            .find(|at| in_session[*at].is_interaction && sum(&in_session[*at..]) <= budget / 2)
            .or_else(|| in_session.iter().rposition(|message| message.is_interaction))?;
        let boundary = in_session[kept].ts.previous();
        Some(Start { from: boundary, boundary: Some(boundary) })
    }

    /// Returns the messages of the last Session, in order.
    fn session(&self, stale_after: Option<Duration>) -> Option<&[Message]> {
        let after_boundary = self
            .messages
            .partition_point(|message| self.boundary.is_some_and(|boundary| message.ts < boundary));
        let messages = &self.messages[after_boundary..];
        let mut first = messages.iter().rposition(|message| message.is_interaction)?;
        for (at, message) in
            messages[..first].iter().enumerate().rev().filter(|(_, message)| message.is_interaction)
        {
            if stale_after.is_some_and(|limit| messages[first].ts.since(message.ts) > limit) {
                break;
            }
            first = at;
        }
        Some(&messages[first..])
    }
}

#[cfg(test)]
mod tests {
    use annals_core::time_zone::TimeZone;

    use super::*;

    fn at(hours: i64) -> Timestamp {
        Timestamp::from_secs(1_700_000_000 + hours * 3600)
    }

    fn view(stale_after: Option<Duration>, keep_recent: usize) -> ViewConfig {
        let time_zone = TimeZone::UTC;
        ViewConfig {
            stale_after,
            fresh: false,
            window: 1000,
            threshold: 1.0,
            keep_recent,
            images: 0,
            time_zone,
        }
    }

    const TWO_DAYS: Option<Duration> = Some(Duration::from_hours(48));

    #[test]
    fn the_last_session_is_read_with_messages_that_may_join_it() {
        let from = |hours: &[i64]| {
            let mut said = ImportedChat::default();
            for hours in hours {
                said.add(at(*hours), true, 1);
            }
            said.start(&view(TWO_DAYS, 30)).map(|start| start.from)
        };
        assert_eq!(from(&[]), None);
        assert_eq!(from(&[100]), Some(at(52)));
        assert_eq!(from(&[500, 0, 540, 580]), Some(at(452)));
        let mut said = ImportedChat::default();
        said.add(at(0), true, 1);
        assert_eq!(said.clone().start(&view(None, 30)), None, "nothing grows stale");
        said.add_boundary(at(-1));
        assert_eq!(said.start(&view(TWO_DAYS, 30)).unwrap().from, at(-1), "nothing before a boundary");
    }

    #[test]
    fn of_a_long_session_the_newest_messages_are_left() {
        let talk = |tokens: u32| {
            let mut said = ImportedChat::default();
            for hour in 0..50 {
                said.add(at(2 * hour), true, tokens);
                said.add(at(2 * hour + 1), false, tokens);
            }
            said
        };
        let boundary = |said: ImportedChat, stale_after, keep| {
            said.start(&view(stale_after, keep)).and_then(|start| start.boundary)
        };
        assert_eq!(boundary(talk(10), TWO_DAYS, 4), None, "it fits");
        let before = |hour| Some(at(hour).previous());
        assert_eq!(boundary(talk(11), TWO_DAYS, 4), before(96));
        assert_eq!(
            boundary(talk(11), TWO_DAYS, 5),
            before(96),
            "a question is not separated from its answer"
        );
        assert_eq!(boundary(talk(11), None, 4), before(96), "also if nothing grows stale");
        assert_eq!(boundary(talk(200), TWO_DAYS, 4), before(98), "few of them, if they are long");
        assert_eq!(boundary(talk(600), TWO_DAYS, 4), before(98), "the last question, however long");
        let mut stored = talk(0);
        stored.add(at(99), true, 500);
        assert_eq!(boundary(stored, TWO_DAYS, 4), None, "a compaction has seen to what is stored");
        let mut ended = talk(11);
        ended.add_boundary(at(95));
        assert_eq!(boundary(ended, TWO_DAYS, 4), None, "a session that is short");
    }
}
