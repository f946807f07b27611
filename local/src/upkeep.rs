//! Runs the compactor on a schedule and deletes expired records, as EventBridge and DynamoDB do in AWS.

use std::collections::HashSet;
use std::time::Duration;

use annals_compactor::{Compactor, Report};
use annals_core::sort_key::Timestamp;
use annals_engine::scheduling::{Ran, Scheduling};
use annals_io::clock::Clock;
use annals_store::history::directory::is_due_entry;
use annals_store::history::due::{DUE_AT, DUE_SINCE};
use anyhow::Context;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::types::AttributeValue;

use crate::stores::{Stores, TABLE};

const LONGEST_INTERVAL: Duration = Duration::from_mins(5);
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);
/// Time between two looks at the schedules.
const SCHEDULES_INTERVAL: Duration = Duration::from_secs(5);
/// Time between two removals of deleted text from the files.
const PURGE_INTERVAL: Duration = Duration::from_mins(1);
/// Longest run. It is limited only because the deletion of expired records waits for it.
const RUN: Duration = Duration::from_hours(1);
/// Longest time between two sweeps, each of which reads the whole table.
const LONGEST_SWEEP_INTERVAL: Duration = Duration::from_hours(6);

/// Runs `compactor` at once and then at intervals, and deletes expired records after it.
pub async fn keep_up(compactor: Compactor, dynamodb: Client) {
    let clock = compactor.history.clock().clone();
    let eighth = compactor.history.retention().due_after() / 8;
    let interval = eighth.clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL);
    let sweep_interval = eighth.clamp(SHORTEST_INTERVAL, LONGEST_SWEEP_INTERVAL);
    let mut next_sweep = clock.now();
    loop {
        log(&compactor.run(clock.now().plus(RUN)).await);
        if clock.now() >= next_sweep {
            match sweep(&dynamodb, TABLE, clock.now()).await {
                Ok(0) => {}
                Ok(swept) => tracing::info!(swept, "deleted expired items"),
                Err(error) => {
                    let error = format!("{error:#}");
                    tracing::error!(error, "failed to delete expired items; trying again later");
                }
            }
            next_sweep = clock.now().plus(sweep_interval);
        }
        clock.sleep(interval).await;
    }
}

/// Carries out the schedules that are due, at once and then at intervals, as EventBridge has it done in AWS.
pub async fn keep_schedules(scheduling: Scheduling) {
    let clock = scheduling.history.clock().clone();
    loop {
        match scheduling.run_due(clock.now().plus(RUN)).await {
            Ok(Ran { occurrences: 0, failed: 0, .. }) => {}
            Ok(Ran { occurrences, late, failed }) => {
                tracing::info!(occurrences, late, failed, "schedules came due");
            }
            Err(error) => {
                tracing::error!(%error, "failed to read the schedules that are due; trying again soon");
            }
        }
        clock.sleep(SCHEDULES_INTERVAL).await;
    }
}

/// Removes the text of deleted items from the write-ahead logs of `stores`, at intervals.
pub(crate) async fn keep_clean(stores: Stores, clock: Clock) {
    loop {
        clock.sleep(PURGE_INTERVAL).await;
        if let Err(error) = stores.clean().await {
            let error = format!("{error:#}");
            tracing::error!(error, "failed to remove deleted text from the files; trying again later");
        }
    }
}

fn log(report: &Report) {
    let Report { visited, failed, busy, left, segments, archived, summaries, captured, .. } = report;
    if visited + failed + busy + left > 0 {
        let (duration, overdue) = (report.duration, report.oldest_overdue);
        tracing::info!(
            visited,
            failed,
            busy,
            left,
            segments,
            archived,
            summaries,
            captured,
            ?duration,
            ?overdue,
            "the compactor has run"
        );
    }
}

/// Deletes the items of `table` that have expired at `now`, records and id markers, as DynamoDB's TTL does in AWS. Returns their
/// number. The engine's own sweep uses the system's clock.
///
/// Unlike DynamoDB, it keeps the records of a chat that is due for the compactor: a laptop is switched off at night, so records may
/// expire before they are archived.
pub async fn sweep(dynamodb: &Client, table: &str, now: Timestamp) -> anyhow::Result<usize> {
    let now = now.as_millis() / 1000;
    let scan = dynamodb.scan().table_name(table);
    let scan = scan.projection_expression(format!("pk, sk, expiresAt, {DUE_AT}, {DUE_SINCE}"));
    let mut items = scan.into_paginator().items().send();
    let (mut expired, mut waiting) = (Vec::new(), HashSet::new());
    while let Some(item) = items.next().await {
        let mut item = item.context("failed to read the table")?;
        let number = |name: &str| -> Option<i64> { item.get(name)?.as_n().ok()?.parse().ok() };
        let has_expired = number("expiresAt").is_some_and(|at| at < now);
        let is_entry = item.get("sk").and_then(|sk| sk.as_s().ok()).is_some_and(|sk| is_due_entry(sk));
        let waits = number(DUE_SINCE).is_some() || (is_entry && number(DUE_AT).is_some_and(|at| at <= now));
        let (Some(AttributeValue::S(pk)), Some(sk)) = (item.remove("pk"), item.remove("sk")) else {
            continue;
        };
        if waits {
            waiting.insert(pk.clone());
        }
        if has_expired {
            expired.push((pk, sk));
        }
    }
    expired.retain(|(pk, _)| !waiting.contains(pk));
    let count = expired.len();
    for (pk, sk) in expired {
        let delete = dynamodb.delete_item().table_name(table).key("pk", AttributeValue::S(pk)).key("sk", sk);
        // A run may have set a later date meanwhile.
        let delete = delete
            .condition_expression("expiresAt < :now")
            .expression_attribute_values(":now", AttributeValue::N(now.to_string()));
        match delete.send().await {
            Ok(_) => {}
            Err(error)
                if error
                    .as_service_error()
                    .is_some_and(DeleteItemError::is_conditional_check_failed_exception) => {}
            Err(error) => return Err(error).context("failed to delete an item"),
        }
    }
    Ok(count)
}
