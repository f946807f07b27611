//! One message, and its reply: `annals chat "…"`, and in a pipe.
//!
//! To somebody who watches, the reply is shown as it is made. In a pipe it comes once it is stored, whole: what broke off and
//! was made again cannot be taken back there.

use std::io::{Write, stdout};

use annals_http::random_id;
use annals_shared::approval::requests;
use annals_shared::message::UiMessage;
use annals_shared::record::STOPPED_BY;

use super::screen::{FORGOTTEN, Screen, Style, shown};
use super::session::Session;
use super::wire::Event;

/// How often it is said, under one id, where the program goes meanwhile.
const TRIES: usize = 3;

/// Says `message` and prints the reply to standard output, all else to standard error. Whether there is one.
pub(super) async fn say(mut session: Session, message: &str, style: Style) -> anyhow::Result<bool> {
    let id = random_id();
    let mut tries = 0;
    let said = loop {
        tries += 1;
        match say_once(&mut session, &id, message, style).await {
            Err(error)
                if tries < TRIES && error.chain().any(<dyn std::error::Error>::is::<reqwest::Error>) =>
            {
                session.reopen().await?;
            }
            said => break said,
        }
    };
    session.end().await;
    said
}

async fn say_once(session: &mut Session, id: &str, message: &str, style: Style) -> anyhow::Result<bool> {
    let mut screen = Screen::new(stdout(), style);
    let mut events = session.say(id, message).await?;
    screen.wait("waiting");
    loop {
        let event = tokio::select! {
            event = events.next() => event?,
            why = session.failed() => {
                screen.rest()?;
                eprintln!("annals: {}; once more", shown(&why));
                screen.wait("waiting");
                continue;
            }
        };
        let Some(event) = event else { break };
        match event {
            Event::Told { text } => {
                screen.rest()?;
                writeln!(stdout(), "{}", shown(&text))?;
            }
            Event::Forgotten => {
                screen.rest()?;
                eprintln!("annals: {FORGOTTEN}");
                return Ok(false);
            }
            Event::Done { message, failed } if failed || message.metadata.contains_key(STOPPED_BY) => {
                screen.rest()?;
                let text = message.plain_text();
                eprintln!("annals: {}", if text.is_empty() { "stopped" } else { &text });
                return Ok(false);
            }
            Event::Done { message, .. } if style.is_terminal => {
                screen.show(&Event::Done { message: message.clone(), failed: false })?;
                say_what_waits(&message);
                return Ok(true);
            }
            Event::Done { message, .. } => {
                let text = message.plain_text();
                // In a pipe it is data, as it was said.
                writeln!(stdout(), "{}", text.trim_end_matches('\n'))?;
                say_what_waits(&message);
                return Ok(true);
            }
            event if style.is_terminal => screen.show(&event)?,
            _ => {}
        }
    }
    screen.rest()?;
    Ok(true)
}

fn say_what_waits(message: &UiMessage) {
    for request in requests(message).iter().filter(|request| request.is_open) {
        eprintln!(
            "annals: {} waits for a word: annals chat '/approve {}', or /deny",
            shown(&request.tool),
            request.id
        );
    }
}
