//! The type of an array, set by its attributes `user.arrayfs.dtype` and `.shape`.
//!
//! Of a file in a new container, or of one that comes later, they are attributes of that file, and
//! say what its bytes are when it becomes an array. So they are of another file in a container's
//! directory, for one may be renamed over an array. Of an array of a container they are a commit
//! that changes what the container says, and no byte of the array. Used by [`super::attributes`].

use std::path::Path;

use super::super::Tree;
use super::super::inode::InodeId;
use super::super::node::Node;
use crate::container::creation::{Creation, GivenType};
use crate::disk::{Disk, Target};
use crate::error::{Error, Result};
use crate::live::creation::given::{DTYPE, PREFIX, SHAPE};

impl Tree {
    /// Sets the type of an array, or of what will be one.
    pub(super) fn set_type(
        &self,
        inode: InodeId,
        to: &GivenType,
        change: impl FnOnce(&dyn Disk, Target<'_>) -> Result<()>,
    ) -> Result<()> {
        let node = self.fs.inodes.get(inode)?;
        match &*node {
            Node::Entry(version, entry) => self.fs.live.retype(version, *entry, to),
            Node::File(_) => match self.creation_of_draft(inode)? {
                // Checks that the format has the type; whether the data fit shows when all of them
                // are there.
                Some((creation, path)) if !creation.fixes_types() => {
                    let dtype = to.dtype.clone();
                    creation.typed(None, &path, &GivenType { dtype, shape: None }, 0)?;
                    self.change_said(inode, &node, change)
                }
                Some(_) => Ok(()),
                // It says what an array is to be that the file replaces.
                None if self.lies_in_container(inode) => self.change_said(inode, &node, change),
                // Copies of arrays have it, and nothing that is shown as it is.
                None => Ok(()),
            },
            _ => Err(not_an_array()),
        }
    }

    /// Changes what is said of a file that is no array yet, or will never be one.
    pub(super) fn change_said(
        &self,
        inode: InodeId,
        node: &Node,
        change: impl FnOnce(&dyn Disk, Target<'_>) -> Result<()>,
    ) -> Result<()> {
        let disk = self.fs.live.writable()?;
        let _stays = self.fs.enclosing.share_new(inode);
        let changed = self.with_target(inode, node, |target, _| change(disk, target));
        self.fs.enclosing.note_use(inode);
        changed
    }

    fn lies_in_container(&self, inode: InodeId) -> bool {
        let above = self.fs.inodes.parent(inode);
        above.is_some_and(|above| self.fs.enclosing.is_below_container(above))
    }

    /// How the container is made in which a file is going to be an array, and its path in that;
    /// none if it will be none.
    fn creation_of_draft(&self, inode: InodeId) -> Result<Option<(&'static dyn Creation, String)>> {
        let unnamed = || self.fs.without_names(inode, not_an_array());
        let parent = self.fs.inodes.parent(inode).ok_or_else(unnamed)?;
        let path = self.fs.inodes.path(inode)?;
        let (node, directory) = match self.fs.enclosing.new_above(parent) {
            Some((new, node)) => (node, self.fs.live.drafts_at(new.into())?),
            // Or the container has been packed, and takes what comes later.
            None => {
                let node = self.fs.inodes.get(parent)?;
                let Some(container) = node.container() else {
                    return Ok(None);
                };
                let takes = self.fs.live.watch_added(parent.into(), container);
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
}

fn not_an_array() -> Error {
    Error::Computed(format!(
        "{PREFIX}{DTYPE} and .{SHAPE} can be set of arrays, and of the files of a new container that will be arrays"
    ))
}
