//! `annals chat`: the bot in the terminal, as the person `local` or another.
//!
//! Only one program at a time may use a data directory, so the terminal never opens the stores itself: it talks to the
//! program that does. If none runs, it runs one for as long as it lasts. Either way the same [`endpoint`] answers, on a Unix
//! socket in the data directory, which only its owner may open. So it works with any `HTTP_API_KEYS` and `ANNALS_PORT`, and
//! two terminals can be in one chat. A program or stack elsewhere is asked at its address. Both are asked by `/api/chat`, as
//! browsers do.
//!
//! # Layout
//!
//! - [`endpoint`]: answers terminals, in the program
//! - `session.rs`: connects to the program, or runs one; `room.rs`, `chunks.rs`, `event.rs`: what is said, and its answer
//! - `screen.rs`: output, with `markdown.rs`; `editor.rs`: input, with `rows.rs`, and `echo.rs` while an answer is made
//! - `repl.rs`: a conversation; `once.rs`: a single message, in a pipe
//! - `unknown.rs`: commands that do not exist

mod chunks;
mod echo;
mod editor;
pub(crate) mod endpoint;
mod event;
mod markdown;
mod once;
mod repl;
mod room;
mod rows;
mod screen;
mod session;
mod unknown;

use std::io::{IsTerminal, Read};

use annals_channel::settings::agent_id;
use annals_core::chat_key::ChatKey;
use annals_core::person::canonical;
use annals_core::settings::Env;
use annals_io::clock::Clock;
use anyhow::Context;
use clap::Args;
use room::Room;
use screen::Style;
use session::Session;

use crate::api::Api;
use crate::config::{self, LocalConfig};
use crate::stores::files;
use crate::target::Target;
use crate::tty;

/// Arguments of `chat`.
#[derive(Args)]
pub(crate) struct Arguments {
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
}

impl Arguments {
    /// Runs a conversation until the person leaves, or sends a single message and prints the reply. Returns true if all messages
    /// were answered. Without a message and without a terminal, the message is the whole standard input.
    pub(crate) async fn run(self, env: Env<'_>, clock: Clock) -> anyhow::Result<bool> {
        let Self { message, user, room, at } = self;
        let elsewhere = at.elsewhere(env)?;
        anyhow::ensure!(
            room.is_none() || elsewhere.is_some(),
            "--room is for a program or stack elsewhere: name one by --url or --profile"
        );
        let name = match user {
            Some(user) => {
                ChatKey::direct(&agent_id(env)?, &user).context("--user is invalid")?;
                user
            }
            None => config::user(env)?,
        };
        let name = canonical(&name).to_owned();
        let (has_keys, has_screen) = (std::io::stdin().is_terminal(), std::io::stdout().is_terminal());
        let style = Style {
            colours: tty::has_colours(env, &std::io::stdout()),
            can_move: tty::can_move(env, &std::io::stdout()),
            is_terminal: has_screen,
            texts: tty::language(env)?.texts(),
        };
        let message = match message {
            Some(message) => message,
            None if has_keys && has_screen => {
                let model = env.optional("MODEL").unwrap_or_else(|| "echo".into());
                // Lines of a conversation elsewhere are kept there alone.
                let is_here = elsewhere.is_none();
                let session = open(elsewhere, room, name, env, clock).await?;
                let history = is_here.then(|| config::data_dir(env).join(files::TERMINAL_HISTORY));
                return Box::pin(repl::talk(session, history.as_deref(), &model, style)).await;
            }
            None => {
                let mut text = String::new();
                std::io::stdin().read_to_string(&mut text).context("standard input is not text")?;
                text
            }
        };
        anyhow::ensure!(
            !message.trim().is_empty(),
            "there is nothing to say: give a message, or send one to standard input"
        );
        if let Some(unknown) = unknown::command(message.trim(), style.texts) {
            anyhow::bail!(unknown);
        }
        let session = open(elsewhere, room, name, env, clock).await?;
        Box::pin(once::say(session, message.trim_end(), style)).await
    }
}

/// Connects `user` to a program.
async fn open(
    elsewhere: Option<Api>,
    room: Option<String>,
    user: String,
    env: Env<'_>,
    clock: Clock,
) -> anyhow::Result<Session> {
    if let Some(api) = elsewhere {
        return Ok(Session::elsewhere(Room::open(api, room, user, clock).await?));
    }
    let mut config = LocalConfig::from_env(env)?;
    config.user = user;
    Session::open(config, clock).await
}
