//! One turn of one chat: claim it, see what is unanswered, make room, ask the model once for all of it, append the
//! reply, deliver it, finish.
//!
//! A crash between any two steps leaves either nothing (the next run starts anew), or a committed turn, which the next
//! run finishes first: with the same messages covered, so with the same key of the reply, and from the piece on that
//! was not delivered. Why no message is answered twice in the history is written in `annals_shared::history::turn`.

use std::sync::Arc;
use std::time::Duration;

use annals_shared::chat_key::ChatKey;
use annals_shared::clock::Clock;
use annals_shared::compaction::run::{Compaction, CompactionError};
use annals_shared::config::{MemoryConfig, ViewConfig};
use annals_shared::context::{Policy, context};
use annals_shared::delivery::{Deliverer, DeliveryError};
use annals_shared::history::turn::{Claim, Ending, Head, Lease, OpenTurn, Superseded};
use annals_shared::history::{History, HistoryError, Seen, later_expiry};
use annals_shared::live::{Feed, Live};
use annals_shared::memory::sessions::Recalled;
use annals_shared::metrics::{Metric, Metrics};
use annals_shared::model::{Model, ModelError};
use annals_shared::record::{Kind, Record};
use annals_shared::sort_key::{SortKey, Timestamp};
use annals_shared::tokens;
use futures::future::pending;

use crate::deliver::still_blocked;
use crate::mcp::{Offer, Servers};
use crate::next::{Next, has_stopped, next};
use crate::retry::Attempt;
use crate::room::Passes;
use crate::signs::Signs;
use crate::surroundings::Surroundings;
use crate::tools::{self, Kit};
use crate::work::{Work, newest_covered, notes, of_turn};

/// How much of its time a run keeps back from calls and the model: for what came before its beginning, and for storing and
/// sending what came of them. An answer that is thrown away with its run costs as much as one that is not.
const RESERVE: Duration = Duration::from_secs(45);

/// How much of its time a run keeps back when it waits for its turn to send: a piece may take so long.
const SPARE: Duration = Duration::from_secs(30);

/// Answers chats.
#[derive(Clone)]
pub struct Agent {
    /// The histories.
    pub history: History,
    /// What answers.
    pub model: Model,
    /// Where replies go.
    pub deliverer: Deliverer,
    /// What fetches the messages around those of Lark groups, where that is set up.
    pub surroundings: Option<Surroundings>,
    /// What decides a context.
    pub view: ViewConfig,
    /// `MEMORY`, `CAPTURE_GROUP_MEMORY`
    pub memory: MemoryConfig,
    /// The servers of `TOOLS`.
    pub servers: Option<Arc<Servers>>,
    /// `SYSTEM_PROMPT`
    pub system_prompt: Option<String>,
    /// `AGENT_ID`: who speaks in replies.
    pub agent_id: String,
    /// Where turns and deliveries are counted.
    pub metrics: Metrics,
    /// Where runs are heard, by whoever listens in this process.
    pub live: Live,
    /// `STREAM_REPLIES`: whether private chats of Telegram see an answer grow, which is heard in `live`.
    pub stream_replies: bool,
    /// How long one run may hold a chat: as long as the process can live at most.
    pub lease: Duration,
    /// `REPLY_QUIET`: how long a chat whose people write in bursts must have been quiet before it is answered.
    pub quiet: Duration,
    /// The time.
    pub clock: Clock,
}

/// A turn is not done; delivered again, it goes on.
#[derive(Debug, thiserror::Error)]
pub enum TurnError {
    /// The history could not be read or written.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// The model gave no answer.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A `/compact` could not be carried out.
    #[error("a chat is not compacted: {0}")]
    Compaction(CompactionError),
    /// The reply is stored, but not delivered.
    #[error("the reply is stored but not delivered: {0}")]
    Delivery(DeliveryError),
    /// Another run has the chat.
    #[error("another run has this chat until {until} (epoch milliseconds)")]
    Busy {
        /// When its lease runs out.
        until: Timestamp,
    },
    /// Another run took the chat over.
    #[error(transparent)]
    Superseded(#[from] Superseded),
    /// The run has taken as long as it may have the chat.
    #[error("the run took longer than its lease")]
    OutOfTime,
    /// There is more to answer or to send, and too little time left for that.
    #[error("more waits than one run has time for")]
    Unfinished,
}

impl TurnError {
    /// Returns whether this attempt failed because of the model or the platform, which counts.
    fn counts(&self) -> bool {
        matches!(self, Self::Model(_) | Self::Compaction(_) | Self::Delivery(_))
    }
}

/// A run that ended before its turn was done.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Undone {
    /// Why.
    #[source]
    pub error: TurnError,
    /// Which attempt at the turn it was.
    pub attempt: Attempt,
}

impl Undone {
    /// Returns the pause before the queue delivers the turn again, after `deliveries` of them. If another run holds the
    /// chat, the pause lasts until its lease ends. An error that is not counted as an attempt (a store that fails) pauses too.
    pub fn retry_after(&self, now: Timestamp, deliveries: u32) -> Duration {
        match &self.error {
            TurnError::Unfinished => Duration::ZERO,
            TurnError::Busy { until } => self.attempt.pause().max(until.since(now) + Duration::from_secs(1)),
            error if error.counts() => self.attempt.pause(),
            _ => Attempt(deliveries).pause(),
        }
    }
}

impl From<CompactionError> for TurnError {
    fn from(error: CompactionError) -> Self {
        match error {
            CompactionError::Superseded(superseded) => superseded.into(),
            CompactionError::History(error) => error.into(),
            error => Self::Compaction(error),
        }
    }
}

/// The task of a run.
#[derive(Clone, Copy)]
struct Told<'a> {
    /// The messages that the turns of the queue name.
    named: &'a [SortKey],
    /// True until the run has done something. From then on it continues until no message is unanswered, whatever message
    /// the queue named.
    is_first: bool,
}

/// What one run did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    /// Answered what was unanswered when it looked, or found nothing.
    All,
    /// Finished one turn; there may be more.
    Some,
}

/// What a run finds.
enum Found {
    /// A turn to carry out.
    Work(Box<Work>),
    /// A turn that a `/stop` has ended.
    Stopped(Box<Work>),
    /// Nothing that waits, and what there is to note all the same.
    Nothing(Ending),
}

impl Agent {
    /// Answers what is unanswered in `chat`; `from` is the message that a turn of the queue names.
    pub async fn run(&self, chat: &ChatKey, from: Option<&SortKey>) -> Result<(), Undone> {
        self.run_all(chat, from.map(std::slice::from_ref).unwrap_or_default()).await
    }

    /// [`Agent::run`] for several turns of the queue; `named` are the messages that they name.
    pub async fn run_all(&self, chat: &ChatKey, named: &[SortKey]) -> Result<(), Undone> {
        let mut attempt = Attempt::FIRST;
        let ended = self.run_uncounted(chat, named, &mut attempt).await;
        // What another run does, or the next one goes on with, is no failure.
        let goes_on = |error: &TurnError| {
            matches!(error, TurnError::Busy { .. } | TurnError::Superseded(_) | TurnError::Unfinished)
        };
        if ended.as_ref().is_err_and(|error| !goes_on(error)) {
            self.metrics.add(Metric::TurnFailures, 1);
        }
        ended.map_err(|error| Undone { error, attempt })
    }

    async fn run_uncounted(
        &self,
        chat: &ChatKey,
        named: &[SortKey],
        attempt: &mut Attempt,
    ) -> Result<(), TurnError> {
        let started = self.clock.now();
        let mut told = Told { named, is_first: true };
        loop {
            let lease = match self.history.claim(chat, self.lease).await? {
                Claim::Claimed(lease) => lease,
                Claim::Busy(until) => return Err(TurnError::Busy { until }),
            };
            *attempt = Attempt::after(lease.head.failures);
            let signs = Signs::default();
            let mut shown = Box::pin(self.show(chat, signs.seen()));
            let done = tokio::select! {
                // On the heap: it is a long way through.
                done = Box::pin(self.run_claimed(&lease, told, *attempt, started, &signs)) => done,
                // Dropped where it stands, as in a crash: whoever has the chat now goes on from there.
                () = self.history.overtaken(&lease) => Err(Superseded.into()),
                // Its end comes behind the run's.
                done = async { shown.as_mut().await; pending().await } => done,
            };
            signs.end();
            shown.await;
            match done {
                Ok(Done::All) => return Ok(()),
                // Another turn may take all the rest of the time that the process has.
                Ok(Done::Some) if self.clock.now().since(started) > self.lease / 10 => {
                    return Err(TurnError::Unfinished);
                }
                Ok(Done::Some) => told.is_first = false,
                // This process has the queue's turn, so nobody else can carry the command out.
                Err(TurnError::Superseded(_)) if self.history.head(chat).await?.stopped_to.is_some() => {}
                Err(error) => {
                    // Otherwise the redelivery would wait for the lease to end.
                    match &error {
                        TurnError::Superseded(_) => {}
                        error if error.counts() => drop(self.history.release_failed(&lease).await),
                        _ => drop(self.history.release(&lease).await),
                    }
                    return Err(error);
                }
            }
        }
    }

    async fn run_claimed(
        &self,
        lease: &Lease,
        told: Told<'_>,
        attempt: Attempt,
        started: Timestamp,
        signs: &Signs,
    ) -> Result<Done, TurnError> {
        let mut work = match Box::pin(self.look(lease.clone(), told, signs)).await? {
            Found::Work(work) => work,
            Found::Stopped(work) => {
                Box::pin(self.end(*work)).await?;
                return Ok(Done::Some);
            }
            Found::Nothing(ending)
                if ending == Ending::default() && lease.head.turn.is_none() && lease.head.failures == 0 =>
            {
                self.history.release(lease).await??;
                return Ok(Done::All);
            }
            Found::Nothing(ending) => {
                self.history.finish(lease, &ending).await??;
                // A turn that was given up says nothing of what else is unanswered.
                return Ok(if lease.head.turn.is_some() { Done::Some } else { Done::All });
            }
        };
        let done = if work.leaves_more { Done::Some } else { Done::All };
        let until = started.plus(self.lease.saturating_sub(RESERVE));
        self.announce(signs, &work.lease, &work.turn, &work.records);
        work.feed = self.live.begin(&lease.chat, work.begun()?);
        let reply = match work.stored_reply() {
            _ if work.resumption.is_some() => Box::pin(self.resume(&mut work, attempt, until)).await?,
            Some(reply) => reply.clone(),
            None => Box::pin(self.answer(&mut work, attempt, until)).await?,
        };
        work.feed.stored(&reply);
        let until = started.plus(self.lease.saturating_sub(SPARE));
        let (reached, paced) = self.deliver(&work, &reply, attempt, until, signs).await?;
        let has_stopped = has_stopped(&lease.head);
        let ending = Ending {
            context_from: work.reaches_back_to,
            reached,
            paced,
            has_stopped,
            answered_to: work.turn.covers.last().cloned().max(lease.head.answered_to.clone()),
            ..work.remembered
        };
        self.history.finish(lease, &ending).await??;
        self.metrics.add(Metric::Turns, 1);
        Ok(done)
    }

    /// What there is to do: what a `/stop` has ended first, then a committed turn, else what waits.
    async fn look(&self, mut lease: Lease, told: Told<'_>, signs: &Signs) -> Result<Found, TurnError> {
        let committed = lease.head.turn.clone();
        if told.is_first && self.is_done(&lease, told.named).await? {
            return Ok(Found::Nothing(Ending::default()));
        }
        let from = told.named.iter().min();
        let read_from = lease.head.context_from.clone();
        self.reach_back(&mut lease, from).await?;
        let first_covered = committed.as_ref().and_then(|turn| turn.covers.first());
        let from = [from, first_covered].into_iter().flatten().min().cloned();
        let mut surroundings = self.surroundings.as_ref().filter(|_| committed.is_none());
        let mut passes = Passes::default();
        let mut remembered = None;
        let mut memory = None;
        let (mut offered, mut outside) = (Vec::new(), None);
        loop {
            let policy = self.policy(0);
            let mut seen = self.history.context(&lease.chat, &lease.head, from.as_ref(), &policy).await?;
            if let Some(turn) = committed.as_ref().filter(|turn| turn.resumes.is_none()) {
                if !self.add_covered(&lease.chat, turn, &mut seen.records).await? {
                    return Ok(Found::Nothing(Ending::default()));
                }
                seen.context = context(&seen.records, self.clock.now(), &policy);
            }
            let next = next(&lease.head, &seen.records, &seen.context, self.clock.now());
            if let Next::End { turn, command } = next {
                return Ok(Found::Stopped(Box::new(Work::stopped(lease, seen.records, turn, command))));
            }
            if let Next::Answer { turn, .. } = &next {
                self.announce(signs, &lease, turn, &seen.records);
            }
            if let Some(surroundings) = surroundings.take()
                && surroundings.append(&self.history, &seen).await?
            {
                continue;
            }
            let Seen { records, context } = seen;
            if remembered.is_none() {
                remembered = Some(self.remember(&lease, &records).await);
            }
            let Next::Answer { turn, leaves_more, has_reply } = next else {
                // A message that waits for nothing may have come with a time before what the next run would read.
                let known = lease.head.context_from.as_ref();
                let is_moved = lease.head.context_from != read_from;
                let reaches = context
                    .reaches_back_to
                    .filter(|from| known.is_some_and(|known| from < known || (is_moved && from > known)));
                let has_stopped = has_stopped(&lease.head);
                let remembered = remembered.unwrap_or_default();
                return Ok(Found::Nothing(Ending { context_from: reaches, has_stopped, ..remembered }));
            };
            if turn.resumes.is_some() {
                let remembered = remembered.unwrap_or_default();
                let found = self.look_at_resumed(lease, turn, remembered.clone()).await?;
                // Where it is gone, so is what it asked.
                return Ok(found.map_or(Found::Nothing(remembered), |work| Found::Work(Box::new(work))));
            }
            if committed.is_none()
                && let Some(pause) = self.pause_for_more(&records, &context.unanswered)
            {
                self.clock.sleep(pause).await;
                continue;
            }
            if !has_reply {
                // Neither room nor memory is for what another turn answers, maybe on another line of the chat.
                let own = of_turn(&records, &turn, self.clock.now(), &policy);
                let asks_model = turn.covers.last().is_some_and(|base| !context.to_compact.contains(base));
                if asks_model && memory.is_none() {
                    memory = Some(self.recall(&lease.chat, &own).await);
                }
                // `echo` calls nothing.
                if asks_model && !self.model.is_echo() && outside.is_none() {
                    outside = Some(self.offer().await);
                }
                let (known, offer) = (memory.as_ref().and_then(Option::as_ref), outside.as_ref());
                offered = offer.map(|offer| self.offered(&lease.head, known, offer)).unwrap_or_default();
                let notes = notes(known, offer);
                let budget = self.policy(tools::beside(notes.as_deref(), &offered)).token_budget;
                if asks_model && self.make_room(&mut lease, &own, budget, &mut passes).await? {
                    continue;
                }
            }
            let is_committed = lease.head.turn.is_some();
            let reaches_back_to = context.reaches_back_to;
            return Ok(Found::Work(Box::new(Work {
                lease,
                records,
                turn,
                is_committed,
                leaves_more,
                reaches_back_to,
                from,
                remembered: remembered.unwrap_or_default(),
                memory: memory.flatten(),
                outside: outside.unwrap_or_default(),
                tools: offered,
                resumption: None,
                stopped_by: None,
                feed: Feed::default(),
            })));
        }
    }

    /// Has this run and later ones read from the message that the queue named, if that is earlier than the head says. If this
    /// turn ends among the dead letters, the chat's next one still finds what it was about.
    async fn reach_back(&self, lease: &mut Lease, from: Option<&SortKey>) -> Result<(), TurnError> {
        let known = lease.head.context_from.as_ref();
        if let Some(from) = from.filter(|from| known.is_some_and(|known| *from < known)) {
            self.history.reach_back(lease, from).await??;
            lease.head.context_from = Some(from.clone());
        }
        Ok(())
    }

    /// Returns whether the messages that the queue named are answered, as far as a small query can tell: in a burst, one run
    /// answers what many turns are about. Nothing is read if one of them is newer than all that was answered.
    async fn is_done(&self, lease: &Lease, named: &[SortKey]) -> Result<bool, TurnError> {
        let Lease { chat, head, .. } = lease;
        let may_be = !named.is_empty() && named.iter().max() <= head.answered_to.as_ref();
        let is_free = head.turn.is_none() && head.stopped_to.is_none();
        Ok(may_be && is_free && self.history.are_covered_lately(chat, named).await?)
    }

    /// Adds to `records` the messages that the committed `turn` covers, and its reply, as far as they have left the table
    /// since, out of the archive. Returns `false` if the newest message is nowhere: then the turn cannot be carried out any
    /// more.
    pub(crate) async fn add_covered(
        &self,
        chat: &ChatKey,
        turn: &OpenTurn,
        records: &mut Vec<Record>,
    ) -> Result<bool, TurnError> {
        let is_there = |records: &[Record], base: &SortKey| {
            let turn = OpenTurn::new(vec![base.clone()]);
            newest_covered(records, &turn).is_some()
        };
        let now = self.clock.now();
        for base in &turn.covers {
            // TTL deletes in any order: the reply may have left the table before what it covers.
            let may_have_reply = turn.covers.last() == Some(base)
                && self.history.retention().may_have_left(base.ts(), now)
                && !records.iter().any(|record| record.key == base.reply());
            if may_have_reply || !is_there(records, base) {
                let archived = self.history.archived_message(chat, base).await?.records;
                records.extend(archived.into_iter().filter(|record| record.kind != Kind::Summary));
            }
        }
        records.sort_by(|a, b| a.key.cmp(&b.key));
        records.dedup_by(|later, first| later.key == first.key);
        // They wait for their answer as if they had come now, also past their dates.
        let renewed = self.history.retention().expires_at(now);
        for record in records.iter_mut().filter(|record| turn.covers.contains(&record.key.base())) {
            record.expires_at = later_expiry(record.expires_at, renewed);
        }
        let is_whole = turn.covers.last().is_none_or(|base| is_there(records, base));
        if !is_whole {
            tracing::error!(
                chat = %chat.session_id(), covers = ?turn.covers,
                "a turn is given up: the messages that it covers are neither in the table nor in the archive"
            );
        }
        Ok(is_whole)
    }

    /// Has people see that `turn` is carried out, where its newest message is at hand and the platform takes anything.
    fn announce(&self, signs: &Signs, lease: &Lease, turn: &OpenTurn, records: &[Record]) {
        let blocked = lease.head.blocked.as_ref();
        if let Some(to) = newest_covered(records, turn)
            && !blocked.is_some_and(|blocked| still_blocked(blocked, to, self.clock.now()))
        {
            signs.begin(to, turn.resumes.is_none());
        }
    }

    /// What makes room in a context.
    pub(crate) fn compaction(&self) -> Compaction {
        Compaction {
            history: self.history.clone(),
            model: self.model.clone(),
            view: self.view,
            agent_id: self.agent_id.clone(),
            metrics: self.metrics.clone(),
        }
    }

    /// What outside servers have to offer.
    pub(crate) async fn offer(&self) -> Offer {
        match &self.servers {
            Some(servers) => servers.offer(&self.history).await,
            None => Offer::default(),
        }
    }

    /// What a turn of a chat of this head offers the model. The like in each of its turns, whatever memory says in one:
    /// what a provider has read of a request starts with it.
    pub(crate) fn offered(&self, head: &Head, memory: Option<&Recalled>, outside: &Offer) -> Vec<Kit> {
        tools::fitting(&tools::available(head, memory, &outside.tools), self.view.window)
    }

    /// The policy of a context beside whose prompt stand these tokens more.
    pub(crate) fn policy(&self, beside: u32) -> Policy {
        let prompt = self.system_prompt.as_deref().map_or(0, tokens::of_text);
        self.view.policy(prompt.saturating_add(beside))
    }
}
