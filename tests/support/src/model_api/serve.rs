//! The routes: what comes in is checked, brought into OpenAI's form, and answered.

use std::collections::HashMap;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use axum::{Extension, Router};
use serde_json::Value;

use super::body::{is_for_notes, note, said_last};
use super::check::{check_body, check_key};
use super::completion::{Completion, Said};
use super::refusal::{Refusal, Shape, bad};
use super::state::{Asked, Hangs, Running, Shared, Stored};
use super::{answers, anthropic, bedrock};

pub(super) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/v1/chat/completions", questions(Shape::OpenAi))
        .route("/v1/models", get(models))
        .route("/anthropic/v1/models", get(models))
        .route("/anthropic/v1/messages", questions(Shape::Anthropic))
        .route("/bedrock/model/{model}/{operation}", questions(Shape::Bedrock))
        .fallback(no_such_url)
        .method_not_allowed_fallback(no_such_url)
        .with_state(shared)
}

/// Answers questions in the API of `shape`.
fn questions(shape: Shape) -> MethodRouter<Arc<Shared>> {
    post(ask).layer(Extension(shape))
}

async fn ask(
    State(shared): State<Arc<Shared>>,
    Extension(shape): Extension<Shape>,
    Path(path): Path<HashMap<String, String>>,
    headers: HeaderMap,
    uri: Uri,
    body: Bytes,
) -> Response {
    let read = check_request(&shared.state(), shape, &path, &headers, &uri, &body);
    let checked = read.map(|(raw, body, streams)| Asked { body, raw, path: uri.path().to_owned(), streams });
    answer(shared, shape, checked).await
}

/// Returns a request as it came and in OpenAI's form, and true if its answer is streamed. `path` has the
/// parameters of its route.
fn check_request(
    state: &Stored,
    shape: Shape,
    path: &HashMap<String, String>,
    headers: &HeaderMap,
    uri: &Uri,
    bytes: &[u8],
) -> Result<(Value, Value, bool), Refusal> {
    let read =
        || serde_json::from_slice::<Value>(bytes).map_err(|_| bad("The request body is not valid JSON"));
    let is_signed = |thought: &str, signature: &str| {
        state.signed.iter().any(|(own, of_it)| own == thought && of_it == signature)
    };
    match shape {
        Shape::OpenAi => {
            check_key(headers, state.any_key)?;
            let body = check_body(bytes)?;
            if state.refuses_stream_options && !body["stream_options"].is_null() {
                // Servers that validate every field word it like this.
                return Err(bad("[{'type': 'extra_forbidden', 'loc': ('body', 'stream_options')}]"));
            }
            let streams = body["stream"] == true;
            Ok((body.clone(), body, streams))
        }
        Shape::Anthropic => {
            anthropic::check_key(headers, state.any_key)?;
            let raw = read()?;
            let (body, streams) = (anthropic::check_body(&raw, is_signed)?, raw["stream"] == true);
            Ok((raw, body, streams))
        }
        Shape::Bedrock => {
            bedrock::check_key(headers, uri, bytes, state.any_key)?;
            let raw = read()?;
            let parameter = |name: &str| path.get(name).map(String::as_str).unwrap_or_default();
            let streams = match parameter("operation") {
                "converse-stream" => true,
                "converse" => false,
                _ => return Err(Refusal::new(StatusCode::NOT_FOUND, "UnknownOperationException")),
            };
            if streams && state.refuses_stream_options {
                return Err(bad("This model doesn't support the toolConfig in streaming mode."));
            }
            let body = bedrock::check_body(parameter("model"), streams, &raw, is_signed)?;
            Ok((raw, body, streams))
        }
    }
}

/// The one model that there is, in OpenAI's form for all providers.
async fn models(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    let any_key = shared.state().any_key;
    let checked = check_key(&headers, any_key)
        .or_else(|refusal| anthropic::check_key(&headers, any_key).map_err(|_| refusal));
    if let Err(refusal) = checked {
        shared.state().refusals.push(refusal.message.clone());
        return refusal.into_response(Shape::OpenAi);
    }
    let body = r#"{"object":"list","data":[{"id":"test","object":"model","created":1,"owned_by":"test"}]}"#;
    ([("content-type", "application/json")], body).into_response()
}

async fn answer(shared: Arc<Shared>, shape: Shape, checked: Result<Asked, Refusal>) -> Response {
    let asked = match checked {
        Ok(asked) => asked,
        Err(refusal) => {
            shared.state().refusals.push(refusal.message.clone());
            return refusal.into_response(shape);
        }
    };
    let body = &asked.body;
    let (said, mishap, streams, delay, factor) = {
        let mut state = shared.state();
        let said = match state.refuse(shape, body) {
            Some(refusal) => Err(refusal),
            None => Ok((state.next_calls(body), state.answer_by.clone(), state.answer.clone(), state.finish)),
        };
        let streams = asked.streams && !state.never_streams;
        let mishap = if streams && said.is_ok() { state.next_mishap() } else { None };
        (said, mishap, streams, state.delay, state.usage_factor.unwrap_or(1.0))
    };
    let is_for_notes = is_for_notes(body);
    // Outside the lock, since a test's own answer may look at this.
    let said = said.map(|(calls, answer_by, answer, finish)| {
        calls.unwrap_or_else(|| {
            let answer = answer.filter(|_| !is_for_notes);
            let text = answer_by.and_then(|answer_by| answer_by(body)).or(answer);
            Said::Text(
                text.or_else(|| note(body)).unwrap_or_else(|| format!("You said: {}", said_last(body))),
                finish,
            )
        })
    });
    let running = Running::start(&shared, shape, &asked);
    #[allow(
        clippy::disallowed_methods,
        reason = "how long a model takes is real time, also where a test's clock is not"
    )]
    tokio::time::sleep(delay).await;
    let goes_on = |hangs: &Hangs| if is_for_notes { !hangs.notes } else { !hangs.answers };
    let _ = shared.hangs.subscribe().wait_for(goes_on).await;

    let id = format!("chatcmpl-{}", running.at + 1);
    let at = running.at;
    // Ended before the answer goes out, so that a caller who has it and calls again is never counted twice.
    drop(running);
    let said = match said {
        Err(refusal) => return refusal.into_response(shape),
        Ok(said) => said,
    };
    let mut state = shared.state();
    let mut completion = Completion::new(id, body, said, factor, state.calls[at].cached);
    completion.thought = state.thought.clone().filter(|_| !is_for_notes).map(|thought| {
        let signature = format!("sig-{at}");
        state.signed.push((thought.clone(), signature.clone()));
        (thought, signature)
    });
    completion.numbering = state.numbering;
    drop(state);
    answers::answer(shape, &completion, streams, mishap)
}

async fn no_such_url(State(shared): State<Arc<Shared>>, method: Method, uri: Uri) -> Response {
    let refusal = Refusal::new(StatusCode::NOT_FOUND, format!("Invalid URL ({method} {})", uri.path()));
    shared.state().refusals.push(refusal.message.clone());
    refusal.into_response(Shape::OpenAi)
}
