//! Comparison of secrets: [`is_same`].

use ring::digest::{SHA256, digest};
use subtle::ConstantTimeEq as _;

/// Returns true if `given`, from outside, is `secret`. An empty secret is never matched.
///
/// Compares digests in constant time, so that the time taken reveals neither the secret nor its length.
/// `bench/secrets` measures it.
#[allow(clippy::disallowed_methods, reason = "the one place where secrets are compared")]
pub fn is_same(given: &[u8], secret: &[u8]) -> bool {
    let [given, known] = [given, secret].map(|bytes| digest(&SHA256, bytes));
    bool::from(given.as_ref().ct_eq(known.as_ref())) && !secret.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_secret_is_the_same() {
        assert!(is_same(b"s3cret", b"s3cret"));
        for other in ["", "s3cre", "s3crett", "S3cret", "s3cret ", "t3cret"] {
            assert!(!is_same(other.as_bytes(), b"s3cret"), "{other}");
        }
        assert!(!is_same(b"", b"") && !is_same(b"\xff\xfe", b"s3cret"));
    }
}
