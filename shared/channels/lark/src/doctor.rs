//! Checks of `doctor`: whether Lark accepts the app. No API tells the settings of its console.

use annals_channel::finding::{Finding, Words};
use annals_channel::words;

use crate::client::{BotInfo, Client};
use crate::settings::{API_BASE, LarkConfig};

pub(super) async fn check(config: &LarkConfig, client: &Client) -> Vec<Finding> {
    let app = match client.bot_info().await {
        Ok(BotInfo { name, open_id }) => {
            let app_id = &config.app_id;
            Finding::ok(
                "lark app",
                words!("{name} ({app_id}), bot {open_id}", "{name}（{app_id}），机器人 {open_id}"),
            )
        }
        Err(error) if error.is_refusal() => {
            let words = words!(
                "{error}; check LARK_APP_ID and LARK_APP_SECRET, and that the app has the Bot ability",
                "{error}；请检查 LARK_APP_ID 和 LARK_APP_SECRET，并确认应用已启用机器人能力"
            );
            Finding::fault("lark app", words)
        }
        Err(error) => Finding::fault("lark app", Words::of_failure(&error, &API_BASE)),
    };
    let events = if config.encrypt_key.is_some() {
        words!(
            "encrypted and signed; cargo run -- setup lark tells what the console must have",
            "已加密并签名；cargo run -- setup lark 会列出后台需要的配置"
        )
    } else {
        words!(
            "plain: with LARK_ENCRYPT_KEY, set in the console too, they would be signed",
            "未加密：设置 LARK_ENCRYPT_KEY，并在后台填入相同的值，事件就会带签名"
        )
    };
    vec![app, Finding::ok("lark events", events)]
}
