//! `replay PATH…`: posts recorded webhook bodies to the running program, and prints a line for each.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use annals_channel_lark::verify::{NONCE_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, encrypt, sign};
use annals_channel_telegram::verify::SECRET_HEADER;
use annals_io::clock::Clock;
use anyhow::{Context, bail};
use reqwest::StatusCode;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use crate::progress::Progress;

/// The program to post to, and its secrets.
pub struct Target {
    /// `http://127.0.0.1:3000`
    pub base: String,
    /// The secret header of `/telegram`.
    pub telegram_secret: SecretString,
    /// The token of `/lark`'s events.
    pub lark_token: SecretString,
    /// The key of encrypted events, if they are encrypted.
    pub lark_encrypt_key: Option<SecretString>,
}

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

/// Posts every file of `paths` (folders: their `.json` files, by name).
///
/// # Errors
/// Fails if any body is refused, gets a 5xx or no answer, if a named file is not a webhook, or if nothing was accepted.
pub async fn replay(
    target: &Target,
    paths: &[PathBuf],
    clock: &Clock,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let files = files(paths)?;
    anyhow::ensure!(
        !files.is_empty(),
        "there is no .json file in what was given (folders inside a folder are not looked into)"
    );
    let client = reqwest::Client::builder().timeout(Duration::from_mins(1)).build()?;
    let (mut accepted, mut refused, mut failed, mut skipped) = (0, 0, 0, 0);
    let (mut forged, mut unfit) = (0, 0);
    let mut progress = Progress::new("replay", "bodies", Some(files.len() as u64), clock);
    for file in &files {
        let outcome = post(&client, target, &file.path).await?;
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
        bail!(
            "{forged} of {all} bodies got a 401: the program that answers has another TELEGRAM_WEBHOOK_SECRET, \
             LARK_VERIFICATION_TOKEN or LARK_ENCRYPT_KEY than is set here"
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

async fn post(client: &reqwest::Client, target: &Target, file: &Path) -> anyhow::Result<Outcome> {
    let body = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let Ok(json) = serde_json::from_slice::<Value>(&body) else { return Ok(Outcome::Skipped("no JSON")) };
    let is_of_lark = ["header", "event", "challenge"].iter().any(|key| json.get(key).is_some());
    let request = if json.get("update_id").is_some() {
        client
            .post(format!("{}/telegram", target.base))
            .header(SECRET_HEADER, target.telegram_secret.expose_secret())
            .body(body)
    } else if is_of_lark {
        let body = as_from_lark(json, target)?;
        let mut request = client.post(format!("{}/lark", target.base));
        if let Some(key) = &target.lark_encrypt_key {
            let signature = sign(b"0", b"replay", key.expose_secret(), &body);
            request = request
                .header(TIMESTAMP_HEADER, "0")
                .header(NONCE_HEADER, "replay")
                .header(SIGNATURE_HEADER, signature);
        }
        request.body(body)
    } else if json.get("encrypt").is_some() {
        return Ok(Outcome::Skipped("encrypted with a key of its own"));
    } else {
        return Ok(Outcome::Skipped("no webhook of a known channel"));
    };
    let response = request
        .header("Content-Type", "application/json")
        .send()
        .await
        .with_context(|| format!("nothing answers at {}: start Annals first (cargo run)", target.base))?;
    Ok(Outcome::Answered(response.status()))
}

/// Returns the recorded event with the token, and in the encryption, of the target.
fn as_from_lark(mut event: Value, target: &Target) -> anyhow::Result<Vec<u8>> {
    let token = Value::from(target.lark_token.expose_secret());
    let holder =
        if event.get("header").is_some_and(Value::is_object) { &mut event["header"] } else { &mut event };
    holder.as_object_mut().context("an event is a JSON object")?.insert("token".into(), token);
    let plain = serde_json::to_vec(&event)?;
    let Some(key) = &target.lark_encrypt_key else { return Ok(plain) };
    let encrypted = encrypt(key.expose_secret(), &plain).context("the event cannot be encrypted")?;
    Ok(serde_json::to_vec(&json!({ "encrypt": encrypted }))?)
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
