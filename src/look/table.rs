//! Cells in rows and columns of text, within a width.
//!
//! Columns that do not fit are left out in the middle, as pandas does it; where cells were left out
//! before, there is a gap already. Pure. Used by the commands that show values.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Between columns.
const APART: usize = 2;

/// Stands for what is left out.
const ELISION: &str = "…";

/// Where the cells of a column stand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CellSide {
    /// Text.
    Left,
    /// Integers.
    #[default]
    Right,
    /// Floats: their points below each other.
    Point,
}

/// A column and what is above it.
#[derive(Debug, Clone)]
pub struct TableColumn {
    pub header: String,
    pub cells: Vec<String>,
    pub side: CellSide,
}

/// Cells that are to be text.
#[derive(Debug, Clone, Default)]
pub struct TextTable {
    /// Above the labels of the rows.
    pub corner: String,
    pub rows: Vec<String>,
    /// Where these stand.
    pub label_side: CellSide,
    pub columns: Vec<TableColumn>,
    /// Before which row others were left out.
    pub row_gap: Option<usize>,
    /// Before which column others were left out.
    pub column_gap: Option<usize>,
}

impl TextTable {
    /// The lines, none wider than `width` unless a single column is.
    pub fn lines(&self, width: Option<usize>) -> Vec<String> {
        let longest = width.map(|width| (width / 2).max(16));
        let columns = self.columns.iter();
        let columns = columns.map(|column| LaidColumn::of(column, longest, self.row_gap));
        self.laid(self.labels(), columns.collect(), width)
    }

    /// The lines of a part of a long table, as wide as they are. Columns are as wide as in the
    /// parts before it at least; `widths` are those of the labels and of the columns.
    pub fn lines_below(&self, widths: &mut Vec<ColumnWidth>) -> Vec<String> {
        widths.resize(self.columns.len() + 1, ColumnWidth::default());
        let mut labels = self.labels();
        let columns = self.columns.iter();
        let columns = columns.map(|column| LaidColumn::of(column, None, self.row_gap));
        let mut columns: Vec<LaidColumn> = columns.collect();
        let all = std::iter::once(&mut labels).chain(&mut columns);
        for (column, width) in all.zip(widths) {
            column.widen(width);
        }
        self.laid(labels, columns, None)
    }

    fn laid(
        &self,
        labels: LaidColumn,
        mut columns: Vec<LaidColumn>,
        width: Option<usize>,
    ) -> Vec<String> {
        if let Some(at) = self.column_gap {
            columns.insert(
                at.min(columns.len()),
                LaidColumn::gap(self.rows.len(), self.row_gap),
            );
        }
        if let Some(width) = width {
            self.fit(&mut columns, width.saturating_sub(labels.width));
        }
        if labels.width > 0 {
            columns.insert(0, labels);
        }
        let count = columns.first().map_or(0, |column| column.lines.len());
        let line = |n: usize| {
            let cells = columns.iter().map(|column| column.padded(n));
            let line: Vec<String> = cells.collect();
            line.join(&" ".repeat(APART)).trim_end().to_owned()
        };
        let lines = (0..count).map(line);
        lines.skip(usize::from(!self.has_header())).collect()
    }

    /// Whether the first line says what the columns are.
    pub fn has_header(&self) -> bool {
        let mut headers = self.columns.iter().map(|column| &column.header);
        !self.corner.is_empty() || headers.any(|header| !header.is_empty())
    }

    fn labels(&self) -> LaidColumn {
        let labels = TableColumn {
            header: self.corner.clone(),
            cells: self.rows.clone(),
            side: self.label_side,
        };
        LaidColumn::of(&labels, None, self.row_gap)
    }

    /// Leaves out columns in the middle until the others fit. One stays in any case.
    fn fit(&self, columns: &mut Vec<LaidColumn>, room: usize) {
        let needed = |columns: &[LaidColumn]| -> usize {
            columns.iter().map(|column| column.width + APART).sum()
        };
        // Where there is but one, nothing can be left out.
        if needed(columns) <= room || columns.len() < 2 {
            return;
        }
        let mut gap = self.column_gap.unwrap_or_else(|| {
            let gap = columns.len().div_ceil(2);
            columns.insert(gap, LaidColumn::gap(self.rows.len(), self.row_gap));
            gap
        });
        while needed(columns) > room && columns.len() > 2 {
            let behind = columns.len() - gap - 1;
            // The first column goes last.
            match behind >= gap && behind > 0 {
                true => drop(columns.remove(gap + 1)),
                false => {
                    gap -= 1;
                    drop(columns.remove(gap));
                }
            }
        }
    }
}

/// How wide a column has become.
#[derive(Debug, Clone, Copy, Default)]
pub struct ColumnWidth {
    width: usize,
    behind_point: usize,
}

impl ColumnWidth {
    /// So wide.
    pub fn of(width: usize) -> ColumnWidth {
        ColumnWidth {
            width,
            behind_point: 0,
        }
    }
}

/// A column whose cells have their text and width.
struct LaidColumn {
    /// The header, and the cells.
    lines: Vec<String>,
    side: CellSide,
    width: usize,
    /// Most columns behind a point.
    behind_point: usize,
}

impl LaidColumn {
    fn of(column: &TableColumn, longest: Option<usize>, gap: Option<usize>) -> LaidColumn {
        let mut lines: Vec<String> = Vec::with_capacity(column.cells.len() + 2);
        lines.push(cut(&column.header, longest));
        lines.extend(column.cells.iter().map(|cell| cut(cell, longest)));
        let behind = match column.side {
            CellSide::Point => lines
                .iter()
                .skip(1)
                .filter_map(|cell| behind_point(cell))
                .max(),
            _ => None,
        };
        let behind_point = behind.unwrap_or(0);
        if let Some(gap) = gap {
            lines.insert((gap + 1).min(lines.len()), ELISION.to_owned());
        }
        let mut column = LaidColumn {
            lines,
            side: column.side,
            width: 0,
            behind_point,
        };
        let widths = (0..column.lines.len()).map(|n| column.aligned(n).width());
        column.width = widths.max().unwrap_or(0);
        column
    }

    /// As wide as it was before, or wider.
    fn widen(&mut self, before: &mut ColumnWidth) {
        self.behind_point = self.behind_point.max(before.behind_point);
        let widths = (0..self.lines.len()).map(|n| self.aligned(n).width());
        self.width = widths.fold(before.width, usize::max);
        (before.width, before.behind_point) = (self.width, self.behind_point);
    }

    /// Instead of columns that are left out.
    fn gap(rows: usize, gap: Option<usize>) -> LaidColumn {
        LaidColumn {
            lines: vec![ELISION.to_owned(); rows + 1 + usize::from(gap.is_some())],
            side: CellSide::Left,
            width: 1,
            behind_point: 0,
        }
    }

    /// A cell with what makes its point stand where the others do.
    fn aligned(&self, n: usize) -> String {
        let cell = self.lines.get(n).map_or("", String::as_str);
        let short = match (self.side, n > 0 && cell != ELISION) {
            (CellSide::Point, true) => match behind_point(cell) {
                Some(behind) => self.behind_point - behind.min(self.behind_point),
                None => 0,
            },
            _ => 0,
        };
        format!("{cell}{}", " ".repeat(short))
    }

    fn padded(&self, n: usize) -> String {
        let cell = self.aligned(n);
        let pad = " ".repeat(self.width.saturating_sub(cell.width()));
        match self.side {
            CellSide::Left => cell + &pad,
            CellSide::Right | CellSide::Point => pad + &cell,
        }
    }
}

/// How much stands behind the point of a number; none if it is none, or has an exponent.
fn behind_point(cell: &str) -> Option<usize> {
    let (_, behind) = cell.split_once('.')?;
    behind
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then_some(behind.len())
}

/// At most so wide.
pub fn cut(text: &str, longest: Option<usize>) -> String {
    let Some(longest) = longest.filter(|longest| text.width() > *longest) else {
        return text.to_owned();
    };
    let (mut short, mut width) = (String::new(), 1);
    for c in text.chars() {
        width += c.width().unwrap_or(0);
        if width > longest {
            break;
        }
        short.push(c);
    }
    short + ELISION
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn column(header: &str, cells: &[&str], side: CellSide) -> TableColumn {
        TableColumn {
            header: header.into(),
            cells: cells.iter().map(|&cell| cell.into()).collect(),
            side,
        }
    }

    #[test]
    fn points_stand_below_each_other() {
        let table = TextTable {
            rows: vec!["0".into(), "10".into(), "11".into()],
            columns: vec![
                column("x", &["1.5", "-10.25", "1e-09"], CellSide::Point),
                column("name", &["a", "été", "_"], CellSide::Left),
            ],
            row_gap: Some(1),
            ..TextTable::default()
        };
        let expected = [
            "         x  name",
            " 0    1.5   a",
            " …       …  …",
            "10  -10.25  été",
            "11   1e-09  _",
        ];
        assert_eq!(table.lines(Some(80)), expected);
    }

    #[test]
    fn columns_of_a_later_part_stand_where_they_did() {
        let part = |label: &str, cell: &str| TextTable {
            rows: vec![label.into()],
            columns: vec![
                column("x", &[cell], CellSide::Point),
                column("n", &["1"], CellSide::Right),
            ],
            ..TextTable::default()
        };
        let mut widths = vec![ColumnWidth::of(3)];
        let first = part("0", "10.25").lines_below(&mut widths);
        assert_eq!(first, ["         x  n", "  0  10.25  1"]);
        let second = part("1", "1.5").lines_below(&mut widths);
        assert_eq!(second[1], "  1   1.5   1");
    }

    #[test]
    fn one_wide_column_has_no_gap() {
        let table = TextTable {
            rows: vec!["0".into()],
            columns: vec![column("", &["0123456789abcdef"], CellSide::Left)],
            ..TextTable::default()
        };
        assert_eq!(table.lines(Some(16)), ["0  0123456789abcdef"]);
    }

    #[test]
    fn a_header_without_words_is_left_out() {
        let mut table = TextTable {
            rows: vec!["0".into()],
            columns: vec![column("", &["a"], CellSide::Left)],
            ..TextTable::default()
        };
        assert_eq!(table.lines(None), ["0  a"]);
        table.rows = vec![String::new()];
        assert_eq!(table.lines(None), ["a"]);
    }

    #[test]
    fn columns_go_from_the_middle() {
        let columns = (0..9).map(|n| column(&n.to_string(), &["100"], CellSide::Right));
        let table = TextTable {
            rows: vec!["0".into()],
            columns: columns.collect(),
            ..TextTable::default()
        };
        let lines = table.lines(Some(24));
        assert_eq!(
            lines,
            ["     0    1  …    7    8", "0  100  100  …  100  100"]
        );
        assert_eq!(table.lines(Some(3)), ["     0  …", "0  100  …"]);
    }

    proptest! {
        #[test]
        fn tables_are_as_wide_as_they_may_be(
            cells in proptest::collection::vec("[a-z]{0,6}", 1..30),
            gap in proptest::option::of(0usize..30),
            width in 24usize..100,
        ) {
            let count = cells.len();
            let columns = cells.iter().map(|cell| column("h", &[cell], CellSide::Left));
            let table = TextTable {
                rows: vec!["7".into()],
                columns: columns.collect(),
                column_gap: gap.map(|gap| gap.min(count)),
                ..TextTable::default()
            };
            let lines = table.lines(Some(width));
            prop_assert_eq!(lines.len(), 2);
            for line in &lines {
                prop_assert!(line.width() <= width, "{line}");
            }
            // Without a bound all of them are there.
            let all = table.lines(None);
            prop_assert_eq!(all[0].matches('h').count(), count);
        }
    }
}
