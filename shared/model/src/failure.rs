//! Errors of providers: a refused request as a [`ModelError`].
//!
//! A body may quote messages of people. It is searched for known reasons only, such as a request that is too long or a
//! wrong key, and does not leave this module.
//!
//! # A new provider
//!
//! The compiler asks for none of this:
//!
//! - `WORDS` for a request that is too long, `FILTERED`, `BLIND` for images.
//! - `WRONG_KEY` if a wrong key is refused with 400. Of another status, `status_of_response` makes 401.
//! - The fields that hold an error's text: `texts` reads strings, and nothing in lists. `of_body` takes `type` before
//!   `code`, also where it is just `error`.
//! - `CODES` and `status_of` for errors inside a stream that do not have their status as a number.
//! - A pause before the next try that is in the body, and not in `Retry-After`: `of_response`.
//! - A status of its own: `by_response`.

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderValue};
use serde_json::Value;

use super::error::ModelError;

/// Codes and types of a request that is too long.
const CODES: [&str; 3] = ["context_length_exceeded", "exceed_context_size_error", "string_above_max_length"];

/// Codes and messages of a question that a content filter refuses, in lower case, separated by bars: Azure's, `DeepSeek`'s, and
/// two of `DashScope`.
const FILTERED: &str = "content_filter|content exists risk|data_inspection_failed|datainspectionfailed";

/// Messages of providers about a request that is too long, in lower case, separated by bars. OpenAI, `DeepSeek`, vLLM and `OpenRouter` use
/// "maximum context length"; `tests/fixtures/models` has most of the others, with their sources.
const WORDS: &str = "maximum context length|model's context length|context length exceeded|exceeds the context length|\
    context window|exceeds the available context size|exceed context limit|exceeds context limit|\
    prompt is too long|prompt too long|input is too long|input tokens exceed|exceeded model token limit|\
    range of input length should be|reduce the length of the|too many tokens|request too large for";

/// Messages of providers about a model that accepts no images, in lower case, separated by bars; the fixtures have the sources of most.
const BLIND: &str = "image_url is only supported by certain models|image input is not supported|does not support image|\
    do not support image|doesn't support image|doesn't support the image|not support images|\
    support image input|image input is not enabled|not a multimodal model|not a vlm|\
    unknown variant `image_url`|unknown part type: image|at most 0 image|\
    missing data required for image input|does not support vision|content must be a string";

/// Messages about a wrong key, in lower case, of providers that refuse it with 400: Google's, and xAI's.
const WRONG_KEY: [&str; 2] = ["api key not valid", "incorrect api key"];

/// Number of characters of an unstructured body that are searched.
const BODY_START: usize = 2000;

/// Returns the status that a response has by its meaning: 401 for a wrong key, which some providers refuse with 400. Sending and
/// `doctor` take it from here.
pub(super) fn status_of_response(status: u16, body: &str) -> u16 {
    let is_wrong_key =
        status == 400 && texts(body).any(|text| WRONG_KEY.iter().any(|key| text.contains(key)));
    if is_wrong_key { 401 } else { status }
}

/// Returns the error for a response of `status`, by [`status_of_response`], which is not 2xx.
pub(super) fn of_response(status: u16, headers: &HeaderMap, body: &str) -> ModelError {
    let number = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok()?.parse().ok());
    // Azure's header, and the standard one.
    let retry_after = number("retry-after-ms").map(Duration::from_millis);
    by_response(status, body, retry_after.or_else(|| number("retry-after").map(Duration::from_secs)))
}

/// Returns the error for a stream, or a body of 200, that has an error in place of an answer: `error` of OpenAI and Anthropic,
/// or an exception of Bedrock, by its name.
pub(super) fn of_body(kind: Option<&str>, body: &Value) -> ModelError {
    let error = if body["error"].is_null() { body } else { &body["error"] };
    let kind = kind.or_else(|| error["type"].as_str()).or_else(|| error["code"].as_str()).unwrap_or_default();
    let status = [&error["code"], &error["status"]].into_iter().find_map(Value::as_u64);
    let status = status.and_then(|status| u16::try_from(status).ok()).filter(|status| *status >= 400);
    by_response(status.unwrap_or_else(|| status_of(kind)), &body.to_string(), None)
}

/// Returns the error for a request or a response that did not get through.
pub(super) fn of_transport(error: &reqwest::Error) -> ModelError {
    ModelError::Unreachable(match error {
        error if error.is_timeout() => "timed out",
        error if error.is_connect() => "no connection",
        _ => "the connection broke off",
    })
}

/// Returns true if a server refuses a request because of `stream_options`, which not all know. Servers name the field in
/// different places, so the whole body is searched; if it is in quoted text, the request is only sent once more.
pub(super) fn refuses_stream_options(status: u16, body: &str) -> bool {
    matches!(status, 400 | 422) && ["stream_options", "include_usage"].iter().any(|name| body.contains(name))
}

/// Returns true if Bedrock refuses a request because the model cannot stream its answer.
pub(super) fn refuses_streaming(status: u16, body: &str) -> bool {
    status == 400 && texts(body).any(|text| text.contains("support") && text.contains("stream"))
}

/// Returns true if the model accepts no images at all, by the refusal of a request with images.
pub(super) fn is_blind(status: u16, body: &str) -> bool {
    // Gateways use 404, llama.cpp and Ollama 500.
    matches!(status, 400 | 404 | 415 | 422 | 500 | 501)
        && !says_too_long(status, body)
        && texts(body).any(|text| BLIND.split('|').any(|words| text.contains(words)))
}

/// Returns true if a request with images is refused because of them. Servers word it in so many ways that a refusal without
/// a known reason counts too: if the reason is another, the same request without images is refused again.
pub(super) fn is_about_images(status: u16, body: &str) -> bool {
    let is_plain = matches!(status, 400 | 415 | 422) && !says_too_long(status, body);
    is_plain || is_blind(status, body)
}

/// Returns the status for the name of an error. Sources: "Errors" of Anthropic, `ConverseStream` of Amazon Bedrock.
fn status_of(kind: &str) -> u16 {
    match kind {
        "invalid_request_error" | "validationException" => 400,
        "authentication_error" => 401,
        "permission_error" | "accessDeniedException" => 403,
        "not_found_error" | "resourceNotFoundException" => 404,
        "modelTimeoutException" => 408,
        "request_too_large" => 413,
        "modelStreamErrorException" | "modelErrorException" => 424,
        "rate_limit_error" | "rate_limit_exceeded" | "throttlingException" | "tokens" | "requests" => 429,
        "serviceUnavailableException" | "modelNotReadyException" => 503,
        "timeout_error" => 504,
        "overloaded_error" => 529,
        _ if is_filtered(&kind.to_lowercase()) || CODES.contains(&kind) => 400,
        _ => 500,
    }
}

fn by_response(status: u16, body: &str, retry_after: Option<Duration>) -> ModelError {
    match status {
        _ if says_too_long(status, body) => ModelError::ContextTooLong,
        408 | 409 | 424 | 425 | 429 | 500.. => ModelError::Busy { status, retry_after },
        400 if texts(body).any(|text| is_filtered(&text)) => ModelError::Filtered,
        _ => ModelError::Refused { status },
    }
}

/// Returns true if `text`, in lower case, says that a content filter refuses the question.
fn is_filtered(text: &str) -> bool {
    FILTERED.split('|').any(|words| text.contains(words))
}

fn says_too_long(status: u16, body: &str) -> bool {
    match status {
        413 => true,
        // Other reasons than the request.
        401..=404 | 408 => false,
        // A request above the limit per minute never succeeds; one after too many others does.
        429 => texts(body).any(|text| text.contains("request too large for")),
        _ => texts(body)
            .any(|text| CODES.contains(&text.as_str()) || WORDS.split('|').any(|words| text.contains(words))),
    }
}

/// Returns the error's own texts in a body, in lower case. A body may also quote the request, so nothing else of a JSON body
/// is searched.
fn texts(body: &str) -> impl Iterator<Item = String> {
    let texts: Vec<String> = match serde_json::from_str::<Value>(body) {
        Ok(body) => {
            // Google's OpenAI-compatible endpoint puts an error into an array.
            let body = body.get(0).unwrap_or(&body);
            let error = if body["error"].is_null() { body } else { &body["error"] };
            let keys = ["message", "Message", "detail", "code", "type", "__type"];
            let own = keys.iter().flat_map(|key| [&error[*key], &body[*key]]);
            own.chain([error]).filter_map(Value::as_str).map(str::to_lowercase).collect()
        }
        Err(_) => vec![body.chars().take(BODY_START).collect::<String>().to_lowercase()],
    };
    texts.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A refusal as it was reported, with its source in the file; numbers and ids are changed.
    #[derive(serde::Deserialize)]
    struct Refusal {
        who: String,
        /// `too long`, `no images` (the model accepts none at all), `these images`, `wrong key`, `filtered`, or `other`: another error that
        /// mentions tokens, length or limits.
        means: String,
        status: u16,
        body: String,
    }

    fn refusals() -> impl Iterator<Item = Refusal> {
        let lines = include_str!("../../../tests/fixtures/models/refusals.jsonl").lines();
        lines.map(|line| serde_json::from_str(line).unwrap())
    }

    #[test]
    fn refusals_of_providers_are_recognised() {
        for Refusal { who, means, status, body } in refusals() {
            let status = status_of_response(status, &body);
            let images = (is_about_images(status, &body), is_blind(status, &body));
            let error = by_response(status, &body, None);
            match (means.as_str(), status) {
                ("too long", _) => {
                    assert_eq!((error, images), (ModelError::ContextTooLong, (false, false)), "{who}");
                }
                ("wrong key", _) => {
                    assert_eq!(
                        (error, images),
                        (ModelError::Refused { status: 401 }, (false, false)),
                        "{who}"
                    );
                }
                ("filtered", _) => assert_eq!(error, ModelError::Filtered, "{who}"),
                ("no images", _) => assert_eq!(images, (true, true), "{who}"),
                ("these images", _) => assert_eq!(images, (true, false), "{who}"),
                (_, 429 | 500..) => {
                    assert_eq!(error, ModelError::Busy { status, retry_after: None }, "{who}");
                }
                _ => assert_eq!(error, ModelError::Refused { status }, "{who}"),
            }
        }
        for (status, body) in [(401, ""), (404, ""), (429, "image"), (500, ""), (503, "")] {
            assert!(!is_about_images(status, body), "{status}");
        }
    }

    #[test]
    fn no_body_leaves_the_module() {
        for Refusal { who, status, body, .. } in refusals() {
            let error = by_response(status, &body, None);
            let shown = format!("{error} {error:?}");
            for word in body.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 12) {
                assert!(!shown.contains(word), "{who}: {word}");
            }
        }
    }
}
