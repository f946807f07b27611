//! Taking a chat over, and handing it back: an attribute of the head, which each run reads with its claim.
//!
//! The write that takes a chat over takes the next fence, too, so that a run that is asking the model can no longer commit:
//! as after a `/stop`, it drops its work within [`LOOK_AGAIN`](super::stop::LOOK_AGAIN), and its messages stay unanswered.
//! A turn that is committed to is finished as always, since a part of its reply may have been delivered.
//!
//! The sample item of a head is in [`turn`](super::turn).

use annals_core::chat_key::ChatKey;
use annals_core::takeover::Takeover;

use super::table::{Update, Written, json, number};
use super::turn::{Head, Held, Holder, MAX_HEAD_ATTEMPTS, TAKEN_OVER};
use super::{HEAD, History, HistoryError, partition};

impl History {
    /// Lets the operator `by` take `chat` over, unless another one has. Returns the operator who has it now, or `None` if
    /// the chat has no messages or is being deleted. Two reads and one write; safe to repeat.
    pub async fn take_over(&self, chat: &ChatKey, by: &str) -> Result<Option<Takeover>, HistoryError> {
        for _ in 0..MAX_HEAD_ATTEMPTS {
            let item = self.table.get(&partition(chat), HEAD).await?.unwrap_or_default();
            let (head, now) = (Head::of(&item)?, self.clock.now());
            if head.takeover.is_some() {
                return Ok(head.takeover);
            }
            let is_deleting = Held::at(&item, now).is_some_and(|held| held.by == Holder::Deletion);
            if is_deleting || (head.continues.is_none() && self.is_empty(chat).await?) {
                return Ok(None);
            }
            let taken = Takeover { by: by.to_owned(), at: now };
            let update = Update::default().set(TAKEN_OVER, json(&taken)?);
            let update = match head.turn {
                Some(_) => update.when("attribute_exists(turn)"),
                None => update
                    .increment("fence")
                    .set("takenAt", number(now))
                    .remove(["leaseUntil", "housekeeping"])
                    .when("attribute_not_exists(turn)"),
            };
            // A deletion takes a fence. So nothing of the chat stays if it has been forgotten since.
            let update = match item.get("fence") {
                Some(fence) => update.when("fence = :seen").bind(":seen", fence.clone()),
                None => update.when("attribute_not_exists(fence)"),
            };
            if let Written::Done(_) = self.update_head(chat, update).await? {
                self.stops.notify_waiters();
                return Ok(Some(taken));
            }
        }
        Err(HistoryError::LeaseLost)
    }

    /// Hands `chat` back, if an operator has it. One write.
    pub async fn hand_back(&self, chat: &ChatKey) -> Result<(), HistoryError> {
        let update = Update::default().remove([TAKEN_OVER]).when("attribute_exists(takenOver)");
        self.update_head(chat, update).await?;
        Ok(())
    }
}
