//! The tenant access token, with which the app authenticates: [`Tokens`].
//!
//! ```text
//! POST /open-apis/auth/v3/tenant_access_token/internal
//! {"app_id": "cli_…", "app_secret": "…"}
//!
//! 200 {"code": 0, "msg": "ok", "tenant_access_token": "t-…", "expire": 7200}
//! ```
//!
//! A token is valid for two hours at most. In its last 30 minutes Lark returns a new one and accepts both; before that
//! it returns the same one again. One caller at a time fetches it, and the others wait.
//!
//! Source:
//! <https://open.larksuite.com/document/ukTMukTMukTM/ukDNz4SO0MjL5QzM/auth-v3/auth/tenant_access_token_internal>.

use std::time::Duration;

use annals_channel::client::Outage;
use annals_core::sort_key::Timestamp;
use reqwest::Method;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Mutex;

use super::{Call, CallError, Client};

const METHOD: &str = "auth/v3/tenant_access_token/internal";
/// Time before its end at which a token is replaced: within the time in which Lark returns a new one.
const MARGIN: Duration = Duration::from_mins(10);

/// The app's credentials and its current token.
#[derive(Debug)]
pub(super) struct Tokens {
    pub(super) app_id: String,
    app_secret: SecretString,
    current: Mutex<Option<Token>>,
}

/// A token from Lark.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) value: SecretString,
    /// Number of the token in this process, to recognize a refused one.
    pub(super) serial: u64,
    /// Time at which it is replaced.
    until: Timestamp,
}

#[derive(Deserialize)]
struct Given {
    tenant_access_token: String,
    /// Seconds from now.
    expire: u64,
}

impl Tokens {
    pub(super) fn new(app_id: String, app_secret: SecretString) -> Self {
        Self { app_id, app_secret, current: Mutex::new(None) }
    }

    /// Returns a token other than the one with the serial number `refused`, which Lark did not accept.
    pub(super) async fn get(&self, client: &Client, refused: Option<u64>) -> Result<Token, CallError> {
        // Held during the request, so that the other callers wait for it.
        let mut current = self.current.lock().await;
        let now = client.api.clock.now();
        if let Some(token) =
            current.as_ref().filter(|token| now < token.until && refused != Some(token.serial))
        {
            return Ok(token.clone());
        }
        let serial = current.as_ref().map_or(0, |token| token.serial + 1);
        let Given { tenant_access_token, expire } = self.fetch(client).await?;
        let life = Duration::from_secs(expire);
        let until = now.plus(life.saturating_sub(MARGIN).max(life / 2));
        let token = Token { value: tenant_access_token.into(), serial, until };
        *current = Some(token.clone());
        Ok(token)
    }

    async fn fetch(&self, client: &Client) -> Result<Given, CallError> {
        let secret = self.app_secret.expose_secret();
        let url = client.url(&["auth", "v3", "tenant_access_token", "internal"]);
        let body = json!({"app_id": self.app_id, "app_secret": secret});
        let call = Call { name: METHOD, method: Method::POST, url, body: Some(&body) };
        let given: Given = client.ask(&call, None, &[secret]).await?;
        if given.tenant_access_token.is_empty() {
            let source = Outage::Server("the token is empty".into());
            return Err(CallError::Unavailable { platform: "Lark", method: METHOD, source });
        }
        Ok(given)
    }
}
