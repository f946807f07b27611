//! Errors in one text: [`chain`], and addresses in it: [`shown_url`].

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

/// Returns `url` without user name and password, which `reqwest` sends and nobody should see.
pub fn shown_url(url: &str) -> String {
    match reqwest::Url::parse(url) {
        Ok(mut parsed) if !parsed.username().is_empty() || parsed.password().is_some() => {
            // Neither fails for a URL with a user name or a password.
            let _ = (parsed.set_username(""), parsed.set_password(None));
            parsed.to_string()
        }
        _ => url.to_owned(),
    }
}
