//! The messages around one of a group: if an app gets only the messages that mention it, those in between are fetched, so that
//! the agent knows the conversation.

use std::time::Duration;

use annals_channel::platform::IsNew;
use annals_core::draft::Draft;
use annals_core::record::Record;

use crate::client::{CallError, Client};
use crate::listed::{from_listed, is_merge_forward, with_children};
use crate::metadata;

/// Longest wait for Lark's rate limit.
const PATIENCE: Duration = Duration::from_secs(1);

/// Fetches the messages around `newest` for which `is_new` returns true, the oldest first: those among the newest
/// [`Client::group_context`].
pub(super) async fn fetch(
    client: &Client,
    newest: &Record,
    is_new: &IsNew<'_>,
) -> Result<Vec<Draft>, CallError> {
    let limit = client.group_context;
    if limit == 0 {
        return Ok(Vec::new());
    }
    let mut client = client.clone();
    client.api.set_patience(PATIENCE);
    let bot = client.bot().await?;
    let beside = Draft::from(newest);
    let items = match metadata::thread_of(&newest.message.metadata) {
        Some(thread) => client.list_thread(&thread, limit).await?,
        None => client.list_messages(&newest.chat_id, Some(newest.ts), limit).await?,
    };
    let mut drafts = Vec::new();
    for item in items.iter().rev() {
        let draft = from_listed(item, &beside, &bot).filter(is_new);
        let Some(draft) = draft else { continue };
        drafts.push(if is_merge_forward(item) {
            // One that cannot be opened is still a message.
            match client.get_message(draft.message_id.as_str()).await {
                Ok(forwarded) => with_children(draft, &forwarded),
                Err(_) => draft,
            }
        } else {
            draft
        });
    }
    Ok(drafts)
}
