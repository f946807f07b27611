//! Puts of many items at once, all or none; and transactions.

use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::builders::PutBuilder;
use aws_sdk_dynamodb::types::error::TransactionCanceledException;
use aws_sdk_dynamodb::types::{CancellationReason, Put, ReturnConsumedCapacity, TransactWriteItem};

use super::{Item, Table, TableError, failed};

/// Maximum number of items of a transaction.
pub(crate) const MAX_TRANSACTION: usize = 100;

const OPERATION: &str = "put items together";

impl Table {
    /// Puts at most [`MAX_TRANSACTION`] items with different keys, unless one of the keys is taken; returns whether it did.
    /// Costs twice the write units of single puts. The SDK's idempotency token makes a repeat safe.
    pub(crate) async fn put_all_new(&self, items: Vec<Item>) -> Result<bool, TableError> {
        let part = |put| TransactWriteItem::builder().put(put).build();
        let puts = items.into_iter().map(|item| self.new_put(item).build().map(part));
        let puts = puts.collect::<Result<_, _>>().map_err(|error| failed(OPERATION, &error))?;
        match self.transact(OPERATION, puts).await? {
            None => Ok(true),
            // Also if another write is at one of the items: the caller puts them one by one.
            Some(canceled) if canceled.cancellation_reasons().iter().any(is_refusal) => Ok(false),
            Some(canceled) => Err(failed(OPERATION, &canceled)),
        }
    }

    /// Returns a put of `item`, unless its key is taken.
    pub(super) fn new_put(&self, item: Item) -> PutBuilder {
        let put = Put::builder().table_name(&self.name).set_item(Some(item));
        put.condition_expression("attribute_not_exists(pk)")
    }

    /// Sends a transaction once; returns the exception if it was canceled.
    pub(super) async fn transact(
        &self,
        operation: &'static str,
        items: Vec<TransactWriteItem>,
    ) -> Result<Option<TransactionCanceledException>, TableError> {
        let request = self
            .client
            .transact_write_items()
            .set_transact_items(Some(items))
            .return_consumed_capacity(ReturnConsumedCapacity::Total);
        match Box::pin(request.send()).await {
            Ok(output) => {
                self.meter.wrote(output.consumed_capacity().first());
                Ok(None)
            }
            Err(SdkError::ServiceError(failure)) => match failure.into_err() {
                TransactWriteItemsError::TransactionCanceledException(canceled) => {
                    self.meter.refused();
                    Ok(Some(canceled))
                }
                error => Err(failed(operation, &error)),
            },
            Err(other) => Err(failed(operation, &other)),
        }
    }
}

fn is_refusal(reason: &CancellationReason) -> bool {
    matches!(reason.code(), Some("ConditionalCheckFailed" | "TransactionConflict"))
}
