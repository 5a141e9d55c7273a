//! `arrayfs info`: what `arrays.json` says, for people.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::in_mount::InMount;
use super::{CommandResult, container, output, size};
use crate::array::Unfiltered;
use crate::container::describe::{ArrayDescription, Description, describe};
use crate::container::stored::{ArrayDetails, FilterDetails, StoredType};
use crate::container::{Container, Preferences};
use crate::memory::budget::Budget;
use crate::tree::xattr::DEAD_BYTES;

/// Longest type or fill value that is printed whole, in characters.
const LINE_MOST: usize = 160;

pub(super) fn run(path: &Path, preferences: Preferences, json: bool) -> CommandResult {
    let found = container::find(path, preferences)?;
    let opened = found.open(&Budget::by_default())?;
    let meant = found.meant(&opened)?;
    let mut description = describe(&opened)?;
    description.keep(&|name| meant.has(name));
    count_unfiltered(&mut description.arrays, &opened);
    if json && found.within.is_empty() {
        let text = description.into_text();
        return output::print(|out| out.write_all(&text));
    }
    let dead = dead_bytes(path, &found.within).filter(|dead| *dead > 0 && !json);
    output::print(|out| match json {
        true => {
            serde_json::to_writer_pretty(&mut *out, &description.arrays)?;
            writeln!(out)
        }
        false => {
            print(out, &found.shown(), &description)?;
            match dead {
                Some(dead) => writeln!(out, "dead: {} at least", size::show(dead)),
                None => Ok(()),
            }
        }
    })
}

/// Bytes of the file in which nothing lies, as far as a daemon knows that writes to it.
fn dead_bytes(path: &Path, within: &str) -> Option<u64> {
    let place = InMount::written_at(path).ok()??;
    let mut names = within.split('/').filter(|name| !name.is_empty());
    let container = names.try_fold(path, |path, _| path.parent())?;
    let container = place.in_mount(container)?;
    let mut value = [0; 32];
    let n = rustix::fs::getxattr(container, DEAD_BYTES, &mut value[..]).ok()?;
    std::str::from_utf8(value.get(..n)?).ok()?.parse().ok()
}

/// Has the places of all chunks looked up, as `arrays.json` in a mount does not. What cannot be
/// read is for `verify` to tell.
fn count_unfiltered(told: &mut [ArrayDescription], opened: &Arc<Container>) {
    let arrays = opened.all_arrays().into_iter();
    let arrays: HashMap<String, _> = arrays.map(|located| (located.path(), located)).collect();
    for told in told {
        let located = arrays.get(&told.name);
        let counted = located.and_then(|located| located.array.unfiltered(true).ok());
        told.unfiltered = counted.unwrap_or_default();
    }
}

fn print(out: &mut impl Write, path: &Path, container: &Description<'_>) -> io::Result<()> {
    writeln!(
        out,
        "{}: {} {}",
        output::path_text(path),
        container.format,
        container.version
    )?;
    for (name, value) in container.attributes {
        writeln!(out, "  {name}: {value}")?;
    }
    for array in &container.arrays {
        print_array(out, array)?;
    }
    for (name, dimension) in &container.file.dimensions {
        let unlimited = if dimension.unlimited {
            ", unlimited"
        } else {
            ""
        };
        writeln!(
            out,
            "{name}\n  dimension of {}{unlimited}",
            dimension.length
        )?;
    }
    for (name, committed) in &container.types {
        let shape: Vec<String> = committed.shape.iter().map(u64::to_string).collect();
        let of = match (&committed.dtype, &shape[..]) {
            (Some(dtype), []) => dtype.clone(),
            (Some(dtype), shape) => format!("{dtype} ({})", shape.join(", ")),
            (None, _) => committed.unreadable.clone().unwrap_or_default(),
        };
        writeln!(out, "{name}\n  type without data: {of}")?;
    }
    for (name, target) in &container.links {
        writeln!(out, "{name}\n  link to {target}")?;
    }
    // Those to groups are among the links.
    let own = |name: &&String| !container.links.contains_key(*name);
    for name in container.file.hard_links.keys().filter(own) {
        let first = &container.file.hard_links[name];
        writeln!(out, "{name}\n  the same as {first}")?;
    }
    // What is damaged is among the faults.
    for unreadable in container.unreadable.iter().filter(|member| member.is_whole) {
        writeln!(
            out,
            "{}\n  not shown: {}",
            unreadable.name, unreadable.reason
        )?;
    }
    for fault in &container.faults {
        writeln!(out, "fault: {fault}")?;
    }
    Ok(())
}

fn print_array(out: &mut impl Write, array: &ArrayDescription) -> io::Result<()> {
    let shape: Vec<String> = array.shape.iter().map(u64::to_string).collect();
    writeln!(out, "{}", array.name)?;
    writeln!(
        out,
        "  type    {} ({}), order {}",
        array.dtype,
        shape.join(", "),
        array.order
    )?;
    let ratio = match array.stored_bytes {
        0 => String::new(),
        stored => format!(", ratio {:.2}", array.bytes as f64 / stored as f64),
    };
    let (bytes, stored) = (size::show(array.bytes), size::show(array.stored_bytes));
    writeln!(out, "  size    {bytes}, stored {stored}{ratio}")?;
    writeln!(out, "  codec   {}, {} blocks", array.codec, array.blocks)?;
    print_details(out, &array.details)?;
    print_unfiltered(out, &array.unfiltered)
}

fn print_unfiltered(out: &mut impl Write, unfiltered: &Unfiltered) -> io::Result<()> {
    if unfiltered.is_none() {
        return Ok(());
    }
    let so_many = match unfiltered.chunks.unwrap_or(0) {
        1 => "1 chunk is".to_owned(),
        chunks => format!("{chunks} chunks are"),
    };
    let changed = match &unfiltered.changed {
        Some(why) => format!(", and so is one that changes: {why}"),
        None => String::new(),
    };
    writeln!(out, "  plain   {so_many} stored unfiltered{changed}")
}

/// How an array is stored, as far as its format tells.
fn print_details(out: &mut impl Write, details: &ArrayDetails) -> io::Result<()> {
    if let Some(stored_type) = &details.stored_type {
        let mut layout = match details.layout {
            Some(layout) => format!(", {}", layout.name()),
            None => String::new(),
        };
        if !details.chunks.is_empty() {
            layout += &format!(" ({})", listed(&details.chunks, u64::to_string));
        }
        if !details.maxshape.is_empty() {
            let most =
                |most: &Option<u64>| most.map_or("unlimited".into(), |most| most.to_string());
            layout += &format!(", at most ({})", listed(&details.maxshape, most));
        }
        writeln!(
            out,
            "  stored  {}{layout}",
            shortened(&type_text(stored_type))
        )?;
    }
    if !details.filters.is_empty() {
        writeln!(out, "  filters {}", listed(&details.filters, filter_text))?;
    }
    if let Some(fill) = &details.fill {
        let fill = match &**fill {
            Value::Null => "undefined".into(),
            fill => shortened(&fill.to_string()),
        };
        writeln!(out, "  fill    {fill}")?;
    }
    if !details.dims.is_empty() {
        let name = |name: &Option<String>| name.clone().unwrap_or("-".into());
        writeln!(out, "  dims    {}", listed(&details.dims, name))?;
    }
    Ok(())
}

fn listed<T>(items: &[T], text: impl Fn(&T) -> String) -> String {
    items.iter().map(text).collect::<Vec<_>>().join(", ")
}

fn filter_text(filter: &FilterDetails) -> String {
    let name = match &*filter.name {
        "" => format!("filter {}", filter.id),
        name => name.to_owned(),
    };
    match &filter.values[..] {
        [] => name,
        values => format!("{name} ({})", listed(values, u32::to_string)),
    }
}

fn type_text(stored_type: &StoredType) -> String {
    match stored_type {
        StoredType::Named(name) => name.clone().into_owned(),
        StoredType::Spelled(spelled) => serde_json::to_string(spelled).unwrap_or_default(),
    }
}

/// A line that nobody reads to its end is cut.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(LINE_MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
