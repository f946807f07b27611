//! Prints the greeting of the program: its address, and calls that work as printed.

use std::io::{Result, Write};

use annals_channel::channel::Example;
use annals_core::access::OPEN_WITH_TOOLS;
use annals_model::ModelChoice;
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use crate::config::LocalConfig;
use crate::stores::files;

/// Prints the greeting of a program with `config`, some of it from the file `settings`. The routes are at `base`; printed calls have
/// the time `today`, in epoch seconds; `variables` are those for AWS's services, if they are served.
pub(crate) fn print(
    config: &LocalConfig,
    settings: Option<&str>,
    today: i64,
    base: &str,
    variables: Option<&[(&'static str, String)]>,
    out: &mut impl Write,
) -> Result<()> {
    let data = config.data_dir.display().to_string();
    let key = config.key().map(ExposeSecret::expose_secret);
    if let Some(variables) = variables {
        print_variables(variables, &data, out)?;
    }
    writeln!(out, "Try it:\n")?;
    print_calls(config, today, base, out)?;
    writeln!(out, "See what is stored:  cargo run -- history telegram:chat:42\n")?;
    // Last, since the calls fill a screen.
    writeln!(out, "Annals answers at {base}\n")?;
    if config.console {
        // The key follows a `#`, which browsers do not send.
        let key = key.filter(|_| config.api_keys.is_none()).map(|key| format!("#key={key}"));
        writeln!(out, "  console  {base}/{}", key.unwrap_or_default())?;
    }
    if let Some(file) = settings {
        writeln!(out, "  settings from {file} and the environment")?;
    }
    let model = match &config.agent.model.choice {
        ModelChoice::Echo => "echo (set MODEL for another)".to_owned(),
        choice @ ModelChoice::Hosted(_) => choice.to_string(),
    };
    writeln!(out, "  model    {model}\n  data     {data}")?;
    for channel in &config.channels {
        let (about, is_set_up) = (channel.about(), channel.is_set_up());
        let name = about.channel.as_str();
        let replies = if is_set_up { about.platform() } else { "the outbox" };
        let state = if is_set_up { "" } else { "not set up: " };
        writeln!(out, "  {name:<8} {state}replies go to {replies}")?;
    }
    if config.host.is_loopback() {
        writeln!(out, "  outbox   {base}/local/outbox")?;
    }
    if let Some(key) = key {
        let file = files::KEY;
        writeln!(out, "  key      {key} (in {data}/{file}), in place of each secret that is not set")?;
    }
    writeln!(out)?;
    if config.opens_tools() {
        writeln!(out, "Warning: {OPEN_WITH_TOOLS}.\n")?;
    }
    writeln!(out, "Stop with Ctrl-C.")?;
    out.flush()
}

fn print_calls(config: &LocalConfig, today: i64, base: &str, out: &mut impl Write) -> Result<()> {
    let mut curl = |request: &str, header: &str, body: &Value| {
        writeln!(out, "curl {request}{header} -H 'Content-Type: application/json' -d '{body}'\n")
    };
    let mut signed = Vec::new();
    for channel in &config.channels {
        let about = channel.about();
        let Some(Example { headers, body }) = channel.example(config.key(), today) else {
            signed.push(about);
            continue;
        };
        let headers = headers.iter().map(|(name, value)| format!(" -H \"{name}: {value}\""));
        curl(&format!("-X POST {base}{}", about.path()), &headers.collect::<String>(), &body)?;
    }
    // A user's own key is not shown.
    let api_key = match (&config.api_keys, config.api_keys().first()) {
        (None, Some(key)) => key.secret.expose_secret().to_owned(),
        _ => "<the secret of one of HTTP_API_KEYS>".to_owned(),
    };
    let bearer = format!(" -H 'Authorization: Bearer {api_key}'");
    let message = json!({"userId": "ada", "messageId": "hello-1", "text": "hello"});
    curl(&format!("-X POST '{base}/v1/chats/hello/messages?wait=20'"), &bearer, &message)?;
    let message = json!({"id": "hello-1", "role": "user", "parts": [{"type": "text", "text": "hello"}]});
    let body = json!({"id": "hello", "messages": [message]});
    curl(&format!("-N -X POST {base}/api/chat"), &bearer, &body)?;
    for about in signed {
        writeln!(out, "{} signs its own calls to {base}{}.\n", about.platform(), about.path())?;
    }
    Ok(())
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
