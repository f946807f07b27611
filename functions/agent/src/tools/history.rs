//! `chat_history_search`: search in the messages of this chat that are no longer in view.

use std::collections::HashSet;
use std::iter;

use annals_core::chat_key::ChatKey;
use annals_core::message::{Role, UiMessage};
use annals_core::record::Record;
use annals_core::sort_key::SortKey;
use annals_core::terms::query_terms;
use annals_core::{markup, media, sender, tokens};
use annals_model::{Tool, readable};
use annals_store::history::{Found, History, Hit, Search};
use serde_json::{Value, json};

use super::result::Output;

/// The tool's name.
pub(crate) const SEARCH: &str = "chat_history_search";

/// Maximum length of a query, in characters.
pub(crate) const MAX_QUERY_CHARS: usize = 500;

/// Maximum number of hits in a result.
const MAX_HITS: usize = 8;

/// Maximum tokens of the texts in a result.
const MAX_TOKENS: u32 = 4_000;

/// Minimum tokens of a message of which an excerpt is shown: half of the result.
const LONG_TOKENS: u32 = MAX_TOKENS / 2;

const EXCERPT_CHARS: usize = 400;

/// Returns the tool, for chats with archived messages.
pub(crate) fn tool() -> Tool {
    Tool::new(
        SEARCH,
        "Searches the earlier messages of this chat that are no longer in view, by words. Use it when somebody refers to \
         something said before that neither the messages nor the summary hold: an exact wording, a number, a name, a date. \
         Search for the words that the message itself will have held.",
        json!({"query": {"type": "string", "description": "the words to look for"}}),
        &["query"],
    )
}

/// Carries out a call with `input` in one `line` of `chat`, in its messages `since` one of them; the model sees the messages
/// `in_view` already.
pub(crate) async fn search(
    history: &History,
    chat: &ChatKey,
    line: Option<&str>,
    since: Option<&SortKey>,
    in_view: &[String],
    input: &Value,
) -> Output {
    let query = query_of(input)?;
    let search = Search { line: Some(line), since, without: in_view, ..Search::new(&query, MAX_HITS) };
    match history.search(chat, &search).await {
        Ok(Found { hits, is_partial }) => {
            let messages = shown(&hits, in_view, &query);
            Ok(json!({"messages": messages, "olderMessagesWereNotSearched": is_partial}))
        }
        Err(error) => {
            tracing::warn!(%error, "failed to search the history of a chat; the model is told");
            Err("the history cannot be searched at the moment".into())
        }
    }
}

/// Returns the messages of `hits` as the model is shown them, each once and those `in_view` not: the best hit with the
/// messages beside it, in chat order, then the next one. Each is whole, except very long ones, as long as all take at most
/// [`MAX_TOKENS`].
fn shown(hits: &[Hit], in_view: &[String], query: &str) -> Vec<Value> {
    let mut left = MAX_TOKENS;
    let mut known: HashSet<&str> = in_view.iter().map(String::as_str).collect();
    let mut messages = Vec::new();
    for Hit { record, context, .. } in hits {
        let mut passage: Vec<(&Record, Value)> = Vec::new();
        // The hit comes first, so that its neighbours do not take its place.
        for record in iter::once(record).chain(context) {
            let text = text_of(&record.message, query);
            let takes = tokens::of_text(&text);
            if takes <= left && known.insert(record.message_id.as_str()) {
                left -= takes;
                let is_hit = hits.iter().any(|hit| hit.record.key == record.key);
                passage.push((record, message(record, &text, is_hit)));
            }
        }
        passage.sort_by(|(a, _), (b, _)| a.key.cmp(&b.key));
        messages.extend(passage.into_iter().map(|(_, message)| message));
    }
    messages
}

/// Returns the text of `message` with the lines before it by which the model knows whose words they are. An excerpt of a very
/// long text keeps these lines. The results in a reply are left out: they are not what was said.
fn text_of(message: &UiMessage, query: &str) -> String {
    let said = || message.parts.iter().filter(|part| !media::is_note(part)).cloned().collect();
    let whole = match message.role {
        Role::User => readable::words(message),
        role => UiMessage::new("", role, said()).plain_text(),
    };
    let text = if tokens::of_text(&whole) < LONG_TOKENS { whole } else { excerpt(&whole, query) };
    markup::lead_lines(message).chain([text]).collect::<Vec<_>>().join("\n")
}

/// Returns the words to look for.
pub(crate) fn query_of(input: &Value) -> Result<String, String> {
    let query = input.get("query").and_then(Value::as_str).map(str::trim).unwrap_or_default();
    if query.is_empty() {
        return Err("\"query\" must hold the words to look for".into());
    }
    Ok(query.chars().take(MAX_QUERY_CHARS).collect())
}

/// Returns a message as the model is shown it.
fn message(record: &Record, text: &str, is_hit: bool) -> Value {
    let name = record.message.metadata.sender_name().unwrap_or(&record.user_id);
    let mut message = json!({
        "at": record.ts.rfc3339(), "id": record.message_id, "who": name,
        "personId": sender::of(record).map(|sender| sender.id), "text": text,
    });
    if is_hit {
        message["hit"] = true.into();
    }
    message
}

/// Returns at most [`EXCERPT_CHARS`] of `text`, around the first of its terms that `query` has; the longer terms count
/// first.
fn excerpt(text: &str, query: &str) -> String {
    if text.chars().count() <= EXCERPT_CHARS {
        return text.to_owned();
    }
    let lower = text.to_lowercase();
    let mut asked = query_terms(query);
    asked.sort_by_key(|term| std::cmp::Reverse(term.len()));
    // Lower case may have another length; an excerpt that is off by a few characters does no harm.
    let at = asked.iter().find_map(|term| lower.find(term.as_str())).unwrap_or(0);
    let before = lower[..at].chars().count().saturating_sub(EXCERPT_CHARS / 4);
    let shown: String = text.chars().skip(before).take(EXCERPT_CHARS).collect();
    let start = if before > 0 { "…" } else { "" };
    let end = if before + EXCERPT_CHARS < text.chars().count() { "…" } else { "" };
    format!("{start}{shown}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_around_the_first_word_of_the_question() {
        assert_eq!(excerpt("short", "x"), "short");
        let long = format!("{} 我们在北京烤鸭店见面 {}", "前".repeat(900), "后".repeat(900));
        let shown = excerpt(&long, "烤鸭");
        assert!(shown.contains("北京烤鸭店") && shown.starts_with('…') && shown.ends_with('…'));
        assert_eq!(shown.chars().count(), EXCERPT_CHARS + 2);
        assert!(excerpt(&format!("Tea {}", "x ".repeat(900)), "TEA").starts_with("Tea"));
        assert!(excerpt(&"x ".repeat(900), "y").ends_with('…'));
    }
}
