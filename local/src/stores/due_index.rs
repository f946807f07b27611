//! Creates the index of due chats on the local table, as `infra/template.yaml` does in AWS.

use std::collections::HashMap;

use annals_core::chat_key::ChatKey;
use annals_store::history::due::{DUE_AT, DUE_SHARD, DUE_SINCE, INDEX, shard_of};
use anyhow::Context;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, CreateGlobalSecondaryIndexAction, GlobalSecondaryIndex,
    GlobalSecondaryIndexUpdate, KeySchemaElement, KeyType, Projection, ProjectionType, ScalarAttributeType,
};

/// Returns the definitions of the index's keys.
pub(super) fn attributes() -> anyhow::Result<Vec<AttributeDefinition>> {
    Ok(vec![attribute(DUE_SHARD, ScalarAttributeType::S)?, attribute(DUE_AT, ScalarAttributeType::N)?])
}

pub(super) fn attribute(name: &str, scalar: ScalarAttributeType) -> anyhow::Result<AttributeDefinition> {
    Ok(AttributeDefinition::builder().attribute_name(name).attribute_type(scalar).build()?)
}

/// Returns the schema of the keys of a partition and of a place in it.
pub(super) fn schema(hash: &str, range: &str) -> anyhow::Result<Vec<KeySchemaElement>> {
    let of = |name: &str, key_type: KeyType| {
        KeySchemaElement::builder().attribute_name(name).key_type(key_type).build()
    };
    Ok(vec![of(hash, KeyType::Hash)?, of(range, KeyType::Range)?])
}

/// Returns the index of a new table.
pub(super) fn index() -> anyhow::Result<GlobalSecondaryIndex> {
    let index = GlobalSecondaryIndex::builder().index_name(INDEX).projection(projection());
    Ok(index.set_key_schema(Some(schema(DUE_SHARD, DUE_AT)?)).build()?)
}

fn projection() -> Projection {
    Projection::builder().projection_type(ProjectionType::KeysOnly).build()
}

/// Adds the index to a table of an earlier version. Registers its chats first: each is due since the time of its last record.
/// A crash in between leaves a table without the index, so the next start repeats both.
pub(super) async fn add(dynamodb: &Client, table: &str) -> anyhow::Result<()> {
    for (pk, last) in last_records(dynamodb, table).await? {
        let Ok(chat) = pk.parse::<ChatKey>() else { continue };
        let date = AttributeValue::N((last / 1000).to_string());
        dynamodb
            .update_item()
            .table_name(table)
            .key("pk", AttributeValue::S(pk))
            .key("sk", AttributeValue::S("!head".into()))
            .update_expression(format!("SET {DUE_SHARD} = :shard, {DUE_AT} = :date, {DUE_SINCE} = :date"))
            .expression_attribute_values(":shard", AttributeValue::S(shard_of(&chat).to_string()))
            .expression_attribute_values(":date", date)
            .send()
            .await
            .context("failed to register a chat")?;
    }
    let index = CreateGlobalSecondaryIndexAction::builder().index_name(INDEX).projection(projection());
    let create = index.set_key_schema(Some(schema(DUE_SHARD, DUE_AT)?)).build()?;
    dynamodb
        .update_table()
        .table_name(table)
        .set_attribute_definitions(Some(attributes()?))
        .global_secondary_index_updates(GlobalSecondaryIndexUpdate::builder().create(create).build())
        .send()
        .await
        .context("failed to create the index of due chats")?;
    Ok(())
}

/// Returns the time of the last record of each partition, in epoch milliseconds.
async fn last_records(dynamodb: &Client, table: &str) -> anyhow::Result<HashMap<String, i64>> {
    let mut last = HashMap::new();
    let scan = dynamodb.scan().table_name(table).projection_expression("pk, sentAt");
    let mut items = scan.into_paginator().items().send();
    while let Some(item) = items.next().await {
        let item = item.context("failed to read the table")?;
        let sent_at: Option<i64> =
            item.get("sentAt").and_then(|value| value.as_n().ok()).and_then(|n| n.parse().ok());
        if let (Some(Ok(pk)), Some(sent_at)) = (item.get("pk").map(AttributeValue::as_s), sent_at) {
            let newest = last.entry(pk.clone()).or_insert(sent_at);
            *newest = sent_at.max(*newest);
        }
    }
    Ok(last)
}
