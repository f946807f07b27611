//! Decodes the UI message stream of `/api/chat` into [`Event`]s: [`Decoder`]. Pure; the encoder is `chat/chunks.rs` of the HTTP API.

use annals_core::message::{Part, Role, UiMessage};
use serde_json::{Value, json};

use super::event::Event;

/// The reply that a stream makes.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    id: String,
    parts: Vec<Value>,
    /// Chunk ids of texts and reasoning, with their places in `parts`.
    open: Vec<(String, usize)>,
    metadata: Value,
}

impl Decoder {
    /// Returns a decoder of the rest of `reply`.
    pub(super) fn after(reply: &UiMessage) -> Self {
        let parts = reply.parts.iter().map(|part| Value::Object(part.as_map().clone())).collect();
        Self { id: reply.id.clone(), parts, ..Self::default() }
    }

    /// Returns the event of a chunk, if it has one. [`Event::Done`] and [`Event::Broken`] are the last.
    pub(super) fn take(&mut self, chunk: &Value) -> Option<Event> {
        let text = |name: &str| chunk[name].as_str().unwrap_or_default().to_owned();
        match chunk["type"].as_str().unwrap_or_default() {
            "start" => {
                let id = text("messageId");
                if self.id != id {
                    *self = Self { id: id.clone(), ..Self::default() };
                }
                return Some(Event::Begin { message_id: id });
            }
            kind @ ("text-start" | "reasoning-start") => {
                self.open.push((text("id"), self.parts.len()));
                let kind = kind.trim_end_matches("-start");
                self.parts.push(json!({"type": kind, "text": ""}));
                return None;
            }
            kind @ ("text-delta" | "reasoning-delta") => {
                let (id, delta) = (text("id"), text("delta"));
                let at = self.open.iter().rev().find(|(open, _)| *open == id)?.1;
                if let Some(Value::String(said)) = self.parts[at].get_mut("text") {
                    said.push_str(&delta);
                }
                return if kind == "text-delta" { self.text_at(at) } else { Some(Event::Reasoning) };
            }
            "start-step" => {
                self.parts.push(json!({"type": "step-start"}));
                return None;
            }
            "tool-input-available" => {
                let mut part = json!({"toolCallId": chunk["toolCallId"], "state": "input-available", "input": chunk["input"]});
                if chunk["dynamic"] == true {
                    (part["type"], part["toolName"]) = ("dynamic-tool".into(), chunk["toolName"].clone());
                } else {
                    part["type"] = format!("tool-{}", text("toolName")).into();
                }
                self.parts.push(part);
            }
            "tool-approval-request" => {
                self.call(chunk, "approval-requested", ("approval", json!({"id": chunk["approvalId"]})))?;
            }
            "tool-output-available" => {
                self.call(chunk, "output-available", ("output", chunk["output"].clone()))?;
            }
            "tool-output-error" => {
                self.call(chunk, "output-error", ("errorText", chunk["errorText"].clone()))?;
            }
            "tool-output-denied" => {
                let part = self.find(chunk)?;
                part["state"] = "output-denied".into();
            }
            "finish-step" => {}
            "message-metadata" => {
                self.metadata = chunk["messageMetadata"].clone();
                return None;
            }
            "finish" => {
                self.metadata = chunk["messageMetadata"].clone();
                return Some(self.done());
            }
            "abort" => return Some(self.done()),
            "error" => return Some(Event::Broken { text: text("errorText") }),
            "file" | "source-url" | "source-document" => self.parts.push(chunk.clone()),
            _ => return None,
        }
        Some(Event::Parts { parts: self.parts() })
    }

    /// Returns the event of the text at this place in `parts`.
    fn text_at(&self, place: usize) -> Option<Event> {
        let texts = self.parts[..=place].iter().filter(|part| part["type"] == "text");
        let texts = texts.filter_map(|part| part["text"].as_str()).filter(|text| !text.trim().is_empty());
        let (at, text) = texts.enumerate().last()?;
        Some(Event::Text { at, text: text.to_owned() })
    }

    fn find(&mut self, chunk: &Value) -> Option<&mut Value> {
        self.parts.iter_mut().find(|part| part["toolCallId"] == chunk["toolCallId"])
    }

    fn call(&mut self, chunk: &Value, state: &str, (name, value): (&str, Value)) -> Option<()> {
        let part = self.find(chunk)?;
        part["state"] = state.into();
        part[name] = value;
        Some(())
    }

    fn parts(&self) -> Vec<Part> {
        self.parts.iter().filter_map(|part| Part::new(part.clone()).ok()).collect()
    }

    fn done(&self) -> Event {
        let mut message = UiMessage::new(&self.id, Role::Assistant, self.parts());
        message.metadata = serde_json::from_value(self.metadata.clone()).unwrap_or_default();
        Event::done(message)
    }
}

#[cfg(test)]
mod tests {
    use annals_core::record::Kind;

    use super::*;

    #[test]
    fn a_reply_is_made_of_its_chunks() {
        let mut decoder = Decoder::default();
        let mut take = |chunk: Value| decoder.take(&chunk);
        assert!(matches!(take(json!({"type": "start", "messageId": "m/reply"})), Some(Event::Begin { .. })));
        for chunk in [json!({"type": "start-step"}), json!({"type": "text-start", "id": "1"})] {
            assert!(take(chunk).is_none());
        }
        let delta = take(json!({"type": "text-delta", "id": "1", "delta": "I look."}));
        assert!(matches!(delta, Some(Event::Text { at: 0, text }) if text == "I look."));
        take(
            json!({"type": "tool-input-available", "toolCallId": "c", "toolName": "refund", "input": {"a": 1}}),
        );
        take(json!({"type": "tool-approval-request", "toolCallId": "c", "approvalId": "x"}));
        let Some(Event::Done { message, failed: false }) =
            take(json!({"type": "finish", "messageMetadata": {"kind": "normal", "messageId": "m/reply"}}))
        else {
            panic!()
        };
        assert_eq!(
            json!(message.parts),
            json!([{"type": "step-start"}, {"type": "text", "text": "I look."},
                {"toolCallId": "c", "state": "approval-requested", "input": {"a": 1}, "type": "tool-refund", "approval": {"id": "x"}}])
        );
        assert_eq!(message.metadata.kind(), Some(Kind::Normal));
        // The rest of the reply, after the approval.
        let mut decoder = Decoder::after(&message);
        decoder.take(&json!({"type": "start", "messageId": "m/reply"}));
        let Some(Event::Parts { parts }) =
            decoder.take(&json!({"type": "tool-output-available", "toolCallId": "c", "output": "done"}))
        else {
            panic!()
        };
        assert_eq!((parts.len(), json!(parts[2])["state"].clone()), (3, json!("output-available")));
        decoder.take(&json!({"type": "text-start", "id": "1"}));
        let delta = decoder.take(&json!({"type": "text-delta", "id": "1", "delta": "Done."}));
        assert!(matches!(delta, Some(Event::Text { at: 1, text }) if text == "Done."));
    }
}
