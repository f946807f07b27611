//! Errors of the handlers, and the one place that turns them into answers: [`Failure`].

use annals_engine::ingress::IngressError;
use annals_engine::remembering::RememberError;
use annals_runtime::problem::Problem;
use annals_store::history::HistoryError;
use annals_store::memory::MemoryError;
use axum::response::{IntoResponse, Response};

/// Cause of a failure of the program, among the extensions of its answer: for a layer that serves the operator alone.
#[derive(Clone, Debug)]
pub struct Cause(pub String);

/// Reason why a handler returns no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("the request is refused: {}", .0.detail)]
    Problem(Problem),
    #[error("failed to store or queue a message: {0}")]
    Ingress(#[from] IngressError),
    #[error("failed to use a store: {0}")]
    History(#[from] HistoryError),
    #[error("failed to read a history: {0}")]
    Unreadable(HistoryError),
    #[error("failed to read or write memory: {0}")]
    Memory(#[from] MemoryError),
    #[error("failed to read the memory of a chat: {0}")]
    Recall(#[from] RememberError),
}

impl Failure {
    /// Returns the failure of a request that only reads.
    pub(crate) fn unreadable(error: HistoryError) -> Self {
        match error {
            HistoryError::Cursor(error) => Self::Problem(bad_cursor(error.to_string())),
            error => Self::Unreadable(error),
        }
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let problem = match &self {
            Self::Problem(problem) => return problem.clone().into_response(),
            Self::Ingress(IngressError::History(HistoryError::Taken { .. }))
            | Self::History(HistoryError::Taken { .. }) => return Problem::not_the_author().into_response(),
            Self::Ingress(_) | Self::History(_) => Problem::unavailable(),
            Self::Unreadable(_) => Problem::unreadable(),
            Self::Memory(_) | Self::Recall(_) => Problem::memory_unavailable(),
        };
        let problem = match &self {
            Self::Ingress(IngressError::History(error)) | Self::History(error) | Self::Unreadable(error)
                if !error.may_pass() =>
            {
                problem.that_stays()
            }
            _ => problem,
        };
        tracing::error!(error = %self, "failed to handle a request");
        let mut response = problem.into_response();
        response.extensions_mut().insert(Cause(self.to_string()));
        response
    }
}

/// Returns a 400: the cursor is invalid.
pub(crate) fn bad_cursor(detail: String) -> Problem {
    Problem::bad_request("bad-cursor", "The cursor is invalid", detail)
}
