//! The compactor: visits the chats that are due, on a schedule.
//!
//! - `lib.rs`: one run: which chats, in which order, how many, and what becomes of those that fail
//! - [`metrics`]: what a run reports to CloudWatch
//!
//! What a visit does for its chat is [`Upkeep`]'s.
//!
//! There is no cursor to keep between runs: the index itself is one. A chat that was visited has left it, one that
//! failed or is busy stands further on in it, and what a run had no time for is still in front. So a run starts at the
//! oldest entry, and a chat that never succeeds keeps no other from its turn.

pub mod metrics;

use std::collections::HashMap;
use std::time::Duration;

use annals_shared::chat_key::ChatKey;
use annals_shared::history::History;
use annals_shared::history::due::{Due, DueStart, SHARDS};
use annals_shared::sort_key::Timestamp;
use annals_shared::telemetry;
use annals_shared::upkeep::{Upkeep, UpkeepError, Visited};
use futures::future::join_all;
use futures::{StreamExt, stream};
use tokio::task::JoinSet;
use tracing::Instrument;

/// How long a visit may take, by the world's clock: what hangs is given up, so that it does not hold a place for ever.
pub const PATIENCE: Duration = Duration::from_mins(4);

/// How many entries of each shard are read at once.
const PAGE: usize = 100;

/// The longest that a chat is put off. The alarm on overdue chats looks at two hours, and so at each that fails.
const LONGEST_PAUSE: Duration = Duration::from_mins(30);

/// Visits the chats that are due.
#[derive(Clone, Debug)]
pub struct Compactor {
    /// The histories, whose index says what is due.
    pub history: History,
    /// What visits.
    pub upkeep: Upkeep,
    /// How many chats are visited side by side.
    pub parallel: usize,
    /// How many chats one run visits at most.
    pub most: usize,
    /// How long a visit may take; [`PATIENCE`].
    pub patience: Duration,
}

/// What a run did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Chats whose visits succeeded.
    pub visited: u32,
    /// Chats whose visits failed; they are put off.
    pub failed: u32,
    /// Chats that a run had just then; they are put off.
    pub busy: u32,
    /// Chats that it did not get to, as far as it has seen them: the next run's.
    pub left: u32,
    /// Parts of the index that could not be read.
    pub unread_shards: u32,
    /// Segments written.
    pub segments: u32,
    /// Records that they hold.
    pub archived: u32,
    /// Summaries appended.
    pub summaries: u32,
    /// Memory entries captured.
    pub captured: u32,
    /// How long the run took.
    pub duration: Duration,
    /// For how long the chat has been due that has waited longest, of those that the run saw and leaves undone; zero
    /// where it leaves none.
    pub oldest_overdue: Duration,
}

/// What became of a chat in this run.
enum Attended {
    /// Visited, with nothing left to do before the date.
    Settled { visited: Visited, next: Option<Timestamp> },
    /// To be visited again from then on; it has been waiting `since`.
    PutOff { why: Why, until: Timestamp, since: Timestamp },
    /// Not taken.
    Left { since: Timestamp },
}

enum Why {
    Unfinished(Visited),
    Busy,
    Failed,
}

impl Compactor {
    /// One that visits eight chats at a time: a visit is mostly waiting, for S3 and for a model.
    pub fn new(history: History, upkeep: Upkeep) -> Self {
        Self { history, upkeep, parallel: 8, most: 5_000, patience: PATIENCE }
    }

    /// Visits what is due now, the oldest first, until `deadline`: what is under way then is still waited for, for at
    /// most [`PATIENCE`].
    pub async fn run(&self, deadline: Timestamp) -> Report {
        let upkeep = self.upkeep.clone();
        self.run_visiting(deadline, move |chat| {
            let upkeep = upkeep.clone();
            async move { upkeep.visit(&chat).await }
        })
        .await
    }

    /// [`Compactor::run`], with `visit` in place of [`Upkeep::visit`]: what a test counts, breaks and holds up.
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
                // Its visit began after this entry had come due as well.
                if let Some(attended) = done.get(&due.chat) {
                    self.repeat(&due, attended).instrument(telemetry::of_chat(&due.chat)).await;
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

    /// The next page of each of `starts`: its chats, the oldest first, and where there is more.
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
                    tracing::error!(shard, %error, "the due chats of a shard are not read");
                    report.unread_shards += 1;
                }
            }
        }
        round.sort_by_key(Due::due_at);
        (round, further)
    }

    /// Visits one chat, and says so in the index. Whatever goes wrong is logged here, once.
    async fn attend(
        &self,
        due: &Due,
        visit: impl Future<Output = Result<Visited, UpkeepError>> + Send + 'static,
    ) -> Attended {
        // On a task of its own, so that a panic is a failure of this chat; it ends with the set.
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
                let next = visited.next;
                if let Err(error) =
                    self.history.settle(&due.chat, &due.entries, next, visited.spoken_at).await
                {
                    // What was done is done; another visit will find nothing to do.
                    tracing::warn!(%error, "a visited chat will be visited again");
                }
                Attended::Settled { visited, next }
            }
            Ok(visited) => {
                let until = visited.next.unwrap_or(now);
                self.put_off(due, Why::Unfinished(visited), until).await
            }
            Err(UpkeepError::Busy { until }) => {
                let until = until.min(now.plus(self.pause())).max(now.plus(Duration::from_secs(1)));
                self.put_off(due, Why::Busy, until).await
            }
            Err(UpkeepError::Superseded(_)) => {
                self.put_off(due, Why::Busy, now.plus(self.pause().min(Duration::from_mins(1)))).await
            }
            Err(error) => self.fail(due, &error).await,
        }
    }

    async fn fail(&self, due: &Due, error: &(dyn std::fmt::Display + Sync)) -> Attended {
        tracing::error!(%error, "a visit failed; the chat is put off");
        let until = self.history.clock().now().plus(self.pause());
        self.put_off(due, Why::Failed, until).await
    }

    async fn put_off(&self, due: &Due, why: Why, until: Timestamp) -> Attended {
        let since = match self.history.put_off(&due.chat, &due.entries, until).await {
            Ok(since) => since,
            Err(error) => {
                // It stays where it is, and the next run comes to it first.
                tracing::error!(%error, "a chat is not put off");
                due.due_at()
            }
        };
        Attended::PutOff { why, until, since }
    }

    /// For further entries of a chat that was attended in this run: what was done with the first.
    async fn repeat(&self, due: &Due, attended: &Attended) {
        let repeated = match attended {
            Attended::Settled { next, visited } => {
                self.history.settle(&due.chat, &due.entries, *next, visited.spoken_at).await
            }
            Attended::PutOff { until, .. } => {
                self.history.put_off(&due.chat, &due.entries, *until).await.map(drop)
            }
            Attended::Left { .. } => Ok(()),
        };
        if let Err(error) = repeated {
            tracing::warn!(%error, "a visited chat will be visited again");
        }
    }

    /// How long a chat that failed is put off.
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
