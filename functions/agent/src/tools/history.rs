//! `chat_history_search`: search in the messages of this chat that are no longer in view.

use annals_core::chat_key::ChatKey;
use annals_model::Tool;
use annals_store::history::{History, Search};
use serde_json::{Value, json};

use super::result::Output;

/// The tool's name.
pub(crate) const SEARCH: &str = "chat_history_search";

/// Maximum length of a query, in characters.
pub(crate) const MAX_QUERY_CHARS: usize = 500;

/// Returns the tool, for chats with archived messages.
pub(crate) fn tool() -> Tool {
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

/// Carries out a call with `input` in one `line` of `chat`.
pub(crate) async fn search(history: &History, chat: &ChatKey, line: Option<&str>, input: &Value) -> Output {
    let query = query_of(input)?;
    match history.search_segments(chat, &Search::new(&query, line)).await {
        Ok(found) => {
            let hits: Vec<Value> = found
                .hits
                .iter()
                .map(|hit| {
                    let person = hit.sender.as_ref().map(|sender| &sender.id);
                    json!({
                        "at": hit.ts.rfc3339(), "id": hit.message_id, "who": hit.who, "personId": person,
                        "text": hit.excerpt,
                    })
                })
                .collect();
            Ok(json!({"messages": hits, "olderMessagesWereNotSearched": found.is_cut_off}))
        }
        Err(error) => {
            tracing::warn!(%error, "failed to search the archive of a chat; the model is told");
            Err("the archive cannot be searched at the moment".into())
        }
    }
}

/// Returns the words to look for.
pub(crate) fn query_of(input: &Value) -> Result<String, String> {
    let query = input.get("query").and_then(Value::as_str).map(str::trim).unwrap_or_default();
    if query.is_empty() {
        return Err("\"query\" must hold the words to look for".into());
    }
    Ok(query.chars().take(MAX_QUERY_CHARS).collect())
}
