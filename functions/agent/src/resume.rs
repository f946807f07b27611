//! A reply that goes on: somebody has answered what it asked, so what is allowed is carried out, and the model is asked again
//! with what came of it.
//!
//! Each step is a later form of the reply, put create-only at the next place, before the next step is taken:
//!
//! | form | what it holds | a crash behind it leaves |
//! | --- | --- | --- |
//! | answers | what is denied is over, what is allowed is about to be called | a call that was made or not: the next run says that nobody knows, and does not make it again |
//! | results | what each call came to | the next run asks the model |
//! | the end | what the model said behind that, maybe with another request | the next run delivers what people have not seen |
//!
//! What a `/stop` has ended has one form more, which says so, and does not go on: see [`approval::stopped`].
//!
//! The model sees what it saw when it asked: what stands before the reply, then its own calls with their results. What was
//! said since has its place behind the reply, and is answered, or was, by a turn of its own.

use annals_shared::approval::{self, Verdict};
use annals_shared::history::ReplyAppended;
use annals_shared::history::turn::{Ending, Lease, OpenTurn};
use annals_shared::live::Feed;
use annals_shared::message::{Part, UiMessage};
use annals_shared::metrics::Metric;
use annals_shared::model::ToolCall;
use annals_shared::model::exchange::{self, UNKNOWN};
use annals_shared::record::Record;
use annals_shared::sort_key::Timestamp;

use crate::answer::UNFINISHED_NOTICE;
use crate::retry::Attempt;
use crate::rounds::{BOUNDS, Rounds};
use crate::tools::Toolbox;
use crate::tools::result::{Output, cut_to};
use crate::turn::{Agent, TurnError};
use crate::work::{Resumption, Work, of_turn};

impl Agent {
    /// What it takes to go on with the reply that `turn` names; `None` where that has left the table.
    pub(crate) async fn look_at_resumed(
        &self,
        lease: Lease,
        turn: OpenTurn,
        remembered: Ending,
    ) -> Result<Option<Work>, TurnError> {
        let Some(resumed) = turn.resumes.clone() else { return Ok(None) };
        let forms = self.history.message(&lease.chat, &resumed.reply).await?;
        let Some(reply) = forms.iter().find(|record| record.key == resumed.reply).cloned() else {
            return Ok(None);
        };
        let (policy, at) = (self.policy(0), reply.sent_at);
        let base = reply.key.base();
        let from = turn.covers.first().unwrap_or(&base);
        let (chat, head) = (&lease.chat, &lease.head);
        let mut records = self.history.records_before(chat, head, from, &reply.key, at, &policy).await?;
        if !self.add_covered(chat, &turn, &mut records).await? {
            return Ok(None);
        }
        let own = of_turn(&records, &turn, at, &policy);
        let memory = self.recall(chat, &own).await;
        let outside = self.offer().await;
        let tools = self.offered(head, memory.as_ref(), &outside);
        let shown = forms.iter().find(|form| {
            form.revision == resumed.shown
                && (form.key == reply.key || form.key == reply.key.reply_form(resumed.shown))
        });
        let shown_parts = shown.map_or(0, |form| form.message.parts.len());
        Ok(Some(Work {
            is_committed: lease.head.turn.is_some(),
            lease,
            records,
            turn,
            leaves_more: true,
            reaches_back_to: None,
            from: None,
            remembered,
            memory,
            outside,
            tools,
            resumption: Some(Resumption { reply, forms, shown_parts }),
            stopped_by: None,
            feed: Feed::default(),
        }))
    }

    /// Takes the reply to its next end, which it answers with: all is said, or somebody is asked again. Calls and the model
    /// have until `until`.
    pub(crate) async fn resume(
        &self,
        work: &mut Work,
        attempt: Attempt,
        until: Timestamp,
    ) -> Result<Record, TurnError> {
        if !work.is_committed {
            self.history.commit(&work.lease, &work.turn).await??;
            work.is_committed = true;
        }
        let Some(Resumption { reply, forms, .. }) = work.resumption.clone() else {
            return Err(TurnError::Unfinished);
        };
        let mut form = approval::newest_form(&forms, &reply.key).unwrap_or(&reply).clone();
        if let Some(stopped) = approval::stopped_by_answer(&forms, &reply.key) {
            return self.put_form(work, &reply, &form, stopped).await;
        }
        let verdicts: Vec<Verdict> = forms.iter().filter_map(Verdict::of).collect();
        let mut is_own = false;
        if approval::is_answered(&form.message, &verdicts) {
            let message = approval::answered(&form.message, &verdicts);
            form = self.put_form(work, &reply, &form, message).await?;
            is_own = true;
        }
        let allowed: Vec<ToolCall> =
            approval::allowed(&form.message).filter_map(exchange::done).map(|done| done.call).collect();
        work.feed.parts(&form.message.parts);
        if !allowed.is_empty() {
            let outcomes = if is_own {
                self.carry_out(work, &allowed, until).await
            } else {
                allowed.iter().map(|_| Err(UNKNOWN.to_owned())).collect()
            };
            let message = approval::carried_out(&form.message, outcomes);
            form = self.put_form(work, &reply, &form, message).await?;
            work.feed.parts(&form.message.parts);
        }
        if approval::is_unfinished(&form.message) {
            let message = self.go_on(work, &reply, &form.message, attempt, until).await?;
            form = self.put_form(work, &reply, &form, message).await?;
        }
        Ok(form)
    }

    /// Carries out what was allowed, one call behind the other, within the time of a turn's calls, all of which are of
    /// outside tools.
    async fn carry_out(&self, work: &Work, calls: &[ToolCall], until: Timestamp) -> Vec<Output> {
        let until = until.min(self.clock.now().plus(BOUNDS.time));
        let Ok(newest) = work.newest_covered() else { return Vec::new() };
        let toolbox = Toolbox::new(self, work, (newest.line(), &[]), &work.tools);
        let mut outcomes = Vec::new();
        for (nth, call) in calls.iter().enumerate() {
            let left = until.since(self.clock.now());
            let limit = BOUNDS.result_tokens;
            outcomes.push(match toolbox.call_allowed(call, nth, &[], left).await {
                Ok(output) => Ok(cut_to(&output, limit)),
                Err(error) => Err(cut_to(&error.into(), limit).as_str().unwrap_or_default().to_owned()),
            });
        }
        outcomes
    }

    /// Asks the model with what the calls of `message` came to, or on the last try says that there is no answer.
    async fn go_on(
        &self,
        work: &mut Work,
        reply: &Record,
        message: &UiMessage,
        attempt: Attempt,
        until: Timestamp,
    ) -> Result<UiMessage, TurnError> {
        let newest = work.newest_covered()?.clone();
        let (now, until) = self.model_time(until);
        let rounds = Rounds::resumed(message, now, until.since(now), &work.lease.chat, &reply.key);
        match self.ask_on(work, &newest, rounds, attempt, until).await {
            Ok(answer) => {
                let mut metadata = message.metadata.clone();
                metadata.extend(answer.metadata);
                Ok(UiMessage { parts: answer.parts, metadata, ..message.clone() })
            }
            Err(error @ TurnError::Model(_)) if attempt.ends_asking() => {
                tracing::error!(%error, "a reply does not go on after the last try; the user is told");
                self.metrics.add(Metric::TurnsGivenUp, 1);
                let mut message = message.clone();
                message.parts.extend([Part::step_start(), Part::text(UNFINISHED_NOTICE)]);
                Ok(message)
            }
            Err(error) => Err(error),
        }
    }

    /// Puts the form behind `form`. Where it is there already, another run has put it, and goes on.
    pub(crate) async fn put_form(
        &self,
        work: &Work,
        reply: &Record,
        form: &Record,
        message: UiMessage,
    ) -> Result<Record, TurnError> {
        match self.history.append_reply_form(reply, form.revision + 1, message).await? {
            ReplyAppended::Stored(form) => Ok(form),
            ReplyAppended::Present(_) => {
                self.history.commit(&work.lease, &work.turn).await??;
                Err(TurnError::Unfinished)
            }
        }
    }
}
