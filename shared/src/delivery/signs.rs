//! What people see while an answer is being made. A failure of any of this is no failure of the turn.

use super::Deliverer;
use crate::channel::lark;
use crate::channel::telegram::address::Address;
use crate::channel::telegram::client::SendError;
use crate::record::{Channel, Record};

/// What became of a draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drafted {
    /// It is shown.
    Shown,
    /// It is not; another may be.
    NotNow,
    /// None will be shown there.
    Never,
}

impl Deliverer {
    /// Shows for a few seconds that an answer is being made, where the channel can.
    pub async fn show_typing(&self, to: &Record) {
        if let (Some(client), Channel::Telegram, Some(address)) =
            (&self.telegram, to.channel, Address::of(to))
            && let Err(error) = client.send_typing(&address).await
        {
            tracing::debug!(%error, "typing indicator not shown");
        }
    }

    /// Whether an answer can be shown there as it grows: in a private chat of Telegram.
    pub fn takes_drafts(&self, to: &Record) -> bool {
        let is_there = self.telegram.is_some() && to.channel == Channel::Telegram;
        is_there && Address::of(to).is_some_and(|address| address.takes_drafts())
    }

    /// Shows what there is of the answer, in Markdown.
    pub async fn show_draft(&self, to: &Record, markdown: &str) -> Drafted {
        let (Some(client), Some(address)) = (&self.telegram, Address::of(to)) else { return Drafted::Never };
        // Any number but 0; the same for one answer in all its tries.
        let id = address.reply_to.unwrap_or(1);
        match client.send_draft(&address, id, markdown).await {
            Ok(true) => Drafted::Shown,
            Ok(false) => Drafted::NotNow,
            Err(error) => {
                tracing::debug!(%error, "a draft is not shown");
                let may_pass = matches!(error, SendError::RateLimited { .. } | SendError::Unavailable { .. });
                if may_pass { Drafted::NotNow } else { Drafted::Never }
            }
        }
    }

    /// Puts a sign on the message of Lark that is being answered; answers with what takes it away again.
    pub async fn put_reaction(&self, to: &Record) -> Option<String> {
        let (client, message_id) = self.on_lark(to)?;
        match client.react(&message_id, lark::client::TYPING).await {
            Ok(reaction) => reaction,
            Err(error) => {
                tracing::debug!(%error, "a reaction is not shown");
                None
            }
        }
    }

    /// Takes a sign away.
    pub async fn take_reaction(&self, to: &Record, reaction: &str) {
        if let Some((client, message_id)) = self.on_lark(to)
            && let Err(error) = client.unreact(&message_id, reaction).await
        {
            tracing::debug!(%error, "a reaction stays");
        }
    }

    fn on_lark(&self, to: &Record) -> Option<(&lark::client::Client, String)> {
        let address = lark::address::Address::of(to)?;
        Some((self.lark.as_ref()?, address.message_id?))
    }
}
