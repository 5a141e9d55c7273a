//! `arrayfs ls`: containers and their arrays, without a mount.

use std::io::{self, Write};
use std::path::Path;

use serde::Serializer;
use serde::ser::SerializeSeq;
use serde_json::json;

use super::container::{self, Found, FoundContainer, orphans_line};
use super::{CommandResult, Failure, output, size};
use crate::container::Preferences;
use crate::container::describe::{Description, describe};
use crate::error::Error;
use crate::memory::budget::Budget;

pub(super) fn run(path: &Path, preferences: Preferences, long: bool, json: bool) -> CommandResult {
    let mut errors = Vec::new();
    let (mut found, mut orphans) = (Vec::new(), Vec::new());
    let failed = &mut |e: Error| errors.push(e.to_string());
    container::walk(path, preferences, failed, &mut |f| match f {
        Found::Container(container) => found.push(container),
        Found::Orphans(at) => orphans.push(at),
    })?;
    output::print(|out| match json {
        true => print_json(out, &found, &mut errors),
        false => each(&found, &mut errors, |path, container| {
            print(out, path, container, long)
        }),
    })?;
    for at in &orphans {
        output::complain(orphans_line(at));
    }
    for e in &errors {
        output::complain(e);
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(Failure::silent())
    }
}

/// Describes containers one after the other: as long as one is open, so are its files.
fn each(
    found: &[FoundContainer],
    errors: &mut Vec<String>,
    mut list: impl FnMut(&Path, &Description<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let budget = Budget::by_default();
    for container in found {
        let opened = match container.open(&budget) {
            Ok(opened) => opened,
            Err(e) => {
                errors.push(e.to_string());
                continue;
            }
        };
        match (container.meant(&opened), describe(&opened)) {
            (Ok(meant), Ok(mut description)) => {
                description.keep(&|name| meant.has(name));
                list(&container.shown(), &description)?;
            }
            (Err(failure), _) => errors.push(failure.message),
            (_, Err(e)) => errors.push(e.to_string()),
        }
    }
    Ok(())
}

fn print_json(
    out: &mut impl Write,
    found: &[FoundContainer],
    errors: &mut Vec<String>,
) -> io::Result<()> {
    let mut serializer = serde_json::Serializer::pretty(&mut *out);
    let mut list = serializer.serialize_seq(None)?;
    each(found, errors, |path, container| {
        let listed = json!({ "path": output::path_text(path), "container": container });
        Ok(list.serialize_element(&listed)?)
    })?;
    list.end()?;
    writeln!(out)
}

fn print(
    out: &mut impl Write,
    path: &Path,
    description: &Description<'_>,
    long: bool,
) -> io::Result<()> {
    let path = output::path_text(path);
    if long {
        writeln!(
            out,
            "{path}  {} {}",
            description.format, description.version
        )?;
    }
    let widest = description
        .arrays
        .iter()
        .map(|array| array.name.chars().count());
    let width = widest.max().unwrap_or(0).clamp(12, 40);
    for array in &description.arrays {
        if long {
            let shape: Vec<String> = array.shape.iter().map(u64::to_string).collect();
            writeln!(
                out,
                "  {:<width$} {:<10} {:<16} {:>10} stored {:>10}  {}",
                array.name,
                array.dtype,
                format!("({})", shape.join(", ")),
                size::show(array.bytes),
                size::show(array.stored_bytes),
                array.codec
            )?;
        } else {
            writeln!(out, "{path}/{}", array.name)?;
        }
    }
    // What is damaged is among the faults.
    for unreadable in description
        .unreadable
        .iter()
        .filter(|member| member.is_whole)
    {
        let (name, reason) = (&unreadable.name, &unreadable.reason);
        match long {
            true => writeln!(out, "  {name:<width$} not shown: {reason}")?,
            false => writeln!(out, "? {path}/{name}: not shown: {reason}")?,
        }
    }
    for fault in &description.faults {
        writeln!(out, "{}! {fault}", if long { "  " } else { "" })?;
    }
    Ok(())
}
