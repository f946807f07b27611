//! The part of a history that the model sees: [`context`], a pure function of the records and the time.
//!
//! The rules, in the order in which they are applied:
//!
//! 1. A message is shown in its newest form; if that form is empty (recalled), the message is not shown. A command is
//!    not a message, but becomes one when it is edited. Only messages of one *line* are shown: messages to a business,
//!    for which the bot answers, and messages to the bot itself are never mixed, even if they share a chat.
//! 2. The Session starts at the last boundary, or after the last gap between two interactions that is longer than the
//!    stale time, whichever is later. A Session whose last interaction is older than the stale time is over, unless a
//!    message in the chat is still unanswered. A summary counts as the interactions that it covers; a summary of an
//!    earlier Session ends that Session for good.
//! 3. The newest summary of the Session comes first, in place of all messages that it and the summaries folded into it
//!    count. Messages that they do not count are shown, even if they are older than the summary: they arrived late.
//! 4. Unanswered messages (they ask, and no reply or failure notice covers them) come last, in chat order, even if they
//!    are older than the Session. An album is unanswered as a whole.
//! 5. Notices, boundaries and earlier forms are never shown. Roles are not changed.
//! 6. Messages that were replaced by an edit or a retry are not shown, except for unanswered ones; see `replaced.rs`.
//! 7. Times are told at the first message, and at each of another quarter of an hour than the one before it: see
//!    [`time_marks`].
//! 8. Messages that exceed the token budget are left out, the oldest first and the summary last, but never unanswered
//!    ones. This is the last resort if compaction failed or could not shorten the context enough.
//!
//! # Layout
//!
//! - [`view`]: the messages of one line, sorted into those of the Session and unanswered ones; also used by
//!   [`crate::compaction`]
//! - `message.rs`: messages and their forms
//! - `session.rs`: start of the Session
//! - `replaced.rs`: messages that were replaced by an edit or a retry

pub mod view;

mod message;
mod replaced;
mod session;

use std::borrow::Cow;
use std::collections::HashSet;
use std::time::Duration;

use view::{Message, SessionView};

use crate::markup;
use crate::markup::Sender;
use crate::message::UiMessage;
use crate::record::Record;
use crate::sort_key::{SortKey, Timestamp};
use crate::time_marks::{self, is_marked};
use crate::tokens;

/// Settings of a context.
#[derive(Clone, Debug)]
pub struct Policy {
    /// `SESSION_STALE_AFTER`; `None` means never.
    pub stale_after: Option<Duration>,
    /// `SESSION_MODE=fresh`: every message starts its own Session.
    pub fresh: bool,
    /// Maximum tokens of the messages.
    pub token_budget: u32,
    /// Maximum number of images, of which the newest are shown. Each takes
    /// [`IMAGE_TOKENS`](crate::media::IMAGE_TOKENS).
    pub images: usize,
}

/// The messages for the model, and data for the next turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Context {
    /// Messages in the order of the rules: a summary first, unanswered messages last.
    pub messages: Vec<UiMessage>,
    /// Senders of `messages`; empty unless several people wrote them.
    pub senders: Vec<Option<Sender>>,
    /// Times of those of `messages` that have a [mark](time_marks) of it, `None` for each other.
    pub times: Vec<Option<Timestamp>>,
    /// Bases of the unanswered messages, in chat order.
    pub unanswered: Vec<SortKey>,
    /// Bases of the `/compact` commands that are not carried out yet, in chat order.
    pub to_compact: Vec<SortKey>,
    /// Bases of the operators' messages that are not sent yet, in chat order.
    pub to_send: Vec<SortKey>,
    /// Replies whose approval requests are all answered, so that they can continue, in chat order.
    pub to_resume: Vec<SortKey>,
    /// True if a message of another line of the chat is unanswered.
    pub others_wait: bool,
    /// Start of the Session; `None` if it is over or nothing was said.
    pub session_start: Option<SortKey>,
    /// Position from which the next context has to be read; `None` if it is unknown, or is the start. A message that
    /// arrives before it later is announced by a turn that names it.
    pub reaches_back_to: Option<SortKey>,
    /// Token estimate of `messages`, including their senders and the marks of their times.
    pub tokens: u32,
    /// Number of messages of the Session that the token budget left out.
    pub left_out: usize,
    /// The [budget](Policy::token_budget) that it was made for.
    pub token_budget: u32,
}

/// Returns the context of `records`, which must be in order of [`Record::key`], at `now`.
pub fn context(records: &[Record], now: Timestamp, policy: &Policy) -> Context {
    SessionView::of(records, now, policy).into_context(policy)
}

/// Returns `records` without the unanswered messages that a turn does not cover, since its reply comes before them, and their
/// context. `covers` are the bases of the messages that it covers.
pub fn records_of_turn<'a>(
    records: &'a [Record],
    covers: &[SortKey],
    now: Timestamp,
    policy: &Policy,
) -> (Cow<'a, [Record]>, Context) {
    let mut own = Cow::Borrowed(records);
    loop {
        let seen = context(&own, now, policy);
        let is_later = |base: &&SortKey| !covers.contains(base);
        let later: HashSet<SortKey> = seen.unanswered.iter().filter(is_later).cloned().collect();
        if later.is_empty() {
            return (own, seen);
        }
        // Without the unanswered messages of one line, another line may be in view, with unanswered messages of its own.
        own.to_mut().retain(|record| !later.contains(&record.key.base()));
    }
}

impl SessionView<'_> {
    /// Returns the context within the policy's token budget.
    pub fn into_context(self, policy: &Policy) -> Context {
        let waiting = self.tokens_of(&self.unanswered).saturating_add(self.guide_tokens());
        let summary = self.summary.map_or(0, |summary| self.corrected(summary.tokens));
        let mut tokens = waiting.saturating_add(summary);
        // The first message that is shown has a mark in any case.
        let mut first_mark =
            self.unanswered.iter().find_map(|message| self.missing_mark(message)).unwrap_or(0);
        let shows_summary =
            self.summary.is_some() && tokens.saturating_add(first_mark) <= policy.token_budget;
        if !shows_summary {
            tokens = waiting;
        }
        let kept = self.earlier.iter().rev().take_while(|message| {
            let sum = tokens.saturating_add(self.corrected(message.shown_tokens()));
            let mark = self.missing_mark(message).unwrap_or(first_mark);
            let fits = sum.saturating_add(mark) <= policy.token_budget;
            if fits {
                (tokens, first_mark) = (sum, mark);
            }
            fits
        });
        let left_out = self.earlier.len() - kept.count();
        let hidden = usize::from(self.summary.is_some() && !shows_summary);
        let shown = || self.earlier[left_out..].iter().chain(&self.unanswered);
        tokens = tokens.saturating_add(first_mark);
        let summary = self.summary.filter(|_| shows_summary).map(Record::listed);
        let mut before = None;
        let times = shown().map(|message| {
            let time = message.time()?;
            is_marked(before.replace(time), time).then_some(time)
        });
        let times = summary.iter().map(|_| None).chain(times).collect();
        let senders = summary.iter().map(|_| None).chain(shown().map(Message::sender));
        Context {
            senders: if self.has_several { senders.collect() } else { Vec::new() },
            times,
            messages: summary.into_iter().chain(shown().map(Message::shown)).collect(),
            unanswered: self.unanswered.iter().map(|message| message.base.clone()).collect(),
            to_compact: self.to_compact,
            to_send: self.to_send,
            to_resume: self.to_resume,
            others_wait: self.others_wait,
            session_start: self.session_start,
            reaches_back_to: self.reaches_back_to,
            tokens,
            left_out: left_out + hidden,
            token_budget: policy.token_budget,
        }
    }

    /// Returns the tokens of the mark that `message` has only if it is the first; `None` for a message that never has one.
    fn missing_mark(&self, message: &Message<'_>) -> Option<u32> {
        message.time()?;
        Some(if message.time_tokens > 0 { 0 } else { self.corrected(time_marks::mark_tokens()) })
    }
}

impl Context {
    /// Shortens unanswered messages if they alone exceed `budget` tokens. The middle of the longest texts is left out;
    /// the history keeps the whole. Returns the ids of the shortened messages.
    pub fn shorten_unanswered(&mut self, budget: u32) -> Vec<String> {
        let first = self.messages.len() - self.unanswered.len();
        let senders = self.senders.iter().skip(first).flatten().map(Sender::tokens);
        let guide = if self.senders.is_empty() { 0 } else { tokens::of_text(markup::GUIDE) };
        let budget = budget.saturating_sub(senders.fold(guide, u32::saturating_add));
        let marks = self.times[first..].iter().flatten().map(|_| time_marks::mark_tokens());
        let budget = budget.saturating_sub(marks.fold(0, u32::saturating_add));
        let mut sizes: Vec<(u32, usize)> =
            (first..self.messages.len()).map(|at| (tokens::of_message(&self.messages[at]), at)).collect();
        let total = sizes.iter().fold(0_u32, |sum, (tokens, _)| sum.saturating_add(*tokens));
        if total <= budget {
            return Vec::new();
        }
        // Short messages leave the rest of their share to the longer ones.
        sizes.sort_unstable();
        let (mut left, mut shortened) = (budget, Vec::new());
        for (place, (tokens, at)) in sizes.iter().enumerate() {
            let share = left / u32::try_from(sizes.len() - place).unwrap_or(u32::MAX);
            let message = &mut self.messages[*at];
            if *tokens > share {
                message.shorten(f64::from(share) / f64::from(*tokens));
                shortened.push(message.id.clone());
            }
            left = left.saturating_sub((*tokens).min(share));
        }
        self.tokens = self.tokens.saturating_sub(total).saturating_add(budget);
        shortened
    }
}

#[cfg(test)]
mod tests;
