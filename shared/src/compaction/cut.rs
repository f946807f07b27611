//! Where to cut: which of the Session's messages a summary will stand for, and which stay as they were said.

use std::time::Duration;

use crate::context::view::{Message, View};
use crate::message::Role;
use crate::record::{Kind, MAX_AHEAD, Record, Source};
use crate::sort_key::{SortKey, Timestamp};

/// The most messages that one summary counts beyond those of the summary it folds, and the most bytes of their keys, which
/// are in its item.
const MAX_COUNTED: usize = 2_000;
const MAX_COUNTED_BYTES: usize = 256 * 1024;

/// Tokens that a message takes in a request for a summary beside its text: when it was said, and by whom; a reply takes
/// [`REPLY_TOKENS`], and where several people speak, an id [`ID_TOKENS`].
const SENDER_TOKENS: u32 = 22;
const REPLY_TOKENS: u32 = 6;
const ID_TOKENS: u32 = 12;

/// The share of the budget that a compaction for want of room aims at, so that not every turn behind it compacts again.
const AIM: f64 = 0.6;

/// Why to compact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Somebody asked: all but the most recent.
    Asked,
    /// The context exceeds this many tokens, or the model's window: as much as it takes.
    Room {
        /// What the messages may take.
        budget: u32,
    },
    /// Some of the context will leave the table soon: whatever leaves before this (epoch seconds), however recent.
    Expiring {
        /// Up to when.
        before: i64,
    },
}

/// What decides a cut.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// `KEEP_RECENT`: how many user and assistant messages stay verbatim, those that wait among them.
    pub keep_recent: usize,
    /// How many tokens a summary may take.
    pub summary_tokens: u32,
    /// How many tokens of messages one request for a summary may hold.
    pub source_tokens: u32,
    /// How long a tool call without a result, such as one that waits for an approval, holds a cut off.
    pub approval_patience: Duration,
}

/// What a summary will stand for, and what is left.
#[derive(Debug)]
pub struct Cut<'v, 'a> {
    /// The earlier summary that goes into the new one.
    pub folded: Option<&'a Record>,
    /// The messages that it counts, in order; never empty.
    pub counted: &'v [Message<'a>],
    /// Whether more must be cut behind it: the source was too long for one request.
    pub leaves_more: bool,
}

/// Where to cut `view` at `now`; `None` where there is nothing that may be cut.
pub fn cut<'v, 'a>(view: &'v View<'a>, why: Why, rules: &Rules, now: Timestamp) -> Option<Cut<'v, 'a>> {
    let earlier = &view.earlier[..];
    let limit = earlier
        .iter()
        .position(|message| {
            let is_pending =
                message.is_open() && now.since(message.newest().sent_at) <= rules.approval_patience;
            // No summary can follow a summary that stands in the future.
            is_pending || message.first.ts > now.plus(MAX_AHEAD)
        })
        .unwrap_or(earlier.len());
    let recent = position_of_recent(earlier, rules.keep_recent.saturating_sub(count(&view.unanswered)));
    let wanted = match why {
        Why::Asked => recent,
        Why::Room { budget } => position_that_fits(view, recent, rules, budget),
        Why::Expiring { before } => earlier
            .iter()
            .rposition(|message| {
                expires_before(message.newest(), before) || expires_before(message.first, before)
            })
            .map_or(0, |last| last + 1),
    };
    let wanted = wanted.min(limit);
    let at = position_of_one_request(view, wanted, rules).max(least(view)?);
    let most = if why == Why::Asked { wanted } else { limit };
    (wanted > 0 && at <= most).then(|| Cut {
        folded: view.summary,
        counted: &earlier[..at],
        leaves_more: at < wanted,
    })
}

/// The cut that an earlier run has committed to: all up to the message or reply at `to`. `None` where the Session has
/// nothing up to there that is not counted.
pub fn cut_at<'v, 'a>(view: &'v View<'a>, to: &SortKey) -> Option<Cut<'v, 'a>> {
    let at = view.earlier.partition_point(|message| message.key() <= to);
    (at > 0).then(|| Cut { folded: view.summary, counted: &view.earlier[..at], leaves_more: true })
}

/// Whether some of what the Session shows leaves the table before `before`, in epoch seconds.
pub fn expires(view: &View<'_>, before: i64) -> bool {
    view.earlier_records().any(|record| expires_before(record, before))
}

impl Cut<'_, '_> {
    /// What the summary is to say it stands for, made of records that were read at `read_at`; `None` if nobody speaks in it.
    pub fn source(&self, read_at: Timestamp) -> Option<Source> {
        let (first, last) = (self.counted.first()?, self.counted.last()?);
        let folded = self.folded.and_then(|record| record.source.as_ref());
        let spoken = self.counted.iter().filter(|message| message.first.is_interaction());
        let spoken = spoken.map(|message| message.first.said_at()).max();
        let last_interaction = spoken.max(folded.map(|folded| folded.last_interaction))?;
        let own = (first.base.clone(), first.first.message_id.clone());
        let (from, from_id) = match folded {
            Some(folded) if folded.from <= own.0 => (folded.from.clone(), folded.from_id.clone()),
            _ => own,
        };
        Some(Source {
            last_interaction,
            read_at: Some(read_at),
            from,
            from_id,
            to: last.key().clone(),
            to_id: last.first.message_id.clone(),
            count: u32::try_from(count(self.counted))
                .unwrap_or(u32::MAX)
                .saturating_add(folded.map_or(0, |f| f.count)),
            counts: self.counted.iter().map(|message| message.key().clone()).collect(),
        })
    }
}

/// How many user and assistant messages `messages` are; what a platform says happened is none.
fn count(messages: &[Message<'_>]) -> usize {
    messages.iter().filter(|message| is_said(message)).count()
}

fn is_said(message: &Message<'_>) -> bool {
    message.first.kind != Kind::Event && message.first.role() != Role::System
}

/// Behind which position the last `keep` messages stand.
fn position_of_recent(earlier: &[Message<'_>], keep: usize) -> usize {
    let mut kept = 0;
    let recent = earlier.iter().rev().take_while(|message| {
        kept += usize::from(is_said(message));
        kept <= keep
    });
    earlier.len() - recent.count()
}

/// From `at` on, the first position behind which what is left fits: `at` where that does; else, as little is gained by one
/// message at a time, the first that leaves room for more; the end where nothing fits.
fn position_that_fits(view: &View<'_>, at: usize, rules: &Rules, budget: u32) -> usize {
    let summary = view.summary.map_or(0, |summary| summary.tokens).max(rules.summary_tokens);
    let waiting = view.tokens_of(&view.unanswered).saturating_add(view.guide_tokens());
    let beside = waiting.saturating_add(view.corrected(summary));
    let mut left = beside.saturating_add(view.tokens_of(&view.earlier[at..]));
    if left <= budget {
        return at;
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a u32 is one")]
    let aim = (f64::from(budget) * AIM) as u32;
    let dropped = view.earlier[at..].iter().take_while(|message| {
        let fits = left <= aim;
        left = left.saturating_sub(view.corrected(message.shown_tokens()));
        !fits
    });
    at + dropped.count()
}

/// How many messages a cut must count at least; `None` where there are not so many.
///
/// One behind all that is summed up, though some came late and stand before that: one place takes one summary, and one of
/// late messages alone would stand before the summary that it folds. And something that somebody said, since a summary speaks for interactions.
fn least(view: &View<'_>) -> Option<usize> {
    let is_before = |message: &Message<'_>| Some(message.key()) <= view.summed_up_to.as_ref();
    let behind = view.earlier.partition_point(is_before);
    let said = match view.summary {
        Some(_) => 0,
        None => view.earlier.iter().position(|message| message.first.is_interaction())?,
    };
    Some(behind.max(said) + 1)
}

/// How many of the first `wanted` messages one request for a summary can hold: at least one.
fn position_of_one_request(view: &View<'_>, wanted: usize, rules: &Rules) -> usize {
    let mut sum = view.summary.map_or(0, |folded| view.corrected(folded.tokens));
    let beside = |message: &Message<'_>| match message.first.role() {
        Role::User if view.has_several => SENDER_TOKENS + ID_TOKENS,
        Role::User => SENDER_TOKENS,
        Role::Assistant | Role::System => REPLY_TOKENS,
    };
    let mut bytes = 0;
    let held = view.earlier[..wanted].iter().take(MAX_COUNTED).take_while(|message| {
        sum = sum.saturating_add(view.corrected(message.tokens().saturating_add(beside(message))));
        bytes += message.key().as_str().len();
        sum <= rules.source_tokens && bytes <= MAX_COUNTED_BYTES
    });
    held.count().max(1).min(wanted)
}

fn expires_before(record: &Record, before: i64) -> bool {
    record.expires_at.is_some_and(|at| at < before)
}

#[cfg(test)]
mod tests;
