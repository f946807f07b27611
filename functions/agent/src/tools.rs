//! The tools that a turn has: `chat_history_search`, where the chat has archived messages.

use annals_shared::chat_key::ChatKey;
use annals_shared::history::History;
use annals_shared::history::Search;
use annals_shared::history::turn::Head;
use annals_shared::message::Part;
use annals_shared::model::{Model, Tool, ToolCall};
use annals_shared::sort_key::Timestamp;
use annals_shared::tokens;
use serde_json::{Value, json};

/// The tool's name.
pub(crate) const SEARCH: &str = "chat_history_search";

/// How many rounds of calls one turn takes; then the model must say what it has.
pub(crate) const MAX_ROUNDS: usize = 3;
/// How many calls of one round are carried out.
const MAX_CALLS: usize = 4;
/// What share of the window all tools may take: the rest is for what is said.
const WINDOW_SHARE: u32 = 4;
/// The longest question, in characters.
const MAX_QUERY_CHARS: usize = 500;

/// What `model`, with a window of so many tokens, is offered in a chat of this head: in the same order in each turn, since
/// its provider keeps what it has read of a request, and tools come first in it.
pub(crate) fn of(head: &Head, model: &Model, window: u32) -> Vec<Tool> {
    // A chat that has no segment has nothing to search.
    let has_segments = head.longest_segment.is_some();
    let mut left = window / WINDOW_SHARE;
    let all = if has_segments && !model.is_echo() { vec![search()] } else { Vec::new() };
    let fitting = all.into_iter().take_while(|tool| {
        let fits = tool.tokens() <= left;
        left = left.saturating_sub(tool.tokens());
        fits
    });
    fitting.collect()
}

/// The token estimate of what stands beside the prompt and the messages: what memory says, and the tools.
pub(crate) fn beside(memory: Option<&str>, tools: &[Tool]) -> u32 {
    let memory = memory.map_or(0, tokens::of_text);
    tools.iter().map(Tool::tokens).fold(memory, u32::saturating_add)
}

fn search() -> Tool {
    Tool {
        name: SEARCH.into(),
        description: "Searches the earlier messages of this chat that are no longer in view, by words. Use it when somebody \
                      refers to something said before that neither the messages nor the summary hold: an exact wording, a \
                      number, a name, a date. Search for the words that the message itself will have held."
            .into(),
        input_schema: json!({
            "type": "object",
            "properties": {"query": {"type": "string", "description": "the words to look for"}},
            "required": ["query"],
            "additionalProperties": false,
        }),
    }
}

/// Where a call is carried out.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) history: &'a History,
    pub(crate) chat: &'a ChatKey,
    /// The line of the chat that the turn is on.
    pub(crate) line: Option<&'a str>,
}

/// What came of a call: its result for the model, or why there is none.
pub(crate) type Output = Result<Value, String>;

impl Place<'_> {
    /// Carries out the `number`th call of its round, from 0.
    pub(crate) async fn call(self, number: usize, call: &ToolCall) -> Output {
        if number >= MAX_CALLS {
            return Err(format!("only {MAX_CALLS} calls are carried out at once"));
        }
        if call.name != SEARCH {
            return Err(format!("there is no tool {:?}", call.name));
        }
        let query = call.input.get("query").and_then(Value::as_str).map(str::trim).unwrap_or_default();
        if query.is_empty() {
            return Err("\"query\" must hold the words to look for".into());
        }
        let query: String = query.chars().take(MAX_QUERY_CHARS).collect();
        match self.history.search_segments(self.chat, &Search::new(&query, self.line)).await {
            Ok(found) => {
                let hits: Vec<Value> = found
                    .hits
                    .iter()
                    .map(|hit| {
                        json!({"at": at(hit.ts), "id": hit.message_id, "who": hit.who, "text": hit.excerpt})
                    })
                    .collect();
                Ok(json!({"messages": hits, "olderMessagesWereNotSearched": found.is_cut_off}))
            }
            Err(error) => {
                tracing::warn!(%error, "an archive cannot be searched");
                Err("the archive cannot be searched at the moment".into())
            }
        }
    }
}

/// A call with its result as a part of the reply, in the AI SDK's states.
pub(crate) fn part(call: &ToolCall, output: &Output) -> Option<Part> {
    let mut part = json!({
        "type": format!("tool-{}", call.name), "toolCallId": call.id, "state": "output-available", "input": call.input,
    });
    match output {
        Ok(output) => part["output"] = output.clone(),
        Err(error) => {
            part["state"] = "output-error".into();
            part["errorText"] = error.as_str().into();
        }
    }
    Part::new(part).ok()
}

fn at(ts: Timestamp) -> String {
    ts.rfc3339()
}
