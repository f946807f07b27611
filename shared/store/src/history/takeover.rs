//! Taking a chat over, and handing it back: an attribute of the head, which each run reads with its claim.
//!
//! The write that takes a chat over takes the next fence, too, so that a run that is asking the model can no longer commit:
//! as after a `/stop`, it drops its work within [`LOOK_AGAIN`](super::stop::LOOK_AGAIN), and its messages stay unanswered.
//! A turn that is committed to is finished as always, since a part of its reply may have been delivered.
//!
//! The sample item of a head is in [`turn`](super::turn).

use annals_core::chat_key::ChatKey;
use annals_core::takeover::Takeover;

use super::table::{Update, json, number};
use super::turn::{Head, Held, Holder, TAKEN_OVER};
use super::{History, HistoryError};

impl History {
    /// Lets the operator `by` take `chat` over, unless another one has. Returns the operator who has it now, or `None` if
    /// the chat has no messages or is being deleted. Two reads and one write; safe to repeat.
    pub async fn take_over(&self, chat: &ChatKey, by: &str) -> Result<Option<Takeover>, HistoryError> {
        let (mut holder, mut taken) = (None, None);
        let is_taken = self.update_known(chat, |item| {
            let (head, now) = (Head::of(item)?, self.clock.now());
            let is_deleting = Held::at(item, now).is_some_and(|held| held.by == Holder::Deletion);
            if head.takeover.is_some() || is_deleting {
                holder = head.takeover;
                return Ok(None);
            }
            let takeover = Takeover { by: by.to_owned(), at: now };
            let update = Update::default().set(TAKEN_OVER, json(taken.insert(takeover))?);
            Ok(Some(match head.turn {
                Some(_) => update.when("attribute_exists(turn)"),
                None => update
                    .increment("fence")
                    .set("takenAt", number(now))
                    .remove(["leaseUntil", "housekeeping"])
                    .when("attribute_not_exists(turn)"),
            }))
        });
        if !is_taken.await? {
            return Ok(holder);
        }
        self.stops.notify_waiters();
        Ok(taken)
    }

    /// Hands `chat` back, if an operator has it. One write.
    pub async fn hand_back(&self, chat: &ChatKey) -> Result<(), HistoryError> {
        let update = Update::default().remove([TAKEN_OVER]).when("attribute_exists(takenOver)");
        self.update_head(chat, update).await?;
        Ok(())
    }
}
