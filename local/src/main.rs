//! `cargo run`: Annals on this machine.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use annals_local::config::{DEV_API_KEY, DEV_LARK_TOKEN, DEV_TELEGRAM_SECRET, LocalConfig, data_dir};
use annals_local::memory;
use annals_local::program::{Program, open_history};
use annals_local::replay::{Target, replay};
use annals_local::show::{self, Format};
use annals_shared::chat_key::ChatKey;
use annals_shared::clock::Clock;
use annals_shared::config::{Env, ViewConfig, process_env, retention};
use annals_shared::memory::{Memory, Owner};
use annals_shared::telemetry;
use anyhow::Context;
use clap::{Args, Parser, Subcommand};

/// One durable history per chat, whatever door a message comes in by. Without a command: serves every route on this
/// machine, with its data in .annals. Settings are environment variables; the README lists them.
#[derive(Parser)]
#[command(name = "annals", version)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Post recorded webhook bodies (files, or folders of .json files) to the running program
    Replay {
        #[arg(required = true)]
        paths: Vec<PathBuf>,
    },
    /// Print what is stored of a chat, oldest first
    History {
        /// Such as telegram:chat:42 or http:chat:dev:hello
        chat_key: String,
        /// One UIMessage a line
        #[arg(long)]
        jsonl: bool,
    },
    /// List what of a chat is archived, or print one segment of it
    Archive {
        /// Such as telegram:chat:42 or http:chat:dev:hello
        chat_key: String,
        /// The segment to print
        segment: Option<String>,
        /// One UIMessage a line
        #[arg(long, requires = "segment")]
        jsonl: bool,
    },
    /// Print what the model would see of a chat now
    Context {
        /// Such as telegram:chat:42 or http:chat:dev:hello
        chat_key: String,
    },
    /// See, correct and forget what is remembered of people and groups
    Memory {
        #[command(subcommand)]
        command: MemoryCommand,
    },
}

#[derive(Subcommand)]
enum MemoryCommand {
    /// List what is remembered of a person, or of a group
    List {
        #[command(flatten)]
        owner: OwnerArguments,
    },
    /// Correct an entry
    Set {
        /// As `memory list` shows it
        id: String,
        /// The text, or a Markdown document with front matter
        text: String,
    },
    /// Forget an entry for good
    Forget {
        /// As `memory list` shows it
        id: String,
    },
}

#[derive(Args)]
#[group(required = true, multiple = false)]
struct OwnerArguments {
    /// Such as telegram-42, lark-ou_ada or app/ada
    #[arg(long, value_name = "ID")]
    user: Option<String>,
    /// Such as telegram:chat:-42
    #[arg(long, value_name = "CHATKEY")]
    chat: Option<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    telemetry::init_terminal();
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of a pipe has left: no failure of ours.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("annals: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let env = Env::new(&process_env);
    let clock = Clock::system();
    match arguments.command {
        None => serve(LocalConfig::from_env(env)?, clock).await,
        Some(Command::Replay { paths }) => {
            let config = LocalConfig::from_env(env)?;
            let base = format!("http://{}", SocketAddr::new(config.host, config.port));
            let target = Target {
                base,
                telegram_secret: config.telegram_secret(),
                lark_token: config.lark_token(),
                lark_encrypt_key: config.lark.and_then(|lark| lark.encrypt_key),
            };
            replay(&target, &paths, &mut std::io::stdout()).await
        }
        Some(Command::History { chat_key, jsonl }) => {
            let chat = parse_chat_key(&chat_key)?;
            let history = open_history(&data_dir(env), retention(env)?, clock).await?;
            let format = if jsonl { Format::Jsonl } else { Format::Text };
            show::history(&history, &chat, format, &mut std::io::stdout().lock()).await
        }
        Some(Command::Archive { chat_key, segment, jsonl }) => {
            let chat = parse_chat_key(&chat_key)?;
            let history = open_history(&data_dir(env), retention(env)?, clock).await?;
            let format = if jsonl { Format::Jsonl } else { Format::Text };
            let out = &mut std::io::stdout().lock();
            match segment {
                Some(id) => show::segment(&history, &chat, &id, format, out).await,
                None => show::segments(&history, &chat, out).await,
            }
        }
        Some(Command::Context { chat_key }) => {
            let chat = parse_chat_key(&chat_key)?;
            let history = open_history(&data_dir(env), retention(env)?, clock).await?;
            let view = ViewConfig::from_env(env)?;
            let system_prompt = env.optional("SYSTEM_PROMPT");
            let out = &mut std::io::stdout().lock();
            show::context_of(&history, &chat, &view, system_prompt.as_deref(), out).await
        }
        Some(Command::Memory { command }) => {
            let history = open_history(&data_dir(env), retention(env)?, clock).await?;
            let store = Memory::beside(&history);
            let out = &mut std::io::stdout().lock();
            match command {
                MemoryCommand::List { owner: OwnerArguments { user: Some(person), .. } } => {
                    memory::list(&store, &Owner::User(person), out).await
                }
                MemoryCommand::List { owner: OwnerArguments { chat, .. } } => {
                    let chat = parse_chat_key(&chat.unwrap_or_default())?;
                    memory::list(&store, &Owner::Chat(history.first_name(&chat).await?), out).await
                }
                MemoryCommand::Set { id, text } => memory::set(&store, &id, &text, out).await,
                MemoryCommand::Forget { id } => memory::forget(&store, &id, out).await,
            }
        }
    }
}

async fn serve(config: LocalConfig, clock: Clock) -> anyhow::Result<()> {
    let (telegram_is_set, lark_is_set, uses_dev_key) =
        (config.telegram.is_some(), config.lark.is_some(), config.uses_dev_key);
    let model = match &config.agent.model.choice {
        annals_shared::model::ModelChoice::Echo => "echo (set MODEL for another)".to_owned(),
        choice => choice.to_string(),
    };
    let data = config.data_dir.display().to_string();
    // Of the day, so that the printed line stays the same message also after a restart.
    let today = clock.now().as_millis() / 86_400_000 * 86_400;
    let program = Program::start(config, clock).await?;
    let base = format!("http://{}", program.address()?);
    let greet = || -> std::io::Result<()> {
        let mut out = std::io::stdout().lock();
        writeln!(out, "Annals answers at {base}\n")?;
        writeln!(out, "  model    {model}\n  data     {data}")?;
        let telegram =
            if telegram_is_set { "replies go to Telegram" } else { "not set up: replies go to the outbox" };
        let lark = if lark_is_set { "replies go to Lark" } else { "not set up: replies go to the outbox" };
        writeln!(out, "  telegram {telegram}\n  lark     {lark}\n  outbox   {base}/local/outbox\n")?;
        writeln!(out, "Try it:\n")?;
        let secret = if telegram_is_set { "$TELEGRAM_WEBHOOK_SECRET" } else { DEV_TELEGRAM_SECRET };
        writeln!(
            out,
            "curl -X POST {base}/telegram -H \"X-Telegram-Bot-Api-Secret-Token: {secret}\" -H 'Content-Type: application/json' \
             -d '{{\"update_id\":1,\"message\":{{\"message_id\":1,\"date\":{today},\"chat\":{{\"id\":42,\"type\":\"private\",\
             \"first_name\":\"Ada\"}},\"from\":{{\"id\":42,\"is_bot\":false,\"first_name\":\"Ada\"}},\"text\":\"hello\"}}}}'\n"
        )?;
        if lark_is_set {
            writeln!(out, "Lark signs its own calls to {base}/lark.\n")?;
        } else {
            let content = r#"{\"text\":\"hello\"}"#;
            writeln!(
                out,
                "curl -X POST {base}/lark -H 'Content-Type: application/json' -d '{{\"schema\":\"2.0\",\"header\":\
                 {{\"event_id\":\"hello-1\",\"event_type\":\"im.message.receive_v1\",\"token\":\"{DEV_LARK_TOKEN}\"}},\
                 \"event\":{{\"sender\":{{\"sender_id\":{{\"open_id\":\"ou_ada\"}},\"sender_type\":\"user\"}},\
                 \"message\":{{\"message_id\":\"om_hello\",\"chat_id\":\"oc_hello\",\"chat_type\":\"p2p\",\
                 \"message_type\":\"text\",\"create_time\":\"{today}000\",\"content\":\"{content}\"}}}}}}'\n"
            )?;
        }
        let key = if uses_dev_key { DEV_API_KEY } else { "<the secret of one of HTTP_API_KEYS>" };
        writeln!(
            out,
            "curl -X POST '{base}/v1/chats/hello/messages?wait=20' -H 'Authorization: Bearer {key}' \
             -H 'Content-Type: application/json' -d '{{\"userId\":\"ada\",\"messageId\":\"hello-1\",\"text\":\"hello\"}}'\n"
        )?;
        writeln!(out, "See what is stored:  cargo run -- history telegram:chat:42\nStop with Ctrl-C.")?;
        out.flush()
    };
    match greet() {
        // Nobody reads it: the program is there all the same.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
        greeted => greeted?,
    }
    program.serve(shutdown()).await
}

/// Ctrl-C or SIGTERM.
async fn shutdown() {
    let interrupt = tokio::signal::ctrl_c();
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = interrupt => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    drop(interrupt.await);
}

fn parse_chat_key(text: &str) -> anyhow::Result<ChatKey> {
    text.parse().with_context(|| format!("{text:?} names no chat"))
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
}
