//! `annals chat`: the bot in the terminal, as the person `local` or another.
//!
//! Only one program at a time may use a data directory, so the terminal never opens the stores itself: it talks to the program
//! that does. If none runs, it runs one for as long as it lasts. Either way the same [`endpoint`] answers, on a Unix socket in the
//! data directory, which only its owner may open. So it works with any `HTTP_API_KEYS` and `ANNALS_PORT`, and two terminals can
//! be in one chat.
//!
//! # Layout
//!
//! - [`endpoint`]: answers terminals, in the program
//! - `wire.rs`: requests and events between the two
//! - `session.rs`: connects to the program, or runs one
//! - `screen.rs`: output, with `markdown.rs`; `editor.rs`: input, and `echo.rs` while an answer is made
//! - `repl.rs`: a conversation; `once.rs`: a single message, in a pipe
//! - `unknown.rs`: commands that do not exist

mod echo;
mod editor;
pub mod endpoint;
mod markdown;
mod once;
mod repl;
mod screen;
mod session;
mod unknown;
mod wire;

use std::io::{IsTerminal, Read};

use annals_core::chat_key::ChatKey;
use annals_core::settings::Env;
use annals_io::clock::Clock;
use anyhow::Context;
use screen::Style;
use session::Session;

use crate::config::LocalConfig;
use crate::tty;

/// Runs a conversation of `user`, by default `ANNALS_USER`, until the person leaves, or sends the single `message` and prints the reply. Returns true if all messages
/// were answered.
///
/// Without a `message` and without a terminal, the message is the whole standard input.
pub async fn chat(
    message: Option<String>,
    user: Option<String>,
    env: Env<'_>,
    clock: Clock,
) -> anyhow::Result<bool> {
    let mut config = LocalConfig::from_env(env)?;
    if let Some(user) = user {
        ChatKey::direct(&config.agent.agent_id, &user).context("--user names nobody")?;
        config.user = user;
    }
    let (has_keys, has_screen) = (std::io::stdin().is_terminal(), std::io::stdout().is_terminal());
    let style = Style {
        colours: tty::has_colours(env, &std::io::stdout()),
        can_move: tty::can_move(env, &std::io::stdout()),
        is_terminal: has_screen,
    };
    let message = match message {
        Some(message) => message,
        None if has_keys && has_screen => {
            let data_dir = config.data_dir.clone();
            let model = env.optional("MODEL").unwrap_or_else(|| "echo".into());
            let session = Session::open(config, clock).await?;
            return Box::pin(repl::talk(session, &data_dir, &model, style)).await;
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
    if let Some(unknown) = unknown::command(message.trim()) {
        anyhow::bail!(unknown);
    }
    let session = Session::open(config, clock).await?;
    Box::pin(once::say(session, message.trim_end(), style)).await
}
