//! One compaction, step by step:
//!
//! 1. ask the model; an invalid summary ends it here, with nothing changed
//! 2. commit to the last message that it will count, in the chat's head, under the run's lease
//! 3. archive the raw records up to there, read back before anything refers to them
//! 4. append the summary, create-only
//! 5. remove the plan, and note the start of the context
//!
//! Each prefix is harmless: the context is made of the records alone, and changes with step 4 at once. A run that finds
//! a plan carries out that one first, so two compactions of one chat use one key, where the first summary stands. A
//! message that is appended meanwhile is not counted, and so is shown, whatever its time.

use annals_core::compaction::cut::{Cut, Rules, Why, cut, cut_at, expires, to_keep};
use annals_core::compaction::summary::{MAX_QUOTED, NoSummary, SourceTokens, accept, extract, prompt};
use annals_core::context::context;
use annals_core::context::view::SessionView;
use annals_core::memory::Owner;
use annals_core::memory::owner::only_person;
use annals_core::prompt::Prompt;
use annals_core::record::Record;
use annals_core::sort_key::{SortKey, Timestamp};
use annals_core::time_marks::LocalTime;
use annals_io::metrics::{Metric, Metrics};
use annals_model::{Model, ModelError};
use annals_store::history::turn::Lease;
use annals_store::history::{History, HistoryError};
use annals_store::memory::{Memory, MemoryError};

use crate::settings::ViewConfig;

/// Minimum and maximum tokens of a summary, and its share of the tokens for messages.
const SUMMARY_TOKENS: (u32, u32) = (64, 4_000);
const SUMMARY_SHARE: u32 = 8;
/// Maximum number of requests for one summary: while the model finds the source too long, half of it is tried.
const MAX_HALVINGS: u32 = 5;

/// Compacts chats.
#[derive(Clone)]
pub struct Compaction {
    pub history: History,
    pub model: Model,
    pub view: ViewConfig,
    /// The chat's agent: the author of summaries.
    pub agent_id: String,
    /// `agent_id`, unless that is the default agent: an agent that has memory of its own.
    pub profile_id: Option<String>,
    pub metrics: Metrics,
}

/// A failed compaction, which the next run continues; or a [join](Compaction::join) that is not carried out, or only
/// in part, and continues in the next run.
#[derive(Debug, thiserror::Error)]
pub enum CompactionError {
    #[error(transparent)]
    History(#[from] HistoryError),
    #[error(transparent)]
    Memory(#[from] MemoryError),
    #[error("no summary was made: {0}")]
    Model(#[from] ModelError),
    #[error("no summary was made: {0}")]
    NoSummary(#[from] NoSummary),
}

/// The result of a compaction.
#[derive(Clone, Debug, PartialEq)]
pub struct Compacted {
    pub summary: Record,
    /// Number of messages that it counts beyond those of the summary that it folds.
    pub counted: usize,
    /// The start of the context now.
    pub context_from: Option<SortKey>,
    /// True if more messages after it are to be compacted, for the same reason.
    pub leaves_more: bool,
}

impl Compaction {
    /// Compacts the Session of `records`, which were read for a context of the chat of `lease`, in order. `focus` is
    /// the topic that the person who asked wants kept. `None` if there is nothing that may be cut.
    #[tracing::instrument(name = "compact", skip_all)]
    pub async fn run(
        &self,
        lease: &mut Lease,
        records: &[Record],
        why: Why,
        focus: Option<&str>,
    ) -> Result<Option<Compacted>, CompactionError> {
        let compacted = self.summarise_once(lease, records, why, focus).await;
        match &compacted {
            Ok(Some(_)) => self.metrics.add(Metric::Compactions, 1),
            // The process that claimed the chat compacts it.
            Ok(None) | Err(CompactionError::History(HistoryError::LeaseLost)) => {}
            Err(_) => self.metrics.add(Metric::CompactionFailures, 1),
        }
        compacted
    }

    async fn summarise_once(
        &self,
        lease: &mut Lease,
        records: &[Record],
        why: Why,
        focus: Option<&str>,
    ) -> Result<Option<Compacted>, CompactionError> {
        let (now, policy, mut rules) = (self.history.clock().now(), self.view.policy(0), self.rules());
        let view = SessionView::of(records, now, &policy);
        if let Some(to) = lease.head.compacting.clone() {
            if let Some(stored) = records.iter().find(|record| record.key == to.summary()) {
                self.history.end_summary(lease).await?;
                let summary = stored.clone();
                let context_from = context(records, now, &policy).reaches_back_to;
                return Ok(Some(Compacted { summary, counted: 0, context_from, leaves_more: true }));
            }
            let is_it = |cut: &Cut<'_, '_>| cut.counted.last().is_some_and(|last| *last.key() == to);
            if !cut_at(&view, &to).is_some_and(|cut| is_it(&cut)) {
                // A new Session has begun meanwhile, or the message was taken back: no cut ends there any more.
                self.history.end_summary(lease).await?;
            }
        }
        if let Why::TooLong { budget } = why {
            // A context that is too long for an answer is too long for a summary.
            rules.source_tokens = rules.source_tokens.min(budget);
        }
        for _ in 0..MAX_HALVINGS {
            let cut = match &lease.head.compacting {
                Some(to) => cut_at(&view, to),
                None => cut(&view, why, &rules, now),
            };
            let Some(cut) = cut else { return Ok(None) };
            match self.carry_out(lease, records, &view, &cut, &rules, focus).await {
                Err(CompactionError::Model(ModelError::ContextTooLong)) => {
                    let quoted = cut.counted.len().saturating_mul(MAX_QUOTED);
                    let asked = view.tokens_of(cut.counted).min(rules.source_tokens);
                    rules.source_tokens = asked.min(u32::try_from(quoted).unwrap_or(u32::MAX)) / 2;
                }
                carried_out => return carried_out.map(Some),
            }
        }
        Err(ModelError::ContextTooLong.into())
    }

    /// Returns the reason to compact `records`, read for a context, if there is one: they show more than `budget`
    /// tokens, or a record that may leave the table while the Session is still live.
    pub fn is_due(&self, records: &[Record], budget: u32) -> Option<Why> {
        let now = self.history.clock().now();
        let view = SessionView::of(records, now, &self.view.policy(0));
        let summary = view.summary.map_or(0, |summary| view.corrected(summary.tokens));
        let shown = view.tokens_of(&view.earlier).saturating_add(view.tokens_of(&view.unanswered));
        if shown.saturating_add(summary).saturating_add(view.guide_tokens()) > budget
            && !view.earlier.is_empty()
        {
            return Some(Why::TooLong { budget });
        }
        let horizon = self.history.retention().horizon(now);
        expires(&view, horizon.soon).then_some(Why::Expiring { before: horizon.before_long })
    }

    /// Moves on the dates of the records that [`to_keep`] names, for a Session that no summary can take in. One write for
    /// each.
    pub async fn keep(&self, records: &[Record], before: i64) -> Result<(), HistoryError> {
        let now = self.history.clock().now();
        let view = SessionView::of(records, now, &self.view.policy(0));
        for record in to_keep(&view, records, before) {
            self.history.prolong(record, now).await?;
        }
        Ok(())
    }

    async fn carry_out(
        &self,
        lease: &mut Lease,
        records: &[Record],
        view: &SessionView<'_>,
        cut: &Cut<'_, '_>,
        rules: &Rules,
        focus: Option<&str>,
    ) -> Result<Compacted, CompactionError> {
        let text = self.summarise(view, cut, rules, focus).await?;
        // The records were read after the last of them had arrived.
        let read_at = records.iter().map(|record| record.sent_at).max().unwrap_or(Timestamp::MIN);
        let (Some(source), Some(last)) = (cut.source(read_at), cut.counted.last()) else {
            return Err(NoSummary::Empty.into());
        };
        if lease.head.compacting.is_none() {
            self.history.plan_summary(lease, &source.to).await?;
        }
        // All records up to there, also those that no context shows. An earlier name of the chat is archived on its
        // own.
        let is_raw = |record: &&Record| record.chat == lease.chat && record.key.base() <= source.to.base();
        let raw: Vec<Record> = records.iter().filter(is_raw).cloned().collect();
        self.history.archive(lease, &raw).await?;
        let person = person_in(cut);
        let beside = Record { chat: lease.chat.clone(), person, ..last.first.clone() };
        let made = records.iter().filter(|record| record.source().is_some()).map(|record| record.sent_at);
        let made_last = made.max().unwrap_or(Timestamp::MIN);
        let summary = self.history.append_summary(&beside, &self.agent_id, &text, source, made_last).await?;
        let mut with_summary = records.to_vec();
        with_summary.push(summary.clone());
        with_summary.sort_by(|a, b| a.key.cmp(&b.key));
        let after = context(&with_summary, self.history.clock().now(), &self.view.policy(0));
        self.history.end_summary(lease).await?;
        tracing::info!(counted = cut.counted.len(), tokens = summary.tokens, "compacted");
        Ok(Compacted {
            summary,
            counted: cut.counted.len(),
            context_from: after.reaches_back_to,
            leaves_more: cut.leaves_more,
        })
    }

    /// Asks the model for a summary of `cut`, a part of `view`, with attention to `focus`.
    pub(crate) async fn summarise(
        &self,
        view: &SessionView<'_>,
        cut: &Cut<'_, '_>,
        rules: &Rules,
        focus: Option<&str>,
    ) -> Result<String, CompactionError> {
        let folded = cut.folded.map_or(0, |folded| folded.tokens);
        let counted = cut.counted.iter().fold(0, |sum: u32, m| sum.saturating_add(m.tokens()));
        let source_tokens = counted.saturating_add(folded);
        let max_tokens = rules.summary_tokens.min(source_tokens);
        let text = if self.model.is_echo() {
            extract(cut, max_tokens)
        } else {
            let local_time = self.local_time(cut).await;
            let source = SourceTokens { counted: view.corrected(counted), limit: rules.source_tokens };
            let mut prompt = prompt(cut, max_tokens, source, focus, &local_time);
            prompt.max_tokens = view.corrected(prompt.max_tokens);
            match self.model.complete(&prompt).await {
                Err(ModelError::Filtered) => return Err(NoSummary::Refusal.into()),
                answer => answer?.text,
            }
        };
        Ok(accept(&text, source_tokens, max_tokens)?)
    }

    /// Returns the local time in which the summary of `cut` is told times: of the only person who speaks, or of everybody.
    /// One read for a person.
    async fn local_time(&self, cut: &Cut<'_, '_>) -> LocalTime {
        let Some(person) = person_in(cut) else { return LocalTime::of(self.view.time_zone) };
        let of_client =
            cut.counted.iter().rev().find_map(|message| message.first.message.metadata.time_zone());
        let own = Memory::beside(&self.history).time_zone(&self.owner(person)).await;
        let own = own.unwrap_or_else(|error| {
            tracing::warn!(%error, "failed to read the time zone of a person; TIME_ZONE is used for the summary");
            None
        });
        LocalTime::of(own.or(of_client).unwrap_or(self.view.time_zone))
    }

    /// Returns the memory that the agent has of `person`.
    pub(crate) fn owner(&self, person: String) -> Owner {
        Owner::of_person(self.profile_id.as_deref(), person)
    }

    /// Returns the rules of a cut under the settings.
    pub fn rules(&self) -> Rules {
        let budget = self.view.policy(0).token_budget;
        let (least, most) = SUMMARY_TOKENS;
        Rules {
            keep_recent: self.view.keep_recent,
            // In a tiny window the minimum would be more than fits.
            summary_tokens: (budget / SUMMARY_SHARE).clamp(least, most).min(budget / 2),
            source_tokens: Prompt::source_budget(budget),
            approval_patience: self.view.approval_patience(),
        }
    }
}

/// Returns the only person whose messages `cut` counts or folds.
fn person_in(cut: &Cut<'_, '_>) -> Option<String> {
    only_person(cut.folded.into_iter().chain(cut.counted.iter().map(|message| message.first)))
}
