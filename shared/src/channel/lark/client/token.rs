//! The tenant access token, with which the app is let in: [`Tokens`].
//!
//! ```text
//! POST /open-apis/auth/v3/tenant_access_token/internal
//! {"app_id": "cli_…", "app_secret": "…"}
//!
//! 200 {"code": 0, "msg": "ok", "tenant_access_token": "t-…", "expire": 7200}
//! ```
//!
//! It lives for two hours at most. Asked in its last 30 minutes, Lark gives another and takes both; before that it
//! gives the same one again. One caller at a time fetches it, and the others wait for that.
//!
//! Source: <https://open.larksuite.com/document/ukTMukTMukTM/ukDNz4SO0MjL5QzM/auth-v3/auth/tenant_access_token_internal>.

use std::time::Duration;

use reqwest::Method;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Mutex;

use super::wire::Wire;
use super::{Outage, SendError};
use crate::clock::Clock;
use crate::sort_key::Timestamp;

const METHOD: &str = "auth/v3/tenant_access_token/internal";
/// How long before its end a token is replaced: within the time in which Lark gives another.
const MARGIN: Duration = Duration::from_mins(10);

/// The app's credentials and its token.
pub(super) struct Tokens {
    app_id: String,
    app_secret: SecretString,
    clock: Clock,
    current: Mutex<Option<Token>>,
}

/// A token that Lark gave.
#[derive(Clone)]
pub(super) struct Token {
    pub(super) value: SecretString,
    /// Tells it from those before it.
    pub(super) serial: u64,
    /// When it is to be replaced.
    until: Timestamp,
}

#[derive(Deserialize)]
struct Given {
    tenant_access_token: String,
    /// Seconds from now.
    expire: u64,
}

impl Tokens {
    pub(super) fn new(app_id: String, app_secret: SecretString, clock: Clock) -> Self {
        Self { app_id, app_secret, clock, current: Mutex::new(None) }
    }

    /// A token that Lark takes: not the one of the serial number `refused`, which it did not take.
    pub(super) async fn get(&self, wire: &Wire, refused: Option<u64>) -> Result<Token, SendError> {
        // Held while one is fetched, so that the others wait for it.
        let mut current = self.current.lock().await;
        let now = self.clock.now();
        if let Some(token) =
            current.as_ref().filter(|token| now < token.until && refused != Some(token.serial))
        {
            return Ok(token.clone());
        }
        let serial = current.as_ref().map_or(0, |token| token.serial + 1);
        let Given { tenant_access_token, expire } = self.fetch(wire).await?;
        let life = Duration::from_secs(expire);
        let until = now.plus(life.saturating_sub(MARGIN).max(life / 2));
        let token = Token { value: tenant_access_token.into(), serial, until };
        *current = Some(token.clone());
        Ok(token)
    }

    async fn fetch(&self, wire: &Wire) -> Result<Given, SendError> {
        let secret = self.app_secret.expose_secret();
        let url = wire.url(&["auth", "v3", "tenant_access_token", "internal"]);
        let body = json!({"app_id": self.app_id, "app_secret": secret});
        let request = wire.request(METHOD, Method::POST, url)?.json(&body);
        let given: Given = wire.ask(METHOD, request, &[secret]).await?;
        if given.tenant_access_token.is_empty() {
            return Err(SendError::Unavailable { method: METHOD, source: Outage::Trouble(0) });
        }
        Ok(given)
    }
}
