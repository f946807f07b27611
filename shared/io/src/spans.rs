//! Spans that name the chat of log lines.

use annals_core::chat_key::ChatKey;
use tracing::Span;
use tracing::field::display;

/// Creates the span of the work for `chat`. Its level is that of errors, so that no filter removes it.
pub fn of_chat(chat: &ChatKey) -> Span {
    tracing::error_span!("chat", session = %chat.session_id())
}

/// Names `chat` in the log lines of the current request from now on.
pub fn about(chat: &ChatKey) {
    Span::current().record("session", display(chat.session_id()));
}
