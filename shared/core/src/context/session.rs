//! Start of the Session, determined from interactions and summaries.

use std::collections::HashSet;

use super::Policy;
use super::message::Message;
use crate::record::{Record, Source};
use crate::sort_key::{SortKey, Timestamp};

pub(super) struct Session {
    pub(super) start: SortKey,
    /// Position before which no late message can belong to it, as far as is known.
    pub(super) reaches_back_to: Option<SortKey>,
    pub(super) last_interaction: Option<Timestamp>,
}

/// A possible start of the Session: a message, or a summary, which counts as a range of interactions.
struct Mark {
    start: SortKey,
    /// Time of the first and last interaction; `None` if it is not an interaction.
    spoken: Option<(Timestamp, Timestamp)>,
}

impl Session {
    /// Returns the Session of `messages`, which are in order, and of the summaries, both of one line, after `boundary`.
    pub(super) fn of(
        messages: &[Message<'_>],
        summed_up: &SummedUp<'_>,
        boundary: Option<&SortKey>,
        now: Timestamp,
        policy: &Policy,
        waits: bool,
    ) -> Option<Self> {
        let SummedUp { newest, counted, ended_at } = summed_up;
        let is_in = |base: &SortKey| {
            boundary.is_none_or(|boundary| base >= boundary) && ended_at.is_none_or(|ended| base.ts() > ended)
        };
        // A message counted by a summary is not looked at by itself, so that no gap splits the range of a summary. A
        // reply does not start a Session either: the message that it answers does, or has expired with its Session.
        let speaks = |message: &&Message<'_>| {
            is_in(&message.base) && !message.first.key.is_reply() && !counted.contains(message.key())
        };
        let said = messages.iter().filter(speaks).map(|message| {
            let ts = message.first.said_at();
            let speaks = message.first.is_interaction() || message.first.message.metadata.is_joined();
            let spoken = speaks.then_some((ts, ts));
            Mark { start: message.base.clone(), spoken }
        });
        let summed_up = newest.filter(|(_, source)| is_in(&source.from)).map(|(_, source)| {
            let spoken = Some((source.from.ts(), source.last_interaction));
            Mark { start: source.from.clone(), spoken }
        });
        let mut marks: Vec<Mark> = said.chain(summed_up).collect();
        marks.sort_by(|a, b| a.start.cmp(&b.start));
        let interactions: Vec<(&Mark, Timestamp, Timestamp)> =
            marks.iter().filter_map(|mark| mark.spoken.map(|(first, last)| (mark, first, last))).collect();

        let stale = |earlier: Timestamp, later: Timestamp| {
            policy.stale_after.is_some_and(|limit| later.since(earlier) > limit)
        };
        if policy.fresh {
            let last = messages.iter().rev().find(|m| m.first.is_interaction() && is_in(&m.base))?;
            let start = last.base.clone();
            if !waits && stale(last.first.said_at(), now) {
                return None;
            }
            let last_interaction = Some(last.first.said_at());
            return Some(Self { reaches_back_to: Some(start.clone()), start, last_interaction });
        }
        let (mut after_gap, mut last_interaction) = (None, *ended_at);
        for (mark, first, last) in &interactions {
            if last_interaction.is_some_and(|before| stale(before, *first)) {
                after_gap = Some(&mark.start);
            }
            last_interaction = last_interaction.max(Some(*last));
        }
        if let Some(last) = last_interaction
            && !waits
            && stale(last, now)
        {
            return None;
        }
        // After a Session that has ended, the next one starts with an interaction.
        let first_said = interactions.first().filter(|_| ended_at.is_some()).map(|(mark, ..)| &mark.start);
        let start = after_gap.or(first_said).or_else(|| marks.first().map(|mark| &mark.start))?.clone();
        let first = interactions.iter().find(|(mark, ..)| mark.start >= start).map(|(_, first, _)| *first);
        // A late message joins the Session if it is at most the stale time older than the first interaction.
        let by_time = policy.stale_after.map(|limit| match first {
            Some(first) => SortKey::start_of(first.minus(limit)),
            None => start.clone(),
        });
        let sent = first.and_then(|first| sent_before(messages, &start, first, is_in, policy));
        let start = sent.unwrap_or(start);
        Some(Self {
            start,
            reaches_back_to: boundary.cloned().max(ended_at.map(SortKey::start_of)).max(by_time),
            last_interaction,
        })
    }
}

/// Returns the first message up to `start` that an operator, a schedule or another chat's agent sent at most the stale time
/// before the Session's `first` interaction, which may be the answer to it. Interactions before the Session are older.
fn sent_before(
    messages: &[Message<'_>],
    start: &SortKey,
    first: Timestamp,
    is_in: impl Fn(&SortKey) -> bool,
    policy: &Policy,
) -> Option<SortKey> {
    let is_near = |ts: Timestamp| policy.stale_after.is_none_or(|limit| first.since(ts) <= limit);
    let is_sent = |message: &&Message<'_>| {
        let metadata = &message.first.message.metadata;
        metadata.sent_by().is_some() || metadata.sent_from().is_some() || metadata.due().is_some()
    };
    let mut sent = messages.iter().filter(is_sent).map(|message| &message.base);
    sent.find(|base| *base <= start && is_in(base) && is_near(base.ts())).cloned()
}

/// Messages that the summaries of one line cover, without summaries before the last boundary.
pub(super) struct SummedUp<'a> {
    /// The summary that was made last. It folds all summaries that start at its start or later.
    pub(super) newest: Option<(&'a Record, &'a Source)>,
    /// Keys that it and the summaries folded into it count.
    pub(super) counted: HashSet<&'a SortKey>,
    /// Time of the last interaction in earlier summaries, which are not folded. Their Sessions had ended when the
    /// newest summary was made, and a late message that fills the gap does not bring them back.
    pub(super) ended_at: Option<Timestamp>,
}

impl<'a> SummedUp<'a> {
    pub(super) fn of(
        summaries: impl Iterator<Item = (&'a Record, &'a Source)>,
        boundary: Option<&SortKey>,
    ) -> Self {
        let summaries: Vec<_> = summaries.filter(|(_, source)| Some(&source.from) >= boundary).collect();
        let made = |(record, source): &(&'a Record, &'a Source)| (record.sent_at, source.count, &record.key);
        let newest = summaries.iter().copied().max_by_key(made);
        let from = newest.map(|(_, source)| &source.from);
        let (folded, earlier): (Vec<_>, Vec<_>) =
            summaries.into_iter().partition(|(_, source)| Some(&source.from) >= from);
        Self {
            newest,
            counted: folded.into_iter().flat_map(|(_, source)| &source.counts).collect(),
            ended_at: earlier.into_iter().map(|(_, source)| source.last_interaction).max(),
        }
    }
}
