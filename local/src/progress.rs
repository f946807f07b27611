//! How far long work is: a bar on a terminal, lines in a pipe, always on standard error.
//!
//! What is over soon says nothing beside its result.

use std::fmt::Write;
use std::io::IsTerminal;
use std::time::Duration;

use annals_shared::clock::Clock;
use annals_shared::config::process_env;
use annals_shared::sort_key::Timestamp;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

/// How long work is quiet where nobody watches, and between two of its lines.
const QUIET: Duration = Duration::from_secs(5);

/// Work under way.
pub struct Progress {
    what: &'static str,
    unit: &'static str,
    total: Option<u64>,
    done: u64,
    bar: Option<ProgressBar>,
    clock: Clock,
    started: Timestamp,
    said: Timestamp,
}

impl Progress {
    /// Of `total` `unit`s, where that is known.
    pub fn new(what: &'static str, unit: &'static str, total: Option<u64>, clock: &Clock) -> Self {
        let is_dumb = process_env("TERM").is_some_and(|term| term == "dumb");
        let bar = (std::io::stderr().is_terminal() && !is_dumb).then(|| bar(what, unit, total));
        let now = clock.now();
        Self { what, unit, total, done: 0, bar, clock: clock.clone(), started: now, said: now }
    }

    /// The same, for what prints to standard output all the time: without a bar where that is a terminal.
    pub fn beside_output(what: &'static str, unit: &'static str, total: Option<u64>, clock: &Clock) -> Self {
        let mut progress = Self::new(what, unit, total, clock);
        if std::io::stdout().is_terminal()
            && let Some(bar) = progress.bar.take()
        {
            bar.finish_and_clear();
        }
        progress
    }

    /// `count` more are done.
    pub fn advance(&mut self, count: u64) {
        self.done += count;
        if let Some(bar) = &self.bar {
            bar.inc(count);
            return;
        }
        let now = self.clock.now();
        if std::io::stdout().is_terminal() || now.since(self.said) < QUIET {
            return;
        }
        self.said = now;
        let of = self.total.map(|total| format!(" of {total}")).unwrap_or_default();
        eprintln!("{}: {}{of} {}, {}", self.what, self.done, self.unit, self.rate(now));
    }

    /// Runs `print` with the bar out of its way.
    pub fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    /// It is over. Says how much there was, where it took a while.
    pub fn finish(self) {
        let now = self.clock.now();
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        let took = now.since(self.started);
        if took >= QUIET && (self.bar.is_some() || !std::io::stdout().is_terminal()) {
            let took = Duration::from_secs(took.as_secs());
            let took = humantime::format_duration(took);
            eprintln!("{}: {} {} in {took}, {}", self.what, self.done, self.unit, self.rate(now));
        }
    }

    fn rate(&self, now: Timestamp) -> String {
        let millis = u64::try_from(now.since(self.started).as_millis()).unwrap_or(u64::MAX).max(1);
        format!("{} a second", self.done.saturating_mul(1000) / millis)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
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
        // It writes to a string.
        let _ = write!(out, "{:.0} a second", state.per_sec());
    });
    bar.with_style(style.progress_chars("=> ")).with_message(what).with_prefix(unit)
}
