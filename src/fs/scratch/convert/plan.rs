//! What is found out before anything is changed: how much there is to do, what an interrupted
//! conversion has left, and what has to be written down first.
//!
//! Used by [`super::Conversion`].

use std::path::{Path, PathBuf};

use super::super::names;
use super::super::store_mark::LeftStore;
use super::log::{ConvertLog, NewConvertLog};
use super::walk::{self, Becomes, WalkedDirectory};
use super::{ConvertDirection, ConvertWatch};
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::source::{FileKind, Stat, Store};

/// What a walk through the whole tree has found; none if it was stopped.
pub(super) struct ConvertPlan {
    pub(super) log: ConvertLog,
    pub(super) root: Stat,
    /// New files that have not got their names, or not all of them: of an earlier run.
    pub(super) temporaries: Vec<PathBuf>,
    /// Files that only have such names.
    pub(super) named_alike: Vec<PathBuf>,
    /// It goes on where an earlier run was interrupted.
    pub(super) is_resumed: bool,
    /// To be converted.
    pub(super) files: u64,
}

pub(super) fn plan(
    store: &dyn Store,
    disk: &dyn Disk,
    direction: ConvertDirection,
    watch: &dyn ConvertWatch,
) -> Result<Option<ConvertPlan>> {
    let root = store.stat(Path::new(""))?;
    let stored_names = match LeftStore::read(store) {
        // Who may not read the mark finds that there is one.
        Err(e) if e.is_permission_denied() => true,
        left => left?.is_some(),
    };
    let becomes_store = direction == ConvertDirection::Pack && !stored_names;
    let is_new = !ConvertLog::read(store)?.is_some_and(|left| left.is_finished);
    let mut log = NewConvertLog::begin(store, disk, &root)?;
    let (mut files, mut bytes) = (0u64, 0u64);
    let (mut temporaries, mut named_alike) = (Vec::new(), Vec::new());
    let mut directories = vec![PathBuf::new()];
    while let Some(path) = directories.pop() {
        // What cannot be looked at is told when it is to be converted.
        let directory = match walk::walked(store, &path, &mut |_, _| {}) {
            Ok(directory) => directory,
            Err(Error::Io { .. }) if !path.as_os_str().is_empty() => continue,
            Err(e) => return Err(e),
        };
        log.directory(&directory.stat)?;
        let below = walk::below(&directory, &mut |_| {});
        directories.extend(below.into_iter().map(|(_, path)| path));
        for (name, stat) in &directory.entries {
            if names::is_renaming(name) && becomes_store && is_new {
                log.give_up(disk, &root)?;
                return Err(kept_by_stores(&store.display(&path.join(name))));
            }
            let is_temporary = walk::temporary_of(name).is_some() && stat.kind == FileKind::File;
            if is_temporary && is_new {
                // A run that goes on does not take it for ours.
                log.name(directory.stat.id, stat.id, name, name)?;
            }
            match directory.is_of_tree(name, log.log()) {
                true => named_alike.push(path.join(name)),
                false if is_temporary => temporaries.push(path.join(name)),
                false => {}
            }
            if let Becomes::Converted(_) = directory.becomes(name, direction, log.log()) {
                files += 1;
                bytes = bytes.saturating_add(stat.size);
            }
        }
        if is_new {
            note_names(&mut log, &directory, direction, stored_names)?;
        }
        if watch.is_stopped() {
            // Nothing has been changed by this run.
            match is_new {
                true => log.give_up(disk, &root)?,
                false => log.log().restore_times(disk, Path::new(""), root.id),
            }
            return Ok(None);
        }
    }
    watch.begins(files, bytes);
    let log = log.ready(disk, root.id)?;
    Ok(Some(ConvertPlan {
        log,
        root,
        temporaries,
        named_alike,
        is_resumed: !is_new,
        files,
    }))
}

/// No mount would show it, and the next recovery remove it.
fn kept_by_stores(path: &Path) -> Error {
    let path = path.display();
    Error::Invalid(format!(
        "{path} has a name that a store has for itself; give it another name first"
    ))
}

fn note_names(
    log: &mut NewConvertLog,
    directory: &WalkedDirectory,
    direction: ConvertDirection,
    stored_names: bool,
) -> Result<()> {
    for (name, stat) in &directory.entries {
        if directory.is_ours(name) {
            continue;
        }
        if let Some((plain, stored)) = directory.two_names(name, direction, stored_names) {
            let of = directory.stat.id;
            log.name(of, stat.id, &plain, &stored)?;
        }
    }
    Ok(())
}
