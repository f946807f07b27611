//! The interface that each emulated API implements, [`Api`], and the list of all.

use std::collections::HashMap;

use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use serde_json::{Value, json};

use super::anthropic::Anthropic;
use super::bedrock::Bedrock;
use super::cache::Mark;
use super::completion::Completion;
use super::openai::OpenAi;
use super::refusal::Refusal;
use super::state::Stored;

/// All APIs, in the order in which messages name their providers.
pub(super) static APIS: [&dyn Api; 3] = [&OpenAi, &Anthropic, &Bedrock];

/// A model API. A new one is a file with the name of its provider, its `mod`, and an entry in [`APIS`].
///
/// - **Neutral form.** [`Api::check`] brings each request into OpenAI's form, in which tests read it: `model`, `messages`,
///   `tools` (without those that `tool_choice` forbids), `max_tokens` and `stream`. `blocks.rs` does that for messages that
///   are lists of blocks, roles and content named as Anthropic's.
/// - **Refusals.** [`Api::check`] refuses what the real API refuses: unknown fields (`check_fields`), thoughts that
///   [`Stored`] has not signed, too many marks (`check_mark_count`). `check_tools` and `check_messages` check the neutral
///   form by the rules that the present APIs share: names, images, the order of roles. Loosen them if another accepts more.
/// - **Answers.** [`Completion`] has thoughts, then a text or calls, and in OpenAI's words the reason why it ended. A stream
///   has texts and thoughts by `words`; its first piece has no text, its last ones have the reason and the usage.
pub(super) trait Api: Send + Sync {
    fn facts(&self) -> Facts;

    /// Returns the route of the list of models below [`Facts::path`], and the list, with the one model `test`; `None` if the API
    /// has none there.
    fn models(&self) -> Option<(&'static str, Value)> {
        let model = json!({"id": "test", "object": "model", "created": 1, "owned_by": "test"});
        Some(("/models", json!({"object": "list", "data": [model]})))
    }

    /// Checks that a request has the key `API_KEY`, or is signed.
    fn check_key(&self, request: &Request<'_>) -> Result<(), Refusal>;

    /// Checks the body `raw` of a request, and returns it in OpenAI's form, with `stream`: true if its answer is streamed.
    fn check(&self, request: &Request<'_>, raw: &Value, state: &Stored) -> Result<Value, Refusal>;

    /// Returns the parts of a body that are cached, in the order in which the provider reads them: tools, system part and
    /// messages.
    fn prompt<'a>(&self, raw: &'a Value) -> [&'a Value; 3] {
        [&raw["tools"], &raw["system"], &raw["messages"]]
    }

    /// Returns what removes the mark of a block of [`Api::prompt`], if the provider caches up to marks; `None` if it caches
    /// everything.
    fn take_mark(&self) -> Option<fn(&mut Value) -> Mark> {
        None
    }

    /// Returns an answer in one piece.
    fn whole(&self, completion: &Completion) -> Value;

    /// Returns the pieces of a streamed answer.
    fn pieces(&self, completion: &Completion) -> Vec<Vec<u8>>;

    /// Returns the piece that tells of an overload, in place of the rest of an answer.
    fn overload(&self) -> Vec<u8>;

    /// Returns an error as the provider words it. Its status and `Retry-After` are set later.
    fn error(&self, refusal: &Refusal) -> Response;

    /// Returns the message for a request of `requested` tokens if `limit` are allowed.
    fn too_long(&self, limit: u64, requested: u64) -> String;
}

/// Constants of an API.
pub(super) struct Facts {
    /// The model that tests ask, as in `MODEL`: `openai:test`.
    pub(super) model: &'static str,
    /// Path of `MODEL_BASE_URL`, another one for each API.
    pub(super) path: &'static str,
    /// Route of questions below `path`; its parameters are in [`Request::path`].
    pub(super) route: &'static str,
    /// Media type of a streamed answer.
    pub(super) content_type: &'static str,
    /// Message for images to a model without vision.
    pub(super) no_images: &'static str,
}

/// Media type of server-sent events.
pub(super) const EVENTS: &str = "text/event-stream; charset=utf-8";

/// A request as it came.
pub(super) struct Request<'a> {
    pub(super) headers: &'a HeaderMap,
    pub(super) uri: &'a Uri,
    /// The parameters of its route.
    pub(super) path: &'a HashMap<String, String>,
    pub(super) body: &'a [u8],
}

impl Request<'_> {
    /// Returns a header; empty if there is none.
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}
