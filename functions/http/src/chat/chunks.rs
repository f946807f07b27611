//! The UI message stream: a reply as chunks that bring a client of the AI SDK to it. Pure.
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
//! Only what the strict `uiMessageChunkSchema` of `ai` 6.0.0 has is sent, since there one unknown type or key ends the whole
//! stream; later versions take all of that too. Source: `packages/ai/src/ui-message-stream/ui-message-chunks.ts`.
//!
//! What a client was sent cannot be taken back. So where an answer broke off, nothing more is sent until it is known what is
//! stored. Where that does not go on from what was sent, the stream ends with an `error` that says so, and the client finds
//! the reply in the history.

use annals_shared::message::{Part, PartView};
use annals_shared::record::{Kind, Record};
use bytes::Bytes;
use serde_json::{Value, json};

/// What ends every stream.
pub(crate) const DONE: &[u8] = b"data: [DONE]\n\n";
/// What keeps a silent connection open: a comment, which clients pass over.
pub(crate) const STILL_THERE: &[u8] = b": still there\n\n";
/// What a client is told where its stream and the history are not the same.
const DIVERGED: &str = "The answer broke off and was made again: load the conversation to see it.";

/// `chunk` as an event of the stream.
pub(crate) fn event(chunk: &Value) -> Bytes {
    format!("data: {chunk}\n\n").into()
}

/// A reply on its way to one client.
#[derive(Debug)]
pub(crate) struct Teller {
    message_id: String,
    /// The parts that the client has.
    sent: Vec<Sent>,
    /// How many of them were there before this stream.
    had: usize,
    out: Vec<Value>,
    has_started: bool,
    is_in_step: bool,
    /// Whether what was sent is not what is being made any more: nothing is said before it is known what is stored.
    is_void: bool,
    /// White space that a text, or a thought, begins with; it counts as soon as more comes.
    blank: [String; 2],
    ids: u32,
}

/// A part that the client has.
#[derive(Clone, Debug, PartialEq)]
enum Sent {
    StepStart,
    /// A text or, where so, a thought; with its chunk id for as long as it may go on.
    Words {
        is_thought: bool,
        text: String,
        open: Option<String>,
    },
    Call {
        id: String,
        state: String,
    },
    Other(Part),
}

impl Teller {
    /// The reply `message_id`, of which the client has `parts`.
    pub(crate) fn new(message_id: impl Into<String>, parts: &[Part]) -> Self {
        let sent: Vec<Sent> = parts.iter().map(Sent::of).collect();
        Self {
            message_id: message_id.into(),
            had: sent.len(),
            sent,
            out: Vec::new(),
            has_started: false,
            is_in_step: false,
            is_void: false,
            blank: <[String; 2]>::default(),
            ids: 0,
        }
    }

    /// The chunks that are to be sent next.
    pub(crate) fn take(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.out)
    }

    /// More of the text, or of a thought.
    pub(crate) fn words(&mut self, is_thought: bool, delta: &str) {
        if self.is_void {
            return;
        }
        let open = self.sent.iter().skip(self.had).rposition(
            |sent| matches!(sent, Sent::Words { is_thought: is, open: Some(_), .. } if *is == is_thought),
        );
        if let Some(at) = open {
            return self.go_on(self.had + at, delta);
        }
        // What is nothing but white space is not stored.
        let blank = &mut self.blank[usize::from(is_thought)];
        blank.push_str(delta);
        if blank.trim().is_empty() {
            return;
        }
        let text = std::mem::take(blank);
        self.begin_step();
        self.begin_words(is_thought, &text);
    }

    /// What was sent of the answer since the last parts is void.
    pub(crate) fn void(&mut self) {
        self.blank = <[String; 2]>::default();
        self.is_void |= self.sent.iter().any(|sent| matches!(sent, Sent::Words { open: Some(_), .. }));
    }

    /// The reply `message_id` is made, by this run or, from its beginning, by another.
    pub(crate) fn begin(&mut self, message_id: &str) {
        self.blank = <[String; 2]>::default();
        if !self.has_started {
            message_id.clone_into(&mut self.message_id);
        }
        self.is_void |= self.sent.len() > self.had;
    }

    /// The reply so far: a step of it is over, or its calls are under way.
    pub(crate) fn parts(&mut self, parts: &[Part]) {
        if self.is_void {
            return;
        }
        self.is_void = !self.advance(parts);
        self.end_words();
        let is_under_way =
            |sent: &Sent| matches!(sent, Sent::Call { state, .. } if state == "input-available");
        if !self.sent.iter().any(is_under_way) {
            self.end_step();
        }
    }

    /// The reply as it is stored.
    pub(crate) fn finish(&mut self, record: &Record) {
        let listed = record.listed();
        if !self.has_started {
            // A notice stands in the reply's place under an id of its own.
            record.message_id.as_str().clone_into(&mut self.message_id);
        }
        if self.message_id != record.message_id.as_str() || !self.advance(&listed.parts) {
            let is_notice = record.kind == Kind::Notice;
            let text = if is_notice { record.message.plain_text() } else { DIVERGED.to_owned() };
            return self.error(&text);
        }
        self.start();
        self.end_step();
        let asks = listed.parts.last().is_some_and(|part| state_of(part) == Some("approval-requested"));
        let reason = match record.kind {
            Kind::Notice => "other",
            _ if asks => "tool-calls",
            _ => "stop",
        };
        self.out.push(json!({"type": "finish", "finishReason": reason, "messageMetadata": listed.metadata}));
    }

    /// Somebody has stopped it.
    pub(crate) fn abort(&mut self) {
        self.end_step();
        self.out.push(json!({"type": "abort"}));
    }

    /// It does not come.
    pub(crate) fn error(&mut self, text: &str) {
        self.end_step();
        self.out.push(json!({"type": "error", "errorText": text}));
    }

    /// Brings the client to `parts`; answers whether that can be done.
    fn advance(&mut self, parts: &[Part]) -> bool {
        self.blank = <[String; 2]>::default();
        // Of one step alone a stored reply may not say where it starts.
        let is_start = |sent: Option<&Sent>| sent == Some(&Sent::StepStart);
        let first = parts.first().map(Sent::of);
        let skipped = usize::from(is_start(self.sent.first()) && !is_start(first.as_ref()));
        for (at, part) in parts.iter().enumerate() {
            let at = at + skipped;
            if at >= self.sent.len() {
                self.say(part);
            } else if !self.reconcile(at, part) {
                return false;
            }
        }
        self.sent.len() <= parts.len() + skipped
    }

    /// Brings the part at `at` to `part`; answers whether that can be done.
    fn reconcile(&mut self, at: usize, part: &Part) -> bool {
        let sent = self.sent[at].clone();
        match (sent, Sent::of(part)) {
            (
                Sent::Words { is_thought, text, open },
                Sent::Words { is_thought: is_wanted, text: wanted, .. },
            ) if is_thought == is_wanted => match wanted.strip_prefix(text.as_str()) {
                Some("") => true,
                Some(more) if open.is_some() => {
                    self.go_on(at, more);
                    true
                }
                _ => false,
            },
            (Sent::Call { id, state }, Sent::Call { id: wanted, state: becomes }) if id == wanted => {
                if state != becomes {
                    self.start();
                    self.come_to(part, &id, &state);
                    self.sent[at] = Sent::Call { id, state: becomes };
                }
                true
            }
            (sent, wanted) => sent == wanted,
        }
    }

    /// Says a part that the client does not have.
    fn say(&mut self, part: &Part) {
        match (part.view(), Sent::of(part)) {
            (_, Sent::StepStart) => {
                self.end_step();
                self.begin_step();
            }
            (_, Sent::Words { is_thought, text, .. }) => {
                self.start();
                self.begin_words(is_thought, &text);
            }
            (PartView::Tool { name, call_id, input, .. }, call @ Sent::Call { .. }) => {
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
                self.come_to(part, call_id, "input-available");
                self.sent.push(call);
            }
            (_, other) => {
                self.start();
                self.out.extend(other_chunk(part));
                self.sent.push(other);
            }
        }
    }

    /// What the call of `part` has come to, where the client has it in state `before`.
    fn come_to(&mut self, part: &Part, call_id: &str, before: &str) {
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
            self.sent.push(Sent::StepStart);
        }
    }

    fn end_step(&mut self) {
        self.end_words();
        if std::mem::take(&mut self.is_in_step) {
            self.out.push(json!({"type": "finish-step"}));
        }
    }

    fn end_words(&mut self) {
        for sent in &mut self.sent {
            if let Sent::Words { is_thought, open, .. } = sent
                && let Some(id) = open.take()
            {
                let kind = if *is_thought { "reasoning-end" } else { "text-end" };
                self.out.push(json!({"type": kind, "id": id}));
            }
        }
    }

    fn begin_words(&mut self, is_thought: bool, text: &str) {
        self.ids += 1;
        let id = self.ids.to_string();
        let kind = if is_thought { "reasoning-start" } else { "text-start" };
        self.out.push(json!({"type": kind, "id": id}));
        self.sent.push(Sent::Words { is_thought, text: String::new(), open: Some(id) });
        self.go_on(self.sent.len() - 1, text);
    }

    fn go_on(&mut self, at: usize, delta: &str) {
        if let Sent::Words { is_thought, text, open: Some(id) } = &mut self.sent[at]
            && !delta.is_empty()
        {
            text.push_str(delta);
            let kind = if *is_thought { "reasoning-delta" } else { "text-delta" };
            self.out.push(json!({"type": kind, "id": id, "delta": delta}));
        }
    }
}

impl Sent {
    /// `part` as one that does not go on.
    fn of(part: &Part) -> Self {
        let words = |is_thought, text: &str| Self::Words { is_thought, text: text.into(), open: None };
        match part.view() {
            PartView::Text(text) => words(false, text),
            PartView::Reasoning(text) => words(true, text),
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

/// A part of another type as its chunk; none where there is no such chunk.
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
#[path = "chunks_tests.rs"]
mod tests;
