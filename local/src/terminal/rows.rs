//! Rows of the line that is edited, when the terminal's width changes: [`Rows`].
//!
//! Terminals wrap shown lines again when their width changes. `rustyline` then clears as many rows as the line had before, so
//! that rows of it stay above, or lines before it are erased. (A terminal that does not wrap again, such as xterm, cuts the line;
//! there a row or two above it are erased.)

use std::io::{Write, stdout};

use unicode_width::UnicodeWidthChar;

use crate::tty;

/// The line as it was drawn last.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// The terminal's width, in columns; 0 before the first line is drawn.
    width: usize,
    /// The prompt, the line and its hint.
    shown: String,
    /// Place of the cursor in it, in bytes.
    cursor: usize,
}

impl Rows {
    /// Notes that the editor is about to draw. If the width has changed since the last time, clears the line on the screen, and
    /// leaves the cursor where the editor expects it.
    pub(super) fn before_drawing(&mut self, sign: &str, line: &str, pos: usize, hint: Option<&str>) {
        let width = tty::width();
        if let Some(correction) = self.correction(width) {
            let mut out = stdout().lock();
            // An error means that the terminal is gone, which the editor finds out itself.
            drop(out.write_all(correction.as_bytes()).and_then(|()| out.flush()));
        }
        *self =
            Self { width, shown: [sign, line, hint.unwrap_or_default()].concat(), cursor: sign.len() + pos };
    }

    /// Notes that the cursor has moved to `pos` of the line.
    pub(super) fn moved(&mut self, sign: &str, pos: usize) {
        self.cursor = sign.len() + pos;
    }

    /// Returns what to write before the editor draws the line anew; `None` if its rows are as it expects.
    fn correction(&self, width: usize) -> Option<String> {
        if self.width == 0 || width == 0 || width == self.width {
            return None;
        }
        let before_cursor = self.shown.get(..self.cursor).unwrap_or(&self.shown);
        let expected = (row_of(before_cursor, self.width), row_of(&self.shown, self.width));
        // The editor ends a line that fills its last row, which terminals keep.
        let ended = if ends_row(&self.shown, self.width) { "\n" } else { "" };
        let is_at_end = before_cursor.len() == self.shown.len();
        let cursor = before_cursor.to_owned() + if is_at_end { ended } else { "" };
        let actual = (row_of(&cursor, width), row_of(&(self.shown.clone() + ended), width));
        if actual == expected {
            return None;
        }
        // Row by row: some terminals keep the lines above if the whole screen is cleared.
        let rows = actual.1.max(expected.1);
        let up = |rows: usize| if rows > 0 { format!("\x1b[{rows}A") } else { String::new() };
        Some(format!("{}\r\x1b[K{}{}", up(actual.0), "\n\x1b[K".repeat(rows), up(rows - expected.0)))
    }
}

/// Returns the row of the cursor after `text`, from 0.
fn row_of(text: &str, width: usize) -> usize {
    let (row, column) = position(text, width);
    row + usize::from(column == width)
}

/// Returns true if `text` fills its last row, so that the cursor is at the start of the next one.
fn ends_row(text: &str, width: usize) -> bool {
    position(text, width).1 == width
}

/// Returns the row and the column after `text`. A wide character that does not fit in a row is in the next.
fn position(text: &str, width: usize) -> (usize, usize) {
    text.chars().fold((0, 0), |(row, column), c| {
        let columns = c.width().unwrap_or(0);
        match c {
            '\n' => (row + 1, 0),
            _ if column + columns > width => (row + 1, columns),
            _ => (row, column + columns),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(shown: &str, cursor: usize, widths: (usize, usize), wanted: Option<&str>) {
        let rows = Rows { width: widths.0, shown: shown.into(), cursor };
        assert_eq!(rows.correction(widths.1).as_deref(), wanted, "{shown} {cursor} {widths:?}");
    }

    #[test]
    fn a_line_is_cleared_if_its_rows_have_changed() {
        let line = "> 今天的天气怎么样";
        check(line, line.len(), (80, 80), None);
        check(line, line.len(), (80, 20), None);
        let two_rows = "\r\x1b[K\n\x1b[K";
        let (from_second, to_first) = (format!("\x1b[1A{two_rows}\x1b[1A"), format!("{two_rows}\x1b[1A"));
        check(line, line.len(), (80, 12), Some(&from_second));
        // Two columns for each character, and none is split: five characters, then three.
        check(line, line.len(), (80, 13), Some(&from_second));
        check(line, 2, (80, 12), Some(&to_first));
        check(line, line.len(), (12, 80), Some(two_rows));
        check(line, 2, (12, 80), Some(&to_first));
        check("> abc\ndef", 9, (80, 5), None);
        check("> abc\ndef", 9, (80, 4), Some(&format!("\x1b[2A{two_rows}\n\x1b[K\x1b[1A")));
        // A line that fills its row is ended, and stays so.
        check("> abc", 5, (5, 80), None);
    }
}
