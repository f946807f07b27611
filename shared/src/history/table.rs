//! The DynamoDB table: the few operations that a history needs, each counted by a [`Meter`].

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::interceptors::BeforeTransmitInterceptorContextRef;
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::{BoxError, BuildError, DisplayErrorContext, SdkError};
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{
    AttributeValue, ConditionCheck, ConsumedCapacity, DeleteRequest, Put, ReturnConsumedCapacity,
    ReturnValue, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update as TransactUpdate,
    WriteRequest,
};
use futures::{StreamExt, TryStreamExt, stream};

use super::{FIRST_KEY, LAST_KEY, due};

/// Number of items that one request deletes: the most that DynamoDB takes.
const DELETED_PER_REQUEST: usize = 25;

/// Number of requests that delete at the same time.
const DELETIONS_AT_ONCE: usize = 4;

/// Number of times a transaction is tried that meets another one on the same items.
const MAX_CONFLICTS: u32 = 20;

/// An item as the SDK gives it: attribute names and values.
pub(crate) type Item = HashMap<String, AttributeValue>;

/// What a table's operations have consumed, by the store's own word, its index included.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Consumed {
    /// Read capacity units.
    pub read_units: f64,
    /// Write capacity units.
    pub write_units: f64,
    /// Requests.
    pub calls: u32,
}

/// Adds up what operations consume. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Meter(Arc<Mutex<Consumed>>);

impl Meter {
    /// What was consumed since the last call of this.
    pub fn take(&self) -> Consumed {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn count(&self, units: Option<&ConsumedCapacity>, is_write: bool) {
        let mut total = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        total.calls += 1;
        let units = units.and_then(ConsumedCapacity::capacity_units).unwrap_or_default();
        *if is_write { &mut total.write_units } else { &mut total.read_units } += units;
    }
}

/// A request to DynamoDB failed; nothing is known to be stored by it.
#[derive(Debug, thiserror::Error)]
#[error("DynamoDB could not {operation}: {reason}")]
pub struct TableError {
    operation: &'static str,
    reason: String,
}

/// What a conditional write met.
#[derive(Debug)]
pub(crate) enum Written {
    /// The condition held; the item as it is now, for updates.
    Done(Item),
    /// The condition did not hold; the item as it is.
    Refused(Item),
}

impl Written {
    /// The item that the write made, or met.
    pub(crate) fn item(&self) -> &Item {
        let (Self::Done(item) | Self::Refused(item)) = self;
        item
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Table {
    client: Client,
    name: String,
    meter: Meter,
}

/// An update expression with its values, bound by name (`:name`).
#[derive(Debug, Default)]
pub(crate) struct Update {
    pub(crate) expression: String,
    pub(crate) condition: Option<&'static str>,
    pub(crate) values: Vec<(&'static str, AttributeValue)>,
}

/// An existing item that a put depends on: if it is gone, nothing is put.
#[derive(Clone, Debug, Default)]
pub(crate) struct Anchor {
    /// Its sort key, in the partition of the item to be put.
    pub(crate) sk: String,
    /// Its `sentAt`, if another item under the same key is not it.
    pub(crate) sent_at: Option<i64>,
    /// Its `revisions` attribute after the put; unchanged if `None`.
    pub(crate) revisions: Option<u32>,
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

/// Counts the attempts of one request. The SDK repeats a request whose answer was lost, and the repeat of a conditional
/// write then fails on its own success.
#[derive(Clone, Debug, Default)]
struct Attempts(Arc<AtomicU32>);

impl Attempts {
    fn is_repeated(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 1
    }
}

impl Intercept for Attempts {
    fn name(&self) -> &'static str {
        "Attempts"
    }

    fn read_before_transmit(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

/// Which items of a partition to read, in which order, by sort key; both ends included.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) newest_first: bool,
    /// How many to read at most; all where `None`.
    pub(crate) limit: Option<usize>,
}

impl Table {
    pub(crate) fn new(client: Client, name: String) -> Self {
        Self { client, name, meter: Meter::default() }
    }

    pub(crate) fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Puts `item` unless its key is taken. An item that this very request stored, in an attempt whose answer was lost,
    /// counts as put.
    pub(crate) async fn put_new(&self, item: Item) -> Result<Written, TableError> {
        let attempts = Attempts::default();
        let sent = self
            .client
            .put_item()
            .table_name(&self.name)
            .set_item(Some(item.clone()))
            .condition_expression("attribute_not_exists(pk)")
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .customize()
            .interceptor(attempts.clone())
            .send()
            .await;
        match sent {
            Ok(output) => {
                self.meter.count(output.consumed_capacity(), true);
                Ok(Written::Done(Item::new()))
            }
            Err(SdkError::ServiceError(failure)) => match failure.into_err() {
                PutItemError::ConditionalCheckFailedException(refusal) => {
                    self.count_refused_write();
                    let existing = refusal.item.unwrap_or_default();
                    if attempts.is_repeated() && existing == item {
                        return Ok(Written::Done(Item::new()));
                    }
                    Ok(Written::Refused(existing))
                }
                other => Err(failed("put an item", &other)),
            },
            Err(other) => Err(failed("put an item", &other)),
        }
    }

    /// Puts `item` in place of what has its key, if that has this `fence`.
    pub(crate) async fn put_over(&self, item: Item, fence: i64) -> Result<Written, TableError> {
        let sent = self
            .client
            .put_item()
            .table_name(&self.name)
            .set_item(Some(item))
            .condition_expression("fence = :fence")
            .expression_attribute_values(":fence", number(fence))
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .send()
            .await;
        match sent {
            Ok(output) => {
                self.meter.count(output.consumed_capacity(), true);
                Ok(Written::Done(Item::new()))
            }
            Err(error)
                if error
                    .as_service_error()
                    .is_some_and(PutItemError::is_conditional_check_failed_exception) =>
            {
                self.count_refused_write();
                Ok(Written::Refused(Item::new()))
            }
            Err(error) => Err(failed("put an item", &error)),
        }
    }

    /// Puts `item` unless its key is taken, and only while the item of `anchor` exists in the same partition. Both are
    /// one transaction: 4 write units for items under 1 KB. The SDK's idempotency token makes a repeat safe.
    pub(crate) async fn put_anchored(&self, item: Item, anchor: &Anchor) -> Result<Anchored, TableError> {
        const OPERATION: &str = "put an item beside another";
        let invalid = |error: BuildError| failed(OPERATION, &error);
        let mut key = Item::new();
        key.insert("pk".into(), item.get("pk").cloned().unwrap_or_else(|| string("")));
        key.insert("sk".into(), string(&anchor.sk));
        let (condition, mut values) = match anchor.sent_at {
            Some(sent_at) => ("sentAt = :sent", Item::from([(":sent".to_owned(), number(sent_at))])),
            None => ("attribute_exists(pk)", Item::new()),
        };
        let exists = if let Some(revisions) = anchor.revisions {
            values.insert(":n".into(), number(revisions));
            let update = TransactUpdate::builder()
                .table_name(&self.name)
                .set_key(Some(key))
                .update_expression("SET revisions = :n")
                .condition_expression(condition)
                .set_expression_attribute_values(Some(values));
            TransactWriteItem::builder().update(update.build().map_err(invalid)?)
        } else {
            let check = ConditionCheck::builder()
                .table_name(&self.name)
                .set_key(Some(key))
                .condition_expression(condition)
                .set_expression_attribute_values(Some(values).filter(|values| !values.is_empty()));
            TransactWriteItem::builder().condition_check(check.build().map_err(invalid)?)
        };
        let put = Put::builder()
            .table_name(&self.name)
            .set_item(Some(item))
            .condition_expression("attribute_not_exists(pk)")
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .build()
            .map_err(invalid)?;
        let items = vec![exists.build(), TransactWriteItem::builder().put(put).build()];
        let mut conflicts = 0;
        loop {
            let sent = self
                .client
                .transact_write_items()
                .set_transact_items(Some(items.clone()))
                .return_consumed_capacity(ReturnConsumedCapacity::Total)
                .send()
                .await;
            let error = match sent {
                Ok(output) => {
                    self.meter.count(output.consumed_capacity().first(), true);
                    return Ok(Anchored::Done);
                }
                Err(SdkError::ServiceError(failure)) => failure.into_err(),
                Err(other) => return Err(failed(OPERATION, &other)),
            };
            let TransactWriteItemsError::TransactionCanceledException(canceled) = error else {
                return Err(failed(OPERATION, &error));
            };
            self.count_refused_write();
            let mut reasons = canceled.cancellation_reasons.clone().unwrap_or_default().into_iter();
            let (anchored, put) = (reasons.next(), reasons.next());
            let code = |reason: &Option<aws_sdk_dynamodb::types::CancellationReason>| {
                reason.as_ref().and_then(|reason| reason.code().map(str::to_owned)).unwrap_or_default()
            };
            if code(&anchored) == "ConditionalCheckFailed" {
                return Ok(Anchored::Gone);
            }
            if code(&put) == "ConditionalCheckFailed" {
                return Ok(Anchored::Taken(put.and_then(|reason| reason.item).unwrap_or_default()));
            }
            conflicts += 1;
            if conflicts >= MAX_CONFLICTS {
                return Err(failed(OPERATION, &canceled));
            }
        }
    }

    /// Updates one item, made where it does not exist; answers with the whole item.
    pub(crate) async fn update(&self, pk: &str, sk: &str, update: Update) -> Result<Written, TableError> {
        let values = update.values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let sent = self
            .client
            .update_item()
            .table_name(&self.name)
            .key("pk", string(pk))
            .key("sk", string(sk))
            .update_expression(update.expression)
            .set_condition_expression(update.condition.map(str::to_owned))
            .set_expression_attribute_values(Some(values).filter(|v: &Item| !v.is_empty()))
            .return_values(ReturnValue::AllNew)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .send()
            .await;
        match sent {
            Ok(output) => {
                self.meter.count(output.consumed_capacity(), true);
                Ok(Written::Done(output.attributes.unwrap_or_default()))
            }
            Err(SdkError::ServiceError(failure)) => match failure.into_err() {
                UpdateItemError::ConditionalCheckFailedException(refusal) => {
                    self.count_refused_write();
                    Ok(Written::Refused(refusal.item.unwrap_or_default()))
                }
                other => Err(failed("update an item", &other)),
            },
            Err(other) => Err(failed("update an item", &other)),
        }
    }

    /// One item, as of now.
    pub(crate) async fn get(&self, pk: &str, sk: &str) -> Result<Option<Item>, TableError> {
        let output = self
            .client
            .get_item()
            .table_name(&self.name)
            .key("pk", string(pk))
            .key("sk", string(sk))
            .consistent_read(true)
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .send()
            .await
            .map_err(|error| failed("get an item", &error))?;
        self.meter.count(output.consumed_capacity(), false);
        Ok(output.item)
    }

    /// The items of `span` in one partition, as of now, with every page followed.
    pub(crate) async fn query(&self, pk: &str, span: &Span) -> Result<Vec<Item>, TableError> {
        self.query_as(pk, span, true).await
    }

    /// The same as of some moments ago, for half the price.
    pub(crate) async fn query_eventually(&self, pk: &str, span: &Span) -> Result<Vec<Item>, TableError> {
        self.query_as(pk, span, false).await
    }

    /// Returns the sort keys of all items in one partition.
    pub(crate) async fn keys(&self, pk: &str) -> Result<Vec<String>, TableError> {
        let mut keys = Vec::new();
        let mut pages = self
            .client
            .query()
            .table_name(&self.name)
            .key_condition_expression("pk = :pk")
            .expression_attribute_values(":pk", string(pk))
            .projection_expression("sk")
            .consistent_read(true)
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .into_paginator()
            .send();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| failed("query a chat", &error))?;
            self.meter.count(page.consumed_capacity(), false);
            keys.extend(page.items.unwrap_or_default().into_iter().filter_map(|mut item| {
                item.remove("sk").and_then(|sk| if let AttributeValue::S(sk) = sk { Some(sk) } else { None })
            }));
        }
        Ok(keys)
    }

    /// Deletes items of one partition; those that do not exist are skipped.
    pub(crate) async fn delete(&self, pk: &str, sort_keys: Vec<String>) -> Result<(), TableError> {
        let chunks: Vec<Vec<String>> =
            sort_keys.chunks(DELETED_PER_REQUEST).map(<[String]>::to_vec).collect();
        let requests = chunks.into_iter().map(async |keys| self.delete_some(pk, keys).await);
        stream::iter(requests).buffer_unordered(DELETIONS_AT_ONCE).try_collect().await
    }

    /// Deletes at most [`DELETED_PER_REQUEST`] items. DynamoDB may leave some of them, which are then sent again.
    async fn delete_some(&self, pk: &str, sort_keys: Vec<String>) -> Result<(), TableError> {
        const OPERATION: &str = "delete items";
        let mut requests = Vec::new();
        for sk in sort_keys {
            let delete = DeleteRequest::builder().key("pk", string(pk)).key("sk", string(sk)).build();
            let delete = delete.map_err(|error| failed(OPERATION, &error))?;
            requests.push(WriteRequest::builder().delete_request(delete).build());
        }
        while !requests.is_empty() {
            let sent = self
                .client
                .batch_write_item()
                .request_items(&self.name, requests)
                .return_consumed_capacity(ReturnConsumedCapacity::Total)
                .send()
                .await;
            let output = sent.map_err(|error| failed(OPERATION, &error))?;
            self.meter.count(output.consumed_capacity().first(), true);
            requests = output
                .unprocessed_items
                .and_then(|mut unprocessed| unprocessed.remove(&self.name))
                .unwrap_or_default();
        }
        Ok(())
    }

    /// Deletes one item, if it has this `fence`; returns whether it did.
    pub(crate) async fn delete_one(
        &self,
        pk: &str,
        sk: &str,
        fence: Option<i64>,
    ) -> Result<bool, TableError> {
        let sent = self
            .client
            .delete_item()
            .table_name(&self.name)
            .key("pk", string(pk))
            .key("sk", string(sk))
            .set_condition_expression(fence.map(|_| "fence = :fence".to_owned()))
            .set_expression_attribute_values(fence.map(|fence| [(":fence".to_owned(), number(fence))].into()))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .send()
            .await;
        match sent {
            Ok(output) => {
                self.meter.count(output.consumed_capacity(), true);
                Ok(true)
            }
            Err(SdkError::ServiceError(failure)) => match failure.into_err() {
                DeleteItemError::ConditionalCheckFailedException(refusal) => {
                    self.count_refused_write();
                    // It is gone, maybe by an attempt of this very request whose answer was lost.
                    Ok(refusal.item.is_none_or(|item| item.is_empty()))
                }
                other => Err(failed("delete an item", &other)),
            },
            Err(error) => Err(failed("delete an item", &error)),
        }
    }

    async fn query_as(&self, pk: &str, span: &Span, consistent: bool) -> Result<Vec<Item>, TableError> {
        let mut items = Vec::new();
        let mut next = None;
        loop {
            let left = span.limit.map(|limit| limit.saturating_sub(items.len()));
            let (page, last) = self.query_once(pk, span, left, next, consistent).await?;
            items.extend(page);
            next = last;
            if next.is_none() || span.limit.is_some_and(|limit| items.len() >= limit) {
                return Ok(items);
            }
        }
    }

    /// The first items of `span`, at most 1 MB of them, and whether there may be more; one request.
    pub(crate) async fn query_page(&self, pk: &str, span: &Span) -> Result<(Vec<Item>, bool), TableError> {
        let (items, last) = self.query_once(pk, span, span.limit, None, true).await?;
        Ok((items, last.is_some()))
    }

    async fn query_once(
        &self,
        pk: &str,
        span: &Span,
        limit: Option<usize>,
        start: Option<Item>,
        consistent: bool,
    ) -> Result<(Vec<Item>, Option<Item>), TableError> {
        let output = self
            .client
            .query()
            .table_name(&self.name)
            .key_condition_expression("pk = :pk AND sk BETWEEN :from AND :to")
            .expression_attribute_values(":pk", string(pk))
            .expression_attribute_values(":from", string(&span.from))
            .expression_attribute_values(":to", string(&span.to))
            .scan_index_forward(!span.newest_first)
            .set_limit(limit.and_then(|limit| i32::try_from(limit).ok()))
            .set_exclusive_start_key(start)
            .consistent_read(consistent)
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .send()
            .await
            .map_err(|error| failed("query a chat", &error))?;
        self.meter.count(output.consumed_capacity(), false);
        Ok((output.items.unwrap_or_default(), output.last_evaluated_key))
    }

    /// Attributes of the `limit` newest records of one partition, the newest first, as of some moments ago. `attributes`
    /// is a projection, in which `#role` stands for a word that DynamoDB keeps for itself.
    pub(crate) async fn newest(
        &self,
        pk: &str,
        limit: usize,
        attributes: &str,
    ) -> Result<Vec<Item>, TableError> {
        let output = self
            .client
            .query()
            .table_name(&self.name)
            .key_condition_expression("pk = :pk AND sk BETWEEN :from AND :to")
            .expression_attribute_values(":pk", string(pk))
            .expression_attribute_values(":from", string(FIRST_KEY))
            .expression_attribute_values(":to", string(LAST_KEY))
            .projection_expression(attributes)
            .expression_attribute_names("#role", "role")
            .scan_index_forward(false)
            .set_limit(i32::try_from(limit).ok())
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .send()
            .await
            .map_err(|error| failed("query a chat", &error))?;
        self.meter.count(output.consumed_capacity(), false);
        Ok(output.items.unwrap_or_default())
    }

    /// At most `limit` entries of one partition of the index of due chats, those up to `until`, the oldest or the newest
    /// first, from `start` on; and where the next page starts.
    pub(crate) async fn query_due(
        &self,
        shard: &str,
        until: i64,
        newest_first: bool,
        limit: usize,
        start: Option<Item>,
    ) -> Result<(Vec<Item>, Option<Item>), TableError> {
        let output = self
            .client
            .query()
            .table_name(&self.name)
            .index_name(due::INDEX)
            .key_condition_expression("dueShard = :shard AND dueAt <= :until")
            .expression_attribute_values(":shard", string(shard))
            .expression_attribute_values(":until", number(until))
            .scan_index_forward(!newest_first)
            .set_limit(i32::try_from(limit).ok())
            .set_exclusive_start_key(start)
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .send()
            .await
            .map_err(|error| failed("query the due chats", &error))?;
        self.meter.count(output.consumed_capacity(), false);
        Ok((output.items.unwrap_or_default(), output.last_evaluated_key))
    }

    /// A failed condition is billed one write unit per KB of the item, but its answer carries no figure: at least one.
    fn count_refused_write(&self) {
        let billed = ConsumedCapacity::builder().capacity_units(1.0).build();
        self.meter.count(Some(&billed), true);
    }
}

pub(crate) fn string(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

pub(crate) fn number<T: ToString + Copy>(value: T) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

/// The whole chain of causes, since the SDK's own `Display` says only "service error".
fn failed<E: std::error::Error>(operation: &'static str, error: &E) -> TableError {
    TableError { operation, reason: DisplayErrorContext(error).to_string() }
}
