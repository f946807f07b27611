//! `annals import FILE…`: imports histories of other programs, and of other deployments.
//!
//! - `file`: a file and its format, read item by item; `each`: the values of a JSON array; `escapes`: those that JSON does not have
//! - `telegram`: parses JSON exports of Telegram Desktop
//! - `jsonl`: parses `UIMessage`s of the AI SDK, one a line or in an array, from Annals or other programs
//! - `item`: a parsed message
//! - `target`: stores it; `session`: where the context starts then
//!
//! All files are read and checked before anything is stored, and read once more to store it. Stored messages are left as they
//! are, so importing a file again changes nothing, and the same command continues an interrupted import.

mod each;
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

use annals_store::history::History;
use anyhow::{Context, bail};

use self::file::Source;
#[doc(hidden)]
pub use self::file::parse_all;
pub use self::item::Options;
use self::item::Skipped;
use self::parsed::Parsed;
use self::target::Targets;
use crate::errors::counted;
use crate::progress::{Progress, Reading};

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
        let _reading = Reading::of(&file.display().to_string());
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
