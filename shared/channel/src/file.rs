//! Downloads of files that people sent: common parts of the platforms' clients.

use reqwest::Response;

use crate::client::{CallError, Outage};

/// A platform did not return a file. The message contains no secret of the bot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// It is larger than the limit of the caller, or than the platform's limit for bots.
    #[error("the file is too large")]
    TooLarge,
    /// The platform no longer has it, or does not release it: the same request would be refused again.
    #[error("the file is not given out: {0}")]
    Gone(String),
    /// A retry may succeed: no connection, an incomplete answer, a fault of the platform, or a token or permission that
    /// somebody can correct.
    #[error("the file is unavailable now: {0}")]
    Unavailable(String),
    /// The platform's channel is not set up here.
    #[error("its channel is not set up")]
    NoChannel,
}

/// Reads the body of `response`, if it has at most `limit` bytes; stops reading at the limit.
pub async fn read_limited(mut response: Response, limit: usize) -> Result<Vec<u8>, FileError> {
    let is_over = |length: usize| length > limit;
    if response.content_length().is_some_and(|length| usize::try_from(length).map_or(true, is_over)) {
        return Err(FileError::TooLarge);
    }
    let mut bytes = Vec::new();
    loop {
        let chunk = response.chunk().await.map_err(Outage::from)?;
        let Some(chunk) = chunk else { return Ok(bytes) };
        if is_over(bytes.len() + chunk.len()) {
            return Err(FileError::TooLarge);
        }
        bytes.extend_from_slice(&chunk);
    }
}

impl From<Outage> for FileError {
    fn from(outage: Outage) -> Self {
        Self::Unavailable(outage.to_string())
    }
}

/// A platform whose codes tell more has a function of its own.
impl From<CallError> for FileError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused { status, reason, .. } if status != 401 => Self::Gone(reason),
            // Somebody can correct a missing permission or token.
            error => Self::Unavailable(error.to_string()),
        }
    }
}
