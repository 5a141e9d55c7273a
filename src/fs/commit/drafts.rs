//! Drafts of new containers: files in a hidden directory beside a container that is empty in the
//! source.
//!
//! The directory alone makes the container new, whether or not there is something in it. Its files
//! become the container's content when they are packed ([`super::new_container`]), and it goes.
//! Drafts that a daemon has left are believed only if the directory is closed to others and belongs
//! to the container's owner, and means something only as long as the container is as empty as it
//! was made. Used by `tree` and `live`, and by the commands on stages.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::container::creation::empty_container;
use crate::container::{FORMATS, Format, Recognised};
use crate::error::Result;
use crate::memory::budget::Budget;
use crate::source::{FileId, FileKind, Listed, Stat, Store};
use crate::stage::{drafts_name, new_name};

/// A directory of drafts beside a container.
#[derive(Debug, Clone)]
pub struct LeftoverDrafts {
    pub path: PathBuf,
    pub id: FileId,
    pub recovery_state: DraftsState,
    /// Nothing has been put into the container.
    pub is_empty: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DraftsState {
    /// They are to be packed.
    New,
    /// They have been packed; the empty container, which came out, is there as well.
    Packed,
    /// Another process's, or the container is another one by now.
    Foreign,
}

/// Where the drafts of a container lie.
pub fn drafts_path(container: &Path) -> PathBuf {
    let name = container.file_name().unwrap_or(OsStr::new(""));
    container.with_file_name(drafts_name(name))
}

/// Whether a container is an empty one as it was made.
pub fn is_pristine(
    recognised: &Recognised,
    store: &dyn Store,
    path: &Path,
    budget: &Arc<Budget>,
) -> Result<bool> {
    is_as_made(recognised.format, store, path, budget)
}

/// Whether what lies at a path is an empty container of this format.
fn is_as_made(
    format: &dyn Format,
    store: &dyn Store,
    path: &Path,
    budget: &Arc<Budget>,
) -> Result<bool> {
    let Some(creation) = format.creation() else {
        return Ok(false);
    };
    let layout = format.layout();
    let empty = empty_container(creation, budget)?;
    for (number, bytes) in &empty {
        let file = match layout.member(*number) {
            Some(name) => path.join(name),
            None => path.to_owned(),
        };
        let mut found = vec![0; bytes.len() + 1];
        let n = match store.head(&file, &mut found) {
            Err(e) if e.is_not_found() => return Ok(false),
            n => n?,
        };
        if found[..n] != *bytes {
            return Ok(false);
        }
    }
    if layout.is_file() {
        return Ok(true);
    }
    let mut others = false;
    let names: Vec<&str> = empty
        .keys()
        .filter_map(|number| layout.member(*number))
        .collect();
    store.list(path, &mut |Listed { name, .. }| {
        others |= !names.iter().any(|own| OsStr::new(own) == name);
    })?;
    Ok(!others)
}

/// The drafts that have been left beside a container.
pub fn left_drafts(
    recognised: &Recognised,
    store: &dyn Store,
    container: &Path,
    budget: &Arc<Budget>,
) -> Result<Option<LeftoverDrafts>> {
    let (Some(name), Some(_)) = (container.file_name(), recognised.format.creation()) else {
        return Ok(None);
    };
    let path = drafts_path(container);
    let left = match store.stat(&path) {
        Err(e) if e.is_not_found() => return Ok(None),
        other => other?,
    };
    let old = container.with_file_name(new_name(name));
    let is_empty = |path: &Path| is_pristine(recognised, store, path, budget).unwrap_or(false);
    let recovery_state = if !is_of(&left, store.stat(container)?.uid) {
        DraftsState::Foreign
    } else if is_empty(container) {
        DraftsState::New
    } else if was_empty(store, &old, budget) {
        DraftsState::Packed
    } else {
        DraftsState::Foreign
    };
    let mut is_empty = true;
    if left.kind == FileKind::Directory {
        // One that cannot be read counts as not empty, so that it is reported.
        is_empty = match store.list(&path, &mut |_| is_empty = false) {
            Ok(()) => is_empty,
            Err(_) => false,
        };
    }
    Ok(Some(LeftoverDrafts {
        is_empty,
        path,
        id: left.id,
        recovery_state,
    }))
}

/// Whether what a packed container has replaced was empty: what an empty one is recognised as need
/// not be what is made of it.
fn was_empty(store: &dyn Store, path: &Path, budget: &Arc<Budget>) -> bool {
    let mut formats = FORMATS.iter();
    formats.any(|format| is_as_made(*format, store, path, budget).unwrap_or(false))
}

/// Whether a hidden directory beside a container is believed to be this owner's: his, and closed to
/// others.
pub fn is_of(hidden: &Stat, owner: u32) -> bool {
    hidden.kind == FileKind::Directory && hidden.uid == owner && u32::from(hidden.mode) & 0o077 == 0
}
