//! The table of a text array: a value on each row.

use std::io::Write;

use super::super::failure::{CommandResult, Failure};
use super::super::output;
use super::super::screen::Screen;
use super::table::{ShownPart, most_rows};
use super::view::ArrayView;
use crate::look::lines::{each_text, texts_at};
use crate::look::slice::AxisSlice;
use crate::look::table::{CellSide, TableColumn, TextTable};
use crate::look::value::printable;

/// Texts that are looked up at once.
const AT_ONCE: u64 = 64 << 10;

pub(super) fn show(view: &ArrayView, all: bool) -> CommandResult {
    let mut counts = view.slices.iter().map(|slice| slice.count);
    let count = counts
        .try_fold(1u64, u64::checked_mul)
        .ok_or_else(|| Failure::new("more texts than can be counted"))?;
    if count == 0 {
        return view.print_empty();
    }
    let screen = Screen::find();
    let mut lines = vec![view.title()];
    lines.extend(view.captions());
    let shape = &view.opened.info.shape;
    let mut axes = view.slices.iter().zip(shape);
    let is_whole = axes.all(|(slice, len)| *slice == AxisSlice::whole(*len));
    if all && is_whole && count > AT_ONCE {
        return stream(view, &lines);
    }
    let part = ShownPart::of(count, most_rows(&screen, all));
    if all && count > AT_ONCE {
        return Err(Failure::usage(format!(
            "{count} texts are more than are picked at once; --slice chooses fewer"
        )));
    }
    let wanted: Vec<(String, u64)> = part.numbers().iter().map(|n| element(view, *n)).collect();
    let (rows, numbers): (Vec<String>, Vec<u64>) = wanted.into_iter().unzip();
    let of_all = shape.iter().fold(1u64, |all, len| all.saturating_mul(*len));
    let found = texts_at(&view.opened.array, of_all, &numbers)?;
    let cells = found
        .iter()
        .map(|line| printable(&String::from_utf8_lossy(line)));
    let table = TextTable {
        corner: corner(view),
        rows,
        columns: vec![TableColumn {
            header: String::new(),
            cells: cells.collect(),
            side: CellSide::Left,
        }],
        row_gap: part.gap(),
        label_side: CellSide::Right,
        column_gap: None,
    };
    lines.extend(table.lines(if all { None } else { screen.told_width }));
    output::print(|out| lines.iter().try_for_each(|line| writeln!(out, "{line}")))
}

fn corner(view: &ArrayView) -> String {
    match view.axes()[..] {
        [axis] => view.axis_name(axis),
        _ => String::new(),
    }
}

/// The label and the number of the n-th text of a slice.
fn element(view: &ArrayView, n: u64) -> (String, u64) {
    let (mut rest, mut number, mut stride) = (n, 0u64, 1u64);
    let mut labels = Vec::new();
    let axes = view.slices.iter().zip(&view.opened.info.shape);
    for (slice, len) in axes.rev() {
        let index = slice.index(rest % slice.count.max(1));
        rest /= slice.count.max(1);
        number = number.saturating_add(index.saturating_mul(stride));
        stride = stride.saturating_mul(*len);
        if !slice.is_single {
            labels.push(index.to_string());
        }
    }
    labels.reverse();
    (labels.join(", "), number)
}

/// Every text, as it is read.
fn stream(view: &ArrayView, captions: &[String]) -> CommandResult {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut written = captions.iter().try_for_each(|line| writeln!(out, "{line}"));
    let shape = &view.opened.info.shape;
    let count = shape.iter().fold(1u64, |all, len| all.saturating_mul(*len));
    let width = element(view, count.saturating_sub(1)).0.len();
    each_text(&view.opened.array, &mut |number, line, _| {
        if written.is_ok() {
            let (label, _) = element(view, number);
            let text = printable(&String::from_utf8_lossy(line));
            written = writeln!(out, "{label:>width$}  {text}");
        }
        written.is_ok()
    })?;
    let written = written.and_then(|()| out.flush());
    written.or_else(|e| output::failed(e).map_or(Ok(()), Err))
}
