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

/// Time a request spends on the deletion, or on waiting for another request's. API Gateway ends a request after 30 seconds.
const PATIENCE: Duration = Duration::from_secs(15);
/// Pause between two looks at whether the other request has ended.
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
    // The links between them are gone with the chat.
    let names = match &http.after_forgetting {
        Some(_) => http.ingress.history().all_names(&chat).await.map_err(|error| unavailable(&error))?,
        None => Vec::new(),
    };
    loop {
        let error = match forget(http.ingress.history(), &chat, ends).await {
            Ok(removed) => {
                if let Some(after_forgetting) = &http.after_forgetting
                    && let Err(error) = after_forgetting(names).await
                {
                    tracing::error!(error, "failed to remove what is left of a forgotten chat");
                    return Err(Problem::not_forgotten().into());
                }
                return Ok(Json(Removed { chat_key: chat, removed }));
            }
            Err(error) => error,
        };
        match error {
            ForgetError::Busy { .. } if http.clock.now() < ends => http.clock.sleep(PAUSE).await,
            ForgetError::Busy { .. } | ForgetError::Superseded(_) => return Err(Problem::busy().into()),
            ForgetError::Unfinished { forgotten } => {
                tracing::info!(?forgotten, "a chat is not forgotten yet");
                return Err(Problem::not_forgotten_yet(forgotten.records).into());
            }
            error => {
                unavailable(&error);
                return Err(Problem::not_forgotten().into());
            }
        }
    }
}
