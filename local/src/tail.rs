//! `annals tail`: what happens in all chats, or in one, while it happens.
//!
//! Nothing is stored or pushed for it. A poll reads the list of chats, whose entry of a chat has a `version` that changes with its
//! newest records, and the newest page of each chat whose entry has changed. `Chats` compares that with what it has shown, so
//! polls that fail or come late lose nothing and repeat nothing.
//!
//! # Layout
//!
//! - `tail/event.rs`: the events of a message, and how they are printed
//! - `tail/chats.rs`: reads what is new

mod chats;
mod event;

use std::io::{IsTerminal, Write};
use std::time::Duration;

use annals_core::settings::Env;
use annals_io::clock::Clock;
use clap::Args;

use crate::api::{Api, Failed};
use crate::errors::plain;
use crate::target::Target;
use crate::tty;
use chats::Chats;
use event::Look;

/// Pause between two polls of a program on this machine.
const NEAR: Duration = Duration::from_secs(2);
/// Pause between two polls of a stack, which bills each request.
const FAR: Duration = Duration::from_secs(10);
/// Longest pause while a program does not answer.
const MAX_PAUSE: Duration = Duration::from_mins(1);

/// Arguments of `tail`.
#[derive(Args)]
pub(crate) struct Arguments {
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
    pub(crate) at: Target,
}

impl Arguments {
    /// Prints events until the process ends, or a request is refused for good.
    pub(crate) async fn run(
        &self,
        api: &Api,
        env: Env<'_>,
        clock: &Clock,
        out: &mut (impl Write + IsTerminal),
    ) -> anyhow::Result<()> {
        let only = self.chat.as_deref();
        let colours = tty::has_colours(env, &*out);
        let look = Look {
            json: self.json,
            colours,
            width: out.is_terminal().then_some(tty::width),
            titles: only.is_none(),
        };
        let every = self.every.map_or(if api.is_near() { NEAR } else { FAR }, Duration::from_secs);
        let mut chats = Chats::new(api, only, clock);
        chats.poll().await?;
        let mut events = chats.take();
        eprintln!(
            "annals: following {} of {}, every {} s, with times in UTC. Ctrl-C ends.",
            only.unwrap_or("all chats"),
            api.name(),
            every.as_secs()
        );
        events.drain(..events.len().saturating_sub(self.earlier));
        let mut failures: u32 = 0;
        loop {
            for event in events {
                look.print(&event, out)?;
            }
            out.flush()?;
            clock.sleep(pause(every, failures)).await;
            let polled = chats.poll().await;
            events = chats.take();
            match polled {
                Ok(()) => {
                    if failures > 0 {
                        eprintln!("annals: {} answers again", api.name());
                    }
                    failures = 0;
                }
                Err(error) => {
                    let failed = error.downcast_ref::<Failed>();
                    if failed.is_some_and(|failed| !failed.may_pass()) {
                        return Err(error);
                    }
                    if failures == 0 {
                        eprintln!("annals: {}; trying again", plain(&format!("{error:#}")));
                    }
                    failures += 1;
                    if let Some(wait) = failed.and_then(|failed| failed.retry_after) {
                        clock.sleep(wait.min(MAX_PAUSE)).await;
                    }
                }
            }
        }
    }
}

/// Returns the pause after so many polls that failed.
fn pause(every: Duration, failures: u32) -> Duration {
    (every * 2u32.saturating_pow(failures.min(6))).min(MAX_PAUSE.max(every))
}
