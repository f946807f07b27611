//! Where the Session starts, from what people said and what summaries speak for.

use super::Policy;
use super::view::{Message, boundary_of};
use crate::record::{Record, Source};
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
    /// The Session of `messages` and `summaries`, both of one line and in order.
    pub(super) fn of(
        records: &[Record],
        messages: &[Message<'_>],
        summaries: &[(&SortKey, &Source)],
        now: Timestamp,
        policy: &Policy,
        waits: bool,
    ) -> Option<Self> {
        let boundary = boundary_of(records);
        let is_in = |base: &SortKey| boundary.as_ref().is_none_or(|boundary| base >= boundary);
        let said = messages.iter().filter(|message| is_in(&message.base)).map(|message| {
            let ts = message.first.ts;
            let spoken = message.first.is_interaction().then_some((ts, ts));
            (message.key(), Mark { start: message.base.clone(), spoken })
        });
        let summed_up = summaries.iter().filter(|(_, source)| is_in(&source.from)).map(|(key, source)| {
            let spoken = Some((source.from.ts(), source.last_interaction));
            (*key, Mark { start: source.from.clone(), spoken })
        });
        let mut marks: Vec<(&SortKey, Mark)> = said.chain(summed_up).collect();
        marks.sort_by(|a, b| a.0.cmp(b.0));
        // By when they begin: a summary speaks for a whole stretch, of which others may be left here and there.
        let mut interactions: Vec<(&Mark, Timestamp, Timestamp)> = marks
            .iter()
            .filter_map(|(_, mark)| mark.spoken.map(|(first, last)| (mark, first, last)))
            .collect();
        interactions.sort_by_key(|(_, first, _)| *first);

        let stale = |earlier: Timestamp, later: Timestamp| {
            policy.stale_after.is_some_and(|limit| later.since(earlier) > limit)
        };
        if policy.fresh {
            let last = messages.iter().rev().find(|m| m.first.is_interaction() && is_in(&m.base))?;
            let start = last.base.clone();
            if !waits && stale(last.first.ts, now) {
                return None;
            }
            let last_interaction = Some(last.first.ts);
            return Some(Self { reaches_back_to: Some(start.clone()), start, last_interaction });
        }
        let last_interaction = interactions.iter().map(|(_, _, last)| *last).max();
        if let Some(last) = last_interaction
            && !waits
            && stale(last, now)
        {
            return None;
        }
        let (mut behind_gap, mut latest): (Option<SortKey>, Option<Timestamp>) = (None, None);
        for (mark, first, last) in &interactions {
            if latest.is_some_and(|latest| stale(latest, *first)) {
                behind_gap = Some(mark.start.clone());
            }
            latest = latest.max(Some(*last));
        }
        let start = behind_gap.or_else(|| marks.iter().map(|(_, mark)| mark.start.clone()).min())?;
        // What arrives late joins the Session if it is at most the stale time older than its first interaction.
        let first = interactions.iter().find(|(mark, ..)| mark.start >= start);
        let by_time = policy.stale_after.map(|limit| match first {
            Some((_, first, _)) => SortKey::start_of(first.minus(limit)),
            None => start.clone(),
        });
        Some(Self { start, reaches_back_to: boundary.max(by_time), last_interaction })
    }
}
