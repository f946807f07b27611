//! Forgets a chat: `DELETE /v1/chats/{chatId}`.

use std::sync::Arc;
use std::time::Duration;

use annals_core::chat_key::ChatKey;
use annals_engine::forgetting::{ForgetError, Forgotten, forget};
use annals_runtime::problem::Problem;
use annals_store::history::HistoryError;
use axum::Json;
use axum::extract::State;
use serde::Serialize;

use crate::failure::Failure;
use crate::request::{ChatPath, InChat};
use crate::state::Http;

/// Time a request spends on the deletion, or on waiting for another request's. API Gateway ends a request after 30 seconds.
const PATIENCE: Duration = Duration::from_secs(15);
/// Pause before the next attempt while another request deletes the chat.
const PAUSE: Duration = Duration::from_millis(500);

/// `{chatKey, removed: {records, segments, bodies, memories}}`
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Removed {
    chat_key: ChatKey,
    removed: Forgotten,
}

/// `DELETE /v1/chats/{chatId}`: returns the numbers of deleted objects, 0 if the chat does not exist.
#[utoipa::path(delete, path = "/v1/chats/{chatId}", operation_id = "forgetChat", tag = "histories",
    params(ChatPath),
    responses((status = 200, description = "The chat is deleted; the numbers of deleted objects", body = Removed)))]
pub(crate) async fn delete(
    State(http): State<Arc<Http>>,
    InChat { chat, .. }: InChat,
) -> Result<Json<Removed>, Failure> {
    let ends = http.clock.now().plus(PATIENCE);
    // Read first: the links between the names are deleted with the chat.
    let names = match &http.after_forgetting {
        Some(_) => {
            let names = http.ingress.history().all_names(&chat).await;
            names.map_err(|error| unfinished(ForgetError::History(error)))?
        }
        None => Vec::new(),
    };
    loop {
        match forget(http.ingress.history(), http.ingress.agents(), &chat, ends).await {
            Ok(removed) => {
                http.forget_elsewhere(names).await?;
                return Ok(Json(Removed { chat_key: chat, removed }));
            }
            Err(ForgetError::Busy { .. }) if http.clock.now() < ends => http.clock.sleep(PAUSE).await,
            Err(error) => return Err(unfinished(error).into()),
        }
    }
}

impl Http {
    /// Removes the data about forgotten chats of these names that the program keeps outside the stores.
    pub(crate) async fn forget_elsewhere(&self, names: Vec<ChatKey>) -> Result<(), Problem> {
        let Some(after_forgetting) = &self.after_forgetting else { return Ok(()) };
        after_forgetting(names).await.map_err(|error| {
            tracing::error!(error, "failed to remove the remaining data of forgotten chats");
            Problem::not_forgotten()
        })
    }
}

/// Returns the problem of a deletion that did not end.
pub(crate) fn unfinished(error: ForgetError) -> Problem {
    match error {
        ForgetError::Busy { .. } | ForgetError::History(HistoryError::LeaseLost) => Problem::busy(),
        ForgetError::Unfinished { forgotten } => {
            tracing::info!(?forgotten, "ran out of time to forget a chat or a person");
            Problem::not_forgotten_yet()
        }
        error => {
            tracing::error!(%error, "failed to forget a chat or a person");
            Problem::not_forgotten()
        }
    }
}
