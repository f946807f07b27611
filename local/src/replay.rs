//! `replay PATH…`: posts recorded webhook bodies to the running program, and prints a line for each.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use annals_channel::channel::ProvedCall;
use annals_core::settings::Env;
use annals_io::clock::Clock;
use annals_io::tls;
use anyhow::{Context, bail};
use clap::Args;
use reqwest::StatusCode;
use serde_json::Value;

use crate::config::{LocalConfig, joined};
use crate::progress::Progress;

/// Result for one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Answered(StatusCode),
    Skipped(&'static str),
}

/// A file, and whether it was named itself rather than its folder.
struct File {
    path: PathBuf,
    is_named: bool,
}

/// Arguments of `replay`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Bodies as JSON, as a platform posts them to its webhook; of a folder, its .json files, and not those of folders in it
    #[arg(required = true)]
    paths: Vec<PathBuf>,
}

impl Arguments {
    /// Posts every file (of a folder its `.json` files, by name) to the program with the settings of `env`.
    ///
    /// # Errors
    /// Fails if any body is refused, gets a 5xx or no answer, if a named file is not a webhook, or if nothing was accepted.
    pub(crate) async fn run(&self, env: Env<'_>, clock: &Clock, out: &mut impl Write) -> anyhow::Result<()> {
        let config = LocalConfig::from_env(env)?.with_key()?;
        let files = files(&self.paths)?;
        anyhow::ensure!(
            !files.is_empty(),
            "there is no .json file in what was given (folders inside a folder are not looked into)"
        );
        let client = tls::loopback_client().timeout(Duration::from_mins(1)).build()?;
        let (mut accepted, mut refused, mut failed, mut skipped) = (0, 0, 0, 0);
        let (mut forged, mut unfit) = (0, 0);
        let mut progress = Progress::new("replay", "bodies", Some(files.len() as u64), clock);
        for file in &files {
            let outcome = post(&client, &config, &file.path).await?;
            progress.advance(1);
            let report = match outcome {
                Outcome::Answered(status) if status.is_success() => {
                    accepted += 1;
                    format!("{:<4}", status.as_u16())
                }
                Outcome::Answered(status) => {
                    *if status.is_server_error() { &mut failed } else { &mut refused } += 1;
                    forged += usize::from(status == StatusCode::UNAUTHORIZED);
                    format!("{:<4}", status.as_u16())
                }
                Outcome::Skipped(why) => {
                    skipped += 1;
                    unfit += usize::from(file.is_named);
                    format!("skip ({why})")
                }
            };
            progress.aside(|| writeln!(out, "{report} {}", file.path.display()))?;
        }
        progress.finish();
        writeln!(out, "{accepted} accepted, {refused} refused, {failed} failed, {skipped} skipped")?;
        let all = files.len();
        if failed > 0 {
            bail!("{failed} of {all} bodies got a 5xx: see the program's log");
        }
        if forged > 0 {
            let proofs: Vec<_> =
                config.channels.iter().flat_map(|channel| channel.about().proofs).copied().collect();
            bail!(
                "{forged} of {all} bodies got a 401: the program that answers has another {} than is set here",
                joined(&proofs, "or")
            );
        }
        if refused > 0 {
            bail!("{refused} of {all} bodies were refused: see the program's log");
        }
        if unfit > 0 || accepted == 0 {
            bail!("{skipped} of {all} bodies are no webhook of a known channel");
        }
        Ok(())
    }
}

async fn post(client: &reqwest::Client, config: &LocalConfig, file: &Path) -> anyhow::Result<Outcome> {
    let body = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let Ok(json) = serde_json::from_slice::<Value>(&body) else { return Ok(Outcome::Skipped("no JSON")) };
    let base = format!("http://{}", SocketAddr::new(config.host, config.port));
    let Some(channel) = config.channels.iter().find(|channel| channel.is_own(&json)) else {
        return Ok(Outcome::Skipped("no webhook of a known channel"));
    };
    let ProvedCall { headers, body } = match channel.prove(config.key(), &body) {
        Ok(call) => call,
        Err(why) => return Ok(Outcome::Skipped(why)),
    };
    let mut request = client.post(format!("{base}{}", channel.about().path())).body(body);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let response = request
        .header("Content-Type", "application/json")
        .send()
        .await
        .with_context(|| format!("nothing answers at {base}: start Annals first (cargo run)"))?;
    Ok(Outcome::Answered(response.status()))
}

fn files(paths: &[PathBuf]) -> anyhow::Result<Vec<File>> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            let entries =
                std::fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))?;
            let mut inside: Vec<PathBuf> =
                entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
            inside.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
            inside.sort();
            files.extend(inside.into_iter().map(|path| File { path, is_named: false }));
        } else if path.is_file() {
            files.push(File { path: path.clone(), is_named: true });
        } else {
            bail!("there is no file or folder {}", path.display());
        }
    }
    Ok(files)
}
