//! Prints the greeting of the program: its address, and calls that work as printed.

use std::io::{Result, Write};

use annals_core::access::OPEN_WITH_TOOLS;
use annals_model::ModelChoice;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use crate::config::LocalConfig;
use crate::stores::files;

/// Data of the greeting.
#[derive(Clone, Debug)]
pub struct Greeting {
    model: String,
    data: String,
    telegram_is_set: bool,
    lark_is_set: bool,
    opens_tools: bool,
    /// Secret header of `/telegram` for a shell. A user's own secret is not shown.
    telegram_secret: String,
    lark_token: String,
    /// API key, likewise.
    api_key: String,
    /// Key of the data directory, if it is in use.
    key: Option<String>,
    /// Path of the console, if it is served. The key follows a `#`, which browsers do not send.
    console: Option<String>,
    /// Start of the day, in epoch seconds.
    today: i64,
}

impl Greeting {
    /// Returns the greeting of a program with `config`, with calls whose time is `today`, in epoch seconds.
    pub fn of(config: &LocalConfig, today: i64) -> Self {
        Self {
            model: match &config.agent.model.choice {
                ModelChoice::Echo => "echo (set MODEL for another)".to_owned(),
                choice @ ModelChoice::Hosted(_) => choice.to_string(),
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

    /// Prints the greeting. The routes are at `base`; `variables` are those for AWS's services, if they are served.
    pub fn print(
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
        writeln!(out, "  model    {model}\n  data     {data}")?;
        for (name, label, is_set) in
            [("telegram", "Telegram", self.telegram_is_set), ("lark    ", "Lark", self.lark_is_set)]
        {
            let replies = if is_set { label } else { "the outbox" };
            let state = if is_set { "" } else { "not set up: " };
            writeln!(out, "  {name} {state}replies go to {replies}")?;
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
        let Self { telegram_secret, lark_token, api_key, today, .. } = self;
        let mut curl = |request: &str, header: &str, body: &Value| {
            writeln!(out, "curl {request}{header} -H 'Content-Type: application/json' -d '{body}'\n")
        };
        let update = json!({"update_id": 1, "message": {"message_id": 1, "date": today,
            "chat": {"id": 42, "type": "private", "first_name": "Ada"},
            "from": {"id": 42, "is_bot": false, "first_name": "Ada"}, "text": "hello"}});
        let secret = format!(" -H \"X-Telegram-Bot-Api-Secret-Token: {telegram_secret}\"");
        curl(&format!("-X POST {base}/telegram"), &secret, &update)?;
        if !self.lark_is_set {
            let message = json!({"message_id": "om_hello", "chat_id": "oc_hello", "chat_type": "p2p",
                "message_type": "text", "create_time": format!("{today}000"),
                "content": json!({"text": "hello"}).to_string()});
            let sender = json!({"sender_id": {"open_id": "ou_ada"}, "sender_type": "user"});
            let header =
                json!({"event_id": "hello-1", "event_type": "im.message.receive_v1", "token": lark_token});
            let event =
                json!({"schema": "2.0", "header": header, "event": {"sender": sender, "message": message}});
            curl(&format!("-X POST {base}/lark"), "", &event)?;
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
        if self.lark_is_set {
            writeln!(out, "Lark signs its own calls to {base}/lark.\n")?;
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
