//! The command line of Annals on this machine: `cargo run`.

use std::io::IsTerminal;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use annals_channel::settings::channel_settings;
use annals_channel_telegram::settings::TelegramConfig;
use annals_core::language::Language;
use annals_core::settings::Env;
use annals_engine::settings::ViewConfig;
use annals_io::clock::Clock;
use annals_io::environment::{process_env, process_names};
use annals_local::api::parse_chat_key;
use annals_local::aws;
use annals_local::config::{LocalConfig, data_dir};
use annals_local::doctor::doctor;
use annals_local::dotenv;
use annals_local::errors::plain;
use annals_local::export;
use annals_local::greeting::Greeting;
use annals_local::histories::new_history;
use annals_local::import;
use annals_local::memory::{self, Owner};
use annals_local::program::Program;
use annals_local::replay::replay;
use annals_local::settings;
use annals_local::setup;
use annals_local::show::{self, Format, Selection};
use annals_local::stores::private::make_private;
use annals_local::tail::{self, Look, Plan};
use annals_local::target::Target;
use annals_local::terminal;
use annals_local::tty;
use annals_runtime::telemetry;
use annals_store::settings::{StoreConfig, retention};
use clap::{Args, Parser, Subcommand, ValueEnum};

const SETTINGS: &str = "Settings are environment variables, or lines NAME=value in the file .env of the working folder. Each is described \
                        in docs/settings.md of the source, and what is wrong with them is reported by `annals doctor`.";

/// One durable history per chat, whatever channel a message comes in by. Without a command: serves every route on this
/// machine, with its data in .annals.
#[derive(Parser)]
#[command(name = "annals", version, after_help = SETTINGS)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Serve every route, and the stores, the queue and the secrets as AWS services, for functions in containers
    ///
    /// DynamoDB, S3, SQS (sending) and Secrets Manager (reading) share one address. Each call must be signed with a key of the
    /// data directory, which is printed.
    Aws {
        /// An address of this machine. Docker's bridge, for containers on Linux: 172.17.0.1
        #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
        host: IpAddr,
        /// 0 picks a free one and prints it
        #[arg(long, default_value_t = aws::PORT)]
        port: u16,
    },
    /// Check settings, stores, queue, webhooks, model and clock, and print a remedy for each fault
    ///
    /// Checks AWS if a name of the stack is set (`ANNALS_TABLE`, `ANNALS_BUCKET`, `ANNALS_QUEUE_URL`), with the credentials of the
    /// environment, and `ANNALS_SECRETS` for the secrets; otherwise this machine.
    Doctor,
    /// Point a platform's webhook to Annals
    Setup {
        #[command(subcommand)]
        channel: setup::Arguments,
    },
    /// Post recorded webhook bodies (files, or folders of .json files) to the running program
    Replay {
        /// Bodies as JSON: Telegram's updates, Lark's events, Discord's calls; of a folder, its .json files, and not those of folders in it
        #[arg(required = true)]
        paths: Vec<PathBuf>,
    },
    /// Talk to the bot here, as the person `local` or another
    ///
    /// It is the same chat each time. Uses the running program if there is one. In a pipe, standard input is the message, and
    /// only the reply goes to standard output; the exit status is 1 if there is no reply. With --url or --profile, talks to a
    /// stack in a web room of the key, as a page with `useChat` does.
    Chat {
        /// Send this single message, and print the reply
        message: Option<String>,
        /// The person who speaks, by default `ANNALS_USER` or `local`; the same as an admin key's userId
        #[arg(long, value_name = "NAME")]
        user: Option<String>,
        /// With --url or --profile: a web room of the key, by default terminal-NAME
        #[arg(long, value_name = "ID")]
        room: Option<String>,
        #[command(flatten)]
        at: Target,
    },
    /// Import histories of other programs: Telegram Desktop's JSON export, `UIMessage`s one a line or in an array
    ///
    /// Stored messages are left as they are, and none is answered. Imports into AWS if `ANNALS_TABLE` and `ANNALS_BUCKET` are set,
    /// with the credentials of the environment; otherwise into the data directory, even while the program runs.
    Import {
        /// result.json of Telegram Desktop, of one chat or of an account; lines as `history --jsonl` prints them, or an array
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// The chat to import into; of a file that names several, only this one
        #[arg(long, value_name = "CHATKEY")]
        chat: Option<String>,
        /// The bot's user id at Telegram, if `TELEGRAM_BOT_TOKEN` is not set: its messages are the assistant's
        #[arg(long, value_name = "USER_ID")]
        bot: Option<i64>,
    },
    /// Print the history of a chat, oldest first
    History {
        /// Such as telegram:chat:42 or http:chat:dev:hello
        chat_key: String,
        /// One UIMessage a line
        #[arg(long)]
        jsonl: bool,
        #[command(flatten)]
        at: Target,
    },
    /// Write a whole chat to standard output, as JSON lines or Markdown; or everything of a person
    ///
    /// For a person: memory entries and messages of all chats, as `GET /v1/people/{id}/export` returns them, with an admin key.
    Export {
        /// Such as telegram:chat:42 or http:chat:dev:hello
        #[arg(required_unless_present = "person", conflicts_with = "person")]
        chat_key: Option<String>,
        /// Everything of this person instead: an identity such as telegram-42, lark-ou_ada or app/ada
        #[arg(long, value_name = "ID", conflicts_with = "format")]
        person: Option<String>,
        /// `jsonl` is what `import` takes, `markdown` is for reading
        #[arg(long, value_enum, default_value_t = ExportFormat::Jsonl)]
        format: ExportFormat,
        #[command(flatten)]
        at: Target,
    },
    /// Follow all chats, or one: what arrives, is answered, waits for approval, is delivered or fails
    ///
    /// A line is the time (UTC), the chat's title, the sender, the kind of the event and the text. All chats need an admin key.
    /// A poll of a stack costs some 120 read units, one of a single chat some ten; nothing is written.
    Tail {
        /// Follow only this chat, such as telegram:chat:42
        #[arg(long, value_name = "CHATKEY")]
        chat: Option<String>,
        /// Seconds between two polls: by default 2 on this machine, 10 for a stack
        #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
        every: Option<u64>,
        /// Number of earlier events to show first
        #[arg(long, value_name = "NUMBER", default_value_t = 10)]
        earlier: usize,
        /// One event a line, as JSON: at, kind, chatKey, title, who, messageId, text
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        at: Target,
    },
    /// List chats, the most recently used first
    ///
    /// A stack, or a program elsewhere, needs an admin key.
    Chats {
        /// Only chats with this in their title, a person or the ChatKey
        words: Vec<String>,
        /// Only chats in this state, as `GET /v1/chats` names it
        #[arg(long)]
        state: Option<String>,
        /// Maximum number of chats
        #[arg(long, default_value_t = 25)]
        limit: usize,
        /// One chat a line, as JSON
        #[arg(long)]
        jsonl: bool,
        #[command(flatten)]
        at: Target,
    },
    /// Search the whole history of a chat, the best hits first
    Search {
        /// Such as telegram:chat:42 or http:chat:dev:hello
        chat_key: String,
        /// What to look for
        #[arg(required = true)]
        words: Vec<String>,
        /// Maximum number of hits
        #[arg(long, default_value_t = 8)]
        limit: usize,
        /// One UIMessage a line
        #[arg(long)]
        jsonl: bool,
        #[command(flatten)]
        at: Target,
    },
    /// List the archived segments of a chat, or print one
    Archive {
        /// Such as telegram:chat:42 or http:chat:dev:hello
        chat_key: String,
        /// The segment to print
        segment: Option<String>,
        /// One UIMessage a line
        #[arg(long, requires = "segment")]
        jsonl: bool,
        #[command(flatten)]
        at: Target,
    },
    /// Print the context that the model would get now
    Context {
        /// Such as telegram:chat:42 or http:chat:dev:hello
        chat_key: String,
        #[command(flatten)]
        at: Target,
    },
    /// List, correct and delete memory entries of people and groups
    Memory {
        #[command(subcommand)]
        command: MemoryCommand,
    },
}

/// Format of an exported chat.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    Jsonl,
    Markdown,
}

#[derive(Subcommand)]
enum MemoryCommand {
    /// List the entries of a person, or of a group
    List {
        #[command(flatten)]
        owner: OwnerArguments,
        #[command(flatten)]
        at: Target,
    },
    /// Correct an entry
    Set {
        /// As `memory list` shows it
        id: String,
        /// The text, or a Markdown document with front matter
        text: String,
        #[command(flatten)]
        at: Target,
    },
    /// Delete an entry for good
    Forget {
        /// As `memory list` shows it
        id: String,
        #[command(flatten)]
        at: Target,
    },
}

#[derive(Args)]
#[group(required = true, multiple = false)]
struct OwnerArguments {
    /// Such as telegram-42, lark-ou_ada, discord-7 or app/ada
    #[arg(long, value_name = "ID")]
    user: Option<String>,
    /// Such as telegram:chat:-42
    #[arg(long, value_name = "CHATKEY")]
    chat: Option<String>,
}

fn main() -> ExitCode {
    make_private();
    let arguments = Arguments::parse();
    // Before the runtime's threads start, since it changes the environment.
    let file = match dotenv::load(Path::new(dotenv::FILE)) {
        Ok(is_read) => is_read.then_some(dotenv::FILE),
        Err(error) => return failed(&error),
    };
    match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime.block_on(start(arguments, file)),
        Err(error) => failed(&error.into()),
    }
}

/// Runs a command, with settings of `file`, if that was read.
async fn start(arguments: Arguments, file: Option<&'static str>) -> ExitCode {
    let colours = tty::has_colours(Env::new(&process_env), &std::io::stderr());
    // A conversation is not interrupted by logs, unless `RUST_LOG` is set.
    telemetry::init_terminal(matches!(arguments.command, Some(Command::Chat { .. })), colours);
    if !matches!(arguments.command, Some(Command::Doctor)) {
        for warning in settings::misspelt(process_names()) {
            eprintln!("annals: {}", warning.text(Language::En));
        }
    }
    // On the heap, since the future is as large as those of all commands together.
    match Box::pin(run(arguments, file)).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // The reader of the pipe has closed it, which is no failure.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("annals: {}", plain(&format!("{error:#}")));
    ExitCode::FAILURE
}

/// Runs a command. Returns false if it failed and has printed the reason itself.
async fn run(arguments: Arguments, file: Option<&'static str>) -> anyhow::Result<bool> {
    let env = Env::new(&process_env);
    let clock = Clock::system();
    match arguments.command {
        Some(Command::Chat { message, user, room, at }) => {
            Box::pin(terminal::chat(terminal::Plan { message, user, room, at }, env, clock)).await
        }
        command => Box::pin(run_other(command, file, env, clock)).await.map(|()| true),
    }
}

async fn run_other(
    command: Option<Command>,
    file: Option<&'static str>,
    env: Env<'_>,
    clock: Clock,
) -> anyhow::Result<()> {
    match command {
        // Handled by the caller.
        Some(Command::Chat { .. }) => Ok(()),
        None => serve(LocalConfig::from_env(env)?, file, None, clock).await,
        Some(Command::Aws { host, port }) => {
            if host.is_unspecified() {
                eprintln!(
                    "annals: {host} is every network of this machine, and calls are signed but not encrypted: others on the \
                     network can read the secrets. Containers on Linux only need Docker's bridge, --host 172.17.0.1"
                );
            }
            serve(LocalConfig::from_env(env)?, file, Some(SocketAddr::new(host, port)), clock).await
        }
        Some(Command::Doctor) => {
            let out = std::io::stdout();
            // An invalid `LANGUAGE` is one of the faults.
            let language = tty::language(env).unwrap_or(Language::En);
            doctor(clock, language, tty::has_colours(env, &out), &mut out.lock()).await
        }
        Some(Command::Setup { channel }) => setup::setup(env, &channel, &mut std::io::stdout()).await,
        Some(Command::Import { files, chat, bot }) => import_files(&files, chat, bot, env, clock).await,
        Some(Command::Replay { paths }) => {
            let config = LocalConfig::from_env(env)?.with_key()?;
            replay(&config, &paths, &clock, &mut std::io::stdout()).await
        }
        Some(command) => ask(command, env, clock).await,
    }
}

/// Runs a command that asks the API, here or elsewhere.
async fn ask(command: Command, env: Env<'_>, clock: Clock) -> anyhow::Result<()> {
    let out = &mut std::io::stdout().lock();
    let reader = async |at: &Target| at.api(env, clock.clone(), false).await;
    match command {
        Command::Chats { words, state, limit, jsonl, at } => {
            let query = (!words.is_empty()).then(|| words.join(" "));
            let selection = Selection { query, state, limit };
            show::chats(&reader(&at).await?, &selection, format(jsonl), out).await
        }
        Command::Search { chat_key, words, limit, jsonl, at } => {
            show::search(&reader(&at).await?, &chat_key, &words.join(" "), limit, format(jsonl), out).await
        }
        Command::History { chat_key, jsonl, at } => {
            show::history(&reader(&at).await?, &chat_key, format(jsonl), out).await
        }
        Command::Archive { chat_key, segment: Some(id), jsonl, at } => {
            show::segment(&reader(&at).await?, &chat_key, &id, format(jsonl), out).await
        }
        Command::Archive { chat_key, at, .. } => show::segments(&reader(&at).await?, &chat_key, out).await,
        Command::Context { chat_key, at } => show::context(&reader(&at).await?, &chat_key, out).await,
        Command::Export { person: Some(person), at, .. } => {
            export::person(&reader(&at).await?, &person, out).await
        }
        Command::Export { chat_key, format, at, .. } => {
            let is_markdown = format == ExportFormat::Markdown;
            export::chat(&reader(&at).await?, &chat_key.unwrap_or_default(), is_markdown, &clock, out).await
        }
        Command::Tail { chat, every, earlier, json, at } => {
            let is_terminal = std::io::stdout().is_terminal();
            let look = Look {
                json,
                colours: tty::has_colours(env, &std::io::stdout()),
                width: is_terminal.then_some(tty::width),
                titles: chat.is_none(),
            };
            let plan = Plan { chat, every: every.map(Duration::from_secs), earlier };
            tail::tail(&reader(&at).await?, plan, &look, &clock, out).await
        }
        Command::Memory { command } => match command {
            MemoryCommand::List { owner, at } => {
                let owner = match owner {
                    OwnerArguments { user: Some(person), .. } => Owner::User(person),
                    OwnerArguments { chat, .. } => Owner::Chat(chat.unwrap_or_default()),
                };
                memory::list(&reader(&at).await?, &owner, out).await
            }
            MemoryCommand::Set { id, text, at } => {
                memory::set(&at.api(env, clock, true).await?, &id, &text, out).await
            }
            MemoryCommand::Forget { id, at } => {
                memory::forget(&at.api(env, clock, true).await?, &id, out).await
            }
        },
        // Handled by the callers.
        Command::Chat { .. }
        | Command::Aws { .. }
        | Command::Doctor
        | Command::Setup { .. }
        | Command::Import { .. }
        | Command::Replay { .. } => Ok(()),
    }
}

async fn import_files(
    files: &[PathBuf],
    chat: Option<String>,
    bot: Option<i64>,
    env: Env<'_>,
    clock: Clock,
) -> anyhow::Result<()> {
    let options = import::Options {
        chat: chat.map(|chat| parse_chat_key(&chat)).transpose()?,
        bot: bot.or(TelegramConfig::from_env(env)?.map(|telegram| telegram.bot_id)),
        settings: channel_settings(env)?,
        view: ViewConfig::from_env(env)?,
    };
    let is_in_aws = ["ANNALS_TABLE", "ANNALS_BUCKET"].iter().any(|name| env.optional(name).is_some());
    let history = if is_in_aws {
        let store = StoreConfig::from_env(env)?;
        annals_runtime::aws::history(&annals_runtime::aws::sdk_config().await, store, clock)
    } else {
        new_history(&data_dir(env), retention(env)?, clock).await?
    };
    import::import(&history, files, &options, &mut std::io::stdout()).await
}

async fn serve(
    config: LocalConfig,
    file: Option<&'static str>,
    aws: Option<SocketAddr>,
    clock: Clock,
) -> anyhow::Result<()> {
    // Start of the day, so that a printed call is the same message even after a restart.
    let today = clock.now().as_millis() / 86_400_000 * 86_400;
    let mut program = Program::start(config.clone(), clock).await?;
    // With the key that the program has created.
    let config = config.with_key()?;
    let greeting = Greeting::of(&config, file, today);
    if let Some(address) = aws {
        program = program.with_aws(aws::Plan::new(address, &config)).await?;
    }
    let base = format!("http://{}", program.address()?);
    let variables = program.gateway().map(aws::Gateway::variables).transpose()?;
    match greeting.print(&base, variables.as_deref(), &mut std::io::stdout().lock()) {
        // Nobody reads the output, but the program runs.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
        greeted => greeted?,
    }
    program.serve(annals_runtime::process::stopped()).await
}

fn format(is_jsonl: bool) -> Format {
    if is_jsonl { Format::Jsonl } else { Format::Text }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
}
