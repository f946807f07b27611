//! Verifies that a call comes from Discord: [`is_signed`].
//!
//! Discord signs the timestamp and the body with the application's Ed25519 key, and sends calls with wrong signatures to find
//! out if they are refused. There is no time window, since a replay is only a duplicate.
//!
//! Source: <https://discord.com/developers/docs/interactions/overview#setting-up-an-endpoint-validating-security-request-headers>.

use ring::signature::{ED25519, UnparsedPublicKey};

/// Header with the signature: 64 bytes in hex.
pub const SIGNATURE_HEADER: &str = "x-signature-ed25519";
/// Header with the signed time, in epoch seconds.
pub const TIMESTAMP_HEADER: &str = "x-signature-timestamp";

/// Length of a public key, in bytes.
pub const KEY_BYTES: usize = 32;

/// Returns true if `signature`, in hex, is that of `timestamp` and `body` by the owner of `public_key`. `body` has to be
/// unchanged, byte for byte. A missing header never matches.
pub fn is_signed(
    public_key: &[u8; KEY_BYTES],
    signature: Option<&[u8]>,
    timestamp: Option<&[u8]>,
    body: &[u8],
) -> bool {
    let (Some(signature), Some(timestamp)) = (signature, timestamp) else { return false };
    let Ok(signature) = hex::decode(signature) else { return false };
    let signed = [timestamp, body].concat();
    UnparsedPublicKey::new(&ED25519, public_key).verify(&signed, &signature).is_ok()
}

/// Parses a public key: 32 bytes in hex.
pub fn public_key(text: &str) -> Option<[u8; KEY_BYTES]> {
    hex::decode(text).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use annals_test_support::fixtures::vectors;

    use super::*;

    #[test]
    fn all_vectors_of_the_platform_s_own_sdks_hold() {
        for case in vectors("discord_ed25519") {
            let field = |name: &str| case[name].as_str().unwrap();
            let is_valid = public_key(field("public_key_hex")).is_some_and(|key| {
                let signature = Some(field("signature_hex").as_bytes());
                is_signed(&key, signature, Some(field("timestamp").as_bytes()), field("body").as_bytes())
            });
            assert_eq!(is_valid, case["expect_valid"], "{}", case["name"]);
        }
    }

    #[test]
    fn a_call_without_its_headers_is_not_signed() {
        let valid = vectors("discord_ed25519").into_iter().find(|case| case["expect_valid"] == true).unwrap();
        let field = |name: &str| valid[name].as_str().unwrap().as_bytes();
        let key = public_key(valid["public_key_hex"].as_str().unwrap()).unwrap();
        let (signature, timestamp, body) = (field("signature_hex"), field("timestamp"), field("body"));
        assert!(is_signed(&key, Some(signature), Some(timestamp), body));
        assert!(!is_signed(&key, None, Some(timestamp), body));
        assert!(!is_signed(&key, Some(signature), None, body));
        assert!(!is_signed(&key, Some(b""), Some(timestamp), body));
        assert!(!is_signed(&key, Some(b"\xff\xfe"), Some(timestamp), body));
    }
}
