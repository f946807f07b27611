//! The token budget of a turn: compaction before it and on `/compact`, and a note on replies to a shortened context.

use annals_core::command;
use annals_core::compaction::cut::Why;
use annals_core::context::Context;
use annals_core::message::UiMessage;
use annals_core::record::{Kind, Record};
use annals_core::sort_key::Timestamp;
use annals_core::trace::Step;
use annals_engine::compaction::CompactionError;
use annals_store::history::HistoryError;
use annals_store::history::turn::Lease;

use crate::agent::Agent;
use crate::error::TurnError;
use crate::retry_policy::{SUMMARIES, SUMMARIES_TIME};
use crate::task::ClaimedTurn;

/// The summaries that a turn has made before it asks.
#[derive(Debug, Default)]
pub(crate) struct Summaries {
    made: u32,
    is_over: bool,
    until: Option<Timestamp>,
}

/// Compacts once if the context of `records` exceeds `budget` tokens, or leaves the table soon. Returns true if it did, so
/// that the records must be read again. A failure is logged, and the turn continues without what does not fit.
pub(crate) async fn compact_if_due(
    agent: &Agent,
    lease: &mut Lease,
    records: &[Record],
    budget: u32,
    summaries: &mut Summaries,
) -> Result<bool, TurnError> {
    if summaries.is_over || summaries.made >= SUMMARIES {
        return Ok(false);
    }
    let Some(why) = agent.compaction().is_due(records, budget) else { return Ok(false) };
    summaries.made += 1;
    let now = agent.clock.now();
    let until = *summaries.until.get_or_insert(now.plus(SUMMARIES_TIME));
    let compacting = Box::pin(compact_or_continue(agent, lease, records, why));
    let is_done = if let Some(is_done) = agent.clock.within(until.since(now), compacting).await {
        is_done?
    } else {
        tracing::warn!("failed to compact a chat in time; the turn continues without what does not fit");
        false
    };
    summaries.is_over = !is_done;
    Ok(is_done)
}

/// Compacts once; returns true if there was something to compact. A failure is logged, and the next turn tries again.
pub(crate) async fn compact_or_continue(
    agent: &Agent,
    lease: &mut Lease,
    records: &[Record],
    why: Why,
) -> Result<bool, TurnError> {
    match compact(agent, lease, records, why, None).await {
        Ok(Some(_)) => Ok(true),
        Ok(None) => {
            if let Why::Expiring { before } = why {
                agent.compaction().keep(records, before).await?;
            }
            Ok(false)
        }
        Err(CompactionError::History(error @ HistoryError::LeaseLost)) => Err(error.into()),
        Err(error) => {
            tracing::warn!(%error, "failed to compact a chat; the turn continues without what does not fit");
            Ok(false)
        }
    }
}

/// Compacts once. Returns true if there is more to compact, and `None` if there is nothing.
async fn compact(
    agent: &Agent,
    lease: &mut Lease,
    records: &[Record],
    why: Why,
    focus: Option<&str>,
) -> Result<Option<bool>, CompactionError> {
    let mut timing = agent.recorder.begin(Step::Compact);
    let compacted = agent.compaction().run(lease, records, why, focus).await;
    match &compacted {
        Ok(Some(_)) => {}
        Ok(None) => timing.forget(),
        Err(CompactionError::Model(error)) => timing.failed(error.kind()),
        Err(_) => timing.failed("failed"),
    }
    drop(timing);
    let Some(compacted) = compacted? else { return Ok(None) };
    if agent.history.retention().archive {
        lease.head.archive.get_or_insert_default();
    }
    lease.head.context_from = compacted.context_from.or(lease.head.context_from.take());
    Ok(Some(compacted.leaves_more))
}

/// Carries out a `/compact`: makes summaries until one counts all but the most recent messages. Returns the text of the
/// notice.
pub(crate) async fn compact_on_command(agent: &Agent, turn: &mut ClaimedTurn) -> Result<String, TurnError> {
    let texts = turn.texts(agent.language);
    let ClaimedTurn { lease, newest: command, .. } = turn;
    let text = command.message.plain_text();
    // Without a command at the start, a mention of the bot is there.
    let focus = command::rest(&text).or_else(|| Some(text.trim().split_once(char::is_whitespace)?.1.trim()));
    let focus = focus.filter(|focus| !focus.is_empty());
    for _ in 0..SUMMARIES {
        let seen = agent.history.context(&lease.chat, &lease.head, None, &agent.policy(0)).await?;
        let compacted = compact(agent, lease, &seen.records, Why::Asked, focus).await?;
        if compacted.is_none_or(|leaves_more| !leaves_more) {
            break;
        }
    }
    // By the stored records: a run that died may have made some of the summaries, or all.
    let records = agent.history.context(&lease.chat, &lease.head, None, &agent.policy(0)).await?.records;
    let summaries = records.iter().filter(|record| record.kind() == Kind::Summary);
    let summary = summaries.max_by_key(|summary| summary.sent_at);
    let made = summary.filter(|summary| summary.sent_at >= command.sent_at);
    let counted = made.and_then(|summary| summary.source()).map_or(0, |source| source.count);
    let kept = agent.compaction().rules().keep_recent;
    Ok(texts.compacted(counted, kept))
}

/// Records in a reply's metadata which messages its model was not shown, or not in full.
pub(crate) fn note_left_out(message: &mut UiMessage, seen: &Context, shortened: &[String]) {
    if seen.left_out > 0 || !shortened.is_empty() {
        message.metadata.set_left_out(seen.left_out, shortened);
    }
}
