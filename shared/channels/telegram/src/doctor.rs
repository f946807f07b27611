//! Checks of `doctor`: whether Telegram accepts the bot, and whether its updates arrive.

use std::time::{Duration, UNIX_EPOCH};

use annals_channel::finding::{Finding, Words};
use annals_channel::settings::{GroupActivation, Settings};
use annals_channel::setup::command;
use annals_channel::words;
use annals_core::sort_key::Timestamp;
use annals_io::clock::Clock;
use annals_io::errors::shown_url;
use reqwest::Url;
use secrecy::ExposeSecret;

use crate::client::{Client, Me, WebhookInfo};
use crate::settings::{API_BASE, TelegramConfig};
use crate::setup::{self, Problem};

/// Age up to which a failed delivery is a fault although no update is pending.
const RECENT: Duration = Duration::from_mins(10);

/// Checks Telegram's bot and its webhook.
pub(super) async fn check(
    config: &TelegramConfig,
    client: &Client,
    settings: Option<&Settings>,
) -> Vec<Finding> {
    let mut findings = vec![match client.get_me().await {
        Ok(me) => bot(&me, settings),
        Err(error) => Finding::fault("telegram bot", Words::of_failure(&error, &API_BASE)),
    }];
    match client.webhook_info().await {
        Ok(info) => {
            findings.push(webhook(&info));
            findings.push(deliveries(&info, &client.api.clock));
            if !info.url.is_empty() {
                findings.push(address(&info.url, config).await);
            }
        }
        Err(error) => {
            findings.push(Finding::fault("telegram webhook", Words::of_failure(&error, &API_BASE)));
        }
    }
    findings
}

fn bot(me: &Me, settings: Option<&Settings>) -> Finding {
    let bot = format!("@{} ({})", me.username, me.id);
    let is_always = settings.is_some_and(|settings| settings.group_activation == GroupActivation::Always);
    let bad = words!(
        "{bot}: GROUP_ACTIVATION=always, but Telegram sends it only what addresses it in groups: turn its privacy off \
         (@BotFather, /setprivacy) and add it to the groups anew",
        "{bot}：GROUP_ACTIVATION=always，但 Telegram 只发送群组中提到它的消息：请关闭隐私模式（@BotFather，/setprivacy），\
         并重新把它加入群组"
    );
    Finding::of("telegram bot", !is_always || me.can_read_all_group_messages, bot, bad)
}

fn webhook(info: &WebhookInfo) -> Finding {
    const CHECK: &str = "telegram webhook";
    if info.url.is_empty() {
        let command = command("telegram");
        return Finding::fault(CHECK, words!("none is set: {command}", "没有设置：{command}"));
    }
    let url = shown_url(&info.url);
    let missing = info.missing();
    if !missing.is_empty() {
        let kinds = missing.join(", ");
        let words = words!(
            "Telegram does not send {kinds}: cargo run -- setup telegram --url {url}",
            "Telegram 不发送 {kinds}：cargo run -- setup telegram --url {url}"
        );
        return Finding::fault(CHECK, words);
    }
    match info.max_connections {
        Some(most) => {
            Finding::ok(CHECK, words!("{url}, at most {most} at once", "{url}，最多同时 {most} 个"))
        }
        None => Finding::ok(CHECK, url),
    }
}

fn deliveries(info: &WebhookInfo, clock: &Clock) -> Finding {
    const CHECK: &str = "telegram deliveries";
    let waiting = info.pending_update_count;
    let Some(at) = info.last_error_date.map(Timestamp::from_secs) else {
        let words = words!("{waiting} updates wait, none has failed", "{waiting} 个更新在等待，没有失败");
        return Finding::ok(CHECK, words);
    };
    let time = humantime::format_rfc3339_seconds(UNIX_EPOCH + at.since(Timestamp::MIN)).to_string();
    let failed = words!(
        "{waiting} updates wait; the last failure, {time}",
        "{waiting} 个更新在等待；最近一次失败，{time}"
    );
    let message = info.last_error_message.clone();
    let reason = message.clone().map_or_else(|| words!("no reason given", "没有给出原因"), Into::into);
    let failed = failed.followed_by(&reason);
    if waiting == 0 && clock.now().since(at) > RECENT {
        return Finding::ok(CHECK, failed);
    }
    let is = |status| message.as_deref().is_some_and(|message| message.contains(status));
    let remedy = if is("401") {
        words!(
            "the program there has another TELEGRAM_WEBHOOK_SECRET: deploy with another SecretsRevision, or start it \
             with the one that was set",
            "该处的程序使用另一个 TELEGRAM_WEBHOOK_SECRET：请用新的 SecretsRevision 部署，或用设置 webhook 时的密钥启动它"
        )
    } else if is("503") || is("500") {
        words!("see the log of the function, or the program", "请查看函数或程序的日志")
    } else {
        words!("see that the address can be reached from outside", "请确认该地址可从外部访问")
    };
    Finding::fault(CHECK, failed.followed_by(&remedy))
}

/// Checks that the webhook's address accepts the secret. Telegram does not tell whether it has the same.
async fn address(url: &str, config: &TelegramConfig) -> Finding {
    const CHECK: &str = "telegram address";
    let command = command("telegram");
    let Ok(parsed) = Url::parse(url) else {
        return Finding::fault(CHECK, words!("is not a URL: {command}", "不是 URL：{command}"));
    };
    let url = shown_url(url);
    let Some(problem) = setup::probe(&parsed, config.secret.expose_secret()).await else {
        let words = words!(
            "the program there accepts TELEGRAM_WEBHOOK_SECRET",
            "该处的程序接受 TELEGRAM_WEBHOOK_SECRET"
        );
        return Finding::ok(CHECK, words);
    };
    let reason = problem.words();
    Finding::fault(
        CHECK,
        match problem {
            Problem::OtherSecret => words!(
                "the program there does not accept TELEGRAM_WEBHOOK_SECRET",
                "该处的程序不接受 TELEGRAM_WEBHOOK_SECRET"
            )
            .followed_by(&reason)
            .followed_by(&format!("cargo run -- setup telegram --url {url}").into()),
            Problem::Unreachable(_) => {
                words!("{url}, where Telegram sends updates", "Telegram 向 {url} 发送更新")
                    .followed_by(&reason)
                    .followed_by(&words!(
                        "start the program there; if its address has changed, {command}",
                        "请启动该处的程序；如果地址已改变，{command}"
                    ))
            }
            Problem::Other(_) => {
                reason.followed_by(&words!("check the program at {url}", "请检查 {url} 的程序"))
            }
        },
    )
}
