//! `UIMessage`s, bodies of HTTP requests, files to import and segments.

use std::io::Write;

use annals_channel::testing;
use annals_core::chat_key::ChatKey;
use annals_core::message::{Part, UiMessage};
use annals_core::settings::Env;
use annals_core::sort_key::Timestamp;
use annals_engine::settings::ViewConfig;
use annals_http::bodies;
use annals_local::import::{self, Options};
use annals_store::history::reread_segment;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

/// Maximum length of the detail of a refusal, in bytes: it describes the shape of a body, and quotes none of it.
const MAX_DETAIL_BYTES: usize = 1024;

/// Checks a `UIMessage`: it is written as it came, and any reader can parse it after [`UiMessage::flatten`].
pub fn check_ui_message(data: &[u8]) {
    let Ok(message) = serde_json::from_slice::<UiMessage>(data) else { return };
    let written = serde_json::to_value(&message).unwrap();
    let mut came: Value = serde_json::from_slice(data).unwrap();
    if message.metadata.is_empty() {
        came.as_object_mut().unwrap().remove("metadata");
    }
    assert_eq!(written, came);
    for (name, value) in came.as_object().unwrap() {
        assert_eq!(written[name].to_string(), value.to_string(), "{name}: keys in another order");
    }
    let (_, _) = (message.plain_text(), message.has_open_call());

    let mut flat = message.clone();
    flat.flatten();
    assert!(!flat.parts.iter().any(Part::is_too_deep));
    let again = serde_json::to_string(&flat).unwrap();
    assert_eq!(serde_json::from_str::<UiMessage>(&again).unwrap(), flat);
    let once = flat.clone();
    flat.flatten();
    assert_eq!(flat, once);

    for share in [0.0, 0.5, 1.0] {
        let mut short = message.clone();
        short.shorten(share);
        assert_eq!(short.parts.len(), message.parts.len());
    }
}

/// Checks the body of a request to each route: it is refused with a short detail, the same each time.
pub fn check_http_body(data: &[u8]) {
    let details = bodies::parse_all(data);
    assert!(details.iter().all(|detail| detail.len() <= MAX_DETAIL_BYTES), "{details:?}");
    assert_eq!(bodies::parse_all(data), details);
}

/// Checks a file to import, of any format.
pub fn check_import(data: &[u8]) {
    let env = |_: &str| None;
    let mut options = Options {
        chat: None,
        now: Timestamp::MAX,
        bot: None,
        admin_keys: Some(vec!["dev".to_owned()]),
        settings: testing::settings(),
        view: ViewConfig::from_env(Env::new(&env)).unwrap(),
    };
    let found = import::parse_all(data, &options).ok();
    options.chat = Some(ChatKey::telegram(42, None));
    options.bot = Some(7_000_001);
    let again = import::parse_all(data, &options).ok();
    let entries = found.max(again).unwrap_or_default();
    assert!(entries <= data.len(), "more entries than bytes");
}

/// Checks a segment, as gzip and as the lines in it: it is refused, or written as lines that are read and written as
/// themselves.
pub fn check_segment(data: &[u8]) {
    let chat = ChatKey::telegram(42, None);
    for gzip in [data.to_vec(), gzip(data)] {
        let Ok(lines) = reread_segment(&gzip, &chat) else { continue };
        assert_eq!(reread_segment(&self::gzip(&lines), &chat), Ok(lines));
    }
}

pub(crate) fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}
