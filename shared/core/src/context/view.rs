//! Messages of one line of a history, sorted into those of the Session and unanswered ones: [`SessionView`].

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use serde::Deserialize;

use super::Policy;
pub use super::message::Message;
use super::message::{messages, newest_forms, with_whole_albums};
use super::replaced::mark_replaced;
use super::session::{Session, SummedUp};
use crate::approval;
use crate::markup;
use crate::media;
use crate::message::Role;
use crate::record::{Details, Kind, Record, Source};
use crate::schedule::due::ScheduleId;
use crate::sender;
use crate::sort_key::{SortKey, Timestamp};
use crate::time_marks;
use crate::tokens;

/// Time before the reading of a summary's records from which the context is read again, although the summary covers
/// that time: a message may have been on its way. A message that arrives later than this is announced by a turn; see
/// `annals_engine::ingress::PROMPT`.
const IN_FLIGHT: Duration = Duration::from_secs(15);

/// Like [`IN_FLIGHT`], for a summary that does not tell when its records were read: the maximum duration of a run.
const IN_FLIGHT_OF_A_RUN: Duration = Duration::from_mins(5);

/// The messages of one line of a history, sorted. The fields that [`Context`](super::Context) has, too, are explained there.
#[derive(Debug)]
pub struct SessionView<'a> {
    /// The Session's newest summary, which replaces all messages that it and the summaries folded into it count.
    pub summary: Option<&'a Record>,
    /// The Session's messages that are answered or do not ask, in order; without those that a summary counts, or that are
    /// past their date before its end.
    pub earlier: Vec<Message<'a>>,
    /// The unanswered messages, in order.
    pub unanswered: Vec<Message<'a>>,
    pub to_compact: Vec<SortKey>,
    pub to_send: Vec<SortKey>,
    pub to_resume: Vec<SortKey>,
    pub others_wait: bool,
    pub session_start: Option<SortKey>,
    pub reaches_back_to: Option<SortKey>,
    /// End of the last summary by key, of the Session or not. The next one must end after it.
    pub summed_up_to: Option<SortKey>,
    /// True if several people wrote the shown messages, so that the model is told the senders.
    pub has_several: bool,
    /// Time of the Session's last interaction, as far as is known.
    pub last_interaction: Option<Timestamp>,
    /// Ratio of the model's own token count to the estimate.
    correction: f64,
}

impl<'a> SessionView<'a> {
    /// Returns the view of `records`, which must be in order of [`Record::key`], at `now`.
    pub fn of(records: &'a [Record], now: Timestamp, policy: &Policy) -> Self {
        let answered = answered_by_place(records);
        let covered: HashSet<&SortKey> = records.iter().flat_map(Record::covers).chain(&answered).collect();
        let newest = newest_forms(records);
        let mut messages = with_whole_albums(messages(records, &newest, &covered, now), &covered, now);
        mark_replaced(&mut messages, records);
        let line = line_in_view(&messages);
        // A prompt of a schedule does not bring back a Session that has ended.
        let waits = messages.iter().any(|message| message.unanswered && message.first.is_interaction());
        let has_occurrences = messages.iter().any(|message| message.first.due().is_some());
        let (messages, others): (Vec<_>, Vec<_>) =
            messages.into_iter().partition(|message| message.first.line() == line);
        let boundary =
            records.iter().filter(|record| record.kind() == Kind::Boundary).map(Record::place).max();
        // A message with a time in the future is also dropped if it was stored before the boundary.
        let is_left_behind = |message: &Message<'_>| {
            message.first.is_ahead()
                && Some(&message.first.place()) < boundary.as_ref()
                && !message.unanswered
        };
        let messages: Vec<Message<'_>> = messages.into_iter().filter(|m| !is_left_behind(m)).collect();
        let own = records.iter().filter(|record| record.line() == line);
        let summaries: Vec<(&Record, &Source)> =
            own.filter_map(|record| Some((record, record.source()?))).collect();
        let summed_up_to = summaries.last().map(|(_, source)| source.to.clone());
        let summed_up = SummedUp::of(summaries.into_iter(), boundary.as_ref());

        let session = Session::of(&messages, &summed_up, boundary.as_ref(), now, policy, waits);
        let start = session.as_ref().map(|session| session.start.clone());
        let is_in = |base: &SortKey| start.as_ref().is_some_and(|start| base >= start);
        let summary = summed_up.newest.filter(|(_, source)| is_in(&source.from)).map(|(record, _)| record);
        let summary_ends = summary.and_then(Record::source).map(|source| &source.to);
        // A summary of another Session replaces nothing.
        let is_counted = |key: &SortKey| summary.is_some() && summed_up.counted.contains(key);
        let (unanswered, answered): (Vec<_>, Vec<_>) =
            messages.into_iter().partition(|message| message.unanswered);
        let shows_earlier = !policy.fresh || unanswered.is_empty();
        let earlier: Vec<Message<'_>> = answered
            .into_iter()
            .filter(|m| shows_earlier && is_in(&m.base) && !m.newest.is_recalled() && !m.is_replaced)
            .filter(|m| !is_counted(m.key()) || summary.is_some_and(|summary| m.has_gone_on_since(summary)))
            // A lapsed message before the end of the summary counts as summarised: TTL may have deleted the earlier
            // summary that names it, and it must not come back.
            .filter(|m| Some(m.key()) > summary_ends || !m.first.has_lapsed(now))
            .collect();
        let (mut earlier, mut unanswered) = (earlier, unanswered);
        keep_newest_occurrences(&mut earlier, &unanswered);
        count_images(&mut earlier, &mut unanswered, policy.images);
        let has_several =
            sender::are_several(earlier.iter().chain(&unanswered).map(|message| message.first), summary);
        if has_several {
            for message in earlier.iter_mut().chain(&mut unanswered) {
                message.sender_tokens = sender::of(message.first).map_or(0, |sender| sender.tokens());
            }
        }
        mark_times(earlier.iter_mut().chain(&mut unanswered));
        let last_interaction = session.as_ref().and_then(|session| session.last_interaction);
        let reaches_back_to = session.and_then(|session| match summary {
            Some(summary) => {
                // Unanswered messages move to their place in the Session once they are answered.
                let waiting = unanswered.iter().filter(|message| is_in(&message.base));
                Some(read_from(summary, earlier.iter().chain(waiting))).max(boundary)
            }
            None => session.reaches_back_to,
        });
        // Otherwise a chat in which only schedules speak would be read from its last Session on, for ever.
        let reaches_back_to = reaches_back_to.or_else(|| {
            let stale_after = policy.stale_after.filter(|_| has_occurrences)?;
            Some(SortKey::start_of(now.minus(stale_after)))
        });
        let (to_send, to_compact) = commands_of_turns(records, &covered, now);
        // Also unanswered messages from before the Session, or of another line: they may never get a turn of their own.
        let waiting = unanswered.iter().chain(others.iter().filter(|message| message.unanswered));
        let waiting = waiting.map(|message| &message.base).chain(&to_compact).chain(&to_send).cloned();
        // A reply that would continue waits while the chat is taken over.
        let to_resume = approval::to_resume(records, now);
        let waiting = waiting.chain(to_resume.iter().map(SortKey::base)).min();
        let reaches_back_to = reaches_back_to.map(|from| waiting.map_or(from.clone(), |base| from.min(base)));
        Self {
            to_compact,
            to_send,
            to_resume,
            others_wait: others.iter().any(|message| message.unanswered),
            session_start: start,
            reaches_back_to,
            summed_up_to,
            has_several,
            last_interaction,
            correction: correction(records),
            summary,
            earlier,
            unanswered,
        }
    }

    /// Returns the records of the view without unanswered messages: the summary, and the first and the newest form of
    /// each message, which may be the same.
    pub fn earlier_records(&self) -> impl Iterator<Item = &'a Record> {
        let forms = self.earlier.iter().flat_map(|message| [message.first, message.newest.record]);
        self.summary.into_iter().chain(forms)
    }

    /// Returns [`SessionView::earlier_records`], and the first and the newest form of each unanswered message.
    pub fn shown_records(&self) -> impl Iterator<Item = &'a Record> {
        let waiting = self.unanswered.iter().flat_map(|message| [message.first, message.newest.record]);
        self.earlier_records().chain(waiting)
    }

    /// Corrects a token estimate by the model's last count.
    pub fn corrected(&self, tokens: u32) -> u32 {
        tokens::corrected(tokens, self.correction)
    }

    /// Returns the corrected estimate of the instructions for reading messages of several people.
    pub fn guide_tokens(&self) -> u32 {
        if self.has_several { self.corrected(tokens::of_text(markup::GUIDE)) } else { 0 }
    }

    /// Returns the corrected estimate of `messages`, with their images, the marks of their times and, if they are
    /// named, their senders.
    pub fn tokens_of(&self, messages: &[Message<'_>]) -> u32 {
        messages.iter().fold(0, |sum, message| sum.saturating_add(self.corrected(message.shown_tokens())))
    }
}

/// Leaves out the occurrences of a schedule but the newest, with their replies: however often it comes due, it fills no context.
fn keep_newest_occurrences<'a>(earlier: &mut Vec<Message<'a>>, unanswered: &[Message<'a>]) {
    let mut newest: HashMap<ScheduleId, Timestamp> = HashMap::new();
    for due in earlier.iter().chain(unanswered).filter_map(|message| message.first.due()) {
        let at = newest.entry(due.id).or_insert(due.at);
        *at = due.at.max(*at);
    }
    if !newest.is_empty() {
        earlier.retain(|message| message.first.due().is_none_or(|due| newest.get(&due.id) == Some(&due.at)));
    }
}

/// Sets the number of images that are shown of each message: of all, the newest `most`.
fn count_images<'a>(earlier: &mut [Message<'a>], unanswered: &mut [Message<'a>], most: usize) {
    let mut left = most;
    for message in unanswered.iter_mut().rev().chain(earlier.iter_mut().rev()) {
        let newest = message.newest.record;
        let shown = media::count_images(&newest.message, newest.channel).min(left);
        left -= shown;
        message.images = u32::try_from(shown).unwrap_or(u32::MAX);
    }
}

/// Counts the marks of the times of `messages`, which are in the order in which they are shown.
fn mark_times<'m, 'a: 'm>(messages: impl Iterator<Item = &'m mut Message<'a>>) {
    let (mut before, tokens) = (None, time_marks::mark_tokens());
    for message in messages {
        let Some(time) = message.time() else { continue };
        message.time_tokens = if time_marks::is_marked(before, time) { tokens } else { 0 };
        before = Some(time);
    }
}

/// Returns the line of the first unanswered message or, if there is none, of the last message of a person.
fn line_in_view<'a>(messages: &[Message<'a>]) -> Option<&'a str> {
    let waiting = messages.iter().find(|m| m.unanswered);
    let last = || messages.iter().rev().find(|m| m.first.is_interaction());
    waiting.or_else(last).and_then(|m| m.first.line())
}

/// Returns the operators' messages in `records` that are not sent, and the `/compact` commands without an answer. An edited
/// `/compact` is a message instead.
fn commands_of_turns(
    records: &[Record],
    covered: &HashSet<&SortKey>,
    now: Timestamp,
) -> (Vec<SortKey>, Vec<SortKey>) {
    let edited: HashSet<SortKey> = records
        .iter()
        .filter(|record| record.kind() == Kind::Revision && !record.key.belongs_to_reply())
        .map(|record| record.key.base())
        .collect();
    let is_command =
        |record: &&Record| record.kind() == Kind::Notice && record.asks() && !record.has_lapsed(now);
    let open = records.iter().filter(is_command).filter(|record| !covered.contains(&record.key.base()));
    let (mut to_send, mut to_compact) = (Vec::new(), Vec::new());
    for record in open {
        let base = record.key.base();
        if record.dispatch().is_some() {
            to_send.push(base);
        } else if !edited.contains(&base) {
            to_compact.push(base);
        }
    }
    (to_send, to_compact)
}

/// Returns the messages that a reply answers by its key, or a message of the agent by directly following one. Imported
/// answers have no other sign of what they answer. A message that was stored after it, since it came late, is not answered:
/// it would wait again once the other has expired.
fn answered_by_place(records: &[Record]) -> Vec<SortKey> {
    let mut said: Option<&Record> = None;
    let mut answered = Vec::new();
    for record in records {
        match (record.role(), &record.details) {
            _ if record.key.is_reply() => answered.push(record.key.base()),
            // One that asks came by its channel, and is answered by a reply.
            (Role::User, Details::Message(message)) if message.revision == 0 => {
                said = Some(record).filter(|_| !message.asks);
            }
            (Role::Assistant, Details::Message(_)) => {
                // The messages of an import are stored together.
                let was_there = |said: &&Record| said.sent_at <= record.sent_at.plus(IN_FLIGHT);
                let own = said.take().filter(|said| said.line() == record.line());
                answered.extend(own.filter(was_there).map(|said| said.key.base()));
            }
            _ => {}
        }
    }
    answered
}

/// Returns the position from which a Session with `summary` is read: the minimum of the summary, the messages that may
/// have been on their way when it was made, and the messages that are shown beside it.
fn read_from<'m, 'a: 'm>(summary: &Record, shown: impl Iterator<Item = &'m Message<'a>>) -> SortKey {
    let read_at = summary.source().and_then(|source| source.read_at);
    let in_flight =
        read_at.map_or(summary.sent_at.minus(IN_FLIGHT_OF_A_RUN), |read_at| read_at.minus(IN_FLIGHT));
    let in_flight = SortKey::start_of(in_flight);
    shown.map(|message| message.base.clone()).chain([summary.key.base()]).fold(in_flight, SortKey::min)
}

/// Returns the ratio of the model's own count to the estimate, from the newest reply that has both.
fn correction(records: &[Record]) -> f64 {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Usage {
        input_tokens: u32,
        estimated_input_tokens: u32,
    }
    let usage = records.iter().rev().find_map(|record| record.message.metadata.usage::<Usage>());
    usage.map_or(1.0, |usage| tokens::correction(usage.input_tokens, usage.estimated_input_tokens))
}
