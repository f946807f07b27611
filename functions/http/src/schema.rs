//! Schemas of types that core writes by hand, for `openapi.json` alone.

use serde_json::{Map, Value};
use utoipa::ToSchema;

/// A message of the Vercel AI SDK. Unknown keys are kept.
#[derive(ToSchema)]
#[schema(as = UIMessage)]
#[allow(dead_code, reason = "describes `annals_core::message::UiMessage`")]
pub(crate) struct UiMessage {
    /// Its `messageId`; of revision n `<messageId>@<n>`. A reply to the message m is `m/reply`, a confirmation `m/notice`, a
    /// boundary `m/boundary`, a summary up to it `m/summary`. Unique in its chat, unless a caller chooses ids of these
    /// shapes: then two of a listing may share one, and `metadata` tells them apart.
    id: String,
    role: annals_core::message::Role,
    parts: Vec<Part>,
    /// `ts, chatKey, channel, chatId, userId, actorKey, messageId, kind` of a listed message, `sentAt` of a reply,
    /// `sourceRange {fromId, toId, count}` of a summary, `deliveryFailure`, `model`, `usage`, `sentFrom` of what came from another chat, `sentBy` of what an operator
    /// sent, and data of the platform.
    metadata: Option<Map<String, Value>>,
}

/// A part of a message: text, file, reasoning, tool, …
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes the least of `annals_core::message::Part`")]
pub(crate) struct Part {
    #[schema(min_length = 1)]
    r#type: String,
}

/// An error (RFC 9457).
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes `annals_runtime::problem::Problem`")]
pub(crate) struct Problem {
    /// Stable: `urn:annals:problem:<kind>`.
    r#type: String,
    /// Title of all problems of this type.
    title: String,
    /// Status of the answer.
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    /// Cause in this request, and remedy.
    detail: String,
    /// `x-request-id` of the answer.
    #[schema(rename = "requestId")]
    request_id: String,
}
