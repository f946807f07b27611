//! `GET /v1/strangers`: who was refused by `ALLOW_FROM` or `ALLOW_CHATS`. For admin keys.

use std::sync::Arc;

use annals_shared::history::strangers::Stranger;
use annals_shared::problem::Problem;
use axum::Json;
use axum::extract::State;
use serde::Serialize;

use crate::auth::Caller;
use crate::{Failure, Http};

/// `{strangers}`
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct Strangers {
    strangers: Vec<Stranger>,
}

/// `GET /v1/strangers`
#[utoipa::path(get, path = "/v1/strangers", operation_id = "listStrangers", tag = "histories", security(("key" = [])),
    responses((status = 200, description = "The people and chats that were refused in the last 30 days, the newest first, at most 200", body = Strangers)))]
pub(crate) async fn list(State(http): State<Arc<Http>>, caller: Caller) -> Result<Json<Strangers>, Failure> {
    if !caller.admin {
        return Err(Problem::forbidden("only an admin key may list strangers").into());
    }
    Ok(Json(Strangers { strangers: http.ingress.history().strangers().await? }))
}
