//! Continuing a reply whose calls were approved or denied: the approved calls are carried out, and the model is asked again
//! with their results.
//!
//! Each step is a later form of the reply, put create-only at the next place, before the next step is taken:
//!
//! | form | content | after a crash that follows it |
//! | --- | --- | --- |
//! | answers | denied calls are over, approved ones are about to be made | a call was made or not: the next run says that its outcome is unknown, and does not make it again |
//! | results | the result of each call | the next run asks the model |
//! | the end | the model's next words, maybe with another request | the next run delivers the parts that people have not seen |
//!
//! A reply that a `/stop` has ended has one form more, which says so, and does not continue: see [`approval::stopped`].
//!
//! The model sees the context of its first request: the messages before the reply, then its own calls with their results.
//! Later messages follow the reply, and a turn of their own answers them.

use annals_core::approval::{self, UNKNOWN, Verdict};
use annals_core::message::{ToolCall, UiMessage};
use annals_core::record::Record;
use annals_engine::live::Feed;
use annals_model::{Done, exchange};

use crate::agent::Agent;
use crate::ask::{Asked, Scope, ask};
use crate::error::TurnError;
use crate::mcp::Session;
use crate::retry_policy::CALLS_TIME;
use crate::rounds::RESULT_TOKENS;
use crate::run::Run;
use crate::task::{ClaimedTurn, PausedReply};
use crate::tools::Toolbox;
use crate::tools::offered::Offered;
use crate::tools::result::{Output, cut_to};

/// Continues the reply until it is complete, or waits for another approval; returns its newest form.
pub(crate) async fn resume(
    agent: &Agent,
    run: &Run<'_>,
    turn: &mut ClaimedTurn,
    offered: Offered,
    paused: &PausedReply,
    feed: &Feed,
) -> Result<Record, TurnError> {
    let (history, PausedReply { reply, forms, .. }) = (&agent.history, paused);
    turn.commit(history).await?;
    let mut form = paused.newest().clone();
    if let Some(stopped) = approval::stopped_by_answer(forms, &reply.key) {
        return turn.put_form(agent, reply, &form, stopped).await;
    }
    let verdicts: Vec<Verdict> = forms.iter().filter_map(Verdict::of).collect();
    let mut is_own = false;
    // A turn that was committed for an earlier form has the rest of this one to send, request and all; the next turn continues it.
    let is_its_own = turn.turn.resumes.as_ref().is_none_or(|resumes| form.revision() == resumes.shown);
    if is_its_own && approval::is_answered(&form.message, &verdicts) {
        let message = approval::answered(&form.message, &verdicts);
        // Once the answers are stored, no later run makes the calls.
        let is_unreachable = |done: Done| offered.may_be_unreachable(&done.call.name);
        if !run.attempt.ends_asking()
            && approval::allowed(&message).filter_map(exchange::done).any(is_unreachable)
        {
            return Err(TurnError::ServerUnreachable);
        }
        form = turn.put_form(agent, reply, &form, message).await?;
        is_own = true;
    }
    let approved: Vec<ToolCall> =
        approval::allowed(&form.message).filter_map(exchange::done).map(|done| done.call).collect();
    feed.parts(&form.message.parts);
    if !approved.is_empty() {
        let outcomes = if is_own {
            call_approved(agent, run, turn, &offered, (&form.message, &approved), feed).await
        } else {
            approved.iter().map(|_| Err(UNKNOWN.to_owned())).collect()
        };
        let message = approval::carried_out(&form.message, outcomes);
        form = turn.put_form(agent, reply, &form, message).await?;
        feed.parts(&form.message.parts);
    }
    if approval::is_unfinished(&form.message) {
        let scope = Scope::Paused { reply, message: &form.message };
        let Asked::Reply(more) = ask(agent, run, turn, scope, offered, feed).await? else {
            return Ok(form);
        };
        let mut metadata = form.message.metadata.clone();
        metadata.extend(more.metadata);
        let message = UiMessage { parts: more.parts, metadata, ..form.message.clone() };
        form = turn.put_form(agent, reply, &form, message).await?;
    }
    Ok(form)
}

/// Carries out the approved calls of `message` one after the other, within the time for calls.
async fn call_approved(
    agent: &Agent,
    run: &Run<'_>,
    turn: &ClaimedTurn,
    offered: &Offered,
    (message, calls): (&UiMessage, &[ToolCall]),
    feed: &Feed,
) -> Vec<Output> {
    let clock = &agent.clock;
    let until = run.ask_until().min(clock.now().plus(CALLS_TIME));
    let session = agent.servers.as_deref().map(Session::new);
    let toolbox = Toolbox::new(agent, turn, offered, &[], session.as_ref(), None);
    let mut outcomes = Vec::new();
    for (nth, call) in calls.iter().enumerate() {
        let left = until.since(clock.now());
        outcomes.push(match toolbox.call_allowed(call, nth, &[], left).await {
            Ok(output) => Ok(cut_to(&output, RESULT_TOKENS)),
            Err(error) => Err(cut_to(&error.into(), RESULT_TOKENS).as_str().unwrap_or_default().to_owned()),
        });
        feed.parts(&approval::carried_out(message, outcomes.clone()).parts);
    }
    outcomes
}
