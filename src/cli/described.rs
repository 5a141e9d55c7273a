//! What a container, a group or an array is, for people: a name, and beneath it what is said of it,
//! a label and a value on each line. Attributes are spelled as `ncdump -h` does: `:units = "K"`.
//!
//! Whatever a file says is shortened, and of very many attributes only the first are shown: the
//! text stays in proportion to the number of arrays. Used by `info`.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::{self, Write};

use serde_json::{Map, Value};

use super::counted::counted;
use super::size;
use super::styled::{FAULT, LABEL, NAME, Styled, shortened};
use crate::array::Unfiltered;
use crate::container::describe::{ArrayDescription, Description, UnreadableDescription};
use crate::container::stored::{ArrayDetails, FileDetails, FilterDetails, StoredType};

/// Longest value that is printed whole, in characters.
const LINE_MOST: usize = 160;

/// Most attributes that are shown of one array or group among others.
const ATTRIBUTES_MOST: usize = 100;

/// Width of labels, with the space behind them.
const LABELS: usize = 8;

/// Writes what is said to people.
pub(super) struct DescriptionWriter<'a, W> {
    pub(super) out: &'a mut W,
    pub(super) file: &'a FileDetails,
    /// Most attributes of each.
    attributes_most: usize,
}

impl<'a, W: Write> DescriptionWriter<'a, W> {
    /// Of a container or a group with all that is in it.
    pub(super) fn many(out: &'a mut W, file: &'a FileDetails) -> Self {
        DescriptionWriter {
            out,
            file,
            attributes_most: ATTRIBUTES_MOST,
        }
    }

    /// Of one array.
    pub(super) fn one(out: &'a mut W, file: &'a FileDetails) -> Self {
        DescriptionWriter {
            attributes_most: 10 * ATTRIBUTES_MOST,
            ..DescriptionWriter::many(out, file)
        }
    }

    fn name(&mut self, name: &str) -> io::Result<()> {
        writeln!(self.out, "{}", Styled(NAME, shortened(name, 4 * LINE_MOST)))
    }

    fn line(&mut self, label: &str, value: impl Display) -> io::Result<()> {
        let label = format!("{label:<width$}", width = LABELS - 1);
        writeln!(self.out, "  {} {value}", Styled(LABEL, label))
    }

    /// The first line, and how much there is.
    pub(super) fn overview(
        &mut self,
        title: impl Display,
        what: &str,
        arrays: &[ArrayDescription],
    ) -> io::Result<()> {
        writeln!(self.out, "{}: {what}", Styled(NAME, title))?;
        let sum = |of: fn(&ArrayDescription) -> Option<u64>| {
            let mut sizes = arrays.iter().map(of);
            sizes.try_fold(0u64, |sum, size| Some(sum.saturating_add(size?)))
        };
        let bytes = sum(|array| Some(array.bytes)).unwrap_or(0);
        let stored = sum(|array| array.stored_bytes);
        let arrays = counted(arrays.len() as u64, "array");
        writeln!(self.out, "  {arrays}, {}", in_stored(bytes, stored))
    }

    /// A fault that is told in a line of its own.
    pub(super) fn fault(&mut self, fault: &str) -> io::Result<()> {
        let fault = format!("fault: {}", shortened(fault, 4 * LINE_MOST));
        writeln!(self.out, "{}", Styled(FAULT, fault))
    }

    pub(super) fn attributes(&mut self, attributes: &Map<String, Value>) -> io::Result<()> {
        for (name, value) in attributes.iter().take(self.attributes_most) {
            let name = Styled(LABEL, format!(":{}", shortened(name, LINE_MOST)));
            writeln!(self.out, "  {name} = {}", value_text(value))?;
        }
        match attributes.len().saturating_sub(self.attributes_most) {
            0 => Ok(()),
            more => writeln!(
                self.out,
                "  ... and {}",
                counted(more as u64, "more attribute")
            ),
        }
    }

    pub(super) fn dimensions(&mut self) -> io::Result<()> {
        for (name, dimension) in &self.file.dimensions {
            self.name(name)?;
            let unlimited = if dimension.unlimited {
                ", unlimited"
            } else {
                ""
            };
            writeln!(self.out, "  dimension of {}{unlimited}", dimension.length)?;
        }
        Ok(())
    }

    /// All arrays, each group that says something before what is in it.
    pub(super) fn arrays_in_groups(&mut self, container: &Description<'_>) -> io::Result<()> {
        let mut told = BTreeSet::new();
        for array in &container.arrays {
            for (at, _) in array.name.match_indices('/') {
                let group = &array.name[..at];
                if told.insert(group) {
                    self.group(group, container)?;
                }
            }
            self.array(array)?;
        }
        for group in container.groups.keys() {
            if told.insert(group) {
                self.group(group, container)?;
            }
        }
        Ok(())
    }

    /// A group, if there is something to say of it.
    fn group(&mut self, path: &str, container: &Description<'_>) -> io::Result<()> {
        let attributes = container.groups.get(path);
        let attributes = attributes.filter(|attributes| !attributes.is_empty());
        let format = container.containers.get(path);
        if attributes.is_none() && format.is_none() {
            return Ok(());
        }
        self.name(&format!("{path}/"))?;
        match format {
            Some(format) => writeln!(self.out, "  group, a container: {format}")?,
            None => writeln!(self.out, "  group")?,
        }
        attributes.map_or(Ok(()), |attributes| self.attributes(attributes))
    }

    fn array(&mut self, array: &ArrayDescription) -> io::Result<()> {
        self.name(&array.name)?;
        self.about(array)
    }

    /// What is said of an array, beneath its name.
    pub(super) fn about(&mut self, array: &ArrayDescription) -> io::Result<()> {
        let shape = listed(&array.shape, u64::to_string);
        let dtype = shortened(&array.dtype, LINE_MOST);
        self.line(
            "type",
            format_args!("{dtype} ({shape}), order {}", array.order),
        )?;
        let ratio = ratio_of(array).map_or_else(String::new, |ratio| format!(", ratio {ratio}"));
        let stored = array
            .stored_bytes
            .map(|stored| format!(", stored {}", size::show(stored)));
        let (bytes, stored) = (size::show(array.bytes), stored.unwrap_or_default());
        self.line("size", format_args!("{bytes}{stored}{ratio}"))?;
        let blocks = counted(array.blocks, "block");
        self.line("codec", format_args!("{}, {blocks}", array.codec))?;
        self.details(array)?;
        self.unfiltered(&array.unfiltered)?;
        self.attributes(&array.attributes)
    }

    /// How an array is stored, as far as its format tells.
    fn details(&mut self, array: &ArrayDescription) -> io::Result<()> {
        let details = &array.details;
        if let Some(stored_type) = &details.stored_type {
            let stored_type = shortened(&type_text(stored_type), LINE_MOST);
            self.line(
                "stored",
                format_args!("{stored_type}{}", layout_text(details)),
            )?;
        }
        if !details.filters.is_empty() {
            self.line("filters", listed(&details.filters, filter_text))?;
        }
        if let Some(fill) = &details.fill {
            let fill = match &**fill {
                Value::Null => "undefined".into(),
                fill => value_text(fill),
            };
            self.line("fill", fill)?;
        }
        if !details.dims.is_empty() {
            let lengths = array.shape.iter().map(Some).chain(std::iter::repeat(None));
            let dims: Vec<_> = details.dims.iter().zip(lengths).collect();
            let text = listed(&dims, |(name, len)| self.dim_text(name.as_deref(), *len));
            self.line("dims", text)?;
        }
        Ok(())
    }

    fn dim_text(&self, name: Option<&str>, len: Option<&u64>) -> String {
        let dimension = name.and_then(|name| self.file.dimensions.get(name));
        let unlimited = match dimension.is_some_and(|dimension| dimension.unlimited) {
            true => " (unlimited)",
            false => "",
        };
        let len = len.map_or_else(String::new, |len| format!(" = {len}"));
        format!(
            "{}{len}{unlimited}",
            shortened(name.unwrap_or("-"), LINE_MOST)
        )
    }

    fn unfiltered(&mut self, unfiltered: &Unfiltered) -> io::Result<()> {
        if unfiltered.is_none() {
            return Ok(());
        }
        let chunks = unfiltered.chunks.unwrap_or(0);
        let so_many = counted(chunks, "chunk");
        let are = super::counted::verb(chunks, "is", "are");
        let changed = match &unfiltered.changed {
            Some(why) => format!(", and so is one that changes: {why}"),
            None => String::new(),
        };
        self.line(
            "plain",
            format_args!("{so_many} {are} stored unfiltered{changed}"),
        )
    }

    /// What is there beside arrays and groups.
    pub(super) fn others(&mut self, container: &Description<'_>) -> io::Result<()> {
        for (name, committed) in &container.types {
            let shape = listed(&committed.shape, u64::to_string);
            let of = match (&committed.dtype, &*shape) {
                (Some(dtype), "") => dtype.clone(),
                (Some(dtype), shape) => format!("{dtype} ({shape})"),
                (None, _) => committed.unreadable.clone().unwrap_or_default(),
            };
            self.name(name)?;
            writeln!(
                self.out,
                "  type without data: {}",
                shortened(&of, LINE_MOST)
            )?;
            self.attributes(&committed.attributes)?;
        }
        for (name, target) in &container.links {
            self.name(name)?;
            writeln!(self.out, "  link to {target}")?;
        }
        // Those to groups are among the links.
        let own = |name: &&String| !container.links.contains_key(*name);
        for name in container.file.hard_links.keys().filter(own) {
            self.name(name)?;
            writeln!(
                self.out,
                "  the same as {}",
                container.file.hard_links[name]
            )?;
        }
        // What is damaged is among the faults.
        let whole = container.unreadable.iter().filter(|member| member.is_whole);
        for unreadable in whole {
            self.not_shown(unreadable)?;
        }
        for (name, why) in &container.read_only_arrays {
            self.name(name)?;
            writeln!(self.out, "  cannot be written: {why}")?;
        }
        if let Some(why) = &container.read_only {
            writeln!(self.out, "  read-only: {why}")?;
        }
        for name in &container.beside {
            self.name(name)?;
            writeln!(self.out, "  beside: a file in its directory, and no array")?;
        }
        let mut faults = container.faults.iter();
        faults.try_for_each(|fault| self.fault(fault))
    }

    fn not_shown(&mut self, unreadable: &UnreadableDescription) -> io::Result<()> {
        self.name(&unreadable.name)?;
        let reason = shortened(&unreadable.reason, 4 * LINE_MOST);
        writeln!(self.out, "  not shown: {reason}")?;
        self.attributes(&unreadable.attributes)
    }
}

/// `7.6 MiB in 2.1 MiB, ratio 3.62`; `7.6 MiB` if nobody has counted what is stored.
pub(super) fn in_stored(bytes: u64, stored: Option<u64>) -> String {
    let Some(stored) = stored else {
        return size::show(bytes);
    };
    let ratio = ratio_text(bytes, stored);
    let ratio = ratio.map_or_else(String::new, |ratio| format!(", ratio {ratio}"));
    format!("{} in {}{ratio}", size::show(bytes), size::show(stored))
}

/// How many times smaller something is stored; none of what is not stored.
pub(super) fn ratio_text(bytes: u64, stored: u64) -> Option<String> {
    (stored > 0).then(|| format!("{:.2}", bytes as f64 / stored as f64))
}

/// How many times smaller an array is stored; none if nobody has counted.
pub(super) fn ratio_of(array: &ArrayDescription) -> Option<String> {
    ratio_text(array.bytes, array.stored_bytes?)
}

fn listed<T>(items: &[T], text: impl Fn(&T) -> String) -> String {
    items.iter().map(text).collect::<Vec<_>>().join(", ")
}

fn layout_text(details: &ArrayDetails) -> String {
    let mut layout = match details.layout {
        Some(layout) => format!(", {}", layout.name()),
        None => String::new(),
    };
    if !details.chunks.is_empty() {
        layout += &format!(" ({})", listed(&details.chunks, u64::to_string));
    }
    if !details.maxshape.is_empty() {
        let most = |most: &Option<u64>| most.map_or("unlimited".into(), |most| most.to_string());
        layout += &format!(", at most ({})", listed(&details.maxshape, most));
    }
    layout
}

fn filter_text(filter: &FilterDetails) -> String {
    let name = match &*filter.name {
        "" => format!("filter {}", filter.id),
        name => shortened(name, LINE_MOST),
    };
    match &filter.values[..] {
        [] => name,
        values => format!("{name} ({})", listed(values, u32::to_string)),
    }
}

fn type_text(stored_type: &StoredType) -> String {
    match stored_type.name() {
        Some(name) => name.into_owned(),
        None => serde_json::to_string(stored_type).unwrap_or_default(),
    }
}

/// The beginning of a value: the rest of one of megabytes is not even spelled.
fn value_text(value: &Value) -> String {
    let mut beginning = Beginning {
        bytes: Vec::new(),
        most: 4 * LINE_MOST + 4,
    };
    // It fails when there is enough.
    let _enough = serde_json::to_writer(&mut beginning, value);
    shortened(&String::from_utf8_lossy(&beginning.bytes), LINE_MOST)
}

/// Takes so many bytes and no more.
struct Beginning {
    bytes: Vec<u8>,
    most: usize,
}

impl Write for Beginning {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.most - self.bytes.len();
        let taken = &bytes[..bytes.len().min(room)];
        self.bytes.extend_from_slice(taken);
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn long_values_are_cut() {
        assert_eq!(value_text(&json!("K")), "\"K\"");
        assert_eq!(value_text(&json!([1, 2.5])), "[1,2.5]");
        let long = value_text(&json!("ü".repeat(1 << 20)));
        assert_eq!(long.chars().count(), LINE_MOST + 3);
        assert!(long.ends_with("..."));
        let many = value_text(&Value::from(vec![1; 100_000]));
        assert!(many.starts_with("[1,1,") && many.ends_with("..."));
    }

    #[test]
    fn few_of_very_many_attributes_are_shown() {
        let attributes: Map<String, Value> =
            (0..150).map(|n| (format!("a{n:03}"), json!(n))).collect();
        let (mut text, file) = (Vec::new(), FileDetails::default());
        DescriptionWriter::many(&mut text, &file)
            .attributes(&attributes)
            .unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text.lines().count(), ATTRIBUTES_MOST + 1);
        assert!(text.ends_with("  ... and 50 more attributes\n"), "{text}");
    }
}
