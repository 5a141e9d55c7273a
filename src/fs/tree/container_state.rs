//! What the state of a container says when nothing of it is staged: why it, or an array of it,
//! cannot be written, which files are listed among its arrays and are none, and which arrays are
//! removed for the time being.
//!
//! Used by [`super::xattr`].

use std::path::{Path, PathBuf};

use super::half_removed::HalfRemoved;
use super::inode::InodeId;
use super::mounted_fs::MountedFs;
use super::node::Node;
use crate::commit::added::added_of;
use crate::error::Result;
use crate::live::LiveContainer;
use crate::live::shown::open_container::OpenContainer;
use crate::source::{FileKind, Listed, Store};

/// Most names that it tells of a kind.
const NAMES: usize = 20;

/// None if there is nothing to say.
pub(super) fn quiet_state(
    (fs, half_removed): (&MountedFs, &HalfRemoved),
    inode: InodeId,
    (container, opened): (&LiveContainer, &OpenContainer),
) -> Option<String> {
    if let (Ok(outermost), true) = (opened.outermost(), fs.disk.is_some())
        && let Some(why) = outermost.why_only_read()
    {
        return Some(format!("clean: read-only: {why}"));
    }
    let removed = half_removed.arrays_of(inode);
    let beside = beside_arrays(fs, inode, container).unwrap_or_default();
    let parts = [
        (removed, "removed by themselves, back when the mount ends"),
        (beside, "files beside the arrays, which are none"),
    ];
    let told = parts.iter().filter(|(names, _)| !names.is_empty());
    let told: Vec<String> = told
        .map(|(names, what)| format!("{what}: {}", listed(names)))
        .collect();
    (!told.is_empty()).then(|| format!("clean: {}", told.join("; ")))
}

/// What is to be said of an array that cannot be written where others of its container can be.
pub(super) fn array_state(fs: &MountedFs, inode: InodeId) -> Result<Option<String>> {
    let node = fs.inodes.get(inode)?;
    let Node::Entry(version, entry) = &*node else {
        return Ok(None);
    };
    let opened = fs.live.opener.open(version)?;
    if fs.disk.is_none() {
        return Ok(None);
    }
    if let Some(why) = opened.why_unreadable(*entry) {
        return Ok(Some(format!("read-only: it is not shown: {why}")));
    }
    let Some(number) = opened.shown_array(*entry) else {
        return Ok(None);
    };
    let path = opened.array(number)?.path();
    let why = opened.outermost()?.arrays_only_read().remove(&path);
    Ok(why.map(|why| format!("read-only: {why}")))
}

/// Files that lie beside the arrays of a container that is one file, by their paths in it,
/// unless they may become arrays.
fn beside_arrays(fs: &MountedFs, inode: InodeId, container: &LiveContainer) -> Result<Vec<String>> {
    let takes_later = || fs.live.lasting.facts_of(container).takes_later;
    if container.stored != FileKind::File || container.new.is_new() || takes_later() {
        return Ok(Vec::new());
    }
    files_beside(&*fs.store, &fs.container_path(inode)?)
}

/// The added files of a container, by their paths in its directory.
pub fn files_beside(store: &dyn Store, container: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let Some((added, _)) = added_of(store, container)? else {
        return Ok(found);
    };
    let mut groups = vec![PathBuf::new()];
    while let Some(group) = groups.pop() {
        store.list(&added.join(&group), &mut |Listed { name, kind, .. }| {
            let path = group.join(name);
            match kind {
                FileKind::Directory => groups.push(path),
                _ => found.push(path.display().to_string()),
            }
        })?;
    }
    found.sort();
    Ok(found)
}

fn listed(names: &[String]) -> String {
    let told = names.iter().take(NAMES).map(String::as_str);
    let told = told.collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMES) {
        0 => told,
        more => format!("{told} and {more} more"),
    }
}
