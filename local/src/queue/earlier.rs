//! The queue of an earlier version, a table of the DynamoDB engine.
//!
//! ```json
//! {"pk": "turns", "sk": "00000000000000000012", "turn": "{\"chat\":\"telegram:chat:42\",\"from\":\"1763…#…07\"}"}
//! ```

use anyhow::Context;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::query::QueryError;
use aws_sdk_dynamodb::types::AttributeValue;

use super::LocalQueue;

const TABLE: &str = "annals-queue";

impl LocalQueue {
    /// Moves the turns of an earlier version to this queue, in their order. A crash in between leaves turns in both, and a turn that
    /// comes twice does nothing. Skips a turn that cannot be read, with a warning: the chat's next message answers all.
    pub async fn take_over(&self, dynamodb: &Client) -> anyhow::Result<()> {
        let query = dynamodb
            .query()
            .table_name(TABLE)
            .key_condition_expression("pk = :pk")
            .expression_attribute_values(":pk", AttributeValue::S("turns".into()));
        let mut items = query.into_paginator().items().send();
        while let Some(item) = items.next().await {
            let item = match item {
                Err(error)
                    if error.as_service_error().is_some_and(QueryError::is_resource_not_found_exception) =>
                {
                    return Ok(());
                }
                item => item.context("failed to read the earlier queue")?,
            };
            let text = |name: &str| item.get(name).and_then(|value: &AttributeValue| value.as_s().ok());
            let turn = text("turn").and_then(|turn| serde_json::from_str(turn).ok());
            let Some(turn) = turn else {
                let number = text("sk");
                tracing::warn!(
                    number,
                    "skipped a turn of the earlier queue that cannot be read; its chat's next message answers what is unanswered"
                );
                continue;
            };
            self.send(&turn).await?;
        }
        dynamodb
            .delete_table()
            .table_name(TABLE)
            .send()
            .await
            .context("failed to delete the earlier queue")?;
        Ok(())
    }
}
