//! The agent's earlier replies as a model is sent them: text as text, calls with their results as steps.
//!
//! A stored reply has its tool parts in the states of the AI SDK. Each is sent as a call with a result: if none is stored,
//! because the call waits for approval, the result says so.

use annals_core::approval::UNKNOWN;
use annals_core::media;
use annals_core::message::{Part, PartView, ToolCall, UiMessage};
use serde_json::{Value, json};

use super::answer::Reasoning;
use super::question::{Done, Step};

/// The result of a call that waits for approval, for the model.
pub const WAITS: &str =
    "not carried out: somebody has to allow this call first, and has been asked. Do not call it again.";
/// The result of an unfinished call in a message of another program, for the model.
const NO_RESULT: &str = "there is no result";

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Piece {
    Text(String),
    /// Calls with the text before them and their results.
    Step(Step),
}

/// Returns the pieces of an assistant's `message`, in order; none is empty.
pub(super) fn pieces(message: &UiMessage) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut open = Step::default();
    for part in &message.parts {
        match part.view() {
            PartView::StepStart => close(&mut open, &mut pieces),
            PartView::Tool { .. } => open.done.extend(done(part)),
            PartView::Reasoning(text) => {
                if !open.done.is_empty() {
                    close(&mut open, &mut pieces);
                }
                open.reasoning = Some(Reasoning::from(text));
            }
            _ => {
                // The model would take a note to the user for its own words.
                let line = super::readable::line(part).filter(|_| !media::is_note(part));
                let Some(text) = line else { continue };
                // Text after results belongs to the next step.
                if !open.done.is_empty() {
                    close(&mut open, &mut pieces);
                }
                if !open.text.is_empty() {
                    open.text.push('\n');
                }
                open.text.push_str(&text);
            }
        }
    }
    close(&mut open, &mut pieces);
    pieces
}

/// Returns the steps of an assistant's `message` that have calls, for a turn that continues after them. Thoughts carry the
/// name of their model, and are sent to no other.
pub fn steps(message: &UiMessage) -> Vec<Step> {
    let by = message.metadata.model().unwrap_or_default();
    let steps = pieces(message).into_iter().filter_map(|piece| match piece {
        Piece::Step(mut step) => {
            if let Some(reasoning) = &mut step.reasoning {
                by.clone_into(&mut reasoning.by);
            }
            Some(step)
        }
        Piece::Text(_) => None,
    });
    steps.collect()
}

fn close(open: &mut Step, pieces: &mut Vec<Piece>) {
    let step = std::mem::take(open);
    if !step.done.is_empty() {
        pieces.push(Piece::Step(step));
    } else if !step.text.is_empty() {
        pieces.push(Piece::Text(step.text));
    }
}

/// Returns a tool part as a call with its result.
pub fn done(part: &Part) -> Option<Done> {
    let PartView::Tool { name, call_id, state, input, output, error } = part.view() else { return None };
    let approval = |key: &str| part.as_map().get("approval").and_then(|approval| approval.get(key));
    let output = match (state, output, error) {
        ("output-available", Some(output), _) => output.clone(),
        ("output-error", _, Some(error)) => json!({ "error": error }),
        ("approval-requested", ..) => WAITS.into(),
        ("output-denied", ..) => denied(approval("reason")),
        ("approval-responded", ..) if approval("approved") == Some(&Value::Bool(false)) => {
            denied(approval("reason"))
        }
        ("approval-responded", ..) => UNKNOWN.into(),
        _ => NO_RESULT.into(),
    };
    let call = ToolCall {
        id: if call_id.is_empty() { "call" } else { call_id }.to_owned(),
        name: name.to_owned(),
        // Providers want an object.
        input: input.filter(|input| input.is_object()).cloned().unwrap_or_else(|| json!({})),
    };
    Some(Done { call, output })
}

fn denied(reason: Option<&Value>) -> Value {
    let mut said = "not carried out: this call was denied. Do not repeat it unless asked to.".to_owned();
    if let Some(reason) = reason.and_then(Value::as_str).filter(|reason| !reason.is_empty()) {
        said.push_str(" The reason given: ");
        said.push_str(reason);
    }
    said.into()
}

#[cfg(test)]
mod tests {
    use annals_test_support::json::with;

    use super::*;

    fn message(parts: &Value) -> UiMessage {
        serde_json::from_value(json!({"id": "1/reply", "role": "assistant", "parts": parts})).unwrap()
    }

    fn tool(id: &str, state: &str, more: &Value) -> Value {
        let part = json!({"type": "tool-look", "toolCallId": id, "state": state, "input": {"q": 1}});
        with(part, more.clone())
    }

    fn outputs(pieces: &[Piece]) -> Vec<Vec<Value>> {
        let of = |piece: &Piece| match piece {
            Piece::Text(text) => vec![json!(text)],
            Piece::Step(step) => step.done.iter().map(|done| done.output.clone()).collect(),
        };
        pieces.iter().map(of).collect()
    }

    #[test]
    fn steps_are_separate_with_and_without_their_marks() {
        let (text, done) =
            (json!({"type": "text", "text": "so"}), tool("c", "output-available", &json!({"output": 7})));
        let start = json!({"type": "step-start"});
        for parts in [json!([start, text, done, start, text]), json!([text, done, text])] {
            let pieces = pieces(&message(&parts));
            let [Piece::Step(step), Piece::Text(last)] = &pieces[..] else { panic!("{pieces:?}") };
            assert_eq!((step.text.as_str(), &step.done[0].output, last.as_str()), ("so", &json!(7), "so"));
        }
        let two = pieces(&message(&json!([start, done, start, done])));
        assert_eq!(outputs(&two), [[json!(7)], [json!(7)]]);
    }

    #[test]
    fn every_call_has_a_result_in_every_state() {
        let id = json!({"approval": {"id": "a"}});
        let yes = json!({"approval": {"id": "a", "approved": true}});
        let no = json!({"approval": {"id": "a", "approved": false, "reason": "too much"}});
        let pieces = pieces(&message(&json!([
            tool("1", "output-error", &json!({"errorText": "down"})),
            tool("2", "approval-requested", &id),
            tool("3", "approval-responded", &yes),
            tool("4", "approval-responded", &no),
            tool("5", "output-denied", &no),
            tool("6", "input-available", &json!({})),
            tool("7", "input-streaming", &json!({"input": "{"})),
        ])));
        let outputs = outputs(&pieces).concat();
        assert_eq!(outputs[0], json!({"error": "down"}));
        assert_eq!((&outputs[1], &outputs[2]), (&json!(WAITS), &json!(UNKNOWN)));
        assert!(outputs[3].as_str().unwrap().ends_with("too much") && outputs[3] == outputs[4]);
        assert_eq!(outputs[5..], [NO_RESULT, NO_RESULT]);
        let [Piece::Step(step)] = &pieces[..] else { panic!("one step") };
        assert!(step.done.iter().all(|done| done.call.input.is_object()));
    }
}
