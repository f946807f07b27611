//! Captures entries from Sessions that have ended, and recalls entries for a Session.
//!
//! A capture handles the last ended Sessions, at most ten, once and in order; `capturedTo` in the chat's head is its
//! position. The run that handles the next message or `/new` does it, or upkeep if nobody writes any more. If it fails,
//! `uncapturedFrom` is set, and both try again as long as the records exist.

use std::cmp::Ordering;

use annals_core::chat_key::ChatKey;
use annals_core::context::Policy;
use annals_core::context::view::{Message, SessionView};
use annals_core::memory::StoredEntry;
use annals_core::memory::capture::Quoted;
use annals_core::memory::owner::{owner_of_occurrences, owner_of_session};
use annals_core::memory::validity::valid;
use annals_core::memory::{Finding, Owner, Source, capture};
use annals_core::message::Role;
use annals_core::prompt::Prompt;
use annals_core::record::{Kind, Record};
use annals_core::sort_key::{SortKey, Timestamp};
use annals_core::time_marks::LocalTime;
use annals_core::time_zone::TimeZone;
use annals_core::visible::without_middle;
use annals_model::{Answer, Finish, Model, ModelError};
use annals_store::history::turn::Lease;
use annals_store::history::{History, HistoryError};
use annals_store::memory::{Captured, Memory, MemoryError, Overview};
use annals_store::people::People;

use crate::settings::{MemoryConfig, ViewConfig};

/// Maximum number of ended Sessions that one run captures. There is more than one only after a capture failed.
const MAX_SESSIONS: usize = 10;
/// Maximum tokens of memory in the system part, and the fraction of the messages' budget that it may take.
const MAX_RECALLED_TOKENS: u32 = 1_000;
const RECALLED_SHARE: u32 = 8;
/// Maximum number of characters, at each end of a message, of which entries are recalled.
const ASKED_CHARS: usize = 2_000;

/// Captures entries from Sessions that have ended.
#[derive(Clone, Debug)]
pub struct Remembering {
    pub history: History,
    pub model: Model,
    /// Settings that decide where Sessions end.
    pub view: ViewConfig,
    /// `MEMORY`, `MEMORY_APPROVAL`, `CAPTURE_GROUP_MEMORY`, `AGENTS`
    pub memory: MemoryConfig,
}

/// Result of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looked {
    /// Last interaction of the last Session that was captured.
    pub captured_to: SortKey,
    pub entries: usize,
}

/// A failed capture or recall.
#[derive(Debug, thiserror::Error)]
pub enum RememberError {
    #[error(transparent)]
    Memory(#[from] MemoryError),
    #[error(transparent)]
    History(#[from] HistoryError),
    #[error("failed to capture memory: {0}")]
    Model(#[from] ModelError),
}

struct Ended<'a> {
    /// Its records, and those before it that were read.
    records: &'a [Record],
    start: SortKey,
    last_interaction: &'a Record,
}

impl Remembering {
    /// Captures the Sessions of the chat of `lease` that ended by `now` and are not captured yet. `records` are in order, and
    /// start no later than the Session of the last run. Returns `None` if there are no such Sessions. With `MEMORY=off`
    /// they are only marked as captured, so that their content is not captured later either.
    pub async fn capture_ended(
        &self,
        lease: &Lease,
        records: &[Record],
        now: Timestamp,
    ) -> Result<Option<Looked>, RememberError> {
        let Lease { chat, head, .. } = lease;
        let uncaptured_from = head.uncaptured_from.as_ref();
        // Sessions after one that was not captured are looked at once more. What is captured of them stays as it is.
        let captured_to =
            head.captured_to.as_ref().filter(|to| uncaptured_from.is_none_or(|from| *to < from));
        // Messages to a business do not enter memory.
        let mut own: Vec<Record> = records.iter().filter(|record| record.line().is_none()).cloned().collect();
        let policy = Policy { fresh: false, ..self.view.policy(0) };
        let cut = ended(&own, captured_to, now, &policy).into_iter().next().filter(|_| self.view.fresh);
        // A run has only read the last message of the Session, which starts after what is captured.
        if let Some((start, at)) = cut.and_then(|cut| Some((cut.start, cut.records.last()?.sent_at))) {
            let from = captured_to.or(uncaptured_from).cloned();
            let from = from.unwrap_or_else(|| SortKey::start_of(Timestamp::MIN)).min(start);
            let mut whole = self.history.records_as_of(chat, head, &from, at, &policy).await?;
            whole.retain(|record| record.line().is_none() && own.iter().all(|read| read.key != record.key));
            own.extend(whole);
            own.sort_by(|a, b| a.key.cmp(&b.key));
        }
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
        let view = SessionView::of(session.records, session.last_interaction.ts, policy);
        let owner = owner_of_session(chat, records_of(&view), self.memory.groups);
        let Some(owner) = owner else { return Ok(0) };
        let owner = known_as(&self.history, owner, self.memory.links).await?;
        let owner = of_agent(owner, chat, session.records, &self.memory);
        let last = session.last_interaction;
        let first =
            view.earlier.iter().chain(&view.unanswered).map(|message| message.first).min_by_key(|r| &r.key);
        let summed_up = view.summary.and_then(|summary| summary.source());
        let from_id = match (summed_up, first) {
            (Some(source), _) => source.from_id.clone(),
            (None, Some(first)) => first.message_id.clone(),
            (None, None) => return Ok(0),
        };
        let source = Source {
            session: Source::session_id(chat, session.start.ts()),
            chat: chat.clone(),
            from_id,
            // The id of a summary was never shown to anybody.
            to_id: last.source().map_or(&last.message_id, |source| &source.to_id).clone(),
            from: session.start.clone(),
            to: last.key.base(),
        };
        let memory = Memory::beside(&self.history);
        if memory.has_captured(&owner, &source).await? {
            return Ok(0);
        }
        let summary = view.summary.map(|summary| Quoted {
            message: summary.listed(),
            sender: None,
            time: None,
            origin: None,
        });
        let said = view.earlier.iter().chain(&view.unanswered).map(|message| Quoted {
            message: message.shown(),
            sender: message.sender(),
            time: message.time(),
            origin: Some((message.first.key.clone(), message.first.message_id.clone())),
        });
        let messages: Vec<Quoted> = summary.into_iter().chain(said).collect();
        let Overview { kept, forgotten, time_zone, .. } = memory.overview(&owner).await?;
        let known = valid(kept, self.history.clock().now());
        let time_zone = time_zone.or(of_client(&owner, Some(last))).unwrap_or(self.view.time_zone);
        let mut findings = self.find(&messages, &known, policy, time_zone).await?;
        let forgotten = forgotten.iter().filter(|saving| saving.chat == chat.session_id().as_str());
        for (first, last) in forgotten.map(|saving| answered_from(&saving.from, &messages)) {
            let is_shown =
                messages.iter().filter_map(|said| said.origin.as_ref()).any(|(key, _)| key.base() == first);
            // Without a passage it is of the summary, which may hold what is not shown.
            findings.retain(|finding| match &finding.passage {
                Some(passage) => passage.to < first || last < passage.from,
                None => is_shown,
            });
        }
        for finding in &mut findings {
            finding.is_pending = self.memory.needs_approval;
        }
        Ok(match memory.capture(&owner, &source, &findings).await? {
            Captured::Stored(entries) => entries,
            Captured::Before => 0,
        })
    }

    async fn find(
        &self,
        messages: &[Quoted],
        known: &[StoredEntry],
        policy: &Policy,
        time_zone: TimeZone,
    ) -> Result<Vec<Finding>, RememberError> {
        if self.model.is_echo() {
            return Ok(capture::extract(messages, known));
        }
        let budget = Prompt::source_budget(policy.token_budget);
        let prompt = capture::prompt(messages, known, budget, &LocalTime::of(time_zone));
        match self.model.complete(&prompt).await {
            // It would be refused each time.
            Err(ModelError::Filtered) => Ok(Vec::new()),
            answer => {
                let Answer { text, finish, .. } = answer?;
                let is_cut = finish == Finish::Length;
                let whole = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
                Ok(capture::findings(if is_cut { whole } else { &text }, messages, known))
            }
        }
    }
}

/// Returns the first and the last of the messages that the agent answered together, of which `from` is the first.
fn answered_from(from: &SortKey, messages: &[Quoted]) -> (SortKey, SortKey) {
    let keys = messages
        .iter()
        .skip_while(|said| said.origin.as_ref().is_none_or(|(key, _)| key.base() != *from))
        .take_while(|said| said.message.role == Role::User)
        .filter_map(|said| said.origin.as_ref());
    (from.clone(), keys.last().map_or_else(|| from.clone(), |(key, _)| key.base()))
}

/// Memory and time zone for a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recalled {
    /// The memory; `None` if the Session has no owner, and with `MEMORY=off`.
    pub memory: Option<RecalledMemory>,
    /// The time zone in which the model is told times: the one that the only person who is speaking has chosen, else the one
    /// that the client names with the newest message, else `TIME_ZONE`.
    pub time_zone: TimeZone,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecalledMemory {
    /// Owner of the memory: the only person who is speaking, or the group.
    pub owner: Owner,
    /// Entries as a section for the system part; `None` if there are none.
    pub section: Option<String>,
}

/// Recalls today's entries for the Session that `records` were `at` a time: those of the only person who is speaking, or of
/// the group, that fit the unanswered messages best; and the person's time zone. Makes one query, or with `MEMORY=off` one
/// read; for a group, one more read per name that its chat has had; under `DM_SCOPE=user`, one for a conversation over
/// HTTP.
pub async fn recalled(
    history: &History,
    chat: &ChatKey,
    records: &[Record],
    at: Timestamp,
    config: &ViewConfig,
    memory: &MemoryConfig,
) -> Result<Recalled, RememberError> {
    let none = Recalled { memory: None, time_zone: config.time_zone };
    let policy = config.policy(0);
    let view = SessionView::of(records, at, &policy);
    let groups = memory.groups && memory.is_on;
    // An occurrence of a schedule starts no Session, so after a silence it is alone in the view.
    let of_occurrences = || owner_of_occurrences(chat, records_of(&view), groups);
    let owner = owner_of_session(chat, records_of(&view), groups).or_else(of_occurrences);
    let Some(owner) = owner else { return Ok(none) };
    // The direct chat of a Person has no other owner than that Person.
    let links = memory.links && chat.person().is_none();
    let owner = of_agent(known_as(history, owner, links).await?, chat, records, memory);
    let said = if view.unanswered.is_empty() { &view.earlier } else { &view.unanswered };
    let asked: Vec<&Record> = said
        .iter()
        .rev()
        .filter(|message| message.first.is_interaction() || message.first.due().is_some())
        .take(3)
        .map(Message::newest)
        .collect();
    let of_client = of_client(&owner, asked.iter().copied().find(|record| record.is_interaction()));
    let time_zone = |own: Option<TimeZone>| own.or(of_client).unwrap_or(config.time_zone);
    let store = Memory::beside(history);
    if !memory.is_on {
        return Ok(Recalled { memory: None, time_zone: time_zone(store.time_zone(&owner).await?) });
    }
    let asked: Vec<String> = asked.iter().map(|record| ends_of(&record.message.plain_text())).collect();
    let budget = (policy.token_budget / RECALLED_SHARE).min(MAX_RECALLED_TOKENS);
    let (section, own) = store.recall_section(&owner, &asked.join("\n"), budget).await?;
    Ok(Recalled { memory: Some(RecalledMemory { owner, section }), time_zone: time_zone(own) })
}

/// Returns the beginning and the end of `text`, in which a question is; all of a short one.
fn ends_of(text: &str) -> String {
    without_middle(text, ASKED_CHARS, ASKED_CHARS, |_| "\n".into())
}

/// Returns the time zone that the client names with `newest`, the newest message of a Session of `owner`. That of a person
/// alone counts.
fn of_client(owner: &Owner, newest: Option<&Record>) -> Option<TimeZone> {
    newest.filter(|_| owner.person().is_some())?.message.metadata.time_zone()
}

/// Returns the records that tell whose the Session of `view` is: its summary, and the first form of each message.
fn records_of<'a>(view: &SessionView<'a>) -> impl Iterator<Item = &'a Record> + Clone {
    let messages = view.earlier.iter().chain(&view.unanswered);
    view.summary.into_iter().chain(messages.map(|message| message.first))
}

/// Replaces a group's chat by the first name that it had, under which its memory is kept, and with `links` an identity by
/// the Person that it is linked to.
pub(crate) async fn known_as(history: &History, owner: Owner, links: bool) -> Result<Owner, HistoryError> {
    Ok(match owner {
        Owner::Chat(chat) => Owner::Chat(history.first_name(&chat).await?),
        Owner::User(identity) if links => Owner::User(People::beside(history).person_of(&identity).await?),
        owner @ (Owner::User(_) | Owner::UserOf { .. }) => owner,
    })
}

/// Returns the memory that the agent of `chat` has of `owner`.
fn of_agent(owner: Owner, chat: &ChatKey, records: &[Record], memory: &MemoryConfig) -> Owner {
    match owner {
        Owner::User(person) => {
            let agent = memory.agents.of_records(chat, records);
            Owner::of_person(memory.agents.profiled(agent), person)
        }
        owner @ (Owner::UserOf { .. } | Owner::Chat(_)) => owner,
    }
}

/// Returns the Sessions of `records` that ended by `now` and are not captured yet, the oldest first.
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
        // Includes the boundary before the Session, whose base may equal that of the first message.
        let is_before = |record: &Record| match record.key.base().cmp(&session.start) {
            Ordering::Less => true,
            Ordering::Equal => record.kind() == Kind::Boundary,
            Ordering::Greater => false,
        };
        rest = &rest[..rest.partition_point(is_before)];
        at = session.last_interaction.ts;
        ended.push(session);
    }
    ended.reverse();
    ended
}

/// Returns the last Session of `records` that ended by `now`.
fn last_ended<'a>(records: &'a [Record], now: Timestamp, policy: &Policy) -> Option<Ended<'a>> {
    let goes_on = SessionView::of(records, now, policy).session_start;
    let end = goes_on.map_or(records.len(), |start| records.partition_point(|r| r.key.base() < start));
    let speaks = |record: &Record| record.is_interaction() || record.source().is_some();
    let last = records[..end].iter().rposition(speaks)?;
    // Ends at the boundary that ended the Session, if there is one.
    let boundary = records[last..end].iter().position(|record| record.kind() == Kind::Boundary);
    let records = &records[..boundary.map_or(end, |at| last + at)];
    let last_interaction = records[..=last].iter().rev().find(|record| speaks(record))?;
    let view = SessionView::of(records, last_interaction.ts, policy);
    Some(Ended { start: view.session_start?, records, last_interaction })
}

#[cfg(test)]
mod tests;
