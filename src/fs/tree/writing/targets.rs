//! What an inode stands for, as the disk is told of it: by one of its names, or by an open handle.
//!
//! Used by `attributes`, `retyped` and `making`.

use super::super::inode::InodeId;
use super::super::mounted_fs::MountedFs;
use super::super::node::Node;
use crate::disk::{Disk, Target};
use crate::error::Result;
use crate::source::SourceIdentity;

/// Runs `with` on what an inode stands for: a file by a handle that is open, which no name has to
/// be looked up for, and which is left of it when it has none; everything else by one of its names.
/// `now` says what it is like.
pub(super) fn with_target<T>(
    fs: &MountedFs,
    inode: InodeId,
    node: &Node,
    with: impl FnOnce(Target<'_>, &dyn Fn() -> Result<SourceIdentity>) -> Result<T>,
) -> Result<T> {
    fs.refuse_absorbed(inode, node)?;
    let open = fs.open_files.of_inode(inode);
    if let Some(source) = open.iter().find_map(|file| file.source()) {
        let now = || source.stat().map(|stat| stat.identity());
        return with(Target::Open(source), &now);
    }
    let (path, stat) = fs.places.locate(inode, node)?;
    let (path, id) = (&*path, stat.id);
    let now = || fs.store.stat(path).map(|stat| stat.identity());
    with(Target::Named { path, id }, &now)
}

/// Changes what is said of a file that is no array yet, or will never be one.
pub(super) fn change_said(
    fs: &MountedFs,
    inode: InodeId,
    node: &Node,
    change: impl FnOnce(&dyn Disk, Target<'_>) -> Result<()>,
) -> Result<()> {
    let disk = fs.live.ground.writable()?;
    let _stays = fs.enclosing.share_new(inode);
    let changed = with_target(fs, inode, node, |target, _| change(disk, target));
    fs.enclosing.note_use(inode);
    changed
}
