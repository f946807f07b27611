//! The answer of a turn: the model's reply, or a notice that there is none, is stored.

use annals_core::language::Language;
use annals_core::limits::Quota;
use annals_core::message::{Part, Role, UiMessage};
use annals_core::metadata::Notice;
use annals_core::record::{Channel, Kind, Record};
use annals_core::schedule::shown;
use annals_core::sort_key::{SortKey, Timestamp};
use annals_core::takeover::SentFrom;
use annals_engine::compaction::CompactionError;
use annals_engine::live::Feed;
use annals_io::metrics::Metric;
use annals_model::ModelError;
use annals_store::history::ReplyAppended;

use crate::agent::Agent;
use crate::ask::{Asked, Scope, TIMED_OUT, ask};
use crate::budget::compact_on_command;
use crate::error::TurnError;
use crate::retry_policy::Asking;
use crate::run::Run;
use crate::task::ClaimedTurn;
use crate::tools::offered::Offered;

/// Returns true if the text of `message`, a notice, says that a turn failed.
pub fn is_failure_text(message: &UiMessage) -> bool {
    let is_typed = matches!(message.metadata.notice(), Some(Notice::NoAnswer | Notice::NotCompacted));
    // Records of earlier versions have the English text alone.
    let is_text = || {
        let (text, english) = (message.plain_text(), Language::En.texts());
        text == english.no_answer() || text == english.not_compacted()
    };
    is_typed || is_text()
}

/// Asks the model, commits to the turn, and stores the reply, or on the last attempt a notice that there is none. The records
/// are read from `read_from`, if that is earlier than the head says.
pub(crate) async fn answer(
    agent: &Agent,
    run: &Run<'_>,
    turn: &mut ClaimedTurn,
    offered: Offered,
    read_from: Option<SortKey>,
    feed: &Feed,
) -> Result<Record, TurnError> {
    let (kind, message) = match ask(agent, run, turn, Scope::New { read_from }, offered, feed).await? {
        Asked::Reply(mut message) => {
            begin_with_step(&mut message, turn.newest.channel);
            (Kind::Normal, message)
        }
        Asked::Nothing { text, cause } => (Kind::Notice, failure(Notice::NoAnswer, text, &cause)),
    };
    store(agent, turn, kind, message).await
}

/// Commits to the turn, and stores a notice that the limit of `quota` is reached `until` a time.
pub(crate) async fn refuse(
    agent: &Agent,
    turn: &mut ClaimedTurn,
    quota: &Quota,
    until: Timestamp,
) -> Result<Record, TurnError> {
    let until = shown(until, agent.view.time_zone);
    let text = turn.texts(agent.language).limit_reached(quota, &until);
    let mut notice = UiMessage::text("", Role::Assistant, text);
    notice.metadata.set_notice(Notice::LimitReached);
    store(agent, turn, Kind::Notice, notice).await
}

/// Carries out a `/compact`, commits to the turn, and stores a notice of the result.
pub(crate) async fn answer_compact_command(
    agent: &Agent,
    run: &Run<'_>,
    turn: &mut ClaimedTurn,
) -> Result<Record, TurnError> {
    let now = agent.clock.now();
    let asking = Asking::new(run.attempt, false, now, run.ask_until());
    let compacting = Box::pin(compact_on_command(agent, turn));
    let compacted = agent.clock.within(asking.until.since(now), compacting).await;
    let notice = match compacted.unwrap_or_else(|| Err(TIMED_OUT.into())) {
        Ok(text) => UiMessage::text("", Role::Assistant, text),
        Err(error) => {
            let cause = match &error {
                TurnError::Model(error) | TurnError::Compaction(CompactionError::Model(error)) => {
                    let is_refused = agent.model.fallback().is_none() && error.cannot_succeed();
                    (is_refused || *error == ModelError::RequestsSpent, error.cause(false))
                }
                TurnError::Compaction(error) => (false, error.to_string()),
                _ => return Err(error),
            };
            let (is_hopeless, cause) = cause;
            if !is_hopeless && !run.attempt.ends_asking() {
                return Err(error);
            }
            tracing::error!(%error, "failed to compact a chat on /compact, and gave up; the user is told");
            agent.metrics.add(Metric::TurnsGivenUp, 1);
            failure(Notice::NotCompacted, turn.texts(agent.language).not_compacted(), &cause)
        }
    };
    store(agent, turn, Kind::Notice, notice).await
}

/// Commits to the turn, and stores the message of an operator or of another chat's agent, or the text of a schedule, that it
/// sends as its reply.
pub(crate) async fn answer_for_operator(agent: &Agent, turn: &mut ClaimedTurn) -> Result<Record, TurnError> {
    let mut message = UiMessage::new("", Role::Assistant, turn.newest.message.parts.clone());
    if let Some(dispatch) = turn.newest.dispatch().filter(|_| turn.newest.due().is_none()) {
        match dispatch.from {
            Some(chat_key) => {
                message.metadata.set_sent_from(&SentFrom { chat_key, agent_id: dispatch.by });
            }
            None => message.metadata.set_sent_by(&dispatch.by),
        }
    }
    begin_with_step(&mut message, turn.newest.channel);
    store(agent, turn, Kind::Normal, message).await
}

/// Returns a notice that a turn failed, with its cause for administrators.
fn failure(kind: Notice, text: &str, cause: &str) -> UiMessage {
    let mut notice = UiMessage::text("", Role::Assistant, text);
    notice.metadata.set_notice(kind);
    notice.metadata.set_cause(cause);
    notice
}

/// Lets a reply on the web begin with the start of a step, as listeners of its stream were told.
pub(crate) fn begin_with_step(message: &mut UiMessage, channel: Channel) {
    if channel == Channel::Web && message.parts.first() != Some(&Part::step_start()) {
        message.parts.insert(0, Part::step_start());
    }
}

async fn store(
    agent: &Agent,
    turn: &mut ClaimedTurn,
    kind: Kind,
    mut message: UiMessage,
) -> Result<Record, TurnError> {
    message.metadata.copy_line_of(&turn.newest.message.metadata);
    if let ([_], Some(due)) = (turn.turn.covers.as_slice(), turn.newest.due()) {
        message.metadata.set_due(&due);
    }
    match turn.put_reply(agent, kind, message).await? {
        ReplyAppended::Stored(reply) => Ok(reply),
        ReplyAppended::Present(reply) => {
            // Another run stored its reply first. Only the run that still has the chat sends it.
            turn.confirm(&agent.history).await?;
            Ok(reply)
        }
    }
}
