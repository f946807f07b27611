//! Tests of verification: vectors of this project and of other libraries, and random input.

use annals_test_support::fixtures::vectors;
use proptest::prelude::*;
use serde_json::json;

use super::*;

const KEY: &str = "an encrypt key 🔑";
const TOKEN: &str = "v3rification";

fn config(encrypt_key: Option<&str>, verification_token: &str) -> LarkConfig {
    LarkConfig {
        app_id: "cli_1".into(),
        app_secret: "s".into(),
        verification_token: verification_token.into(),
        encrypt_key: encrypt_key.map(Into::into),
        api_base: String::new(),
        group_context: 0,
    }
}

fn with_key() -> LarkConfig {
    config(Some(KEY), TOKEN)
}

fn without_key() -> LarkConfig {
    config(None, TOKEN)
}

fn encrypted(key: &str, plain: &[u8]) -> Vec<u8> {
    json!({ "encrypt": encrypt(key, plain).unwrap() }).to_string().into_bytes()
}

fn headers<'a>(of: impl IntoIterator<Item = (&'a str, &'a str)>) -> HeaderMap {
    of.into_iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
}

fn signed(signature: &str) -> HeaderMap {
    headers([(TIMESTAMP_HEADER, "1764057600"), (NONCE_HEADER, "n1"), (SIGNATURE_HEADER, signature)])
}

fn signature_of(body: &[u8]) -> String {
    sign(b"1764057600", b"n1", KEY, body)
}

fn event() -> Value {
    json!({"schema": "2.0", "header": {"event_type": "im.message.receive_v1", "token": TOKEN}, "event": {}})
}

fn challenge() -> Value {
    json!({"challenge": "c1", "token": TOKEN, "type": "url_verification"})
}

/// Returns the answer to [`challenge`].
fn answer() -> Verified {
    Verified::Answer(Response::Json(json!({"challenge": "c1"})))
}

fn reason(headers: &HeaderMap, body: &[u8], config: &LarkConfig) -> Reason {
    verify(headers, body, config).unwrap_err()
}

#[test]
fn a_signed_encrypted_event_is_read() {
    let body = encrypted(KEY, event().to_string().as_bytes());
    let signature = signature_of(&body);
    assert_eq!(verify(&signed(&signature), &body, &with_key()), Ok(Verified::Event(event())));

    // Changes of the body, the signature, the other headers, the case of its letters; each header missing.
    let spaced = [body.clone(), b" ".to_vec()].concat();
    assert_eq!(reason(&signed(&signature), &spaced, &with_key()), Reason::Signature);
    let upper = signature.to_uppercase();
    assert_eq!(reason(&signed(&upper), &body, &with_key()), Reason::Signature);
    for wrong in ["", &signature[1..], "0"] {
        assert_eq!(reason(&signed(wrong), &body, &with_key()), Reason::Signature);
    }
    let without = |name: &str| {
        let mut headers = signed(&signature);
        headers.remove(name);
        headers
    };
    assert_eq!(reason(&without(TIMESTAMP_HEADER), &body, &with_key()), Reason::Signature);
    assert_eq!(reason(&without(NONCE_HEADER), &body, &with_key()), Reason::Signature);
    assert_eq!(reason(&without(SIGNATURE_HEADER), &body, &with_key()), Reason::Unsigned);
}

#[test]
fn the_signature_is_verified_first() {
    for body in [&b"no json"[..], b"{}", b"[]", b"{\"encrypt\": \"x\"}", event().to_string().as_bytes()] {
        assert_eq!(reason(&signed("00"), body, &with_key()), Reason::Signature);
    }
    // Signed, but malformed.
    let check = |body: &[u8], wanted: Reason| {
        assert_eq!(reason(&signed(&signature_of(body)), body, &with_key()), wanted);
    };
    check(b"no json", Reason::NotJson);
    check(b"[]", Reason::NotJson);
    check(b"{\"encrypt\": \"x\"}", Reason::Ciphertext);
    check(event().to_string().as_bytes(), Reason::Plain);
    check(challenge().to_string().as_bytes(), Reason::Plain);
    check(&encrypted(KEY, b"hello world"), Reason::NotJson);
    check(&encrypted(KEY, b"[]"), Reason::NotJson);
    check(&encrypted(KEY, b"{}"), Reason::Token);
    // Under another key, one in 256 ends as if it were padded, and is no JSON then.
    let other = encrypted("another key", event().to_string().as_bytes());
    let found = reason(&signed(&signature_of(&other)), &other, &with_key());
    assert!(matches!(found, Reason::Ciphertext | Reason::NotJson), "{found:?}");
}

#[test]
fn without_a_signature_only_an_encrypted_challenge_is_accepted() {
    let unsigned = HeaderMap::new();
    let body = encrypted(KEY, challenge().to_string().as_bytes());
    assert_eq!(verify(&unsigned, &body, &with_key()), Ok(answer()));
    let wrong = json!({"challenge": "c1", "token": "other", "type": "url_verification"});
    assert_eq!(reason(&unsigned, &encrypted(KEY, wrong.to_string().as_bytes()), &with_key()), Reason::Token);
    assert_eq!(
        reason(&unsigned, &encrypted(KEY, event().to_string().as_bytes()), &with_key()),
        Reason::Unsigned
    );
    assert_eq!(reason(&unsigned, challenge().to_string().as_bytes(), &with_key()), Reason::Plain);
    assert_eq!(reason(&unsigned, event().to_string().as_bytes(), &with_key()), Reason::Plain);
    // If a challenge has a signature, it must be right.
    assert_eq!(reason(&signed("00"), &body, &with_key()), Reason::Signature);
    let signature = signature_of(&body);
    assert_eq!(verify(&signed(&signature), &body, &with_key()), Ok(answer()));
}

#[test]
fn without_a_key_the_token_decides() {
    let unsigned = HeaderMap::new();
    let check = |call: Value, wanted: Result<Verified, Reason>| {
        let found = verify(&unsigned, call.to_string().as_bytes(), &without_key());
        assert_eq!(found, wanted, "{call}");
    };
    check(challenge(), Ok(answer()));
    check(event(), Ok(Verified::Event(event())));
    let first = json!({"ts": "1.1", "token": TOKEN, "type": "event_callback", "event": {"type": "message"}});
    check(first.clone(), Ok(Verified::Event(first)));
    check(json!({"challenge": "c1", "type": "url_verification"}), Err(Reason::Token));
    check(json!({"challenge": "c1", "type": "url_verification", "token": ""}), Err(Reason::Token));
    check(json!({"challenge": 5, "type": "url_verification", "token": TOKEN}), Err(Reason::Challenge));
    check(json!({"header": {"token": "other"}, "token": TOKEN, "event": {}}), Err(Reason::Token));
    check(json!({"header": {}, "token": TOKEN, "event": {}}), Err(Reason::Token));
    check(json!({"token": [TOKEN]}), Err(Reason::Token));
    check(json!([]), Err(Reason::NotJson));
    check(json!({"encrypt": "x", "token": TOKEN}), Err(Reason::NoKey));
    // An event of schema 2, even with fields of a challenge.
    let mixed = json!({"schema": "2.0", "header": {"token": TOKEN}, "event": {}, "type": "url_verification", "challenge": "c"});
    check(mixed.clone(), Ok(Verified::Event(mixed)));
}

#[test]
fn empty_secrets_match_nothing() {
    let body = json!({"challenge": "c1", "token": "", "type": "url_verification"}).to_string();
    assert_eq!(reason(&HeaderMap::new(), body.as_bytes(), &config(None, "")), Reason::Token);
    // An empty key counts as not set: encrypted calls are refused, and a signature does not help.
    let empty = config(Some(""), TOKEN);
    let body = encrypted("", event().to_string().as_bytes());
    assert_eq!(reason(&signed(&sign(b"1764057600", b"n1", "", &body)), &body, &empty), Reason::NoKey);
}

fn field<'a>(vector: &'a Value, name: &str) -> &'a str {
    vector[name].as_str().unwrap_or_else(|| panic!("{name} of {vector}"))
}

#[test]
fn the_vectors_of_other_libraries_hold() {
    for vector in vectors("lark_decrypt") {
        let found = decrypt(field(&vector, "encrypt_key"), field(&vector, "encrypt"));
        let wanted = (vector["expect"] == "ok").then(|| field(&vector, "plaintext").as_bytes().to_vec());
        assert_eq!(found, wanted, "{}", vector["name"]);
    }
    for vector in vectors("lark_signature") {
        let [timestamp, nonce, body] =
            ["timestamp", "nonce", "body"].map(|name| field(&vector, name).as_bytes());
        let found = sign(timestamp, nonce, field(&vector, "encrypt_key"), body);
        assert_eq!(found, field(&vector, "signature"));
    }
    for vector in vectors("lark_http") {
        let given = vector["headers"].as_object().unwrap().iter();
        let given = given.map(|(name, value)| (name.as_str(), value.as_str().unwrap()));
        let config = config(vector["encrypt_key"].as_str(), field(&vector, "verification_token"));
        let found = verify(&headers(given), field(&vector, "body").as_bytes(), &config);
        let expect = &vector["expect"];
        let is_as_wanted = match &found {
            Ok(Verified::Answer(Response::Json(answer))) => {
                expect["challenge"] == answer["challenge"] && expect["status"] == 200
            }
            Ok(Verified::Event(event)) => {
                let kind = event["header"]["event_type"].as_str().map(str::to_owned);
                let kind = kind.or_else(|| event["event"]["type"].as_str().map(|kind| format!("v1 {kind}")));
                expect["event"].as_str() == kind.as_deref() && expect["status"] == 200
            }
            Ok(_) => false,
            Err(_) => expect["status"] == "reject",
        };
        assert!(is_as_wanted, "{}: {found:?}", vector["name"]);
    }
}

proptest! {
    #[test]
    fn random_ciphertexts_never_panic(data in prop::collection::vec(any::<u8>(), 0..200), text in ".{0,80}") {
        let _ = decrypt(KEY, &STANDARD.encode(&data));
        let _ = decrypt(KEY, &text);
        let body = json!({"encrypt": STANDARD.encode(&data)}).to_string().into_bytes();
        prop_assert!(verify(&HeaderMap::new(), &body, &with_key()).is_err());
        prop_assert!(verify(&signed(&signature_of(&body)), &body, &with_key()).is_err());
    }

    #[test]
    fn encrypted_data_is_decrypted(plain in prop::collection::vec(any::<u8>(), 0..100), key in ".{0,20}") {
        let body: Value = serde_json::from_slice(&encrypted(&key, &plain)).unwrap();
        prop_assert_eq!(decrypt(&key, body["encrypt"].as_str().unwrap()), Some(plain));
    }
}
