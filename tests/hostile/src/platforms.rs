//! Webhooks of Telegram, Lark and Discord.

use annals_channel::testing::{check_sound, draft_of, settings, survives};
use annals_channel::webhook::Verified;
use annals_channel_discord as discord;
use annals_channel_lark as lark;
use annals_channel_lark::settings::LarkConfig;
use annals_channel_lark::verify::{NONCE_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, encrypt, sign, verify};
use annals_channel_telegram as telegram;
use annals_core::testing::stored;
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
    let config = |encrypt_key: Option<&str>| LarkConfig {
        app_id: String::new(),
        app_secret: "".into(),
        verification_token: TOKEN.into(),
        encrypt_key: encrypt_key.map(Into::into),
        api_base: String::new(),
        group_context: 0,
    };
    let (plain, keyed) = (config(None), config(Some(KEY)));
    let verified = |signature: Option<&[u8]>, body: &[u8], config: &LarkConfig| {
        let (timestamp, nonce) = (Some(&b"1"[..]), Some(&b"2"[..]));
        let headers = [(TIMESTAMP_HEADER, timestamp), (NONCE_HEADER, nonce), (SIGNATURE_HEADER, signature)];
        let headers = headers.into_iter();
        let headers = headers.filter_map(|(name, value)| Some((name.parse().ok()?, value?.try_into().ok()?)));
        verify(&headers.collect(), body, config)
    };
    if let Ok(Verified::Event(event)) = verified(None, data, &plain) {
        check_lark_event(&event);
    }
    assert!(!matches!(verified(None, data, &keyed), Ok(Verified::Event(_))), "unsigned");
    // What a header can hold of it.
    let forged: &[u8] = if data.iter().all(|byte| *byte >= 32 && *byte != 127) { data } else { b"" };
    assert!(verified(Some(forged), data, &keyed).is_err(), "forged");
    // Signed, with anything in place of an encrypted event.
    let of = |body: &[u8]| sign(b"1", b"2", KEY, body);
    if let Ok(Verified::Event(event)) = verified(Some(of(data).as_bytes()), data, &keyed) {
        check_lark_event(&event);
    }
    // Encrypted and signed.
    let body = json!({"encrypt": encrypt(KEY, data).unwrap()}).to_string();
    let body = body.as_bytes();
    if let Ok(Verified::Event(event)) = verified(Some(of(body).as_bytes()), body, &keyed) {
        assert_eq!(serde_json::from_slice::<Value>(data).unwrap(), event);
    }
    if let Ok(event) = serde_json::from_slice::<Value>(data) {
        check_lark_event(&event);
    }
}

fn check_lark_event(event: &Value) {
    let bot = lark::bot::Bot { app_id: Some("cli_annals".into()), open_id: Some("ou_annals".into()) };
    for draft in survives(event, |event| lark::parse::parse(event, &bot, &settings())) {
        assert!(lark::address::Address::of(&stored(&draft)).is_some());
    }
    let _ = (
        lark::parse::needs_open_id(event),
        lark::parse::has_own_time(event),
        lark::parse::missing_thread(event),
    );
    let items = event["data"]["items"].as_array().cloned().unwrap_or_else(|| vec![event.clone()]);
    for item in &items {
        check_lark_item(item, &items, &bot);
    }
}

/// Checks an item of the API's lists: it gives a draft that can be stored and asks nothing.
fn check_lark_item(item: &Value, items: &[Value], bot: &lark::bot::Bot) {
    let _ = lark::parse::places(item, &settings());
    let message = json!({"message_id": "om_9", "chat_id": item["chat_id"], "thread_id": item["thread_id"],
        "parent_id": item["message_id"], "chat_type": "group", "create_time": "1764057600000", "content": "so?"});
    let event = json!({"header": {"event_type": "im.message.receive_v1"}, "event": {"message": message}});
    let found = lark::parse::parse(&event, bot, &settings()).unwrap();
    let Some(beside) = draft_of(&found[0]) else { return };
    if let Some(draft) = lark::listed::from_listed(item, beside, bot) {
        check_sound(&draft);
        assert!(!draft.asks);
    }
    check_sound(&lark::listed::with_children(beside.clone(), items));
    check_sound(&lark::listed::with_parent(beside.clone(), items, bot));
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
