//! What a terminal takes beside text: the one answer for all that is printed.

use std::io::IsTerminal;

use annals_shared::config::Env;

/// Whether what is printed to `stream` may have colours: on a terminal that is not dumb, unless `NO_COLOR` is set.
pub fn has_colours(env: Env<'_>, stream: &impl IsTerminal) -> bool {
    can_move(env, stream) && env.optional("NO_COLOR").is_none()
}

/// Whether what stands on `stream` may be written over, as a spinner does: on a terminal that is not dumb.
pub fn can_move(env: Env<'_>, stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && env.optional("TERM").is_none_or(|term| term != "dumb")
}
