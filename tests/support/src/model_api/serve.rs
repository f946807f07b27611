//! The routes: what comes in is checked, brought into OpenAI's form, and answered.

use std::collections::HashMap;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};

use super::answers;
use super::api::{APIS, Api, Facts, Request};
use super::body::{is_for_notes, note, said_last};
use super::completion::{Completion, Said};
use super::openai::OpenAi;
use super::refusal::{Refusal, bad};
use super::state::{Asked, Hangs, Running, Shared, Stored};

pub(super) fn router(shared: Arc<Shared>) -> Router {
    let routes = APIS.into_iter().fold(Router::new(), |routes, api| {
        let Facts { path, route, .. } = api.facts();
        let own = Router::new().route(&format!("{path}{route}"), post(ask));
        let own = match api.models() {
            Some((list, _)) => own.route(&format!("{path}{list}"), get(models)),
            None => own,
        };
        routes.merge(own.route_layer(Extension(api)))
    });
    routes.fallback(no_such_url).method_not_allowed_fallback(no_such_url).with_state(shared)
}

async fn ask(
    State(shared): State<Arc<Shared>>,
    Extension(api): Extension<&'static dyn Api>,
    Path(path): Path<HashMap<String, String>>,
    headers: HeaderMap,
    uri: Uri,
    body: Bytes,
) -> Response {
    let request = Request { headers: &headers, uri: &uri, path: &path, body: &body };
    let asked = check(&shared.state(), api, &request);
    answer(shared, api, asked).await
}

fn check(state: &Stored, api: &dyn Api, request: &Request<'_>) -> Result<Asked, Refusal> {
    check_key(state, api, request)?;
    let raw = serde_json::from_slice(request.body).map_err(|_| bad("The request body is not valid JSON"))?;
    Ok(Asked { body: api.check(request, &raw, state)?, raw, path: request.uri.path().to_owned() })
}

fn check_key(state: &Stored, api: &dyn Api, request: &Request<'_>) -> Result<(), Refusal> {
    if state.any_key { Ok(()) } else { api.check_key(request) }
}

async fn models(
    State(shared): State<Arc<Shared>>,
    Extension(api): Extension<&'static dyn Api>,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    let request = Request { headers: &headers, uri: &uri, path: &HashMap::new(), body: &[] };
    let mut state = shared.state();
    match check_key(&state, api, &request) {
        Ok(()) => Json(api.models().map(|(_, list)| list)).into_response(),
        Err(refusal) => {
            state.refusals.push(refusal.message.clone());
            refusal.into_response(api)
        }
    }
}

async fn answer(shared: Arc<Shared>, api: &'static dyn Api, checked: Result<Asked, Refusal>) -> Response {
    let asked = match checked {
        Ok(asked) => asked,
        Err(refusal) => {
            shared.state().refusals.push(refusal.message.clone());
            return refusal.into_response(api);
        }
    };
    let body = &asked.body;
    let (said, mishap, streams, delay, factor) = {
        let mut state = shared.state();
        let said = match state.refuse(api, body) {
            Some(refusal) => Err(refusal),
            None => Ok((state.next_calls(body), state.answer_by.clone(), state.answer.clone(), state.finish)),
        };
        let streams = body["stream"] == true && !state.never_streams;
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
    let running = Running::start(&shared, api, &asked);
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
        Err(refusal) => return refusal.into_response(api),
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
    answers::answer(api, &completion, streams, mishap)
}

async fn no_such_url(State(shared): State<Arc<Shared>>, method: Method, uri: Uri) -> Response {
    let refusal = Refusal::new(StatusCode::NOT_FOUND, format!("Invalid URL ({method} {})", uri.path()));
    shared.state().refusals.push(refusal.message.clone());
    refusal.into_response(&OpenAi)
}
