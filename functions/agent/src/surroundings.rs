//! What was said around a message of a Lark group: where an app is told only of messages that address it, those in
//! between are fetched and appended as what they are, so that the agent knows what is talked about.

use std::collections::HashSet;
use std::sync::Arc;

use annals_shared::channel::lark::bot::Bot;
use annals_shared::channel::lark::client::{Client, SendError};
use annals_shared::channel::lark::listed::{from_listed, is_merge_forward, with_children};
use annals_shared::channel::settings::{GroupActivation, Settings};
use annals_shared::history::{History, HistoryError, Seen};
use annals_shared::record::{Channel, Draft, Record};
use annals_shared::sort_key::SortKey;
use serde_json::Value;
use tokio::sync::OnceCell;

/// Fetches what was said around messages of Lark groups.
#[derive(Clone)]
pub struct Surroundings {
    client: Client,
    app_id: String,
    settings: Settings,
    limit: usize,
    open_id: Arc<OnceCell<String>>,
}

impl Surroundings {
    /// The newest `limit` messages (`LARK_GROUP_CONTEXT`) by `client`, read by `settings`. `None` where none are to be
    /// fetched: by the limit, or since every message of a group comes as an event that asks.
    pub fn new(client: Client, app_id: String, settings: Settings, limit: usize) -> Option<Self> {
        let is_wanted = limit > 0 && settings.group_activation == GroupActivation::Mention;
        is_wanted.then(|| Self { client, app_id, settings, limit, open_id: Arc::default() })
    }

    /// Appends what was said around the newest unanswered message of `seen` and is not in it; answers whether there
    /// was any. Lark's failures are logged: an answer without its surroundings is better than none.
    pub(crate) async fn append(&self, history: &History, seen: &Seen) -> Result<bool, HistoryError> {
        let Some(newest) = seen.context.unanswered.last().and_then(|base| group_message(&seen.records, base))
        else {
            return Ok(false);
        };
        let drafts = match self.fetch(newest).await {
            Ok(drafts) => drafts,
            Err(error) => {
                tracing::warn!(chat = %newest.chat.session_id(), %error, "a group's messages are not fetched");
                return Ok(false);
            }
        };
        let known: HashSet<SortKey> = seen.records.iter().map(|record| record.key.base()).collect();
        let mut appended = false;
        for draft in drafts {
            let key = draft.key();
            // What lies before the Session is not in view, and may well be stored.
            let is_in_reach = seen.context.reaches_back_to.as_ref().is_none_or(|reach| key >= *reach);
            if is_in_reach && !known.contains(&key) {
                history.append(&draft).await?;
                appended = true;
            }
        }
        Ok(appended)
    }

    /// The messages around `newest`, oldest first.
    async fn fetch(&self, newest: &Record) -> Result<Vec<Draft>, SendError> {
        let open_id =
            self.open_id.get_or_try_init(async || Ok(self.client.bot_info().await?.open_id)).await?;
        let bot = Bot { app_id: Some(self.app_id.clone()), open_id: Some(open_id.clone()) };
        let beside = Draft::from(newest);
        let thread =
            newest.message.metadata.get("lark").and_then(|lark| lark.get("threadId")).and_then(Value::as_str);
        let items = match thread {
            Some(thread) => self.client.list_thread(thread, self.limit).await?,
            None => self.client.list_messages(&newest.chat_id, Some(newest.ts), self.limit).await?,
        };
        let mut drafts = Vec::new();
        for item in items.iter().rev() {
            let Some(draft) = from_listed(item, &beside, &bot, &self.settings) else { continue };
            drafts.push(if is_merge_forward(item) {
                let forwarded = self.client.get_message(draft.message_id.as_str()).await?;
                with_children(draft, &forwarded)
            } else {
                draft
            });
        }
        Ok(drafts)
    }
}

fn group_message<'a>(records: &'a [Record], base: &SortKey) -> Option<&'a Record> {
    records
        .iter()
        .find(|record| record.key.base() == *base)
        .filter(|record| record.channel == Channel::Lark && record.is_group())
}
