//! Upkeep of a chat that is due, outside of turns: archives raw records before they may leave the table, keeps the
//! records of a live Session in the table, and captures ended Sessions to memory.
//!
//! A run takes a chat over from a visit at any time. The visit then ends at its next write to the head; its results so
//! far stand.

use std::time::Duration;

use annals_core::access::Access;
use annals_core::chat_key::ChatKey;
use annals_core::compaction::cut::Why;
use annals_core::context::view::{Message, SessionView};
use annals_core::record::{Kind, Record};
use annals_core::sort_key::{SortKey, Timestamp};
use annals_io::metrics::Metrics;
use annals_model::Model;
use annals_store::history::turn::{Claim, Head, Lease};
use annals_store::history::{Archived, ContextRead, History, HistoryError, Remaining, ToArchive};

use crate::compaction::{Compaction, CompactionError};
use crate::remembering::{RememberError, Remembering};
use crate::settings::{AgentConfig, MemoryConfig, ViewConfig};

/// Maximum time for which a visit holds a chat. Only another visit would wait so long for a dead one.
const LEASE: Duration = Duration::from_mins(5);
/// Maximum number of segments that one visit stores: some 100 MB. The next visit stores the rest.
const MAX_SEGMENTS: usize = 25;
/// Maximum number of summaries that one visit makes for one line.
const MAX_SUMMARIES: u32 = 4;
/// Age from which a record can be archived, at the latest: its delivery has ended by then.
const SETTLED_AFTER: Duration = Duration::from_hours(1);

/// Visits chats.
#[derive(Clone, Debug)]
pub struct Upkeep {
    pub history: History,
    /// The model for summaries and captures.
    pub model: Model,
    pub view: ViewConfig,
    /// `MEMORY`, `CAPTURE_GROUP_MEMORY`
    pub memory: MemoryConfig,
    /// `ALLOW_FROM`, `ALLOW_CHATS`
    pub access: Access,
    pub metrics: Metrics,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Visited {
    pub archived: u32,
    pub segments: u32,
    pub summaries: u32,
    pub captured: u32,
    /// Time of the next visit for the records that are stored already; `None` if only new records need one.
    pub next: Option<Timestamp>,
    /// Time of the last message among the records that the visit has read, by the message's own time.
    pub spoken_at: Option<Timestamp>,
    /// True if nothing is left to do before `next`. Otherwise the compactor's next run continues.
    pub finished: bool,
}

/// A visit that failed. The history is as complete as before, and the chat is visited again.
#[derive(Debug, thiserror::Error)]
pub enum UpkeepError {
    #[error("another process has this chat until {until} (epoch milliseconds)")]
    Busy { until: Timestamp },
    /// The history could not be read or written. [`HistoryError::LeaseLost`] if a run took the chat over.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// A session that is still live could not be summarised, and some of its records are past their dates.
    #[error(transparent)]
    Compaction(#[from] CompactionError),
    #[error(transparent)]
    Remember(#[from] RememberError),
}

/// The result of keeping one line of a chat alive.
struct Kept {
    summaries: u32,
    /// Time of the next visit.
    next: Option<Timestamp>,
    /// The model's failure, if records that are past their dates could not be summarised.
    failed: Option<CompactionError>,
}

/// The state of a chat that may be empty.
enum Emptied {
    InUse,
    /// It is empty, and its head must stay until then.
    Until(Timestamp),
    /// It was empty, and its head is removed.
    Removed,
}

impl Upkeep {
    /// Builds the upkeep of `history` with `model` from `config`; nothing is counted.
    pub fn new(history: History, model: Model, config: &AgentConfig) -> Self {
        Self {
            history,
            model,
            view: config.view,
            memory: config.memory.clone(),
            access: Access::default(),
            metrics: Metrics::default(),
        }
    }

    /// Visits `chat`: archives, summarises and captures what is due.
    pub async fn visit(&self, chat: &ChatKey) -> Result<Visited, UpkeepError> {
        let lease = match self.history.claim_for_upkeep(chat, LEASE).await? {
            Claim::Claimed(lease) => *lease,
            Claim::Busy(until) => return Err(UpkeepError::Busy { until }),
        };
        let visited = tokio::select! {
            // On the heap: the future is large.
            visited = Box::pin(self.work(&lease)) => visited,
            // The work is dropped, as in a crash: a run or a deletion has the chat now.
            () = self.history.overtaken(&lease) => Err(HistoryError::LeaseLost.into()),
        };
        if visited
            .as_ref()
            .is_err_and(|error| !matches!(error, UpkeepError::History(HistoryError::LeaseLost)))
        {
            // Otherwise the next visit would wait for the lease to end.
            lease.log_failed_release(self.history.release(&lease).await);
        }
        visited
    }

    async fn work(&self, lease: &Lease) -> Result<Visited, UpkeepError> {
        let mut visited = Visited { finished: true, ..Visited::default() };
        // First, since it has a deadline: the date on which the records may leave the table.
        let archived = self.archive(lease).await?;
        visited.segments = u32::try_from(archived.segments).unwrap_or(u32::MAX);
        visited.archived = u32::try_from(archived.records).unwrap_or(u32::MAX);
        visited.finished = archived.finished;

        if let Some(new) = &lease.head.moved_to {
            // Its Sessions continue under the new name, whose context contains all of them.
            self.history.release(lease).await?;
            self.history.ask_for_visit(new, self.history.clock().now()).await?;
            visited.next = archived.remaining.map(|remaining| self.next_for(&remaining));
            return Ok(visited);
        }
        match self.end_if_empty(lease).await? {
            Emptied::InUse => {}
            Emptied::Until(next) => return Ok(Visited { next: Some(next), ..visited }),
            Emptied::Removed => return Ok(visited),
        }
        // The Session for which a capture failed is before the context.
        let from = lease.head.uncaptured_from.as_ref();
        let ContextRead { records, context } =
            self.history.context(&lease.chat, &lease.head, from, &self.view.policy(0)).await?;
        // An occurrence counts, too: it has a reply, which the usage of its day is to find.
        let is_said = |record: &&Record| record.is_interaction() || (record.asks() && record.due().is_some());
        let spoken = records.iter().rev().find(is_said);
        visited.spoken_at = spoken.map(|record| record.ts);
        let remembering = Remembering {
            history: self.history.clone(),
            model: self.model.clone(),
            view: self.view,
            memory: self.memory.clone(),
        };
        let now = self.history.clock().now();
        // Messages among strangers cost no request to a model.
        let is_used = self.access.persons.as_ref().is_none_or(|persons| {
            records.iter().any(|record| record.asks() || persons.contains(&record.sender()))
        });
        let looked = if is_used { remembering.capture_ended(lease, &records, now).await } else { Ok(None) };
        // If the capture failed, the rest of the visit is done all the same.
        if let Ok(Some(looked)) = &looked {
            visited.captured = u32::try_from(looked.entries).unwrap_or(u32::MAX);
        }
        let mut next: Vec<Timestamp> = Vec::new();
        let mut unkept = None;
        for line in lines(&records).into_iter().filter(|_| is_used) {
            let of_line: Vec<Record> = records.iter().filter(|record| is_of(record, line)).cloned().collect();
            let Kept { summaries, next: date, failed } = self.keep_alive(lease, of_line).await?;
            visited.summaries += summaries;
            next.extend(date);
            unkept = unkept.or(failed);
        }
        // For records that were not settled yet; their own entry in the index may be the one of this visit.
        next.extend(archived.remaining.map(|remaining| self.next_for(&remaining)));
        // A process that had registered the chat before it was forgotten does not register it again until then.
        next.extend(lease.head.forgotten_at.map(|at| at.plus(self.due_after())).filter(|until| *until > now));
        let soonest = now.plus(self.due_after() / 4);
        visited.next = next.into_iter().min().map(|at| at.max(soonest));
        let captured_to = looked?.map(|looked| looked.captured_to);
        if let Some(error) = unkept {
            return Err(error.into());
        }
        // As a run would set it, since there may never be one. If all Sessions are over, the next starts after them.
        let ended = captured_to.as_ref().or(lease.head.captured_to.as_ref());
        let context_from = context.reaches_back_to.or_else(|| {
            let stale_after = self.view.stale_after?;
            Some(SortKey::start_of(ended?.ts().minus(stale_after)))
        });
        if let Some(spoken_at) = visited.spoken_at {
            self.history.set_place(&lease.chat, spoken_at).await?;
        }
        let title = lease.head.title_after(&records);
        let (captured_to, context_from) = (captured_to.as_ref(), context_from.as_ref());
        self.history.finish_upkeep(lease, captured_to, context_from, title.as_ref()).await?;
        Ok(visited)
    }

    /// Ends the visit of a chat that was forgotten, or never used, and is empty. Once every process has forgotten that
    /// it registered the chat, this removes its head, and nothing of the chat is left.
    async fn end_if_empty(&self, lease: &Lease) -> Result<Emptied, UpkeepError> {
        let forgotten_at = lease.head.forgotten_at;
        // A head that a late turn or visit has created again.
        let is_leftover = lease.head == Head { taken_at: lease.head.taken_at, ..Head::default() };
        if (forgotten_at.is_none() && !is_leftover) || !self.history.is_empty(&lease.chat).await? {
            return Ok(Emptied::InUse);
        }
        let until = forgotten_at.map_or(Timestamp::MIN, |at| at.plus(self.due_after()));
        if self.history.clock().now() < until {
            self.history.release(lease).await?;
            return Ok(Emptied::Until(until));
        }
        self.history.remove_head(lease).await?;
        Ok(Emptied::Removed)
    }

    /// Archives settled records that are in no segment yet.
    async fn archive(&self, lease: &Lease) -> Result<Archived, UpkeepError> {
        let settled = SETTLED_AFTER.min(self.due_after() / 8);
        let which = ToArchive {
            sent_before: Some(self.history.clock().now().minus(settled)),
            up_to: None,
            max_segments: MAX_SEGMENTS,
        };
        Ok(self.history.archive_all(lease, &which).await?)
    }

    /// Keeps the context of the live Session of `records`, all of one line, in the table: as a summary, or if none can
    /// be made, by moving the records' dates on.
    async fn keep_alive(&self, lease: &Lease, mut records: Vec<Record>) -> Result<Kept, UpkeepError> {
        let agent_id = self.memory.agents.of_records(&lease.chat, &records);
        let compaction = Compaction {
            history: self.history.clone(),
            model: self.model.clone(),
            view: self.view,
            agent_id: agent_id.to_owned(),
            profile_id: self.memory.agents.profiled(agent_id).map(str::to_owned),
            metrics: self.metrics.clone(),
        };
        let mut lease = lease.clone();
        let (mut summaries, mut failed) = (0, None);
        // Turns compact to fit the window, since they know what they need.
        while let Some(why @ Why::Expiring { before }) = compaction.is_due(&records, u32::MAX) {
            if summaries == MAX_SUMMARIES {
                compaction.keep(&records, before).await?;
                break;
            }
            match compaction.run(&mut lease, &records, why, None).await {
                Ok(Some(compacted)) => {
                    summaries += 1;
                    records.push(compacted.summary);
                    records.sort_by(|a, b| a.key.cmp(&b.key));
                    records.dedup_by(|a, b| a.key == b.key);
                }
                Ok(None) => {
                    compaction.keep(&records, before).await?;
                    break;
                }
                Err(CompactionError::History(error)) => return Err(error.into()),
                Err(error) => {
                    tracing::warn!(
                        %error, "failed to summarise a live session; its records stay in the table for longer"
                    );
                    compaction.keep(&records, before).await?;
                    let (now, policy) = (self.history.clock().now(), self.view.policy(0));
                    let view = SessionView::of(&records, now, &policy);
                    // The dates of these cannot be moved on. The local sweep spares a chat whose visit failed.
                    let has_lapsed = view.earlier_records().any(|record| record.has_lapsed(now));
                    failed =
                        Some(error).filter(|error| has_lapsed && matches!(error, CompactionError::Model(_)));
                    break;
                }
            }
        }
        let now = self.history.clock().now();
        let policy = self.view.policy(0);
        let horizon = self.history.retention().horizon(now);
        let view = SessionView::of(&records, now, &policy);
        // A message that could not be answered for so long stays unanswered, but no model answers weeks later what an operator
        // has left so.
        let expires_soon =
            |waiting: &Message<'_>| waiting.first.expires_at.is_some_and(|at| at < horizon.soon);
        if lease.head.takeover.is_none() && view.unanswered.iter().any(expires_soon) {
            compaction.keep(&records, horizon.soon).await?;
        }
        let stale_at = |last: Timestamp| Some(last.plus(policy.stale_after?).plus(Duration::from_secs(1)));
        let grows_stale = view.last_interaction.and_then(stale_at);
        let renewed = self.history.retention().expires_at(now);
        // Records that would leave sooner have just had their dates moved to the full lifetime from now.
        let dates = view
            .earlier_records()
            .filter_map(|record| if record.expires_at? < horizon.soon { renewed } else { record.expires_at });
        let left = dates.filter_map(|at| u64::try_from(at - horizon.soon).ok()).min();
        let expires = left.map(|secs| now.plus(Duration::from_secs(secs)));
        let waits = (!view.unanswered.is_empty()).then(|| now.plus(self.due_after() / 2));
        Ok(Kept { summaries, next: [grows_stale, expires, waits].into_iter().flatten().min(), failed })
    }

    /// Returns the time of the next visit for records that were not settled yet.
    fn next_for(&self, remaining: &Remaining) -> Timestamp {
        let soonest = self.history.clock().now().plus(self.due_after() / 4);
        remaining.sent_at.plus(self.due_after()).max(soonest)
    }

    fn due_after(&self) -> Duration {
        self.history.retention().due_after()
    }
}

/// Returns the lines of `records`, in order of their first message.
fn lines(records: &[Record]) -> Vec<Option<&str>> {
    let mut lines: Vec<Option<&str>> = Vec::new();
    for record in records.iter().filter(|record| record.is_interaction() || record.source().is_some()) {
        if !lines.contains(&record.line()) {
            lines.push(record.line());
        }
    }
    lines
}

fn is_of(record: &Record, line: Option<&str>) -> bool {
    record.kind() == Kind::Boundary || record.line() == line
}
