//! Checks of `doctor`: whether Telegram accepts the bot, and whether its updates arrive.

use std::time::{Duration, UNIX_EPOCH};

use annals_channel::finding::Finding;
use annals_channel::settings::{GroupActivation, Settings};
use annals_core::sort_key::Timestamp;
use annals_io::clock::Clock;
use annals_io::errors::{chain, shown_url};
use secrecy::ExposeSecret;

use crate::client::{Client, Me, WebhookInfo};
use crate::settings::TelegramConfig;
use crate::setup::{self, Problem};

/// Age up to which a failed delivery is a fault although no update is pending.
const RECENT: Duration = Duration::from_mins(10);
/// Longest wait if Telegram limits the rate.
const PATIENCE: Duration = Duration::from_secs(10);

const SET_UP: &str = "cargo run -- setup telegram --url https://…/telegram";

/// Checks Telegram's bot and its webhook.
pub(super) async fn check(
    config: Option<&TelegramConfig>,
    settings: Option<&Settings>,
    clock: &Clock,
) -> Vec<Finding> {
    let Some(config) = config else { return vec![Finding::none("telegram", "not set up")] };
    let client = match Client::new(&config.api_base, config.token.clone(), clock.clone()) {
        Ok(client) => client.with_patience(PATIENCE),
        Err(error) => return vec![Finding::fault("telegram", chain(&error))],
    };
    let mut findings = vec![match client.get_me().await {
        Ok(me) => bot(&me, settings),
        Err(error) => Finding::fault("telegram bot", chain(&error)),
    }];
    match client.webhook_info().await {
        Ok(info) => {
            findings.push(webhook(&info));
            findings.push(deliveries(&info, clock));
            if !info.url.is_empty() {
                findings.push(address(&info.url, config).await);
            }
        }
        Err(error) => findings.push(Finding::fault("telegram webhook", chain(&error))),
    }
    findings
}

fn bot(me: &Me, settings: Option<&Settings>) -> Finding {
    let words = format!("@{} ({})", me.username, me.id);
    let is_always = settings.is_some_and(|settings| settings.group_activation == GroupActivation::Always);
    let bad = format!(
        "{words}: GROUP_ACTIVATION=always, but Telegram sends it only what addresses it in groups: turn its privacy off \
         (@BotFather, /setprivacy) and add it to the groups anew"
    );
    Finding::of("telegram bot", !is_always || me.can_read_all_group_messages, words, bad)
}

fn webhook(info: &WebhookInfo) -> Finding {
    const CHECK: &str = "telegram webhook";
    if info.url.is_empty() {
        return Finding::fault(CHECK, format!("none is set: {SET_UP}"));
    }
    let url = shown_url(&info.url);
    let missing = info.missing();
    if !missing.is_empty() {
        let again = format!("cargo run -- setup telegram --url {url}");
        return Finding::fault(CHECK, format!("Telegram does not send {}: {again}", missing.join(", ")));
    }
    let at_once = info.max_connections.map(|most| format!(", at most {most} at once")).unwrap_or_default();
    Finding::ok(CHECK, format!("{url}{at_once}"))
}

fn deliveries(info: &WebhookInfo, clock: &Clock) -> Finding {
    const CHECK: &str = "telegram deliveries";
    let waiting = info.pending_update_count;
    let Some(at) = info.last_error_date.map(Timestamp::from_secs) else {
        return Finding::ok(CHECK, format!("{waiting} updates wait, none has failed"));
    };
    let message = info.last_error_message.as_deref().unwrap_or("no reason given");
    let time = humantime::format_rfc3339_seconds(UNIX_EPOCH + at.since(Timestamp::MIN));
    let failed = format!("{waiting} updates wait; the last failure, {time}: {message}");
    let is_over = waiting == 0 && clock.now().since(at) > RECENT;
    let remedy = match message {
        message if message.contains("401") => {
            "the program there has another TELEGRAM_WEBHOOK_SECRET: deploy with another SecretsRevision, or start it with \
             the one that was set"
        }
        message if message.contains("503") || message.contains("500") => {
            "see the log of the function, or the program"
        }
        _ => "see that the address can be reached from outside",
    };
    Finding::of(CHECK, is_over, failed.clone(), format!("{failed}: {remedy}"))
}

/// Checks that the webhook's address accepts the secret. Telegram does not tell whether it has the same.
async fn address(url: &str, config: &TelegramConfig) -> Finding {
    const CHECK: &str = "telegram address";
    let answered = setup::probe(url, config.secret.expose_secret()).await;
    let url = shown_url(url);
    match answered {
        Ok(None) => Finding::ok(CHECK, "the program there accepts TELEGRAM_WEBHOOK_SECRET"),
        Ok(Some(Problem::OtherSecret)) => {
            let words = format!(
                "the program there does not accept TELEGRAM_WEBHOOK_SECRET: {}",
                Problem::OtherSecret
            );
            Finding::fault(CHECK, format!("{words}: cargo run -- setup telegram --url {url}"))
        }
        Ok(Some(Problem::Unreachable(why))) => Finding::fault(
            CHECK,
            format!(
                "{url}, where Telegram sends updates: {why}: start the program there; if its address has changed, {SET_UP}"
            ),
        ),
        Ok(Some(problem)) => Finding::fault(CHECK, format!("{problem}: check the program at {url}")),
        Err(error) => Finding::fault(CHECK, chain(&*error)),
    }
}
