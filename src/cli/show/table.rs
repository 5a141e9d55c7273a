//! The table: which rows and columns there is room for, and their cells.

use super::super::failure::{CommandResult, Failure};
use super::super::output;
use super::super::screen::Screen;
use super::view::ArrayView;
use crate::error::Result;
use crate::look::element::{ElementType, StructurePart};
use crate::look::layout::{AT_ONCE, ElementLayout};
use crate::look::number_text::{Digits, float};
use crate::look::table::{CellSide, ColumnWidth, TableColumn, TextTable};
use crate::look::value::{number, printable, text};

/// Rows and columns where nothing bounds them.
pub(super) const MOST: u64 = 1000;

/// Cells that are made at once.
const CELLS: u64 = 64 << 10;

/// What the shell's prompt, captions and the header take of a terminal's rows.
const OTHER_ROWS: usize = 7;

/// Rows on a terminal at least and at most.
const TERMINAL_ROWS: std::ops::RangeInclusive<usize> = 10..=60;

/// The narrowest column, with what separates it.
const NARROWEST: usize = 3;

/// How much of an axis is shown: all, or its first and last indices.
#[derive(Debug, Clone, Copy)]
pub(super) struct ShownPart {
    pub(super) count: u64,
    most: u64,
}

impl ShownPart {
    pub(super) fn of(count: u64, most: u64) -> ShownPart {
        ShownPart { count, most }
    }

    /// The numbers within the slice.
    pub(super) fn numbers(&self) -> Vec<u64> {
        if self.count <= self.most {
            return (0..self.count).collect();
        }
        let first = self.most.div_ceil(2);
        let last = self.count - (self.most - first);
        (0..first).chain(last..self.count).collect()
    }

    /// Before which of them others are left out.
    pub(super) fn gap(&self) -> Option<usize> {
        (self.count > self.most).then(|| self.most.div_ceil(2) as usize)
    }
}

/// How many rows a table has.
pub(super) fn most_rows(screen: &Screen, all: bool) -> u64 {
    let rows = screen.height.saturating_sub(OTHER_ROWS);
    let rows = rows.clamp(*TERMINAL_ROWS.start(), *TERMINAL_ROWS.end());
    match (all, screen.is_terminal) {
        (true, _) => u64::MAX,
        (false, true) => rows as u64,
        (false, false) => MOST,
    }
}

/// How many columns are looked at.
fn most_columns(screen: &Screen, all: bool) -> u64 {
    match (all, screen.told_width) {
        (true, _) => u64::MAX,
        (false, Some(width)) => (width / NARROWEST).max(2) as u64,
        (false, None) => MOST,
    }
}

pub(super) fn show(view: &ArrayView, all: bool, exact: bool) -> CommandResult {
    if view.is_empty() {
        return view.print_empty();
    }
    let mut plane = ShownPlane::of(view)?;
    let screen = Screen::find();
    let digits = match exact || !screen.is_terminal || all {
        true => Digits::All,
        false => Digits::Six,
    };
    plane.digits = digits;
    let rows = ShownPart::of(plane.rows(), most_rows(&screen, all));
    let columns = ShownPart::of(plane.across(), most_columns(&screen, all));
    let wide = if all { None } else { screen.told_width };
    let captions = plane.view.captions.clone();
    let per_row = columns.numbers_len();
    if per_row > AT_ONCE as u64 {
        return Err(Failure::usage(format!(
            "a row of {per_row} values is more than is written at once; --slice chooses some"
        )));
    }
    let batch = plane.rows_at_once(per_row);
    if all && rows.count > batch {
        return plane.stream(&captions, rows.count, columns, batch);
    }
    let cells = plane.table(&rows.numbers(), rows.gap(), columns)?;
    output::print(|out| {
        use std::io::Write;
        for line in captions.iter().chain(&cells.lines(wide)) {
            writeln!(out, "{line}")?;
        }
        Ok(())
    })
}

impl ShownPart {
    fn numbers_len(&self) -> u64 {
        self.count.min(self.most)
    }
}

/// At most two axes of an array.
struct ShownPlane<'a> {
    view: ArrayPlane<'a>,
    layout: ElementLayout,
    columns: Vec<StructurePart>,
    digits: Digits,
}

/// The view, and which of its axes go down and across.
struct ArrayPlane<'a> {
    view: &'a ArrayView,
    down: Option<usize>,
    across: Option<usize>,
    captions: Vec<String>,
}

impl<'a> ShownPlane<'a> {
    fn of(view: &'a ArrayView) -> std::result::Result<ShownPlane<'a>, Failure> {
        let plane = ArrayPlane::of(view);
        let layout = ElementLayout::of(&view.opened.info);
        let layout = layout.ok_or_else(|| Failure::new("its elements have no size"))?;
        Ok(ShownPlane {
            view: plane,
            layout,
            columns: view.columns(),
            digits: Digits::All,
        })
    }

    /// Rows that are read and made at once: all of their bytes, unless those of a single row are
    /// too many, and no more cells than fit in little memory.
    fn rows_at_once(&self, per_row: u64) -> u64 {
        let columns = if self.is_compound() {
            self.columns.len() as u64
        } else {
            1
        };
        let cells = CELLS / per_row.saturating_mul(columns).max(1);
        cells.min(self.layout.most_whole() / per_row.max(1)).max(1)
    }

    /// Whether the parts of elements have columns of their own.
    fn is_compound(&self) -> bool {
        self.view.across.is_none() && self.columns.iter().any(|part| !part.name.is_empty())
    }

    fn count(&self, axis: Option<usize>) -> u64 {
        let slice = axis.and_then(|axis| self.view.view.slices.get(axis));
        slice.map_or(1, |slice| slice.count)
    }

    fn rows(&self) -> u64 {
        self.count(self.view.down)
    }

    fn across(&self) -> u64 {
        self.count(self.view.across)
    }

    /// Indices in the array: of these numbers along both axes.
    fn indices(&self, rows: &[u64], across: &[u64]) -> Vec<Vec<u64>> {
        let slices = self.view.view.slices.iter().enumerate();
        let list = slices.map(|(axis, slice)| {
            let numbers = match Some(axis) {
                axis if axis == self.view.down => rows,
                axis if axis == self.view.across => across,
                _ => &[0],
            };
            numbers.iter().map(|n| slice.index(*n)).collect()
        });
        list.collect()
    }

    fn labels(&self, axis: Option<usize>, numbers: &[u64]) -> Vec<String> {
        let slice = axis.and_then(|axis| self.view.view.slices.get(axis));
        let label = |n: &u64| slice.map_or(String::new(), |slice| slice.index(*n).to_string());
        numbers.iter().map(label).collect()
    }

    fn table(
        &self,
        rows: &[u64],
        row_gap: Option<usize>,
        part: ShownPart,
    ) -> std::result::Result<TextTable, Failure> {
        let across = part.numbers();
        let mut columns: Vec<TableColumn> = self.headers(&across);
        let batch = self.rows_at_once(across.len() as u64);
        for some in rows.chunks(usize::try_from(batch).unwrap_or(usize::MAX)) {
            self.fill(some, &across, &mut columns)?;
        }
        Ok(TextTable {
            corner: self.view.corner(),
            rows: self.labels(self.view.down, rows),
            columns,
            row_gap,
            label_side: CellSide::Right,
            column_gap: part.gap(),
        })
    }

    fn headers(&self, across: &[u64]) -> Vec<TableColumn> {
        let column = |header: String, side| TableColumn {
            header,
            cells: Vec::new(),
            side,
        };
        if self.is_compound() {
            let columns = self.columns.iter();
            return columns
                .map(|part| column(printable(&part.name), self.side(&part.element)))
                .collect();
        }
        let side = match &self.view.view.element {
            Some(element) => self.side(element),
            None => CellSide::Left,
        };
        let labels = self.labels(self.view.across, across).into_iter();
        labels.map(|label| column(label, side)).collect()
    }

    fn side(&self, element: &ElementType) -> CellSide {
        let is_scaled = self.view.view.is_physical && self.view.view.scale.is_scaled();
        match element {
            ElementType::Integer { names: None, .. } if is_scaled => CellSide::Point,
            ElementType::Float { .. } => CellSide::Point,
            ElementType::Integer { names: None, .. }
            | ElementType::Complex { .. }
            | ElementType::Date { .. } => CellSide::Right,
            _ => CellSide::Left,
        }
    }

    /// Adds the cells of some rows.
    fn fill(&self, rows: &[u64], across: &[u64], to: &mut [TableColumn]) -> Result<()> {
        let indices = self.indices(rows, across);
        let picked = self.layout.read(&*self.view.view.opened.array, &indices)?;
        // Their axes are read in the order of the array's.
        let is_turned = matches!((self.view.down, self.view.across), (Some(d), Some(a)) if d > a);
        for row in 0..rows.len() {
            for column in 0..across.len() {
                let n = match is_turned {
                    true => column * rows.len() + row,
                    false => row * across.len() + column,
                };
                self.add_cells(picked.get(n), column, to);
            }
        }
        Ok(())
    }

    fn add_cells(&self, bytes: &[u8], column: usize, to: &mut [TableColumn]) {
        if self.is_compound() {
            for (part, column) in self.columns.iter().zip(to) {
                let bytes = bytes.get(part.offset..).unwrap_or_default();
                column.cells.push(text(&part.element, bytes, self.digits));
            }
        } else if let (Some(column), Some(element)) = (to.get_mut(column), &self.view.view.element)
        {
            column.cells.push(self.cell(element, bytes));
        }
    }

    fn cell(&self, element: &ElementType, bytes: &[u8]) -> String {
        let view = self.view.view;
        let value = number(element, bytes).filter(|_| view.is_physical);
        match value {
            Some(value) if view.scale.is_missing(value) => "_".into(),
            Some(value) if view.scale.is_scaled() => float(view.scale.apply(value), 8, self.digits),
            _ => text(element, bytes, self.digits),
        }
    }

    /// Prints all rows, some at a time.
    fn stream(
        &self,
        captions: &[String],
        rows: u64,
        columns: ShownPart,
        batch: u64,
    ) -> CommandResult {
        use std::io::Write;
        output::print(|out| {
            for line in captions {
                writeln!(out, "{line}")?;
            }
            Ok(())
        })?;
        let longest = self.labels(self.view.down, &[0, rows.saturating_sub(1)]);
        let longest = longest.iter().map(String::len).max();
        let mut widths = vec![ColumnWidth::of(longest.unwrap_or(0))];
        let mut at = 0;
        while at < rows {
            let some: Vec<u64> = (at..rows.min(at.saturating_add(batch))).collect();
            let table = self.table(&some, None, columns)?;
            let lines = table.lines_below(&mut widths);
            let header = usize::from(at > 0 && table.has_header());
            let mut out = std::io::stdout().lock();
            for line in lines.iter().skip(header) {
                if let Err(e) = writeln!(out, "{line}") {
                    return output::failed(e).map_or(Ok(()), Err);
                }
            }
            at = at.saturating_add(batch);
        }
        Ok(())
    }
}

impl<'a> ArrayPlane<'a> {
    fn of(view: &'a ArrayView) -> ArrayPlane<'a> {
        let axes = view.axes();
        let (down, across) = match axes[..] {
            [] => (None, None),
            [only] => (Some(only), None),
            [.., down, across] => (Some(down), Some(across)),
        };
        let mut captions = vec![view.title()];
        captions.extend(view.captions());
        ArrayPlane {
            view,
            down,
            across,
            captions,
        }
    }

    /// The names of the axes, where they have some.
    fn corner(&self) -> String {
        let name = |axis: Option<usize>| axis.map(|axis| self.view.axis_name(axis));
        match (name(self.down), name(self.across)) {
            (Some(down), Some(across)) if !(down.is_empty() && across.is_empty()) => {
                format!("{down} \\ {across}")
            }
            (Some(down), _) => down,
            _ => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_an_axis_are_shown() {
        let part = ShownPart::of(10, 4);
        assert_eq!((part.numbers(), part.gap()), (vec![0, 1, 8, 9], Some(2)));
        let part = ShownPart::of(10, 5);
        assert_eq!((part.numbers(), part.gap()), (vec![0, 1, 2, 8, 9], Some(3)));
        let part = ShownPart::of(3, 5);
        assert_eq!((part.numbers(), part.gap()), (vec![0, 1, 2], None));
        let part = ShownPart::of(u64::MAX, 2);
        assert_eq!(part.numbers(), [0, u64::MAX - 1]);
    }
}
