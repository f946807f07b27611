//! What is done for a chat that is due, while nobody waits: raw records are archived before they may leave the table,
//! what a live Session shows is kept from leaving, and what an ended one leaves is captured to memory.
//!
//! A run takes a chat over from a visit at any time. The visit then ends at its next write to the head, and what it had
//! done stands.

use std::time::Duration;

use crate::access::Access;
use crate::chat_key::ChatKey;
use crate::compaction::cut::Why;
use crate::compaction::run::{Compaction, CompactionError};
use crate::config::{AgentConfig, MemoryConfig, ViewConfig};
use crate::context::view::View;
use crate::history::turn::{Claim, Head, Lease, Superseded};
use crate::history::{Archived, History, HistoryError, Remaining, Seen, ToArchive};
use crate::memory::sessions::{RememberError, Remembering};
use crate::metrics::Metrics;
use crate::model::{Model, ModelError};
use crate::record::{Kind, Record};
use crate::sort_key::{SortKey, Timestamp};

/// How long a visit may hold a chat. Only another visit would wait so long for a dead one.
const LEASE: Duration = Duration::from_mins(5);
/// The most segments that one visit stores: some 100 MB. What is left is the next visit's.
const MAX_SEGMENTS: usize = 25;
/// How many summaries one visit makes for one line at most.
const MAX_SUMMARIES: usize = 4;
/// How long a record must have been there before it is archived, at most: its delivery has ended by then.
const SETTLED_AFTER: Duration = Duration::from_hours(1);

/// Visits chats.
#[derive(Clone, Debug)]
pub struct Upkeep {
    /// The histories.
    pub history: History,
    /// What summarises, and finds what is worth remembering.
    pub model: Model,
    /// What decides a context.
    pub view: ViewConfig,
    /// `MEMORY`, `CAPTURE_GROUP_MEMORY`
    pub memory: MemoryConfig,
    /// `AGENT_ID`: who speaks in summaries.
    pub agent_id: String,
    /// `ALLOW_FROM`, `ALLOW_CHATS`
    pub access: Access,
    /// Where compactions are counted.
    pub metrics: Metrics,
}

/// What a visit did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Visited {
    /// How many records it archived.
    pub archived: u32,
    /// In how many segments.
    pub segments: u32,
    /// How many summaries it appended.
    pub summaries: u32,
    /// How many memory entries it captured.
    pub captured: u32,
    /// When to come again for what is stored already; `None` where only new records make another visit worth while.
    pub next: Option<Timestamp>,
    /// When somebody last spoke, by the message's own time, in what the visit has read.
    pub spoken_at: Option<Timestamp>,
    /// Whether it did all there was to do. One that did not is gone on with at `next`, or by the next run.
    pub finished: bool,
}

/// A visit did not do its work; the history is as good as it was, and the chat is visited again.
#[derive(Debug, thiserror::Error)]
pub enum UpkeepError {
    /// A run has the chat.
    #[error("a run has this chat until {until} (epoch milliseconds)")]
    Busy {
        /// When its lease runs out.
        until: Timestamp,
    },
    /// A run took the chat over.
    #[error(transparent)]
    Superseded(#[from] Superseded),
    /// The history could not be read or written.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// The model gave no answer.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// What an ended Session leaves could not be captured.
    #[error(transparent)]
    Remember(#[from] RememberError),
}

impl Upkeep {
    /// Upkeep of `history` with `model`, as `config` says; nothing is counted.
    pub fn new(history: History, model: Model, config: &AgentConfig) -> Self {
        Self {
            history,
            model,
            view: config.view,
            memory: config.memory,
            agent_id: config.agent_id.clone(),
            access: Access::default(),
            metrics: Metrics::default(),
        }
    }

    /// Does for `chat` what is due.
    pub async fn visit(&self, chat: &ChatKey) -> Result<Visited, UpkeepError> {
        let lease = match self.history.claim_for_upkeep(chat, LEASE).await? {
            Claim::Claimed(lease) => *lease,
            Claim::Busy(until) => return Err(UpkeepError::Busy { until }),
        };
        let visited = tokio::select! {
            // On the heap: it is a long way through.
            visited = Box::pin(self.work(&lease)) => visited,
            // Dropped where it is, as in a crash: a run or a deletion has the chat now.
            () = self.history.overtaken(&lease) => Err(Superseded.into()),
        };
        if visited.as_ref().is_err_and(|error| !matches!(error, UpkeepError::Superseded(_))) {
            // Otherwise the next visit would wait for the lease to end.
            drop(self.history.release(&lease).await);
        }
        visited
    }

    async fn work(&self, lease: &Lease) -> Result<Visited, UpkeepError> {
        let mut visited = Visited { finished: true, ..Visited::default() };
        // First, since it is what must be done before the records' time comes.
        let archived = self.archive(lease).await?;
        visited.segments = u32::try_from(archived.segments).unwrap_or(u32::MAX);
        visited.archived = u32::try_from(archived.records).unwrap_or(u32::MAX);
        visited.finished = archived.finished;

        if let Some(new) = &lease.head.moved_to {
            // Its Sessions go on under the new name, where alone all of them is in view.
            self.history.release(lease).await??;
            self.history.ask_for_visit(new, self.history.clock().now()).await?;
            visited.next = archived.remaining.map(|remaining| self.next_for(&remaining));
            return Ok(visited);
        }
        if let Some(next) = self.after_forgetting(lease).await? {
            visited.next = next;
            return Ok(visited);
        }
        let captured_to = lease.head.captured_to.as_ref();
        // The Session that a capture failed for lies before the context.
        let from = lease.head.uncaptured_from.as_ref();
        let Seen { records, context } =
            self.history.context(&lease.chat, &lease.head, from, &self.view.policy(0)).await?;
        let spoken = records.iter().rev().find(|record| record.is_interaction());
        visited.spoken_at = spoken.map(|record| record.ts);
        let remembering = Remembering {
            history: self.history.clone(),
            model: self.model.clone(),
            view: self.view,
            memory: self.memory,
        };
        let now = self.history.clock().now();
        // What strangers say among themselves costs no request to a model.
        let is_used = self.access.persons.as_ref().is_none_or(|persons| {
            records.iter().any(|record| record.asks || persons.contains(&record.sender()))
        });
        let looked = if is_used {
            remembering.capture_ended(&lease.chat, &records, captured_to, now).await
        } else {
            Ok(None)
        };
        // What else there is to do is done all the same.
        if let Ok(Some(looked)) = &looked {
            visited.captured = u32::try_from(looked.entries).unwrap_or(u32::MAX);
        }
        let mut next: Vec<Timestamp> = Vec::new();
        for line in lines(&records).into_iter().filter(|_| is_used) {
            let of_line: Vec<Record> = records.iter().filter(|record| is_of(record, line)).cloned().collect();
            let (summaries, date) = self.keep_alive(lease, of_line).await?;
            visited.summaries += summaries;
            next.extend(date);
        }
        // What was not settled yet; its own entry in the index may be this one.
        next.extend(archived.remaining.map(|remaining| self.next_for(&remaining)));
        // A process that had registered the chat before it was forgotten does not register it again until then.
        next.extend(lease.head.forgotten_at.map(|at| at.plus(self.due_after())).filter(|until| *until > now));
        let soonest = now.plus(self.due_after() / 4);
        visited.next = next.into_iter().min().map(|at| at.max(soonest));
        let captured_to = looked?.map(|looked| looked.captured_to);
        // As a run would, since there may be none for ever. Where all Sessions are over, the next starts behind them.
        let ended = captured_to.as_ref().or(lease.head.captured_to.as_ref());
        let context_from = context.reaches_back_to.or_else(|| {
            let stale_after = self.view.stale_after?;
            Some(SortKey::start_of(ended?.ts().minus(stale_after)))
        });
        if let Some(spoken_at) = visited.spoken_at {
            self.history.set_place(&lease.chat, spoken_at).await?;
        }
        self.history.finish_upkeep(lease, captured_to.as_ref(), context_from.as_ref()).await??;
        Ok(visited)
    }

    /// Ends the visit of a chat that was forgotten, or never used, and is empty: with the date of the next one, or with none once every
    /// process has forgotten that it registered the chat. Then nothing of the chat is left, not even its head. `None` if the
    /// chat is in use.
    async fn after_forgetting(&self, lease: &Lease) -> Result<Option<Option<Timestamp>>, UpkeepError> {
        let forgotten_at = lease.head.forgotten_at;
        // One that a turn or a visit has made anew, which came late.
        let is_leftover = lease.head == Head { taken_at: lease.head.taken_at, ..Head::default() };
        if (forgotten_at.is_none() && !is_leftover) || !self.history.is_empty(&lease.chat).await? {
            return Ok(None);
        }
        let until = forgotten_at.map_or(Timestamp::MIN, |at| at.plus(self.due_after()));
        if self.history.clock().now() < until {
            self.history.release(lease).await??;
            return Ok(Some(Some(until)));
        }
        self.history.remove_head(lease).await??;
        Ok(Some(None))
    }

    /// Archives what is settled and in no segment yet.
    async fn archive(&self, lease: &Lease) -> Result<Archived, UpkeepError> {
        let settled = SETTLED_AFTER.min(self.due_after() / 8);
        let which = ToArchive {
            sent_before: Some(self.history.clock().now().minus(settled)),
            up_to: None,
            max_segments: MAX_SEGMENTS,
        };
        Ok(self.history.archive_all(lease, &which).await??)
    }

    /// Keeps what the live Session of `records`, all of one line, shows from leaving the table: as a summary, or where
    /// none can be made, by moving its date on. Answers how many summaries there are, and when to look again.
    async fn keep_alive(
        &self,
        lease: &Lease,
        mut records: Vec<Record>,
    ) -> Result<(u32, Option<Timestamp>), UpkeepError> {
        let compaction = Compaction {
            history: self.history.clone(),
            model: self.model.clone(),
            view: self.view,
            agent_id: self.agent_id.clone(),
            metrics: self.metrics.clone(),
        };
        let mut lease = lease.clone();
        let mut summaries = 0;
        for _ in 0..MAX_SUMMARIES {
            // Room is made by turns, which know what they need.
            let Some(why @ Why::Expiring { before }) = compaction.is_due(&records, u32::MAX) else { break };
            match compaction.run(&lease, &records, why, None).await {
                Ok(Some(compacted)) => {
                    lease.head.compacting = None;
                    summaries += 1;
                    records.push(compacted.summary);
                    records.sort_by(|a, b| a.key.cmp(&b.key));
                    records.dedup_by(|a, b| a.key == b.key);
                }
                Ok(None) => {
                    compaction.keep(&records, before).await?;
                    break;
                }
                Err(CompactionError::Superseded(superseded)) => return Err(superseded.into()),
                Err(CompactionError::History(error)) => return Err(error.into()),
                Err(error) => {
                    tracing::warn!(
                        %error, "a live session is not summarised; its records stay longer"
                    );
                    compaction.keep(&records, before).await?;
                    break;
                }
            }
        }
        let now = self.history.clock().now();
        let policy = self.view.policy(0);
        let horizon = self.history.retention().horizon(now);
        let view = View::of(&records, now, &policy);
        if view.unanswered.iter().any(|message| message.first.expires_at.is_some_and(|at| at < horizon.soon))
        {
            // A message that nobody could answer for so long goes on waiting.
            compaction.keep(&records, horizon.soon).await?;
        }
        let stale_at = |last: Timestamp| Some(last.plus(policy.stale_after?).plus(Duration::from_secs(1)));
        let grows_stale = view.last_interaction.and_then(stale_at);
        let renewed = self.history.retention().expires_at(now);
        // What would leave sooner has just had its date moved on, to the full time from now.
        let dates = view
            .earlier_records()
            .filter_map(|record| if record.expires_at? < horizon.soon { renewed } else { record.expires_at });
        let left = dates.filter_map(|at| u64::try_from(at - horizon.soon).ok()).min();
        let expires = left.map(|secs| now.plus(Duration::from_secs(secs)));
        let waits = (!view.unanswered.is_empty()).then(|| now.plus(self.due_after() / 2));
        Ok((summaries, [grows_stale, expires, waits].into_iter().flatten().min()))
    }

    /// When to come for what was not settled yet.
    fn next_for(&self, remaining: &Remaining) -> Timestamp {
        let soonest = self.history.clock().now().plus(self.due_after() / 4);
        remaining.sent_at.plus(self.due_after()).max(soonest)
    }

    fn due_after(&self) -> Duration {
        self.history.retention().due_after()
    }
}

/// The lines of `records`, in order of their first message.
fn lines(records: &[Record]) -> Vec<Option<&str>> {
    let mut lines: Vec<Option<&str>> = Vec::new();
    for record in records.iter().filter(|record| record.is_interaction() || record.source.is_some()) {
        if !lines.contains(&record.line()) {
            lines.push(record.line());
        }
    }
    lines
}

fn is_of(record: &Record, line: Option<&str>) -> bool {
    record.kind == Kind::Boundary || record.line() == line
}
