//! Figures as they are printed: a table of a container's arrays, all of one array, or JSON.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::super::container::FoundContainer;
use super::super::counted::counted;
use super::super::failure::CommandResult;
use super::super::output;
use super::super::screen::Screen;
use crate::look::figures::{ColumnFigures, EntryFigures, NumberFigures, TextFigures};
use crate::look::number_text::{Digits, float, short};
use crate::look::slice::shape_text;
use crate::look::table::{CellSide, TableColumn, TextTable};
use crate::look::value::{ElementNumber, printable};

/// Characters of the longest bar of a histogram.
const BAR: usize = 40;

/// Of an array.
pub(super) struct ArrayStats {
    pub(super) name: String,
    pub(super) dtype: String,
    pub(super) shape: Vec<u64>,
    pub(super) units: Option<String>,
    /// What the stored numbers, which were counted, stand for.
    pub(super) packed: Option<String>,
    /// By the names of the members of compounds; else of one without a name.
    pub(super) columns: Vec<(String, ColumnFigures)>,
}

/// Of a sparse matrix.
#[derive(Serialize)]
pub(super) struct MatrixStats {
    /// Its group; empty: the container.
    pub(super) name: String,
    pub(super) pointers: String,
    #[serde(flatten)]
    pub(super) entries: EntryFigures,
}

/// Of what was asked for.
pub(super) struct ContainerStats {
    pub(super) arrays: Vec<ArrayStats>,
    pub(super) matrices: Vec<MatrixStats>,
}

impl ContainerStats {
    pub(super) fn print_json(&self, found: &FoundContainer) -> CommandResult {
        let arrays: Vec<Value> = self.arrays.iter().map(ArrayStats::json).collect();
        let told = json!({
            "path": found.shown().to_string_lossy(),
            "format": found.recognised.format.name(),
            "arrays": arrays,
            "sparse": self.matrices,
        });
        output::print(|out| {
            serde_json::to_writer_pretty(&mut *out, &told)?;
            writeln!(out)
        })
    }

    /// `is_single`: one array was asked for.
    pub(super) fn print(&self, found: &FoundContainer, is_single: bool) -> CommandResult {
        let screen = Screen::find();
        output::print(|out| {
            let (path, format) = (found.shown(), found.recognised.format.name());
            writeln!(out, "{}: {format}", output::path_text(&path))?;
            match is_single {
                true => self.arrays.iter().try_for_each(|array| array.print(out))?,
                false => {
                    let mut table = overview(&self.arrays);
                    let mut lines = table.lines(screen.told_width);
                    if lines.first().is_some_and(|header| header.contains('…')) {
                        // The last columns are those that can be done without.
                        table.column_gap = Some(table.columns.len());
                        lines = table.lines(screen.told_width);
                    }
                    lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
                }
            }
            self.matrices
                .iter()
                .try_for_each(|matrix| matrix.print(out))
        })
    }
}

impl ArrayStats {
    fn json(&self) -> Value {
        let mut told = Map::new();
        told.insert("name".into(), json!(self.name));
        told.insert("dtype".into(), json!(self.dtype));
        told.insert("shape".into(), json!(self.shape));
        if let Some(units) = &self.units {
            told.insert("units".into(), json!(units));
        }
        if let Some(packed) = &self.packed {
            told.insert("packed".into(), json!(packed));
        }
        match &self.columns[..] {
            [(name, only)] if name.is_empty() => {
                told.insert("stats".into(), json!(only));
            }
            columns => {
                let columns = columns.iter().map(|(name, one)| (name.clone(), json!(one)));
                told.insert("columns".into(), Value::Object(columns.collect()));
            }
        }
        Value::Object(told)
    }

    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let shape = shape_text(&self.shape);
        writeln!(
            out,
            "{}: {} {shape}",
            printable(&self.name),
            printable(&self.dtype)
        )?;
        if let Some(units) = &self.units {
            writeln!(out, "  units      {}", printable(units))?;
        }
        if let Some(packed) = &self.packed {
            writeln!(
                out,
                "  packed     figures are of stored numbers, which mean {packed}"
            )?;
        }
        for (name, figures) in &self.columns {
            if !name.is_empty() {
                writeln!(out, "{}", printable(name))?;
            }
            match figures {
                ColumnFigures::Numbers(numbers) => print_numbers(out, numbers)?,
                ColumnFigures::Magnitudes(numbers) => {
                    writeln!(out, "  of magnitudes of complex numbers:")?;
                    print_numbers(out, numbers)?;
                }
                ColumnFigures::Texts(texts) => print_texts(out, texts)?,
                ColumnFigures::Others { count } => writeln!(out, "  count      {count}")?,
            }
        }
        Ok(())
    }
}

fn exact(value: Option<ElementNumber>) -> String {
    match value {
        None => "-".into(),
        Some(ElementNumber::Integer(n)) => n.to_string(),
        Some(ElementNumber::Float(value)) => float(value, 8, Digits::All),
    }
}

fn of_float(value: Option<f64>) -> String {
    value.map_or("-".into(), |value| float(value, 8, Digits::All))
}

fn print_numbers(out: &mut impl Write, figures: &NumberFigures) -> io::Result<()> {
    writeln!(out, "  count      {}", figures.count)?;
    let others = [
        ("fill", figures.fill),
        ("nan", figures.nan),
        ("infinite", figures.infinite),
    ];
    for (what, count) in others.iter().filter(|(_, count)| *count > 0) {
        writeln!(out, "  {what:<10} {count}")?;
    }
    writeln!(out, "  zeros      {}", figures.zeros)?;
    writeln!(out, "  minimum    {}", exact(figures.minimum))?;
    writeln!(out, "  maximum    {}", exact(figures.maximum))?;
    writeln!(out, "  mean       {}", of_float(figures.mean))?;
    writeln!(out, "  std        {}", of_float(figures.standard_deviation))?;
    let whole = if figures.all_integers { "yes" } else { "no" };
    writeln!(out, "  integers   {whole}")?;
    print_histogram(out, figures)
}

fn print_histogram(out: &mut impl Write, figures: &NumberFigures) -> io::Result<()> {
    let most = figures
        .histogram
        .iter()
        .map(|bin| bin.count)
        .max()
        .unwrap_or(0);
    if figures.histogram.len() < 2 {
        return Ok(());
    }
    let edges: Vec<String> = figures
        .histogram
        .iter()
        .map(|bin| format!("{} to {}", short(bin.from), short(bin.to)))
        .collect();
    let wide = edges.iter().map(String::len).max().unwrap_or(0);
    let counts = most.to_string().len();
    for (bin, edges) in figures.histogram.iter().zip(edges) {
        let part = bin.count as f64 / most.max(1) as f64 * BAR as f64;
        let bar = "█".repeat(part as usize);
        // What is there at all is seen.
        let bar = if bar.is_empty() && bin.count > 0 {
            "▏".into()
        } else {
            bar
        };
        let line = format!("  {edges:>wide$}  {:>counts$} {bar}", bin.count);
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

fn print_texts(out: &mut impl Write, figures: &TextFigures) -> io::Result<()> {
    writeln!(out, "  count      {}", figures.count)?;
    writeln!(out, "  empty      {}", figures.empty)?;
    writeln!(out, "  longest    {} bytes", figures.longest)?;
    writeln!(out, "  distinct   {}", distinct(figures))
}

fn distinct(figures: &TextFigures) -> String {
    match figures.distinct {
        Some(count) => count.to_string(),
        None => "more than a million".into(),
    }
}

impl MatrixStats {
    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let EntryFigures { per, .. } = self.entries;
        let about = if self.entries.median_within > 0.0 {
            "about "
        } else {
            ""
        };
        let of = match &*self.name {
            "" => String::new(),
            name => format!("{}: ", printable(name)),
        };
        let entries = &self.entries;
        writeln!(
            out,
            "{of}entries per {per} ({}): {} with {}, minimum {}, median {about}{}, mean {}, \
             maximum {}, {} empty",
            printable(&self.pointers),
            counted(entries.rows, per),
            counted(entries.entries, "entry"),
            entries.minimum,
            short(entries.median),
            short(entries.mean),
            entries.maximum,
            entries.empty
        )
    }
}

/// A line for each array, or for each member of its elements.
fn overview(arrays: &[ArrayStats]) -> TextTable {
    let headers = [
        ("type", CellSide::Left),
        ("count", CellSide::Right),
        ("minimum", CellSide::Right),
        ("maximum", CellSide::Right),
        ("mean", CellSide::Right),
        ("std", CellSide::Right),
        ("zeros", CellSide::Right),
        ("nan", CellSide::Right),
        ("fill", CellSide::Right),
    ];
    let mut table = TextTable {
        corner: "array".into(),
        label_side: CellSide::Left,
        columns: headers
            .iter()
            .map(|(header, side)| TableColumn {
                header: (*header).into(),
                cells: Vec::new(),
                side: *side,
            })
            .collect(),
        ..TextTable::default()
    };
    for array in arrays {
        for (name, figures) in &array.columns {
            table.rows.push(printable(&match &**name {
                "" => array.name.clone(),
                name => format!("{}.{name}", array.name),
            }));
            let cells = row(&array.dtype, name, figures);
            for (column, cell) in table.columns.iter_mut().zip(cells) {
                column.cells.push(cell);
            }
        }
    }
    table
}

fn row(dtype: &str, name: &str, figures: &ColumnFigures) -> [String; 9] {
    let none = || "-".to_owned();
    let dtype = if name.is_empty() {
        printable(dtype)
    } else {
        none()
    };
    match figures {
        ColumnFigures::Numbers(of) | ColumnFigures::Magnitudes(of) => {
            let extreme = |value: Option<ElementNumber>| match value {
                Some(ElementNumber::Float(value)) => short(value),
                value => exact(value),
            };
            let mean = |value: Option<f64>| value.map_or(none(), short);
            [
                dtype,
                of.count.to_string(),
                extreme(of.minimum),
                extreme(of.maximum),
                mean(of.mean),
                mean(of.standard_deviation),
                of.zeros.to_string(),
                of.nan.to_string(),
                of.fill.to_string(),
            ]
        }
        ColumnFigures::Texts(of) => [
            dtype,
            of.count.to_string(),
            format!("{} distinct", distinct(of)),
            format!("longest {}", of.longest),
            none(),
            none(),
            none(),
            none(),
            none(),
        ],
        ColumnFigures::Others { count } => [
            dtype,
            count.to_string(),
            none(),
            none(),
            none(),
            none(),
            none(),
            none(),
            none(),
        ],
    }
}
