//! Formats errors for people: in one line, without debug output.

use std::error::Error;

pub(crate) use annals_io::errors::shown_url;
use aws_sdk_dynamodb::error::ProvideErrorMetadata;

/// The SDK's error for a profile that signs in by a method that it was built without: `sso`, `credentials-login` or
/// `credentials-process`. The functions need none of these, and would start more slowly with them.
const NOT_BUILT: &str = "This behavior requires following cargo feature(s) enabled";
/// The SDK's error for the next request after that.
const TAKEN: &str =
    "unexpected credentials error: profile file credentials provider initialization error already taken";
/// Remedy for it.
const EXPORT: &str = "this program cannot sign in to AWS as the profile says (SSO, `aws login` or a process); have the AWS CLI \
                      do it, and run this again: eval \"$(aws configure export-credentials --format env)\"";

/// Returns the code and the message of an error of AWS, or else the error of the request.
pub(crate) fn aws_message(error: &(impl ProvideErrorMetadata + Error)) -> String {
    match (error.code(), error.message()) {
        (Some(code), Some(message)) => one_line(&format!("{code}: {message}")),
        (Some(code), None) => code.to_owned(),
        (None, _) => chain(error),
    }
}

/// Returns an error with its causes.
pub(crate) fn chain(error: &dyn Error) -> String {
    one_line(&plain(&annals_io::errors::chain(error)))
}

/// Returns `words` with the remedy in place of the SDK's own if it cannot sign in.
pub(crate) fn plain(words: &str) -> String {
    if words.contains(NOT_BUILT) {
        return EXPORT.to_owned();
    }
    words.replace(TAKEN, "there are no credentials, as said before")
}

/// Returns `1 chat`, or `2 chats`.
pub(crate) fn counted(number: u64, one: &str, more: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { more })
}

fn one_line(words: &str) -> String {
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_that_needs_the_cli_names_the_command() {
        let sso = format!("dispatch failure: {NOT_BUILT}: sso. To use it, …");
        assert_eq!(plain(&sso), EXPORT);
        assert_eq!(plain("an (odd) thing\n\n  to do"), "an (odd) thing\n\n  to do");
    }
}
