//! Reads records again while a turn is made: those of a committed turn, including those that have left the table, and those
//! that have come since.

use std::time::Duration;

use annals_core::chat_key::ChatKey;
use annals_core::context::{context, records_of_turn};
use annals_core::record::{Kind, Record, message_at};
use annals_core::sort_key::SortKey;
use annals_core::trace::Step;
use annals_engine::live::Feed;
use annals_store::history::turn::OpenTurn;
use annals_store::history::{HistoryError, later_expiry};

use crate::agent::Agent;
use crate::coverage::newest_covered;
use crate::error::TurnError;
use crate::next::extended;
use crate::quiet::pause_for_more;
use crate::rounds::Rounds;
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

/// Brings `turn` up to what has come since its records were read: adds the messages that belong to it (see [`extended`]), takes
/// new forms of those that it covers, and drops those that were taken back. A boundary ends what is added, and the rest of an
/// album is waited for by the next turn. Returns true if anything changed: then the model is sent another context. One query,
/// whose failure is only logged, since what is not added is answered by the next turn. Fails with [`TurnError::TakenBack`] if
/// no message is left.
pub(crate) async fn extend(
    agent: &Agent,
    turn: &mut ClaimedTurn,
    rounds: &mut Rounds,
    feed: &Feed,
) -> Result<bool, TurnError> {
    if turn.lease.head.turn.is_some() {
        return Ok(false);
    }
    let Some(last) = turn.records.last() else { return Ok(false) };
    let mut timing = agent.recorder.begin(Step::Read);
    let newer = match agent.history.records_after(&turn.lease.chat, &last.key).await {
        Ok(newer) => newer,
        Err(error) => {
            timing.failed("failed");
            tracing::warn!(%error, "failed to read what has come since a turn began; the next turn answers it");
            return Ok(false);
        }
    };
    let newer: Vec<Record> = newer.into_iter().take_while(|record| record.kind() != Kind::Boundary).collect();
    if newer.is_empty() {
        timing.forget();
        return Ok(false);
    }
    let forms = newer.iter().filter(|record| is_later_form(record)).map(|record| record.key.base());
    let edited: Vec<SortKey> = forms.filter(|base| turn.turn.covers.contains(base)).collect();
    let records: Vec<Record> = turn.records.iter().cloned().chain(newer).collect();
    let (now, policy) = (agent.clock.now(), agent.policy(0));
    let mut own = turn.turn.clone();
    if !edited.is_empty() {
        let unanswered = records_of_turn(&records, &own.covers, now, &policy).1.unanswered;
        own.covers.retain(|base| unanswered.contains(base) || !edited.contains(base));
        if own.covers.is_empty() {
            return Err(TurnError::TakenBack);
        }
    }
    let seen = context(&records, now, &policy);
    let added = |next: &OpenTurn| -> Vec<SortKey> {
        next.covers.iter().filter(|base| !turn.turn.covers.contains(base)).cloned().collect()
    };
    let is_whole = |next: &OpenTurn| pause_for_more(Duration::ZERO, now, &records, &added(next)).is_none();
    let extended = extended(&turn.lease.head, &records, &seen, now, &own).filter(is_whole);
    let Some(next) = extended.or_else(|| (!edited.is_empty()).then_some(own)) else {
        timing.forget();
        return Ok(false);
    };
    let Some(newest) = newest_covered(&records, &next).cloned() else { return Ok(false) };
    let (added, is_other) = (added(&next), next.covers != turn.turn.covers);
    turn.newest = newest;
    (turn.records, turn.turn) = (records, next);
    if is_other {
        rounds.extend(&added, &turn.reply_key());
        feed.extend(turn.begun());
    }
    Ok(true)
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
        if may_have_reply || message_at(records, base).is_none_or(is_later_form) {
            let archived = agent.history.archived_message(chat, base).await?.records;
            records.extend(archived.into_iter().filter(|record| record.kind() != Kind::Summary));
        }
    }
    in_order(records);
    renew(records, &turn.covers, retention.expires_at(now));
    let is_whole = turn.covers.is_empty() || newest_covered(records, turn).is_some();
    if !is_whole {
        tracing::error!(
            chat = %chat.session_id(), covers = ?turn.covers,
            "dropped a turn: the messages that it covers are neither in the table nor in the archive"
        );
    }
    Ok(is_whole)
}

/// Adds to `records` the archived forms of each message that the queue `named` and whose first form has left the table, or may leave
/// it. If a form that has lapsed asked, none are added: it was answered, and its reply may have left the table. Returns true if any
/// were added, or are kept.
pub(crate) async fn add_edited(
    agent: &Agent,
    chat: &ChatKey,
    named: &[SortKey],
    records: &mut Vec<Record>,
) -> Result<bool, HistoryError> {
    let now = agent.clock.now();
    let mut added = Vec::new();
    for base in named {
        let may_have_left = |record: &Record| is_later_form(record) || record.has_lapsed(now);
        if !message_at(records, base).is_some_and(may_have_left) {
            continue;
        }
        let archived = agent.history.archived_message(chat, base).await?.records;
        let own = records.iter().filter(|record| record.key.base() == *base);
        if !own.chain(&archived).any(|record| record.asks() && record.has_lapsed(now)) {
            added.push(base.clone());
            records.extend(archived);
        }
    }
    in_order(records);
    renew(records, &added, agent.history.retention().expires_at(now));
    Ok(!added.is_empty())
}

/// Keeps the messages at `bases` until they are answered as if they had come now, also after their dates.
fn renew(records: &mut [Record], bases: &[SortKey], expires_at: Option<i64>) {
    for record in records.iter_mut().filter(|record| bases.contains(&record.key.base())) {
        record.expires_at = later_expiry(record.expires_at, expires_at);
    }
}

/// Sorts `records`, and keeps one of each key.
fn in_order(records: &mut Vec<Record>) {
    records.sort_by(|a, b| a.key.cmp(&b.key));
    records.dedup_by(|later, first| later.key == first.key);
}

fn is_later_form(record: &Record) -> bool {
    record.kind() == Kind::Revision
}
