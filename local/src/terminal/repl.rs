//! The conversation at the prompt.

use std::io::{Stdout, Write, stdout};
use std::path::Path;

use annals_http::random_id;
use annals_shared::approval::{Request, requests};
use annals_shared::command::Command;
use annals_shared::message::{PartView, Role, UiMessage};
use annals_shared::visible::shown_input;
use futures::FutureExt;
use serde_json::Value;
use tokio::signal::ctrl_c;
use tokio::task::spawn_blocking;

use super::editor::{OWN, Prompt, Typed};
use super::hush::Hush;
use super::screen::{Screen, Style, shown};
use super::session::{Events, Session};
use super::wire::Event;

/// How many of the last messages are shown at the start, and by `/history`.
const LAST: usize = 4;
const MORE: usize = 20;
/// The most that `/history` shows.
const MOST: usize = 200;
/// How often what was said is said again, under its id, where the program has gone.
const TRIES: usize = 3;

/// A conversation.
struct Talk {
    session: Session,
    screen: Screen<Stdout>,
    style: Style,
    prompt: Option<Prompt>,
}

/// Talks until the person leaves.
pub(super) async fn talk(
    session: Session,
    data_dir: &Path,
    model: &str,
    style: Style,
) -> anyhow::Result<bool> {
    let prompt = Some(Prompt::open(data_dir, style)?);
    // Which model a running program has, its own settings say.
    let by =
        if session.is_shared() { "Through the program that serves".to_owned() } else { format!("{model},") };
    let mut talk = Talk { session, screen: Screen::new(stdout(), style), style, prompt };
    talk.screen.note(&format!("{by} {}. /help lists the commands, Ctrl-D leaves.", data_dir.display()))?;
    // From here on Ctrl-C ends no program: it must not leave the terminal without its echo.
    drop(ctrl_c().now_or_never());
    let ended = talk.go().await;
    talk.session.end().await;
    ended.map(|()| true)
}

impl Talk {
    async fn go(&mut self) -> anyhow::Result<()> {
        self.show_last(LAST).await?;
        // What was said before the terminal was closed, or through another door.
        if let Some(events) = self.session.pending().await? {
            let _hush = Hush::begin();
            self.screen.wait("answering what was said before");
            self.follow(events).await?;
        }
        loop {
            match self.read(None).await? {
                Typed::Line(line) if line.is_empty() => {}
                Typed::Line(line) if line.eq_ignore_ascii_case("/quit") => return Ok(()),
                Typed::Line(line) => match line.strip_prefix("/history") {
                    Some(rest) if rest.is_empty() || rest.starts_with(' ') => {
                        let number = rest.trim().parse().unwrap_or(MORE);
                        self.show_last(number.clamp(1, MOST)).await?;
                    }
                    _ => self.say(&line).await?,
                },
                Typed::Interrupted => {}
                Typed::End => return Ok(()),
            }
        }
    }

    /// What is typed next.
    async fn read(&mut self, question: Option<String>) -> anyhow::Result<Typed> {
        let Some(mut prompt) = self.prompt.take() else { return Ok(Typed::End) };
        let (prompt, typed) = spawn_blocking(move || {
            let typed = match question {
                Some(question) => prompt.ask(&question),
                None => prompt.read(),
            };
            (prompt, typed)
        })
        .await?;
        self.prompt = Some(prompt);
        typed
    }

    /// Says `line` and shows what it is answered, and asks what that asks.
    async fn say(&mut self, line: &str) -> anyhow::Result<()> {
        let mut line = line.to_owned();
        loop {
            let Some(reply) = self.say_once(&line).await? else { return Ok(()) };
            if Command::parse(&line, None) == Some(Command::Help) {
                for (usage, meaning) in OWN {
                    self.screen.note(&format!("{usage}: {meaning}"))?;
                }
                self.screen.note("A line that ends with \\ goes on in the next. Ctrl-C stops an answer.")?;
            }
            let open = reply.as_ref().map(requests).unwrap_or_default();
            let mut open = open.into_iter().filter(|request| request.is_open).peekable();
            if open.peek().is_none() {
                return Ok(());
            }
            let Some(answer) = self.ask(open.collect()).await? else { return Ok(()) };
            line = answer;
        }
    }

    /// Says `line`, again where the program goes meanwhile. `None` where nothing more is known of it.
    async fn say_once(&mut self, line: &str) -> anyhow::Result<Option<Option<UiMessage>>> {
        let id = random_id();
        let _hush = Hush::begin();
        let mut tries = 0;
        loop {
            tries += 1;
            self.screen.wait(match Command::parse(line, None) {
                Some(Command::Compact) => "summing up",
                _ => "waiting",
            });
            let said = match self.session.say(&id, line).await {
                Ok(events) => self.follow(events).await,
                Err(error) => Err(error),
            };
            match said {
                Ok(reply) => return Ok(Some(reply)),
                Err(error) if is_ours(&error) => return Err(error),
                Err(error) if tries == TRIES => {
                    self.screen.note(&format!("{error:#}. What was stored of it is answered later."))?;
                    return Ok(None);
                }
                Err(_) => {
                    self.screen.note("· the program has gone; looking for it again")?;
                    self.session.reopen().await?;
                }
            }
        }
    }

    /// Shows a reply to its end; Ctrl-C stops it, a second one leaves it alone.
    async fn follow(&mut self, mut events: Events) -> anyhow::Result<Option<UiMessage>> {
        let mut is_stopped = false;
        let reply = loop {
            tokio::select! {
                event = events.next() => match event? {
                    Some(event) => {
                        self.screen.show(&event)?;
                        if let Event::Done { message, .. } = event {
                            break Some(message);
                        }
                    }
                    None => break None,
                },
                why = self.session.failed() => {
                    self.screen.note(&format!("· {why}; once more"))?;
                    self.screen.wait("waiting");
                }
                pressed = ctrl_c() => {
                    pressed?;
                    self.screen.rest()?;
                    if is_stopped {
                        self.screen.note("· left alone; what comes of it is in /history")?;
                        return Ok(None);
                    }
                    is_stopped = true;
                    let mut stopped = self.session.say(&random_id(), "/stop").await?;
                    while stopped.next().await?.is_some() {}
                }
            }
        };
        self.screen.rest()?;
        Ok(reply)
    }

    /// Asks whether these calls may be made, one after the other; answers with the last answer, all others are given. `None`
    /// where the person leaves one open.
    async fn ask(&mut self, open: Vec<Request>) -> anyhow::Result<Option<String>> {
        let count = open.len();
        for (at, request) in open.into_iter().enumerate() {
            let input = shown_input(&request.input).unwrap_or_else(|too_long| too_long.to_string());
            self.screen.line(&self.style.bold(&format!("May I call {} with this?", shown(&request.tool))))?;
            self.screen.note(&input)?;
            let question = "y allows it, n does not, other words say why not: ".to_owned();
            // What was typed before it was asked is no answer to it.
            if Hush::begin().has_typed() {
                self.screen
                    .note("· it waits, since more was typed already: /approve or /deny when you know")?;
                return Ok(None);
            }
            let answer = match self.read(Some(question)).await? {
                Typed::Line(line) if !line.is_empty() => line,
                _ => {
                    self.screen.note("· it waits: /approve or /deny when you know")?;
                    return Ok(None);
                }
            };
            let command = match answer.to_ascii_lowercase().as_str() {
                "y" | "yes" => format!("/approve {}", request.id),
                "n" | "no" => format!("/deny {}", request.id),
                _ => format!("/deny {} {answer}", request.id),
            };
            if at + 1 == count {
                return Ok(Some(command));
            }
            self.say_once(&command).await?;
        }
        Ok(None)
    }

    async fn show_last(&mut self, limit: usize) -> anyhow::Result<()> {
        let messages = self.session.history(limit).await?;
        let mut out = stdout().lock();
        for message in &messages {
            write!(out, "{}", self.style.dim(&earlier(message)))?;
        }
        out.flush()?;
        Ok(())
    }
}

/// A message of the history, as it was on the screen.
fn earlier(message: &UiMessage) -> String {
    let line = |part| match part {
        PartView::Text(text) if message.role == Role::User => {
            Some(format!("> {}\n", shown(text).replace('\n', "\n  ")))
        }
        PartView::Text(text) => Some(format!("{}\n", shown(text))),
        PartView::Tool { name, .. } => Some(format!("· {}\n", shown(name))),
        _ => None,
    };
    let lines: String = message.parts.iter().filter_map(|part| line(part.view())).collect();
    match message.metadata.get("kind").and_then(Value::as_str) {
        Some("summary") => format!("· summed up:\n{lines}"),
        _ => lines,
    }
}

/// Whether it is the terminal that failed.
fn is_ours(error: &anyhow::Error) -> bool {
    error.chain().any(<dyn std::error::Error>::is::<std::io::Error>)
        && !error.chain().any(<dyn std::error::Error>::is::<reqwest::Error>)
}
