//! Answers of models, as each provider reads them.

use std::fmt::Write;

use annals_model::{Finish, ModelError, read_by_each};
use serde_json::Value;

/// Checks a body in each form that a stream has, and in one piece. A list of frames, each with `event` and `data`, is also
/// written as a stream.
pub fn check(data: &[u8]) {
    for media_type in ["text/event-stream", "application/vnd.amazon.eventstream", "application/json"] {
        check_body(media_type, data);
    }
    let Ok(Value::Array(frames)) = serde_json::from_slice(data) else { return };
    let mut stream = String::new();
    for frame in frames {
        let event = frame["event"].as_str().unwrap_or_default();
        writeln!(stream, "event: {event}\ndata: {}\n", frame["data"]).unwrap();
    }
    check_body("text/event-stream", stream.as_bytes());
}

/// Checks that an answer says something, that its calls have ids, and that an error has nothing of the body: a status and
/// our own words.
fn check_body(media_type: &str, body: &[u8]) {
    for read in read_by_each(media_type, body) {
        match read {
            Ok(answer) => {
                assert!(!answer.text.trim().is_empty() || !answer.calls.is_empty());
                assert!(answer.calls.is_empty() || answer.finish == Finish::ToolCalls);
                assert!(answer.calls.iter().all(|call| !call.id.is_empty()));
            }
            Err(error) => assert!(
                matches!(
                    error,
                    ModelError::Incomplete("the answer broke off")
                        | ModelError::Unreadable
                        | ModelError::Busy { status: 408.., retry_after: None }
                        | ModelError::Refused { status: 400.. }
                        | ModelError::ContextTooLong
                        | ModelError::Filtered
                        | ModelError::Exhausted
                        | ModelError::Empty
                ),
                "{error:?}"
            ),
        }
    }
}
