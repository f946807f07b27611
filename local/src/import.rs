//! `annals import FILE…`: imports histories of other programs, and of other deployments.
//!
//! - `file`: a file and its format, read item by item; `escapes`: those that JSON does not have
//! - `telegram`: parses JSON exports of Telegram Desktop
//! - `jsonl`: parses `UIMessage`s of the AI SDK, one a line or in an array, from Annals or other programs
//! - `item`: a parsed message
//! - `target`: stores it; `session`: where the context starts then
//!
//! All files are read and checked before anything is stored, and read once more to store it. Stored messages are left as they
//! are, so importing a file again changes nothing, and the same command continues an interrupted import.

mod escapes;
mod file;
mod item;
mod jsonl;
mod parsed;
mod session;
mod target;
mod telegram;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use annals_channel::settings::channel_settings;
use annals_channel_telegram::settings::TelegramConfig;
use annals_core::settings::Env;
use annals_engine::settings::ViewConfig;
use annals_http::settings::api_keys;
use annals_io::clock::Clock;
use annals_store::history::History;
use annals_store::settings::{StoreConfig, retention};
use anyhow::{Context, bail};
use clap::Args;

use self::file::Source;
#[doc(hidden)]
pub use self::file::parse_all;
pub use self::item::Options;
use self::item::Skipped;
use self::parsed::Parsed;
use self::target::Targets;
use crate::api::parse_chat_key;
use crate::config::data_dir;
use crate::errors::counted;
use crate::histories::new_history;
use crate::progress::{Progress, reading};

/// Arguments of `import`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// result.json of Telegram Desktop, of one chat or of an account; lines as `history --jsonl` prints them, or an array
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The chat to import into; of a file that names several, only this one
    #[arg(long, value_name = "CHATKEY")]
    chat: Option<String>,
    /// The bot's user id at Telegram, if `TELEGRAM_BOT_TOKEN` is not set: its messages are the assistant's
    #[arg(long, value_name = "USER_ID", value_parser = user_id)]
    bot: Option<i64>,
}

fn user_id(text: &str) -> Result<i64, &'static str> {
    text.parse().map_err(|_| "a user id at Telegram is a number")
}

impl Arguments {
    /// Imports into AWS if a store of a stack is named, otherwise into the data directory.
    pub(crate) async fn run(&self, env: Env<'_>, clock: Clock, out: &mut impl Write) -> anyhow::Result<()> {
        let is_in_aws = ["ANNALS_TABLE", "ANNALS_BUCKET"].iter().any(|name| env.optional(name).is_some());
        let admin_keys = api_keys(env)?
            .map(|keys| keys.into_iter().filter(|key| key.admin).map(|key| key.name).collect())
            .or_else(|| (!is_in_aws).then(|| vec!["dev".to_owned()]));
        let options = Options {
            chat: self.chat.as_deref().map(parse_chat_key).transpose()?,
            now: clock.now(),
            bot: self.bot.or(TelegramConfig::from_env(env)?.map(|telegram| telegram.bot_id)),
            admin_keys,
            settings: channel_settings(env)?,
            view: ViewConfig::from_env(env)?,
        };
        let history = if is_in_aws {
            let store = StoreConfig::from_env(env)?;
            annals_runtime::aws::history(&annals_aws::config::anywhere().await, store, clock)
        } else {
            new_history(&data_dir(env), retention(env)?, clock).await?
        };
        import(&history, &self.files, &options, out).await
    }
}

/// Imports `files`, and prints the result for each chat.
///
/// # Errors
///
/// Also if everything was left out.
pub async fn import(
    history: &History,
    files: &[PathBuf],
    options: &Options,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let mut sources = Vec::new();
    let mut targets = Targets::new(history, options);
    let mut left_out: BTreeMap<Skipped, u64> = BTreeMap::new();
    for file in files {
        let _reading = reading(&file.display().to_string());
        let (path, given) = (file.clone(), options.clone());
        let source = tokio::task::spawn_blocking(move || Source::survey(&path, &given))
            .await
            .context("failed to read")??;
        let mut content = source.read(options);
        while let Some(parsed) = content.recv().await {
            match parsed? {
                Parsed::Item(item) => targets.check(*item).await?,
                Parsed::Skipped(skipped) => *left_out.entry(skipped).or_default() += 1,
            }
        }
        sources.push(source);
    }
    let left_out: Vec<String> =
        left_out.iter().map(|(skipped, count)| counted(*count, &skipped.one, &skipped.more)).collect();
    let total = targets.checked;
    match &options.chat {
        _ if total > 0 => {}
        _ if !left_out.is_empty() => bail!("nothing is imported. Left out: {}", left_out.join("; ")),
        Some(chat) => bail!("nothing is imported: no message is of {chat}"),
        None => {
            writeln!(out, "There is nothing to import.")?;
            return Ok(());
        }
    }
    targets.prepare().await?;
    let mut progress = Progress::new("import", "messages", Some(total), history.clock());
    for source in &sources {
        let mut content = source.read(options);
        while let Some(parsed) = content.recv().await {
            if let Parsed::Item(item) = parsed? {
                targets.store(*item, &mut progress).await?;
            }
        }
    }
    let lines = targets.finish(&mut progress).await?;
    progress.finish();
    for line in lines {
        writeln!(out, "{line}")?;
    }
    for left_out in left_out {
        writeln!(out, "left out: {left_out}")?;
    }
    Ok(())
}
