//! The DynamoDB table: the few operations that a history needs.
//!
//! The sample items are in the modules that own them: `history.rs` lists these. The SDK's futures are boxed: they nest so
//! deeply that the compiler gives up on the callers' otherwise.
//!
//! # Layout
//!
//! - `table/update.rs`: the builder of update expressions
//! - `table/together.rs`: transactions: puts that depend on another item, are counted, or are of many items

mod together;
mod update;

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use annals_io::errors::chain;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::interceptors::BeforeTransmitInterceptorContextRef;
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::{BoxError, SdkError};
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::error::ConditionalCheckFailedException;
use aws_sdk_dynamodb::types::{
    AttributeValue, DeleteRequest, KeysAndAttributes, ReturnValue, ReturnValuesOnConditionCheckFailure,
    WriteRequest,
};
use futures::{StreamExt, TryStreamExt, stream};

pub(crate) use together::{Anchor, Anchored, MAX_TRANSACTION};
pub(crate) use update::{Item, Update, item_at, json, number, string};

/// The name of the index of due chats.
pub(crate) const DUE_INDEX: &str = "due";

/// Maximum number of items that one request reads by their keys.
pub(crate) const MAX_BATCH: usize = 100;

/// Number of items that one request deletes: the most that DynamoDB takes.
const DELETED_PER_REQUEST: usize = 25;

/// Number of requests that delete at the same time.
const DELETIONS_AT_ONCE: usize = 4;

/// A failed request to DynamoDB. It may have stored something.
#[derive(Debug, thiserror::Error)]
#[error("DynamoDB could not {operation}: {reason}")]
pub struct TableError {
    operation: &'static str,
    reason: String,
}

/// The result of a conditional write.
#[derive(Debug)]
pub(crate) enum Written {
    /// The condition held; the item as it is now, for updates.
    Done(Item),
    /// The condition did not hold; the item as it is.
    Refused(Item),
}

impl Written {
    /// Returns the item that the write made or found.
    pub(crate) fn item(&self) -> &Item {
        let (Self::Done(item) | Self::Refused(item)) = self;
        item
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Table {
    client: Client,
    name: String,
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

/// A range of sort keys in one partition, both ends included, and the order in which to read it.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) newest_first: bool,
    /// Maximum number of items; all if `None`.
    pub(crate) limit: Option<usize>,
}

impl Span {
    /// All items from `from` to `to`, the oldest first.
    pub(crate) fn all(from: impl Into<String>, to: impl Into<String>) -> Self {
        Self { from: from.into(), to: to.into(), newest_first: false, limit: None }
    }

    /// The first `limit` items from `from` to `to`, the oldest first.
    pub(crate) fn first(limit: usize, from: impl Into<String>, to: impl Into<String>) -> Self {
        Self { limit: Some(limit), ..Self::all(from, to) }
    }
}

/// A page of a query, and the key after which the next one starts, if there may be one.
pub(crate) type QueryPage = (Vec<Item>, Option<Item>);

impl Table {
    pub(crate) fn new(client: Client, name: String) -> Self {
        Self { client, name }
    }

    /// Puts `item` unless its key is taken. An item that this very request stored, in an attempt whose answer was lost,
    /// counts as put.
    pub(crate) async fn put_new(&self, item: Item) -> Result<Written, TableError> {
        let attempts = Attempts::default();
        let request = self
            .client
            .put_item()
            .table_name(&self.name)
            .set_item(Some(item.clone()))
            .condition_expression("attribute_not_exists(pk)")
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .customize()
            .interceptor(attempts.clone());
        let sent = Box::pin(request.send()).await;
        match written("put an item", sent.map(|_| None))? {
            Written::Refused(existing) if attempts.is_repeated() && existing == item => {
                Ok(Written::Done(Item::new()))
            }
            written => Ok(written),
        }
    }

    /// Puts `item` in place of what has its key, if that has this value of this attribute.
    pub(crate) async fn put_over(
        &self,
        item: Item,
        (name, value): (&str, AttributeValue),
    ) -> Result<Written, TableError> {
        let request = self
            .client
            .put_item()
            .table_name(&self.name)
            .set_item(Some(item))
            .condition_expression(format!("{name} = :value"))
            .expression_attribute_values(":value", value);
        let sent = Box::pin(request.send()).await;
        written("put an item", sent.map(|_| None))
    }

    /// Updates one item, or makes it if it does not exist; returns the whole item.
    pub(crate) async fn update(&self, pk: &str, sk: &str, update: Update) -> Result<Written, TableError> {
        let request = self
            .client
            .update_item()
            .table_name(&self.name)
            .key("pk", string(pk))
            .key("sk", string(sk))
            .update_expression(update.expression())
            .set_condition_expression(update.condition())
            .set_expression_attribute_values(update.into_values())
            .return_values(ReturnValue::AllNew)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let sent = Box::pin(request.send()).await;
        written("update an item", sent.map(|output| output.attributes))
    }

    /// Deletes one item, if it has this `fence`; returns whether it is gone.
    pub(crate) async fn delete_one(
        &self,
        pk: &str,
        sk: &str,
        fence: Option<i64>,
    ) -> Result<bool, TableError> {
        let request = self
            .client
            .delete_item()
            .table_name(&self.name)
            .key("pk", string(pk))
            .key("sk", string(sk))
            .set_condition_expression(fence.map(|_| "fence = :fence".to_owned()))
            .set_expression_attribute_values(fence.map(|fence| [(":fence".to_owned(), number(fence))].into()))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let sent = Box::pin(request.send()).await;
        let written = written("delete an item", sent.map(|_| None))?;
        // An attempt of this very request whose answer was lost may have deleted it.
        Ok(matches!(&written, Written::Done(_)) || written.item().is_empty())
    }

    pub(crate) async fn get(&self, pk: &str, sk: &str) -> Result<Option<Item>, TableError> {
        let request = self
            .client
            .get_item()
            .table_name(&self.name)
            .key("pk", string(pk))
            .key("sk", string(sk))
            .consistent_read(true);
        let output = Box::pin(request.send()).await.map_err(|error| failed("get an item", &error))?;
        Ok(output.item)
    }

    /// Reads the item `sk` in each of these partitions (at most [`MAX_BATCH`], all different) that has one, in no order: as of
    /// now, or with an `attribute` only the keys and that, as of some moments ago. Keys that DynamoDB leaves unprocessed are
    /// sent again.
    pub(crate) async fn get_batch(
        &self,
        partitions: &[String],
        sk: &str,
        attribute: Option<&str>,
    ) -> Result<Vec<Item>, TableError> {
        const OPERATION: &str = "get items";
        let keys = partitions.iter().map(|pk| item_at(pk, sk));
        let wanted = KeysAndAttributes::builder().set_keys(Some(keys.collect()));
        let projection = attribute.map(|attribute| format!("pk, {attribute}"));
        let wanted =
            wanted.consistent_read(projection.is_none()).set_projection_expression(projection).build();
        let mut wanted = Some(wanted.map_err(|error| failed(OPERATION, &error))?);
        let mut items = Vec::new();
        while let Some(keys) = wanted {
            let request = self.client.batch_get_item().request_items(&self.name, keys);
            let output = Box::pin(request.send()).await.map_err(|error| failed(OPERATION, &error))?;
            items.extend(output.responses.and_then(|mut found| found.remove(&self.name)).unwrap_or_default());
            wanted = output.unprocessed_keys.and_then(|mut left| left.remove(&self.name));
        }
        Ok(items)
    }

    /// Reads the items of `span` in one partition, as of now, with every page followed.
    pub(crate) async fn query(&self, pk: &str, span: &Span) -> Result<Vec<Item>, TableError> {
        self.query_all(pk, span, true).await
    }

    /// Like [`Table::query`], as of some moments ago, for half the price.
    pub(crate) async fn query_eventually(&self, pk: &str, span: &Span) -> Result<Vec<Item>, TableError> {
        self.query_all(pk, span, false).await
    }

    async fn query_all(&self, pk: &str, span: &Span, consistent: bool) -> Result<Vec<Item>, TableError> {
        let mut items = Vec::new();
        let mut next = None;
        loop {
            let left = span.limit.map(|limit| limit.saturating_sub(items.len()));
            let request = self.query_span(pk, span, left).consistent_read(consistent);
            let (page, last) = self.send_query("query a chat", request.set_exclusive_start_key(next)).await?;
            items.extend(page);
            next = last;
            if next.is_none() || span.limit.is_some_and(|limit| items.len() >= limit) {
                return Ok(items);
            }
        }
    }

    /// Reads the first items of `span`, at most 1 MB of them, and returns whether there may be more. One request.
    pub(crate) async fn query_page(&self, pk: &str, span: &Span) -> Result<(Vec<Item>, bool), TableError> {
        let request = self.query_span(pk, span, span.limit).consistent_read(true);
        let (items, last) = self.send_query("query a chat", request).await?;
        Ok((items, last.is_some()))
    }

    /// Reads attributes of the first items of `span`, as of some moments ago. `attributes` is a projection, in which
    /// `#role` stands for a word that DynamoDB reserves. One request.
    pub(crate) async fn query_attributes(
        &self,
        pk: &str,
        span: &Span,
        attributes: &str,
    ) -> Result<Vec<Item>, TableError> {
        let request = self.query_span(pk, span, span.limit).projection_expression(attributes);
        let request = request.expression_attribute_names("#role", "role");
        Ok(self.send_query("query a chat", request).await?.0)
    }

    /// Reads the sort keys of all items in one partition: each starts with a printable ASCII character.
    pub(crate) async fn keys(&self, pk: &str) -> Result<Vec<String>, TableError> {
        let items = self.query(pk, &Span::all(" ", "~")).await?;
        let keys = items.into_iter().filter_map(|mut item| match item.remove("sk") {
            Some(AttributeValue::S(sk)) => Some(sk),
            _ => None,
        });
        Ok(keys.collect())
    }

    /// Reads at most `limit` entries of one partition of the index of due chats, those up to `until`, the oldest or the
    /// newest first, from `start` on.
    pub(crate) async fn query_due(
        &self,
        shard: &str,
        until: i64,
        newest_first: bool,
        limit: usize,
        start: Option<Item>,
    ) -> Result<QueryPage, TableError> {
        let request = self
            .client
            .query()
            .index_name(DUE_INDEX)
            .key_condition_expression("dueShard = :shard AND dueAt <= :until")
            .expression_attribute_values(":shard", string(shard))
            .expression_attribute_values(":until", number(until))
            .scan_index_forward(!newest_first)
            .set_limit(i32::try_from(limit).ok())
            .set_exclusive_start_key(start);
        self.send_query("query the due chats", request).await
    }

    fn query_span(&self, pk: &str, span: &Span, limit: Option<usize>) -> QueryFluentBuilder {
        self.client
            .query()
            .key_condition_expression("pk = :pk AND sk BETWEEN :from AND :to")
            .expression_attribute_values(":pk", string(pk))
            .expression_attribute_values(":from", string(&span.from))
            .expression_attribute_values(":to", string(&span.to))
            .scan_index_forward(!span.newest_first)
            .set_limit(limit.and_then(|limit| i32::try_from(limit).ok()))
    }

    async fn send_query(
        &self,
        operation: &'static str,
        request: QueryFluentBuilder,
    ) -> Result<QueryPage, TableError> {
        let sent = Box::pin(request.table_name(&self.name).send()).await;
        let output = sent.map_err(|error| failed(operation, &error))?;
        Ok((output.items.unwrap_or_default(), output.last_evaluated_key))
    }

    /// Deletes items of one partition; skips those that do not exist.
    pub(crate) async fn delete(&self, pk: &str, sort_keys: Vec<String>) -> Result<(), TableError> {
        let chunks: Vec<Vec<String>> =
            sort_keys.chunks(DELETED_PER_REQUEST).map(<[String]>::to_vec).collect();
        let requests = chunks.into_iter().map(async |keys| self.delete_some(pk, keys).await);
        stream::iter(requests).buffer_unordered(DELETIONS_AT_ONCE).try_collect().await
    }

    /// Deletes at most [`DELETED_PER_REQUEST`] items. Items that DynamoDB leaves unprocessed are sent again.
    async fn delete_some(&self, pk: &str, sort_keys: Vec<String>) -> Result<(), TableError> {
        const OPERATION: &str = "delete items";
        let mut requests = Vec::new();
        for sk in sort_keys {
            let delete = DeleteRequest::builder().key("pk", string(pk)).key("sk", string(sk)).build();
            let delete = delete.map_err(|error| failed(OPERATION, &error))?;
            requests.push(WriteRequest::builder().delete_request(delete).build());
        }
        while !requests.is_empty() {
            let request = self.client.batch_write_item().request_items(&self.name, requests);
            let sent = Box::pin(request.send()).await;
            let output = sent.map_err(|error| failed(OPERATION, &error))?;
            requests = output
                .unprocessed_items
                .and_then(|mut unprocessed| unprocessed.remove(&self.name))
                .unwrap_or_default();
        }
        Ok(())
    }
}

/// The error of an operation that takes a condition.
trait Conditional: Error + Send + Sync + 'static {
    /// Returns the failed condition, if that is the error.
    fn refusal(&self) -> Option<&ConditionalCheckFailedException>;
}

macro_rules! conditional {
    ($($error:ident),*) => {
        $(impl Conditional for $error {
            fn refusal(&self) -> Option<&ConditionalCheckFailedException> {
                if let Self::ConditionalCheckFailedException(refusal) = self { Some(refusal) } else { None }
            }
        })*
    };
}

conditional!(PutItemError, UpdateItemError, DeleteItemError);

/// Tells a failed condition from a failed request. `sent` has the item as it is now, for updates.
fn written<E: Conditional, R: std::fmt::Debug>(
    operation: &'static str,
    sent: Result<Option<Item>, SdkError<E, R>>,
) -> Result<Written, TableError> {
    match sent {
        Ok(item) => Ok(Written::Done(item.unwrap_or_default())),
        Err(error) => match error.as_service_error().and_then(Conditional::refusal) {
            Some(refusal) => Ok(Written::Refused(refusal.item.clone().unwrap_or_default())),
            None => Err(failed(operation, &error)),
        },
    }
}

fn failed(operation: &'static str, error: &dyn Error) -> TableError {
    TableError { operation, reason: chain(error) }
}
