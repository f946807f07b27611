//! Lists the people and chats that `ALLOW_FROM` or `ALLOW_CHATS` refused: `GET /v1/strangers`, for admin keys.

use std::sync::Arc;

use annals_store::history::strangers::Stranger;
use axum::Json;
use axum::extract::State;
use serde::Serialize;

use crate::auth::Caller;
use crate::failure::Failure;
use crate::state::Http;

/// `{strangers}`
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct Strangers {
    strangers: Vec<Stranger>,
}

/// `GET /v1/strangers`
#[utoipa::path(get, path = "/v1/strangers", operation_id = "listStrangers", tag = "histories",
    responses((status = 200, body = Strangers,
        description = "The people and chats that were refused in the last 30 days, the newest first, at most 200")))]
pub(crate) async fn list(State(http): State<Arc<Http>>, caller: Caller) -> Result<Json<Strangers>, Failure> {
    caller.require_admin("list strangers")?;
    Ok(Json(Strangers { strangers: http.ingress.history().strangers().await? }))
}
