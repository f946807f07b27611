//! Optional parts of a message's destination: [`Target`].

use super::super::render::Styled;
use super::super::split::{LIMIT, split};
use super::CallError;

/// The optional parts of an address.
#[derive(Clone, Copy)]
pub(super) struct Target {
    pub(super) thread_id: Option<i64>,
    pub(super) reply_to: Option<i64>,
}

impl Target {
    /// Returns the pieces to send instead of `piece`, which Telegram refused with `error`, and the name of the part
    /// that is left out. Returns `error` if there is nothing to leave out. A part is left out for the rest of the
    /// reply, so the loop ends.
    pub(super) fn leave_out(
        &mut self,
        piece: Styled,
        error: CallError,
    ) -> Result<(Vec<Styled>, &'static str), CallError> {
        let CallError::Refused { status: 400, reason, .. } = &error else { return Err(error) };
        let reason = reason.to_lowercase();
        let says = |words: &[&str]| words.iter().any(|words| reason.contains(words));
        if says(&["entit"]) && !piece.entities.is_empty() {
            return Ok((split(&Styled::plain(piece.to_plain()), LIMIT), "styles"));
        }
        if says(&["thread not found", "topic_deleted"]) && self.thread_id.is_some() {
            self.thread_id = None;
            return Ok((vec![piece], "topic"));
        }
        if says(&["message to be replied not found", "replied message not found", "reply message not found"])
            && self.reply_to.is_some()
        {
            self.reply_to = None;
            return Ok((vec![piece], "quotation"));
        }
        if says(&["message is too long", "message_too_long"]) {
            let halves = split(&piece, piece.units() / 2);
            if halves.len() > 1 {
                return Ok((halves, "its length"));
            }
        }
        Err(error)
    }
}
