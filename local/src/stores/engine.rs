//! The embedded DynamoDB engine, with DynamoDB's JSON protocol: [`Engine`].
//!
//! ```text
//! X-Amz-Target: DynamoDB_20120810.GetItem
//!
//! {"TableName": "annals", "Key": {"pk": {"S": "telegram:chat:42"}, "sk": {"S": "head"}}}
//! ```
//!
//! *Architecture Invariant:* the program does not contain the engine's own server (feature `http-server`), which checks no
//! signature and answers pages of any origin.

use axum::body::{Bytes, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use dynoxide::{Database, DynoxideError};

/// Longest request that DynamoDB takes.
pub(crate) const MAX_BODY_BYTES: usize = 16 * 1024 * 1024;

/// Header that names the operation.
pub(crate) const TARGET: &str = "x-amz-target";

/// A DynamoDB engine. Clones share the database.
#[derive(Clone)]
pub struct Engine(Database);

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

impl Engine {
    /// Returns the engine over `database`.
    pub fn new(database: Database) -> Self {
        Self(database)
    }

    /// Rebuilds the database without its free pages.
    pub(super) fn vacuum(&self) -> dynoxide::Result<()> {
        self.0.vacuum()
    }

    /// Answers one request. The caller checks who sent it.
    pub async fn answer(&self, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        match to_bytes(body, MAX_BODY_BYTES).await {
            Ok(body) => self.call(&parts.headers, body).await,
            Err(_) => StatusCode::PAYLOAD_TOO_LARGE.into_response(),
        }
    }

    /// Carries out the operation that `headers` name, with `body` as its parameters. Like AWS, does so even if nobody waits for
    /// the answer any more.
    pub(crate) async fn call(&self, headers: &HeaderMap, body: Bytes) -> Response {
        let target = headers.get(TARGET).and_then(|target| target.to_str().ok()).unwrap_or_default();
        let Some(("DynamoDB_20120810" | "DynamoDBStreams_20120810", operation)) = target.split_once('.')
        else {
            return answered(Err(unknown(target)));
        };
        let (database, operation) = (self.0.clone(), operation.to_owned());
        let called = tokio::task::spawn_blocking(move || dispatch(&database, &operation, &body)).await;
        answered(called.unwrap_or_else(|error| Err(DynoxideError::InternalServerError(error.to_string()))))
    }
}

fn answered(result: dynoxide::Result<Vec<u8>>) -> Response {
    let failed = |error: DynoxideError| {
        let status = StatusCode::from_u16(error.status_code()).unwrap_or(StatusCode::BAD_REQUEST);
        (status, in_json(error.to_json())).into_response()
    };
    result.map_or_else(failed, in_json)
}

/// Returns an answer of AWS's JSON protocols.
pub(crate) fn in_json(body: impl IntoResponse) -> Response {
    ([(header::CONTENT_TYPE, "application/x-amz-json-1.0")], body).into_response()
}

fn unknown(name: &str) -> DynoxideError {
    DynoxideError::ValidationException(format!("{name:?} is not an operation of DynamoDB"))
}

/// Prefixes of the engine's messages about a value that it cannot read.
const MARKS: [&str; 5] =
    ["VALIDATION_REQUEST:", "VALIDATION_AS_READ:", "VALIDATION:", "SERIALIZATION_AS_READ:", "SERIALIZATION:"];

/// Returns the error of parameters that the engine cannot read.
fn unreadable(error: &serde_json::Error) -> DynoxideError {
    let message = error.to_string();
    let unmarked = MARKS.iter().find_map(|mark| message.strip_prefix(mark)).unwrap_or(&message);
    DynoxideError::ValidationException(unmarked.to_owned())
}

/// Defines `dispatch`: each operation with the engine's method for it.
macro_rules! operations {
    ($($operation:literal => $method:ident,)*) => {
        fn dispatch(database: &Database, operation: &str, body: &[u8]) -> dynoxide::Result<Vec<u8>> {
            match operation {
                $($operation => {
                    let request = serde_json::from_slice(body).map_err(|error| unreadable(&error))?;
                    let response = database.$method(request)?;
                    serde_json::to_vec(&response)
                        .map_err(|error| DynoxideError::InternalServerError(error.to_string()))
                })*
                _ => Err(unknown(operation)),
            }
        }
    };
}

operations! {
    "BatchExecuteStatement" => batch_execute_statement,
    "BatchGetItem" => batch_get_item,
    "BatchWriteItem" => batch_write_item,
    "CreateTable" => create_table,
    "DeleteItem" => delete_item,
    "DeleteTable" => delete_table,
    "DescribeStream" => describe_stream,
    "DescribeTable" => describe_table,
    "DescribeTimeToLive" => describe_time_to_live,
    "ExecuteStatement" => execute_statement,
    "ExecuteTransaction" => execute_transaction,
    "GetItem" => get_item,
    "GetRecords" => get_records,
    "GetShardIterator" => get_shard_iterator,
    "ListStreams" => list_streams,
    "ListTables" => list_tables,
    "ListTagsOfResource" => list_tags_of_resource,
    "PutItem" => put_item,
    "Query" => query,
    "Scan" => scan,
    "SearchVectors" => search_vectors,
    "TagResource" => tag_resource,
    "TransactGetItems" => transact_get_items,
    "TransactWriteItems" => transact_write_items,
    "UntagResource" => untag_resource,
    "UpdateItem" => update_item,
    "UpdateTable" => update_table,
    "UpdateTimeToLive" => update_time_to_live,
}
