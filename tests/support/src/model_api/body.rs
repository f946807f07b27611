//! Readers of a request's body in OpenAI's form, and the counts of its tokens.

use base64::Engine;
use serde_json::Value;

/// Returns the first line of the last user message in a request's body; empty if there is none.
pub fn last_user_line(body: &Value) -> String {
    let last = messages_of(body).iter().rev().find(|message| message["role"] == "user");
    last.map(|message| as_said(&content_text(&message["content"])))
        .unwrap_or_default()
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// Returns all texts that a request's body sends as `role`, in order, one entry per message, without its [`summary_of`]
/// and [`notes_of`].
pub fn texts_of(body: &Value, role: &str) -> Vec<String> {
    let own = messages_of(body).iter().filter(|m| m["role"] == role).map(|m| content_text(&m["content"]));
    if role != "user" {
        return own.collect();
    }
    own.map(|text| as_said(&text)).filter(|text| !text.is_empty()).collect()
}

/// Returns the users' messages in a request's body, line by line: consecutive ones are sent as one message.
pub fn lines_said(body: &Value) -> Vec<String> {
    texts_of(body, "user").iter().flat_map(|text| text.lines()).map(str::to_owned).collect()
}

/// Returns the summary in a request's body; empty if there is none.
pub fn summary_of(body: &Value) -> String {
    between(body, "<summary>\n", "\n</summary>")
}

/// Returns the memory section of a request's body; empty if there is none.
pub fn notes_of(body: &Value) -> String {
    between(body, "<notes>\n", "\n</notes>")
}

fn between(body: &Value, start: &str, end: &str) -> String {
    let users = messages_of(body).iter().filter(|message| message["role"] == "user");
    let text = users.map(|message| content_text(&message["content"])).collect::<Vec<_>>().join("\n");
    let inner = text.split_once(start).and_then(|(_, rest)| rest.split_once(end));
    inner.map(|(inner, _)| inner.to_owned()).unwrap_or_default()
}

/// Returns the images in a request's body, in order.
pub fn images_of(body: &Value) -> Vec<Vec<u8>> {
    let parts = messages_of(body).iter().filter_map(|message| message["content"].as_array()).flatten();
    let urls = parts.filter_map(|part| part["image_url"]["url"].as_str());
    // Base64 without a prefix if it came that way.
    let data = urls.map(|url| url.split_once(";base64,").map_or(url, |(_, data)| data));
    data.filter_map(|data| base64::engine::general_purpose::STANDARD.decode(data).ok()).collect()
}

/// Returns true if a request is for a summary or a capture of memory, not for an answer.
pub fn is_for_notes(body: &Value) -> bool {
    texts_of(body, "system").first().is_some_and(|system| system.starts_with("You keep the memory of "))
}

/// Returns true if a request is for a summary.
pub fn is_for_summary(body: &Value) -> bool {
    texts_of(body, "system").first().is_some_and(|system| system.starts_with("You keep the memory of a chat"))
}

/// Returns the answer to a request for notes.
pub(super) fn note(body: &Value) -> Option<String> {
    let note = || if is_for_summary(body) { "Goal: to go on.".into() } else { "NONE".into() };
    is_for_notes(body).then(note)
}

pub(super) fn messages_of(body: &Value) -> &[Value] {
    body["messages"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns the users' messages since the assistant's last, calls aside, one line each, without the sections beside them.
pub(super) fn said_last(body: &Value) -> String {
    let messages = messages_of(body);
    let spoke = |message: &Value| message["role"] == "assistant" && message["tool_calls"].is_null();
    let start = messages.iter().rposition(spoke).map_or(0, |at| at + 1);
    let said = messages[start..].iter().filter(|message| message["role"] == "user");
    said.map(|message| as_said(&content_text(&message["content"]))).collect::<Vec<_>>().join("\n")
}

/// A user's text without the guide, the summary, the notes and the times beside it; each message of a group as
/// `<name>: <text>`.
fn as_said(text: &str) -> String {
    let guided = text.strip_prefix("Several people speak in this chat.");
    let guided = guided.and_then(|guided| guided.split_once("Answer without such elements."));
    let mut text = guided.map_or(text, |(_, after)| after).to_owned();
    if let Some(after) = text.strip_prefix('\n') {
        text = after.to_owned();
    }
    for (starts, ends) in [
        ("Summary of the conversation so far:\n<summary>\n", "\n</summary>\n"),
        ("<notes>\n", "\n</notes>\n"),
    ] {
        if let Some((before, (_, after))) =
            text.split_once(starts).and_then(|(before, rest)| Some((before, rest.split_once(ends)?)))
        {
            text = format!("{before}{}", after.strip_prefix('\n').unwrap_or(after));
        }
    }
    without_senders(&without_times(&text))
}

/// Returns `text` without times, each of which is a line.
pub fn without_times(text: &str) -> String {
    let is_mark = |line: &&str| line.starts_with("<time>") && line.ends_with("</time>");
    text.split('\n').filter(|line| !is_mark(line)).collect::<Vec<_>>().join("\n")
}

/// Returns the times in a request's body, in order: of messages, and last the current one.
pub fn times_of(body: &Value) -> Vec<String> {
    let users = messages_of(body).iter().filter(|message| message["role"] == "user");
    let text = users.map(|message| content_text(&message["content"])).collect::<Vec<_>>().join("\n");
    let time = |line: &str| Some(line.strip_prefix("<time>")?.strip_suffix("</time>")?.to_owned());
    text.lines().filter_map(time).collect()
}

fn without_senders(text: &str) -> String {
    let (mut said, mut rest) = (String::new(), text);
    while let Some((before, (tag, after))) = ["<message ", "<event "]
        .iter()
        .filter_map(|opening| rest.split_once(opening))
        .min_by_key(|(before, _)| before.len())
        .and_then(|(before, after)| Some((before, after.split_once('>')?)))
    {
        let attribute = |name: &str| Some(tag.split_once(&format!("{name}=\""))?.1.split_once('"')?.0);
        let name = attribute("from").or_else(|| attribute("id")).unwrap_or_default();
        said.extend([before, name, ": "]);
        rest = after;
    }
    said.push_str(rest);
    said.replace("<message>", "").replace("</message>", "").replace("</event>", "")
}

fn content_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// Tokens of an image.
const IMAGE_TOKENS: u64 = 1_600;

/// A request's tokens: those of its texts, calls, images and tools, and four for each message.
pub(super) fn prompt_tokens(body: &Value) -> u64 {
    let json = |value: &Value| if value.is_null() { 0 } else { tokens(&value.to_string()) };
    let message =
        |message: &Value| 4 + tokens(&content_text(&message["content"])) + json(&message["tool_calls"]);
    let images = images_of(body).len() as u64 * IMAGE_TOKENS;
    messages_of(body).iter().map(message).sum::<u64>() + images + json(&body["tools"])
}

/// A quarter for each ASCII character, one for each other.
pub(super) fn tokens(text: &str) -> u64 {
    let ascii = text.chars().filter(char::is_ascii).count() as u64;
    let other = text.chars().count() as u64 - ascii;
    ascii.div_ceil(4) + other
}

/// The longest beginning of `text` that takes no more than `limit` tokens.
pub(super) fn cut(text: &str, limit: u64) -> String {
    let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
    let end = ends.take_while(|end| tokens(&text[..*end]) <= limit).last().unwrap_or(0);
    text[..end].to_owned()
}
