//! Where the Session starts, from what people said and what summaries speak for.

use super::Policy;
use super::view::{Message, SummedUp};
use crate::sort_key::{SortKey, Timestamp};

/// The stretch of a history that is in view.
pub(super) struct Session {
    pub(super) start: SortKey,
    /// Before which nothing that arrives late can belong to it, as far as is known.
    pub(super) reaches_back_to: Option<SortKey>,
    /// When somebody last spoke.
    pub(super) last_interaction: Option<Timestamp>,
}

/// Something that the Session may start with: a message, or a summary, which speaks for a stretch of interactions.
struct Mark {
    start: SortKey,
    /// When a person first and last spoke; `None` for what nobody said.
    spoken: Option<(Timestamp, Timestamp)>,
}

impl Session {
    /// The Session of `messages`, which are in order, and of what is summed up, both of one line, behind `boundary`.
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
        // A summary speaks for what it counts, so that no gap in there takes it apart.
        // Nor does a reply start anything: what it answers does, or has left the table with its Session.
        let speaks = |message: &&Message<'_>| {
            is_in(&message.base) && !message.first.key.is_reply() && !counted.contains(message.key())
        };
        let said = messages.iter().filter(speaks).map(|message| {
            let ts = message.first.said_at();
            let spoken = message.first.is_interaction().then_some((ts, ts));
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
        let (mut behind_gap, mut last_interaction) = (None, *ended_at);
        for (mark, first, last) in &interactions {
            if last_interaction.is_some_and(|before| stale(before, *first)) {
                behind_gap = Some(&mark.start);
            }
            last_interaction = last_interaction.max(Some(*last));
        }
        if let Some(last) = last_interaction
            && !waits
            && stale(last, now)
        {
            return None;
        }
        // Behind a Session that has ended, the next one starts with what somebody says.
        let first_said = interactions.first().filter(|_| ended_at.is_some()).map(|(mark, ..)| &mark.start);
        let start = behind_gap.or(first_said).or_else(|| marks.first().map(|mark| &mark.start))?.clone();
        // What arrives late joins the Session if it is at most the stale time older than its first interaction.
        let first = interactions.iter().find(|(mark, ..)| mark.start >= start);
        let by_time = policy.stale_after.map(|limit| match first {
            Some((_, first, _)) => SortKey::start_of(first.minus(limit)),
            None => start.clone(),
        });
        Some(Self {
            start,
            reaches_back_to: boundary.cloned().max(ended_at.map(SortKey::start_of)).max(by_time),
            last_interaction,
        })
    }
}
