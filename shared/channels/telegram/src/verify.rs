//! Verifies that a webhook call comes from Telegram: [`secret_matches`].

use annals_core::secret::is_same;

/// Header with the secret that was given to `setWebhook`.
///
/// Source: `secret_token` of [`setWebhook`](https://core.telegram.org/bots/api#setwebhook).
pub const SECRET_HEADER: &str = "x-telegram-bot-api-secret-token";

/// Returns true if `header`, the bytes of [`SECRET_HEADER`], equals `secret`. A missing header never matches, and an empty
/// secret is never matched.
pub fn secret_matches(header: Option<&[u8]>, secret: &str) -> bool {
    header.is_some_and(|header| is_same(header, secret.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_secret_itself_matches() {
        assert!(secret_matches(Some(b"s3cret_Token-1"), "s3cret_Token-1"));
        let others: [&[u8]; 6] =
            [b"", b"s3cret_Token-", b"s3cret_Token-11", b"S3cret_Token-1", b"\xff\xfe", b"s3cret_Token-1 "];
        for other in others {
            assert!(!secret_matches(Some(other), "s3cret_Token-1"));
        }
    }

    #[test]
    fn a_missing_header_or_an_empty_secret_never_matches() {
        assert!(!secret_matches(None, "secret"));
        assert!(!secret_matches(None, ""));
        assert!(!secret_matches(Some(b""), ""));
    }
}
