//! The body of an answer in pieces: [`Frames`].
//!
//! ```text
//! text/event-stream                        data: {"choices": […]}          an empty line ends a piece
//! application/vnd.amazon.eventstream       length, headers (:event-type), payload, checksums
//! anything else                            one piece, at its end
//! ```
//!
//! A server that does not stream answers in one piece; one that streams under another media type is read at its end.
//!
//! Sources: "Server-sent events" of the HTML standard, `aws-smithy-eventstream`.

use aws_smithy_eventstream::frame::{DecodedFrame, MessageFrameDecoder};
use bytes::{Bytes, BytesMut};
use serde_json::Value;

use super::error::ModelError;
use super::failure;

/// The end of a stream of chat completions.
pub(super) const DONE: &str = "[DONE]";

/// Maximum bytes of a body, or of a piece of one.
const MAX_BYTES: usize = 32 * 1024 * 1024;

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Frame {
    /// The kind, if the format says so; [`DONE`] for the end of a stream.
    pub(super) event: String,
    pub(super) data: Value,
}

impl Frame {
    /// Returns the body of an error: of an event `error`, or with an `error` at the top.
    pub(super) fn error(&self) -> Option<&Value> {
        let error = &self.data["error"];
        (self.event == "error" || error.is_object() || error.is_string()).then_some(&self.data)
    }
}

/// A body while it comes.
#[derive(Debug)]
pub(super) enum Frames {
    Events(Events),
    Messages(MessageFrameDecoder, BytesMut),
    Whole(BytesMut),
}

impl Frames {
    /// Returns a reader for a body of this media type.
    pub(super) fn new(media_type: &str) -> Self {
        match media_type.split(';').next().unwrap_or_default().trim() {
            "text/event-stream" => Self::Events(Events::default()),
            "application/vnd.amazon.eventstream" => {
                Self::Messages(MessageFrameDecoder::new(), BytesMut::new())
            }
            _ => Self::Whole(BytesMut::new()),
        }
    }

    /// Returns the frames that `bytes` complete.
    pub(super) fn push(&mut self, bytes: &Bytes) -> Result<Vec<Frame>, ModelError> {
        let (frames, held) = match self {
            Self::Events(events) => (events.push(bytes)?, events.line.len() + events.data.len()),
            Self::Messages(decoder, buffer) => {
                buffer.extend_from_slice(bytes);
                (messages(decoder, buffer)?, buffer.len())
            }
            Self::Whole(buffer) => {
                buffer.extend_from_slice(bytes);
                (Vec::new(), buffer.len())
            }
        };
        if held > MAX_BYTES { Err(ModelError::Unreadable) } else { Ok(frames) }
    }

    /// Returns the last frames at the end of the body, and true if they are an answer in one piece.
    pub(super) fn end(self) -> Result<(Vec<Frame>, bool), ModelError> {
        match self {
            // Some servers leave out the last empty line.
            Self::Events(mut events) => Ok((events.push(b"\n\n")?, false)),
            // An incomplete message is dropped.
            Self::Messages(..) => Ok((Vec::new(), false)),
            Self::Whole(body) if body.trim_ascii_start().starts_with(b"{") => {
                let data = serde_json::from_slice(&body).map_err(|_| ModelError::Unreadable)?;
                Ok((vec![Frame { event: String::new(), data }], true))
            }
            Self::Whole(body) => {
                let mut events = Events::default();
                let mut frames = events.push(&body)?;
                frames.extend(events.push(b"\n\n")?);
                if frames.is_empty() { Err(ModelError::Unreadable) } else { Ok((frames, false)) }
            }
        }
    }
}

/// Server-sent events.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// The line so far: a chunk may end anywhere, even within a character.
    line: Vec<u8>,
    event: String,
    data: String,
}

impl Events {
    fn push(&mut self, bytes: &[u8]) -> Result<Vec<Frame>, ModelError> {
        let mut frames = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if !piece.ends_with(b"\n") {
                break;
            }
            let line = std::mem::take(&mut self.line);
            let line = std::str::from_utf8(&line).map_err(|_| ModelError::Unreadable)?;
            frames.extend(self.line(line.trim_end_matches(['\r', '\n']))?);
        }
        Ok(frames)
    }

    fn line(&mut self, line: &str) -> Result<Option<Frame>, ModelError> {
        if line.is_empty() {
            let (event, data) = (std::mem::take(&mut self.event), std::mem::take(&mut self.data));
            return match data.trim() {
                "" => Ok(None),
                DONE => Ok(Some(Frame { event: DONE.into(), data: Value::Null })),
                data => {
                    let data = serde_json::from_str(data).map_err(|_| ModelError::Unreadable)?;
                    Ok(Some(Frame { event, data }))
                }
            };
        }
        // A line without a colon is a field without a value, one that starts with it a comment.
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.event),
            "data" => {
                if !self.data.is_empty() {
                    self.data.push('\n');
                }
                self.data.push_str(value);
            }
            _ => {}
        }
        Ok(None)
    }
}

/// Returns the complete messages in `buffer`. An exception is an error.
fn messages(decoder: &mut MessageFrameDecoder, buffer: &mut BytesMut) -> Result<Vec<Frame>, ModelError> {
    let mut frames = Vec::new();
    loop {
        let message = match decoder.decode_frame(&mut *buffer) {
            Ok(DecodedFrame::Complete(message)) => message,
            Ok(DecodedFrame::Incomplete) => return Ok(frames),
            Err(_) => return Err(ModelError::Unreadable),
        };
        let header = |name: &str| {
            let header = message.headers().iter().find(|header| header.name().as_str() == name);
            header.and_then(|header| header.value().as_string().ok()).map(|value| value.as_str().to_owned())
        };
        let data = serde_json::from_slice(message.payload()).unwrap_or(Value::Null);
        if header(":message-type").as_deref() != Some("event") {
            let kind = header(":exception-type").or_else(|| header(":error-code"));
            return Err(failure::of_body(kind.as_deref(), &data));
        }
        frames.push(Frame { event: header(":event-type").unwrap_or_default(), data });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(media_type: &str, body: &[u8], size: usize) -> Result<(Vec<Frame>, bool), ModelError> {
        let mut frames = Frames::new(media_type);
        let mut read = Vec::new();
        for chunk in body.chunks(size) {
            read.extend(frames.push(&Bytes::copy_from_slice(chunk))?);
        }
        let (last, is_whole) = frames.end()?;
        read.extend(last);
        Ok((read, is_whole))
    }

    fn frame(event: &str, data: Value) -> Frame {
        Frame { event: event.into(), data }
    }

    #[test]
    fn events_are_read_wherever_a_chunk_ends() {
        let body = ": hello\r\n\r\nevent: ping\r\ndata: {\"a\":\"é山\"}\r\n\r\ndata:{\"b\":\ndata: 2}\nid: 7\n\nretry\n\ndata: [DONE]";
        for size in 1..body.len() {
            let (frames, is_whole) = read("text/event-stream; charset=utf-8", body.as_bytes(), size).unwrap();
            assert_eq!(
                frames,
                [frame("ping", json!({"a": "é山"})), frame("", json!({"b": 2})), frame(DONE, Value::Null)]
            );
            assert!(!is_whole);
        }
    }

    #[test]
    fn a_body_that_is_not_a_stream_is_one_piece_and_a_stream_of_another_media_type_is_read() {
        let (frames, is_whole) = read("application/json", b" {\"a\":1}", 3).unwrap();
        assert_eq!((frames, is_whole), (vec![frame("", json!({"a": 1}))], true));
        let (frames, is_whole) = read("text/plain", b"data: {\"a\":1}\n\ndata: [DONE]\n\n", 3).unwrap();
        assert_eq!((frames.len(), is_whole), (2, false));
        for body in ["<html>", "", "{\"a\""] {
            assert_eq!(read("text/html", body.as_bytes(), 2).unwrap_err(), ModelError::Unreadable);
        }
        assert_eq!(read("text/event-stream", b"data: {\n\n", 4).unwrap_err(), ModelError::Unreadable);
    }

    #[test]
    fn messages_are_read_wherever_a_chunk_ends_and_an_incomplete_one_is_dropped() {
        use aws_smithy_eventstream::frame::write_message_to;
        use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
        let message = |headers: &[(&'static str, &'static str)], payload: Value| {
            let headers =
                headers.iter().map(|(name, value)| Header::new(*name, HeaderValue::String((*value).into())));
            let mut bytes = Vec::new();
            let message = Message::new_from_parts(headers.collect(), payload.to_string());
            write_message_to(&message, &mut bytes).unwrap();
            bytes
        };
        let media_type = "application/vnd.amazon.eventstream";
        let first = message(&[(":message-type", "event"), (":event-type", "messageStart")], json!({"a": 1}));
        let mut body = first.clone();
        body.extend(&first);
        for size in [1, 7, 50, body.len()] {
            let (frames, _) = read(media_type, &body, size).unwrap();
            assert_eq!(
                frames,
                [frame("messageStart", json!({"a": 1})), frame("messageStart", json!({"a": 1}))]
            );
        }
        assert_eq!(read(media_type, &body[..body.len() - 1], 9).unwrap().0.len(), 1);
        body[first.len() + 20] ^= 1;
        assert_eq!(read(media_type, &body, 9).unwrap_err(), ModelError::Unreadable);
        let exception = [(":message-type", "exception"), (":exception-type", "throttlingException")];
        let error = read(media_type, &message(&exception, json!({"message": "slow down"})), 64).unwrap_err();
        assert_eq!(error, ModelError::Busy { status: 429, retry_after: None });
    }
}
