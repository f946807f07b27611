//! Answers, before a provider writes them.

use serde_json::{Value, json};

use super::body::{cut, prompt_tokens, tokens};
use super::cache::Cached;
use super::openai::Numbering;

/// The content of an answer.
#[derive(Clone, Debug)]
pub(super) enum Said {
    /// A text; the reason it ended, where that is not `stop`.
    Text(String, Option<&'static str>),
    /// Calls of tools, each with its input.
    Calls(Vec<(String, Value)>),
}

/// An answer.
pub(super) struct Completion {
    pub(super) id: String,
    pub(super) model: Value,
    pub(super) said: Said,
    /// The reasoning before the answer, and its signature.
    pub(super) thought: Option<(String, String)>,
    /// All that was read, from a cache or not.
    pub(super) prompt_tokens: u64,
    pub(super) cached: Cached,
    pub(super) include_usage: bool,
    pub(super) numbering: Numbering,
}

impl Completion {
    /// An answer to `body` that says `said`, cut off where the request's limit is; `factor` is what its tokens count
    /// more or less than [`prompt_tokens`].
    pub(super) fn new(id: String, body: &Value, said: Said, factor: f64, cached: Cached) -> Self {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            clippy::cast_sign_loss,
            reason = "token counts of tests are small"
        )]
        let scaled = |tokens: u64| (tokens as f64 * factor).ceil() as u64;
        let limit = ["max_tokens", "max_completion_tokens"].iter().find_map(|name| body[*name].as_u64());
        let said = match (said, limit) {
            (Said::Text(text, _), Some(limit)) if tokens(&text) > limit => {
                Said::Text(cut(&text, limit), Some("length"))
            }
            (said, _) => said,
        };
        let prompt_tokens = scaled(prompt_tokens(body));
        let read = scaled(cached.read).min(prompt_tokens);
        let written = scaled(cached.written).min(prompt_tokens - read);
        Self {
            id,
            model: body["model"].clone(),
            said,
            thought: None,
            prompt_tokens,
            cached: Cached { read, written },
            include_usage: body["stream_options"]["include_usage"] == true,
            numbering: Numbering::default(),
        }
    }

    /// The calls, each with its id.
    pub(super) fn calls<'a>(&'a self) -> Vec<(String, &'a str, &'a Value)> {
        let Said::Calls(calls) = &self.said else { return Vec::new() };
        let call = |(at, (name, input)): (usize, &'a (String, Value))| {
            (format!("call_{}_{at}", self.id), name.as_str(), input)
        };
        calls.iter().enumerate().map(call).collect()
    }

    /// The calls as OpenAI writes them.
    pub(super) fn openai_calls(&self) -> Vec<Value> {
        let call = |(id, name, input): (String, &str, &Value)| json!({"id": id, "type": "function", "function": {"name": name, "arguments": input.to_string()}});
        self.calls().into_iter().map(call).collect()
    }

    /// As OpenAI says it.
    pub(super) fn finish_reason(&self) -> &'static str {
        match &self.said {
            Said::Text(_, reason) => reason.unwrap_or("stop"),
            Said::Calls(_) => "tool_calls",
        }
    }

    pub(super) fn output_tokens(&self) -> u64 {
        match &self.said {
            Said::Text(text, _) => tokens(text),
            Said::Calls(_) => tokens(&Value::from(self.openai_calls()).to_string()),
        }
    }
}

pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(' ')
}
