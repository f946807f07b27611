//! Where a message goes, and what it can do without: [`Target`].

use super::super::address::Address;
use super::super::render::Chunk;
use super::{SendError, code, uuid};

/// A message, before it is known in what form Lark takes it.
pub(super) struct Piece {
    pub(super) chunk: Chunk,
    pub(super) uuid: String,
}

/// Where a message goes.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) chat_id: &'a str,
    pub(super) message_id: Option<&'a str>,
    pub(super) in_thread: bool,
}

impl<'a> Target<'a> {
    pub(super) fn of(address: &'a Address) -> Self {
        let Address { chat_id, message_id, in_thread } = address;
        Self { chat_id, message_id: message_id.as_deref(), in_thread: *in_thread }
    }

    /// Where the messages behind the first one of a reply go.
    pub(super) fn behind_the_first(self) -> Self {
        Self { message_id: self.message_id.filter(|_| self.in_thread), ..self }
    }

    /// What to send instead of `piece`, which Lark refused with `error`, and what that goes without; `error` itself
    /// where nothing can be spared. Each loss is for good, so that sending ends.
    pub(super) fn spare(
        &mut self,
        piece: Piece,
        error: SendError,
    ) -> Result<(Vec<Piece>, &'static str), SendError> {
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
        // Elsewhere than in the thread nobody would know what it is about.
        if is_reply && !self.in_thread && code::is_about_reply(code) {
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
