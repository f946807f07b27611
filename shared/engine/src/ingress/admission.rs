//! Check of senders and chats against `ALLOW_FROM` and `ALLOW_CHATS`: see [`Access`].

use annals_core::access::{Access, Admission};
use annals_core::draft::Draft;

use super::Ingress;

impl Ingress {
    /// Returns the people and chats that are allowed.
    pub fn access(&self) -> &Access {
        &self.config.access
    }

    /// Returns true if the person who pressed a button may use the bot.
    pub fn admits_press(&self, press: &Draft) -> bool {
        self.config.access.admits_press(press)
    }

    /// Returns what may be done with a message, before anything of it is stored. The sender of a refused message is
    /// logged and listed, so that the owner can allow them.
    pub async fn admit(&self, draft: &Draft) -> Admission {
        let admission = self.config.access.of(draft);
        if admission == Admission::Refused {
            tracing::warn!(
                person = draft.sender(),
                chat_key = %draft.chat,
                "refused a message of a stranger: add the person to ALLOW_FROM or the chat to ALLOW_CHATS to let them in \
                 (not for business connections)"
            );
            // The list is optional: the log has the sender too.
            if let Err(error) = self.history.note_stranger(draft).await {
                tracing::warn!(%error, "failed to add a person to the list of strangers");
            }
        }
        admission
    }
}
