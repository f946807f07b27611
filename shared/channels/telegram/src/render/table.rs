//! Lays out a table as lines of monospace text with aligned columns.
//!
//! ```text
//! Fruit | Count
//! ------+------
//! Apple |     3
//! 苹果  |    12
//! ```

use pulldown_cmark::Alignment;
use unicode_width::UnicodeWidthStr;

/// Maximum width of a column. Wider cells are not padded and do not widen the other rows.
const MAX_COLUMN: usize = 40;

/// Rows of a table, the head first.
pub(super) struct Table {
    alignments: Vec<Alignment>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates a table without rows.
    pub(super) fn new(alignments: &[Alignment]) -> Self {
        Self { alignments: alignments.to_vec(), rows: Vec::new() }
    }

    /// Starts the next row.
    pub(super) fn start_row(&mut self) {
        self.rows.push(Vec::new());
    }

    /// Starts the next cell of the row.
    pub(super) fn start_cell(&mut self) {
        if self.rows.is_empty() {
            self.start_row();
        }
        if let Some(row) = self.rows.last_mut() {
            row.push(String::new());
        }
    }

    /// Returns the current cell.
    pub(super) fn cell(&mut self) -> &mut String {
        if self.rows.last().is_none_or(Vec::is_empty) {
            self.start_cell();
        }
        let row = self.rows.len() - 1;
        let cell = self.rows[row].len() - 1;
        &mut self.rows[row][cell]
    }

    /// Returns the lines, or an empty text if all cells are empty.
    pub(super) fn layout(mut self) -> String {
        for row in &mut self.rows {
            while row.last().is_some_and(|cell| cell.trim().is_empty()) {
                row.pop();
            }
        }
        if self.rows.iter().all(Vec::is_empty) {
            return String::new();
        }
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let mut widths = vec![1; columns];
        for row in &self.rows {
            for (column, cell) in row.iter().enumerate() {
                widths[column] = widths[column].max(cell.trim().width().min(MAX_COLUMN));
            }
        }
        let aligned = self.lines(&widths);
        let tight = self.lines(&vec![0; columns]);
        // Too much padding: a wide table of few words would fill many messages.
        if aligned.len() > 3 * tight.len() + 2048 { tight } else { aligned }
    }

    fn lines(&self, widths: &[usize]) -> String {
        let mut lines = Vec::with_capacity(self.rows.len() + 1);
        for (number, row) in self.rows.iter().enumerate() {
            let cells: Vec<String> = row
                .iter()
                .enumerate()
                .map(|(column, cell)| {
                    let alignment = self.alignments.get(column).copied().unwrap_or(Alignment::None);
                    pad(cell.trim(), widths[column], alignment)
                })
                .collect();
            lines.push(cells.join(" | ").trim_end().to_owned());
            if number == 0 {
                let rules: Vec<String> = widths.iter().map(|width| "-".repeat((*width).max(1))).collect();
                lines.push(rules.join("-+-"));
            }
        }
        lines.join("\n")
    }
}

fn pad(cell: &str, to: usize, alignment: Alignment) -> String {
    let missing = to.saturating_sub(cell.width());
    let left = match alignment {
        Alignment::Right => missing,
        Alignment::Center => missing / 2,
        Alignment::None | Alignment::Left => 0,
    };
    format!("{}{cell}{}", " ".repeat(left), " ".repeat(missing - left))
}
