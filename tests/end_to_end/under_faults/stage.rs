//! [`Stage`]: the program between proxies on all sides, and those who talk to it.

use std::cell::Cell;

use annals_core::record::Channel;
use annals_local::import::import;
use annals_test_support::discord_api::DiscordApi;
use annals_test_support::fault_proxy::{Dice, FaultProxy, Service};
use annals_test_support::lark_api::LarkApi;
use annals_test_support::mcp_server::{self, McpServer};
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};

use super::{CONVERSATION, HOUR, OLD, STEP, say};
use crate::app::{APP_KEY, TestApp, loopback_client, passing, wait_until};
use crate::chat;
use crate::discord;
use crate::import::options;
use crate::lark;
use crate::remembering::notes_of_tea;

/// Share of the requests that meet a fault.
const PERCENT: u8 = 12;

/// The program between proxies on all sides.
pub(super) struct Stage {
    pub(super) app: TestApp,
    pub(super) lark: LarkApi,
    pub(super) discord: DiscordApi,
    pub(super) shop: McpServer,
    pub(super) dice: Dice,
    /// In front of the program itself.
    front: FaultProxy,
    http: reqwest::Client,
    _proxies: [FaultProxy; 3],
}

impl Stage {
    /// Starts one whose context window has so many tokens. A quarter of it is for tools.
    pub(super) async fn start(seed: u64, window: &str) -> Self {
        let dice = Dice::new(seed, 0);
        let (lark, discord, shop) =
            (LarkApi::start().await, DiscordApi::start().await, McpServer::start().await);
        let proxies = [
            FaultProxy::start(lark.service(), lark.base_url(), &dice).await,
            FaultProxy::start(discord.service(), discord.base_url(), &dice).await,
            FaultProxy::start(Service::Mcp, &shop.url(), &dice).await,
        ];
        let off = json!({"enabled": false});
        let tools = json!({"url": proxies[2].url(), "tools": {
            "refund": {"approval": true}, "fail": off, "slow": off, "picture": off, "long": off, "old": off,
        }});
        let builder = TestApp::builder().telegram().model().refusals_are_fine().faulty(&dice);
        let builder = builder
            .set_all(&lark::settings_of(proxies[0].url()))
            .set_all(&discord::settings_of(&discord))
            .set("DISCORD_API_BASE", proxies[1].url())
            .set("TOOLS", &shop.tools(&tools))
            .set("SHOP_TOKEN", mcp_server::TOKEN)
            .set("CONTEXT_WINDOW", window)
            .set("KEEP_RECENT", "4");
        let app = builder.start().await;
        app.model().answer_by(notes_of_tea);
        let front = FaultProxy::start(Service::Model, app.base(), &dice).await;
        dice.set_percent(PERCENT);
        Self { app, lark, discord, shop, dice, front, http: loopback_client(), _proxies: proxies }
    }

    /// Sends a request until it is accepted, as platforms do. Returns the answer, whose body may break off.
    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, String)],
        body: &Value,
    ) -> Response {
        for _ in 0..300 {
            let mut request = self.http.request(method.clone(), format!("{}{path}", self.front.url()));
            for (name, value) in headers {
                request = request.header(*name, value);
            }
            let Ok(answer) = request.body(body.to_string()).send().await else { continue };
            let status = answer.status();
            if status.is_success() {
                return answer;
            }
            let is_fault = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
            assert!(is_fault, "{path}: {status} {:?}", answer.text().await);
            tokio::task::yield_now().await;
        }
        panic!("{path} was not accepted: {:?}", self.dice);
    }

    /// Posts `event` as `channel` does.
    pub(super) async fn post(&self, channel: Channel, event: &Value) {
        let mut call = self.app.prove(channel, event.to_string().as_bytes());
        call.headers.push(("content-type", "application/json".to_owned()));
        let body = serde_json::from_slice(&call.body).unwrap();
        self.send(Method::POST, &format!("/{channel}"), &call.headers, &body).await;
    }

    pub(super) async fn telegram(&self, update: impl Into<Value>) {
        self.post(Channel::Telegram, &update.into()).await;
    }

    pub(super) async fn discord(&self, call: &Value) {
        self.post(Channel::Discord, call).await;
        self.discord.responded(call, &json!({"type": 5}));
    }

    pub(super) async fn call(&self, key: &str, method: Method, path: &str, body: &Value) -> Response {
        let headers =
            [("Authorization", format!("Bearer {key}")), ("content-type", "application/json".to_owned())];
        self.send(method, path, &headers, body).await
    }

    /// Posts a message like `useChat`, and resumes or posts again until a stream ends with its reply. Returns the id and the text
    /// of that.
    pub(super) async fn chat(&self, id: &str, text: &str) -> (String, String) {
        let body = chat::submit(&[chat::user(id, text)]);
        let post = (Method::POST, "/api/chat", &body);
        let resume = (Method::GET, "/api/chat/r1/stream", &Value::Null);
        for (method, path, body) in [post, resume].into_iter().cycle().take(300) {
            let stream = self.call(APP_KEY, method, path, body).await;
            // Of a stream that breaks off, nothing counts.
            let Ok(stream) = stream.text().await else { continue };
            let events = stream.split("\n\n").filter_map(|event| event.strip_prefix("data: {"));
            let chunks: Vec<Value> =
                events.map(|json| serde_json::from_str(&format!("{{{json}")).unwrap()).collect();
            if chunks.last().is_some_and(|chunk| chunk["type"] == "finish") {
                assert!(stream.ends_with("data: [DONE]\n\n"), "{stream}");
                return chat::told(&chunks);
            }
        }
        panic!("no stream ended with a reply to {id}: {:?}", self.dice);
    }

    /// Imports [`OLD`] messages into the conversation `c1`, by as many commands as it takes.
    pub(super) async fn import(&self) {
        let history = self.app.open_history_through_proxies();
        let (options, folder) = (options(Some(CONVERSATION)), tempfile::tempdir().unwrap());
        let file = folder.path().join("old.jsonl");
        let line = |n: i64| {
            let mut message = chat::user(&format!("old{n}"), &say("old", n));
            message["createdAt"] = format!("2025-11-21T20:{n:02}:00Z").into();
            message.to_string()
        };
        std::fs::write(&file, (1..=OLD).map(line).collect::<Vec<_>>().join("\n")).unwrap();
        for _ in 0..300 {
            match import(&history, std::slice::from_ref(&file), &options, &mut Vec::new()).await {
                Ok(()) => return,
                Err(error) => {
                    let error = format!("{error:#}");
                    let told = ["run the same command again", "this command has stored nothing"];
                    assert!(told.iter().any(|words| error.contains(words)), "{error}");
                }
            }
        }
        panic!("no import came to its end: {:?}", self.dice);
    }

    pub(super) async fn passing<T>(&self, what: impl Future<Output = T>) -> T {
        passing(self.app.clock(), STEP, Box::pin(what)).await
    }

    /// Waits until no turn is left, while time passes: in the end by hours, since a chat that no run could release is free
    /// when its lease has ended.
    pub(super) async fn idle(&self) {
        for steps in [STEP; 2].into_iter().chain([100 * STEP]) {
            let polls = Cell::new(0);
            let is_over = async || {
                self.app.clock().advance(steps);
                polls.set(polls.get() + 1);
                polls.get() == 2_000 || self.app.is_idle()
            };
            wait_until("no turn is left, or it takes long", is_over).await;
            if self.app.is_idle() {
                return;
            }
        }
        panic!("turns are left: {:?}", self.dice);
    }

    /// Lets `hours` pass, in steps. In each the compactor works until no request has been made for a while.
    pub(super) async fn hours_pass(&self, hours: u32) {
        for _ in 0..hours / 6 {
            self.app.clock().advance(6 * HOUR);
            let quiet = Cell::new((0, 0));
            let works = wait_until("the compactor has worked", async || {
                let (requests, polls) = quiet.get();
                let now = self.dice.counts().0;
                quiet.set((now, if now == requests { polls + 1 } else { 0 }));
                quiet.get().1 > 8
            });
            self.passing(works).await;
        }
    }
}
