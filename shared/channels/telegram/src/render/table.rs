//! Lays out a table as lines of monospace text with aligned columns.
//!
//! ```text
//! Fruit | Count
//! ------+------
//! Apple |     3
//! 苹果  |    12
//! ```

use pulldown_cmark::Alignment;
use unicode_segmentation::UnicodeSegmentation;

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
                widths[column] = widths[column].max(width(cell.trim()).min(MAX_COLUMN));
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
    let missing = to.saturating_sub(width(cell));
    let left = match alignment {
        Alignment::Right => missing,
        Alignment::Center => missing / 2,
        Alignment::None | Alignment::Left => 0,
    };
    format!("{}{cell}{}", " ".repeat(left), " ".repeat(missing - left))
}

/// Returns the number of columns that `text` takes in a monospace font: two for East Asian wide characters and emoji.
pub(super) fn width(text: &str) -> usize {
    text.graphemes(true)
        .map(|cluster| {
            let emoji = cluster.contains('\u{fe0f}');
            let widest = cluster.chars().map(char_width).max().unwrap_or(0);
            if emoji { 2 } else { widest }
        })
        .sum()
}

/// Ranges by Unicode's `EastAsianWidth.txt` (W and F) and `Emoji_Presentation`, rounded to whole blocks.
fn char_width(c: char) -> usize {
    match u32::from(c) {
        // Combining marks, joiners, direction marks, variation selectors.
        0..=0x1f | 0x300..=0x36f | 0x200b..=0x200f | 0x2060..=0x2064 | 0xfe00..=0xfe0f | 0xfeff => 0,
        0x1100..=0x115f
        | 0x231a..=0x231b
        | 0x23e9..=0x23ec
        | 0x25fd..=0x25fe
        | 0x2614..=0x2615
        | 0x2648..=0x2653
        | 0x26aa..=0x26ab
        | 0x26bd..=0x26be
        | 0x26c4..=0x26c5
        | 0x2705
        | 0x270a..=0x270b
        | 0x2728
        | 0x274c
        | 0x274e
        | 0x2753..=0x2755
        | 0x2757
        | 0x2795..=0x2797
        | 0x2b1b..=0x2b1c
        | 0x2b50
        | 0x2b55
        | 0x2e80..=0x303e
        | 0x3041..=0xa4cf
        | 0xa960..=0xa97f
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1f64f
        | 0x1f680..=0x1f6ff
        | 0x1f7e0..=0x1f7eb
        | 0x1f900..=0x1f9ff
        | 0x1fa70..=0x1faff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}
