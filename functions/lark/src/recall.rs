//! A message that was taken back: its record is found, and a later form of it appended that says only that.

use annals_shared::channel::lark::recall::{places, recalled};
use annals_shared::chat_key::{ChatKey, Place};
use annals_shared::history::{MAX_PAGE, Position};
use annals_shared::record::Record;
use annals_shared::sort_key::{MessageId, Timestamp};

use crate::{Lark, WebhookError, asked};

impl Lark {
    /// Takes the text of `message_id` out of the context. A message that is in no history is none of ours.
    pub(crate) async fn recall(
        &self,
        chat_id: &str,
        message_id: &MessageId,
        at: Timestamp,
    ) -> Result<(), WebhookError> {
        let Some(record) = self.find(chat_id, message_id).await? else {
            tracing::info!("a message was recalled that is in no history");
            return Ok(());
        };
        if let Some(draft) = recalled(&record, at) {
            let appended = self.ingress.receive(&draft).await?;
            tracing::info!(chat = %draft.chat.session_id(), outcome = ?appended.outcome, "message recalled");
        }
        Ok(())
    }

    /// The newest form of the message, by the time that Lark gives for it; where Lark does not, among the newest
    /// messages of the window.
    async fn find(&self, chat_id: &str, message_id: &MessageId) -> Result<Option<Record>, WebhookError> {
        let history = self.ingress.history();
        let items = match &self.identity.client {
            Some(client) => asked(client.get_message(message_id.as_str())).await?,
            None => Vec::new(),
        };
        if let Some((key, chats)) = items.first().and_then(|item| places(item, &self.settings)) {
            for chat in chats {
                let records = history.message(&chat, &key).await?;
                if let Some(record) = newest_form(records, message_id) {
                    return Ok(Some(record));
                }
            }
        }
        let Ok(window) = ChatKey::new(Place::LarkChat { chat_id: chat_id.to_owned() }) else {
            return Ok(None);
        };
        let page = history.page(&window, &Position::Newest, MAX_PAGE).await?;
        Ok(newest_form(page.records, message_id))
    }
}

fn newest_form(records: Vec<Record>, message_id: &MessageId) -> Option<Record> {
    records.into_iter().filter(|record| record.message_id == *message_id).max_by_key(|record| record.revision)
}
