//! Options of `setup`, and probes of a webhook's address.

use std::time::Duration;

use anyhow::Context;
use reqwest::Url;

/// Options of `setup telegram`.
#[derive(Clone, Debug)]
pub struct TelegramSetup {
    /// Address for updates.
    pub url: String,
    /// Secret in Secrets Manager that holds the token, and is to hold the webhook secret.
    pub secret: Option<String>,
    /// Largest number of parallel deliveries.
    pub max_connections: u8,
    /// Sets the webhook even if the address does not accept the secret.
    pub anyway: bool,
}

/// Options of `setup lark`.
#[derive(Clone, Debug)]
pub struct LarkSetup {
    /// Address for events.
    pub url: String,
    /// Secret in Secrets Manager that holds the app's settings.
    pub secret: Option<String>,
}

/// Parses the address of a webhook, which ends in `route`.
pub(super) fn address(url: &str, route: &str) -> anyhow::Result<Url> {
    let url = Url::parse(url).with_context(|| format!("--url takes a whole address, https://…{route}"))?;
    anyhow::ensure!(
        matches!(url.scheme(), "https" | "http") && url.path().ends_with(route),
        "--url must be the address of the route {route}: https://…{route}"
    );
    Ok(url)
}

/// Returns a client for a probe of a webhook.
pub(super) fn asking() -> anyhow::Result<reqwest::Client> {
    // The time in which a function starts and answers.
    let client = reqwest::Client::builder().timeout(Duration::from_secs(30));
    Ok(client.redirect(reqwest::redirect::Policy::none()).build()?)
}

/// Returns the reason why a probe failed.
pub(super) fn unreachable(error: &reqwest::Error) -> &'static str {
    if error.is_timeout() {
        "nothing answers there in time"
    } else if error.is_connect() {
        "no connection can be made to it"
    } else {
        "no whole answer comes from it"
    }
}
