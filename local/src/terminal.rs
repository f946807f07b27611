//! `annals chat`: the bot in the terminal, as the person `local`.
//!
//! One program at a time works on a data directory, so the terminal never opens the stores itself: it talks to the program
//! that has them. Where none runs, it runs one, for as long as it lasts. Either way the same [`door`] answers, on a Unix socket
//! in the data directory, which its owner alone may open. So it works whatever `HTTP_API_KEYS` and `ANNALS_PORT` say, and two
//! terminals can be in one chat.
//!
//! # Layout
//!
//! - [`door`]: what the program answers the terminal by; `follow.rs` a reply on its way
//! - `wire.rs`: what passes between the two
//! - `session.rs`: the way to the program, or a program of its own
//! - `screen.rs`: what is shown; `editor.rs`: what is typed, and `hush.rs` while an answer is made
//! - `repl.rs`: the conversation; `once.rs`: one message, in a pipe

pub mod door;
mod editor;
mod follow;
mod hush;
mod once;
mod repl;
mod screen;
mod session;
mod wire;

use std::io::{IsTerminal, Read};

use annals_shared::clock::Clock;
use annals_shared::config::Env;
use anyhow::Context;

use crate::config::LocalConfig;
use crate::tty;
use screen::Style;
use session::Session;

/// Who speaks in the terminal.
pub const USER: &str = "local";

/// Talks until the person leaves, or says `message` alone and prints what it is answered. Whether all was answered.
///
/// Where there is no `message` and no terminal to type at, what comes by standard input is the message, all of it.
pub async fn chat(message: Option<String>, env: Env<'_>, clock: Clock) -> anyhow::Result<bool> {
    let config = LocalConfig::from_env(env)?;
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
            std::io::stdin().read_to_string(&mut text).context("standard input is no text")?;
            text
        }
    };
    anyhow::ensure!(
        !message.trim().is_empty(),
        "there is nothing to say: give a message, or send one to standard input"
    );
    let session = Session::open(config, clock).await?;
    Box::pin(once::say(session, message.trim_end(), style)).await
}
