//! The content of a file to import, item by item, and the errors of a file that cannot be parsed.

use anyhow::anyhow;

use super::item::{Item, Skipped};

/// An entry of a file, in the file's order.
#[derive(Debug)]
pub(super) enum Parsed {
    /// A message.
    Item(Box<Item>),
    /// Content that is left out.
    Skipped(Skipped),
}

/// Takes what a file contains; an error ends the reading.
pub(super) type Take<'a> = &'a mut dyn FnMut(Parsed) -> anyhow::Result<()>;

/// Returns the error for a file that breaks off in `line`.
pub(super) fn ends_early(name: &str, line: usize) -> anyhow::Error {
    anyhow!("{name} ends early, in line {line}: it is only a part of the file, so export or copy it again")
}

/// Returns the error of a file that is a single JSON document.
pub(super) fn invalid(name: &str, error: serde_json::Error, what: &str) -> anyhow::Error {
    if error.is_eof() {
        return ends_early(name, error.line());
    }
    let what = if error.is_io() { format!("failed to read {name}") } else { format!("{name}{what}") };
    anyhow::Error::new(error).context(what)
}
