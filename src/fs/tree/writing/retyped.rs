//! The type of an array, set by its attributes `user.arrayfs.dtype` and `.shape`.
//!
//! Of a file in a new container, or of one that comes later, they are attributes of that file, and
//! say what its bytes are when it becomes an array. So they are of another file in a container's
//! directory, for one may be renamed over an array. Of an array of a container they are a commit
//! that changes what the container says, and no byte of the array. Used by [`super::attributes`].

use std::path::Path;

use super::super::inode::InodeId;
use super::super::mounted_fs::MountedFs;
use super::super::node::Node;
use super::targets::change_said;
use crate::container::creation::{Creation, GivenType};
use crate::disk::{Disk, Target};
use crate::error::{Error, Result};
use crate::live::creation::given::{DTYPE, PREFIX, SHAPE};

/// Sets the type of an array, or of what will be one.
pub(super) fn set_type(
    fs: &MountedFs,
    inode: InodeId,
    to: &GivenType,
    change: impl FnOnce(&dyn Disk, Target<'_>) -> Result<()>,
) -> Result<()> {
    let node = fs.inodes.get(inode)?;
    match &*node {
        Node::Entry(version, entry) => fs.live.retyping.retype(version, *entry, to),
        Node::File(_) => match creation_of_draft(fs, inode)? {
            // Checks that the format has the type; whether the data fit shows when all of them
            // are there.
            Some((creation, path)) if !creation.fixes_types() => {
                let dtype = to.dtype.clone();
                creation.typed(None, &path, &GivenType { dtype, shape: None }, 0)?;
                change_said(fs, inode, &node, change)
            }
            Some(_) => Ok(()),
            // It says what an array is to be that the file replaces.
            None if lies_in_container(fs, inode) => change_said(fs, inode, &node, change),
            // Copies of arrays have it, and nothing that is shown as it is.
            None => Ok(()),
        },
        _ => Err(not_an_array()),
    }
}

fn lies_in_container(fs: &MountedFs, inode: InodeId) -> bool {
    let above = fs.inodes.parent(inode);
    above.is_some_and(|above| fs.enclosing.is_below_container(above))
}

/// How the container is made in which a file is going to be an array, and its path in that;
/// none if it will be none.
fn creation_of_draft(
    fs: &MountedFs,
    inode: InodeId,
) -> Result<Option<(&'static dyn Creation, String)>> {
    let unnamed = || fs.without_names(inode, not_an_array());
    let parent = fs.inodes.parent(inode).ok_or_else(unnamed)?;
    let path = fs.inodes.path(inode)?;
    let (node, directory) = match fs.enclosing.new_above(parent) {
        Some((new, node)) => (node, fs.live.drafts.at(new.into())?),
        // Or the container has been packed, and takes what comes later.
        None => {
            let node = fs.inodes.get(parent)?;
            let Some(container) = node.container() else {
                return Ok(None);
            };
            let takes = fs.live.drafts.watch_added(parent.into(), container);
            let directory = takes.then(|| path.parent().map(Path::to_owned)).flatten();
            (node, directory)
        }
    };
    let Some(directory) = directory else {
        return Ok(None);
    };
    let inside = path.strip_prefix(directory).ok().and_then(Path::to_str);
    let format = node.container().map(|of| of.known().recognised.format);
    let creation = format.and_then(|format| format.creation());
    let found = creation.zip(inside.map(str::to_owned));
    Ok(found.filter(|(creation, path)| creation.has_array(path)))
}

fn not_an_array() -> Error {
    Error::Computed(format!(
        "{PREFIX}{DTYPE} and .{SHAPE} can be set of arrays, and of the files of a new container that will be arrays"
    ))
}
