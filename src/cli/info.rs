//! `arrayfs info`: what `arrays.json` says, for people.

use std::io::{self, Write};
use std::path::Path;

use super::{CommandResult, container, output, size};
use crate::container::Preferences;
use crate::container::describe::{ArrayDescription, Description, arrays_json, describe};
use crate::memory::budget::Budget;

pub(super) fn run(path: &Path, preferences: Preferences, json: bool) -> CommandResult {
    let found = container::find(path, preferences)?;
    let opened = found.open(&Budget::by_default())?;
    let meant = found.meant(&opened)?;
    if json && found.within.is_empty() {
        let text = arrays_json(&opened)?;
        return output::print(|out| out.write_all(&text));
    }
    let mut description = describe(&opened)?;
    description.keep(&|name| meant.has(name));
    output::print(|out| match json {
        true => {
            serde_json::to_writer_pretty(&mut *out, &description.arrays)?;
            writeln!(out)
        }
        false => print(out, &found.shown(), &description),
    })
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
    writeln!(out, "  codec   {}, {} blocks", array.codec, array.blocks)
}
