//! The command line: the commands, whose arguments are beside their code.

use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;

use annals_core::language::Language;
use annals_core::settings::Env;
use annals_io::clock::Clock;
use annals_io::environment::{process_env, process_names};
use annals_runtime::telemetry;
use clap::{Parser, Subcommand};
use tokio::runtime::Runtime;

use crate::config::LocalConfig;
use crate::doctor::doctor;
use crate::errors::plain;
use crate::program::Program;
use crate::stores::private::make_private;
use crate::target::Target;
use crate::{
    aws, dotenv, export, greeting, import, memory, replay, settings, setup, show, tail, terminal, tty,
};

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
    Aws(aws::Arguments),
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
    Replay(replay::Arguments),
    /// Talk to the bot here, as the person `local` or another
    ///
    /// It is the same chat each time. Uses the running program if there is one. In a pipe, standard input is the message, and
    /// only the reply goes to standard output; the exit status is 1 if there is no reply. With --url or --profile, talks to a
    /// stack in a web room of the key, as a page with `useChat` does.
    Chat(terminal::Arguments),
    /// Import histories of other programs: Telegram Desktop's JSON export, `UIMessage`s one a line or in an array
    ///
    /// Stored messages are left as they are, and none is answered. Imports into AWS if `ANNALS_TABLE` and `ANNALS_BUCKET` are set,
    /// with the credentials of the environment; otherwise into the data directory, even while the program runs.
    Import(import::Arguments),
    /// Print the history of a chat, oldest first
    History(show::History),
    /// Write a whole chat to standard output, as JSON lines or Markdown; or everything of a person
    ///
    /// For a person: memory entries and messages of all chats, as `GET /v1/people/{id}/export` returns them, with an admin key.
    Export(export::Arguments),
    /// Follow all chats, or one: what arrives, is answered, waits for approval, is delivered or fails
    ///
    /// A line is the time (UTC), the chat's title, the sender, the kind of the event and the text. All chats need an admin key.
    /// A poll of a stack costs some 120 read units, one of a single chat some ten; nothing is written.
    Tail(tail::Arguments),
    /// List chats, the most recently used first
    ///
    /// A stack, or a program elsewhere, needs an admin key.
    Chats(show::Chats),
    /// Search the whole history of a chat, the best hits first
    Search(show::Search),
    /// List the archived segments of a chat, or print one
    Archive(show::Archive),
    /// Print the context that the model would get now
    Context(show::Context),
    /// List, correct and delete memory entries of people and groups
    Memory {
        #[command(subcommand)]
        command: memory::Command,
    },
}

/// Runs the command that the arguments of this process name.
pub fn run() -> ExitCode {
    make_private();
    let Arguments { command } = Arguments::parse();
    // Before the runtime's threads start, since it changes the environment.
    let read = dotenv::load(Path::new(dotenv::FILE));
    match read.and_then(|is_read| Ok((is_read.then_some(dotenv::FILE), Runtime::new()?))) {
        Ok((file, runtime)) => runtime.block_on(async { status(start(command, file).await) }),
        Err(error) => status(Err(error)),
    }
}

/// Returns the status of a command; false means that it failed and has printed the reason itself.
fn status(result: anyhow::Result<bool>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // The reader of the pipe has closed it, which is no failure.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("annals: {}", plain(&format!("{error:#}")));
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    causes.any(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
}

/// Runs a command, with settings of `file`, if that was read.
async fn start(command: Option<Command>, file: Option<&'static str>) -> anyhow::Result<bool> {
    let (env, clock) = (Env::new(&process_env), Clock::system());
    // A conversation is not interrupted by logs, unless `RUST_LOG` is set.
    let is_chat = matches!(command, Some(Command::Chat(_)));
    telemetry::init_terminal(is_chat, tty::has_colours(env, &std::io::stderr()));
    if !matches!(command, Some(Command::Doctor)) {
        for warning in settings::misspelt(process_names()) {
            eprintln!("annals: {}", warning.text(Language::En));
        }
    }
    // On the heap, since the futures are large.
    match command {
        Some(Command::Chat(chat)) => Box::pin(chat.run(env, clock)).await,
        None => Box::pin(serve(env, file, None, clock)).await.map(|()| true),
        Some(Command::Aws(aws)) => {
            Box::pin(serve(env, file, Some(aws.address()), clock)).await.map(|()| true)
        }
        Some(command) => Box::pin(print(command, env, clock)).await.map(|()| true),
    }
}

/// Runs a command that prints to standard output and ends.
async fn print(command: Command, env: Env<'_>, clock: Clock) -> anyhow::Result<()> {
    let out = &mut std::io::stdout().lock();
    let api = async |at: &Target| at.api(env, clock.clone(), false).await;
    match command {
        // Handled by the caller.
        Command::Chat(_) | Command::Aws(_) => Ok(()),
        Command::Doctor => {
            // An invalid `LANGUAGE` is one of the faults.
            let language = tty::language(env).unwrap_or(Language::En);
            doctor(clock, language, tty::has_colours(env, &*out), out).await
        }
        Command::Setup { channel } => setup::setup(env, &channel, out).await,
        Command::Import(import) => import.run(env, clock, out).await,
        Command::Replay(replay) => replay.run(env, &clock, out).await,
        Command::Chats(chats) => chats.run(&api(&chats.at).await?, out).await,
        Command::Search(search) => search.run(&api(&search.at).await?, out).await,
        Command::History(history) => history.run(&api(&history.at).await?, out).await,
        Command::Archive(archive) => archive.run(&api(&archive.at).await?, out).await,
        Command::Context(context) => context.run(&api(&context.at).await?, out).await,
        Command::Export(export) => export.run(&api(&export.at).await?, &clock, out).await,
        Command::Tail(tail) => tail.run(&api(&tail.at).await?, env, &clock, out).await,
        Command::Memory { command } => command.run(env, clock, out).await,
    }
}

/// Serves every route until the process is to stop; and AWS's services at the address `aws`.
async fn serve(
    env: Env<'_>,
    file: Option<&'static str>,
    aws: Option<SocketAddr>,
    clock: Clock,
) -> anyhow::Result<()> {
    let config = LocalConfig::from_env(env)?;
    // Start of the day, so that a printed call is the same message even after a restart.
    let today = clock.now().as_millis() / 86_400_000 * 86_400;
    let mut program = Program::start(config.clone(), clock).await?;
    // With the key that the program has created.
    let config = config.with_key()?;
    if let Some(address) = aws {
        program = program.with_aws(address, &config).await?;
    }
    let base = format!("http://{}", program.address()?);
    let variables = program.gateway().map(aws::Gateway::variables).transpose()?;
    let variables = variables.as_deref();
    match greeting::print(&config, file, today, &base, variables, &mut std::io::stdout()) {
        // Nobody reads the output, but the program runs.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
        greeted => greeted?,
    }
    program.serve(annals_runtime::process::stopped()).await
}
