//! Checks whether a relay of Discord's gateway runs, by which ordinary messages arrive.

use annals_aws::SdkConfig;
use annals_channel::finding::Finding;
use annals_channel::words;
use annals_channel_discord::settings::DiscordConfig;
use annals_core::settings::Env;
use annals_io::clock::Clock;
use annals_runtime::aws;
use annals_store::relay::RelayStore;
use annals_store::settings::{StoreConfig, retention};

use crate::config::data_dir;
use crate::histories::{history, open_history};
use crate::stores::Stores;

const CHECK: &str = "discord relay";

/// Checks the relay of the bot's token, if one is set; `aws` is the account of a stack, `program` the stores of this process if
/// it is the program. Without the stores, which are checked elsewhere, there is nothing to say.
pub(super) async fn check(
    env: Env<'_>,
    aws: Option<&SdkConfig>,
    program: Option<&Stores>,
    clock: &Clock,
) -> Vec<Finding> {
    let Ok(Some(config)) = DiscordConfig::from_env(env) else { return Vec::new() };
    if config.bot_token.is_none() {
        return Vec::new();
    }
    let history = match (aws, program, StoreConfig::from_env(env), retention(env)) {
        (Some(aws), _, Ok(store), _) => aws::history(aws, store, clock.clone()),
        (None, Some(stores), _, Ok(retention)) => history(stores, retention, clock.clone()),
        (None, None, _, Ok(retention)) => {
            match open_history(&data_dir(env), retention, clock.clone()).await {
                Ok(history) => history,
                Err(_) => return Vec::new(),
            }
        }
        _ => return Vec::new(),
    };
    vec![match RelayStore::beside(&history, &config.application_id).status().await {
        Ok(status) if status.runs_until.is_some() => Finding::ok(CHECK, words!("runs", "正在运行")),
        Ok(_) => Finding::none(
            CHECK,
            words!(
                "none runs, so only commands arrive, and no messages: cargo run has one, a stack with DiscordRelay=on, or a \
                 container",
                "没有运行，因此只有命令会到达，普通消息不会：cargo run 自带中继，部署时用 DiscordRelay=on，或使用容器"
            ),
        ),
        Err(_) => return Vec::new(),
    }]
}
