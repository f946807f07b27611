//! API keys, and which chats a caller may name.

use std::sync::Arc;

use annals_shared::chat_key::ChatKey;
use annals_shared::config::ApiKey;
use annals_shared::problem::Problem;
use aws_lc_rs::{constant_time, digest};
use axum::extract::FromRequestParts;
use axum::http::HeaderValue;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use secrecy::ExposeSecret;

use crate::Http;

/// The longest conversation id of a caller's own, in bytes.
pub const MAX_CHAT_ID_BYTES: usize = 512;

/// Who calls: the key that the request carries as `Authorization: Bearer <secret>`.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The key's name.
    pub name: String,
    /// Whether the key may read every chat.
    pub admin: bool,
}

impl Caller {
    /// The chat that `chat_id` names in this caller's mouth: a whole ChatKey for an admin's key where it is one, else
    /// a conversation of the key's own.
    pub fn chat(&self, chat_id: &str) -> Result<ChatKey, Problem> {
        if self.admin
            && let Ok(chat) = chat_id.parse()
        {
            return Ok(chat);
        }
        let bad = |detail: String| Problem::bad_request("bad-chat-id", "The chat id is unusable", detail);
        if chat_id.len() > MAX_CHAT_ID_BYTES {
            return Err(bad(format!("{} bytes are more than {MAX_CHAT_ID_BYTES}", chat_id.len())));
        }
        ChatKey::http(&self.name, chat_id).map_err(|error| bad(error.to_string()))
    }

    /// `user_id` as keys that cross channels have it: as it is from an admin's key, else under the key's name.
    pub fn crossing_user_id(&self, user_id: &str) -> String {
        if self.admin { user_id.to_owned() } else { format!("{}/{user_id}", self.name) }
    }
}

impl FromRequestParts<Arc<Http>> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, http: &Arc<Http>) -> Result<Self, Problem> {
        let header = parts.headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
        caller(header, &http.keys)
            .ok_or_else(|| Problem::unauthorized("send a known API key as 'Authorization: Bearer <key>'"))
    }
}

/// The key whose secret `header` carries. Compares digests, with every key, in constant time.
fn caller(header: Option<&[u8]>, keys: &[ApiKey]) -> Option<Caller> {
    let (scheme, given) = header?.split_at_checked(7)?;
    if !scheme.eq_ignore_ascii_case(b"bearer ") {
        return None;
    }
    let given = digest::digest(&digest::SHA256, given);
    let mut found = None;
    for key in keys {
        let known = digest::digest(&digest::SHA256, key.secret.expose_secret().as_bytes());
        if constant_time::verify_slices_are_equal(given.as_ref(), known.as_ref()).is_ok() {
            found = Some(Caller { name: key.name.clone(), admin: key.admin });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_known_secret_is_a_caller() {
        let keys = [
            ApiKey { name: "app".into(), secret: "s3cret".into(), admin: false },
            ApiKey { name: "ops".into(), secret: "0ps".into(), admin: true },
        ];
        let name = |header: &str| caller(Some(header.as_bytes()), &keys).map(|caller| caller.name);
        assert_eq!(name("Bearer s3cret").as_deref(), Some("app"));
        assert_eq!(name("bearer 0ps").as_deref(), Some("ops"));
        for wrong in [
            "",
            "Bearer",
            "Bearer ",
            "Bearer s3cre",
            "Bearer s3crett",
            "Basic s3cret",
            "s3cret",
            "Bearer app",
        ] {
            assert_eq!(name(wrong), None, "{wrong:?}");
        }
        assert!(caller(None, &keys).is_none());
    }

    #[test]
    fn only_an_admin_may_name_a_whole_chat_key() {
        let app = Caller { name: "app".into(), admin: false };
        let ops = Caller { name: "ops".into(), admin: true };
        assert_eq!(app.chat("telegram:chat:42").unwrap().to_string(), "http:chat:app:telegram%3Achat%3A42");
        assert_eq!(ops.chat("telegram:chat:42").unwrap().to_string(), "telegram:chat:42");
        assert_eq!(ops.chat("telegram:42").unwrap().to_string(), "http:chat:ops:telegram%3A42");
        assert_eq!(app.chat(&"x".repeat(513)).unwrap_err().kind, "bad-chat-id");
        assert_eq!(app.chat("a\nb").unwrap_err().kind, "bad-chat-id");
    }
}
