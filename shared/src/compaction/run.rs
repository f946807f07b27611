//! One compaction, step by step:
//!
//! 1. ask the model; an answer that is no summary ends it here, with nothing changed
//! 2. commit to the last message it will count, in the chat's head, under the run's lease
//! 3. archive the raw records up to there, read back before anything refers to them
//! 4. append the summary, create-only
//! 5. give up the plan, and note where the context starts now
//!
//! Each prefix is harmless: the context is made of the records alone, and changes with step 4 at once. A run that finds a
//! plan carries out that one first, so two compactions of one chat meet at one key, where the first summary stands. What
//! is appended meanwhile is not counted, and so is shown, whatever its time.

use std::collections::{BTreeMap, BTreeSet};

use crate::compaction::cut::{Cut, Rules, Why, cut, cut_at, expires};
use crate::compaction::summary::{NoSummary, accept, extract, prompt};
use crate::config::ViewConfig;
use crate::context::view::View;
use crate::context::{Policy, context};
use crate::history::turn::{Lease, Superseded};
use crate::history::{History, HistoryError};
use crate::memory::owner::only_person;
use crate::metrics::{Metric, Metrics};
use crate::model::{Finish, Model, ModelError, Prompt};
use crate::record::Record;
use crate::sort_key::{SortKey, Timestamp};

/// The least and the most tokens of a summary, and its share of what messages may take.
const SUMMARY_TOKENS: (u32, u32) = (64, 4_000);
const SUMMARY_SHARE: u32 = 8;
/// How many sources of a summary are tried where the model finds them too long, each half as long as the one before.
const MAX_HALVINGS: usize = 5;

/// Compacts chats.
#[derive(Clone)]
pub struct Compaction {
    /// The histories.
    pub history: History,
    /// What summarises.
    pub model: Model,
    /// What decides a context.
    pub view: ViewConfig,
    /// `AGENT_ID`: who speaks in summaries.
    pub agent_id: String,
    /// Where compactions are counted.
    pub metrics: Metrics,
}

/// A chat is not compacted; its history is as it was.
#[derive(Debug, thiserror::Error)]
pub enum CompactionError {
    /// The history could not be read or written.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// The model gave no answer.
    #[error("no summary was made: {0}")]
    Model(#[from] ModelError),
    /// The model's answer is no summary.
    #[error("no summary was made: {0}")]
    NoSummary(#[from] NoSummary),
    /// Another run took the chat over.
    #[error(transparent)]
    Superseded(#[from] Superseded),
}

/// What a compaction did.
#[derive(Clone, Debug, PartialEq)]
pub struct Compacted {
    /// The summary as stored.
    pub summary: Record,
    /// How many messages it counts beyond those of the summary it folds.
    pub counted: usize,
    /// Where the context starts now.
    pub context_from: Option<SortKey>,
    /// Whether there is more to compact behind it, for the same reason.
    pub leaves_more: bool,
}

impl Compaction {
    /// Compacts the Session of `records`, which were read for a context of the chat of `lease`, in order. `focus` is
    /// what the person who asked wants kept in mind. `None` where there is nothing that may be cut.
    #[tracing::instrument(name = "compact", skip_all)]
    pub async fn run(
        &self,
        lease: &Lease,
        records: &[Record],
        why: Why,
        focus: Option<&str>,
    ) -> Result<Option<Compacted>, CompactionError> {
        let compacted = self.run_uncounted(lease, records, why, focus).await;
        match &compacted {
            Ok(Some(_)) => self.metrics.add(Metric::Compactions, 1),
            // Who took the chat over compacts it.
            Ok(None) | Err(CompactionError::Superseded(_)) => {}
            Err(_) => self.metrics.add(Metric::CompactionFailures, 1),
        }
        compacted
    }

    async fn run_uncounted(
        &self,
        lease: &Lease,
        records: &[Record],
        why: Why,
        focus: Option<&str>,
    ) -> Result<Option<Compacted>, CompactionError> {
        let (now, policy, mut rules) = (self.history.clock().now(), self.view.policy(0), self.rules());
        let view = View::of(records, now, &policy);
        let mut lease = lease.clone();
        if let Some(to) = lease.head.compacting.take() {
            if let Some(stored) = records.iter().find(|record| record.key == to.summary()) {
                return self.give_up_plan(&lease, records, &policy).await.map(|context_from| {
                    let summary = stored.clone();
                    Some(Compacted { summary, counted: 0, context_from, leaves_more: true })
                });
            }
            let is_it = |cut: &Cut<'_, '_>| cut.counted.last().is_some_and(|last| *last.key() == to);
            if let Some(cut) = cut_at(&view, &to).filter(is_it) {
                lease.head.compacting = Some(to);
                return self.carry_out(&lease, records, &view, &cut, &rules, focus).await.map(Some);
            }
            // A new Session has begun meanwhile, or the message was taken back: nothing ends there any more.
            self.give_up_plan(&lease, records, &policy).await?;
        }
        if let Why::Room { budget } = why {
            // What the model found too long for an answer, it finds too long for a summary.
            rules.source_tokens = rules.source_tokens.min(budget);
        }
        for _ in 0..MAX_HALVINGS {
            let Some(cut) = cut(&view, why, &rules, now) else { return Ok(None) };
            match self.carry_out(&lease, records, &view, &cut, &rules, focus).await {
                Err(CompactionError::Model(ModelError::ContextTooLong)) if cut.counted.len() > 1 => {
                    rules.source_tokens = view.tokens_of(cut.counted) / 2;
                }
                carried_out => return carried_out.map(Some),
            }
        }
        Err(ModelError::ContextTooLong.into())
    }

    /// Why `records`, read for a context, are to be compacted now, if they are: they show more than `budget` tokens, or
    /// something that leaves the table before somebody who is as slow as a live Session allows writes again.
    pub fn is_due(&self, records: &[Record], budget: u32) -> Option<Why> {
        let now = self.history.clock().now();
        let view = View::of(records, now, &self.view.policy(0));
        let summary = view.summary.map_or(0, |summary| view.corrected(summary.tokens));
        let shown = view.tokens_of(&view.earlier).saturating_add(view.tokens_of(&view.unanswered));
        if shown.saturating_add(summary).saturating_add(view.guide_tokens()) > budget
            && !view.earlier.is_empty()
        {
            return Some(Why::Room { budget });
        }
        let horizon = self.history.retention().horizon(now);
        expires(&view, horizon.soon).then_some(Why::Expiring { before: horizon.before_long })
    }

    /// Moves on the date of all that the Session of `records` shows, or that waits for its answer, and that leaves the table
    /// before `before`, in epoch seconds: for what no summary can take in. One write for each. What covers a message has its
    /// date moved on first, so that it never leaves before the message.
    pub async fn keep(&self, records: &[Record], before: i64) -> Result<(), HistoryError> {
        let view = View::of(records, self.history.clock().now(), &self.view.policy(0));
        let leaves = |record: &&Record| record.expires_at.is_some_and(|at| at < before);
        let kept: BTreeMap<&SortKey, &Record> =
            view.shown_records().filter(leaves).map(|record| (&record.key, record)).collect();
        let bases: BTreeSet<SortKey> = kept.keys().map(|key| key.base()).collect();
        let covers = |record: &&Record| record.covers.iter().any(|covered| bases.contains(covered));
        let covering: Vec<&Record> = records.iter().filter(covers).collect();
        let rest = kept.into_values().filter(|record| !covering.iter().any(|other| other.key == record.key));
        for record in covering.iter().copied().chain(rest) {
            self.history.prolong(record).await?;
        }
        Ok(())
    }

    async fn carry_out(
        &self,
        lease: &Lease,
        records: &[Record],
        view: &View<'_>,
        cut: &Cut<'_, '_>,
        rules: &Rules,
        focus: Option<&str>,
    ) -> Result<Compacted, CompactionError> {
        let text = self.summarise(view, cut, rules, focus).await?;
        // They were read after the last of them had arrived.
        let read_at = records.iter().map(|record| record.sent_at).max().unwrap_or(Timestamp::MIN);
        let (Some(source), Some(last)) = (cut.source(read_at), cut.counted.last()) else {
            return Err(NoSummary::Empty.into());
        };
        if lease.head.compacting.is_none() {
            self.history.plan_summary(lease, &source.to).await??;
        }
        // All that stands up to there, also what no context shows. An earlier name of the chat is archived by itself.
        let is_raw = |record: &&Record| record.chat == lease.chat && record.key.base() <= source.to.base();
        let raw: Vec<Record> = records.iter().filter(is_raw).cloned().collect();
        self.history.archive(lease, &raw).await??;
        let person = only_person(cut.counted.iter().map(|message| message.first), cut.folded);
        let beside = Record { chat: lease.chat.clone(), person, ..last.first.clone() };
        let summary = self.history.append_summary(&beside, &self.agent_id, &text, source).await?;
        let mut with_summary = records.to_vec();
        with_summary.push(summary.clone());
        with_summary.sort_by(|a, b| a.key.cmp(&b.key));
        let after = context(&with_summary, self.history.clock().now(), &self.view.policy(0));
        self.history.end_summary(lease, after.reaches_back_to.as_ref()).await??;
        tracing::info!(counted = cut.counted.len(), tokens = summary.tokens, "compacted");
        Ok(Compacted {
            summary,
            counted: cut.counted.len(),
            context_from: after.reaches_back_to,
            leaves_more: cut.leaves_more,
        })
    }

    /// Gives up a plan that an earlier run has carried out but for this, or that nothing is left of; answers where the
    /// context starts now.
    async fn give_up_plan(
        &self,
        lease: &Lease,
        records: &[Record],
        policy: &Policy,
    ) -> Result<Option<SortKey>, CompactionError> {
        let from = context(records, self.history.clock().now(), policy).reaches_back_to;
        self.history.end_summary(lease, from.as_ref()).await??;
        Ok(from)
    }

    async fn summarise(
        &self,
        view: &View<'_>,
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
            let mut prompt = prompt(cut, max_tokens, rules.source_tokens, focus);
            prompt.max_tokens = view.corrected(prompt.max_tokens);
            let answer = self.model.complete(&prompt).await?;
            if answer.finish == Finish::ContentFilter {
                return Err(NoSummary::Refusal.into());
            }
            answer.text
        };
        Ok(accept(&text, source_tokens, max_tokens)?)
    }

    /// What decides a cut under the settings.
    pub fn rules(&self) -> Rules {
        let budget = self.view.policy(0).token_budget;
        let (least, most) = SUMMARY_TOKENS;
        Rules {
            keep_recent: self.view.keep_recent,
            // In a tiny window the least would be more than can be shown.
            summary_tokens: (budget / SUMMARY_SHARE).clamp(least, most).min(budget / 2),
            source_tokens: Prompt::source_budget(budget),
            approval_patience: self.view.approval_patience(),
        }
    }
}
