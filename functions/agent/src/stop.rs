//! Ending a turn that a `/stop` has stopped: what was said of its reply is stored and sent, or the rest of a stored reply is
//! not sent.
//!
//! The text so far is in the memory of the stopped run alone. So that run is the one that claims the chat next, and if its
//! process dies before the reply is stored, the next run stores one without text. Both cover the messages.

use annals_channel::delivery::{NO_PROGRESS, OutgoingReply};
use annals_core::approval;
use annals_core::message::{Role, UiMessage};
use annals_core::metadata::Notice;
use annals_core::record::{DeliveryFailure, Kind, Record};
use annals_store::history::ReplyAppended;
use annals_store::history::turn::Ending;

use crate::agent::Agent;
use crate::answer::begin_with_step;
use crate::deliver::deliver;
use crate::error::TurnError;
use crate::making::{Unstored, is_stopped_unanswered};
use crate::run::Run;
use crate::task::{ClaimedTurn, PausedReply, StoppedTurn};

/// Delivery failure of an answer that was cut off.
const STOPPED_DELIVERY: &str = "stopped by /stop while it was being sent";

/// Ends a turn that was stopped: stores its reply so far, and sends what is new of it. A stored reply stays,
/// including one that another run stores in these moments; no more of it is sent. One that waits for an approval, or has it
/// and would continue, ends as it is. The command stays in the head until a run finds nothing more for it to end.
pub(crate) async fn end(agent: &Agent, run: &Run<'_>, stopped: StoppedTurn) -> Result<(), TurnError> {
    let StoppedTurn { mut turn, command_id, unstored } = stopped;
    let history = &agent.history;
    let begin = || agent.live.begin(&turn.lease.chat, turn.begun());
    let feed = unstored.as_ref().map_or_else(begin, |unstored| unstored.feed.clone());
    let ended = match store(agent, &mut turn, &command_id, unstored.as_ref()).await? {
        ReplyAppended::Stored(reply) => Some((reply, 0)),
        ReplyAppended::Present(stored) => {
            store_form(agent, &mut turn, &stored, &command_id, unstored.as_ref()).await?
        }
    };
    let mut ending = Ending::default();
    if let Some((reply, shown_parts)) = ended {
        feed.stored(&reply);
        if is_stopped_unanswered(&reply.message) {
            tell(agent, &turn, &reply).await;
        } else {
            (ending.reached, ending.paced) = deliver(agent, run, &turn, &reply, shown_parts).await?;
        }
    }
    history.finish(&turn.lease, &ending).await?;
    Ok(())
}

/// Stores the stopped reply of `turn`, unless one is there.
async fn store(
    agent: &Agent,
    turn: &mut ClaimedTurn,
    command_id: &str,
    unstored: Option<&Unstored>,
) -> Result<ReplyAppended, TurnError> {
    if let Some(stored) = turn.stored_reply() {
        return Ok(ReplyAppended::Present(stored.clone()));
    }
    let texts = turn.texts(agent.language);
    let nothing = || {
        let mut message = UiMessage::text("", Role::Assistant, texts.stopped_unanswered());
        message.metadata.set_notice(Notice::StoppedUnanswered);
        message
    };
    let mut message = unstored.map_or_else(nothing, |unstored| unstored.message(command_id, texts));
    message.metadata.set_stopped(command_id);
    message.metadata.copy_line_of(&turn.newest.message.metadata);
    // A reply and no notice, so that the model sees that the question is over.
    let kind = if turn.is_compact_command() { Kind::Notice } else { Kind::Normal };
    if kind == Kind::Normal {
        begin_with_step(&mut message, turn.newest.channel);
    }
    turn.put_reply(agent, kind, message).await
}

/// Ends the stored `reply` of `turn`: stores its last form if it would continue, else notes that no more of it is sent. Returns
/// that form with the number of its parts that have been delivered, also if an earlier run has stored it for this command.
async fn store_form(
    agent: &Agent,
    turn: &mut ClaimedTurn,
    reply: &Record,
    command_id: &str,
    unstored: Option<&Unstored>,
) -> Result<Option<(Record, usize)>, TurnError> {
    let history = &agent.history;
    let forms = history.message(&turn.lease.chat, &reply.key).await?;
    let paused = PausedReply::new(reply.clone(), forms, turn.turn.resumes.as_ref());
    let form = paused.newest().clone();
    if form.message.metadata.is_stopped() && form.stopped_by() == Some(command_id) {
        return Ok(Some((form, paused.shown_parts)));
    }
    let texts = turn.texts(agent.language);
    let is_continued = |_: &&Unstored| turn.turn.resumes.is_some() && approval::is_unfinished(&form.message);
    let said = unstored.filter(is_continued).map(|unstored| {
        let more = unstored.message(command_id, texts);
        let mut message = UiMessage { parts: more.parts, ..form.message.clone() };
        message.metadata.extend(more.metadata);
        message.metadata.set_stopped(command_id);
        message
    });
    if let Some(message) = said.or_else(|| approval::stopped(&form.message, command_id)) {
        if let Some(token) = paused.reply_token() {
            turn.newest.set_reply_token(token.clone());
        }
        turn.commit(history).await?;
        return Ok(Some((turn.put_form(agent, reply, &form, message).await?, paused.shown_parts)));
    }
    if agent.deliverer.reaches(turn.newest.channel) {
        let failure = DeliveryFailure { reason: STOPPED_DELIVERY.into(), at: agent.clock.now() };
        history.note_delivery_failure(&form.chat, &form.key, &failure).await?;
    }
    Ok(None)
}

/// Sends a reply without text to a sender whom the platform shows that the answer is on its way. Others see the confirmation
/// of the command alone.
async fn tell(agent: &Agent, turn: &ClaimedTurn, reply: &Record) {
    if turn.newest.reply_token().is_none() {
        return;
    }
    let text = reply.message.plain_text();
    let reply = OutgoingReply {
        to: &turn.newest,
        key: &reply.key,
        text: &text,
        question: "",
        ts: reply.sent_at,
        moved_to: None,
        survives_recall: false,
        requests: &[],
    };
    if let Err(error) = agent.deliverer.deliver(reply, 0, NO_PROGRESS).await {
        tracing::info!(%error, "failed to tell the sender of a stopped message; the platform shows it as unanswered");
    }
}
