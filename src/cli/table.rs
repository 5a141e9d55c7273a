//! Tables on standard output: columns under their words, as wide as what stands in them.
//!
//! Lines are held back some hundred at a time, so that a long table needs little memory: columns
//! are aligned among those, and never become narrower again. Widths are those that a terminal
//! shows, not numbers of characters. A cell that is wider than its column may be moves what follows
//! it. Used by `ls`.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

use super::styled::{FAULT, LABEL, NAME, Styled};

/// Lines that are held back.
const TOGETHER: usize = 1000;

/// Between two columns.
const GAP: &str = "  ";

pub(super) struct Column {
    pub(super) title: &'static str,
    pub(super) side: ColumnSide,
    /// Widest that it becomes.
    pub(super) most: usize,
}

/// On which side of its column a cell stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnSide {
    Left,
    Right,
}

pub(super) enum TableLine {
    /// What the following lines belong to, and what is said of that.
    Heading(String, String),
    /// One for each column.
    Cells(Vec<String>),
    Note(String),
    Fault(String),
}

pub(super) struct Table {
    columns: &'static [Column],
    widths: Vec<usize>,
    waiting: Vec<TableLine>,
    has_begun: bool,
}

impl Table {
    pub(super) fn new(columns: &'static [Column]) -> Table {
        let widths = columns.iter().map(|column| column.title.width());
        Table {
            columns,
            widths: widths.collect(),
            waiting: Vec::new(),
            has_begun: false,
        }
    }

    pub(super) fn add(&mut self, line: TableLine, out: &mut impl Write) -> io::Result<()> {
        if self.waiting.len() >= TOGETHER {
            self.write(out)?;
        }
        self.waiting.push(line);
        Ok(())
    }

    /// Writes what is held back; before anything else, the words of the columns.
    pub(super) fn write(&mut self, out: &mut impl Write) -> io::Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        for line in &waiting {
            self.widen(line);
        }
        if !self.has_begun && !waiting.is_empty() {
            let titles = self.columns.iter().map(|column| column.title.to_owned());
            let titles = self.aligned(&titles.collect::<Vec<_>>());
            writeln!(out, "{}", Styled(LABEL, titles))?;
            self.has_begun = true;
        }
        for line in waiting {
            match line {
                TableLine::Heading(name, about) => {
                    writeln!(out, "{}{GAP}{about}", Styled(NAME, name))?
                }
                TableLine::Cells(cells) => writeln!(out, "{}", self.aligned(&cells))?,
                TableLine::Note(note) => writeln!(out, "{note}")?,
                TableLine::Fault(fault) => writeln!(out, "{}", Styled(FAULT, fault))?,
            }
        }
        Ok(())
    }

    fn widen(&mut self, line: &TableLine) {
        let TableLine::Cells(cells) = line else {
            return;
        };
        for ((cell, width), column) in cells.iter().zip(&mut self.widths).zip(self.columns) {
            *width = cell.width().min(column.most).max(*width);
        }
    }

    fn aligned(&self, cells: &[String]) -> String {
        let mut line = String::new();
        for ((cell, width), column) in cells.iter().zip(&self.widths).zip(self.columns) {
            let space = " ".repeat(width.saturating_sub(cell.width()));
            match column.side {
                ColumnSide::Left => line.extend([cell, &*space, GAP]),
                ColumnSide::Right => line.extend([&*space, cell, GAP]),
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[Column] = &[
        Column {
            title: "name",
            side: ColumnSide::Left,
            most: 8,
        },
        Column {
            title: "size",
            side: ColumnSide::Right,
            most: 8,
        },
        Column {
            title: "codec",
            side: ColumnSide::Left,
            most: 8,
        },
    ];

    fn row(cells: [&str; 3]) -> TableLine {
        TableLine::Cells(cells.map(str::to_owned).to_vec())
    }

    fn text(lines: Vec<TableLine>) -> String {
        let (mut table, mut out) = (Table::new(COLUMNS), Vec::new());
        for line in lines {
            table.add(line, &mut out).unwrap();
        }
        table.write(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        anstream::adapter::strip_str(&text).to_string()
    }

    #[test]
    fn columns_stand_under_their_words() {
        let shown = text(vec![
            TableLine::Heading("x.h5".into(), "hdf5".into()),
            row(["a", "12 B", "none"]),
            row(["größe", "123.4 KiB", ""]),
            row(["文字", "1 B", "zlib"]),
            row(["much too long", "1 B", "x"]),
        ]);
        let expected = "\
name          size  codec
x.h5  hdf5
a             12 B  none
größe     123.4 KiB
文字           1 B  zlib
much too long       1 B  x
";
        assert_eq!(shown, expected);
        assert_eq!(text(Vec::new()), "");
    }

    #[test]
    fn a_long_table_is_written_in_parts_with_its_words_once() {
        let rows = (0..3 * TOGETHER).map(|_| row(["a", "1 B", "x"]));
        let shown = text(rows.collect());
        assert_eq!(shown.lines().count(), 3 * TOGETHER + 1);
        assert_eq!(shown.matches("codec").count(), 1);
    }
}
