//! `arrayfs ls`: containers and their arrays, without a mount.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;

use super::{CommandResult, Failure, container, output, size};
use crate::container::describe::{Description, describe};
use crate::container::{Container, Preferences};
use crate::memory::budget::Budget;

pub(super) fn run(path: &Path, preferences: Preferences, long: bool, json: bool) -> CommandResult {
    let mut errors = Vec::new();
    let mut opened: Vec<(PathBuf, Arc<Container>)> = Vec::new();
    let mut found = Vec::new();
    container::walk(path, preferences, &mut |e| errors.push(e), &mut |f| {
        found.push(f)
    })?;
    let budget = Budget::by_default();
    for container in found {
        match container.open(&budget) {
            Ok(container_opened) => opened.push((container.shown(), container_opened)),
            Err(e) => errors.push(e),
        }
    }
    let mut listed: Vec<Listed<'_>> = Vec::new();
    for (path, container) in &opened {
        match describe(container) {
            Ok(description) => listed.push((path, description)),
            Err(e) => errors.push(e),
        }
    }
    output::print(|out| match json {
        true => print_json(out, &listed),
        false => print(out, &listed, long),
    })?;
    for e in &errors {
        output::complain(e);
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(Failure::silent())
    }
}

type Listed<'a> = (&'a PathBuf, Description<'a>);

fn print_json(out: &mut impl Write, listed: &[Listed<'_>]) -> io::Result<()> {
    let all: Vec<_> = listed
        .iter()
        .map(|(path, description)| {
            json!({ "path": output::path_text(path), "container": description })
        })
        .collect();
    serde_json::to_writer_pretty(&mut *out, &all)?;
    writeln!(out)
}

fn print(out: &mut impl Write, listed: &[Listed<'_>], long: bool) -> io::Result<()> {
    for (path, description) in listed {
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
    }
    Ok(())
}
