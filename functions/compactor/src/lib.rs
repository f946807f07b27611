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
//! entry, and a chat that never succeeds does not keep others from being visited. A chat is visited for each page that
//! has entries of it: after a visit that finished, the second finds nothing to do, and settles its own entries.

pub mod function;
pub mod metrics;

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
    /// Maximum number of visits per run.
    pub most: usize,
    /// Time limit of a visit; [`PATIENCE`].
    pub patience: Duration,
}

/// Result of a run. A chat with entries on two pages of the index counts twice.
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

/// Result for the entries of one chat on one page.
enum Outcome {
    /// The visit succeeded. It may not be finished.
    Visited(Visited),
    Busy,
    Failed,
    /// Not visited.
    Left,
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
        let (mut seen, mut is_over) = (0, false);
        let mut oldest: Option<Timestamp> = None;
        let mut starts: Vec<(u8, Option<DueStart>)> = (0..SHARDS).map(|shard| (shard, None)).collect();
        while !starts.is_empty() && !is_over {
            let (round, further) = self.read(starts, started, &mut report).await;
            starts = further;
            let free = self.most.saturating_sub(seen);
            seen += round.len();
            let mut attending = stream::iter(round.into_iter().enumerate())
                .map(|(place, due)| {
                    let is_taken = place < free && self.history.clock().now() < deadline;
                    let visit = is_taken.then(|| visit(due.chat.clone()));
                    let chat_span = telemetry::of_chat(&due.chat);
                    let attend = async move {
                        match visit {
                            Some(visit) => self.attend(&due, visit).await,
                            None => (Outcome::Left, Some(due.due_at())),
                        }
                    };
                    attend.instrument(chat_span)
                })
                .buffer_unordered(self.parallel.max(1));
            while let Some((outcome, since)) = attending.next().await {
                is_over |= matches!(outcome, Outcome::Left);
                report.count(&outcome);
                oldest = oldest.into_iter().chain(since).min();
            }
        }
        let unread = starts.iter().filter_map(|(_, start)| start.as_ref()).map(DueStart::due_at);
        let now = self.history.clock().now();
        report.duration = now.since(started);
        let oldest = oldest.into_iter().chain(unread).min();
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

    /// Visits one chat and updates its entries in the index. Returns the time since which it has been due, if it still
    /// is. This is the one place where failures of a visit are logged.
    async fn attend(
        &self,
        due: &Due,
        visit: impl Future<Output = Result<Visited, UpkeepError>> + Send + 'static,
    ) -> (Outcome, Option<Timestamp>) {
        // A task of its own turns a panic into a failure of this chat only. Dropping the set cancels it.
        let mut task = JoinSet::new();
        task.spawn(visit.in_current_span());
        let visited = match tokio::time::timeout(self.patience, task.join_next()).await {
            Ok(Some(Ok(visited))) => visited,
            Ok(Some(Err(_)) | None) => return self.fail(due, &"the visit panicked").await,
            Err(_) => return self.fail(due, &"the visit took too long").await,
        };
        let now = self.history.clock().now();
        let (outcome, until) = match visited {
            Ok(visited) if visited.finished => {
                let Visited { next, spoken_at, .. } = visited;
                if let Err(error) = self.history.settle(&due.chat, &due.entries, next, spoken_at).await {
                    tracing::warn!(%error, "failed to update the due index after a visit; the chat will be visited again");
                }
                return (Outcome::Visited(visited), None);
            }
            // The next run continues at once; `next` is the date of a visit that has nothing left to do before.
            Ok(visited) => (Outcome::Visited(visited), now),
            Err(UpkeepError::Busy { until }) => {
                (Outcome::Busy, until.min(now.plus(self.pause())).max(now.plus(Duration::from_secs(1))))
            }
            Err(UpkeepError::History(HistoryError::LeaseLost)) => {
                (Outcome::Busy, now.plus(self.pause().min(Duration::from_mins(1))))
            }
            Err(error) => return self.fail(due, &error).await,
        };
        (outcome, Some(self.put_off(due, until).await))
    }

    async fn fail(&self, due: &Due, error: &(dyn std::fmt::Display + Sync)) -> (Outcome, Option<Timestamp>) {
        tracing::error!(%error, "failed to visit a chat; it will be visited again");
        let until = self.history.clock().now().plus(self.pause());
        (Outcome::Failed, Some(self.put_off(due, until).await))
    }

    /// Returns the time since which the chat has been due.
    async fn put_off(&self, due: &Due, until: Timestamp) -> Timestamp {
        self.history.put_off(&due.chat, &due.entries, until).await.unwrap_or_else(|error| {
            // The entry is unchanged, so the next run visits this chat first.
            tracing::error!(%error, "failed to postpone a chat in the due index; the next run visits it first");
            due.due_at()
        })
    }

    /// Returns the time until a failed chat is visited again.
    fn pause(&self) -> Duration {
        (self.history.retention().due_after() / 8).clamp(Duration::from_secs(1), LONGEST_PAUSE)
    }
}

impl Report {
    fn count(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Busy => self.busy += 1,
            Outcome::Failed => self.failed += 1,
            Outcome::Left => self.left += 1,
            Outcome::Visited(visited) => {
                self.visited += 1;
                self.segments += visited.segments;
                self.archived += visited.archived;
                self.summaries += visited.summaries;
                self.captured += visited.captured;
            }
        }
    }
}
