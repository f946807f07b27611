//! The client as a [`Platform`].

use annals_channel::about::About;
use annals_channel::client::Api;
use annals_channel::delivery::{DeliveryError, OutgoingReply, Piece, Pieces, Progress};
use annals_channel::file::FileError;
use annals_channel::platform::Platform;
use annals_core::message::{Part, PartView};
use annals_core::record::Record;
use async_trait::async_trait;

use crate::about::ABOUT;
use crate::address::Address;
use crate::buttons::rows;
use crate::client::{CallError, Client, Message, nonce};
use crate::render;

/// Maximum number of messages of one answer to an interaction of an app that is installed for the user alone. Discord takes five
/// follow-ups, and the first message is one too if the answer is continued, or what it would replace was deleted.
const MAX_OF_USER_APP: usize = 5;

#[async_trait]
impl Platform for Client {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn api(&mut self) -> &mut Api {
        &mut self.api
    }

    async fn send(
        &self,
        reply: OutgoingReply<'_>,
        sent: usize,
        progress: &Progress<'_>,
    ) -> Result<(), DeliveryError> {
        let nowhere =
            || DeliveryError::Refused { reason: "the answered message names no Discord channel".into() };
        let address = Address::of(reply.to).ok_or_else(nowhere)?;
        let mut chunks: Vec<String> = reply.texts().flat_map(render::chunks).collect();
        let rest = if address.user_installed { rest(&mut chunks) } else { None };
        let (components, id) = (rows(reply.requests), reply.id());
        // The first answer to the interaction is already that with the question.
        let is_continued = reply.key.is_later_form();
        let mut pieces = Pieces::new(chunks.len(), sent, progress);
        while let Some(Piece { index, is_last }) = pieces.next().await? {
            let message = Message {
                content: &chunks[index],
                file: rest.as_deref().filter(|_| is_last),
                components: components.as_ref().filter(|_| is_last),
                nonce: &nonce(&id, index),
                is_first: index == 0 && !is_continued,
            };
            self.send_message(&address, message).await?;
        }
        Ok(())
    }

    async fn fetch(&self, part: &Part, limit: usize) -> Result<Vec<u8>, FileError> {
        let PartView::File { url, .. } = part.view() else { return Err(FileError::NoChannel) };
        let path = url.strip_prefix("discord:").ok_or(FileError::NoChannel)?;
        let discord = part.as_map().get("providerMetadata").and_then(|provider| provider.get("discord"));
        let whole = discord.and_then(|discord| discord.get("url")?.as_str());
        self.attachment(whole, path, limit).await
    }

    async fn is_administrator(&self, chat_id: &str, user_id: &str) -> Result<bool, CallError> {
        Client::is_administrator(self, chat_id, user_id).await
    }

    /// Does nothing for an interaction, which shows that the bot is thinking.
    async fn show_typing(&self, to: &Record) {
        let Some(address) = Address::of(to).filter(|address| address.token.is_none()) else { return };
        if !self.has_bot() {
            return;
        }
        if let Err(error) = self.send_typing(&address.channel_id).await {
            tracing::debug!(%error, "failed to show the typing indicator");
        }
    }
}

/// Takes those of `pieces` that are too many for follow-ups, and returns them as the text of a file. A short message to which
/// the file belongs comes in their place.
fn rest(pieces: &mut Vec<String>) -> Option<String> {
    if pieces.len() <= MAX_OF_USER_APP {
        return None;
    }
    let rest = pieces.split_off(MAX_OF_USER_APP - 1);
    pieces.push("…".to_owned());
    Some(rest.join("\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_for_follow_ups_becomes_a_file_and_nothing_is_lost() {
        let all: Vec<String> = (0..9).map(|n| format!("piece {n}")).collect();
        let mut pieces = all.clone();
        let file = rest(&mut pieces).unwrap();
        assert_eq!((pieces.len(), pieces[4].as_str()), (5, "…"));
        assert_eq!(pieces[..4].join("\n\n") + "\n\n" + &file, all.join("\n\n"));
        let mut whole = all[..5].to_vec();
        assert_eq!(rest(&mut whole), None);
        assert_eq!(whole, all[..5]);
    }
}
