//! Shows the progress of long work on standard error: a bar on a terminal, lines in a pipe. Short work shows nothing.

use std::fmt::Write;
use std::io::IsTerminal;
use std::time::Duration;

use annals_core::settings::Env;
use annals_core::sort_key::Timestamp;
use annals_io::clock::Clock;
use annals_io::environment::process_env;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::tty;

/// Time before the first line, and between two lines.
const LINE_INTERVAL: Duration = Duration::from_secs(5);
/// Time between two frames of a spinner.
pub(crate) const SPINNER_TICK: Duration = Duration::from_millis(100);

/// Progress of some work.
pub(crate) struct Progress {
    what: &'static str,
    unit: &'static str,
    total: Option<u64>,
    done: u64,
    shown: Shown,
    clock: Clock,
    started: Timestamp,
    said: Timestamp,
}

/// Output of the progress.
enum Shown {
    Bar(ProgressBar),
    Lines,
    /// The work's own output shows its progress.
    Nothing,
}

impl Progress {
    /// Starts work on `total` `unit`s, if the number is known.
    pub(crate) fn new(what: &'static str, unit: &'static str, total: Option<u64>, clock: &Clock) -> Self {
        let shown = if may_draw() { Shown::Bar(bar(what, unit, total)) } else { Shown::Lines };
        let now = clock.now();
        Self { what, unit, total, done: 0, shown, clock: clock.clone(), started: now, said: now }
    }

    /// Starts work that prints to standard output all the time: without a bar if that is a terminal.
    pub(crate) fn beside_output(
        what: &'static str,
        unit: &'static str,
        total: Option<u64>,
        clock: &Clock,
    ) -> Self {
        let mut progress = Self::new(what, unit, total, clock);
        if std::io::stdout().is_terminal() {
            progress.shown = Shown::Nothing;
        }
        progress
    }

    /// Adds `count` to the finished units.
    pub(crate) fn advance(&mut self, count: u64) {
        self.done += count;
        if let Shown::Bar(bar) = &self.shown {
            bar.inc(count);
        } else if let Some(line) = self.line() {
            eprintln!("{line}");
        }
    }

    /// Hides the bar while `print` runs.
    pub(crate) fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.shown {
            Shown::Bar(bar) => bar.suspend(print),
            Shown::Lines | Shown::Nothing => print(),
        }
    }

    /// Ends the work. Prints its amount if it took long.
    pub(crate) fn finish(self) {
        let line = self.last_line();
        // The bar clears itself.
        drop(self);
        if let Some(line) = line {
            eprintln!("{line}");
        }
    }

    /// Returns the next line, if it is due.
    fn line(&mut self) -> Option<String> {
        let now = self.clock.now();
        if !matches!(self.shown, Shown::Lines) || now.since(self.said) < LINE_INTERVAL {
            return None;
        }
        self.said = now;
        let of = self.total.map(|total| format!(" of {total}")).unwrap_or_default();
        Some(format!("{}: {}{of} {}, {}", self.what, self.done, self.unit, self.rate(now)))
    }

    fn last_line(&self) -> Option<String> {
        let now = self.clock.now();
        let took = now.since(self.started);
        (took >= LINE_INTERVAL && !matches!(self.shown, Shown::Nothing)).then(|| {
            let took = humantime::format_duration(Duration::from_secs(took.as_secs()));
            format!("{}: {} {} in {took}, {}", self.what, self.done, self.unit, self.rate(now))
        })
    }

    fn rate(&self, now: Timestamp) -> String {
        let millis = u64::try_from(now.since(self.started).as_millis()).unwrap_or(u64::MAX).max(1);
        format!("{} a second", self.done.saturating_mul(1000) / millis)
    }
}

/// Returns a spinner for a file that is read, which takes seconds if it is large. Ends when it is dropped.
pub(crate) fn reading(name: &str) -> Option<ProgressBar> {
    may_draw().then(|| {
        let spinner = ProgressBar::new_spinner().with_message(format!("reading {name}"));
        spinner.enable_steady_tick(SPINNER_TICK);
        spinner
    })
}

/// Returns true if output on standard error may be overwritten.
fn may_draw() -> bool {
    tty::can_move(Env::new(&process_env), &std::io::stderr())
}

fn bar(what: &'static str, unit: &'static str, total: Option<u64>) -> ProgressBar {
    let target = ProgressDrawTarget::stderr();
    let (bar, template) = match total {
        Some(total) => (
            ProgressBar::with_draw_target(Some(total), target),
            "{msg} [{wide_bar}] {human_pos} of {human_len} {prefix}, {rate}, {eta} left",
        ),
        None => (ProgressBar::with_draw_target(None, target), "{spinner} {msg} {human_pos} {prefix}, {rate}"),
    };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let style = style.with_key("rate", |state: &ProgressState, out: &mut dyn Write| {
        // Writing to a string cannot fail.
        let _ = write!(out, "{:.0} a second", state.per_sec());
    });
    bar.with_style(style.progress_chars("=> ")).with_message(what).with_prefix(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an import of 400 messages whose output is a log.
    fn in_a_pipe() -> (Progress, Clock) {
        let clock = Clock::manual(Timestamp::from_millis(1_764_057_600_000).unwrap());
        let (what, unit) = ("Importing", "messages");
        let (started, said) = (clock.now(), clock.now());
        let shown = Shown::Lines;
        (
            Progress { what, unit, total: Some(400), done: 0, shown, clock: clock.clone(), started, said },
            clock,
        )
    }

    #[test]
    fn in_a_pipe_a_line_comes_every_five_seconds_and_one_at_the_end() {
        let (mut progress, clock) = in_a_pipe();
        let mut lines = Vec::new();
        for _ in 0..12 {
            clock.advance(Duration::from_secs(1));
            progress.done += 20;
            lines.extend(progress.line());
        }
        assert_eq!(
            lines,
            ["Importing: 100 of 400 messages, 20 a second", "Importing: 200 of 400 messages, 20 a second"]
        );
        assert_eq!(progress.last_line().unwrap(), "Importing: 240 messages in 12s, 20 a second");
    }

    #[test]
    fn short_work_and_work_whose_output_shows_its_progress_print_nothing() {
        for (shown, millis) in [(Shown::Lines, 4999), (Shown::Nothing, 60_000)] {
            let (mut progress, clock) = in_a_pipe();
            progress.shown = shown;
            clock.advance(Duration::from_millis(millis));
            progress.done += 400;
            assert_eq!((progress.line(), progress.last_line()), (None, None));
        }
    }
}
