//! Prints the greeting of the program: its address, and calls that work as printed.

use std::io::{Result, Write};

use annals_channel::local::{About, Example};
use annals_core::access::OPEN_WITH_TOOLS;
use annals_model::ModelChoice;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use crate::config::LocalConfig;
use crate::stores::files;

/// Data of the greeting.
#[derive(Clone, Debug)]
pub(crate) struct Greeting {
    model: String,
    data: String,
    /// File of settings that was read.
    settings: Option<&'static str>,
    channels: Vec<Shown>,
    opens_tools: bool,
    /// API key for a shell. A user's own key is not shown.
    api_key: String,
    /// Key of the data directory, if it is in use.
    key: Option<String>,
    /// Path of the console, if it is served. The key follows a `#`, which browsers do not send.
    console: Option<String>,
}

/// A channel of a platform.
#[derive(Clone, Debug)]
struct Shown {
    about: &'static About,
    is_set_up: bool,
    /// A call of its webhook; `None` if only the platform can make one.
    example: Option<Example>,
}

impl Greeting {
    /// Returns the greeting of a program with `config`, some of it from the file `settings`, with calls whose time is `today`, in
    /// epoch seconds.
    pub(crate) fn of(config: &LocalConfig, settings: Option<&'static str>, today: i64) -> Self {
        Self {
            model: match &config.agent.model.choice {
                ModelChoice::Echo => "echo (set MODEL for another)".to_owned(),
                choice @ ModelChoice::Hosted(_) => choice.to_string(),
            },
            data: config.data_dir.display().to_string(),
            settings,
            channels: config
                .channels
                .iter()
                .map(|channel| Shown {
                    about: channel.names(),
                    is_set_up: channel.is_set_up(),
                    example: channel.example(config.key(), today),
                })
                .collect(),
            opens_tools: config.opens_tools(),
            api_key: match &config.api_keys {
                Some(_) => "<the secret of one of HTTP_API_KEYS>".to_owned(),
                None => config.api_keys().first().map(|key| shown(&key.secret)).unwrap_or_default(),
            },
            key: config.key().map(shown),
            console: config.console.then(|| match config.key() {
                Some(key) if config.api_keys.is_none() => format!("/#key={}", shown(key)),
                _ => "/".to_owned(),
            }),
        }
    }

    /// Prints the greeting. The routes are at `base`; `variables` are those for AWS's services, if they are served.
    pub(crate) fn print(
        &self,
        base: &str,
        variables: Option<&[(&'static str, String)]>,
        out: &mut impl Write,
    ) -> Result<()> {
        let Self { model, data, .. } = self;
        if let Some(variables) = variables {
            print_variables(variables, data, out)?;
        }
        writeln!(out, "Try it:\n")?;
        self.print_calls(base, out)?;
        writeln!(out, "See what is stored:  cargo run -- history telegram:chat:42\n")?;
        // Last, since the calls fill a screen.
        writeln!(out, "Annals answers at {base}\n")?;
        if let Some(path) = &self.console {
            writeln!(out, "  console  {base}{path}")?;
        }
        if let Some(file) = self.settings {
            writeln!(out, "  settings from {file} and the environment")?;
        }
        writeln!(out, "  model    {model}\n  data     {data}")?;
        for Shown { about, is_set_up, .. } in &self.channels {
            let name = about.channel.as_str();
            let replies = if *is_set_up { about.platform } else { "the outbox" };
            let state = if *is_set_up { "" } else { "not set up: " };
            writeln!(out, "  {name:<8} {state}replies go to {replies}")?;
        }
        writeln!(out, "  outbox   {base}/local/outbox")?;
        if let Some(key) = &self.key {
            let file = files::KEY;
            writeln!(out, "  key      {key} (in {data}/{file}), in place of each secret that is not set")?;
        }
        writeln!(out)?;
        if self.opens_tools {
            writeln!(out, "Warning: {OPEN_WITH_TOOLS}.\n")?;
        }
        writeln!(out, "Stop with Ctrl-C.")?;
        out.flush()
    }

    fn print_calls(&self, base: &str, out: &mut impl Write) -> Result<()> {
        let Self { channels, api_key, .. } = self;
        let mut curl = |request: &str, header: &str, body: &Value| {
            writeln!(out, "curl {request}{header} -H 'Content-Type: application/json' -d '{body}'\n")
        };
        for Shown { about, example, .. } in channels {
            let Some(Example { headers, body }) = example else { continue };
            let headers = headers.iter().map(|(name, value)| format!(" -H \"{name}: {value}\""));
            curl(&format!("-X POST {base}{}", about.path), &headers.collect::<String>(), body)?;
        }
        let bearer = format!(" -H 'Authorization: Bearer {api_key}'");
        let message = json!({"userId": "ada", "messageId": "hello-1", "text": "hello"});
        curl(&format!("-X POST '{base}/v1/chats/hello/messages?wait=20'"), &bearer, &message)?;
        let message = json!({"id": "hello-1", "role": "user", "parts": [{"type": "text", "text": "hello"}]});
        curl(
            &format!("-N -X POST {base}/api/chat"),
            &bearer,
            &json!({"id": "hello", "messages": [message]}),
        )?;
        for Shown { about, .. } in channels.iter().filter(|channel| channel.example.is_none()) {
            writeln!(out, "{} signs its own calls to {base}{}.\n", about.platform, about.path)?;
        }
        Ok(())
    }
}

fn shown(secret: &SecretString) -> String {
    secret.expose_secret().to_owned()
}

fn print_variables(variables: &[(&'static str, String)], data: &str, out: &mut impl Write) -> Result<()> {
    writeln!(out, "DynamoDB, S3, SQS and Secrets Manager, for programs with these variables:\n")?;
    for (name, value) in variables {
        writeln!(out, "export {name}={value}")?;
    }
    writeln!(
        out,
        "\nWith these variables, every tool of AWS uses this program. The key stays the same. For sam local:\n\
         --env-vars {data}/{}\n",
        files::SAM_ENV
    )
}
