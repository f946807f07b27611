//! Puts that depend on another item of the same partition: one transaction.

use aws_sdk_dynamodb::error::{BuildError, SdkError};
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{
    CancellationReason, ConditionCheck, Put, ReturnConsumedCapacity, ReturnValuesOnConditionCheckFailure,
    TransactWriteItem, Update,
};

use super::{Item, Table, TableError, failed, number, string};

/// Maximum number of attempts at a transaction that conflicts with another one on the same items.
const MAX_CONFLICTS: u32 = 20;

const OPERATION: &str = "put an item beside another";

/// An existing item that a put depends on: if it is gone, nothing is put.
#[derive(Clone, Debug, Default)]
pub(crate) struct Anchor {
    /// Its sort key, in the partition of the item to be put.
    pub(crate) sk: String,
    /// Its `sentAt`, if another item under the same key does not count.
    pub(crate) sent_at: Option<i64>,
    /// Its `revisions` attribute after the put; unchanged if `None`.
    pub(crate) revisions: Option<u32>,
    /// If it is a schedule: the date that must be its `dueAt`, and becomes its `firedAt`, which it must not be yet.
    pub(crate) fires: Option<i64>,
}

impl Anchor {
    /// An anchor that stays as it is.
    pub(crate) fn at(sk: impl Into<String>) -> Self {
        Self { sk: sk.into(), ..Self::default() }
    }
}

/// The result of a put that depends on an [`Anchor`].
#[derive(Debug)]
pub(crate) enum Anchored {
    /// The item is stored.
    Done,
    /// The key is taken; the item that has it.
    Taken(Item),
    /// The anchor is gone. Nothing is stored.
    Gone,
}

impl Table {
    /// Puts `item` unless its key is taken, and only while the item of `anchor` exists in the same partition. Costs 4
    /// write units for items under 1 KB. The SDK's idempotency token makes a repeat safe.
    pub(crate) async fn put_anchored(&self, item: Item, anchor: &Anchor) -> Result<Anchored, TableError> {
        let items = self.transaction(item, anchor).map_err(|error| failed(OPERATION, &error))?;
        let mut conflicts = 0;
        loop {
            let request = self
                .client
                .transact_write_items()
                .set_transact_items(Some(items.clone()))
                .return_consumed_capacity(ReturnConsumedCapacity::Total);
            let error = match Box::pin(request.send()).await {
                Ok(output) => {
                    self.meter.wrote(output.consumed_capacity().first());
                    return Ok(Anchored::Done);
                }
                Err(SdkError::ServiceError(failure)) => failure.into_err(),
                Err(other) => return Err(failed(OPERATION, &other)),
            };
            let TransactWriteItemsError::TransactionCanceledException(canceled) = error else {
                return Err(failed(OPERATION, &error));
            };
            self.meter.refused();
            let mut reasons = canceled.cancellation_reasons.clone().unwrap_or_default().into_iter();
            let (anchored, put) = (reasons.next(), reasons.next());
            let is_refused = |reason: &Option<CancellationReason>| {
                reason.as_ref().and_then(CancellationReason::code) == Some("ConditionalCheckFailed")
            };
            if is_refused(&anchored) {
                return Ok(Anchored::Gone);
            }
            if is_refused(&put) {
                return Ok(Anchored::Taken(put.and_then(|reason| reason.item).unwrap_or_default()));
            }
            conflicts += 1;
            if conflicts >= MAX_CONFLICTS {
                return Err(failed(OPERATION, &canceled));
            }
        }
    }

    fn transaction(&self, item: Item, anchor: &Anchor) -> Result<Vec<TransactWriteItem>, BuildError> {
        let partition = item.get("pk").cloned().unwrap_or_else(|| string(""));
        let key = Item::from([("pk".to_owned(), partition), ("sk".to_owned(), string(&anchor.sk))]);
        let (condition, mut values) = match (anchor.sent_at, anchor.fires) {
            (_, Some(date)) => (
                "dueAt = :n AND (attribute_not_exists(firedAt) OR firedAt <> :n)",
                Item::from([(":n".to_owned(), number(date))]),
            ),
            (Some(sent_at), None) => ("sentAt = :sent", Item::from([(":sent".to_owned(), number(sent_at))])),
            (None, None) => ("attribute_exists(pk)", Item::new()),
        };
        let set = match anchor {
            Anchor { fires: Some(_), .. } => Some("SET firedAt = :n"),
            Anchor { revisions: Some(revisions), .. } => {
                values.insert(":n".into(), number(revisions));
                Some("SET revisions = :n")
            }
            _ => None,
        };
        let exists = if let Some(set) = set {
            let update = Update::builder()
                .table_name(&self.name)
                .set_key(Some(key))
                .update_expression(set)
                .condition_expression(condition)
                .set_expression_attribute_values(Some(values));
            TransactWriteItem::builder().update(update.build()?)
        } else {
            let check = ConditionCheck::builder()
                .table_name(&self.name)
                .set_key(Some(key))
                .condition_expression(condition)
                .set_expression_attribute_values(Some(values).filter(|values| !values.is_empty()));
            TransactWriteItem::builder().condition_check(check.build()?)
        };
        let put = Put::builder()
            .table_name(&self.name)
            .set_item(Some(item))
            .condition_expression("attribute_not_exists(pk)")
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .build()?;
        Ok(vec![exists.build(), TransactWriteItem::builder().put(put).build()])
    }
}
