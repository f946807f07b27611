//! Stores the events of a platform's webhook: [`Receiver`].

use std::time::Duration;

use annals_channel::webhook::{
    ApprovalResult, Events, Incoming, Patience, Places, Press, ReadError, Response, Webhook, withdrawn,
};
use annals_core::access::Admission;
use annals_core::chat_key::ChatKey;
use annals_core::command::Command;
use annals_core::draft::Draft;
use annals_core::language::Language;
use annals_core::record::{DeliveryFailure, Record};
use annals_core::sort_key::{MessageId, Timestamp};
use annals_io::clock::Clock;
use annals_io::spans::about;
use annals_store::history::turn::Blocked;
use annals_store::history::{HistoryError, MAX_PAGE, Position};
use serde_json::Value;
use tokio::time::timeout;

use crate::ingress::{Commanded, Ingress, IngressError, refused};

/// Time after a message within which its own event may still arrive.
const ON_ITS_WAY: Duration = Duration::from_mins(1);
/// Time after which the response to a call is deferred. Discord waits three seconds, the way there and back included.
const DEFER_AFTER: Duration = Duration::from_millis(1500);

/// Stores the events of one webhook.
pub struct Receiver<W> {
    pub webhook: W,
    /// Appends, enqueues, and sends confirmations of commands.
    pub ingress: Ingress,
    /// If the confirmation of a command cannot be sent at the moment: true if the command fails, to be delivered again; false
    /// if it is recorded without delivery.
    pub must_confirm: bool,
}

/// The event is not, or not known to be, stored: the platform must deliver it again.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    #[error(transparent)]
    Ingress(#[from] IngressError),
    #[error(transparent)]
    History(#[from] HistoryError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("the event took longer than the platform waits")]
    Late,
    #[error("a withdrawn message may still be on its way")]
    EarlyWithdrawal,
}

impl<W: Webhook> Receiver<W> {
    /// Returns the clock of the history.
    pub fn clock(&self) -> &Clock {
        self.ingress.history().clock()
    }

    /// Stores what `event` brings. Returns the response.
    pub async fn receive(&self, event: Value) -> Result<Response, ReceiveError> {
        let patience = self.webhook.patience(&event);
        let mut receiving = Box::pin(self.receive_all(event));
        match patience {
            Patience::Deferred(call) => {
                tokio::select! {
                    biased;
                    received = &mut receiving => return received,
                    () = self.clock().sleep(DEFER_AFTER) => {}
                }
                let (is_deferred, received) = tokio::join!(call.defer(), receiving);
                if !is_deferred {
                    return received;
                }
                call.respond(received.as_ref().ok().cloned()).await;
                received.map(|_| Response::Accepted)
            }
            // Cut off anywhere, an event is completed by its redelivery.
            Patience::Redelivered(deadline) => {
                timeout(deadline, receiving).await.map_err(|_| ReceiveError::Late)?
            }
            Patience::Unlimited => receiving.await,
        }
    }

    async fn receive_all(&self, event: Value) -> Result<Response, ReceiveError> {
        let Events { incoming, has_own_time, mut response, not_allowed } = self.webhook.read(event).await?;
        for incoming in incoming {
            match incoming {
                Incoming::Message(draft) => {
                    if self.message(*draft, has_own_time).await? != Admission::Full {
                        response = not_allowed.clone();
                    }
                }
                Incoming::Partial(draft) => {
                    about(&draft.chat);
                    // Only then, so that a stranger cannot make the bot call the platform.
                    if self.ingress.admit(&draft).await != Admission::Refused {
                        let draft = self.webhook.complete(*draft).await?;
                        self.message(draft, has_own_time).await?;
                    }
                }
                Incoming::Command { command, draft } => {
                    let admission = self.ingress.admit(&draft).await;
                    if admission == Admission::Full {
                        response = self.command(&command, *draft, has_own_time).await?.unwrap_or(response);
                        continue;
                    }
                    if admission == Admission::Context {
                        self.message(*draft, has_own_time).await?;
                    }
                    response = not_allowed.clone();
                }
                Incoming::Migration { old, new, at, event } => {
                    about(&new);
                    if self.ingress.admit(&event).await != Admission::Refused {
                        self.ingress.history().rename(&old, &new, at).await?;
                        self.ingress.receive(&event).await?;
                        tracing::info!(old = %old.session_id(), "group moved");
                    }
                }
                Incoming::Withdrawal { message_id, places, at, words } => {
                    self.withdraw(&message_id, places, at, words).await?;
                }
                Incoming::Membership { chat, left, at } => self.membership(&chat, left, at).await?,
                Incoming::Press(press) => response = self.press(&press).await?.unwrap_or(response),
                Incoming::Ignored { kind, reason } => tracing::info!(kind, reason, "event ignored"),
            }
        }
        Ok(response)
    }

    /// Stores a message, if its sender may use the bot.
    async fn message(&self, draft: Draft, has_own_time: bool) -> Result<Admission, ReceiveError> {
        about(&draft.chat);
        let admission = self.ingress.admit(&draft).await;
        let draft = match admission {
            Admission::Full => draft,
            Admission::Context => draft.asking(false),
            Admission::Refused => return Ok(admission),
        };
        let draft = self.ingress.placed(draft).await?;
        let draft = self.ingress.activated(draft).await?;
        let draft = self.timed(draft, has_own_time).await?;
        if self.webhook.is_withdrawn(&draft, self.clock().now()).await {
            self.recalled(draft).await?;
            return Ok(admission);
        }
        let appended = self.ingress.receive(&draft).await?;
        tracing::info!(outcome = ?appended.outcome, asks = draft.asks, "message");
        Ok(admission)
    }

    /// Stores a message or a command that its sender has recalled: for the audit, and in no Context.
    async fn recalled(&self, mut draft: Draft) -> Result<(), ReceiveError> {
        draft.asks = false;
        draft.metadata.set_recalled();
        let appended = self.ingress.receive(&draft).await?;
        tracing::info!(outcome = ?appended.outcome, "message that was recalled before");
        Ok(())
    }

    /// Carries out a command of a person who may use the bot. Returns the response that confirms it, if there is one.
    async fn command(
        &self,
        command: &Command,
        draft: Draft,
        has_own_time: bool,
    ) -> Result<Option<Response>, ReceiveError> {
        about(&draft.chat);
        let draft = self.ingress.placed(draft).await?;
        let draft = self.timed(draft, has_own_time).await?;
        if self.webhook.is_withdrawn(&draft, self.clock().now()).await {
            self.recalled(draft).await?;
            return Ok(None);
        }
        let Commanded { appended, confirmation } = Box::pin(self.ingress.command(command, &draft)).await?;
        tracing::info!(outcome = ?appended.outcome, "command");
        let Some(confirmation) = confirmation else { return Ok(None) };
        let response = self.webhook.respond_to_command(command, &draft, &confirmation.text);
        // An outbox shows what a platform would show.
        if response.is_none() || self.ingress.deliverer().platform(&confirmation.to).is_none() {
            self.ingress.tell(&draft, &confirmation, self.must_confirm).await?;
        }
        Box::pin(self.ingress.confirmed(&draft, confirmation)).await?;
        Ok(response)
    }

    async fn membership(
        &self,
        chat: &ChatKey,
        left: Option<&str>,
        at: Timestamp,
    ) -> Result<(), ReceiveError> {
        about(chat);
        // A chat that takes messages again is only unmarked, which creates nothing.
        if left.is_none() || self.ingress.access().may_hold(chat) {
            let chat = self.ingress.placed_at(chat, W::ABOUT.channel, at).await?;
            let failure = left.map(|reason| DeliveryFailure { reason: reason.into(), at });
            let channel = Some(W::ABOUT.channel);
            let blocked = failure.map(|failure| Blocked { failure, channel, chat_id: None });
            self.ingress.history().set_blocked(&chat, blocked.as_ref()).await?;
            tracing::info!(can_write = left.is_none(), "membership");
        }
        Ok(())
    }

    async fn press(&self, press: &Press) -> Result<Option<Response>, ReceiveError> {
        about(&press.by.chat);
        let result: ApprovalResult = if self.ingress.admits_press(&press.by) {
            let now = Draft { ts: self.clock().now(), ..press.by.clone() };
            let mut by = self.ingress.placed(now).await?;
            // What was asked before a link is in the chat of its own.
            if let Some(base) = &press.button.base {
                let then = self.ingress.placed(Draft { ts: base.ts(), ..press.by.clone() }).await?;
                if then.chat.person() == press.by.chat.person() {
                    by = then;
                }
            }
            by.ts = press.by.ts;
            self.ingress.pressed(&press.button, &by).await?
        } else {
            refused(self.ingress.texts_of(&press.by).unwrap_or(Language::En.texts()))
        };
        Ok(self.webhook.respond_to_press(press, &result).await)
    }

    /// Returns the draft with the first time that came with its id, if the event's time is not the message's own.
    async fn timed(&self, draft: Draft, has_own_time: bool) -> Result<Draft, ReceiveError> {
        if has_own_time {
            return Ok(draft);
        }
        let ts = self.ingress.history().first_time(&draft.chat, &draft.message_id, draft.ts).await?;
        Ok(Draft { ts, form_ts: None, ..draft })
    }

    /// Removes the text of a withdrawn message from the Context. A message that is not stored is ignored.
    async fn withdraw(
        &self,
        message_id: &MessageId,
        places: Places,
        at: Option<Timestamp>,
        words: &str,
    ) -> Result<(), ReceiveError> {
        let (record, sent_at) = self.find(message_id, places).await?;
        let Some(record) = record else {
            if sent_at.is_some_and(|sent_at| self.clock().now().since(sent_at) < ON_ITS_WAY) {
                // Another call may handle the message's own event at this moment. The platform repeats the withdrawal.
                return Err(ReceiveError::EarlyWithdrawal);
            }
            tracing::info!("withdrawal ignored: the message is not stored");
            return Ok(());
        };
        about(&record.chat);
        if let Some(draft) = withdrawn(&record, at, words) {
            let appended = self.ingress.receive(&draft).await?;
            tracing::info!(outcome = ?appended.outcome, "message withdrawn");
        }
        Ok(())
    }

    /// Returns the newest form of the message, and its time if the platform tells it. The record is looked up at that
    /// time, otherwise among the newest messages of the window.
    async fn find(
        &self,
        message_id: &MessageId,
        places: Places,
    ) -> Result<(Option<Record>, Option<Timestamp>), ReceiveError> {
        let history = self.ingress.history();
        let sent_at = places.exact.as_ref().map(|(key, _)| key.ts());
        if let Some((key, chats)) = places.exact {
            for chat in chats {
                let chat = self.ingress.placed_at(&chat, W::ABOUT.channel, key.ts()).await?;
                let records = history.message_anywhere(&chat, &key).await?;
                if let Some(record) = newest_form(records, message_id) {
                    return Ok((Some(record), sent_at));
                }
            }
        }
        let Some(window) = places.window else { return Ok((None, sent_at)) };
        let window = self.ingress.placed_at(&window, W::ABOUT.channel, self.clock().now()).await?;
        let page = history.page(&window, &Position::Newest, MAX_PAGE).await?;
        Ok((newest_form(page.records, message_id), sent_at))
    }
}

fn newest_form(records: Vec<Record>, message_id: &MessageId) -> Option<Record> {
    records.into_iter().filter(|record| record.message_id == *message_id).max_by_key(Record::revision)
}
