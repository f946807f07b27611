//! The conversation at the prompt.

use std::io::{Stdout, Write, stdout};
use std::path::Path;

use annals_core::approval::{RESPONDED, Request, requests};
use annals_core::command::Command;
use annals_core::message::{PartView, Role, UiMessage};
use annals_core::record::Kind;
use annals_core::visible::shown_input;
use annals_http::random_id;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use super::echo::{CtrlC, EchoOff};
use super::editor::{Prompt, Typed};
use super::event::Event;
use super::markdown::Markdown;
use super::room::Events;
use super::screen::{Screen, Style};
use super::session::Session;
use super::unknown;
use crate::api::Failed;
use crate::tty::printable;

/// Number of messages shown at the start.
const SHOWN_AT_START: usize = 4;
/// Number of messages that `/history` shows: by default, and at most.
const SHOWN: usize = 20;
const MAX_SHOWN: usize = 200;
/// Attempts to send a message, under one id, if the program ends meanwhile.
const ATTEMPTS: usize = 3;

/// A conversation.
struct Talk {
    session: Session,
    screen: Screen<Stdout>,
    style: Style,
    prompt: Option<Prompt>,
    ctrl_c: CtrlC,
}

/// Runs a conversation until the person leaves.
pub(super) async fn talk(
    session: Session,
    history: Option<&Path>,
    model: &str,
    style: Style,
) -> anyhow::Result<bool> {
    let prompt = Some(Prompt::open(history, style)?);
    let by = session.name(model, style.texts);
    // From here on, Ctrl-C does not end the process, which would leave the terminal without its echo.
    let ctrl_c = CtrlC::listen()?;
    let mut talk = Talk { session, screen: Screen::new(stdout(), style), style, prompt, ctrl_c };
    talk.screen.note(&format!("{by}{}{}", style.texts.full_stop(), style.texts.terminal_welcome()))?;
    let ended = talk.go().await;
    talk.session.end().await;
    ended.map(|()| true)
}

impl Talk {
    async fn go(&mut self) -> anyhow::Result<()> {
        let shown = self.show_last(SHOWN_AT_START).await;
        self.note_failure(shown)?;
        let followed = self.follow_earlier().await;
        self.note_failure(followed)?;
        loop {
            match self.read(None).await? {
                Typed::Line(line) if line.is_empty() => {}
                Typed::Line(line) if line.trim_start().eq_ignore_ascii_case("/quit") => return Ok(()),
                Typed::Line(line) => match line.trim_start().strip_prefix("/history") {
                    Some(rest) if rest.is_empty() || rest.starts_with(' ') => {
                        let number = rest.trim().parse().unwrap_or(SHOWN);
                        let shown = self.show_last(number.clamp(1, MAX_SHOWN)).await;
                        self.note_failure(shown)?;
                    }
                    _ => match unknown::command(&line, self.style.texts) {
                        Some(unknown) => self.screen.note(&unknown)?,
                        None => self.say(&line).await?,
                    },
                },
                Typed::Interrupted => {}
                Typed::End => return Ok(()),
            }
        }
    }

    /// Reads the next input.
    async fn read(&mut self, question: Option<String>) -> anyhow::Result<Typed> {
        let Some(mut prompt) = self.prompt.take() else { return Ok(Typed::End) };
        let (prompt, typed) = spawn_blocking(move || {
            let typed = match question {
                Some(question) => Prompt::ask(&question),
                None => prompt.read(),
            };
            (prompt, typed)
        })
        .await?;
        self.prompt = Some(prompt);
        typed
    }

    /// Sends `line`, shows the reply, and asks for the approvals that it requests.
    async fn say(&mut self, line: &str) -> anyhow::Result<()> {
        let mut said = self.say_once(line, None).await?;
        if said.is_some() && Command::parse(line, None) == Some(Command::Help) {
            let texts = self.style.texts;
            for (usage, meaning) in texts.terminal_commands() {
                self.screen.note(&format!("{usage}{}{meaning}", texts.colon()))?;
            }
            self.screen.note(self.style.texts.how_to_type())?;
        }
        while let Some(Some(reply)) = said {
            let open: Vec<Request> = requests(&reply).into_iter().filter(|request| request.is_open).collect();
            let Some(answered) = self.ask(reply, open).await? else { return Ok(()) };
            said = self.say_once("", Some(&answered)).await?;
        }
        Ok(())
    }

    /// Sends `line` or an answer, and sends it again if the program ends meanwhile. Returns `None` if the result is unknown.
    async fn say_once(
        &mut self,
        line: &str,
        answered: Option<&UiMessage>,
    ) -> anyhow::Result<Option<Option<UiMessage>>> {
        let id = random_id();
        let _echo_off = EchoOff::begin(self.style.can_move);
        self.ctrl_c.forget();
        let mut attempts = 0;
        loop {
            attempts += 1;
            self.screen.wait(match Command::parse(line, None) {
                Some(Command::Compact) => self.style.texts.summing_up(),
                _ => self.style.texts.waiting(),
            });
            let said = match self.session.room.say(&id, line, answered).await {
                Ok(events) => self.follow(events).await,
                Err(error) => Err(error),
            };
            match said {
                Ok(reply) => return Ok(Some(reply)),
                Err(error) if is_of_terminal(&error) => return Err(error),
                Err(error) if is_refused(&error) => {
                    self.screen.note(&format!("{error:#}"))?;
                    return Ok(None);
                }
                Err(error) if attempts == ATTEMPTS => {
                    let later = self.style.texts.answered_later();
                    self.screen.note(&format!("{error:#}{}{later}", self.style.texts.full_stop()))?;
                    return Ok(None);
                }
                Err(_) => {
                    self.screen.remark(self.style.texts.reconnecting())?;
                    self.session.reopen().await?;
                }
            }
        }
    }

    /// Shows the reply to a message from before the terminal was closed, or of another channel, if one is being made.
    async fn follow_earlier(&mut self) -> anyhow::Result<()> {
        if let Some(events) = self.session.room.pending().await? {
            let _echo_off = EchoOff::begin(self.style.can_move);
            self.screen.wait(self.style.texts.earlier_messages());
            self.follow(events).await?;
        }
        Ok(())
    }

    /// Shows the error of a request that the program did not answer: the next message connects again.
    fn note_failure(&mut self, asked: anyhow::Result<()>) -> anyhow::Result<()> {
        match asked {
            Err(error) if !is_of_terminal(&error) => Ok(self.screen.note(&format!("{error:#}"))?),
            asked => asked,
        }
    }

    /// Shows a reply to its end. Ctrl-C stops the reply; a second one stops waiting for it.
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
                    self.screen.note(&format!("· {why}; {}", self.style.texts.once_more()))?;
                    self.screen.wait(self.style.texts.waiting());
                }
                () = self.ctrl_c.pressed() => {
                    self.screen.rest()?;
                    if is_stopped {
                        self.screen.remark(self.style.texts.not_waiting())?;
                        return Ok(None);
                    }
                    is_stopped = true;
                    let mut stopped = self.session.room.say(&random_id(), "/stop", None).await?;
                    while stopped.next().await?.is_some() {}
                }
            }
        };
        self.screen.rest()?;
        Ok(reply)
    }

    /// Asks for approval of these calls of `reply`, one after the other, and sends all answers but the last, which it returns.
    /// Returns `None` if there are none, or the person leaves one open.
    async fn ask(&mut self, mut reply: UiMessage, open: Vec<Request>) -> anyhow::Result<Option<UiMessage>> {
        let count = open.len();
        for (at, request) in open.into_iter().enumerate() {
            let texts = self.style.texts;
            let input = shown_input(&request.input, |count| texts.characters_left_out(count))
                .unwrap_or_else(|too_long| too_long.to_string());
            // The name is marked as code, which a terminal does not show.
            let question = texts.may_i_call(&printable(&request.tool)).replace('`', "");
            self.screen.line(&self.style.bold(&question))?;
            self.screen.note(&input)?;
            let question = texts.how_to_decide().to_owned();
            // Input from before the question does not answer it.
            if EchoOff::begin(false).has_typed() {
                self.screen.remark(self.style.texts.typed_ahead())?;
                return Ok(None);
            }
            let answer = match self.read(Some(question)).await? {
                Typed::Line(line) if !line.is_empty() => line.trim_start().to_owned(),
                _ => {
                    self.screen.remark(self.style.texts.undecided())?;
                    return Ok(None);
                }
            };
            let approval = match answer.to_ascii_lowercase().as_str() {
                "y" | "yes" => json!({"approved": true}),
                "n" | "no" => json!({"approved": false}),
                _ => json!({"approved": false, "reason": answer}),
            };
            reply = with_answer(&reply, &request.id, approval)?;
            if at + 1 == count {
                return Ok(Some(reply));
            }
            self.say_once("", Some(&reply)).await?;
        }
        Ok(None)
    }

    async fn show_last(&mut self, limit: usize) -> anyhow::Result<()> {
        let messages = self.session.room.history(limit).await?;
        let mut out = stdout().lock();
        for message in &messages {
            write!(out, "{}", earlier(message, self.style))?;
        }
        out.flush()?;
        Ok(())
    }
}

/// Returns `reply` with `approval` as the answer to the request `id`, as the AI SDK adds it.
fn with_answer(reply: &UiMessage, id: &str, mut approval: Value) -> anyhow::Result<UiMessage> {
    approval["id"] = id.into();
    let mut reply = serde_json::to_value(reply)?;
    let parts = reply["parts"].as_array_mut().into_iter().flatten();
    for part in parts.filter(|part| part["approval"]["id"] == id) {
        (part["state"], part["approval"]) = (RESPONDED.into(), approval.clone());
    }
    Ok(serde_json::from_value(reply)?)
}

/// Returns a message of the history as it was on the screen.
fn earlier(message: &UiMessage, style: Style) -> String {
    let dim = |text: String| style.dim(&text);
    let line = |part| match part {
        PartView::Text(text) if message.role == Role::User => {
            Some(dim(format!("> {}\n", printable(text).replace('\n', "\n  "))))
        }
        PartView::Text(text) => Some(Markdown::dimmed(text, style.colours) + "\n"),
        PartView::Tool { name, .. } => Some(dim(format!("· {}\n", printable(name)))),
        _ => None,
    };
    let lines: String = message.parts.iter().filter_map(|part| line(part.view())).collect();
    match message.metadata.kind() {
        Some(Kind::Summary) => dim(format!("· {}\n", style.texts.summed_up())) + &lines,
        _ => lines,
    }
}

/// Returns true if the program refused what was said.
fn is_refused(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Failed>().is_some_and(|failed| !failed.may_pass())
}

/// Returns true if the terminal failed, and not the program.
fn is_of_terminal(error: &anyhow::Error) -> bool {
    error.chain().any(<dyn std::error::Error>::is::<std::io::Error>)
        && !error.chain().any(<dyn std::error::Error>::is::<reqwest::Error>)
}
