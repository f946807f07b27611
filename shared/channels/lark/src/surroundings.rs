//! The messages around one of a group: if an app gets only the messages that mention it, those in between are fetched, so that
//! the agent knows the conversation.

use std::sync::Arc;
use std::time::Duration;

use annals_channel::settings::{GroupActivation, Settings};
use annals_channel::surroundings::{IsNew, Surroundings};
use annals_core::draft::Draft;
use annals_core::record::{Channel, Record};
use async_trait::async_trait;
use tokio::sync::OnceCell;

use crate::bot::Bot;
use crate::client::{CallError, Client};
use crate::listed::{from_listed, is_merge_forward, with_children};
use crate::metadata;

/// Longest wait for Lark's rate limit.
const PATIENCE: Duration = Duration::from_secs(1);

/// Fetches the messages around those of Lark groups.
pub struct LarkSurroundings {
    client: Client,
    app_id: String,
    settings: Settings,
    limit: usize,
    open_id: OnceCell<String>,
}

impl LarkSurroundings {
    /// Returns a fetcher of the newest `limit` messages (`LARK_GROUP_CONTEXT`) by `client`, parsed by `settings`. `None` if
    /// there is nothing to fetch: the limit is 0, or every message of a group comes as an event.
    pub fn of(
        client: Client,
        app_id: String,
        settings: Settings,
        limit: usize,
    ) -> Option<Arc<dyn Surroundings>> {
        let is_wanted = limit > 0 && settings.group_activation == GroupActivation::Mention;
        let client = client.with_patience(PATIENCE);
        is_wanted.then(|| Arc::new(Self { client, app_id, settings, limit, open_id: OnceCell::new() }) as _)
    }

    async fn fetch(&self, newest: &Record, is_new: &IsNew<'_>) -> Result<Vec<Draft>, CallError> {
        let open_id =
            self.open_id.get_or_try_init(async || Ok(self.client.bot_info().await?.open_id)).await?;
        let bot = Bot { app_id: Some(self.app_id.clone()), open_id: Some(open_id.clone()) };
        let beside = Draft::from(newest);
        let items = match metadata::thread_of(&newest.message.metadata) {
            Some(thread) => self.client.list_thread(&thread, self.limit).await?,
            None => self.client.list_messages(&newest.chat_id, Some(newest.ts), self.limit).await?,
        };
        let mut drafts = Vec::new();
        for item in items.iter().rev() {
            let draft = from_listed(item, &beside, &bot, &self.settings).filter(is_new);
            let Some(draft) = draft else { continue };
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

#[async_trait]
impl Surroundings for LarkSurroundings {
    fn channel(&self) -> Channel {
        Channel::Lark
    }

    async fn around(&self, newest: &Record, is_new: &IsNew<'_>) -> Result<Vec<Draft>, String> {
        self.fetch(newest, is_new).await.map_err(|error| error.to_string())
    }
}
