//! Reads the records of a committed turn, including those that have left the table.

use annals_core::chat_key::ChatKey;
use annals_core::record::{Kind, Record};
use annals_core::sort_key::SortKey;
use annals_store::history::later_expiry;
use annals_store::history::turn::OpenTurn;

use crate::agent::Agent;
use crate::coverage::{message_at, newest_covered};
use crate::error::TurnError;
use crate::task::ClaimedTurn;

/// Reads the records of a turn again, from `from` on, with the messages that it covers.
pub(crate) async fn reread(
    agent: &Agent,
    turn: &mut ClaimedTurn,
    from: Option<&SortKey>,
) -> Result<(), TurnError> {
    let ClaimedTurn { lease, turn, records, .. } = turn;
    *records = agent.history.context(&lease.chat, &lease.head, from, &agent.policy(0)).await?.records;
    // Some may have left the table, and are still to be answered.
    add_covered(agent, &lease.chat, turn, records).await?;
    Ok(())
}

/// Adds to `records` the messages that the committed `turn` covers, and its reply, as far as they have left the table
/// since, from the archive. Returns `false` if the newest message is nowhere: then the turn cannot be done any more.
pub(crate) async fn add_covered(
    agent: &Agent,
    chat: &ChatKey,
    turn: &OpenTurn,
    records: &mut Vec<Record>,
) -> Result<bool, TurnError> {
    let (now, retention) = (agent.clock.now(), agent.history.retention());
    for base in &turn.covers {
        // TTL deletes in any order: the reply may have left the table before the messages that it covers.
        let may_have_reply = turn.covers.last() == Some(base)
            && retention.may_have_left(base.ts(), now)
            && !records.iter().any(|record| record.key == base.reply());
        if may_have_reply || message_at(records, base).is_none() {
            let archived = agent.history.archived_message(chat, base).await?.records;
            records.extend(archived.into_iter().filter(|record| record.kind() != Kind::Summary));
        }
    }
    records.sort_by(|a, b| a.key.cmp(&b.key));
    records.dedup_by(|later, first| later.key == first.key);
    // They are kept until they are answered as if they had come now, also after their dates.
    let renewed = retention.expires_at(now);
    for record in records.iter_mut().filter(|record| turn.covers.contains(&record.key.base())) {
        record.expires_at = later_expiry(record.expires_at, renewed);
    }
    let is_whole = turn.covers.is_empty() || newest_covered(records, turn).is_some();
    if !is_whole {
        tracing::error!(
            chat = %chat.session_id(), covers = ?turn.covers,
            "dropped a turn: the messages that it covers are neither in the table nor in the archive"
        );
    }
    Ok(is_whole)
}
