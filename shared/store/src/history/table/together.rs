//! Puts of many items at once, all or none.

use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{CancellationReason, Put, ReturnConsumedCapacity, TransactWriteItem};

use super::{Item, Table, TableError, failed};

/// Maximum number of items of a transaction.
pub(crate) const MAX_TRANSACTION: usize = 100;

const OPERATION: &str = "put items together";

impl Table {
    /// Puts at most [`MAX_TRANSACTION`] items with different keys, unless one of the keys is taken; returns whether it did.
    /// Costs twice the write units of single puts. The SDK's idempotency token makes a repeat safe.
    pub(crate) async fn put_all_new(&self, items: Vec<Item>) -> Result<bool, TableError> {
        let mut puts = Vec::with_capacity(items.len());
        for item in items {
            let put = Put::builder()
                .table_name(&self.name)
                .set_item(Some(item))
                .condition_expression("attribute_not_exists(pk)")
                .build()
                .map_err(|error| failed(OPERATION, &error))?;
            puts.push(TransactWriteItem::builder().put(put).build());
        }
        let request = self
            .client
            .transact_write_items()
            .set_transact_items(Some(puts))
            .return_consumed_capacity(ReturnConsumedCapacity::Total);
        match Box::pin(request.send()).await {
            Ok(output) => {
                self.meter.wrote(output.consumed_capacity().first());
                Ok(true)
            }
            Err(SdkError::ServiceError(failure)) => match failure.into_err() {
                // Also if another write is at one of the items: the caller puts them one by one.
                TransactWriteItemsError::TransactionCanceledException(canceled)
                    if canceled.cancellation_reasons().iter().any(is_refusal) =>
                {
                    self.meter.refused();
                    Ok(false)
                }
                error => Err(failed(OPERATION, &error)),
            },
            Err(other) => Err(failed(OPERATION, &other)),
        }
    }
}

fn is_refusal(reason: &CancellationReason) -> bool {
    matches!(reason.code(), Some("ConditionalCheckFailed" | "TransactionConflict"))
}
