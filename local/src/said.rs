//! What went wrong, in one line, for people.

use std::error::Error;

use aws_sdk_dynamodb::error::ProvideErrorMetadata;

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
    one_line(&words)
}

fn one_line(words: &str) -> String {
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}
