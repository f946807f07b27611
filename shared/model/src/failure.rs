//! Errors of providers: a refused request as a [`ModelError`].
//!
//! A body may quote messages of people. It is searched for three reasons, a request that is too long, an unknown field, and
//! images that are not accepted, and does not leave this module.

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderValue};
use serde_json::Value;

use super::error::ModelError;

/// Codes and types of a request that is too long.
const CODES: [&str; 3] = ["context_length_exceeded", "exceed_context_size_error", "string_above_max_length"];

/// Messages of providers about a request that is too long, in lower case. OpenAI, `DeepSeek`, vLLM and `OpenRouter` use
/// "maximum context length"; the tests have most of the others, with their sources.
const WORDS: [&str; 17] = [
    "maximum context length",
    "model's context length",
    "context length exceeded",
    "exceeds the context length",
    "context window",
    "exceeds the available context size",
    "exceed context limit",
    "exceeds context limit",
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "input tokens exceed",
    "exceeded model token limit",
    "range of input length should be",
    "reduce the length of the",
    "too many tokens",
    "request too large for",
];

/// Messages of providers about a model that accepts no images, in lower case; the tests have the sources of most.
const BLIND: [&str; 17] = [
    "image_url is only supported by certain models",
    "image input is not supported",
    "does not support image",
    "do not support image",
    "doesn't support image",
    "doesn't support the image",
    "not support images",
    "support image input",
    "image input is not enabled",
    "not a multimodal model",
    "not a vlm",
    "unknown variant `image_url`",
    "unknown part type: image",
    "at most 0 image",
    "missing data required for image input",
    "does not support vision",
    "content must be a string",
];

/// Number of characters of an unstructured body that are searched.
const BODY_START: usize = 2000;

/// Returns the error for a response of `status`, which is not 2xx.
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
    may_be_about_images(status)
        && !says_too_long(status, body)
        && texts(body).any(|text| BLIND.iter().any(|words| text.contains(words)))
}

/// Returns true if a request with images is refused because of them. Servers word it in so many ways that a refusal without
/// a known reason counts too: if the reason is another, the same request without images is refused again.
pub(super) fn is_about_images(status: u16, body: &str) -> bool {
    let is_plain = matches!(status, 400 | 415 | 422) && !says_too_long(status, body);
    is_plain || is_blind(status, body)
}

/// Returns true for statuses of such refusals. Gateways use 404, llama.cpp and Ollama 500.
fn may_be_about_images(status: u16) -> bool {
    matches!(status, 400 | 404 | 415 | 422 | 500 | 501)
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
        _ if CODES.contains(&kind) => 400,
        _ => 500,
    }
}

fn by_response(status: u16, body: &str, retry_after: Option<Duration>) -> ModelError {
    match status {
        _ if says_too_long(status, body) => ModelError::ContextTooLong,
        408 | 409 | 424 | 425 | 429 | 500.. => ModelError::Busy { status, retry_after },
        _ => ModelError::Refused { status },
    }
}

fn says_too_long(status: u16, body: &str) -> bool {
    match status {
        413 => true,
        // Other reasons than the request.
        401..=404 | 408 => false,
        // A request above the limit per minute never succeeds; one after too many others does.
        429 => texts(body).any(|text| text.contains("request too large for")),
        _ => texts(body)
            .any(|text| CODES.contains(&text.as_str()) || WORDS.iter().any(|words| text.contains(words))),
    }
}

/// Returns the error's own texts in a body, in lower case. A body may also quote the request, so nothing else of a JSON body
/// is searched.
fn texts(body: &str) -> impl Iterator<Item = String> {
    let texts: Vec<String> = match serde_json::from_str::<Value>(body) {
        Ok(body) => {
            let error = if body["error"].is_null() { &body } else { &body["error"] };
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

    fn read(status: u16, body: &str) -> ModelError {
        by_response(status, body, None)
    }

    /// Bodies as they were reported, each with its source; numbers and ids are changed.
    const TOO_LONG: &[(&str, u16, &str)] = &[
        // github.com/crewAIInc/crewAI-examples/issues/121
        (
            "OpenAI",
            400,
            r#"{"error": {"message": "This model's maximum context length is 8192 tokens. However, your messages resulted in 8227 tokens. Please reduce the length of the messages.", "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}}"#,
        ),
        // github.com/cline/cline/issues/5474
        (
            "OpenAI, GPT-5",
            400,
            r#"{"error": {"message": "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 289650 tokens. Please reduce the length of the messages.", "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}}"#,
        ),
        // github.com/vanna-ai/vanna-flask/issues/11
        (
            "OpenAI, more than a minute's tokens",
            429,
            r#"{"error": {"message": "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 342389. The input or output tokens must be reduced in order to run successfully.", "type": "tokens", "param": null, "code": "rate_limit_exceeded"}}"#,
        ),
        // github.com/FoundationAgents/OpenManus/issues/79
        (
            "DeepSeek",
            400,
            r#"{"error": {"message": "This model's maximum context length is 65536 tokens. However, you requested 66343 tokens (62247 in the messages, 4096 in the completion). Please reduce the length of the messages or completion.", "type": "invalid_request_error", "param": null, "code": "invalid_request_error"}}"#,
        ),
        // github.com/meta-llama/llama-verifications/issues/58
        (
            "vLLM before 0.16",
            400,
            r#"{"object": "error", "message": "This model's maximum context length is 131072 tokens. However, you requested 156632 tokens (152536 in the messages, 4096 in the completion). Please reduce the length of the messages or completion.", "type": "BadRequestError", "param": null, "code": 400}"#,
        ),
        // github.com/harbor-framework/harbor/pull/996
        (
            "vLLM",
            400,
            r#"{"error": {"message": "You passed 1015 input tokens and requested 10 output tokens. However, the model's context length is only 1024 tokens, resulting in a maximum input length of 1014 tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value=1015)", "type": "BadRequestError", "param": "input_tokens", "code": 400}}"#,
        ),
        // github.com/anomalyco/opencode/issues/35991
        (
            "a gateway that answers with `detail`",
            400,
            r#"{"detail": "Invalid request. Please check the parameters and try again. Details: The input (514881 tokens) is longer than the model's context length (262144 tokens)."}"#,
        ),
        // github.com/ggml-org/llama.cpp/pull/15780
        (
            "llama.cpp, as a 500",
            500,
            r#"{"error": {"code": 500, "message": "the request exceeds the available context size. try increasing the context size or enable context shift", "type": "exceed_context_size_error", "n_prompt_tokens": 1407, "n_ctx": 256}}"#,
        ),
        // github.com/continuedev/continue/issues/9797
        (
            "llama.cpp",
            400,
            r#"{"error": {"code": 400, "message": "the request exceeds the available context size, try increasing it", "type": "exceed_context_size_error", "n_prompt_tokens": 17000, "n_ctx": 16384}}"#,
        ),
        // github.com/rllm-team/rllm/issues/55
        (
            "llama-cpp-python",
            500,
            r#"{"error": {"message": "Requested tokens (516) exceed context window of 512", "type": "internal_server_error", "param": null, "code": null}}"#,
        ),
        // github.com/agentscope-ai/QwenPaw/issues/6255
        (
            "Qwen (DashScope)",
            400,
            r#"{"error": {"code": "invalid_parameter_error", "message": "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 983616]", "param": null, "type": "invalid_request_error"}, "request_id": "81a3"}"#,
        ),
        // github.com/MoonshotAI/kimi-cli/issues/2011
        (
            "Kimi (Moonshot)",
            400,
            r#"{"error": {"message": "Invalid request: Your request exceeded model token limit: 262144 (requested: 269030)", "type": "invalid_request_error"}}"#,
        ),
        // github.com/ai-christianson/RA.Aid/issues/41
        (
            "OpenRouter, with another's error in it",
            502,
            r#"{"error": {"message": "ConnectionError: {\"object\": \"error\", \"message\": \"This model's maximum context length is 16000 tokens. However, you requested 17165 tokens\"}", "code": 502, "metadata": {"provider_name": "DeepInfra"}}}"#,
        ),
        // github.com/HunorLaczko/ha-groq-cloud-api/issues/27
        (
            "Groq",
            413,
            r#"{"error": {"message": "Request too large for model `llama-3.1-8b-instant` on tokens per minute (TPM): Limit 6000, Requested 12328, please reduce your message size and try again.", "type": "tokens", "code": "rate_limit_exceeded"}}"#,
        ),
        ("a proxy", 413, "<html><head><title>413 Request Entity Too Large</title></head></html>"),
        // github.com/earendil-works/pi/issues/102
        (
            "Anthropic",
            400,
            r#"{"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 219898 tokens > 200000 maximum"}, "request_id": "req_011"}"#,
        ),
        // github.com/docker/docker-agent/issues/569
        (
            "Anthropic, with the answer's length",
            400,
            r#"{"type": "error", "error": {"type": "invalid_request_error", "message": "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length or `max_tokens` and try again"}}"#,
        ),
        // github.com/aws-samples/assessment-generator/issues/2
        ("Bedrock", 400, r#"{"message": "Input is too long for requested model."}"#),
        // github.com/aaif-goose/goose/pull/7504
        (
            "Bedrock, Claude across regions",
            400,
            r#"{"message": "The model returned the following errors: prompt is too long: 227255 tokens > 200000 maximum"}"#,
        ),
        ("a server that answers in plain text", 400, "Bad request: prompt is too long"),
    ];

    /// Bodies of other errors that mention tokens, length or limits.
    const OTHERWISE: &[(&str, u16, &str)] = &[
        // github.com/cline/cline/issues/4826
        (
            "xAI, a minute's tokens used up",
            429,
            r#"{"error": "Too many tokens for team e9fe and model grok-4-0709. Your team's rate limit is — Tokens per Minute (actual/limit): 65605/16000."}"#,
        ),
        // github.com/elizaOS/eliza/issues/4040
        (
            "Groq, a minute's tokens used up",
            429,
            r#"{"error": {"message": "Rate limit reached for model `llama-3.1-8b-instant` on tokens per minute (TPM): Limit 6000, Used 5034, Requested 1443. Please try again in 4.77s.", "type": "tokens", "code": "rate_limit_exceeded"}}"#,
        ),
        // github.com/CherryHQ/cherry-studio/issues/4377
        (
            "DeepSeek, an answer's length out of range",
            400,
            r#"{"error": {"message": "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", "type": "invalid_request_error", "param": null, "code": "invalid_request_error"}}"#,
        ),
        // github.com/ChatGPTNextWeb/NextChat/issues/4964
        (
            "Anthropic, an answer's length out of range",
            400,
            r#"{"type": "error", "error": {"type": "invalid_request_error", "message": "max_tokens: 10000 > 4096, which is the maximum allowed number of output tokens for claude-3-5-sonnet-20240620"}}"#,
        ),
        (
            "a body that quotes the request",
            400,
            r#"{"error": {"message": "Invalid 'messages[3]'.", "type": "invalid_request_error", "code": null}, "input": {"messages": [{"role": "user", "content": "it says: prompt is too long"}]}}"#,
        ),
        ("no key", 401, r#"{"error": {"message": "prompt is too long", "code": "invalid_api_key"}}"#),
        ("no body", 400, ""),
        ("no object", 400, "[]"),
        (
            "overloaded",
            529,
            r#"{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}"#,
        ),
    ];

    #[test]
    fn a_request_that_is_too_long_is_recognised() {
        for (who, status, body) in TOO_LONG {
            assert_eq!(read(*status, body), ModelError::ContextTooLong, "{who}");
        }
    }

    #[test]
    fn other_errors_are_not_too_long() {
        for (who, status, body) in OTHERWISE {
            let wanted = match status {
                429 | 500.. => ModelError::Busy { status: *status, retry_after: None },
                _ => ModelError::Refused { status: *status },
            };
            assert_eq!(read(*status, body), wanted, "{who}");
        }
    }

    /// Refusals of requests with images; true if the model accepts none at all.
    const ABOUT_IMAGES: &[(&str, bool, u16, &str)] = &[
        // github.com/roboflow/awesome-openai-vision-api-experiments/issues/11
        (
            "OpenAI",
            true,
            400,
            r#"{"error": {"message": "Invalid content type. image_url is only supported by certain models.", "type": "invalid_request_error", "param": "messages.[0].content.[1].type", "code": null}}"#,
        ),
        // github.com/rikkahub/rikkahub/issues/1433
        (
            "DeepSeek",
            true,
            400,
            r#"{"error": {"message": "Failed to deserialize the JSON body into the target type: messages[1]: unknown variant `image_url`, expected `text` at line 1 column 679289", "type": "invalid_request_error"}}"#,
        ),
        // github.com/JohnnyZ93/oai-compatible-copilot/issues/229
        (
            "OpenRouter",
            true,
            404,
            r#"{"error": {"code": 404, "message": "No endpoints found that support image input"}}"#,
        ),
        // github.com/NanmiCoder/cc-haha/issues/787
        (
            "SiliconFlow",
            true,
            400,
            r#"{"code": 20041, "message": "The model is not a VLM (Vision Language Model). Please use text-only prompts."}"#,
        ),
        // github.com/anomalyco/opencode/issues/47994
        ("Volcengine", true, 400, r#"{"error": {"message": "Model do not support image input."}}"#),
        // github.com/can1357/oh-my-pi/pull/11685
        (
            "Bedrock",
            true,
            400,
            r#"{"message": "This model doesn't support the image field for user messages."}"#,
        ),
        (
            "llama.cpp",
            true,
            500,
            r#"{"error": {"code": 500, "message": "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj", "type": "server_error"}}"#,
        ),
        // github.com/anthropics/claude-code/issues/4778
        (
            "Anthropic, an image of more than 8,000 pixels",
            false,
            400,
            r#"{"type": "error", "error": {"type": "invalid_request_error", "message": "messages.7.content.2.image.source.base64.data: At least one of the image dimensions exceed max allowed size: 8000 pixels"}}"#,
        ),
        // github.com/boto/boto3/issues/4415
        (
            "Bedrock, an image of another format",
            false,
            400,
            r#"{"message": "The model returned the following errors: The provided image does not match the specified image format."}"#,
        ),
        ("a server that gives no reason", false, 422, ""),
    ];

    #[test]
    fn a_model_without_images_differs_from_one_that_refuses_these() {
        for (who, is_blind_model, status, body) in ABOUT_IMAGES {
            assert!(is_about_images(*status, body), "{who}");
            assert_eq!(is_blind(*status, body), *is_blind_model, "{who}");
        }
        for (who, status, body) in TOO_LONG {
            assert!(!is_about_images(*status, body) && !is_blind(*status, body), "{who}");
        }
        for (status, body) in [(401, ""), (404, ""), (429, "image"), (500, ""), (503, "")] {
            assert!(!is_about_images(status, body), "{status}");
        }
    }

    #[test]
    fn no_body_leaves_the_module() {
        for (who, status, body) in TOO_LONG.iter().chain(OTHERWISE) {
            let error = read(*status, body);
            let shown = format!("{error} {error:?}");
            for word in body.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 12) {
                assert!(!shown.contains(word), "{who}: {word}");
            }
        }
    }
}
