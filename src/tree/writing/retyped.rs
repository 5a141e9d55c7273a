//! The type of an array, set by its attributes `user.arrayfs.dtype` and `.shape`.
//!
//! Of a file in a new container they are attributes of that file, and say what its bytes are when
//! it is packed. Of an array of a container they are a commit that changes what the container says,
//! and no byte of the array. Used by [`super::attributes`] and [`super::pack`].

use super::super::node::Node;
use super::super::{InodeId, Tree};
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
        let node = self.inodes.get(inode)?;
        match &*node {
            Node::Entry(version, entry) => self.live.retype(version, *entry, to),
            Node::File(_) => {
                // Checks that the format has the type; whether the data fit shows when all of them
                // are there.
                let creation = self.creation_of_draft(inode)?;
                let dtype = to.dtype.clone();
                creation.typed(None, &GivenType { dtype, shape: None }, 0)?;
                self.change_draft(inode, &node, change)
            }
            _ => Err(not_an_array()),
        }
    }

    /// Takes back what was said of a file in a new container.
    pub(super) fn forget_type(
        &self,
        inode: InodeId,
        change: impl FnOnce(&dyn Disk, Target<'_>) -> Result<()>,
    ) -> Result<()> {
        let node = self.inodes.get(inode)?;
        self.creation_of_draft(inode)?;
        self.change_draft(inode, &node, change)
    }

    fn change_draft(
        &self,
        inode: InodeId,
        node: &Node,
        change: impl FnOnce(&dyn Disk, Target<'_>) -> Result<()>,
    ) -> Result<()> {
        let disk = self.live.writable()?;
        let _stays = self.share_new(inode).ok_or_else(not_an_array)?;
        let changed = self.with_target(inode, node, |target, _| change(disk, target));
        self.note_use(inode);
        changed
    }

    /// How the new container is made in which a file is an array.
    fn creation_of_draft(&self, inode: InodeId) -> Result<&'static dyn Creation> {
        let unnamed = || self.without_names(inode, not_an_array());
        let parent = self.inodes.parent(inode).ok_or_else(unnamed)?;
        let above = self.inodes.get(parent)?;
        let container = above.container().filter(|of| of.new.is_new());
        let format = container.map(|container| container.known().recognised.format);
        let path = self.inodes.path(inode)?;
        let creation = format.and_then(|format| format.creation());
        creation
            .filter(|creation| {
                path.file_name()
                    .is_some_and(|name| creation.has_array(name))
            })
            .ok_or_else(not_an_array)
    }
}

fn not_an_array() -> Error {
    Error::Computed(format!(
        "{PREFIX}{DTYPE} and .{SHAPE} can be set of arrays, and of the files of a new container that will be arrays"
    ))
}
