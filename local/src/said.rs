//! What went wrong, in words for people: one line, with nothing in it that is for programmers.

use std::error::Error;

use aws_sdk_dynamodb::error::ProvideErrorMetadata;

/// What the SDK says where a profile signs in by a way that it was built without: `sso`, `credentials-login` or
/// `credentials-process`. The functions need none of these, and would start later with them.
const NOT_BUILT: &str = "This behavior requires following cargo feature(s) enabled";
/// What it says when it is asked once more.
const TAKEN: &str =
    "unexpected credentials error: profile file credentials provider initialization error already taken";
/// What to do then.
const EXPORT: &str = "this program cannot sign in to AWS as the profile says (SSO, `aws login` or a process); have the AWS CLI \
                      do it, and run this again: eval \"$(aws configure export-credentials --format env)\"";

/// How the SDK's errors begin where they are printed for programmers, behind their words.
const DEBUG: [&str; 5] = [
    " (ConstructionFailure(",
    " (TimeoutError(",
    " (DispatchFailure(",
    " (ResponseError(",
    " (ServiceError(",
];

/// The address `url` without the name and the password that it may hold: `reqwest` sends them, and nobody is shown them.
pub(crate) fn shown_url(url: &str) -> String {
    match reqwest::Url::parse(url) {
        Ok(mut parsed) if !parsed.username().is_empty() || parsed.password().is_some() => {
            // Neither fails where there is a name or a password.
            let _ = (parsed.set_username(""), parsed.set_password(None));
            parsed.to_string()
        }
        _ => url.to_owned(),
    }
}

/// What AWS said, by its code and its words; else what became of the request.
pub fn said(error: &(impl ProvideErrorMetadata + Error)) -> String {
    match (error.code(), error.message()) {
        (Some(code), Some(message)) => one_line(&format!("{code}: {message}")),
        (Some(code), None) => code.to_owned(),
        (None, _) => chain(error),
    }
}

/// An error with its causes.
pub fn chain(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        // Some repeat their cause's words.
        if !words.ends_with(&more) {
            words = format!("{words}: {more}");
        }
        cause = error.source();
    }
    one_line(&plain(&words))
}

/// `words` without what the SDK adds for programmers, and with what to do where it cannot sign in.
pub fn plain(words: &str) -> String {
    let end = DEBUG.iter().filter_map(|debug| words.find(debug)).min().unwrap_or(words.len());
    match words.find(NOT_BUILT) {
        Some(_) => EXPORT.to_owned(),
        None => words[..end].replace(TAKEN, "there are no credentials, as said before"),
    }
}

/// `1 chat`, `2 chats`.
pub fn counted(number: u64, one: &str, more: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { more })
}

fn one_line(words: &str) -> String {
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_for_programmers_is_left_out() {
        let whole = "put an item: service error: unhandled error: no room (ServiceError(ServiceError { source: X(\"y\") }))";
        assert_eq!(plain(whole), "put an item: service error: unhandled error: no room");
        assert_eq!(plain("an (odd) thing\n\n  to do"), "an (odd) thing\n\n  to do");
        let sso = format!("dispatch failure: {NOT_BUILT}: sso. To use it, …");
        assert_eq!(plain(&sso), EXPORT);
    }
}
