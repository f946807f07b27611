//! Reads the archive: `GET /v1/chats/{chatId}/segments`, `GET /v1/chats/{chatId}/segments/{id}`.

use std::sync::Arc;

use annals_core::sort_key::{MessageId, Timestamp};
use annals_runtime::problem::Problem;
use annals_store::history::{SegmentId, SegmentInfo};
use axum::Json;
use axum::extract::{Path, State};
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;

use crate::failure::Failure;
use crate::history::{listed_lines, ndjson};
use crate::request::{ChatPath, InChat, ListedPath};
use crate::state::Http;

/// `{segments}`
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Segments {
    segments: Vec<Listed>,
}

/// `{id, fromId, toId, count, bytes, createdAt}`
#[derive(Debug, Serialize, ToSchema)]
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
#[utoipa::path(get, path = "/v1/chats/{chatId}/segments", operation_id = "listSegments", tag = "histories",
    params(ChatPath),
    responses((status = 200, description = "Archived segments of the chat, oldest first", body = Segments)))]
pub(crate) async fn list(
    State(http): State<Arc<Http>>,
    InChat { chat, .. }: InChat,
) -> Result<Json<Segments>, Failure> {
    let segments = http.ingress.history().segments(&chat).await.map_err(Failure::unreadable)?;
    Ok(Json(Segments { segments: segments.into_iter().map(Listed::from).collect() }))
}

/// `GET /v1/chats/{chatId}/segments/{id}`
#[utoipa::path(get, path = "/v1/chats/{chatId}/segments/{id}", operation_id = "getSegment", tag = "histories",
    params(ChatPath, ListedPath),
    responses((status = 200, description = "One segment, one message a line", body = String,
        content_type = "application/x-ndjson")))]
pub(crate) async fn one(
    State(http): State<Arc<Http>>,
    InChat { caller, chat }: InChat,
    Path(path): Path<ListedPath>,
) -> Result<Response, Failure> {
    let history = http.ingress.history().clone();
    let segment = match path.id.parse() {
        Ok(id) => history.segment(&chat, &id).await.map_err(Failure::unreadable)?,
        Err(_) => None,
    };
    let segment = segment.ok_or_else(|| {
        Problem::no_such("no-such-segment", "No such segment", "see the ids at /v1/chats/{chatId}/segments")
    })?;
    Ok(ndjson(|mut lines| async move {
        let mut from = 0;
        loop {
            // Large bodies are separate objects.
            let records = history.segment_records(&segment, from).await?;
            if records.is_empty() {
                return Ok(());
            }
            lines.send(listed_lines(&caller, &records)?).await;
            from += records.len();
        }
    }))
}
