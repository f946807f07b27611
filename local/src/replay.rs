//! `replay PATH…`: posts recorded webhook bodies to the running program, one line of report each.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use reqwest::StatusCode;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

/// Where to post, and with which secrets.
pub struct Target {
    /// `http://127.0.0.1:3000`
    pub base: String,
    /// The secret header of `/telegram`.
    pub telegram_secret: SecretString,
}

/// What became of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Answered(StatusCode),
    Skipped(&'static str),
}

/// Posts every file of `paths` (folders: their `.json` files, by name). Fails where a file got a 5xx or no answer.
pub async fn replay(target: &Target, paths: &[PathBuf], out: &mut impl Write) -> anyhow::Result<()> {
    let files = files(paths)?;
    anyhow::ensure!(!files.is_empty(), "there is no .json file in what was given");
    let client = reqwest::Client::builder().timeout(Duration::from_mins(1)).build()?;
    let (mut accepted, mut refused, mut failed, mut skipped) = (0, 0, 0, 0);
    for file in &files {
        let outcome = post(&client, target, file).await?;
        let report = match outcome {
            Outcome::Answered(status) if status.is_success() => {
                accepted += 1;
                format!("{:<4}", status.as_u16())
            }
            Outcome::Answered(status) => {
                *if status.is_server_error() { &mut failed } else { &mut refused } += 1;
                format!("{:<4}", status.as_u16())
            }
            Outcome::Skipped(why) => {
                skipped += 1;
                format!("skip ({why})")
            }
        };
        writeln!(out, "{report} {}", file.display())?;
    }
    writeln!(out, "{accepted} accepted, {refused} refused, {failed} failed, {skipped} skipped")?;
    if failed > 0 {
        bail!("{failed} of {} bodies got a 5xx: see the program's log", files.len());
    }
    Ok(())
}

async fn post(client: &reqwest::Client, target: &Target, file: &Path) -> anyhow::Result<Outcome> {
    let body = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let is_telegram = match serde_json::from_slice::<Value>(&body) {
        Ok(json) => json.get("update_id").is_some(),
        Err(_) => false,
    };
    if !is_telegram {
        return Ok(Outcome::Skipped("no Telegram update"));
    }
    let response = client
        .post(format!("{}/telegram", target.base))
        .header("X-Telegram-Bot-Api-Secret-Token", target.telegram_secret.expose_secret())
        .header("Content-Type", "application/json")
        .body(body)
        .send()
        .await
        .with_context(|| format!("nothing answers at {}: start Annals first (cargo run)", target.base))?;
    Ok(Outcome::Answered(response.status()))
}

fn files(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            let entries =
                std::fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))?;
            let mut inside: Vec<PathBuf> =
                entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
            inside.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
            inside.sort();
            files.extend(inside);
        } else if path.is_file() {
            files.push(path.clone());
        } else {
            bail!("there is no file or folder {}", path.display());
        }
    }
    Ok(files)
}
