//! Checks of `doctor`: whether Telegram accepts the bot, and whether its updates arrive.

use std::time::{Duration, UNIX_EPOCH};

use annals_channel::finding::{Finding, Words};
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

/// Checks Telegram's bot and its webhook.
pub(super) async fn check(
    config: Option<&TelegramConfig>,
    settings: Option<&Settings>,
    clock: &Clock,
) -> Vec<Finding> {
    let Some(config) = config else { return vec![Finding::none("telegram", Words::NotSetUp)] };
    let client = match Client::new(&config.api_base, config.token.clone(), clock.clone()) {
        Ok(client) => client.with_patience(PATIENCE),
        Err(error) => return vec![Finding::fault("telegram", Words::Error(chain(&error)))],
    };
    let mut findings = vec![match client.get_me().await {
        Ok(me) => bot(&me, settings),
        Err(error) => Finding::fault("telegram bot", Words::Error(chain(&error))),
    }];
    match client.webhook_info().await {
        Ok(info) => {
            findings.push(webhook(&info));
            findings.push(deliveries(&info, clock));
            if !info.url.is_empty() {
                findings.push(address(&info.url, config).await);
            }
        }
        Err(error) => findings.push(Finding::fault("telegram webhook", Words::Error(chain(&error)))),
    }
    findings
}

fn bot(me: &Me, settings: Option<&Settings>) -> Finding {
    let bot = format!("@{} ({})", me.username, me.id);
    let is_always = settings.is_some_and(|settings| settings.group_activation == GroupActivation::Always);
    let bad = Words::TelegramPrivacy { bot: bot.clone() };
    Finding::of("telegram bot", !is_always || me.can_read_all_group_messages, Words::Value(bot), bad)
}

fn webhook(info: &WebhookInfo) -> Finding {
    const CHECK: &str = "telegram webhook";
    if info.url.is_empty() {
        return Finding::fault(CHECK, Words::TelegramNoWebhook);
    }
    let url = shown_url(&info.url);
    let missing = info.missing();
    if !missing.is_empty() {
        return Finding::fault(CHECK, Words::TelegramMissing { kinds: missing.join(", "), url });
    }
    Finding::ok(CHECK, Words::TelegramWebhook { url, at_once: info.max_connections })
}

fn deliveries(info: &WebhookInfo, clock: &Clock) -> Finding {
    const CHECK: &str = "telegram deliveries";
    let waiting = info.pending_update_count;
    let Some(at) = info.last_error_date.map(Timestamp::from_secs) else {
        return Finding::ok(CHECK, Words::TelegramWaiting { waiting });
    };
    let time = humantime::format_rfc3339_seconds(UNIX_EPOCH + at.since(Timestamp::MIN)).to_string();
    let is_over = waiting == 0 && clock.now().since(at) > RECENT;
    let message = info.last_error_message.clone();
    let words = Words::TelegramFailed { waiting, time, message, is_over };
    if is_over { Finding::ok(CHECK, words) } else { Finding::fault(CHECK, words) }
}

/// Checks that the webhook's address accepts the secret. Telegram does not tell whether it has the same.
async fn address(url: &str, config: &TelegramConfig) -> Finding {
    const CHECK: &str = "telegram address";
    let answered = setup::probe(url, config.secret.expose_secret()).await;
    let url = shown_url(url);
    let words = match answered {
        Ok(None) => return Finding::ok(CHECK, Words::TelegramAccepted),
        Ok(Some(Problem::OtherSecret)) => Words::TelegramOtherSecret { url },
        Ok(Some(Problem::Unreachable(why))) => Words::TelegramUnreachable { url, why },
        Ok(Some(Problem::NotThere)) => Words::TelegramNotThere { url },
        Ok(Some(Problem::Status(status))) => Words::TelegramStatus { url, status },
        Err(error) => Words::Error(chain(&*error)),
    };
    Finding::fault(CHECK, words)
}
