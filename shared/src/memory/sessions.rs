//! Sessions and memory: what of a Session that has ended is worth keeping, and what a Session that goes on is told.
//!
//! A capture looks at the last ended Sessions, at most three, once and in order: `capturedTo` in the chat's head says how far. It is done by the
//! run that meets the next message or `/new`, and by upkeep where nobody writes any more; where it fails nothing has
//! changed, and either tries again for as long as the records are there.

use std::cmp::Ordering;

use crate::chat_key::ChatKey;
use crate::config::{MemoryConfig, ViewConfig};
use crate::context::Policy;
use crate::context::view::View;
use crate::history::{History, HistoryError};
use crate::markup::Sender;
use crate::memory::owner::owner_of_session;
use crate::memory::{Captured, Entry, Finding, Kept, Memory, MemoryError, Owner, Source, capture};
use crate::message::UiMessage;
use crate::model::{Finish, Model, ModelError, Prompt};
use crate::record::{Kind, Record};
use crate::sort_key::{SortKey, Timestamp};

/// How many ended Sessions one run looks at: more than one has ended only where captures failed.
const MAX_SESSIONS: usize = 3;
/// The most tokens that memory takes in the system part, and its share of what messages may take.
const MAX_RECALLED_TOKENS: u32 = 1_000;
const RECALLED_SHARE: u32 = 8;

/// Captures what is worth keeping.
#[derive(Clone, Debug)]
pub struct Remembering {
    /// The histories.
    pub history: History,
    /// What finds what is worth keeping.
    pub model: Model,
    /// What decides where Sessions end.
    pub view: ViewConfig,
    /// `MEMORY`, `CAPTURE_GROUP_MEMORY`
    pub memory: MemoryConfig,
}

/// What was captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looked {
    /// The last interaction of the last Session that was looked at.
    pub captured_to: SortKey,
    /// How many entries were stored.
    pub entries: usize,
}

/// A Session is not captured; nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum RememberError {
    /// The entries could not be read or written.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The history could not be read.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// The model gave no answer.
    #[error("nothing was captured: {0}")]
    Model(#[from] ModelError),
}

/// A Session that has ended.
struct Ended<'a> {
    /// Its records, and those before it that were read.
    records: &'a [Record],
    start: SortKey,
    last_interaction: &'a Record,
}

impl Remembering {
    /// Captures the Sessions of `chat` that have ended by `now` and of which nothing is captured up to `captured_to`.
    /// `records` are in order, and reach back to where the last run's Session starts. `None` where there are none. Under
    /// `MEMORY=off` they only count as looked at: what is said then is not captured later either.
    pub async fn capture_ended(
        &self,
        chat: &ChatKey,
        records: &[Record],
        captured_to: Option<&SortKey>,
        now: Timestamp,
    ) -> Result<Option<Looked>, RememberError> {
        // What is said to a business is nobody's memory here.
        let own: Vec<Record> = records.iter().filter(|record| record.line().is_none()).cloned().collect();
        let policy = Policy { fresh: false, ..self.view.policy(0) };
        let mut looked: Option<Looked> = None;
        for session in ended(&own, captured_to, now, &policy) {
            let entries = if self.memory.is_on { self.capture(chat, &session, &policy).await? } else { 0 };
            let before = looked.map_or(0, |looked| looked.entries);
            looked =
                Some(Looked { captured_to: session.last_interaction.key.base(), entries: before + entries });
        }
        Ok(looked)
    }

    async fn capture(
        &self,
        chat: &ChatKey,
        session: &Ended<'_>,
        policy: &Policy,
    ) -> Result<usize, RememberError> {
        let view = View::of(session.records, session.last_interaction.ts, policy);
        let Some(owner) = owner_of(chat, &view, self.memory.groups) else { return Ok(0) };
        let owner = known_as(&self.history, owner).await?;
        let last = session.last_interaction;
        let first =
            view.earlier.iter().chain(&view.unanswered).map(|message| message.first).min_by_key(|r| &r.key);
        let summed_up = view.summary.and_then(|summary| summary.source.as_ref());
        let from_id = match (summed_up, first) {
            (Some(source), _) => source.from_id.clone(),
            (None, Some(first)) => first.message_id.clone(),
            (None, None) => return Ok(0),
        };
        let source = Source {
            session: Source::session_id(chat, session.start.ts()),
            chat: chat.clone(),
            from_id,
            // A summary has an id that nobody ever saw.
            to_id: last.source.as_ref().map_or(&last.message_id, |source| &source.to_id).clone(),
            from: session.start.clone(),
            to: last.key.base(),
        };
        let memory = Memory::beside(&self.history);
        if memory.has_captured(&owner, &source).await? {
            return Ok(0);
        }
        let summary = view.summary.map(|summary| (summary.listed(), None));
        let said = view.earlier.iter().chain(&view.unanswered);
        let said = said.map(|message| (message.shown(), message.sender()));
        let (messages, senders): (Vec<UiMessage>, Vec<_>) = summary.into_iter().chain(said).unzip();
        let known: Vec<Entry> =
            memory.list(&owner).await?.into_iter().map(|Kept { entry, .. }| entry).collect();
        let findings = self.find(&messages, &senders, &known, policy).await?;
        Ok(match memory.capture(&owner, &source, &findings).await? {
            Captured::Stored(entries) => entries,
            Captured::Before => 0,
        })
    }

    async fn find(
        &self,
        messages: &[UiMessage],
        senders: &[Option<Sender>],
        known: &[Entry],
        policy: &Policy,
    ) -> Result<Vec<Finding>, RememberError> {
        if self.model.is_echo() {
            return Ok(capture::extract(messages, known));
        }
        let prompt = capture::prompt(messages, senders, known, Prompt::source_budget(policy.token_budget));
        let answer = self.model.complete(&prompt).await?;
        Ok(match answer.finish {
            Finish::ContentFilter => Vec::new(),
            _ => capture::findings(&answer.text, known),
        })
    }
}

/// What memory is to a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recalled {
    /// Whose memory it is: the one person's who speaks, or the group's.
    pub owner: Owner,
    /// What is known, as a section for the system part; `None` where that is nothing.
    pub section: Option<String>,
}

/// What memory tells the Session of `records` now: what is known of the one person who speaks in it, or of the group, that
/// fits what waits best. `None` where nobody's memory may be seen or kept, and under `MEMORY=off`. One query; for a group, one read more for each
/// name that its chat has had.
pub async fn recalled(
    history: &History,
    chat: &ChatKey,
    records: &[Record],
    config: &ViewConfig,
    memory: MemoryConfig,
) -> Result<Option<Recalled>, RememberError> {
    if !memory.is_on {
        return Ok(None);
    }
    let policy = config.policy(0);
    let view = View::of(records, history.clock().now(), &policy);
    let Some(owner) = owner_of(chat, &view, memory.groups) else { return Ok(None) };
    let owner = known_as(history, owner).await?;
    let asked = if view.unanswered.is_empty() { &view.earlier } else { &view.unanswered };
    let asked = asked.iter().rev().filter(|message| message.first.is_interaction());
    let asked: Vec<String> = asked.take(3).map(|message| message.newest().message.plain_text()).collect();
    let budget = (policy.token_budget / RECALLED_SHARE).min(MAX_RECALLED_TOKENS);
    let section = Memory::beside(history).recall_section(&owner, &asked.join("\n"), budget).await?;
    Ok(Some(Recalled { owner, section }))
}

/// Whose memory the Session of `view` is about. What a summary speaks for counts like what was said.
fn owner_of(chat: &ChatKey, view: &View<'_>, groups: bool) -> Option<Owner> {
    let said: Vec<Record> =
        view.earlier.iter().chain(&view.unanswered).map(|message| message.first.clone()).collect();
    let owner = owner_of_session(chat, &said, groups);
    let Some(summary) = view.summary else { return owner };
    if summary.line().is_some() {
        return None;
    }
    match (owner, &summary.person) {
        (Some(Owner::User(person)), Some(summed_up)) if person == *summed_up => Some(Owner::User(person)),
        (None, Some(person)) if !said.iter().any(Record::is_interaction) => Some(Owner::User(person.clone())),
        _ => groups.then(|| Owner::Chat(chat.clone())),
    }
}

/// A group is remembered under the first name that its chat had.
async fn known_as(history: &History, owner: Owner) -> Result<Owner, HistoryError> {
    Ok(match owner {
        Owner::Chat(chat) => Owner::Chat(history.first_name(&chat).await?),
        owner @ Owner::User(_) => owner,
    })
}

/// The Sessions of `records` that have ended by `now` and not been looked at, the oldest first.
fn ended<'a>(
    records: &'a [Record],
    captured_to: Option<&SortKey>,
    now: Timestamp,
    policy: &Policy,
) -> Vec<Ended<'a>> {
    let (mut ended, mut rest, mut at) = (Vec::new(), records, now);
    while ended.len() < MAX_SESSIONS
        && let Some(session) = last_ended(rest, at, policy)
        && captured_to.is_none_or(|captured_to| *captured_to < session.last_interaction.key.base())
    {
        // With the boundary that it is behind, which its first message may share its base with.
        let is_before = |record: &Record| match record.key.base().cmp(&session.start) {
            Ordering::Less => true,
            Ordering::Equal => record.kind == Kind::Boundary,
            Ordering::Greater => false,
        };
        rest = &rest[..rest.partition_point(is_before)];
        at = session.last_interaction.ts;
        ended.push(session);
    }
    ended.reverse();
    ended
}

/// The last Session of `records` that has ended by `now`.
fn last_ended<'a>(records: &'a [Record], now: Timestamp, policy: &Policy) -> Option<Ended<'a>> {
    let goes_on = View::of(records, now, policy).session_start;
    let end = goes_on.map_or(records.len(), |start| records.partition_point(|r| r.key.base() < start));
    let speaks = |record: &Record| record.is_interaction() || record.source.is_some();
    let last = records[..end].iter().rposition(speaks)?;
    // Up to the boundary that ended it, if one did.
    let boundary = records[last..end].iter().position(|record| record.kind == Kind::Boundary);
    let records = &records[..boundary.map_or(end, |at| last + at)];
    let last_interaction = records[..=last].iter().rev().find(|record| speaks(record))?;
    let view = View::of(records, last_interaction.ts, policy);
    Some(Ended { start: view.session_start?, records, last_interaction })
}

#[cfg(test)]
mod tests;
