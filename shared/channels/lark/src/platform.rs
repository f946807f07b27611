//! The client as a [`Platform`].

use annals_channel::about::About;
use annals_channel::client::Api;
use annals_channel::delivery::{DeliveryError, OutgoingReply, Piece, Pieces, Progress};
use annals_channel::file::FileError;
use annals_channel::platform::{IsNew, Platform};
use annals_core::draft::Draft;
use annals_core::message::Part;
use annals_core::record::Record;
use async_trait::async_trait;

use crate::about::ABOUT;
use crate::address::Address;
use crate::client::{CallError, Client, TYPING};
use crate::{buttons, render, surroundings};

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
        let nowhere = || DeliveryError::Refused { reason: "the answered message names no Lark chat".into() };
        let mut address = Address::of(reply.to).ok_or_else(nowhere)?;
        address.survives_recall = reply.survives_recall;
        let chunks: Vec<_> = reply.texts().flat_map(render::chunks).collect();
        // A card of its own after the text, since a text has no buttons.
        let count = chunks.len() + usize::from(!reply.requests.is_empty());
        let mut pieces = Pieces::new(count, sent, progress);
        while let Some(Piece { index, .. }) = pieces.next().await? {
            if let Some(chunk) = chunks.get(index) {
                self.send_chunk(&address, chunk, &reply.id(), index).await?;
                continue;
            }
            let card = buttons::of(&reply.to.chat, reply.requests);
            match self.send_card(&address, &card, &reply.id(), index).await {
                // The text before it says how to answer without buttons.
                Err(error) if error.is_permanent() => {
                    tracing::warn!(%error, "Lark refused the card with buttons");
                }
                sent => sent?,
            }
        }
        Ok(())
    }

    async fn fetch(&self, part: &Part, limit: usize) -> Result<Vec<u8>, FileError> {
        let lark = part.as_map().get("providerMetadata").and_then(|provider| provider.get("lark"));
        let text = |name| lark?.get(name)?.as_str().filter(|text: &&str| !text.is_empty());
        let key = text("imageKey").map(|key| (key, "image"));
        let key = key.or_else(|| Some((text("fileKey")?, "file")));
        match (text("messageId"), key) {
            (Some(message_id), Some((key, kind))) => self.resource(message_id, key, kind, limit).await,
            _ => Err(FileError::Gone("the file has no message or no key".into())),
        }
    }

    async fn is_administrator(&self, chat_id: &str, user_id: &str) -> Result<bool, CallError> {
        self.is_manager(chat_id, user_id).await
    }

    /// Asks for the name of a group: events carry none. A chat with one person has no name.
    async fn chat_title(&self, to: &Record) -> Option<Result<Option<String>, CallError>> {
        if to.is_group() { Some(self.group_name(&to.chat_id).await) } else { None }
    }

    async fn surroundings(&self, newest: &Record, is_new: &IsNew<'_>) -> Result<Vec<Draft>, CallError> {
        surroundings::fetch(self, newest, is_new).await
    }

    /// False: a person who writes to the bot, or mentions it in a group, has unblocked it.
    fn is_heard_when_blocked(&self, _to: &Record) -> bool {
        false
    }

    async fn add_reaction(&self, to: &Record) -> Option<String> {
        let message_id = Address::of(to)?.message_id?;
        self.react(&message_id, TYPING).await.unwrap_or_else(|error| {
            tracing::debug!(%error, "failed to add a reaction");
            None
        })
    }

    async fn remove_reaction(&self, to: &Record, id: &str) {
        let Some(message_id) = Address::of(to).and_then(|address| address.message_id) else { return };
        if let Err(error) = self.unreact(&message_id, id).await {
            tracing::debug!(%error, "failed to remove a reaction");
        }
    }
}
