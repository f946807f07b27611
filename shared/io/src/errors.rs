//! Errors in one text: [`chain`].

use std::error::Error;

/// Returns `error` with its causes, since some errors say only where they happened ("service error"). Unlike the debug output
/// of an SDK's error it has nothing of the response's body, which may hold an item.
pub fn chain(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.map(ToString::to_string).fold(error.to_string(), |said, cause| {
        // Some errors repeat the message of their cause.
        if said.ends_with(&cause) { said } else { format!("{said}: {cause}") }
    })
}
