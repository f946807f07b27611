//! `DELETE /v1/chats/{chatId}`: forgets a chat.

use std::sync::Arc;
use std::time::Duration;

use annals_shared::chat_key::ChatKey;
use annals_shared::forgetting::{ForgetError, Forgotten, forget};
use annals_shared::problem::Problem;
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use serde::Serialize;

use crate::auth::Caller;
use crate::post::path;
use crate::{Failure, Http, unavailable};

/// How long a request waits for a run to end, and how often it looks.
const PATIENCE: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(500);

/// `{chatKey, removed: {records, segments, bodies, memories}}`
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Removed {
    chat_key: ChatKey,
    removed: Forgotten,
}

/// `DELETE /v1/chats/{chatId}`: 200 with what was deleted, nothing where there was nothing.
#[utoipa::path(delete, path = "/v1/chats/{chatId}", operation_id = "forgetChat", tag = "histories", security(("key" = [])),
    params(("chatId" = String, Path, description = "A conversation id of the caller's own, at most 512 bytes, or with an admin key a whole ChatKey", min_length = 1, max_length = 2048, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")),
    responses((status = 200, description = "Everything of the chat is deleted: what, by number", body = Removed)))]
pub(crate) async fn delete(
    State(http): State<Arc<Http>>,
    caller: Caller,
    chat_id: Result<Path<String>, PathRejection>,
) -> Result<Json<Removed>, Failure> {
    let chat = caller.chat(&path(chat_id)?)?;
    let ends = http.clock.now().plus(PATIENCE);
    loop {
        let error = match forget(http.ingress.history(), &chat).await {
            Ok(removed) => return Ok(Json(Removed { chat_key: chat, removed })),
            Err(error) => error,
        };
        match error {
            ForgetError::Busy { .. } if http.clock.now() < ends => http.clock.sleep(PAUSE).await,
            ForgetError::Busy { .. } | ForgetError::Superseded(_) => return Err(Problem::busy().into()),
            error => {
                unavailable(&error);
                return Err(Problem::not_forgotten().into());
            }
        }
    }
}
