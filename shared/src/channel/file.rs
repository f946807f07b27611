//! Files that people sent, as a platform gives them back: what both clients share.

use reqwest::Response;

/// A platform did not give a file. No word of it names the bot's secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// It is larger than what was asked for, or than the platform gives to bots.
    #[error("the file is too large")]
    TooLarge,
    /// The platform has it no longer, or does not give it out: the same request would be refused again.
    #[error("the file is not given out: {0}")]
    Gone(String),
    /// It may be given later: no connection, no complete answer, trouble on the platform's side, or a token or a permission
    /// that somebody can put right.
    #[error("the file cannot be had now: {0}")]
    Unavailable(String),
    /// There is no such platform here: its channel is not set up.
    #[error("its channel is not set up")]
    NoChannel,
}

/// The body of `response`, if it has at most `limit` bytes; no more of it is read.
pub(super) async fn read_limited(mut response: Response, limit: usize) -> Result<Vec<u8>, FileError> {
    let is_over = |length: usize| length > limit;
    if response.content_length().is_some_and(|length| usize::try_from(length).map_or(true, is_over)) {
        return Err(FileError::TooLarge);
    }
    let mut bytes = Vec::new();
    loop {
        // The address may hold a token, and ids are nobody's business.
        let chunk = response.chunk().await.map_err(|error| unavailable(error.without_url()))?;
        let Some(chunk) = chunk else { return Ok(bytes) };
        if is_over(bytes.len() + chunk.len()) {
            return Err(FileError::TooLarge);
        }
        bytes.extend_from_slice(&chunk);
    }
}

/// The error for a request that did not get through; its address is already taken out.
pub(super) fn unavailable(error: reqwest::Error) -> FileError {
    let error = error.without_url();
    FileError::Unavailable(match error {
        error if error.is_timeout() => "timed out".into(),
        error if error.is_connect() => "no connection".into(),
        _ => "no complete answer".into(),
    })
}
