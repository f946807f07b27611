//! The program or stack that a command is for: [`Target`], by `--url` and `--key`, by a named profile, or by the environment.
//!
//! Profiles are in `annals/profiles.json` of the user's configuration folder, which only its owner may read:
//!
//! ```json
//! {"work": {"url": "https://bot.example.com", "key": "the secret of one of its HTTP_API_KEYS"}}
//! ```

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use annals_core::settings::{ConfigError, Env};
use annals_io::clock::Clock;
use anyhow::{Context, bail};
use clap::Args;
use reqwest::Url;
use secrecy::SecretString;
use serde::Deserialize;

use crate::api::Api;
use crate::config::{KEY, PROFILE, URL};
use crate::stores::private::is_open_to_others;

/// Arguments that name a program or stack.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Target {
    /// The program or stack to ask instead of this machine, by default `ANNALS_URL`
    #[arg(long, value_name = "URL", conflicts_with = "profile")]
    url: Option<String>,
    /// A key of it, by default `ANNALS_KEY`, which keeps the key out of the list of processes
    #[arg(long, value_name = "KEY", conflicts_with = "profile")]
    key: Option<SecretString>,
    /// A URL and a key by their name in annals/profiles.json of your configuration folder, by default `ANNALS_PROFILE`
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
}

/// A profile.
#[derive(Deserialize)]
struct Profile {
    url: String,
    key: String,
}

impl Target {
    /// Returns the program or stack that is named, or else the API over the data directory of this machine. `writes` says if
    /// the command changes something.
    pub(crate) async fn api(&self, env: Env<'_>, clock: Clock, writes: bool) -> anyhow::Result<Api> {
        match self.elsewhere(env)? {
            Some(api) => Ok(api),
            None => Api::of_this_machine(env, clock, writes).await,
        }
    }

    /// Returns the program or stack that is named; `None` if none is.
    pub(crate) fn elsewhere(&self, env: Env<'_>) -> anyhow::Result<Option<Api>> {
        let (from_env, profile_of_env) = (env.optional(URL.name), env.optional(PROFILE.name));
        if let Some(name) = &self.profile {
            return of_profile(env, name).map(Some);
        }
        if let (None, Some(name)) = (&self.url, profile_of_env) {
            anyhow::ensure!(
                from_env.is_none(),
                "ANNALS_URL and ANNALS_PROFILE are both set: unset one, or give --url or --profile"
            );
            return of_profile(env, &name).map(Some);
        }
        let url_name = if self.url.is_some() { "--url" } else { URL.name };
        let Some(base) = self.url.clone().or(from_env) else {
            anyhow::ensure!(self.key.is_none(), "--key is for the program at --url, or at ANNALS_URL");
            return Ok(None);
        };
        check_url(&base, url_name)?;
        let key_name = if self.key.is_some() { "--key" } else { KEY.name };
        let Some(key) = self.key.clone().or_else(|| env.optional(KEY.name).map(Into::into)) else {
            let problem = "is not set: it is the secret of one of that program's HTTP_API_KEYS";
            return Err(ConfigError::new(KEY.name, problem).into());
        };
        Api::elsewhere(&base, key, key_name.to_owned(), url_name.to_owned()).map(Some)
    }
}

/// Returns the program or stack of the profile `name`.
fn of_profile(env: Env<'_>, name: &str) -> anyhow::Result<Api> {
    let path = path(env).context("profiles need a configuration folder: set HOME or XDG_CONFIG_HOME")?;
    let profiles = read(&path)?;
    let Some(Profile { url, key }) = profiles.get(name) else {
        let known: Vec<&str> = profiles.keys().map(String::as_str).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        bail!(
            "there is no profile {name:?}: {} has {known}; add {{\"{name}\": {{\"url\": …, \"key\": …}}}}",
            path.display()
        );
    };
    let source = format!("the url of profile {name}");
    check_url(url, &source)?;
    Api::elsewhere(url, key.clone().into(), format!("the key of profile {name}"), source)
}

fn check_url(url: &str, name: &str) -> anyhow::Result<()> {
    let is_url = Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    anyhow::ensure!(is_url, "{name} must be an http or https URL, such as https://bot.example.com");
    Ok(())
}

/// Returns the file of profiles.
fn path(env: Env<'_>) -> Option<PathBuf> {
    let of_home = || Some(Path::new(&env.optional("HOME")?).join(".config"));
    let folder = env.optional("XDG_CONFIG_HOME").or_else(|| env.optional("APPDATA")).map(PathBuf::from);
    Some(folder.or_else(of_home)?.join("annals").join("profiles.json"))
}

/// Reads the profiles; none if there is no file. An error never holds what is in the file.
fn read(path: &Path) -> anyhow::Result<BTreeMap<String, Profile>> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    anyhow::ensure!(
        !is_open_to_others(path)?,
        "other users may read {}, which holds keys: chmod 600 it",
        path.display()
    );
    serde_json::from_slice(&text).map_err(|error| {
        let (path, line) = (path.display(), error.line());
        anyhow::anyhow!(
            "{path}, line {line}: expected {{\"NAME\": {{\"url\": \"https://…\", \"key\": \"…\"}}, …}}"
        )
    })
}
