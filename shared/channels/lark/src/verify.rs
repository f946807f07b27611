//! Verifies that a webhook call comes from Lark, and reads it: [`verify`].
//!
//! ```json
//! {"encrypt": "<base64 of iv16 ‖ AES-256-CBC of the event, PKCS#7>"}
//! {"challenge": "ajls384kdjx98XX", "token": "xxxxxx", "type": "url_verification"}
//! {"schema": "2.0", "header": {"event_type": "…", "token": "xxxxxx"}, "event": {}}
//! {"ts": "1502199207.71", "token": "xxxxxx", "type": "event_callback", "event": {"type": "message"}}
//! ```
//!
//! *Architecture invariant*: if an encrypt key is set, no part of a body is used before its signature is verified,
//! except for the one call that Lark does not sign, an encrypted `url_verification`. Plain bodies are refused then.
//! There is no time window, since a replay is only a duplicate.
//!
//! Source: [event
//! security](https://open.feishu.cn/document/server-docs/event-subscription-guide/event-subscription-configure-/encrypt-key-encryption-configuration-case).

use aes::Aes256;
use annals_channel::json::JsonView;
use annals_channel::webhook::{Response, Verified};
use annals_core::secret::is_same;
use annals_io::random;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockModeDecrypt as _, BlockModeEncrypt as _, KeyIvInit as _};
use reqwest::header::{HeaderMap, HeaderValue};
use ring::digest;
use secrecy::ExposeSecret;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::settings::LarkConfig;

/// Header with the signature, in lower-case hex.
pub const SIGNATURE_HEADER: &str = "x-lark-signature";
/// Header with the signed time.
pub const TIMESTAMP_HEADER: &str = "x-lark-request-timestamp";
/// Header with the signed nonce.
pub const NONCE_HEADER: &str = "x-lark-request-nonce";

/// Length of the initialisation vector before the ciphertext.
const IV_BYTES: usize = 16;

/// Reason for a refused call: it is not from Lark, or is malformed. For the log, never for the caller: all such calls are
/// answered alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The body, or its decrypted content, is not a JSON object.
    NotJson,
    /// A signature header is missing, or the signature is wrong.
    Signature,
    /// There is no signature, and the call is not a `url_verification`.
    Unsigned,
    /// An encrypt key is set and the body is plain.
    Plain,
    /// The body is encrypted and no encrypt key is set.
    NoKey,
    /// The ciphertext cannot be decrypted with this key.
    Ciphertext,
    /// The verification token is missing or wrong.
    Token,
    /// A `url_verification` has no challenge.
    Challenge,
}

/// Verifies a call and returns its content: a decrypted event in the envelope of either schema, for
/// [`parse`](super::parse::parse), or the answer to a `url_verification`, which is `{"challenge": …}` within a second.
/// `body` has to be unchanged, byte for byte. An empty encrypt key counts as not set, and an empty token matches nothing.
pub fn verify(headers: &HeaderMap, body: &[u8], config: &LarkConfig) -> Result<Verified, Reason> {
    let known = config.verification_token.expose_secret();
    let encrypt_key = config.encrypt_key.as_ref().map(ExposeSecret::expose_secret);
    let Some(encrypt_key) = encrypt_key.filter(|key| !key.is_empty()) else {
        // Reads only these fields at first: a `Value` of the whole body takes many times its bytes in memory.
        let marks: Marks<'_> = serde_json::from_slice(body).map_err(|_| Reason::NotJson)?;
        if marks.encrypt.is_some() {
            return Err(Reason::NoKey);
        }
        if !marks.token().is_some_and(|token| is_same(token.as_bytes(), known.as_bytes())) {
            return Err(Reason::Token);
        }
        let body: Value = serde_json::from_slice(body).map_err(|_| Reason::NotJson)?;
        return checked(body, known);
    };
    let has_signature = headers.contains_key(SIGNATURE_HEADER);
    if has_signature && !is_signed(headers, body, encrypt_key) {
        return Err(Reason::Signature);
    }
    let body: Value = serde_json::from_slice(body).map_err(|_| Reason::NotJson)?;
    let encrypted = JsonView::of(&body).ok_or(Reason::NotJson)?.text("encrypt").ok_or(Reason::Plain)?;
    let plain = decrypt(encrypt_key, encrypted).ok_or(Reason::Ciphertext)?;
    let plain: Value = serde_json::from_slice(&plain).map_err(|_| Reason::NotJson)?;
    match checked(plain, known)? {
        Verified::Event(_) if !has_signature => Err(Reason::Unsigned),
        verified => Ok(verified),
    }
}

/// Returns true if the headers sign `body`. A missing header never matches.
fn is_signed(headers: &HeaderMap, body: &[u8], encrypt_key: &str) -> bool {
    let header = |name: &str| headers.get(name).map(HeaderValue::as_bytes);
    let (Some(timestamp), Some(nonce), Some(signature)) =
        (header(TIMESTAMP_HEADER), header(NONCE_HEADER), header(SIGNATURE_HEADER))
    else {
        return false;
    };
    is_same(signature, sign(timestamp, nonce, encrypt_key, body).as_bytes())
}

/// Returns the signature of `body`: the lower-case hex of SHA-256 of timestamp, nonce, encrypt key and body,
/// concatenated.
pub fn sign(timestamp: &[u8], nonce: &[u8], encrypt_key: &str, body: &[u8]) -> String {
    let mut context = digest::Context::new(&digest::SHA256);
    for piece in [timestamp, nonce, encrypt_key.as_bytes(), body] {
        context.update(piece);
    }
    hex::encode(context.finish())
}

/// Encrypts `plain` under `encrypt_key` as Lark does, for the field `encrypt` of a call. Used by replays and tests.
/// Returns `None` if the system has no random numbers.
pub fn encrypt(encrypt_key: &str, plain: &[u8]) -> Option<String> {
    let iv = random::bytes::<IV_BYTES>().ok()?;
    let cipher = cbc::Encryptor::<Aes256>::new_from_slices(key(encrypt_key).as_ref(), &iv).ok()?;
    Some(STANDARD.encode([&iv, cipher.encrypt_padded_vec::<Pkcs7>(plain).as_slice()].concat()))
}

/// Checks the token of a decrypted call and returns its content.
fn checked(call: Value, token: &str) -> Result<Verified, Reason> {
    let view = JsonView::of(&call).ok_or(Reason::NotJson)?;
    let header = view.object("header");
    let given = header.unwrap_or(view).text("token").ok_or(Reason::Token)?;
    if !is_same(given.as_bytes(), token.as_bytes()) {
        return Err(Reason::Token);
    }
    // An event of schema 2 may have a `type` as well.
    if header.is_none() && view.text("type") == Some("url_verification") {
        let challenge = view.text("challenge").ok_or(Reason::Challenge)?;
        return Ok(Verified::Answer(Response::Json(json!({ "challenge": challenge }))));
    }
    Ok(Verified::Event(call))
}

/// Fields of a plain call that prove its origin.
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
    /// Returns the token in the header, as in schema 2, or in the call itself.
    fn token(&self) -> Option<String> {
        let raw = match self.header {
            Some(header) => serde_json::from_str::<Marks<'_>>(header.get()).ok()?.token?.get().to_owned(),
            None => self.token?.get().to_owned(),
        };
        serde_json::from_str(&raw).ok()
    }
}

/// Decrypts `data`. Returns `None` if it is not encrypted under this key.
fn decrypt(encrypt_key: &str, data: &str) -> Option<Vec<u8>> {
    let mut data = STANDARD.decode(data).ok()?;
    let (iv, ciphertext) = data.split_at_mut_checked(IV_BYTES)?;
    let cipher = cbc::Decryptor::<Aes256>::new_from_slices(key(encrypt_key).as_ref(), iv).ok()?;
    cipher.decrypt_padded::<Pkcs7>(ciphertext).ok().map(<[u8]>::to_vec)
}

/// The key of AES-256: SHA-256 of the encrypt key.
fn key(encrypt_key: &str) -> digest::Digest {
    digest::digest(&digest::SHA256, encrypt_key.as_bytes())
}

#[cfg(test)]
mod tests;
