//! `arrayfs ls`: containers and their arrays, without a mount.
//!
//! Containers are described one after the other and forgotten again; only an order by size needs
//! the lines of all arrays at once.

use std::cmp::Reverse;
use std::io::{self, Write};
use std::path::PathBuf;

use serde::Serializer;
use serde::ser::SerializeSeq;
use serde_json::json;

use super::args::LsArgs;
use super::container::{self, Found, FoundContainer, orphans_line};
use super::counted::counted;
use super::described::{in_stored, ratio_of};
use super::failure::{CommandResult, Failure};
use super::styled::{FAULT, Styled, shortened};
use super::table::{Column, ColumnSide, Table, TableLine};
use super::{output, size, styled};
use crate::container::Preferences;
use crate::container::describe::{ArrayDescription, Description, TextsToRead, describe};
use crate::error::Error;
use crate::look::table::cut;
use crate::memory::budget::Budget;

const COLUMNS: &[Column] = &[
    column("  name", ColumnSide::Left, 80),
    column("type", ColumnSide::Left, TYPE_MOST),
    column("shape", ColumnSide::Left, 28),
    column("size", ColumnSide::Right, 12),
    column("stored", ColumnSide::Right, 12),
    column("ratio", ColumnSide::Right, 8),
    column("codec", ColumnSide::Left, 24),
];

/// Longest text of a cell, in characters.
const CELL_MOST: usize = 200;

/// Widest type: those of compounds are long lists.
const TYPE_MOST: usize = 16;

/// Longest reason and fault, in characters.
const REASON_MOST: usize = 1000;

const fn column(title: &'static str, side: ColumnSide, most: usize) -> Column {
    Column { title, side, most }
}

/// In which order arrays are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListOrder {
    /// As the file has them.
    Stored,
    Name,
    /// The largest first.
    Size,
}

impl ListOrder {
    fn of(args: &LsArgs) -> ListOrder {
        match args.sort.as_deref() {
            Some("size") => ListOrder::Size,
            Some(_) => ListOrder::Name,
            None => ListOrder::Stored,
        }
    }

    fn sort(self, description: &mut Description<'_>) {
        let arrays = &mut description.arrays;
        match self {
            ListOrder::Stored => {}
            ListOrder::Name => arrays.sort_by(|one, other| one.name.cmp(&other.name)),
            ListOrder::Size => arrays.sort_by_key(|array| Reverse(array.bytes)),
        }
    }
}

pub(super) fn run(args: &LsArgs, preferences: Preferences) -> CommandResult {
    let (mut errors, mut lookalikes) = (Vec::new(), Vec::new());
    let (mut found, mut orphans) = (Vec::new(), Vec::new());
    let failed = &mut |e: Error| errors.push(e.to_string());
    container::walk(&args.path, preferences, failed, &mut |f| match f {
        Found::Container(container) => found.push(container),
        Found::Lookalike(fault) => lookalikes.push(fault.to_string()),
        Found::Orphans(at) => orphans.push(at),
    })?;
    let order = ListOrder::of(args);
    let mut listing = ArrayListing {
        order,
        errors: &mut errors,
    };
    match (args.json, args.long) {
        (true, _) => output::print(|out| listing.json(out, found))?,
        (false, true) => styled::print(|out| listing.long(out, &found))?,
        (false, false) => styled::print(|out| listing.short(out, &found))?,
    }
    for at in &orphans {
        output::complain(orphans_line(at));
    }
    errors.extend(lookalikes);
    for e in &errors {
        output::complain(e);
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(Failure::silent())
    }
}

/// How much has been listed.
#[derive(Default)]
struct Totals {
    containers: u64,
    arrays: u64,
    bytes: u64,
    stored: u64,
    /// Of some arrays nobody has counted what is stored.
    has_uncounted: bool,
}

impl Totals {
    fn add(&mut self, description: &Description<'_>) {
        self.containers += 1;
        for array in &description.arrays {
            self.arrays += 1;
            self.bytes = self.bytes.saturating_add(array.bytes);
            self.stored = self.stored.saturating_add(array.stored_bytes.unwrap_or(0));
            self.has_uncounted |= array.stored_bytes.is_none();
        }
    }

    fn sentence(&self) -> String {
        format!(
            "{}, {}, {}",
            counted(self.containers, "container"),
            counted(self.arrays, "array"),
            in_stored(self.bytes, (!self.has_uncounted).then_some(self.stored))
        )
    }
}

struct ArrayListing<'e> {
    order: ListOrder,
    /// What could not be opened.
    errors: &'e mut Vec<String>,
}

impl ArrayListing<'_> {
    /// Describes containers one after the other: as long as one is open, so are its files.
    fn each(
        &mut self,
        found: &[FoundContainer],
        read: TextsToRead,
        mut list: impl FnMut(PathBuf, &Description<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let budget = Budget::by_default();
        for container in found {
            let opened = match container.open(&budget) {
                Ok(opened) => opened,
                Err(e) => {
                    self.errors.push(e.to_string());
                    continue;
                }
            };
            match (container.meant(&opened), describe(&opened, read)) {
                (Ok(meant), Ok(mut description)) => {
                    description.keep(&|name| meant.has(name));
                    self.order.sort(&mut description);
                    list(container.shown(), &description)?;
                }
                (Err(failure), _) => self.errors.push(failure.message),
                (_, Err(e)) => self.errors.push(e.to_string()),
            }
        }
        Ok(())
    }

    fn json(&mut self, out: &mut impl Write, mut found: Vec<FoundContainer>) -> io::Result<()> {
        if self.order == ListOrder::Size {
            found = self.largest_first(found)?;
        }
        let mut serializer = serde_json::Serializer::pretty(&mut *out);
        let mut list = serializer.serialize_seq(None)?;
        self.each(&found, TextsToRead::All, |path, container| {
            let listed = json!({ "path": output::path_text(&path), "container": container });
            Ok(list.serialize_element(&listed)?)
        })?;
        list.end()?;
        writeln!(out)
    }

    /// Containers by the size of their largest array. Those that cannot be opened are last, and
    /// told when they are listed.
    fn largest_first(&mut self, found: Vec<FoundContainer>) -> io::Result<Vec<FoundContainer>> {
        let mut sized = Vec::new();
        let mut unsaid = Vec::new();
        let mut looking = ArrayListing {
            order: ListOrder::Stored,
            errors: &mut unsaid,
        };
        for container in found {
            let mut largest = 0;
            looking.each(
                std::slice::from_ref(&container),
                TextsToRead::Few,
                |_, description| {
                    let sizes = description.arrays.iter().map(|array| array.bytes);
                    largest = sizes.max().unwrap_or(0);
                    Ok(())
                },
            )?;
            sized.push((largest, container));
        }
        sized.sort_by_key(|(largest, _)| Reverse(*largest));
        Ok(sized.into_iter().map(|(_, container)| container).collect())
    }

    /// A line for each array: its path.
    fn short(&mut self, out: &mut impl Write, found: &[FoundContainer]) -> io::Result<()> {
        let (order, mut sized) = (self.order, Vec::new());
        self.each(found, TextsToRead::Few, |path, container| {
            let path = output::path_text(&path);
            for array in &container.arrays {
                let line = format!("{path}/{}", array.name);
                match order {
                    ListOrder::Size => sized.push((array.bytes, line)),
                    ListOrder::Stored | ListOrder::Name => writeln!(out, "{line}")?,
                }
            }
            for (name, reason) in not_shown(container) {
                let reason = shortened(reason, REASON_MOST);
                writeln!(out, "? {path}/{name}: not shown: {reason}")?;
            }
            let faults = container.faults.iter();
            let mut faults = faults.map(|fault| format!("! {}", shortened(fault, REASON_MOST)));
            faults.try_for_each(|fault| writeln!(out, "{}", Styled(FAULT, fault)))
        })?;
        sized.sort_by_key(|(bytes, _)| Reverse(*bytes));
        let mut lines = sized.iter();
        lines.try_for_each(|(_, line)| writeln!(out, "{line}"))
    }

    /// A table of all arrays, and how much there is of them.
    fn long(&mut self, out: &mut impl Write, found: &[FoundContainer]) -> io::Result<()> {
        let (order, mut sized) = (self.order, Vec::new());
        let (mut table, mut totals) = (Table::new(COLUMNS), Totals::default());
        self.each(found, TextsToRead::Few, |path, container| {
            totals.add(container);
            let path = output::path_text(&path);
            let prefix = match order {
                ListOrder::Size => format!("{path}/"),
                ListOrder::Stored | ListOrder::Name => {
                    let about = format!("{} {}", container.format, container.version);
                    let heading = TableLine::Heading(path.clone(), about.trim_end().to_owned());
                    table.add(heading, out)?;
                    String::new()
                }
            };
            for array in &container.arrays {
                let row = row(&prefix, array);
                match order {
                    ListOrder::Size => sized.push((array.bytes, row)),
                    ListOrder::Stored | ListOrder::Name => table.add(TableLine::Cells(row), out)?,
                }
            }
            for (name, reason) in not_shown(container) {
                let reason = shortened(reason, REASON_MOST);
                let note = format!("  {prefix}{name}  not shown: {reason}");
                table.add(TableLine::Note(note), out)?;
            }
            let faults = container.faults.iter();
            let mut faults = faults.map(|fault| format!("  ! {}", shortened(fault, REASON_MOST)));
            faults.try_for_each(|fault| table.add(TableLine::Fault(fault), out))
        })?;
        sized.sort_by_key(|(bytes, _)| Reverse(*bytes));
        for (_, row) in sized {
            table.add(TableLine::Cells(row), out)?;
        }
        table.write(out)?;
        writeln!(out, "{}", totals.sentence())
    }
}

/// The cells of an array.
fn row(prefix: &str, array: &ArrayDescription) -> Vec<String> {
    let shape: Vec<String> = array.shape.iter().map(u64::to_string).collect();
    vec![
        format!("  {prefix}{}", array.name),
        cut(&shortened(&array.dtype, CELL_MOST), Some(TYPE_MOST)),
        format!("({})", shape.join(", ")),
        size::show(array.bytes),
        array.stored_bytes.map_or_else(|| "-".into(), size::show),
        ratio_of(array).unwrap_or_else(|| "-".into()),
        shortened(&array.codec, CELL_MOST),
    ]
}

/// What is whole and cannot be shown, and why. What is damaged is among the faults.
fn not_shown<'a>(container: &'a Description<'_>) -> impl Iterator<Item = (&'a str, &'a str)> {
    let whole = container.unreadable.iter().filter(|member| member.is_whole);
    whole.map(|member| (&*member.name, &*member.reason))
}
