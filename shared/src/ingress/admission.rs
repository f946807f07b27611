//! What `ALLOW_FROM` and `ALLOW_CHATS` let a message do: see [`Access`].

use super::Ingress;
use crate::access::{Access, Admission};
use crate::record::Draft;

impl Ingress {
    /// Returns the same ingress, used by these people and in these chats alone.
    #[must_use]
    pub fn with_access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// Returns who may use the bot.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Returns whether the sender of a press may answer a request at all.
    pub fn admits_press(&self, press: &Draft) -> bool {
        self.access.admits_press(press)
    }

    /// Returns what a message may do that came as `draft`, before anything of it is stored. The sender of a refused one is
    /// logged and listed, so that the owner can add them.
    pub async fn admit(&self, draft: &Draft) -> Admission {
        let admission = self.access.of(draft);
        if admission == Admission::Refused {
            tracing::warn!(
                person = draft.sender(),
                chat_key = %draft.chat,
                "refused a message of a stranger: add the person to ALLOW_FROM or the chat to ALLOW_CHATS to let them in"
            );
            // The list is a courtesy: without it there is the log.
            if let Err(error) = self.history.note_stranger(draft).await {
                tracing::warn!(%error, "failed to list a stranger");
            }
        }
        admission
    }
}
