//! What a `/stop` has ended: it is covered by a notice, and what is left of its reply is not sent.

use annals_shared::approval;
use annals_shared::history::ReplyAppended;
use annals_shared::history::turn::Ending;
use annals_shared::message::{Role, UiMessage};
use annals_shared::record::{DeliveryFailure, Kind, Record, STOPPED_BY};

use crate::turn::{Agent, TurnError};
use crate::work::Work;

/// What stands in the place of the answer.
const STOPPED_NOTICE: &str = "Stopped before there was an answer.";
/// What is noted on an answer that was cut off.
const STOPPED_DELIVERY: &str = "stopped by /stop while it was being sent";

impl Agent {
    /// Ends a turn that was stopped. A reply that is stored stays, also one that another run puts in these moments; it is
    /// not sent any further. One that waits for somebody's word, or has it and goes on, ends where it is. The command stays
    /// in the head until a run finds nothing more for it to end.
    pub(crate) async fn end(&self, mut work: Work) -> Result<(), TurnError> {
        let newest = work.newest_covered()?.clone();
        let mut stored = work.stored_reply().cloned();
        if stored.is_none() {
            let mut message = UiMessage::text("", Role::Assistant, STOPPED_NOTICE);
            newest.copy_line_to(&mut message.metadata);
            message.metadata.insert(STOPPED_BY.into(), work.command_id().into());
            if let ReplyAppended::Present(reply) = self.put(&mut work, &newest, Kind::Notice, message).await?
            {
                stored = Some(reply);
            }
        }
        if let Some(reply) = stored.filter(|reply| reply.stopped_by().is_none()) {
            let forms = self.history.message(&work.lease.chat, &reply.key).await?;
            let form = approval::newest_form(&forms, &reply.key).unwrap_or(&reply).clone();
            if let Some(message) = approval::stopped(&form.message, &work.command_id()) {
                if !work.is_committed {
                    self.history.commit(&work.lease, &work.turn).await??;
                }
                self.put_form(&work, &reply, &form, message).await?;
            } else if self.deliverer.reaches(newest.channel) {
                self.note_cut_off(&form).await?;
            }
        }
        self.history.finish(&work.lease, &Ending::default()).await??;
        Ok(())
    }

    async fn note_cut_off(&self, reply: &Record) -> Result<(), TurnError> {
        let failure = DeliveryFailure { reason: STOPPED_DELIVERY.into(), at: self.clock.now() };
        self.history.note_delivery_failure(reply, &failure).await?;
        Ok(())
    }
}
