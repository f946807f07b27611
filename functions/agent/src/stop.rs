//! Ending a turn that a `/stop` has stopped: a notice covers its messages, or the rest of its reply is not sent.

use annals_channel::delivery::{NO_PROGRESS, OutgoingReply};
use annals_core::approval;
use annals_core::message::{Role, UiMessage};
use annals_core::record::{DeliveryFailure, Kind, Record};
use annals_store::history::ReplyAppended;
use annals_store::history::turn::Ending;

use crate::agent::Agent;
use crate::error::TurnError;
use crate::task::ClaimedTurn;

/// Notice in place of the answer.
const STOPPED_NOTICE: &str = "Stopped before there was an answer.";
/// Delivery failure of an answer that was cut off.
const STOPPED_DELIVERY: &str = "stopped by /stop while it was being sent";

/// Ends a turn that was stopped. A stored reply stays, including one that another run stores in these moments; no more of
/// it is sent. One that waits for an approval, or has it and would continue, ends as it is. The command stays in the head
/// until a run finds nothing more for it to end.
pub(crate) async fn end(agent: &Agent, mut turn: ClaimedTurn, command_id: &str) -> Result<(), TurnError> {
    let history = &agent.history;
    let feed = agent.live.begin(&turn.lease.chat, turn.begun());
    let mut stored = turn.stored_reply().cloned();
    if stored.is_none() {
        let mut message = UiMessage::text("", Role::Assistant, STOPPED_NOTICE);
        message.metadata.copy_line_of(&turn.newest.message.metadata);
        message.metadata.set_stopped_by(command_id);
        match turn.put_reply(history, &agent.agent_id, Kind::Notice, message).await? {
            ReplyAppended::Stored(notice) => {
                feed.stored(&notice);
                tell(agent, &turn, &notice).await;
            }
            ReplyAppended::Present(reply) => stored = Some(reply),
        }
    }
    if let Some(reply) = stored.filter(|reply| reply.stopped_by().is_none()) {
        let forms = history.message(&turn.lease.chat, &reply.key).await?;
        let form = approval::newest_form(&forms, &reply.key).unwrap_or(&reply).clone();
        if let Some(message) = approval::stopped(&form.message, command_id) {
            turn.commit(history).await?;
            feed.stored(&turn.put_form(history, &reply, &form, message).await?);
        } else if agent.deliverer.reaches(turn.newest.channel) {
            let failure = DeliveryFailure { reason: STOPPED_DELIVERY.into(), at: agent.clock.now() };
            history.note_delivery_failure(&form, &failure).await?;
        }
    }
    history.finish(&turn.lease, &Ending::default()).await?;
    Ok(())
}

/// Sends `notice` to a sender whom the platform shows that the answer is on its way. Others see the confirmation of the
/// command alone.
async fn tell(agent: &Agent, turn: &ClaimedTurn, notice: &Record) {
    if turn.newest.reply_token().is_none() {
        return;
    }
    let text = notice.message.plain_text();
    let reply = OutgoingReply {
        to: &turn.newest,
        key: &notice.key,
        text: &text,
        question: "",
        ts: notice.sent_at,
        moved_to: None,
        requests: &[],
    };
    if let Err(error) = agent.deliverer.deliver(reply, 0, NO_PROGRESS).await {
        tracing::info!(%error, "failed to tell the sender of a stopped message; the platform shows it as unanswered");
    }
}
