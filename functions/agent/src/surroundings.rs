//! The messages around one of a group: if a platform sends only the messages that mention the bot, those in between are
//! fetched and appended, so that the agent knows the conversation.

use std::collections::HashSet;
use std::time::Duration;

use annals_core::draft::Draft;
use annals_core::sort_key::MessageId;
use annals_store::history::turn::Head;
use annals_store::history::{ContextRead, HistoryError};
use tokio::time::timeout;

use crate::agent::Agent;

/// Longest time for which fetching may delay an answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Appends the messages around the newest unanswered message of `seen` that are not in `seen`; returns true if there
/// are any. The platform's failures are logged: an answer without its surroundings is better than none.
///
/// Nothing that was deleted here is fetched again, that is, from before `head.forgotten_at`. A head keeps that for
/// [`Retention::due_after`](annals_store::history::Retention::due_after), so of a group nothing older is fetched, less a
/// sixth since a platform may deliver some hours late. A thread may begin at an older message.
pub(crate) async fn append_surroundings(
    agent: &Agent,
    head: &Head,
    seen: &ContextRead,
) -> Result<bool, HistoryError> {
    let newest = seen.context.unanswered.last();
    let newest = newest.and_then(|base| seen.records.iter().find(|record| record.key.base() == *base));
    let Some(newest) = newest.filter(|record| record.is_group()) else { return Ok(false) };
    let Some(platform) = agent.deliverer.platform(newest) else { return Ok(false) };
    // By id, since the time of a message may differ between its event and the list.
    let known: HashSet<&MessageId> = seen.records.iter().map(|record| &record.message_id).collect();
    // Messages before the session are not in view, and may be stored.
    let reach = seen.context.reaches_back_to.as_ref();
    let is_thread = newest.chat.window().is_some();
    let reaches = agent.history.retention().due_after() * 5 / 6;
    let oldest = (!is_thread).then(|| newest.ts.minus(reaches));
    let is_new = |draft: &Draft| {
        !known.contains(&draft.message_id)
            && Some(draft.ts) > oldest.max(head.forgotten_at)
            && reach.is_none_or(|reach| draft.key() >= *reach)
    };
    let drafts = match timeout(TIMEOUT, platform.surroundings(newest, &is_new)).await {
        Ok(Ok(drafts)) => drafts,
        Ok(Err(error)) => {
            tracing::warn!(%error, "failed to fetch the messages of a group; the turn continues without them");
            return Ok(false);
        }
        Err(_) => {
            tracing::warn!(
                "failed to fetch the messages of a group in time; the turn continues without them"
            );
            return Ok(false);
        }
    };
    for draft in &drafts {
        agent.history.append(draft).await?;
    }
    Ok(!drafts.is_empty())
}
