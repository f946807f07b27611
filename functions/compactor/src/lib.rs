//! The compactor: visits the chats that are due, on a schedule.
//!
//! - [`function`]: the deployed function
//! - `lib.rs`: a run: selection and order of the chats, and handling of failures
//! - [`metrics`]: metrics of a run for CloudWatch
//!
//! The work on a chat is done by [`Upkeep`].
//!
//! No cursor is kept between runs, since the index serves as one: a chat that was visited leaves it, one that failed or
//! is busy moves further back, and those that a run had no time for are still in front. So a run starts at the oldest
//! entry, and a chat that never succeeds does not keep others from being visited.

pub mod function;
pub mod metrics;

use std::collections::HashMap;
use std::time::Duration;

use annals_core::chat_key::ChatKey;
use annals_core::sort_key::Timestamp;
use annals_engine::upkeep::{Upkeep, UpkeepError, Visited};
use annals_runtime::telemetry;
use annals_store::history::due::{Due, DueStart, SHARDS};
use annals_store::history::{History, HistoryError};
use futures::future::join_all;
use futures::{StreamExt, stream};
use tokio::task::JoinSet;
use tracing::Instrument;

/// Time limit of a visit by the system clock: one that hangs is cancelled, so that it does not take a place forever.
pub const PATIENCE: Duration = Duration::from_mins(4);

/// Number of entries of each shard that are read at once.
const PAGE: usize = 100;

/// Longest time until a failed chat is visited again. The alarm on overdue chats fires after two hours, so it includes
/// each chat that keeps failing.
const LONGEST_PAUSE: Duration = Duration::from_mins(30);

/// Visits the chats that are due.
#[derive(Clone, Debug)]
pub struct Compactor {
    /// The histories, whose index lists the chats that are due.
    pub history: History,
    /// Work on one chat.
    pub upkeep: Upkeep,
    /// Number of chats that are visited concurrently.
    pub parallel: usize,
    /// Maximum number of chats per run.
    pub most: usize,
    /// Time limit of a visit; [`PATIENCE`].
    pub patience: Duration,
}

/// Result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Chats whose visit succeeded.
    pub visited: u32,
    /// Chats whose visit failed. They are visited again later.
    pub failed: u32,
    /// Chats that a turn was working on. They are visited again later.
    pub busy: u32,
    /// Chats that were seen but not visited. They are left to the next run.
    pub left: u32,
    /// Shards of the index that could not be read.
    pub unread_shards: u32,
    /// Segments written.
    pub segments: u32,
    /// Records in these segments.
    pub archived: u32,
    /// Summaries appended.
    pub summaries: u32,
    /// Memory entries captured.
    pub captured: u32,
    /// Duration of the run.
    pub duration: Duration,
    /// Time by which the oldest chat that the run saw and did not finish is overdue; zero if there is none.
    pub oldest_overdue: Duration,
}

/// Result for one chat in this run.
enum Attended {
    /// Visited, and nothing is left to do before `next`.
    Settled { visited: Visited, next: Option<Timestamp> },
    /// To be visited again at `until`. It has been due `since`.
    PutOff { why: Why, until: Timestamp, since: Timestamp },
    /// Not visited.
    Left { since: Timestamp },
}

enum Why {
    Unfinished(Visited),
    Busy,
    Failed,
}

impl Compactor {
    /// Creates a compactor that visits eight chats at a time, since a visit mostly waits for S3 and for a model.
    pub fn new(history: History, upkeep: Upkeep) -> Self {
        Self { history, upkeep, parallel: 8, most: 5_000, patience: PATIENCE }
    }

    /// Visits the chats that are due, the oldest first, until `deadline`. Visits that are running then are awaited, for
    /// at most [`PATIENCE`].
    pub async fn run(&self, deadline: Timestamp) -> Report {
        let upkeep = self.upkeep.clone();
        self.run_visiting(deadline, move |chat| {
            let upkeep = upkeep.clone();
            async move { upkeep.visit(&chat).await }
        })
        .await
    }

    /// Does the same as [`Compactor::run`], with `visit` in place of [`Upkeep::visit`], so that tests can count, fail and delay
    /// visits.
    pub async fn run_visiting<F, V>(&self, deadline: Timestamp, visit: F) -> Report
    where
        F: Fn(ChatKey) -> V,
        V: Future<Output = Result<Visited, UpkeepError>> + Send + 'static,
    {
        let started = self.history.clock().now();
        let mut report = Report::default();
        let mut done: HashMap<ChatKey, Attended> = HashMap::new();
        let mut oldest: Option<Timestamp> = None;
        let mut wait_since =
            |since: Timestamp| oldest = Some(oldest.map_or(since, |oldest| oldest.min(since)));
        let mut starts: Vec<(u8, Option<DueStart>)> = (0..SHARDS).map(|shard| (shard, None)).collect();
        while !starts.is_empty() {
            let (round, further) = self.read(starts, started, &mut report).await;
            starts = further;
            let (again, new): (Vec<Due>, Vec<Due>) =
                round.into_iter().partition(|due| done.contains_key(&due.chat));
            for due in again {
                // This entry became due before the visit of its chat began in this run.
                if let Some(attended) = done.get(&due.chat) {
                    self.update(&due, attended).instrument(telemetry::of_chat(&due.chat)).await;
                }
            }
            let free = self.most.saturating_sub(done.len());
            let mut attending = stream::iter(new.into_iter().enumerate())
                .map(|(place, due)| {
                    let is_taken = place < free && self.history.clock().now() < deadline;
                    let visit = is_taken.then(|| visit(due.chat.clone()));
                    let chat_span = telemetry::of_chat(&due.chat);
                    let attend = async move {
                        let attended = match visit {
                            Some(visit) => self.attend(&due, visit).await,
                            None => Attended::Left { since: due.due_at() },
                        };
                        (due.chat, attended)
                    };
                    attend.instrument(chat_span)
                })
                .buffer_unordered(self.parallel.max(1));
            let mut is_over = false;
            while let Some((chat, attended)) = attending.next().await {
                report.count(&attended);
                match attended {
                    Attended::Settled { .. } => {}
                    Attended::PutOff { since, .. } => wait_since(since),
                    Attended::Left { since } => {
                        wait_since(since);
                        is_over = true;
                    }
                }
                done.insert(chat, attended);
            }
            if is_over {
                break;
            }
        }
        for start in starts.iter().filter_map(|(_, start)| start.as_ref()) {
            wait_since(start.due_at());
        }
        let now = self.history.clock().now();
        report.duration = now.since(started);
        report.oldest_overdue = oldest.map(|since| now.since(since)).unwrap_or_default();
        report
    }

    /// Reads the next page of each shard in `starts`. Returns its chats, the oldest first, and the starts of further
    /// pages.
    async fn read(
        &self,
        starts: Vec<(u8, Option<DueStart>)>,
        now: Timestamp,
        report: &mut Report,
    ) -> (Vec<Due>, Vec<(u8, Option<DueStart>)>) {
        let pages = join_all(
            starts
                .into_iter()
                .map(async |(shard, start)| (shard, self.history.due(shard, now, PAGE, start).await)),
        )
        .await;
        let (mut round, mut further) = (Vec::new(), Vec::new());
        for (shard, page) in pages {
            match page {
                Ok(page) => {
                    round.extend(page.chats);
                    further.extend(page.next.map(|next| (shard, Some(next))));
                }
                Err(error) => {
                    tracing::error!(shard, %error, "failed to read the due chats of a shard; the next run tries again");
                    report.unread_shards += 1;
                }
            }
        }
        round.sort_by_key(Due::due_at);
        (round, further)
    }

    /// Visits one chat and updates its index entry. This is the one place where failures of a visit are logged.
    async fn attend(
        &self,
        due: &Due,
        visit: impl Future<Output = Result<Visited, UpkeepError>> + Send + 'static,
    ) -> Attended {
        // A task of its own turns a panic into a failure of this chat only. Dropping the set cancels it.
        let mut task = JoinSet::new();
        task.spawn(visit.in_current_span());
        let visited = match tokio::time::timeout(self.patience, task.join_next()).await {
            Ok(Some(Ok(visited))) => visited,
            Ok(Some(Err(_)) | None) => return self.fail(due, &"the visit panicked").await,
            Err(_) => return self.fail(due, &"the visit took too long").await,
        };
        let now = self.history.clock().now();
        match visited {
            Ok(visited) if visited.finished => {
                let attended = Attended::Settled { next: visited.next, visited };
                self.update(due, &attended).await;
                attended
            }
            // The next run continues at once; `next` is the date of a visit that has nothing left to do before.
            Ok(visited) => self.put_off(due, Why::Unfinished(visited), now).await,
            Err(UpkeepError::Busy { until }) => {
                let until = until.min(now.plus(self.pause())).max(now.plus(Duration::from_secs(1)));
                self.put_off(due, Why::Busy, until).await
            }
            Err(UpkeepError::History(HistoryError::LeaseLost)) => {
                self.put_off(due, Why::Busy, now.plus(self.pause().min(Duration::from_mins(1)))).await
            }
            Err(error) => self.fail(due, &error).await,
        }
    }

    async fn fail(&self, due: &Due, error: &(dyn std::fmt::Display + Sync)) -> Attended {
        tracing::error!(%error, "failed to visit a chat; it will be visited again");
        let until = self.history.clock().now().plus(self.pause());
        self.put_off(due, Why::Failed, until).await
    }

    async fn put_off(&self, due: &Due, why: Why, until: Timestamp) -> Attended {
        let since = match self.history.put_off(&due.chat, &due.entries, until).await {
            Ok(since) => since,
            Err(error) => {
                // The entry is unchanged, so the next run visits this chat first.
                tracing::error!(%error, "failed to postpone a chat in the due index; the next run visits it first");
                due.due_at()
            }
        };
        Attended::PutOff { why, until, since }
    }

    /// Updates an entry of a chat that was visited in this run. If that fails, the next visit will find nothing to do.
    async fn update(&self, due: &Due, attended: &Attended) {
        let updated = match attended {
            Attended::Settled { next, visited } => {
                self.history.settle(&due.chat, &due.entries, *next, visited.spoken_at).await
            }
            Attended::PutOff { until, .. } => {
                self.history.put_off(&due.chat, &due.entries, *until).await.map(drop)
            }
            Attended::Left { .. } => Ok(()),
        };
        if let Err(error) = updated {
            tracing::warn!(%error, "failed to update the due index after a visit; the chat will be visited again");
        }
    }

    /// Returns the time until a failed chat is visited again.
    fn pause(&self) -> Duration {
        (self.history.retention().due_after() / 8).clamp(Duration::from_secs(1), LONGEST_PAUSE)
    }
}

impl Report {
    fn count(&mut self, attended: &Attended) {
        let visited = match attended {
            Attended::Settled { visited, .. } | Attended::PutOff { why: Why::Unfinished(visited), .. } => {
                self.visited += 1;
                visited
            }
            Attended::PutOff { why: Why::Busy, .. } => {
                self.busy += 1;
                return;
            }
            Attended::PutOff { why: Why::Failed, .. } => {
                self.failed += 1;
                return;
            }
            Attended::Left { .. } => {
                self.left += 1;
                return;
            }
        };
        self.segments += visited.segments;
        self.archived += visited.archived;
        self.summaries += visited.summaries;
        self.captured += visited.captured;
    }
}
