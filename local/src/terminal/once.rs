//! Sends a single message and prints its reply: `annals chat "…"`, and in a pipe.
//!
//! A terminal shows the reply while it is made. A pipe gets it whole when it is stored, since the output of a broken answer could
//! not be taken back.

use std::io::{Write, stdout};

use annals_agent::is_stopped_unanswered;
use annals_core::approval::requests;
use annals_core::message::UiMessage;
use annals_http::random_id;

use super::event::Event;
use super::screen::{Screen, Style};
use super::session::Session;
use crate::api::Failed;
use crate::tty::printable;

/// Attempts to send a message, under one id, if the program ends meanwhile.
const ATTEMPTS: usize = 3;

/// Sends `message` and prints the reply to standard output, everything else to standard error. Returns true if there is a reply.
pub(super) async fn say(mut session: Session, message: &str, style: Style) -> anyhow::Result<bool> {
    let id = random_id();
    let mut attempts = 0;
    let said = loop {
        attempts += 1;
        match say_once(&mut session, &id, message, style).await {
            Err(error) if attempts < ATTEMPTS && is_lost(&error) => session.reopen().await?,
            said => break said,
        }
    };
    session.end().await;
    said
}

async fn say_once(session: &mut Session, id: &str, message: &str, style: Style) -> anyhow::Result<bool> {
    let mut screen = Screen::new(stdout(), style);
    let mut events = session.room.say(id, message, None).await?;
    screen.wait(style.texts.waiting());
    loop {
        let event = tokio::select! {
            event = events.next() => event?,
            why = session.failed() => {
                screen.rest()?;
                eprintln!("annals: {}; {}", printable(&why), style.texts.once_more());
                screen.wait(style.texts.waiting());
                continue;
            }
        };
        let Some(event) = event else { break };
        match event {
            Event::Confirmed { text } => {
                screen.rest()?;
                writeln!(stdout(), "{}", printable(&text))?;
            }
            Event::Forgotten => {
                screen.rest()?;
                eprintln!("annals: {}", style.texts.chat_forgotten());
                return Ok(false);
            }
            Event::Broken { text } => {
                screen.rest()?;
                eprintln!("annals: {}", printable(&text));
                return Ok(false);
            }
            Event::Done { message, failed } if failed || is_stopped_unanswered(&message) => {
                screen.rest()?;
                eprintln!("annals: {}", message.plain_text());
                if let Some(cause) = message.metadata.cause() {
                    eprintln!("annals: {}", printable(cause));
                }
                return Ok(false);
            }
            Event::Done { message, .. } if style.is_terminal => {
                screen.show(&Event::Done { message: message.clone(), failed: false })?;
                print_requests(&message, style);
                return Ok(message.metadata.stopped_by().is_none());
            }
            Event::Done { message, .. } => {
                let text = message.plain_text();
                // Data for a pipe is not changed.
                writeln!(stdout(), "{}", text.trim_end_matches('\n'))?;
                print_requests(&message, style);
                if message.metadata.stopped_by().is_some() {
                    eprintln!("annals: {}", style.texts.answer_stopped());
                    return Ok(false);
                }
                return Ok(true);
            }
            event if style.is_terminal => screen.show(&event)?,
            _ => {}
        }
    }
    screen.rest()?;
    Ok(true)
}

/// Returns true if the connection was lost, or there was none.
fn is_lost(error: &anyhow::Error) -> bool {
    error.chain().any(<dyn std::error::Error>::is::<reqwest::Error>)
        || error.downcast_ref::<Failed>().is_some_and(|failed| failed.status.is_none())
}

fn print_requests(message: &UiMessage, style: Style) {
    for request in requests(message).iter().filter(|request| request.is_open) {
        eprintln!("annals: {}", style.texts.call_waits(&printable(&request.tool), &request.id));
    }
}
