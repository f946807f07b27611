//! Puts that depend on another item of the same partition, or are counted: one transaction.

use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::types::{
    CancellationReason, ConditionCheck, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update,
};

use super::{Item, Table, TableError, Written, failed, number, string};
use crate::history::counters::Addition;

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
        let of_anchor = self.of_anchor(&item, anchor).map_err(|error| failed(OPERATION, &error))?;
        let Some(mut reasons) = self.put_together(item, vec![of_anchor]).await? else {
            return Ok(Anchored::Done);
        };
        // The put is the last.
        Ok(match reasons.pop() {
            _ if reasons.iter().any(is_refusal) => Anchored::Gone,
            put => Anchored::Taken(put.and_then(|reason| reason.item).unwrap_or_default()),
        })
    }

    /// Puts `item` unless its key is taken, and adds what it `counts` to counters if it does. Costs 2 write units for each
    /// item under 1 KB. The SDK's idempotency token makes a repeat safe.
    pub(crate) async fn put_counted(&self, item: Item, counts: &[Addition]) -> Result<Written, TableError> {
        let updates = counts.iter().map(|addition| addition.update(&self.name)).collect::<Result<_, _>>();
        let updates = updates.map_err(|error| failed(OPERATION, &error))?;
        Ok(match self.put_together(item, updates).await? {
            None => Written::Done(Item::new()),
            Some(mut reasons) => {
                Written::Refused(reasons.pop().and_then(|reason| reason.item).unwrap_or_default())
            }
        })
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
        while let Some(canceled) = self.transact(OPERATION, beside.clone()).await? {
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

    /// Returns the part of a transaction that depends on the anchor of `item`.
    fn of_anchor(&self, item: &Item, anchor: &Anchor) -> Result<TransactWriteItem, BuildError> {
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
        Ok(exists.build())
    }
}

fn is_refusal(reason: &CancellationReason) -> bool {
    reason.code() == Some("ConditionalCheckFailed")
}
