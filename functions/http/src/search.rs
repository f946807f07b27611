//! Searches a history: `GET /v1/chats/{chatId}/search`.

use std::sync::Arc;

use annals_core::message::UiMessage;
use annals_core::record::Record;
use annals_runtime::problem::Problem;
use annals_store::history::{Found, Search};
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::failure::Failure;
use crate::history::limit_of;
use crate::request::{ChatPath, InChat, Query, QueryParameters};
use crate::schema;
use crate::state::Http;

const DEFAULT_HITS: usize = 8;
const MAX_HITS: usize = 50;

const MAX_QUERY_CHARS: usize = 512;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct SearchQuery {
    /// The words to look for.
    #[serde(default)]
    #[param(required = true, min_length = 1, max_length = 512, pattern = "\\S")]
    q: String,
    /// Number of hits: by default 8, at most 50.
    #[param(value_type = Option<u32>, minimum = 1)]
    limit: Option<String>,
}

impl QueryParameters for SearchQuery {}

/// `{hits, partial}`
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Hits {
    /// The best first.
    hits: Vec<HitView>,
    /// True if a part of the history was not searched, or not each hit fits the answer.
    partial: bool,
}

/// A message that fits, and what was said around it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Hit)]
struct HitView {
    /// Its newest form.
    #[schema(value_type = schema::UiMessage)]
    message: UiMessage,
    /// Above 0, comparable only within the same answer.
    score: f32,
    /// The messages before and after it, in chat order, without `message`.
    #[schema(value_type = Vec<schema::UiMessage>)]
    context: Vec<UiMessage>,
}

/// `GET /v1/chats/{chatId}/search`
#[utoipa::path(get, path = "/v1/chats/{chatId}/search", operation_id = "searchChat", tag = "histories",
    params(ChatPath, SearchQuery),
    responses((status = 200, description = "The messages of the whole history that fit best", body = Hits)))]
pub(crate) async fn search(
    State(http): State<Arc<Http>>,
    InChat { chat, .. }: InChat,
    Query(SearchQuery { q, limit }): Query<SearchQuery>,
) -> Result<Json<Hits>, Failure> {
    if q.trim().is_empty() || q.chars().count() > MAX_QUERY_CHARS {
        let detail = format!("\"q\", the text to look for, must have 1 to {MAX_QUERY_CHARS} characters");
        return Err(Problem::bad_request("bad-search", "The search is invalid", detail).into());
    }
    let limit = limit_of(limit.as_deref(), DEFAULT_HITS, MAX_HITS)?;
    let found = http.ingress.history().search(&chat, &Search::new(&q, limit)).await;
    let Found { hits, is_partial } = found.map_err(Failure::unreadable)?;
    let hits = hits.into_iter().map(|hit| HitView {
        message: hit.record.listed(),
        score: hit.score,
        context: hit.context.iter().map(Record::listed).collect(),
    });
    Ok(Json(Hits { hits: hits.collect(), partial: is_partial }))
}
