//! Webhooks of Telegram, Lark and Discord.

use annals_channel::testing::{settings, survives};
use annals_channel_discord as discord;
use annals_channel_lark as lark;
use annals_channel_lark::verify::{Secrets, Signature, Verified, encrypt, sign, verify};
use annals_channel_telegram as telegram;
use serde_json::{Value, json};

const KEY: &str = "an encrypt key";
const TOKEN: &str = "v3rification";

/// Checks an update of Telegram: only what is no object is refused, and each draft can be stored.
pub fn check_telegram(data: &[u8]) {
    let Ok(update) = serde_json::from_slice::<Value>(data) else { return };
    let bot = telegram::bot::Bot { id: 7_000_001, username: Some("AnnalsBot".into()) };
    survives(&update, |update| telegram::parse::parse(update, &bot, &settings()));
    let _ = telegram::parse::needs_username(&update);
}

/// Checks a call of Lark: as it is, which nothing verifies; and as the plain text of a call that is encrypted and signed.
pub fn check_lark(data: &[u8]) {
    let secrets = Secrets { encrypt_key: Some(KEY), verification_token: TOKEN };
    let plain_secrets = Secrets { encrypt_key: None, verification_token: TOKEN };
    let unsigned = Signature::default();
    if let Ok(Verified::Event(event)) = verify(&unsigned, data, &plain_secrets) {
        check_lark_event(&event);
    }
    assert!(!matches!(verify(&unsigned, data, &secrets), Ok(Verified::Event(_))), "unsigned");
    let forged = Signature { timestamp: Some(b"1"), nonce: Some(b"2"), signature: Some(data) };
    assert!(verify(&forged, data, &secrets).is_err(), "forged");
    // Signed, with anything in place of an encrypted event.
    let of = |body: &[u8]| sign(b"1", b"2", KEY, body);
    let signature = of(data);
    let signed = Signature { signature: Some(signature.as_bytes()), ..forged };
    if let Ok(Verified::Event(event)) = verify(&signed, data, &secrets) {
        check_lark_event(&event);
    }
    // Encrypted and signed.
    let body = json!({"encrypt": encrypt(KEY, data).unwrap()}).to_string();
    let signature = of(body.as_bytes());
    let signed = Signature { signature: Some(signature.as_bytes()), ..forged };
    if let Ok(Verified::Event(event)) = verify(&signed, body.as_bytes(), &secrets) {
        assert_eq!(serde_json::from_slice::<Value>(data).unwrap(), event);
    }
    if let Ok(event) = serde_json::from_slice::<Value>(data) {
        check_lark_event(&event);
    }
}

fn check_lark_event(event: &Value) {
    let bot = lark::bot::Bot { app_id: Some("cli_annals".into()), open_id: Some("ou_annals".into()) };
    survives(event, |event| lark::parse::parse(event, &bot, &settings()));
    let _ = (
        lark::parse::needs_open_id(event),
        lark::parse::has_own_time(event),
        lark::parse::missing_thread(event),
    );
}

/// Checks a call of Discord: an interaction, a webhook event, or a dispatch of the gateway.
pub fn check_discord(data: &[u8]) {
    // No bytes sign themselves.
    let half = data.split_at(data.len() / 2);
    assert!(!discord::verify::is_signed(&[7; discord::verify::KEY_BYTES], Some(half.0), Some(half.1), data));
    let _ = std::str::from_utf8(data).ok().and_then(discord::verify::public_key);
    let Ok(call) = serde_json::from_slice::<Value>(data) else { return };
    let bot = discord::bot::Bot { id: "1457469483726668048".into() };
    survives(&call, |call| discord::parse::parse(call, &bot, &settings()).map(|events| events.incoming));
}
