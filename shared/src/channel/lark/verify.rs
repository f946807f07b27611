//! Whether a webhook call is Lark's, and what it says: [`verify`].
//!
//! ```json
//! {"encrypt": "<base64 of iv16 ‖ AES-256-CBC of the event, PKCS#7>"}
//! {"challenge": "ajls384kdjx98XX", "token": "xxxxxx", "type": "url_verification"}
//! {"schema": "2.0", "header": {"event_type": "…", "token": "xxxxxx"}, "event": {}}
//! {"ts": "1502199207.71", "token": "xxxxxx", "type": "event_callback", "event": {"type": "message"}}
//! ```
//!
//! *Architecture invariant*: with an encrypt key set, nothing of a body is believed before its signature, but for
//! the one call that Lark does not sign, an encrypted `url_verification`, and nothing plain is. There is no time
//! window, since a replay is a duplicate.
//!
//! Source: [event security](https://open.feishu.cn/document/server-docs/event-subscription-guide/event-subscription-configure-/encrypt-key-encryption-configuration-case).

use aws_lc_rs::cipher::{
    AES_256, DecryptionContext, PaddedBlockDecryptingKey, PaddedBlockEncryptingKey, UnboundCipherKey,
};
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::{constant_time, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::channel::view::View;

/// The header that carries the signature, in lower-case hex.
pub const SIGNATURE_HEADER: &str = "x-lark-signature";
/// The header that carries the signed time.
pub const TIMESTAMP_HEADER: &str = "x-lark-request-timestamp";
/// The header that carries the signed nonce.
pub const NONCE_HEADER: &str = "x-lark-request-nonce";

/// The length of the initialisation vector before the ciphertext, in bytes.
const IV_BYTES: usize = 16;

/// What Lark and we both know.
#[derive(Clone, Copy)]
pub struct Secrets<'a> {
    /// `LARK_ENCRYPT_KEY`; empty counts as not set.
    pub encrypt_key: Option<&'a str>,
    /// `LARK_VERIFICATION_TOKEN`; empty matches nothing.
    pub verification_token: &'a str,
}

/// The headers that sign a call, as they came.
#[derive(Clone, Copy, Debug, Default)]
pub struct Signature<'a> {
    /// [`TIMESTAMP_HEADER`]
    pub timestamp: Option<&'a [u8]>,
    /// [`NONCE_HEADER`]
    pub nonce: Option<&'a [u8]>,
    /// [`SIGNATURE_HEADER`]
    pub signature: Option<&'a [u8]>,
}

impl<'a> Signature<'a> {
    /// The headers that `lookup` finds by their names in lower case.
    pub fn of(lookup: impl Fn(&str) -> Option<&'a [u8]>) -> Self {
        Self {
            timestamp: lookup(TIMESTAMP_HEADER),
            nonce: lookup(NONCE_HEADER),
            signature: lookup(SIGNATURE_HEADER),
        }
    }

    /// Whether this signs `body`, compared in constant time. A missing header signs nothing.
    fn signs(&self, body: &[u8], encrypt_key: &str) -> bool {
        let (Some(timestamp), Some(nonce), Some(signature)) = (self.timestamp, self.nonce, self.signature)
        else {
            return false;
        };
        let expected = sign(timestamp, nonce, encrypt_key, body);
        constant_time::verify_slices_are_equal(expected.as_bytes(), signature).is_ok()
    }
}

/// What a call of Lark's says.
#[derive(Clone, Debug, PartialEq)]
pub enum Verified {
    /// `url_verification`: to be answered with `{"challenge": …}` within a second.
    Challenge(String),
    /// An event, decrypted, in the envelope of either schema: for [`parse`](super::parse::parse).
    Event(Value),
}

/// The call is not Lark's, or not what Lark sends. Every such call is to be answered alike, so that an answer tells
/// nothing of the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the call is not verifiably Lark's")]
pub struct VerifyError {
    /// For the log.
    pub reason: Reason,
}

/// Why a call was refused. For the log, never for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The body, or what is encrypted in it, is no JSON object.
    NotJson,
    /// A signature header is missing, or the signature is another's.
    Signature,
    /// There is no signature, and the call is no `url_verification`.
    Unsigned,
    /// An encrypt key is set and the body is plain.
    Plain,
    /// The body is encrypted and no encrypt key is set.
    NoKey,
    /// The ciphertext is not one of this key.
    Ciphertext,
    /// The verification token is missing or another.
    Token,
    /// A `url_verification` has no challenge.
    Challenge,
}

impl From<Reason> for VerifyError {
    fn from(reason: Reason) -> Self {
        Self { reason }
    }
}

/// What a call says, if it is Lark's: `body` as it came, byte for byte.
pub fn verify(
    signature: &Signature<'_>,
    body: &[u8],
    secrets: &Secrets<'_>,
) -> Result<Verified, VerifyError> {
    let Some(encrypt_key) = secrets.encrypt_key.filter(|key| !key.is_empty()) else {
        // Without allocating for the rest, which takes many times as much memory as a value as it does in bytes.
        let marks: Marks<'_> = serde_json::from_slice(body).map_err(|_| Reason::NotJson)?;
        if marks.encrypt.is_some() {
            return Err(Reason::NoKey.into());
        }
        if !marks.token().is_some_and(|token| is_token(&token, secrets.verification_token)) {
            return Err(Reason::Token.into());
        }
        let body: Value = serde_json::from_slice(body).map_err(|_| Reason::NotJson)?;
        return verified(body, secrets.verification_token);
    };
    let is_signed = signature.signature.is_some();
    if is_signed && !signature.signs(body, encrypt_key) {
        return Err(Reason::Signature.into());
    }
    let body: Value = serde_json::from_slice(body).map_err(|_| Reason::NotJson)?;
    let encrypted = View::of(&body).ok_or(Reason::NotJson)?.text("encrypt").ok_or(Reason::Plain)?;
    let plain = decrypt(encrypt_key, encrypted).ok_or(Reason::Ciphertext)?;
    let plain: Value = serde_json::from_slice(&plain).map_err(|_| Reason::NotJson)?;
    match verified(plain, secrets.verification_token)? {
        Verified::Event(_) if !is_signed => Err(Reason::Unsigned.into()),
        verified => Ok(verified),
    }
}

/// The signature of `body`: the lower-case hex of SHA-256 of timestamp, nonce, encrypt key and body, end to end.
pub fn sign(timestamp: &[u8], nonce: &[u8], encrypt_key: &str, body: &[u8]) -> String {
    let mut context = digest::Context::new(&digest::SHA256);
    for piece in [timestamp, nonce, encrypt_key.as_bytes(), body] {
        context.update(piece);
    }
    hex::encode(context.finish())
}

/// `plain` as Lark encrypts it under `encrypt_key`: what a call holds as `encrypt`. For replays and tests. `None` where
/// the system has no random numbers.
pub fn encrypt(encrypt_key: &str, plain: &[u8]) -> Option<String> {
    let key = digest::digest(&digest::SHA256, encrypt_key.as_bytes());
    let key = UnboundCipherKey::new(&AES_256, key.as_ref()).ok()?;
    let mut data = plain.to_vec();
    let context = PaddedBlockEncryptingKey::cbc_pkcs7(key).ok()?.encrypt(&mut data).ok()?;
    let iv: &[u8] = (&context).try_into().ok()?;
    Some(STANDARD.encode([iv, &data].concat()))
}

/// What the plain JSON of a call says, if its token is right.
fn verified(call: Value, token: &str) -> Result<Verified, VerifyError> {
    let view = View::of(&call).ok_or(Reason::NotJson)?;
    let header = view.object("header");
    let given = header.unwrap_or(view).text("token").ok_or(Reason::Token)?;
    if !is_token(given, token) {
        return Err(Reason::Token.into());
    }
    // An event of schema 2 may say `type` too, and is no challenge for it.
    if header.is_none() && view.text("type") == Some("url_verification") {
        let challenge = view.text("challenge").ok_or(Reason::Challenge)?;
        return Ok(Verified::Challenge(challenge.to_owned()));
    }
    Ok(Verified::Event(call))
}

/// The fields of a plain call that prove it Lark's.
#[derive(Deserialize)]
struct Marks<'a> {
    #[serde(borrow)]
    encrypt: Option<&'a RawValue>,
    #[serde(borrow)]
    token: Option<&'a RawValue>,
    #[serde(borrow)]
    header: Option<&'a RawValue>,
}

impl Marks<'_> {
    /// Returns the token of the header, as of schema 2, or of the call itself.
    fn token(&self) -> Option<String> {
        let raw = match self.header {
            Some(header) => serde_json::from_str::<Marks<'_>>(header.get()).ok()?.token?.get().to_owned(),
            None => self.token?.get().to_owned(),
        };
        serde_json::from_str(&raw).ok()
    }
}

/// Compared as digests, so that the time taken tells neither the token nor its length.
fn is_token(given: &str, token: &str) -> bool {
    let digest = |text: &str| digest::digest(&digest::SHA256, text.as_bytes());
    let equal = constant_time::verify_slices_are_equal(digest(given).as_ref(), digest(token).as_ref());
    equal.is_ok() && !token.is_empty()
}

/// The bytes encrypted in `data`; `None` for whatever is not encrypted under this key.
fn decrypt(encrypt_key: &str, data: &str) -> Option<Vec<u8>> {
    let mut data = STANDARD.decode(data).ok()?;
    let (iv, ciphertext) = data.split_at_mut_checked(IV_BYTES)?;
    let iv = FixedLength::<IV_BYTES>::try_from(&*iv).ok()?;
    let key = digest::digest(&digest::SHA256, encrypt_key.as_bytes());
    let key = UnboundCipherKey::new(&AES_256, key.as_ref()).ok()?;
    let key = PaddedBlockDecryptingKey::cbc_pkcs7(key).ok()?;
    key.decrypt(ciphertext, DecryptionContext::Iv128(iv)).ok().map(|plain| plain.to_vec())
}

#[cfg(test)]
mod tests;
