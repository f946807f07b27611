//! What was archived: `GET /v1/chats/{chatId}/segments`, `GET /v1/chats/{chatId}/segments/{id}`.

use std::sync::Arc;

use annals_shared::history::{History, HistoryError, Segment, SegmentId, SegmentInfo};
use annals_shared::problem::Problem;
use annals_shared::sort_key::{MessageId, Timestamp};
use annals_shared::telemetry;
use axum::Json;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::{Stream, stream};
use serde::Serialize;

use crate::auth::Caller;
use crate::get::{NDJSON, listed_lines, read_failure};
use crate::post::path;
use crate::{Failure, Http};

/// `{segments}`
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct Segments {
    segments: Vec<Listed>,
}

/// `{id, fromId, toId, count, bytes, createdAt}`
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Segment)]
struct Listed {
    id: SegmentId,
    from_id: MessageId,
    to_id: MessageId,
    count: u32,
    bytes: u64,
    created_at: Timestamp,
}

impl From<SegmentInfo> for Listed {
    fn from(info: SegmentInfo) -> Self {
        let SegmentInfo { id, from_id, to_id, count, bytes, created_at, .. } = info;
        Self { id, from_id, to_id, count, bytes, created_at }
    }
}

/// `GET /v1/chats/{chatId}/segments`
#[utoipa::path(get, path = "/v1/chats/{chatId}/segments", operation_id = "listSegments", tag = "histories", security(("key" = [])),
    params(("chatId" = String, Path, description = "A conversation id of the caller's own, at most 512 bytes, or with an admin key a whole ChatKey", min_length = 1, max_length = 2048, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")),
    responses((status = 200, description = "What of the chat is archived, oldest first", body = Segments)))]
pub(crate) async fn list(
    State(http): State<Arc<Http>>,
    caller: Caller,
    chat_id: Result<Path<String>, PathRejection>,
) -> Result<Json<Segments>, Failure> {
    let chat = caller.chat(&path(chat_id)?)?;
    telemetry::about(&chat);
    let segments = http.ingress.history().segments(&chat).await.map_err(read_failure)?;
    Ok(Json(Segments { segments: segments.into_iter().map(Listed::from).collect() }))
}

/// `GET /v1/chats/{chatId}/segments/{id}`
#[utoipa::path(get, path = "/v1/chats/{chatId}/segments/{id}", operation_id = "getSegment", tag = "histories", security(("key" = [])),
    params(("chatId" = String, Path, description = "A conversation id of the caller's own, at most 512 bytes, or with an admin key a whole ChatKey", min_length = 1, max_length = 2048, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$"),
        ("id" = String, Path, description = "As listed", min_length = 1)),
    responses((status = 200, description = "One segment, one message a line", body = String, content_type = "application/x-ndjson")))]
pub(crate) async fn one(
    State(http): State<Arc<Http>>,
    caller: Caller,
    names: Result<Path<(String, String)>, PathRejection>,
) -> Result<Response, Failure> {
    let (chat_id, id) = match names {
        Ok(Path((chat_id, id))) => (Ok(Path(chat_id)), id),
        Err(rejection) => (Err(rejection), String::new()),
    };
    let chat = caller.chat(&path(chat_id)?)?;
    telemetry::about(&chat);
    let history = http.ingress.history();
    let segment = match id.parse() {
        Ok(id) => history.segment(&chat, &id).await.map_err(read_failure)?,
        Err(_) => None,
    };
    let segment = segment.ok_or_else(|| {
        Problem::no_such("no-such-segment", "No such segment", "see the ids at /v1/chats/{chatId}/segments")
    })?;
    let body = Body::from_stream(lines(history.clone(), segment));
    Ok(([(header::CONTENT_TYPE, NDJSON)], body).into_response())
}

/// A segment as JSON lines, read as the caller takes it: large bodies lie outside it.
fn lines(history: History, segment: Arc<Segment>) -> impl Stream<Item = Result<Bytes, HistoryError>> {
    stream::try_unfold(0, move |from| {
        let (history, segment) = (history.clone(), Arc::clone(&segment));
        async move {
            let records = history.segment_records(&segment, from).await?;
            if records.is_empty() {
                return Ok(None);
            }
            Ok(Some((listed_lines(&records)?, from + records.len())))
        }
    })
}
