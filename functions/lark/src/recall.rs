//! A message that was taken back: its record is found, and a later form of it appended that says only that.

use std::time::Duration;

use annals_shared::channel::lark::recall::{places, recalled};
use annals_shared::chat_key::{ChatKey, Place};
use annals_shared::history::{MAX_PAGE, Position};
use annals_shared::record::Record;
use annals_shared::sort_key::{MessageId, Timestamp};
use annals_shared::telemetry;

use crate::{Lark, WebhookError, asked};

/// How long after a message its own event may still be on its way for the first time.
const ON_ITS_WAY: Duration = Duration::from_mins(1);

impl Lark {
    /// Takes the text of `message_id` out of the context. A message that is in no history is none of ours.
    pub(crate) async fn recall(
        &self,
        chat_id: &str,
        message_id: &MessageId,
        at: Timestamp,
    ) -> Result<(), WebhookError> {
        let (record, sent_at) = self.find(chat_id, message_id).await?;
        let Some(record) = record else {
            if sent_at.is_some_and(|sent_at| self.clock.now().since(sent_at) < ON_ITS_WAY) {
                // Its own event may be under way in another call; Lark brings this one again in 15 seconds.
                return Err(WebhookError::EarlyRecall);
            }
            tracing::info!("a message was recalled that is in no history");
            return Ok(());
        };
        telemetry::about(&record.chat);
        if let Some(draft) = recalled(&record, at) {
            let appended = self.ingress.receive(&draft).await?;
            tracing::info!(outcome = ?appended.outcome, "message recalled");
        }
        Ok(())
    }

    /// The newest form of the message, and when it was sent, if Lark tells. It is looked for at that time; where Lark does
    /// not tell, among the newest messages of the window.
    async fn find(
        &self,
        chat_id: &str,
        message_id: &MessageId,
    ) -> Result<(Option<Record>, Option<Timestamp>), WebhookError> {
        let history = self.ingress.history();
        let items = match &self.identity.client {
            Some(client) => asked(client.get_message(message_id.as_str())).await?,
            None => Vec::new(),
        };
        let mut sent_at = None;
        if let Some((key, chats)) = items.first().and_then(|item| places(item, &self.settings)) {
            sent_at = Some(key.ts());
            for chat in chats {
                let records = history.message_anywhere(&chat, &key).await?;
                if let Some(record) = newest_form(records, message_id) {
                    return Ok((Some(record), sent_at));
                }
            }
        }
        let Ok(window) = ChatKey::new(Place::LarkChat { chat_id: chat_id.to_owned() }) else {
            return Ok((None, sent_at));
        };
        let page = history.page(&window, &Position::Newest, MAX_PAGE).await?;
        Ok((newest_form(page.records, message_id), sent_at))
    }
}

fn newest_form(records: Vec<Record>, message_id: &MessageId) -> Option<Record> {
    records.into_iter().filter(|record| record.message_id == *message_id).max_by_key(|record| record.revision)
}
