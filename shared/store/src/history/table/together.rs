//! Transactions: puts that depend on another item, that are counted, and of many items at once.

use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::builders::PutBuilder;
use aws_sdk_dynamodb::types::error::TransactionCanceledException;
use aws_sdk_dynamodb::types::{
    AttributeValue, CancellationReason, Delete, Put, ReturnValuesOnConditionCheckFailure, TransactWriteItem,
};

use super::{Item, Table, TableError, Update, Written, failed, string};

/// Maximum number of items of a transaction.
pub(crate) const MAX_TRANSACTION: usize = 100;

/// Maximum number of attempts at a transaction that conflicts with another one on the same items.
const MAX_CONFLICTS: u32 = 20;

const OPERATION: &str = "put items together";

/// An existing item that a put depends on: if it is gone, nothing is put.
#[derive(Clone, Debug)]
pub(crate) struct Anchor {
    /// Its sort key, in the partition of the item to be put.
    sk: String,
    /// Its change with the put, and the conditions on which it is the anchor.
    update: Update,
}

impl Anchor {
    /// An anchor that stays as it is.
    pub(crate) fn at(sk: impl Into<String>) -> Self {
        Self::changed(sk, Update::default().when("attribute_exists(pk)"))
    }

    /// An anchor that changes with the put; `update` has a condition.
    pub(crate) fn changed(sk: impl Into<String>, update: Update) -> Self {
        Self { sk: sk.into(), update }
    }

    /// Sets `attribute` with the put.
    pub(crate) fn setting(self, attribute: &str, value: AttributeValue) -> Self {
        Self { update: self.update.set(attribute, value), ..self }
    }
}

/// The result of a put that depends on an [`Anchor`].
#[derive(Debug)]
pub(crate) enum Anchored {
    Done,
    /// The key is taken; the item that has it.
    Taken(Item),
    /// The anchor is gone. Nothing is stored.
    Gone,
}

impl Table {
    /// Puts `item` unless its key is taken, and only while the item of `anchor` exists in the same partition. Costs 4
    /// write units for items under 1 KB. The SDK's idempotency token makes a repeat safe.
    pub(crate) async fn put_anchored(&self, item: Item, anchor: Anchor) -> Result<Anchored, TableError> {
        let pk = item.get("pk").cloned().unwrap_or_else(|| string(""));
        let key = Item::from([("pk".to_owned(), pk), ("sk".to_owned(), string(anchor.sk))]);
        let of_anchor =
            anchor.update.into_part(&self.name, key).map_err(|error| failed(OPERATION, &error))?;
        let Some(mut reasons) = self.put_together(item, vec![of_anchor]).await? else {
            return Ok(Anchored::Done);
        };
        // The put is the last.
        Ok(match reasons.pop() {
            _ if reasons.iter().any(is_refusal) => Anchored::Gone,
            put => Anchored::Taken(put.and_then(|reason| reason.item).unwrap_or_default()),
        })
    }

    /// Puts `item` unless its key is taken, and makes `updates`, of the items at these keys, if it does. Costs 2 write units
    /// for each item under 1 KB. The SDK's idempotency token makes a repeat safe.
    pub(crate) async fn put_with(
        &self,
        item: Item,
        updates: Vec<(Item, Update)>,
    ) -> Result<Written, TableError> {
        let updates = updates.into_iter().map(|(key, update)| update.into_part(&self.name, key));
        let updates = updates.collect::<Result<_, _>>().map_err(|error| failed(OPERATION, &error))?;
        Ok(written(self.put_together(item, updates).await?))
    }

    /// Puts `item` unless its key is taken, and deletes the item `sk` of its partition, if that has this value of this
    /// attribute: both or neither. The SDK's idempotency token makes a repeat safe.
    pub(crate) async fn put_replacing(
        &self,
        item: Item,
        sk: &str,
        (name, value): (&str, AttributeValue),
    ) -> Result<Written, TableError> {
        let delete = Delete::builder()
            .table_name(&self.name)
            .set_key(
                item.get("pk")
                    .map(|pk| Item::from([("pk".to_owned(), pk.clone()), ("sk".to_owned(), string(sk))])),
            )
            .condition_expression(format!("{name} = :value"))
            .expression_attribute_values(":value", value);
        let delete = delete.build().map_err(|error| failed(OPERATION, &error))?;
        let beside = vec![TransactWriteItem::builder().delete(delete).build()];
        Ok(written(self.put_together(item, beside).await?))
    }

    /// Puts `item` in one transaction with what is `beside` it, unless its key is taken or a condition does not hold: then it
    /// returns a reason for each, the last of which is the put's. A conflict with another transaction is repeated.
    async fn put_together(
        &self,
        item: Item,
        mut beside: Vec<TransactWriteItem>,
    ) -> Result<Option<Vec<CancellationReason>>, TableError> {
        let put = self
            .new_put(item)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let put = put.build().map_err(|error| failed(OPERATION, &error))?;
        beside.push(TransactWriteItem::builder().put(put).build());
        let mut conflicts = 0;
        while let Some(canceled) = self.transact(beside.clone()).await? {
            let reasons = canceled.cancellation_reasons.clone().unwrap_or_default();
            if reasons.iter().any(is_refusal) {
                return Ok(Some(reasons));
            }
            conflicts += 1;
            if conflicts >= MAX_CONFLICTS {
                return Err(failed(OPERATION, &canceled));
            }
        }
        Ok(None)
    }

    /// Puts at most [`MAX_TRANSACTION`] items with different keys, unless one of the keys is taken; returns whether it did.
    /// Costs twice the write units of single puts. The SDK's idempotency token makes a repeat safe.
    pub(crate) async fn put_all_new(&self, items: Vec<Item>) -> Result<bool, TableError> {
        let part = |put| TransactWriteItem::builder().put(put).build();
        let puts = items.into_iter().map(|item| self.new_put(item).build().map(part));
        let puts = puts.collect::<Result<_, _>>().map_err(|error| failed(OPERATION, &error))?;
        let is_taken =
            |reason: &CancellationReason| is_refusal(reason) || reason.code() == Some("TransactionConflict");
        match self.transact(puts).await? {
            None => Ok(true),
            // Also if another write is at one of the items: the caller puts them one by one.
            Some(canceled) if canceled.cancellation_reasons().iter().any(is_taken) => Ok(false),
            Some(canceled) => Err(failed(OPERATION, &canceled)),
        }
    }

    /// Returns a put of `item`, unless its key is taken.
    fn new_put(&self, item: Item) -> PutBuilder {
        let put = Put::builder().table_name(&self.name).set_item(Some(item));
        put.condition_expression("attribute_not_exists(pk)")
    }

    /// Sends a transaction once; returns the exception if it was canceled.
    async fn transact(
        &self,
        items: Vec<TransactWriteItem>,
    ) -> Result<Option<TransactionCanceledException>, TableError> {
        let request = self.client.transact_write_items().set_transact_items(Some(items));
        match Box::pin(request.send()).await {
            Ok(_) => Ok(None),
            Err(SdkError::ServiceError(failure)) => match failure.into_err() {
                TransactWriteItemsError::TransactionCanceledException(canceled) => Ok(Some(canceled)),
                error => Err(failed(OPERATION, &error)),
            },
            Err(other) => Err(failed(OPERATION, &other)),
        }
    }
}

fn written(refused: Option<Vec<CancellationReason>>) -> Written {
    match refused {
        None => Written::Done(Item::new()),
        Some(mut reasons) => {
            Written::Refused(reasons.pop().and_then(|reason| reason.item).unwrap_or_default())
        }
    }
}

fn is_refusal(reason: &CancellationReason) -> bool {
    reason.code() == Some("ConditionalCheckFailed")
}
