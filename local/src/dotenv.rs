//! Settings in a file: `.env` of the working folder.
//!
//! ```text
//! # A comment
//! MODEL=openai:gpt-5
//! SYSTEM_PROMPT="Two lines,\nof which $HOME is replaced"
//! TELEGRAM_WEBHOOK_SECRET='taken as it is, $ included'
//! ```
//!
//! A variable of the environment wins over one of the file, also if it is empty.

use std::cell::Cell;
use std::collections::HashSet;
use std::io::{ErrorKind, Read};
use std::path::Path;

use anyhow::{Context, bail, ensure};

/// The file's name.
pub(crate) const FILE: &str = ".env";

/// Sets the variables of `file` that are not set yet. Returns true if there is such a file. Must run before the process has a
/// second thread.
///
/// # Errors
///
/// Names the line of the file that cannot be read, and not its content, which may be a secret. Then nothing is set.
pub(crate) fn load(file: &Path) -> anyhow::Result<bool> {
    let name = file.display();
    let text = match std::fs::read(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        text => text.with_context(|| format!("failed to read {name}"))?,
    };
    // Editors on Windows write a byte order mark.
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text);
    let (number, mut names) = (Cell::new(0), HashSet::new());
    for variable in dotenvy::from_read_iter(Lines { rest: text, number: &number }) {
        let error = match variable {
            Ok((variable, _)) => {
                // The first would count, though shells take the last.
                let last = number.get();
                ensure!(
                    names.insert(variable.clone()),
                    "{name}, line {last}: {variable} is set a second time; delete one"
                );
                continue;
            }
            Err(error) => error,
        };
        // A value whose closing quote is missing takes all lines that follow.
        let lines = if let dotenvy::Error::LineParse(lines, _) = &error { lines.trim_end() } else { "" };
        let first = number.get() - lines.matches('\n').count();
        bail!(
            "{name}, line {first}: expected NAME=value, with the value in quotes if it contains spaces or quotes"
        );
    }
    dotenvy::from_read(text).with_context(|| format!("failed to read {name}"))?;
    Ok(true)
}

/// Reads one line at a time, and counts them.
struct Lines<'a> {
    rest: &'a [u8],
    number: &'a Cell<usize>,
}

impl Read for Lines<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let line = self.rest.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
        let mut part = line.get(..buffer.len()).unwrap_or(line);
        let count = part.read(buffer)?;
        if count > 0 && count == line.len() {
            self.number.set(self.number.get() + 1);
        }
        self.rest = &self.rest[count..];
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_line_is_named_by_its_number_and_not_by_its_content() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(FILE);
        assert!(!load(&file).unwrap());
        for (text, line) in [
            ("hunter2", 1),
            ("# a comment\n\nA=1\nB hunter2\nC=3\n", 4),
            ("A='two\nlines'\nB=hunter2 hunter2\n", 3),
            ("A=1\nB='hunter2\nC=3\nD=4\n", 2),
            ("A=1\r\n=hunter2\r\n", 2),
            ("\u{feff}A=1\nhunter2\n", 2),
        ] {
            std::fs::write(&file, text).unwrap();
            let error = format!("{:#}", load(&file).unwrap_err());
            assert!(error.contains(&format!(".env, line {line}: expected NAME=value")), "{text:?}: {error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
        std::fs::write(&file, "SECRET=hunter1\n\nSECRET=hunter2\nB=3\n").unwrap();
        let error = format!("{:#}", load(&file).unwrap_err());
        assert!(error.ends_with(".env, line 3: SECRET is set a second time; delete one"), "{error}");
        std::fs::write(&file, b"A=\xff\xfe").unwrap();
        assert!(load(&file).is_err());
    }
}
