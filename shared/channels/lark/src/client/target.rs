//! Destination of a message, and its optional parts: [`Target`].

use ring::digest::{SHA256, digest};

use super::super::address::Address;
use super::super::render::Chunk;
use super::{CallError, code};

/// Returns the `uuid` of chunk number `chunk` of the reply that is stored at `key` (chat and sort key): 32 characters,
/// the same in every attempt.
pub fn uuid(key: &str, chunk: usize) -> String {
    let hash = digest(&SHA256, format!("{key}\n{chunk}").as_bytes());
    hex::encode(&hash.as_ref()[..16])
}

/// A message to send. Its form is not decided yet.
pub(super) struct Piece {
    pub(super) chunk: Chunk,
    pub(super) uuid: String,
}

/// Destination of a message.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) chat_id: &'a str,
    pub(super) message_id: Option<&'a str>,
    pub(super) in_thread: bool,
    pub(super) survives_recall: bool,
}

impl<'a> Target<'a> {
    pub(super) fn of(address: &'a Address) -> Self {
        let Address { chat_id, message_id, in_thread, survives_recall } = address;
        let (in_thread, survives_recall) = (*in_thread, *survives_recall);
        Self { chat_id, message_id: message_id.as_deref(), in_thread, survives_recall }
    }

    /// Returns the destination of the messages after the first one of a reply.
    pub(super) fn after_the_first(self) -> Self {
        Self { message_id: self.message_id.filter(|_| self.in_thread), ..self }
    }

    /// Returns the pieces to send instead of `piece`, which Lark refused with `error`, and the name of the part that is
    /// left out. Returns `error` if there is nothing to leave out. A part is left out for the rest of the reply, so the
    /// loop ends.
    pub(super) fn leave_out(
        &mut self,
        piece: Piece,
        error: CallError,
    ) -> Result<(Vec<Piece>, &'static str), CallError> {
        let Some(code) = error.code() else { return Err(error) };
        let is_reply = self.message_id.is_some();
        if is_reply && self.in_thread && code::is_about_thread(code) {
            self.in_thread = false;
            return Ok((vec![piece], "thread"));
        }
        if code::is_about_form(code)
            && let Some(chunk) = piece.chunk.to_plain()
        {
            return Ok((vec![Piece { chunk, ..piece }], "card"));
        }
        // In a thread the reply stays in the thread: outside of it, nobody would know what it answers.
        let is_about_reply = code::is_about_reply(code) || (code == code::RECALLED && self.survives_recall);
        if is_reply && !self.in_thread && is_about_reply {
            self.message_id = None;
            return Ok((vec![piece], "quotation"));
        }
        if code == code::TOO_LONG {
            let halves = piece.chunk.halves();
            if halves.len() > 1 {
                let part = |(n, chunk)| Piece { chunk, uuid: uuid(&piece.uuid, n) };
                return Ok((halves.into_iter().enumerate().map(part).collect(), "its length"));
            }
        }
        Err(error)
    }
}
