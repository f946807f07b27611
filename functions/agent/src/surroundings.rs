//! What was said around a message of a Lark group: where an app is told only of messages that address it, those in
//! between are fetched and appended as what they are, so that the agent knows what is talked about.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use annals_shared::channel::lark::bot::Bot;
use annals_shared::channel::lark::client::{Client, SendError};
use annals_shared::channel::lark::listed::{from_listed, is_merge_forward, with_children};
use annals_shared::channel::settings::{GroupActivation, Settings};
use annals_shared::history::{History, HistoryError, Seen};
use annals_shared::record::{Channel, Draft, Record};
use annals_shared::sort_key::{MessageId, SortKey};
use serde_json::Value;
use tokio::sync::OnceCell;
use tokio::time::timeout;

/// How long the fetching may hold up an answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long it waits where Lark asks to slow down.
const PATIENCE: Duration = Duration::from_secs(1);

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
        let client = client.with_patience(PATIENCE);
        is_wanted.then(|| Self { client, app_id, settings, limit, open_id: Arc::default() })
    }

    /// Appends what was said around the newest unanswered message of `seen` and is not in it; answers whether there
    /// was any. Lark's failures are logged: an answer without its surroundings is better than none.
    pub(crate) async fn append(&self, history: &History, seen: &Seen) -> Result<bool, HistoryError> {
        let Some(newest) = seen.context.unanswered.last().and_then(|base| group_message(&seen.records, base))
        else {
            return Ok(false);
        };
        // By id, since an event may know another time for a message than the list does.
        let known: HashSet<&MessageId> = seen.records.iter().map(|record| &record.message_id).collect();
        // What lies before the Session is not in view, and may well be stored.
        let reach = seen.context.reaches_back_to.as_ref();
        let is_new = |draft: &Draft| {
            !known.contains(&draft.message_id) && reach.is_none_or(|reach| draft.key() >= *reach)
        };
        let drafts = match timeout(TIMEOUT, self.fetch(newest, is_new)).await {
            Ok(Ok(drafts)) => drafts,
            Ok(Err(error)) => {
                tracing::warn!(%error, "a group's messages are not fetched");
                return Ok(false);
            }
            Err(_) => {
                tracing::warn!("a group's messages are not fetched in time");
                return Ok(false);
            }
        };
        for draft in &drafts {
            history.append(draft).await?;
        }
        Ok(!drafts.is_empty())
    }

    /// The messages around `newest` that `is_new`, oldest first.
    async fn fetch(&self, newest: &Record, is_new: impl Fn(&Draft) -> bool) -> Result<Vec<Draft>, SendError> {
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
            let Some(draft) = from_listed(item, &beside, &bot, &self.settings).filter(&is_new) else {
                continue;
            };
            drafts.push(if is_merge_forward(item) {
                // One that cannot be opened is still a message.
                match self.client.get_message(draft.message_id.as_str()).await {
                    Ok(forwarded) => with_children(draft, &forwarded),
                    Err(_) => draft,
                }
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
