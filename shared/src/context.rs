//! What the model sees of a history now: [`context`], one pure function of the records and the time.
//!
//! The rules, in the order they are applied:
//!
//! 1. A message is its newest form; one whose newest form is empty (recalled) is not there. A command is no message,
//!    but becomes one when it is edited. Only messages of one *line* are in view: what people say to a business, which
//!    the bot answers for, and what they say to the bot itself never meet, though they share a chat.
//! 2. The Session starts at the last boundary, or behind the last gap between two interactions longer than
//!    the stale time, whichever is later. A Session whose last interaction is older than the stale time is over,
//!    unless something in the chat still waits for its answer.
//! 3. What is unanswered (asks, and no reply or failure notice covers it) stands last, in chat order, also where
//!    it lies before the Session; an album is unanswered as a whole.
//! 4. Notices, boundaries and covered revisions are never shown; roles stay as they were said.
//! 5. What exceeds the token budget is left out from the oldest on, never what is unanswered.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::message::{Role, UiMessage};
use crate::record::{Kind, Record};
use crate::sort_key::{SortKey, Timestamp};

/// The settings that a context depends on.
#[derive(Clone, Debug)]
pub struct Policy {
    /// `SESSION_STALE_AFTER`; `None` never.
    pub stale_after: Option<Duration>,
    /// `SESSION_MODE=fresh`: every message starts its own Session.
    pub fresh: bool,
    /// How many tokens the messages may take.
    pub token_budget: u32,
}

/// What the model sees, and what follows from it for the next turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Context {
    /// The messages, as listed; what is unanswered last.
    pub messages: Vec<UiMessage>,
    /// The bases of the unanswered messages, in chat order.
    pub unanswered: Vec<SortKey>,
    /// Whether something of another line of the chat is unanswered too.
    pub others_wait: bool,
    /// Where the Session starts; `None` if it is over or nothing was said.
    pub session_start: Option<SortKey>,
    /// Before which no record can belong to the Session, also one that is yet to arrive late; `None` where that is
    /// not known, or nowhere.
    pub reaches_back_to: Option<SortKey>,
    /// The token estimate of `messages`.
    pub tokens: u32,
    /// How many messages of the Session the token budget left out.
    pub left_out: usize,
}

/// The context of `records`, which must be in order of [`Record::key`], at `now`.
pub fn context(records: &[Record], now: Timestamp, policy: &Policy) -> Context {
    let covered: HashSet<&SortKey> = records.iter().flat_map(|record| &record.covers).collect();
    let newest = newest_forms(records);
    let messages = with_whole_albums(messages(records, &newest, &covered), &covered);
    let line = line_in_view(&messages);
    let (messages, others): (Vec<_>, Vec<_>) = messages.into_iter().partition(|m| m.first.line() == line);

    let session = Session::of(records, &messages, now, policy);
    let start = session.as_ref().map(|session| session.start.clone());
    let (unanswered, answered): (Vec<_>, Vec<_>) = messages.iter().partition(|m| m.unanswered);
    let earlier: Vec<_> = answered
        .into_iter()
        .filter(|m| start.as_ref().is_some_and(|start| m.base >= *start) && !m.newest.is_recalled())
        .filter(|_| !policy.fresh || unanswered.is_empty())
        .collect();

    let mut tokens: u32 = unanswered.iter().fold(0, |sum, m| sum.saturating_add(m.newest.record.tokens));
    let kept = earlier
        .iter()
        .rev()
        .take_while(|m| {
            let sum = tokens.saturating_add(m.newest.record.tokens);
            let fits = sum <= policy.token_budget;
            tokens = if fits { sum } else { tokens };
            fits
        })
        .count();
    let left_out = earlier.len() - kept;
    Context {
        messages: earlier[left_out..].iter().chain(&unanswered).map(|m| m.shown()).collect(),
        unanswered: unanswered.iter().map(|m| m.base.clone()).collect(),
        others_wait: others.iter().any(|m| m.unanswered),
        session_start: start,
        reaches_back_to: session.and_then(|session| session.reaches_back_to),
        tokens,
        left_out,
    }
}

/// A message with all its forms.
struct Message<'a> {
    base: SortKey,
    first: &'a Record,
    newest: Form<'a>,
    unanswered: bool,
}

#[derive(Clone, Copy)]
struct Form<'a> {
    record: &'a Record,
    /// Whether any form so far asked.
    asks: bool,
}

impl Form<'_> {
    fn is_recalled(&self) -> bool {
        let message = &self.record.message;
        message.parts.is_empty() || message.metadata.get("recalled") == Some(&serde_json::Value::Bool(true))
    }
}

impl Message<'_> {
    /// The newest form under the message's own id.
    fn shown(&self) -> UiMessage {
        let mut message = self.newest.record.listed();
        message.id = self.first.message_id.to_string();
        message
    }
}

/// The messages of `records`, in order.
fn messages<'a>(
    records: &'a [Record],
    newest: &HashMap<SortKey, Form<'a>>,
    covered: &HashSet<&SortKey>,
) -> Vec<Message<'a>> {
    let is_message = |record: &&Record| matches!(record.kind, Kind::Normal | Kind::Event | Kind::Summary);
    let said: HashSet<SortKey> =
        records.iter().filter(is_message).filter(|r| !r.key.is_reply()).map(|r| r.key.base()).collect();
    let mut edited_commands: HashSet<SortKey> = HashSet::new();
    records
        .iter()
        .filter(|record| match record.kind {
            Kind::Normal | Kind::Event | Kind::Summary => true,
            // The first edit of a command, where the command itself is no message.
            Kind::Revision => !said.contains(&record.key.base()) && edited_commands.insert(record.key.base()),
            Kind::Boundary | Kind::Notice => false,
        })
        .filter(|record| matches!(record.role(), Role::User | Role::Assistant))
        .map(|first| {
            let base = first.key.base();
            let own = Form { record: first, asks: false };
            let newest = if first.key.is_reply() { own } else { newest.get(&base).copied().unwrap_or(own) };
            let unanswered = newest.asks && !newest.is_recalled() && !covered.contains(&base);
            Message { base, first, newest, unanswered }
        })
        .collect()
}

/// The line of the first message that waits; where none does, of the last one that a person said.
fn line_in_view<'a>(messages: &[Message<'a>]) -> Option<&'a str> {
    let waiting = messages.iter().find(|m| m.unanswered);
    let last = || messages.iter().rev().find(|m| m.first.is_interaction());
    waiting.or_else(last).and_then(|m| m.first.line())
}

/// The newest form of each message, by the platform's word on their order, else in order of arrival.
fn newest_forms(records: &[Record]) -> HashMap<SortKey, Form<'_>> {
    let mut forms: HashMap<SortKey, Form<'_>> = HashMap::new();
    for record in records {
        let is_form = matches!(record.kind, Kind::Normal | Kind::Event | Kind::Summary | Kind::Revision);
        if !is_form || record.key.is_reply() {
            continue;
        }
        forms
            .entry(record.key.base())
            .and_modify(|form| {
                if (record.form_ts, record.revision) >= (form.record.form_ts, form.record.revision) {
                    form.record = record;
                }
                form.asks |= record.asks;
            })
            .or_insert(Form { record, asks: record.asks });
    }
    forms
}

/// Marks the items of an album unanswered where one of them is: an album is answered as one.
fn with_whole_albums<'a>(mut messages: Vec<Message<'a>>, covered: &HashSet<&SortKey>) -> Vec<Message<'a>> {
    let albums: HashSet<&str> =
        messages.iter().filter(|m| m.unanswered).filter_map(|m| m.first.album.as_deref()).collect();
    for message in &mut messages {
        message.unanswered |= message.first.album.as_deref().is_some_and(|album| albums.contains(album))
            && !covered.contains(&message.base)
            && !message.newest.is_recalled();
    }
    messages
}

/// The stretch of a history that is in view.
struct Session {
    start: SortKey,
    reaches_back_to: Option<SortKey>,
}

impl Session {
    fn of(records: &[Record], messages: &[Message<'_>], now: Timestamp, policy: &Policy) -> Option<Self> {
        let boundary =
            records.iter().rev().find(|record| record.kind == Kind::Boundary).map(|r| r.key.base());
        let since_boundary: Vec<&Message<'_>> = messages
            .iter()
            .filter(|m| boundary.as_ref().is_none_or(|boundary| m.base >= *boundary))
            .collect();
        let interactions: Vec<&Message<'_>> =
            since_boundary.iter().filter(|m| m.first.is_interaction()).copied().collect();

        if policy.fresh {
            let start = interactions.last()?.base.clone();
            return Some(Self { reaches_back_to: Some(start.clone()), start });
        }
        let stale = |earlier: Timestamp, later: Timestamp| {
            policy.stale_after.is_some_and(|limit| later.since(earlier) > limit)
        };
        let waits = messages.iter().any(|m| m.unanswered);
        if let Some(last) = interactions.last()
            && !waits
            && stale(last.first.ts, now)
        {
            return None;
        }
        let behind_gap = interactions
            .windows(2)
            .rev()
            .find(|pair| stale(pair[0].first.ts, pair[1].first.ts))
            .map(|pair| pair[1].base.clone());
        let start = behind_gap.or_else(|| since_boundary.first().map(|m| m.base.clone()))?;
        // What arrives late joins the Session if it is at most the stale time older than its first interaction.
        let first = interactions.iter().find(|m| m.base >= start);
        let by_time = policy.stale_after.map(|limit| match first {
            Some(first) => SortKey::start_of(first.first.ts.minus(limit)),
            None => start.clone(),
        });
        Some(Self { start, reaches_back_to: boundary.max(by_time) })
    }
}

#[cfg(test)]
mod tests;
