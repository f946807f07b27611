//! Selects the Session's messages that a summary will replace; the others stay verbatim.

use std::collections::HashSet;
use std::time::Duration;

use crate::context::view::{Message, SessionView};
use crate::message::Role;
use crate::record::{Kind, MAX_AHEAD, Record, Source};
use crate::sort_key::{SortKey, Timestamp};

/// Maximum number of messages that one summary counts, not including those of the summary that it folds, and maximum
/// bytes of their keys, which are stored in its item.
const MAX_COUNTED: usize = 2_000;
const MAX_COUNTED_BYTES: usize = 256 * 1024;

/// Tokens for time and sender of a message in a request for a summary. A reply takes [`REPLY_TOKENS`]; if several
/// people are speaking, a sender's id takes [`ID_TOKENS`] more.
const SENDER_TOKENS: u32 = 22;
const REPLY_TOKENS: u32 = 6;
const ID_TOKENS: u32 = 12;

/// Share of the budget at which a compaction for lack of tokens aims, so that the next turns do not compact again.
const AIM: f64 = 0.6;

/// Reason for a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A person asked for it: summarise all but the recent messages.
    Asked,
    /// The context exceeds this budget, or the model's window: summarise as much as necessary.
    TooLong {
        /// Maximum tokens of the messages.
        budget: u32,
    },
    /// Some of the context will expire soon: summarise what expires before this time, even if it is recent.
    Expiring {
        /// Time in epoch seconds.
        before: i64,
    },
}

/// Settings of a cut.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// `KEEP_RECENT`: number of user and assistant messages that stay verbatim, including unanswered ones.
    pub keep_recent: usize,
    pub summary_tokens: u32,
    /// Maximum tokens of messages in one request for a summary.
    pub source_tokens: u32,
    /// Time for which a tool call without a result, such as one that waits for an approval, prevents a cut after it.
    pub approval_patience: Duration,
}

/// Messages to summarise.
#[derive(Debug)]
pub struct Cut<'v, 'a> {
    /// The earlier summary that is folded into the new one.
    pub folded: Option<&'a Record>,
    /// The messages that it counts, in order; never empty.
    pub counted: &'v [Message<'a>],
    /// True if another cut must follow, because the source was too long for one request.
    pub leaves_more: bool,
}

/// Selects the messages of `view` to summarise at `now`. Returns `None` if there is nothing that may be summarised.
pub fn cut<'v, 'a>(
    view: &'v SessionView<'a>,
    why: Why,
    rules: &Rules,
    now: Timestamp,
) -> Option<Cut<'v, 'a>> {
    let earlier = &view.earlier[..];
    let limit = earlier
        .iter()
        .position(|message| {
            let is_pending =
                message.is_open() && now.since(message.newest().sent_at) <= rules.approval_patience;
            // No summary can follow one with a time in the future.
            is_pending || message.first.ts > now.plus(MAX_AHEAD)
        })
        .unwrap_or(earlier.len());
    let recent = position_of_recent(earlier, rules.keep_recent.saturating_sub(count(&view.unanswered)));
    let wanted = match why {
        Why::Asked => recent,
        Why::TooLong { budget } => position_that_fits(view, recent, rules, budget),
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

/// Returns the cut to which an earlier run has committed: all messages up to the message or reply at `to`. Returns
/// `None` if the Session has none up to there that is not counted yet.
pub fn cut_at<'v, 'a>(view: &'v SessionView<'a>, to: &SortKey) -> Option<Cut<'v, 'a>> {
    let at = view.earlier.partition_point(|message| message.key() <= to);
    (at > 0).then(|| Cut { folded: view.summary, counted: &view.earlier[..at], leaves_more: true })
}

/// Returns true if a record of the view expires before `before`, in epoch seconds.
pub fn expires(view: &SessionView<'_>, before: i64) -> bool {
    view.earlier_records().any(|record| expires_before(record, before))
}

/// Returns the records to prolong so that nothing that `view`, of `records`, shows expires before `before`, in epoch
/// seconds: all records of each message that would, and of the replies that cover it. They are to be prolonged in this
/// order, the last first: a reply that expires before its message would be made again.
pub fn to_keep<'a>(view: &SessionView<'a>, records: &'a [Record], before: i64) -> Vec<&'a Record> {
    let expiring = view.shown_records().filter(|record| expires_before(record, before));
    let mut bases: HashSet<SortKey> = expiring.map(|record| record.key.base()).collect();
    let covers = |record: &&Record| record.covers().iter().any(|covered| bases.contains(covered));
    let covering: Vec<SortKey> = records.iter().filter(covers).map(|record| record.key.base()).collect();
    bases.extend(covering);
    records.iter().rev().filter(|record| bases.contains(&record.key.base())).collect()
}

impl Cut<'_, '_> {
    /// Returns the data on the summary's source, whose records were read at `read_at`, or `None` if it has no
    /// interaction.
    pub fn source(&self, read_at: Timestamp) -> Option<Source> {
        let (first, last) = (self.counted.first()?, self.counted.last()?);
        let folded = self.folded.and_then(|record| record.source());
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

/// Returns the number of user and assistant messages in `messages`; events do not count.
fn count(messages: &[Message<'_>]) -> usize {
    messages.iter().filter(|message| is_said(message)).count()
}

fn is_said(message: &Message<'_>) -> bool {
    message.first.kind() != Kind::Event
}

/// Returns the position after which the last `keep` messages follow.
fn position_of_recent(earlier: &[Message<'_>], keep: usize) -> usize {
    let mut kept = 0;
    let recent = earlier.iter().rev().take_while(|message| {
        kept += usize::from(is_said(message));
        kept <= keep
    });
    earlier.len() - recent.count()
}

/// Returns the first position from `at` after which the rest fits. If it does not fit at `at`, the position leaves room
/// for further messages, since summarising one message at a time gains little. Returns the end if nothing fits.
fn position_that_fits(view: &SessionView<'_>, at: usize, rules: &Rules, budget: u32) -> usize {
    let summary = view.summary.map_or(0, |summary| summary.tokens).max(rules.summary_tokens);
    let waiting = view.tokens_of(&view.unanswered).saturating_add(view.guide_tokens());
    let beside = waiting.saturating_add(view.corrected(summary));
    let mut left = beside.saturating_add(view.tokens_of(&view.earlier[at..]));
    if left <= budget {
        return at;
    }
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a u32 fits in a u32"
    )]
    let aim = (f64::from(budget) * AIM) as u32;
    let dropped = view.earlier[at..].iter().take_while(|message| {
        let fits = left <= aim;
        left = left.saturating_sub(view.corrected(message.shown_tokens()));
        !fits
    });
    at + dropped.count()
}

/// Returns the minimum number of messages that a cut must count, or `None` if there are not that many.
///
/// A cut must count a message after the end of all summaries, even if late messages lie before that: each place can
/// have one summary, and a summary of only late messages would end before the summary that it folds. It must also count
/// an interaction, since a summary counts as interactions.
fn least(view: &SessionView<'_>) -> Option<usize> {
    let is_before = |message: &Message<'_>| Some(message.key()) <= view.summed_up_to.as_ref();
    let behind = view.earlier.partition_point(is_before);
    let said = match view.summary {
        Some(_) => 0,
        None => view.earlier.iter().position(|message| message.first.is_interaction())?,
    };
    Some(behind.max(said) + 1)
}

/// Returns the tokens that a message takes in a request for a summary beside its content; `has_several` if several people
/// are speaking.
pub fn tokens_beside(role: Role, has_several: bool) -> u32 {
    match role {
        Role::User if has_several => SENDER_TOKENS + ID_TOKENS,
        Role::User => SENDER_TOKENS,
        Role::Assistant | Role::System => REPLY_TOKENS,
    }
}

/// Returns the number of the first `wanted` messages that fit in one request for a summary; at least one.
fn position_of_one_request(view: &SessionView<'_>, wanted: usize, rules: &Rules) -> usize {
    let mut sum = view.summary.map_or(0, |folded| view.corrected(folded.tokens));
    let beside = |message: &Message<'_>| tokens_beside(message.first.role(), view.has_several);
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
