//! `chat_history_search`: what was said in this chat and is no longer in view.

use annals_shared::history::Search;
use annals_shared::model::Tool;
use serde_json::{Value, json};

use super::Place;
use super::result::Output;

/// The tool's name.
pub(crate) const SEARCH: &str = "chat_history_search";

/// The longest question, in characters.
pub(crate) const MAX_QUERY_CHARS: usize = 500;

/// What a chat with archived messages offers.
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

/// Carries out a call with `input`.
pub(crate) async fn search(place: &Place<'_>, input: &Value) -> Output {
    let query = query_of(input)?;
    match place.history.search_segments(place.chat, &Search::new(&query, place.line)).await {
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
            tracing::warn!(%error, "an archive cannot be searched");
            Err("the archive cannot be searched at the moment".into())
        }
    }
}

/// The words to look for.
pub(crate) fn query_of(input: &Value) -> Result<String, String> {
    let query = input.get("query").and_then(Value::as_str).map(str::trim).unwrap_or_default();
    if query.is_empty() {
        return Err("\"query\" must hold the words to look for".into());
    }
    Ok(query.chars().take(MAX_QUERY_CHARS).collect())
}
