//! Reads lines from a person, with a history, completion of commands, and hints: [`Prompt`].
//!
//! A message may have several lines: end one with `\`, or paste them. Lines that are typed ahead are sent one after the other.
//! [`Rows`] keeps a line whole when the terminal's width changes.

use std::borrow::Cow;
use std::cell::RefCell;
use std::path::{Path, PathBuf};

use annals_core::command::name::CommandName;
use annals_core::texts::Texts;
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{CompletionType, Config, Context, Editor, ExternalPrinter, Helper};

use super::rows::Rows;
use super::screen::Style;

/// Longest history, in lines.
const MAX_LINES: usize = 1_000;

const SIGN: &str = "> ";

/// Input at the prompt.
pub(super) enum Typed {
    Line(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D, or the terminal is gone.
    End,
}

/// Reads lines.
pub(super) struct Prompt {
    editor: Editor<Commands, DefaultHistory>,
    /// File of earlier lines, if they are kept.
    history: Option<PathBuf>,
    /// The prompt, plain and styled.
    sign: (String, String),
    /// Prints nothing. While there is one, the editor waits for signals too, so that it learns of a new width at once; without
    /// one, only if the signal happens to interrupt the thread that reads.
    _printer: Option<Box<dyn ExternalPrinter + Send>>,
}

impl Prompt {
    pub(super) fn open(history: Option<&Path>, style: Style) -> anyhow::Result<Self> {
        let config = Config::builder()
            .max_history_size(MAX_LINES)?
            .history_ignore_dups(true)?
            .history_ignore_space(false)
            .completion_type(CompletionType::List)
            .bracketed_paste(true)
            .build();
        let mut editor = Editor::with_config(config)?;
        let (rows, continued) = (RefCell::default(), RefCell::default());
        editor.set_helper(Some(Commands { style, rows, continued }));
        let history = history.map(Path::to_owned);
        if let Some(history) = &history {
            // The first start has no history.
            drop(editor.load_history(history));
        }
        let printer = editor.create_external_printer().ok().map(|printer| Box::new(printer) as _);
        let sign = (SIGN.to_owned(), style.bold(SIGN));
        Ok(Self { editor, history, sign, _printer: printer })
    }

    /// Reads the next line, without white space at its end.
    pub(super) fn read(&mut self) -> anyhow::Result<Typed> {
        if let Some(helper) = self.editor.helper_mut() {
            helper.rows = RefCell::default();
        }
        let read = self.editor.readline(&self.sign);
        let continued = self.editor.helper().map(|helper| helper.continued.take()).unwrap_or_default();
        let typed = typed(read, &continued)?;
        if let Typed::Line(line) = &typed
            && !line.is_empty()
            && self.editor.add_history_entry(line.as_str())?
            && let Some(history) = &self.history
        {
            // A line that cannot be saved is sent nevertheless.
            drop(self.editor.append_history(history));
        }
        Ok(typed)
    }

    /// Reads the answer to `question`, which is not saved. Uses an editor of its own, so that no input at the prompt, or for another
    /// question, is taken for the answer.
    pub(super) fn ask(question: &str) -> anyhow::Result<Typed> {
        let mut editor: Editor<(), DefaultHistory> = Editor::with_config(Config::default())?;
        typed(editor.readline(question), &[])
    }
}

fn typed(read: rustyline::Result<String>, continued: &[String]) -> anyhow::Result<Typed> {
    match read {
        Ok(line) => Ok(Typed::Line(joined(&line, continued).trim_end().to_owned())),
        Err(ReadlineError::Interrupted) => Ok(Typed::Interrupted),
        Err(ReadlineError::Eof) => Ok(Typed::End),
        Err(error) => Err(error.into()),
    }
}

/// Returns `line` without each `\` after which it was `continued`. Others were pasted.
fn joined(line: &str, continued: &[String]) -> String {
    let is_mark = |at: usize| {
        let is_typed = |input: &String| input.len() == at + 1 && line.starts_with(input);
        line[at..].starts_with("\\\n") && continued.iter().any(is_typed)
    };
    line.char_indices().filter(|(at, _)| !is_mark(*at)).map(|(_, c)| c).collect()
}

/// Completes and hints commands.
struct Commands {
    style: Style,
    rows: RefCell<Rows>,
    /// The input each time that Enter continued it, since it ended with `\`.
    continued: RefCell<Vec<String>>,
}

impl Helper for Commands {}

/// Returns all commands: syntax and description.
pub(super) fn all(texts: &dyn Texts) -> impl Iterator<Item = (&'static str, &'static str)> {
    CommandName::ALL.iter().map(|command| texts.command(*command)).chain(texts.terminal_commands())
}

fn name(usage: &str) -> &str {
    usage.split_whitespace().next().unwrap_or_default()
}

impl Completer for Commands {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let typed = &line[..pos];
        if !typed.starts_with('/') || typed.contains(char::is_whitespace) {
            return Ok((pos, Vec::new()));
        }
        let typed = typed.to_ascii_lowercase();
        let found = all(self.style.texts).filter(|(usage, _)| name(usage).starts_with(&typed));
        let pairs = found.map(|(usage, _)| {
            let takes_more = usage.len() > name(usage).len();
            let replacement = name(usage).to_owned() + if takes_more { " " } else { "" };
            Pair { display: usage.to_owned(), replacement }
        });
        Ok((0, pairs.collect()))
    }
}

impl Hinter for Commands {
    type Hint = String;

    fn hint(&self, line: &str, pos: usize, _: &Context<'_>) -> Option<String> {
        let hint = hint(line, pos, self.style.texts);
        // The editor asks for a hint before it draws.
        self.rows.borrow_mut().before_drawing(SIGN, line, pos, hint.as_deref());
        hint
    }
}

fn hint(line: &str, pos: usize, texts: &dyn Texts) -> Option<String> {
    if pos < line.len() || line.len() < 2 || !line.starts_with('/') {
        return None;
    }
    let mut fitting = all(texts).filter(|(usage, _)| usage.starts_with(line));
    let (usage, meaning) = fitting.next().filter(|_| fitting.next().is_none())?;
    Some(format!("{}  {meaning}", &usage[line.len()..]))
}

impl Highlighter for Commands {
    fn highlight_char(&self, _: &str, pos: usize, _: CmdKind) -> bool {
        self.rows.borrow_mut().moved(SIGN, pos);
        false
    }

    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        Cow::Owned(self.style.dim(hint))
    }
}

impl Validator for Commands {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let goes_on = context.input().ends_with('\\');
        if goes_on {
            self.continued.borrow_mut().push(context.input().to_owned());
        }
        Ok(if goes_on { ValidationResult::Incomplete } else { ValidationResult::Valid(None) })
    }
}
