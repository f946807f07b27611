//! Comparison of secrets: [`is_same`].

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};

/// Returns true if `given`, from outside, is `secret`. An empty secret is never matched.
///
/// Compares digests in constant time, so that the time taken reveals neither the secret nor its length.
/// `bench/secrets` measures it.
#[allow(clippy::disallowed_methods, reason = "the one place where secrets are compared")]
pub fn is_same(given: &[u8], secret: &[u8]) -> bool {
    let [given, known] = [given, secret].map(|bytes| digest(&SHA256, bytes));
    verify_slices_are_equal(given.as_ref(), known.as_ref()).is_ok() && !secret.is_empty()
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
