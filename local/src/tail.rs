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

use std::io::Write;
use std::time::Duration;

use annals_io::clock::Clock;

use crate::api::{Api, Failed};
use crate::errors::plain;
use chats::Chats;
pub use event::Look;

/// Pause between two polls of a program on this machine.
const NEAR: Duration = Duration::from_secs(2);
/// Pause between two polls of a stack, which bills each request.
const FAR: Duration = Duration::from_secs(10);
/// Longest pause while a program does not answer.
const MAX_PAUSE: Duration = Duration::from_mins(1);

/// The options of `annals tail`.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The only chat; all chats otherwise.
    pub chat: Option<String>,
    /// Pause between two polls.
    pub every: Option<Duration>,
    /// Number of earlier events that are shown first.
    pub earlier: usize,
}

/// Prints events until the process ends, or a request is refused for good.
pub async fn tail(
    api: &Api,
    plan: Plan,
    look: &Look,
    clock: &Clock,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let every = plan.every.unwrap_or(if api.is_near() { NEAR } else { FAR });
    let mut chats = Chats::new(api, plan.chat.as_deref(), clock);
    let mut events = chats.begin().await?;
    eprintln!(
        "annals: following {} of {}, every {} s, with times in UTC. Ctrl-C ends.",
        plan.chat.as_deref().unwrap_or("all chats"),
        api.name(),
        every.as_secs()
    );
    events.drain(..events.len().saturating_sub(plan.earlier));
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

/// Returns the pause after so many polls that failed.
fn pause(every: Duration, failures: u32) -> Duration {
    (every * 2u32.saturating_pow(failures.min(6))).min(MAX_PAUSE.max(every))
}
