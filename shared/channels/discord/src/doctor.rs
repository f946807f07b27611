//! Checks of `doctor`: whether Discord accepts the bot, and whether interactions arrive.

use annals_channel::finding::{Finding, Words};
use annals_channel::settings::{GroupActivation, Settings};
use annals_channel::setup::command;
use annals_channel::words;
use annals_core::language::Language;
use annals_io::errors::shown_url;
use reqwest::Url;

use crate::client::{Application, Client};
use crate::commands::commands;
use crate::settings::{API_BASE, DiscordConfig};
use crate::setup;

/// Checks the application, its address, its commands and its intents.
pub(super) async fn check(
    config: &DiscordConfig,
    client: &Client,
    settings: Option<&Settings>,
) -> Vec<Finding> {
    if !client.has_bot() {
        let words = words!(
            "DISCORD_BOT_TOKEN is not set: the bot answers commands alone, each for 15 minutes, and nothing can be checked \
             at Discord. Set it to the token of the page Bot in the developer portal",
            "未设置 DISCORD_BOT_TOKEN：机器人只回答命令，每个命令 15 分钟内有效，也无法向 Discord 核对任何内容。请把它设为开发者门户 Bot \
             页面上的令牌"
        );
        return vec![Finding::warning("discord app", words)];
    }
    let application = match client.application().await {
        Ok(application) => application,
        Err(error) => return vec![Finding::fault("discord app", Words::of_failure(&error, &API_BASE))],
    };
    let name = format!("{} ({})", application.name, application.id);
    let mut findings = vec![match setup::mismatch(&application, config) {
        None => Finding::ok("discord app", name),
        Some(problem) => Finding::fault("discord app", problem),
    }];
    findings.push(address(&application).await);
    findings.push(match client.command_names().await {
        Ok(names) => registered(&names, settings.and_then(|settings| settings.language)),
        Err(error) => Finding::fault("discord commands", Words::of_failure(&error, &API_BASE)),
    });
    findings.push(intent(&application, settings));
    findings
}

async fn address(application: &Application) -> Finding {
    const CHECK: &str = "discord address";
    let command = command("discord");
    let Some(url) = application.interactions_endpoint_url.as_deref() else {
        let words = words!("none is set for interactions: {command}", "没有设置交互地址：{command}");
        return Finding::fault(CHECK, words);
    };
    let Ok(parsed) = Url::parse(url) else {
        return Finding::fault(CHECK, words!("is not a URL: {command}", "不是 URL：{command}"));
    };
    let shown = shown_url(url);
    match setup::probe(&parsed).await {
        Some(problem) => {
            let remedy = words!(
                "check the program there; if its address has changed, {command}",
                "请检查该处的程序；如果地址已改变，{command}"
            );
            Finding::fault(CHECK, Words::from(shown).followed_by(&problem).followed_by(&remedy))
        }
        None if application.event_webhooks_url.as_deref() != Some(url) => Finding::warning(
            CHECK,
            words!(
                "{shown}; webhook events do not come there, so that it is not known who removes the app: {command}",
                "{shown}；webhook 事件不发往此处，因此不知道谁移除了应用：{command}"
            ),
        ),
        None => Finding::ok(CHECK, shown),
    }
}

fn registered(names: &[String], language: Option<Language>) -> Finding {
    const CHECK: &str = "discord commands";
    let missing: Vec<String> = commands(language)
        .iter()
        .filter_map(|command| command["name"].as_str())
        .filter(|name| !names.iter().any(|known| known == name))
        .map(str::to_owned)
        .collect();
    let (count, unknown, command) = (names.len(), missing.join(", "), command("discord"));
    let bad = words!("Discord does not know {unknown}: {command}", "Discord 没有 {unknown}：{command}");
    Finding::of(CHECK, missing.is_empty(), words!("{count} registered", "已注册 {count} 个"), bad)
}

fn intent(application: &Application, settings: Option<&Settings>) -> Finding {
    let is_always = settings.is_some_and(|settings| settings.group_activation == GroupActivation::Always);
    let sees_all = application.has_message_content();
    let good = if sees_all {
        words!("the content of all messages", "所有消息的内容")
    } else {
        words!("mentions, replies to the bot and direct messages", "提及、对机器人的回复和私信")
    };
    let bad = words!(
        "GROUP_ACTIVATION=always, but Discord withholds the text of messages that do not mention the bot: turn on the \
         Message Content intent, on the page Bot of the application in the developer portal",
        "GROUP_ACTIVATION=always，但 Discord 不提供未提及机器人的消息文本：请在开发者门户中该应用的 Bot 页面开启 Message \
         Content intent"
    );
    Finding::of("discord intent", !is_always || sees_all, good, bad)
}
