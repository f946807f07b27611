//! What the program says when it starts: where it is, and calls that work as printed.

use std::io::{Result, Write};

use annals_shared::access::OPEN_WITH_TOOLS;
use annals_shared::model::ModelChoice;
use secrecy::{ExposeSecret, SecretString};

use crate::aws::SAM_ENV;
use crate::config::{KEY_FILE, LocalConfig};

/// What the greeting depends on.
#[derive(Clone, Debug)]
pub struct Greeting {
    model: String,
    data: String,
    telegram_is_set: bool,
    lark_is_set: bool,
    opens_tools: bool,
    /// The secret header of `/telegram` as a shell takes it: one of the user's own is not shown.
    telegram_secret: String,
    lark_token: String,
    /// The API key, likewise.
    api_key: String,
    /// The data directory's key, if it is in use.
    key: Option<String>,
    /// The address of the console behind the program's, if it is served. The key is behind `#`, which no browser sends.
    console: Option<String>,
    /// In epoch seconds.
    today: i64,
}

impl Greeting {
    /// The greeting of a program with `config`, with calls whose time is `today`, in epoch seconds.
    pub fn of(config: &LocalConfig, today: i64) -> Self {
        Self {
            model: match &config.agent.model.choice {
                ModelChoice::Echo => "echo (set MODEL for another)".to_owned(),
                choice => choice.to_string(),
            },
            data: config.data_dir.display().to_string(),
            telegram_is_set: config.telegram.is_some(),
            lark_is_set: config.lark.is_some(),
            opens_tools: config.opens_tools(),
            telegram_secret: match config.telegram {
                Some(_) => "$TELEGRAM_WEBHOOK_SECRET".to_owned(),
                None => shown(&config.telegram_secret()),
            },
            lark_token: shown(&config.lark_token()),
            api_key: match &config.api_keys {
                Some(_) => "<the secret of one of HTTP_API_KEYS>".to_owned(),
                None => config.api_keys().first().map(|key| shown(&key.secret)).unwrap_or_default(),
            },
            key: config.key().map(shown),
            console: config.console.then(|| match config.key() {
                Some(key) if config.api_keys.is_none() => format!("/#key={}", shown(key)),
                _ => "/".to_owned(),
            }),
            today,
        }
    }

    /// Prints it: the routes are at `base`, and where AWS's services are served, `variables` reach them.
    pub fn print(
        &self,
        base: &str,
        variables: Option<&[(&'static str, String)]>,
        out: &mut impl Write,
    ) -> Result<()> {
        let Self {
            model,
            data,
            telegram_is_set,
            lark_is_set,
            opens_tools,
            lark_token,
            api_key,
            key,
            console,
            today,
            ..
        } = self;
        let secret = &self.telegram_secret;
        if let Some(variables) = variables {
            print_variables(variables, data, out)?;
        }
        writeln!(out, "Try it:\n")?;
        writeln!(
            out,
            "curl -X POST {base}/telegram -H \"X-Telegram-Bot-Api-Secret-Token: {secret}\" -H 'Content-Type: application/json' \
             -d '{{\"update_id\":1,\"message\":{{\"message_id\":1,\"date\":{today},\"chat\":{{\"id\":42,\"type\":\"private\",\
             \"first_name\":\"Ada\"}},\"from\":{{\"id\":42,\"is_bot\":false,\"first_name\":\"Ada\"}},\"text\":\"hello\"}}}}'\n"
        )?;
        if *lark_is_set {
            writeln!(out, "Lark signs its own calls to {base}/lark.\n")?;
        } else {
            let content = r#"{\"text\":\"hello\"}"#;
            writeln!(
                out,
                "curl -X POST {base}/lark -H 'Content-Type: application/json' -d '{{\"schema\":\"2.0\",\"header\":\
                 {{\"event_id\":\"hello-1\",\"event_type\":\"im.message.receive_v1\",\"token\":\"{lark_token}\"}},\
                 \"event\":{{\"sender\":{{\"sender_id\":{{\"open_id\":\"ou_ada\"}},\"sender_type\":\"user\"}},\
                 \"message\":{{\"message_id\":\"om_hello\",\"chat_id\":\"oc_hello\",\"chat_type\":\"p2p\",\
                 \"message_type\":\"text\",\"create_time\":\"{today}000\",\"content\":\"{content}\"}}}}}}'\n"
            )?;
        }
        writeln!(
            out,
            "curl -X POST '{base}/v1/chats/hello/messages?wait=20' -H 'Authorization: Bearer {api_key}' \
             -H 'Content-Type: application/json' -d '{{\"userId\":\"ada\",\"messageId\":\"hello-1\",\"text\":\"hello\"}}'\n"
        )?;
        writeln!(
            out,
            "curl -N -X POST {base}/api/chat -H 'Authorization: Bearer {api_key}' -H 'Content-Type: application/json' \
             -d '{{\"id\":\"hello\",\"messages\":[{{\"id\":\"hello-1\",\"role\":\"user\",\
             \"parts\":[{{\"type\":\"text\",\"text\":\"hello\"}}]}}]}}'\n"
        )?;
        writeln!(out, "See what is stored:  cargo run -- history telegram:chat:42\n")?;
        // Last, where people look: the calls above fill a screen.
        writeln!(out, "Annals answers at {base}\n")?;
        if let Some(path) = console {
            writeln!(out, "  console  {base}{path}")?;
        }
        writeln!(out, "  model    {model}\n  data     {data}")?;
        let telegram =
            if *telegram_is_set { "replies go to Telegram" } else { "not set up: replies go to the outbox" };
        let lark = if *lark_is_set { "replies go to Lark" } else { "not set up: replies go to the outbox" };
        writeln!(out, "  telegram {telegram}\n  lark     {lark}\n  outbox   {base}/local/outbox")?;
        if let Some(key) = key {
            writeln!(
                out,
                "  key      {key} (in {data}/{KEY_FILE}), in the place of each secret that is not set"
            )?;
        }
        writeln!(out)?;
        if *opens_tools {
            writeln!(out, "Warning: {OPEN_WITH_TOOLS}.\n")?;
        }
        writeln!(out, "Stop with Ctrl-C.")?;
        out.flush()
    }
}

fn shown(secret: &SecretString) -> String {
    secret.expose_secret().to_owned()
}

fn print_variables(variables: &[(&'static str, String)], data: &str, out: &mut impl Write) -> Result<()> {
    writeln!(out, "DynamoDB, S3, SQS and Secrets Manager, for what has these variables:\n")?;
    for (name, value) in variables {
        writeln!(out, "export {name}={value}")?;
    }
    writeln!(
        out,
        "\nWhere these are set, every tool of AWS works on this program. The key stays the same. For sam local:\n\
         --env-vars {data}/{SAM_ENV}\n"
    )
}
