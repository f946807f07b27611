//! A message as clients know it: the `UIMessage` of the Vercel AI SDK, stored without loss.
//!
//! ```json
//! {"id": "42", "role": "user", "parts": [{"type": "text", "text": "hello"}], "metadata": {"senderName": "Ada"}}
//! ```
//!
//! Parts, metadata and unknown keys are kept as the JSON that was received, in their order; [`PartView`] is a typed
//! view of one part. So part types of a later SDK are not lost.
//!
//! Source of the shapes: `UIMessage` and `UIMessagePart` in `ai` 6 and 7 (`packages/ai/src/ui/ui-messages.ts`).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::metadata::Metadata;
use crate::names::string_enum;
use crate::visible::without_middle;

/// Maximum depth of objects and lists in a part or in a field of the metadata, including itself: far more than any real
/// data needs, and far less than the limit of JSON parsers (`serde_json` 127) for the document around it.
pub const MAX_DEPTH: usize = 64;

/// Author of a [`UiMessage`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A person, or the platform for an event.
    User,
    /// The agent.
    Assistant,
    /// Instructions. Never created from a history; kept if a client stored one.
    System,
}

string_enum!(Role { User => "user", Assistant => "assistant", System => "system" });

/// A message in the shape of the AI SDK.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UiMessage {
    /// Id, unique in its chat.
    pub id: String,
    pub role: Role,
    /// Content, in order.
    pub parts: Vec<Part>,
    /// Data of the platform; for readers also the fields of the record.
    #[serde(default, skip_serializing_if = "Metadata::is_empty", deserialize_with = "null_as_empty")]
    pub metadata: Metadata,
    /// Unknown keys.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl UiMessage {
    /// Creates a message of `parts` without metadata.
    pub fn new(id: impl Into<String>, role: Role, parts: Vec<Part>) -> Self {
        Self { id: id.into(), role, parts, metadata: Metadata::default(), extra: Map::new() }
    }

    /// Creates a message of one text part.
    pub fn text(id: impl Into<String>, role: Role, text: impl Into<String>) -> Self {
        Self::new(id, role, vec![Part::text(text)])
    }

    /// Returns the text parts, joined by newlines.
    pub fn plain_text(&self) -> String {
        let texts: Vec<&str> = self
            .parts
            .iter()
            .filter_map(|part| match part.view() {
                PartView::Text(text) => Some(text),
                _ => None,
            })
            .collect();
        texts.join("\n")
    }

    /// Shortens each text, and what it quotes of the replied-to message, to about `share` (0 to 1) of its length: a mark
    /// replaces the middle. The addresses behind linked words go.
    pub fn shorten(&mut self, share: f64) {
        for part in &mut self.parts {
            if let PartView::Text(text) = part.view() {
                *part = Part::text(shortened(text, share));
            }
        }
        self.metadata.shorten(|text| shortened(text, share));
    }

    /// Returns true if a part, or the metadata as a whole, is nested deeper than [`MAX_DEPTH`].
    pub fn is_too_deep(&self) -> bool {
        let mut fields = self.metadata.fields().values();
        self.parts.iter().any(Part::is_too_deep) || fields.any(|value| !is_within(value, MAX_DEPTH - 1))
    }

    /// Flattens fields of parts and of the metadata that are nested deeper than [`MAX_DEPTH`]: such a field becomes its
    /// JSON as a text. Messages of platforms, models and tools cannot be refused, and every reader must be able to
    /// parse them.
    pub fn flatten(&mut self) {
        for part in &mut self.parts {
            part.0.values_mut().for_each(|value| flatten(value, MAX_DEPTH - 1));
        }
        self.metadata.values_mut().for_each(|value| flatten(value, MAX_DEPTH));
    }

    /// Returns true if it has a tool call without a result: one that is running, or waits for an approval or an answer.
    pub fn has_open_call(&self) -> bool {
        self.parts.iter().any(|part| match part.view() {
            PartView::Tool { state, .. } => !state.starts_with("output-"),
            _ => false,
        })
    }
}

/// Length of the mark in place of what [`UiMessage::shorten`] leaves out, at most.
const MARK_CHARS: usize = 60;

/// Returns `text` without its middle: see [`UiMessage::shorten`].
fn shortened(text: &str, share: f64) -> String {
    let length = text.chars().count();
    if length <= MARK_CHARS {
        return text.to_owned();
    }
    // A little less, because of the mark.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share of a length is a length"
    )]
    let kept = ((length as f64 * share * 0.9) as usize).saturating_sub(MARK_CHARS);
    let mark = |left_out: usize| format!("\n[… {left_out} characters are left out here …]\n");
    without_middle(text, kept - kept / 3, kept / 3, mark)
}

/// One part of a message: a JSON object with a string `type`, kept as it was received.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Part(Map<String, Value>);

/// Reason why a JSON value is not a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartError {
    #[error("a message part must be an object with a non-empty string 'type'")]
    Shape,
    #[error("a message part may be at most {MAX_DEPTH} objects and lists deep")]
    TooDeep,
}

impl Part {
    /// Creates a part from `value`, which must be an object with a non-empty string `type`, at most [`MAX_DEPTH`] deep.
    pub fn new(value: Value) -> Result<Self, PartError> {
        let part = Self::of_any_depth(value)?;
        if part.is_too_deep() { Err(PartError::TooDeep) } else { Ok(part) }
    }

    fn of_any_depth(value: Value) -> Result<Self, PartError> {
        match value {
            Value::Object(map) if map.get("type").and_then(Value::as_str).is_some_and(|t| !t.is_empty()) => {
                Ok(Self(map))
            }
            _ => Err(PartError::Shape),
        }
    }

    /// Returns the first field that a part of its type must have as a string and does not have.
    ///
    /// Source: <https://ai-sdk.dev/docs/reference/ai-sdk-core/ui-message>.
    pub fn missing_field(&self) -> Option<&'static str> {
        let fields: &[&'static str] = match self.kind() {
            "text" | "reasoning" => &["text"],
            "file" => &["mediaType", "url"],
            _ => &[],
        };
        fields.iter().find(|field| self.get(field).is_none()).copied()
    }

    /// Returns true if it is nested deeper than [`MAX_DEPTH`]. A deserialised part may be, such as one that was stored
    /// before there was a limit.
    pub fn is_too_deep(&self) -> bool {
        self.0.values().any(|value| !is_within(value, MAX_DEPTH - 1))
    }

    /// Creates `{"type": "text", "text": …}`.
    pub fn text(text: impl Into<String>) -> Self {
        let mut map = Map::new();
        map.insert("type".into(), "text".into());
        map.insert("text".into(), Value::String(text.into()));
        Self(map)
    }

    /// Creates `{"type": "text", "text": …, "providerMetadata": {<provider>: …}}`.
    pub fn text_of(text: impl Into<String>, provider: (&str, &Value)) -> Self {
        let Self(mut map) = Self::text(text);
        map.insert("providerMetadata".into(), json!({ provider.0: provider.1 }));
        Self(map)
    }

    /// Creates `{"type": "file", "mediaType": …, "filename"?: …, "url": …, "providerMetadata"?: {<provider>: …}}`.
    pub fn file(media_type: &str, filename: Option<&str>, url: String, provider: (&str, &Value)) -> Self {
        let mut map = Map::new();
        map.insert("type".into(), "file".into());
        map.insert("mediaType".into(), media_type.into());
        if let Some(name) = filename {
            map.insert("filename".into(), name.into());
        }
        map.insert("url".into(), url.into());
        map.insert("providerMetadata".into(), json!({ provider.0: provider.1 }));
        Self(map)
    }

    /// Creates `{"type": "reasoning", "text": …, "state": "done"}`.
    pub fn reasoning(text: &str) -> Self {
        Self::of("reasoning", json!({"text": text, "state": "done"}))
    }

    /// Creates `{"type": "step-start"}`, the mark of a request to the model.
    pub fn step_start() -> Self {
        Self::of("step-start", json!({}))
    }

    /// Creates `{"type": "tool-<name>", "toolCallId": …, "state": …, "input": …}`, with the fields of its state in
    /// `more`: `output`, `errorText`, `approval`.
    pub fn tool(name: &str, call_id: &str, state: &str, input: &Value, more: Value) -> Self {
        let mut part =
            Self::of(&format!("tool-{name}"), json!({"toolCallId": call_id, "state": state, "input": input}));
        if let Value::Object(more) = more {
            part.0.extend(more);
        }
        part
    }

    /// Returns the part in another state of its call, with the fields of that state.
    #[must_use]
    pub(crate) fn in_state(&self, state: &str, more: &Value) -> Self {
        let mut map = self.0.clone();
        map.insert("state".into(), state.into());
        if let Value::Object(more) = more {
            map.extend(more.clone());
        }
        Self(map)
    }

    fn of(kind: &str, fields: Value) -> Self {
        let mut map = Map::new();
        map.insert("type".into(), kind.into());
        if let Value::Object(fields) = fields {
            map.extend(fields);
        }
        Self(map)
    }

    /// Returns the `type`.
    pub fn kind(&self) -> &str {
        self.get("type").unwrap_or_default()
    }

    /// Returns the typed view of this part.
    pub fn view(&self) -> PartView<'_> {
        match self.kind() {
            "text" => self.get("text").map_or(PartView::Unknown, PartView::Text),
            "reasoning" => self.get("text").map_or(PartView::Unknown, PartView::Reasoning),
            "file" | "reasoning-file" => PartView::File {
                media_type: self.get("mediaType").unwrap_or("application/octet-stream"),
                filename: self.get("filename"),
                url: self.get("url").unwrap_or_default(),
            },
            "source-url" => {
                PartView::Source { title: self.get("title"), locator: self.get("url").unwrap_or_default() }
            }
            "source-document" => PartView::Source {
                title: self.get("title"),
                locator: self.get("filename").or_else(|| self.get("sourceId")).unwrap_or_default(),
            },
            "step-start" => PartView::StepStart,
            "dynamic-tool" => self.tool_view(self.get("toolName").unwrap_or_default()),
            kind => match (kind.strip_prefix("tool-"), kind.strip_prefix("data-")) {
                (Some(name), _) => self.tool_view(name),
                (_, Some(name)) => PartView::Data { name, data: self.0.get("data") },
                _ => PartView::Unknown,
            },
        }
    }

    /// Returns the approximate size of the part as JSON, in bytes.
    pub fn json_len(&self) -> usize {
        self.0.iter().map(|(key, value)| key.len() + json_len(value)).sum()
    }

    /// Returns the part as a JSON object.
    pub fn as_map(&self) -> &Map<String, Value> {
        &self.0
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(Value::as_str)
    }

    fn tool_view<'a>(&'a self, name: &'a str) -> PartView<'a> {
        PartView::Tool {
            name,
            call_id: self.get("toolCallId").unwrap_or_default(),
            state: self.get("state").unwrap_or_default(),
            input: self.0.get("input"),
            output: self.0.get("output"),
            error: self.get("errorText"),
        }
    }
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Stored parts are read, whatever their depth.
        Self::of_any_depth(Value::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// Typed view of a [`Part`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PartView<'a> {
    Text(&'a str),
    Reasoning(&'a str),
    /// `file`, and AI SDK 7's `reasoning-file`
    File {
        /// An IANA media type.
        media_type: &'a str,
        /// A name for people.
        filename: Option<&'a str>,
        /// A data URL, a web address, or `<channel>:<file id>`.
        url: &'a str,
    },
    /// `source-url` and `source-document`
    Source {
        title: Option<&'a str>,
        /// URL, file name or source id.
        locator: &'a str,
    },
    /// `tool-<name>` and `dynamic-tool`
    Tool {
        /// The tool's name.
        name: &'a str,
        /// Id that joins a call and its result.
        call_id: &'a str,
        /// `input-streaming`, `input-available`, `approval-requested`, `approval-responded`, `output-available`,
        /// `output-error` or `output-denied`.
        state: &'a str,
        /// The arguments, as soon as they are known.
        input: Option<&'a Value>,
        /// The result, as soon as it is known.
        output: Option<&'a Value>,
        error: Option<&'a str>,
    },
    Data {
        name: &'a str,
        data: Option<&'a Value>,
    },
    StepStart,
    /// A type of a later version, or a known type without its required fields.
    Unknown,
}

fn json_len(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 4,
        Value::Array(values) => values.iter().map(json_len).sum::<usize>() + 2,
        Value::Object(map) => map.iter().map(|(key, value)| key.len() + json_len(value)).sum::<usize>() + 2,
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
    }
}

/// Returns true if `value` is at most `depth` objects and lists deep.
fn is_within(value: &Value, depth: usize) -> bool {
    match value {
        Value::Array(values) => depth > 0 && values.iter().all(|value| is_within(value, depth - 1)),
        Value::Object(map) => depth > 0 && map.values().all(|value| is_within(value, depth - 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

fn flatten(value: &mut Value, depth: usize) {
    if !is_within(value, depth) {
        *value = Value::String(value.to_string());
    }
}

fn null_as_empty<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Metadata, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The provider's id, which joins it to its result.
    pub id: String,
    /// The tool; not checked, so there may be no such tool.
    pub name: String,
    /// The arguments; not checked against the schema. A string if they are not JSON.
    pub input: Value,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every part type of `UIMessagePart` in AI SDK 6 and 7, each tool state, and types that neither knows.
    const EVERY_PART: &str = r#"[
        {"type":"text","text":"hi","state":"done","providerMetadata":{"openai":{"itemId":"msg_1"}}},
        {"type":"reasoning","text":"hm","state":"streaming"},
        {"type":"reasoning-file","mediaType":"image/png","url":"data:image/png;base64,AA=="},
        {"type":"custom","kind":"openai.compaction","providerMetadata":{"openai":{"x":1}}},
        {"type":"file","mediaType":"image/png","filename":"a.png","url":"https://example.com/a.png"},
        {"type":"source-url","sourceId":"s1","url":"https://example.com","title":"T"},
        {"type":"source-document","sourceId":"s2","mediaType":"application/pdf","title":"D","filename":"d.pdf"},
        {"type":"step-start"},
        {"type":"data-weather","id":"w","data":{"t":21.5,"n":null,"big":9007199254740993}},
        {"type":"tool-search","toolCallId":"c0","state":"input-streaming","input":{"q":"par"}},
        {"type":"tool-search","toolCallId":"c1","state":"input-available","input":{"q":"x"},"title":"Search"},
        {"type":"tool-search","toolCallId":"c2","state":"approval-requested","input":{},"approval":{"id":"a"}},
        {"type":"tool-search","toolCallId":"c3","state":"approval-responded","input":{},"approval":{"id":"a","approved":false,"reason":"no"}},
        {"type":"tool-search","toolCallId":"c4","state":"output-available","input":{},"output":[1,2],"preliminary":true},
        {"type":"tool-search","toolCallId":"c5","state":"output-error","rawInput":"{","errorText":"bad"},
        {"type":"tool-search","toolCallId":"c6","state":"output-denied","input":{},"approval":{"id":"a","approved":false}},
        {"type":"dynamic-tool","toolName":"mcp","toolCallId":"c7","state":"output-available","input":{},"output":null,"providerExecuted":true},
        {"type":"hologram","depth":3}
    ]"#;

    #[test]
    fn every_part_is_written_as_it_was_read() {
        let text = format!(
            r#"{{"id":"m","role":"assistant","parts":{EVERY_PART},"metadata":{{"z":1,"a":{{"y":[]}}}},"later":true}}"#
        );
        let wanted: Value = serde_json::from_str(&text).unwrap();
        let message: UiMessage = serde_json::from_str(&text).unwrap();
        // Compared as text, since the order of keys matters too.
        assert_eq!(serde_json::to_string(&message).unwrap(), wanted.to_string());
    }

    #[test]
    fn views_have_the_known_fields() {
        let parts: Vec<Part> = serde_json::from_str(EVERY_PART).unwrap();
        assert_eq!(parts[0].view(), PartView::Text("hi"));
        assert_eq!(parts[8].view(), PartView::Data { name: "weather", data: parts[8].as_map().get("data") });
        let PartView::Tool { name, call_id, state, error, .. } = parts[14].view() else { panic!("a tool") };
        assert_eq!((name, call_id, state, error), ("search", "c5", "output-error", Some("bad")));
        let PartView::Tool { name, .. } = parts[16].view() else { panic!("a tool") };
        assert_eq!(name, "mcp");
        assert_eq!(parts[17].view(), PartView::Unknown);
    }

    #[test]
    fn a_part_without_a_type_is_refused() {
        for bad in [json!(null), json!("text"), json!({}), json!({"type": 1}), json!({"type": ""})] {
            assert_eq!(Part::new(bad), Err(PartError::Shape));
        }
    }

    /// Returns `levels` nested lists.
    fn nested(levels: usize) -> Value {
        (0..levels).fold(json!(1), |inner, _| json!([inner]))
    }

    #[test]
    fn parts_that_are_too_deep_are_refused_when_received_and_read_when_stored() {
        let part = |levels| json!({"type": "data-x", "data": nested(levels)});
        assert!(Part::new(part(MAX_DEPTH - 1)).is_ok());
        assert_eq!(Part::new(part(MAX_DEPTH)), Err(PartError::TooDeep));
        let stored: Part = serde_json::from_value(part(100)).unwrap();
        assert!(stored.is_too_deep());
        let mut message = UiMessage::new("m", Role::Assistant, vec![stored, Part::text("so")]);
        let fields = json!({"deep": nested(MAX_DEPTH + 1), "flat": nested(MAX_DEPTH)});
        message.metadata = serde_json::from_value(fields).unwrap();
        message.flatten();
        assert_eq!(message.parts[0].as_map()["data"], nested(100).to_string());
        assert_eq!(message.parts[1], Part::text("so"));
        assert_eq!(message.metadata.fields()["deep"], nested(MAX_DEPTH + 1).to_string());
        assert_eq!(message.metadata.fields()["flat"], nested(MAX_DEPTH));
        let flat = message.clone();
        message.flatten();
        assert_eq!(message, flat);
    }

    #[test]
    fn null_metadata_counts_as_missing() {
        let message: UiMessage =
            serde_json::from_str(r#"{"id":"m","role":"user","parts":[],"metadata":null}"#).unwrap();
        assert!(message.metadata.is_empty());
    }
}
