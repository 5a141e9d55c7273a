//! `arrayfs unpack`: the bytes of a Bloscpack file, with what is staged of it, become a file. Every
//! digest is checked; after a fault there is no file. In a directory all stored files are unpacked
//! in place.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::container::{self, FoundContainer};
use super::failure::{CommandResult, Failure};
use super::new_output::OutputPlace;
use super::pack::EXTENSION;
use super::{convert, plain_input};
use crate::container::in_sequence::each_part;
use crate::container::inside::Located;
use crate::container::{Container, Preferences};
use crate::error::Error;
use crate::memory::budget::Budget;
use crate::scratch::{ConvertDirection, EncodeOptions};

/// The name of the format.
const FORMAT: &str = "bloscpack";

pub(super) fn run(
    path: &Path,
    out: Option<PathBuf>,
    force: bool,
    preferences: Preferences,
) -> CommandResult {
    if is_directory(path, preferences) {
        if force || out.is_some() {
            return Err(Failure::usage(format!(
                "--force and OUT are for a single file, {} is a directory",
                path.display()
            )));
        }
        let options = EncodeOptions::default();
        return convert::run(path, ConvertDirection::Unpack, &options);
    }
    let budget = Budget::by_default();
    let found = find(path, preferences, "unpacked")?;
    let (opened, located) = open(&found, &budget)?;
    let out = match out {
        Some(out) => out,
        None => unpacked_name(path, &found)?,
    };
    let like = found.store.open(&found.path)?;
    let mut output = OutputPlace::find(out, force, &[path, &found.shown()])?.begin()?;
    each_part(&*located.array, &budget, &mut |at, bytes| {
        output.put_all(at, bytes)
    })
    .map_err(|e| located.locate(e).of_container(&found.shown()))?;
    drop(opened);
    Ok(output.finish(&*like)?)
}

/// Whether it is one, and not a container that a mount shows as one.
fn is_directory(path: &Path, preferences: Preferences) -> bool {
    let is_shown = || container::find(path, preferences).is_ok_and(|found| is_bloscpack(&found));
    path.is_dir() && !is_shown()
}

fn is_bloscpack(found: &FoundContainer) -> bool {
    found.recognised.format.name() == FORMAT
}

/// The Bloscpack file at a path.
pub(super) fn find(
    path: &Path,
    preferences: Preferences,
    done: &str,
) -> Result<FoundContainer, Failure> {
    let found = container::find(path, preferences);
    match found {
        Ok(found) if is_bloscpack(&found) => Ok(found),
        _ if path.is_dir() => Err(plain_input::is_directory(path, done)),
        Ok(_) => Err(Failure::new(format!(
            "{} is no Bloscpack file",
            path.display()
        ))),
        Err(failure) => Err(failure),
    }
}

/// The container and its array, if nothing is wrong with them.
pub(super) fn open(
    found: &FoundContainer,
    budget: &Arc<Budget>,
) -> Result<(Arc<Container>, Located), Failure> {
    let opened = found.open(budget)?;
    if let Some(fault) = opened.all_faults().into_iter().next() {
        return Err(Error::from(fault).of_container(&found.shown()).into());
    }
    let meant = found.meant(&opened)?;
    let mut arrays = opened.all_arrays().into_iter();
    let array = arrays.find(|located| meant.has(&located.path()));
    let array = array.ok_or_else(|| {
        let shown = found.shown();
        Failure::new(format!("{} has no array that can be read", shown.display()))
    })?;
    Ok((opened, array))
}

/// Without the extension.
fn unpacked_name(path: &Path, found: &FoundContainer) -> Result<PathBuf, Failure> {
    let container = match (found.within.is_empty(), path.parent()) {
        (false, Some(container)) => container,
        _ => path,
    };
    let stem = container.file_stem().filter(|_| {
        let extension = container.extension();
        extension.is_some_and(|extension| extension == EXTENSION)
    });
    match stem {
        Some(stem) => Ok(container.with_file_name(stem)),
        None => Err(Failure::usage(format!(
            "{} is not named .{EXTENSION}: say where its bytes go, 'arrayfs unpack FILE OUT'",
            path.display()
        ))),
    }
}
