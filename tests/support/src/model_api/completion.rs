//! Answers, and how OpenAI writes them; `anthropic.rs` and `bedrock.rs` have the others' forms.

use serde_json::{Value, json};

use super::body::{cut, prompt_tokens, tokens};
use super::cache::Cached;

/// The content of an answer.
#[derive(Clone, Debug)]
pub(super) enum Said {
    /// A text; the reason it ended, where that is not `stop`.
    Text(String, Option<&'static str>),
    /// Calls of tools, each with its input.
    Calls(Vec<(String, Value)>),
}

/// The numbering of calls in a streamed answer, as OpenAI and compatible providers do it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbering {
    /// Each has a number of its own.
    #[default]
    Each,
    /// All have the number 0, and come in pieces: the first with the id.
    OneForAll,
    /// All have the number 0, and come whole.
    OneForAllWhole,
    /// All have the number 0, and each piece another id.
    OneForAllAndIdsForPieces,
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

    pub(super) fn whole(&self) -> Value {
        let mut message = match &self.said {
            Said::Text(text, _) => json!({"role": "assistant", "content": text, "refusal": null}),
            Said::Calls(_) => {
                json!({"role": "assistant", "content": null, "tool_calls": self.openai_calls(), "refusal": null})
            }
        };
        if let Some((thought, _)) = &self.thought {
            message["reasoning_content"] = thought.as_str().into();
        }
        json!({
            "id": self.id,
            "object": "chat.completion",
            "created": 1_763_765_920,
            "model": self.model,
            "choices": [{
                "index": 0,
                "message": message,
                "logprobs": null,
                "finish_reason": self.finish_reason(),
            }],
            "usage": self.usage(),
        })
    }

    /// The calls, each with its id.
    pub(super) fn calls<'a>(&'a self) -> Vec<(String, &'a str, &'a Value)> {
        let Said::Calls(calls) = &self.said else { return Vec::new() };
        let call = |(at, (name, input)): (usize, &'a (String, Value))| {
            (format!("call_{}_{at}", self.id), name.as_str(), input)
        };
        calls.iter().enumerate().map(call).collect()
    }

    fn openai_calls(&self) -> Vec<Value> {
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

    fn usage(&self) -> Value {
        json!({
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.output_tokens(),
            "total_tokens": self.prompt_tokens + self.output_tokens(),
            "prompt_tokens_details": {"cached_tokens": self.cached.read, "audio_tokens": 0},
        })
    }

    /// The chunks of a streamed answer: the role, the text word by word or the calls, the reason, and the usage where
    /// asked for.
    pub(super) fn pieces(&self) -> Vec<Vec<u8>> {
        let choice =
            |delta: Value, finish: Value| json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
        let mut choices = vec![choice(json!({"role": "assistant", "content": ""}), Value::Null)];
        if let Some((thought, _)) = &self.thought {
            choices.extend(words(thought).map(|w| choice(json!({"reasoning_content": w}), Value::Null)));
        }
        if let Said::Text(text, _) = &self.said {
            choices.extend(words(text).map(|word| choice(json!({"content": word}), Value::Null)));
        }
        for (at, mut call) in self.openai_calls().into_iter().enumerate() {
            let number = if self.numbering == Numbering::Each { at } else { 0 };
            call["index"] = number.into();
            if self.numbering == Numbering::OneForAllWhole {
                choices.push(choice(json!({"tool_calls": [call]}), Value::Null));
                continue;
            }
            // The arguments come in halves, the second without a name.
            let arguments = call["function"]["arguments"].as_str().unwrap_or_default().to_owned();
            let half =
                (0..=arguments.len() / 2).rev().find(|at| arguments.is_char_boundary(*at)).unwrap_or(0);
            call["function"]["arguments"] = arguments[..half].into();
            choices.push(choice(json!({"tool_calls": [call]}), Value::Null));
            let mut rest = json!({"index": number, "function": {"arguments": arguments[half..]}});
            if self.numbering == Numbering::OneForAllAndIdsForPieces {
                rest["id"] = format!("call_{}_{at}_rest", self.id).into();
            }
            choices.push(choice(json!({"tool_calls": [rest]}), Value::Null));
        }
        choices.push(choice(json!({}), json!(self.finish_reason())));
        let mut chunks: Vec<Value> =
            choices.into_iter().map(|choices| self.chunk(&choices, Value::Null)).collect();
        if self.include_usage {
            chunks.push(self.chunk(&json!([]), self.usage()));
        }
        let data = chunks.iter().map(Value::to_string).chain(["[DONE]".to_owned()]);
        data.map(|data| format!("data: {data}\n\n").into_bytes()).collect()
    }

    fn chunk(&self, choices: &Value, usage: Value) -> Value {
        let mut chunk = json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": 1_763_765_920,
            "model": self.model,
            "choices": choices,
        });
        if self.include_usage {
            chunk["usage"] = usage;
        }
        chunk
    }
}

pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(' ')
}
