//! Encodes a reply as chunks of a UI message stream, which a client of the AI SDK assembles. Pure.
//!
//! ```text
//! data: {"type":"start","messageId":"m1/reply"}
//! data: {"type":"start-step"}
//! data: {"type":"text-start","id":"1"}
//! data: {"type":"text-delta","id":"1","delta":"Hello"}
//! data: {"type":"text-end","id":"1"}
//! data: {"type":"finish-step"}
//! data: {"type":"finish","finishReason":"stop","messageMetadata":{"ts":1795305572000,…}}
//! data: [DONE]
//! ```
//!
//! Sends only types and keys of the strict `uiMessageChunkSchema` of `ai` 6.0.0, in which an unknown one ends the whole
//! stream; later versions accept the same. Source: `packages/ai/src/ui-message-stream/ui-message-chunks.ts`.
//!
//! A chunk that was sent cannot be taken back. So if an answer breaks off, nothing more is sent until the reply is stored. If
//! the stored reply does not continue the chunks, the stream ends with an `error`, and the client finds the reply in the
//! history.

use annals_core::message::{Part, PartView, UiMessage};
use annals_core::record::{Kind, Record};
use annals_core::texts::Texts;
use annals_core::texts::en::En;
use serde_json::{Value, json};

/// Last event of every stream.
pub(crate) const DONE: &str = "data: [DONE]\n\n";
/// Keeps a silent connection open: a comment, which clients ignore.
pub(crate) const KEEP_ALIVE: &str = ": still there\n\n";

/// Returns `chunk` as an event of the stream.
pub(crate) fn event(chunk: &Value) -> String {
    format!("data: {chunk}\n\n")
}

/// Encoder of one reply for one client.
#[derive(Debug)]
pub(crate) struct ChunkEncoder {
    /// Id of the reply: the client's own, which may be that of a form, if it has a part of the reply.
    message_id: String,
    /// Parts that the client has.
    sent: Vec<SentPart>,
    /// Number of them before this stream.
    had: usize,
    out: Vec<Value>,
    has_started: bool,
    is_in_step: bool,
    /// True if the chunks no longer match the reply: nothing more is sent before it is stored.
    is_stale: bool,
    /// Lists the stored record as the client may read it.
    list: fn(&Record) -> UiMessage,
    /// White space at the beginning of a text and of reasoning, sent with the first other character.
    blank: [String; 2],
    /// Texts in the language of the client's request.
    pub(crate) texts: &'static dyn Texts,
}

/// A part that the client has.
#[derive(Clone, Debug, PartialEq)]
enum SentPart {
    StepStart,
    /// A text or reasoning, with its chunk id while it may be continued.
    Text {
        is_reasoning: bool,
        text: String,
        open: Option<String>,
    },
    Call {
        id: String,
        state: String,
    },
    Other(Part),
}

impl ChunkEncoder {
    /// Returns an encoder of the reply `message_id`, of which the client has `parts`.
    pub(crate) fn new(message_id: impl Into<String>, parts: &[Part]) -> Self {
        let sent: Vec<SentPart> = parts.iter().map(SentPart::of).collect();
        Self {
            message_id: message_id.into(),
            had: sent.len(),
            sent,
            out: Vec::new(),
            has_started: false,
            is_in_step: false,
            is_stale: false,
            list: Record::listed,
            blank: <[String; 2]>::default(),
            texts: &En,
        }
    }

    /// Encodes for a caller with an admin key, or for another, and errors in the language of `texts`.
    #[must_use]
    pub(crate) fn for_caller(self, is_admin: bool, texts: &'static dyn Texts) -> Self {
        Self { list: if is_admin { Record::listed_for_admins } else { Record::listed }, texts, ..self }
    }

    /// Takes the chunks to send next.
    pub(crate) fn take(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.out)
    }

    /// Continues the text, or the reasoning.
    pub(crate) fn delta(&mut self, is_reasoning: bool, delta: &str) {
        if self.is_stale {
            return;
        }
        let open = self.sent.iter().skip(self.had).rposition(
            |sent| matches!(sent, SentPart::Text { is_reasoning: is, open: Some(_), .. } if *is == is_reasoning),
        );
        if let Some(at) = open {
            return self.append(self.had + at, delta);
        }
        // A text of white space alone is not stored.
        let blank = &mut self.blank[usize::from(is_reasoning)];
        blank.push_str(delta);
        if blank.trim().is_empty() {
            return;
        }
        let text = std::mem::take(blank);
        self.begin_step();
        self.begin_text(is_reasoning, &text);
    }

    /// Discards the answer since the last [`parts`](Self::parts).
    pub(crate) fn discard(&mut self) {
        self.blank = <[String; 2]>::default();
        self.is_stale |= self.sent.iter().any(|sent| matches!(sent, SentPart::Text { open: Some(_), .. }));
    }

    /// Begins the reply `message_id`, or begins it again if another run makes it.
    pub(crate) fn begin(&mut self, message_id: &str) {
        self.blank = <[String; 2]>::default();
        if !self.has_started && self.had == 0 {
            message_id.clone_into(&mut self.message_id);
        }
        self.is_stale |= self.sent.len() > self.had;
    }

    /// Brings the client to `parts`: the reply at the end of a step, or while its calls are made.
    pub(crate) fn parts(&mut self, parts: &[Part]) {
        if self.is_stale {
            return;
        }
        self.is_stale = !self.advance(parts);
        self.end_text();
        let is_under_way =
            |sent: &SentPart| matches!(sent, SentPart::Call { state, .. } if state == "input-available");
        if !self.sent.iter().any(is_under_way) {
            self.end_step();
        }
    }

    /// Ends the stream with the stored reply.
    pub(crate) fn finish(&mut self, record: &Record) {
        let Some(listed) = self.advance_to(record) else { return };
        let asks = listed.parts.last().is_some_and(|part| state_of(part) == Some("approval-requested"));
        let reason = match record.kind() {
            Kind::Notice => "other",
            _ if asks => "tool-calls",
            _ => "stop",
        };
        self.out.push(json!({"type": "finish", "finishReason": reason, "messageMetadata": listed.metadata}));
    }

    /// Ends the stream with the stopped reply, as far as it was made.
    pub(crate) fn abort(&mut self, record: &Record) {
        let Some(listed) = self.advance_to(record) else { return };
        self.out.push(json!({"type": "message-metadata", "messageMetadata": listed.metadata}));
        self.out.push(json!({"type": "abort"}));
    }

    /// Brings the client to the stored `record`, and returns that as it is listed. If the chunks do not match it, ends the
    /// stream with an error.
    fn advance_to(&mut self, record: &Record) -> Option<UiMessage> {
        let listed = (self.list)(record);
        if !self.has_started && self.had == 0 {
            // A notice takes the reply's place under an id of its own.
            record.message_id.as_str().clone_into(&mut self.message_id);
        }
        let is_other = self.had == 0 && self.message_id != record.message_id.as_str();
        if is_other || !self.advance(&listed.parts) {
            let is_notice = record.kind() == Kind::Notice;
            let text = if is_notice { listed.plain_text() } else { self.texts.answered_anew().to_owned() };
            let cause = listed.metadata.cause().map(|cause| format!(" ({cause})")).unwrap_or_default();
            self.error(&(text + &cause));
            return None;
        }
        self.start();
        self.end_step();
        Some(listed)
    }

    /// Ends the stream without a reply.
    pub(crate) fn error(&mut self, text: &str) {
        self.end_step();
        self.out.push(json!({"type": "error", "errorText": text}));
    }

    /// Brings the client to `parts`. Returns false if the chunks do not match them.
    fn advance(&mut self, parts: &[Part]) -> bool {
        self.blank = <[String; 2]>::default();
        // A stored reply of a single step may lack its `step-start`.
        let is_start = |sent: Option<&SentPart>| sent == Some(&SentPart::StepStart);
        let first = parts.first().map(SentPart::of);
        let skipped = usize::from(is_start(self.sent.first()) && !is_start(first.as_ref()));
        for (at, part) in parts.iter().enumerate() {
            let at = at + skipped;
            if at >= self.sent.len() {
                self.send(part);
            } else if !self.reconcile(at, part) {
                return false;
            }
        }
        self.sent.len() <= parts.len() + skipped
    }

    /// Brings the part at `at` to `part`. Returns false if its chunks do not match.
    fn reconcile(&mut self, at: usize, part: &Part) -> bool {
        // The reasoning of a step comes first in the reply, but may have been sent after its text.
        let is_after_text = matches!(
            self.sent[at..],
            [SentPart::Text { is_reasoning: false, .. }, SentPart::Text { is_reasoning: true, .. }, ..]
        );
        if is_after_text && matches!(part.view(), PartView::Reasoning(_)) {
            self.sent.swap(at, at + 1);
        }
        let sent = self.sent[at].clone();
        match (sent, SentPart::of(part)) {
            (
                SentPart::Text { is_reasoning, text, open },
                SentPart::Text { is_reasoning: is_wanted, text: wanted, .. },
            ) if is_reasoning == is_wanted => match wanted.strip_prefix(text.as_str()) {
                Some("") => true,
                Some(more) if open.is_some() => {
                    self.append(at, more);
                    true
                }
                _ => false,
            },
            (SentPart::Call { id, state }, SentPart::Call { id: wanted, state: becomes }) if id == wanted => {
                if state != becomes {
                    self.start();
                    self.settle_call(part, &id, &state);
                    self.sent[at] = SentPart::Call { id, state: becomes };
                }
                true
            }
            (sent, wanted) => sent == wanted,
        }
    }

    /// Sends a part that the client does not have.
    fn send(&mut self, part: &Part) {
        match (part.view(), SentPart::of(part)) {
            (_, SentPart::StepStart) => {
                self.end_step();
                self.begin_step();
            }
            (_, SentPart::Text { is_reasoning, text, .. }) => {
                self.start();
                self.begin_text(is_reasoning, &text);
            }
            (PartView::Tool { name, call_id, input, .. }, call @ SentPart::Call { .. }) => {
                self.start();
                let mut begun = json!({"type": "tool-input-start", "toolCallId": call_id, "toolName": name});
                let mut whole =
                    json!({"type": "tool-input-available", "toolCallId": call_id, "toolName": name});
                whole["input"] = input.cloned().unwrap_or_else(|| json!({}));
                if part.kind() == "dynamic-tool" {
                    begun["dynamic"] = true.into();
                    whole["dynamic"] = true.into();
                }
                self.out.extend([begun, whole]);
                self.settle_call(part, call_id, "input-available");
                self.sent.push(call);
            }
            (_, other) => {
                self.start();
                self.out.extend(other_chunk(part));
                self.sent.push(other);
            }
        }
    }

    /// Sends the new state of the call of `part`, which the client has in state `before`.
    fn settle_call(&mut self, part: &Part, call_id: &str, before: &str) {
        let field = |name: &str| part.as_map().get(name);
        let state = state_of(part).unwrap_or_default();
        let approval = field("approval").and_then(|approval| approval.get("id"));
        if let Some(id) = approval.filter(|_| matches!(before, "input-streaming" | "input-available")) {
            self.out.push(json!({"type": "tool-approval-request", "approvalId": id, "toolCallId": call_id}));
        }
        let chunk = match state {
            "output-available" => {
                json!({"type": "tool-output-available", "toolCallId": call_id, "output": field("output")})
            }
            "output-error" => {
                let text = field("errorText").and_then(Value::as_str).unwrap_or_default();
                json!({"type": "tool-output-error", "toolCallId": call_id, "errorText": text})
            }
            "output-denied" => json!({"type": "tool-output-denied", "toolCallId": call_id}),
            _ => return,
        };
        self.out.push(chunk);
    }

    fn start(&mut self) {
        if !self.has_started {
            self.has_started = true;
            self.out.push(json!({"type": "start", "messageId": self.message_id}));
        }
    }

    fn begin_step(&mut self) {
        self.start();
        if !self.is_in_step {
            self.is_in_step = true;
            self.out.push(json!({"type": "start-step"}));
            self.sent.push(SentPart::StepStart);
        }
    }

    fn end_step(&mut self) {
        self.end_text();
        if std::mem::take(&mut self.is_in_step) {
            self.out.push(json!({"type": "finish-step"}));
        }
    }

    fn end_text(&mut self) {
        for sent in &mut self.sent {
            if let SentPart::Text { is_reasoning, open, .. } = sent
                && let Some(id) = open.take()
            {
                let kind = if *is_reasoning { "reasoning-end" } else { "text-end" };
                self.out.push(json!({"type": kind, "id": id}));
            }
        }
    }

    fn begin_text(&mut self, is_reasoning: bool, text: &str) {
        let id = self.sent.len().to_string();
        let kind = if is_reasoning { "reasoning-start" } else { "text-start" };
        self.out.push(json!({"type": kind, "id": id}));
        self.sent.push(SentPart::Text { is_reasoning, text: String::new(), open: Some(id) });
        self.append(self.sent.len() - 1, text);
    }

    fn append(&mut self, at: usize, delta: &str) {
        if let SentPart::Text { is_reasoning, text, open: Some(id) } = &mut self.sent[at]
            && !delta.is_empty()
        {
            text.push_str(delta);
            let kind = if *is_reasoning { "reasoning-delta" } else { "text-delta" };
            self.out.push(json!({"type": kind, "id": id, "delta": delta}));
        }
    }
}

impl SentPart {
    /// Returns `part` as one that is complete.
    fn of(part: &Part) -> Self {
        let text = |is_reasoning, text: &str| Self::Text { is_reasoning, text: text.into(), open: None };
        match part.view() {
            PartView::Text(delta) => text(false, delta),
            PartView::Reasoning(delta) => text(true, delta),
            PartView::Tool { call_id, state, .. } => Self::Call { id: call_id.into(), state: state.into() },
            _ if part.kind() == "step-start" => Self::StepStart,
            _ => Self::Other(part.clone()),
        }
    }
}

fn state_of(part: &Part) -> Option<&str> {
    match part.view() {
        PartView::Tool { state, .. } => Some(state),
        _ => None,
    }
}

/// Returns the chunk of a part of another type, if there is one.
fn other_chunk(part: &Part) -> Option<Value> {
    let keys: &[&str] = match part.kind() {
        "file" => &["type", "url", "mediaType"],
        "source-url" => &["type", "sourceId", "url", "title"],
        "source-document" => &["type", "sourceId", "mediaType", "title", "filename"],
        kind if kind.starts_with("data-") => &["type", "id", "data"],
        _ => return None,
    };
    let of_it = part.as_map().iter().filter(|(key, _)| keys.contains(&key.as_str()));
    Some(Value::Object(of_it.map(|(key, value)| (key.clone(), value.clone())).collect()))
}

#[cfg(test)]
mod tests;
