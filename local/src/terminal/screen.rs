//! Shows a reply in the terminal while it is made: [`Screen`].
//!
//! Markdown is rendered if the terminal has colours, and shown as it is otherwise; never control characters: a model or a tool must
//! not control the terminal. Shown
//! text cannot be taken back; if an answer breaks off, a note says so, and the new one follows.

use std::collections::HashMap;
use std::io::{self, Write};

use annals_agent::is_stopped_unanswered;
use annals_core::message::{Part, PartView, UiMessage};
use annals_core::record::Kind;
use annals_core::texts::Texts;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use super::event::Event;
use super::markdown::Markdown;
use crate::progress::SPINNER_TICK;
use crate::tty::{excerpt, printable};

/// Longest shown input of a call, in characters.
const MAX_INPUT_CHARS: usize = 60;

/// Capabilities of the output, and its language.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    pub(super) colours: bool,
    /// Can erase text, as spinners do.
    pub(super) can_move: bool,
    pub(super) is_terminal: bool,
    /// The terminal's own texts.
    pub(super) texts: &'static dyn Texts,
}

impl Style {
    pub(super) fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    pub(super) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        if !self.colours {
            return text.to_owned();
        }
        // Line by line, so that a pager that cuts the text leaves nothing dim.
        let lines = text
            .split('\n')
            .map(|line| if line.is_empty() { String::new() } else { format!("\x1b[{code}m{line}\x1b[0m") });
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// A reply on the screen.
pub(super) struct Screen<W> {
    out: W,
    style: Style,
    spinner: Option<ProgressBar>,
    /// Id of the reply. A reply that is resumed after an approval is not shown from its beginning.
    message_id: String,
    markdown: Markdown,
    /// Its texts as far as they are shown, and the number of its files that are.
    texts: Vec<String>,
    files: usize,
    /// The state of each call that is shown.
    calls: HashMap<String, String>,
    thinks: bool,
    /// True if the cursor is not at the start of a line.
    is_in_line: bool,
}

impl<W: Write> Screen<W> {
    pub(super) fn new(out: W, style: Style) -> Self {
        Self {
            out,
            style,
            spinner: None,
            message_id: String::new(),
            markdown: Markdown::new(style.colours),
            texts: Vec::new(),
            files: 0,
            calls: HashMap::new(),
            thinks: false,
            is_in_line: false,
        }
    }

    /// Shows a spinner until the next output.
    pub(super) fn wait(&mut self, what: &'static str) {
        if !self.style.can_move {
            return;
        }
        self.stop_waiting();
        let spinner = ProgressBar::new_spinner().with_message(what);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg:.dim} {elapsed:.dim}") {
            spinner.set_style(style);
        }
        spinner.enable_steady_tick(SPINNER_TICK);
        self.spinner = Some(spinner);
    }

    /// Ends the line and the spinner.
    pub(super) fn rest(&mut self) -> io::Result<()> {
        self.stop_waiting();
        let rest = self.markdown.finish();
        self.write(&rest)?;
        if self.is_in_line {
            writeln!(self.out)?;
            self.is_in_line = false;
        }
        self.out.flush()
    }

    /// Shows a dimmed line of its own.
    pub(super) fn note(&mut self, text: &str) -> io::Result<()> {
        let text = self.style.dim(&printable(text));
        self.line(&text)
    }

    /// Shows a remark of the terminal, as a dimmed line of its own.
    pub(super) fn remark(&mut self, text: &str) -> io::Result<()> {
        self.note(&format!("· {text}"))
    }

    /// Shows a line of its own.
    pub(super) fn line(&mut self, text: &str) -> io::Result<()> {
        self.rest()?;
        writeln!(self.out, "{text}")?;
        self.out.flush()
    }

    pub(super) fn show(&mut self, event: &Event) -> io::Result<()> {
        match event {
            Event::Begin { message_id } => {
                self.begin(message_id);
                Ok(())
            }
            Event::Text { at, text } => self.text(*at, text, false),
            Event::Reasoning if !self.thinks => {
                self.thinks = true;
                self.remark(self.style.texts.thinking())?;
                self.wait(self.style.texts.thinking());
                Ok(())
            }
            Event::Reasoning | Event::Still => Ok(()),
            Event::Parts { parts } => self.parts(parts, false),
            Event::Confirmed { text } | Event::Broken { text } => self.note(text),
            Event::Forgotten => self.note(&format!("· {}", self.style.texts.chat_forgotten())),
            Event::Done { message, .. } => self.done(message),
        }
    }

    fn begin(&mut self, message_id: &str) {
        if self.message_id != message_id {
            self.forget();
            message_id.clone_into(&mut self.message_id);
        }
    }

    fn forget(&mut self) {
        self.texts.clear();
        self.calls.clear();
        (self.files, self.thinks) = (0, false);
    }

    /// Shows the rest of the text at this place among the reply's texts, which is whole if `is_end`. Another text than the one on
    /// the screen, of an answer that broke off, follows a note.
    fn text(&mut self, at: usize, text: &str, is_end: bool) -> io::Result<()> {
        // The stored reply has no white space before the first word.
        let text = text.trim_start();
        let Some(had) = self.texts.get(at) else {
            return if text.is_empty() { Ok(()) } else { self.open_text(text) };
        };
        let is_last = at + 1 == self.texts.len();
        match text.strip_prefix(had.as_str()) {
            Some("") => Ok(()),
            Some(rest) if is_last => self.append(rest),
            // A second stream of the reply begins with what is on the screen.
            _ if had.trim() == text.trim() || (!is_end && had.starts_with(text)) => Ok(()),
            _ => {
                self.texts.truncate(at);
                self.remark(self.style.texts.broke_off())?;
                self.open_text(text)
            }
        }
    }

    fn open_text(&mut self, text: &str) -> io::Result<()> {
        self.rest()?;
        self.texts.push(String::new());
        self.append(text)
    }

    fn append(&mut self, delta: &str) -> io::Result<()> {
        self.stop_waiting();
        if let Some(text) = self.texts.last_mut() {
            text.push_str(delta);
        }
        let shown = self.markdown.push(delta);
        self.write(&shown)?;
        self.out.flush()
    }

    /// Writes text of the reply.
    fn write(&mut self, shown: &str) -> io::Result<()> {
        write!(self.out, "{shown}")?;
        // The end of a style alone does not move the cursor.
        let text = shown.trim_end_matches("\x1b[0m");
        self.is_in_line = text.chars().last().map_or(self.is_in_line, |last| last != '\n');
        Ok(())
    }

    /// Shows the rest of the reply so far, which is whole if `is_end`.
    fn parts(&mut self, parts: &[Part], is_end: bool) -> io::Result<()> {
        let (mut texts, mut files) = (0, 0);
        for part in parts {
            match part.view() {
                PartView::Text(text) if !text.trim().is_empty() => {
                    self.text(texts, text, is_end)?;
                    texts += 1;
                }
                PartView::Tool { name, call_id, state, input, error, .. } => {
                    self.call(name, call_id, state, input, error)?;
                }
                PartView::File { media_type, filename, url } => {
                    files += 1;
                    if files > self.files {
                        self.files = files;
                        let url = if url.starts_with("data:") { "inline" } else { url };
                        let file = self.style.texts.file_of_reply(filename, media_type, url);
                        self.note(&format!("· {file}"))?;
                    }
                }
                _ => {}
            }
        }
        if is_end {
            self.texts.truncate(texts);
        }
        self.thinks = false;
        Ok(())
    }

    fn call(
        &mut self,
        name: &str,
        call_id: &str,
        state: &str,
        input: Option<&Value>,
        error: Option<&str>,
    ) -> io::Result<()> {
        if self.calls.get(call_id).is_some_and(|known| known == state) {
            return Ok(());
        }
        let before = self.calls.insert(call_id.to_owned(), state.to_owned());
        let input = || excerpt(&input.map(Value::to_string).unwrap_or_default(), MAX_INPUT_CHARS);
        match state {
            "output-error" => {
                let failed =
                    self.style.texts.call_failed(name, &excerpt(error.unwrap_or_default(), MAX_INPUT_CHARS));
                self.note(&format!("· {failed}"))
            }
            "output-denied" => self.note(&format!("· {}", self.style.texts.call_denied(name))),
            "approval-requested" => Ok(()),
            // A call is shown once: when it is made, or after its approval.
            _ if matches!(before.as_deref(), None | Some("approval-requested")) => {
                self.note(&format!("· {name} {}", input()))
            }
            _ => Ok(()),
        }
    }

    fn done(&mut self, message: &UiMessage) -> io::Result<()> {
        if is_stopped_unanswered(message) {
            self.forget();
            return self.remark(self.style.texts.answer_stopped());
        }
        if message.metadata.kind() == Some(Kind::Notice) {
            let text = message.plain_text();
            // One that was streamed is on the screen.
            if self.texts.concat() == text {
                self.rest()?;
            } else {
                self.note(&text)?;
            }
            self.forget();
            return self.cause(message);
        }
        let id = message.metadata.message_id().unwrap_or(&message.id);
        self.begin(id);
        self.parts(&message.parts, true)?;
        if message.metadata.stopped_by().is_some() {
            return self.remark(self.style.texts.answer_stopped());
        }
        self.cause(message)?;
        self.rest()
    }

    fn cause(&mut self, message: &UiMessage) -> io::Result<()> {
        message.metadata.cause().map_or(Ok(()), |cause| self.note(&format!("· {cause}")))
    }

    fn stop_waiting(&mut self) {
        // It clears itself.
        drop(self.spinner.take());
    }
}

#[cfg(test)]
mod tests {
    use annals_core::message::Role;
    use annals_core::texts::Plain;
    use annals_core::texts::en::En;
    use serde_json::json;

    use super::*;

    const PLAIN: Style = Style { colours: false, can_move: false, is_terminal: true, texts: &En };

    fn text(text: &str) -> Event {
        text_at(0, text)
    }

    fn text_at(at: usize, text: &str) -> Event {
        Event::Text { at, text: text.into() }
    }

    fn call(state: &str) -> Part {
        Part::tool("search", "c1", state, &json!({"query": "beans"}), json!({}))
    }

    fn done(parts: Vec<Part>) -> Event {
        Event::Done { message: UiMessage::new("m/reply", Role::Assistant, parts), failed: false }
    }

    fn check(events: &[Event], wanted: &str) {
        let mut out = Vec::new();
        let mut screen = Screen::new(&mut out, PLAIN);
        screen.begin("m/reply");
        for event in events {
            screen.show(event).unwrap();
        }
        assert_eq!(String::from_utf8(out).unwrap(), wanted);
    }

    #[test]
    fn a_reply_is_shown_once_and_whole() {
        let hello = || Part::text("Hello, Ada.");
        check(&[text(" \nHello"), text(" \nHello, Ada."), done(vec![hello()])], "Hello, Ada.\n");
        check(&[text("Hello"), done(vec![hello()])], "Hello, Ada.\n");
        check(&[done(vec![hello()])], "Hello, Ada.\n");
        check(&[text("\x1b[31mred\r\nblue")], "\u{FFFD}[31mred\nblue");
    }

    #[test]
    fn a_note_separates_a_broken_answer_from_the_next() {
        let broke_off = "Hel\n· that broke off; once more\n";
        check(&[text("Hel"), text("Good day")], &format!("{broke_off}Good day"));
        check(&[text("Hel"), done(vec![Part::text("Good day")])], &format!("{broke_off}Good day\n"));
        let stopped = |text: &str| {
            let mut message = UiMessage::text("m/reply", Role::Assistant, text);
            message.metadata.set_stopped("m2");
            Event::Done { message, failed: false }
        };
        let unanswered = stopped(En.stopped_unanswered());
        check(&[text("Hel"), unanswered], "Hel\n· stopped\n");
        check(&[text("Hel"), stopped("Hello")], "Hello\n· stopped\n");
    }

    #[test]
    fn a_second_stream_of_a_reply_repeats_nothing() {
        check(&[text("Hello, A"), text("He"), text("Hello, Ada.")], "Hello, Ada.");
        let file = || Part::new(json!({"type": "file", "mediaType": "image/png", "url": "data:,"})).unwrap();
        let parts = || vec![Part::text("I look."), file()];
        let so_far = || Event::Parts { parts: parts() };
        let shown = format!("I look.\n· {}\n", En.file_of_reply(None, "image/png", "inline"));
        check(&[text("I look."), so_far(), text("I"), so_far(), done(parts())], &shown);
        // Another answer that only begins in the same way.
        let events = [
            text("Here"),
            text_at(1, "Found."),
            done(vec![Part::text("Here you are."), Part::text("Found.")]),
        ];
        check(&events, "Here\nFound.\n· that broke off; once more\nHere you are.\nFound.\n");
    }

    #[test]
    fn reasoning_and_calls_take_a_line_each() {
        let (before, after) = (|| Part::text("I look."), || Part::text("Found."));
        check(
            &[
                Event::Reasoning,
                Event::Reasoning,
                text("I look."),
                Event::Parts { parts: vec![before(), call("input-available")] },
                Event::Parts { parts: vec![before(), call("output-available")] },
                text_at(1, "Found."),
                done(vec![before(), call("output-available"), after()]),
            ],
            "· thinking\nI look.\n· search {\"query\":\"beans\"}\nFound.\n",
        );
        let state = |state| Event::Parts { parts: vec![call(state)] };
        check(&[state("approval-requested"), state("output-available")], "· search {\"query\":\"beans\"}\n");
        check(&[done(vec![call("output-denied")])], "· search was not allowed\n");
    }
}
