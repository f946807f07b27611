//! What the model sees of a history now: [`context`], one pure function of the records and the time.
//!
//! The rules, in the order they are applied:
//!
//! 1. A message is its newest form; one whose newest form is empty (recalled) is not there. A command is no message,
//!    but becomes one when it is edited. Only messages of one *line* are in view: what people say to a business, which
//!    the bot answers for, and what they say to the bot itself never meet, though they share a chat.
//! 2. The Session starts at the last boundary, or behind the last gap between two interactions longer than
//!    the stale time, whichever is later. A Session whose last interaction is older than the stale time is over,
//!    unless something in the chat still waits for its answer. A summary speaks for the interactions it counts; one
//!    of an earlier Session ends that for good.
//! 3. The newest summary of the Session stands first, for all that it and those that it folds count. What they do not
//!    count is shown, also where its time lies before the summary's: it came late.
//! 4. What is unanswered (asks, and no reply or failure notice covers it) stands last, in chat order, also where
//!    it lies before the Session; an album is unanswered as a whole.
//! 5. Notices, boundaries and earlier forms are never shown; roles stay as they were said.
//! 6. What a message that was said again replaces is not shown, but for what waits; see `replaced.rs`.
//! 7. What exceeds the token budget is left out from the oldest on, never what is unanswered, and the summary last:
//!    the last resort, where compaction has failed or could not make room.
//!
//! # Layout
//!
//! - [`view`]: which messages there are, and which of them the Session has: what [`crate::compaction`] works on too
//! - `session.rs`: where the Session starts
//! - `replaced.rs`: what an edit or another try leaves behind

pub mod view;

mod replaced;
mod session;

use std::time::Duration;

use crate::markup::{self, Sender};
use crate::message::UiMessage;
use crate::record::Record;
use crate::sort_key::{SortKey, Timestamp};
use crate::tokens;

use view::{Message, View};

/// The settings that a context depends on.
#[derive(Clone, Debug)]
pub struct Policy {
    /// `SESSION_STALE_AFTER`; `None` never.
    pub stale_after: Option<Duration>,
    /// `SESSION_MODE=fresh`: every message starts its own Session.
    pub fresh: bool,
    /// How many tokens the messages may take.
    pub token_budget: u32,
    /// How many images are shown at most, the newest; each takes [`IMAGE_TOKENS`](crate::media::IMAGE_TOKENS).
    pub images: usize,
}

/// What the model sees, and what follows from it for the next turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Context {
    /// The messages, as listed: a summary first, what is unanswered last.
    pub messages: Vec<UiMessage>,
    /// Who each of `messages` is from, where several people speak; else empty.
    pub senders: Vec<Option<Sender>>,
    /// The bases of the unanswered messages, in chat order.
    pub unanswered: Vec<SortKey>,
    /// The bases of the `/compact` commands that wait to be carried out, in chat order.
    pub to_compact: Vec<SortKey>,
    /// The replies that go on, in chat order: somebody has answered all that they ask.
    pub to_resume: Vec<SortKey>,
    /// Whether something of another line of the chat is unanswered too.
    pub others_wait: bool,
    /// Where the Session starts; `None` if it is over or nothing was said.
    pub session_start: Option<SortKey>,
    /// From where on to read for the next context; `None` where that is not known, or everywhere. What arrives below
    /// it later is announced by a turn that names it.
    pub reaches_back_to: Option<SortKey>,
    /// The token estimate of `messages`, with what tells the model who they are from.
    pub tokens: u32,
    /// How many messages of the Session the token budget left out.
    pub left_out: usize,
}

/// The context of `records`, which must be in order of [`Record::key`], at `now`.
pub fn context(records: &[Record], now: Timestamp, policy: &Policy) -> Context {
    View::of(records, now, policy).into_context(policy)
}

impl View<'_> {
    /// What the model sees of it under the policy's token budget.
    pub fn into_context(self, policy: &Policy) -> Context {
        let waiting = self.tokens_of(&self.unanswered).saturating_add(self.guide_tokens());
        let summary = self.summary.map_or(0, |summary| self.corrected(summary.tokens));
        let mut tokens = waiting.saturating_add(summary);
        let shows_summary = self.summary.is_some() && tokens <= policy.token_budget;
        if !shows_summary {
            tokens = waiting;
        }
        let kept = self.earlier.iter().rev().take_while(|message| {
            let sum = tokens.saturating_add(self.corrected(message.shown_tokens()));
            let fits = sum <= policy.token_budget;
            tokens = if fits { sum } else { tokens };
            fits
        });
        let left_out = self.earlier.len() - kept.count();
        let hidden = usize::from(self.summary.is_some() && !shows_summary);
        let shown = || self.earlier[left_out..].iter().chain(&self.unanswered);
        let summary = self.summary.filter(|_| shows_summary).map(Record::listed);
        let senders = summary.iter().map(|_| None).chain(shown().map(Message::sender));
        Context {
            senders: if self.has_several { senders.collect() } else { Vec::new() },
            messages: summary.into_iter().chain(shown().map(Message::shown)).collect(),
            unanswered: self.unanswered.iter().map(|message| message.base.clone()).collect(),
            to_compact: self.to_compact,
            to_resume: self.to_resume,
            others_wait: self.others_wait,
            session_start: self.session_start,
            reaches_back_to: self.reaches_back_to,
            tokens,
            left_out: left_out + hidden,
        }
    }
}

impl Context {
    /// Shortens what is unanswered to `budget` tokens where it alone exceeds them, the middle of its longest texts left
    /// out: the model sees the beginning and the end, the history keeps the whole. Answers with the ids of what it
    /// shortened.
    pub fn shorten_unanswered(&mut self, budget: u32) -> Vec<String> {
        let first = self.messages.len() - self.unanswered.len();
        let senders = self.senders.iter().skip(first).flatten().map(Sender::tokens);
        let guide = if self.senders.is_empty() { 0 } else { tokens::of_text(markup::GUIDE) };
        let budget = budget.saturating_sub(senders.fold(guide, u32::saturating_add));
        let mut sizes: Vec<(u32, usize)> =
            (first..self.messages.len()).map(|at| (tokens::of_message(&self.messages[at]), at)).collect();
        let total = sizes.iter().fold(0_u32, |sum, (tokens, _)| sum.saturating_add(*tokens));
        if total <= budget {
            return Vec::new();
        }
        // The short ones leave their share to the long ones.
        sizes.sort_unstable();
        let (mut room, mut shortened) = (budget, Vec::new());
        for (place, (tokens, at)) in sizes.iter().enumerate() {
            let share = room / u32::try_from(sizes.len() - place).unwrap_or(u32::MAX);
            let message = &mut self.messages[*at];
            if *tokens > share {
                message.shorten(f64::from(share) / f64::from(*tokens));
                shortened.push(message.id.clone());
            }
            room = room.saturating_sub((*tokens).min(share));
        }
        self.tokens = self.tokens.saturating_sub(total).saturating_add(budget);
        shortened
    }
}

#[cfg(test)]
mod tests;
