//! A client of the program: [`Handle`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;

/// A client of the program at its current address.
#[derive(Clone)]
pub(crate) struct Handle {
    client: reqwest::Client,
    base: watch::Receiver<Option<String>>,
    /// Number of requests that were not acknowledged.
    pub(crate) again: Arc<AtomicU64>,
}

impl Handle {
    /// Returns a client of the program at the last address in `base`.
    pub(crate) fn new(base: watch::Receiver<Option<String>>) -> Self {
        Self { client: annals_io::tls::loopback_client().build().unwrap(), base, again: Arc::default() }
    }

    /// Posts once the program runs. Returns true if the post was acknowledged.
    pub(crate) async fn post(&self, path: &str, (name, value): (&str, &str), body: &Value) -> bool {
        let base = self.base().await;
        let sent = self.client.post(format!("{base}{path}")).header(name, value).json(body).send().await;
        let acknowledged = sent.is_ok_and(|response| {
            let status = response.status();
            assert!(!status.is_client_error(), "{path} is refused: {status}");
            status.is_success()
        });
        if !acknowledged {
            self.again.fetch_add(1, Ordering::Relaxed);
        }
        acknowledged
    }

    /// Deletes a chat; repeats the request until it is done.
    pub(crate) async fn delete(&self, chat: &str) {
        loop {
            let base = self.base().await;
            let sent = self.client.delete(format!("{base}/v1/chats/{chat}")).bearer_auth("dev").send().await;
            if sent.is_ok_and(|response| response.status().is_success()) {
                return;
            }
            self.again.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn base(&self) -> String {
        let mut base = self.base.clone();
        base.wait_for(Option::is_some).await.unwrap().clone().unwrap()
    }

    /// Returns true if no message is unanswered.
    pub(crate) async fn is_at_rest(&self) -> bool {
        let mut before = String::new();
        loop {
            let base = self.base().await;
            let page =
                self.client.get(format!("{base}/v1/chats?limit=100{before}")).bearer_auth("dev").send().await;
            let page: Value = page.unwrap().error_for_status().unwrap().json().await.unwrap();
            if page["chats"].as_array().unwrap().iter().any(|chat| !chat["pendingTurn"].is_null()) {
                return false;
            }
            let Some(cursor) = page["before"].as_str() else { return true };
            before = format!("&before={cursor}");
        }
    }
}
