//! The type of an array, set by its attributes `user.arrayfs.dtype` and `.shape`.
//!
//! Of a file in a new container they are attributes of that file, and say what its bytes are when it is packed. Of an array of a
//! container they are a commit that changes what the container says, and no byte of the array. Used by [`super::attributes`] and
//! [`super::packing`].

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use super::super::entry_table::EntryIndex;
use super::super::node::Node;
use super::super::staged::StagedContainer;
use super::super::version::ContainerVersion;
use super::super::xattr::PREFIX;
use super::super::{InodeId, Tree};
use super::changes::Changes;
use super::commit::Effort;
use super::refused_saying;
use crate::commit::CommitOutcome;
use crate::container::creation::{Creation, GivenType};
use crate::container::rewrite::{ChangedArray, Rewrite};
use crate::disk::{Disk, Target};
use crate::error::{Error, Result};
use crate::source::{FileId, Timestamp};

const DTYPE: &str = "dtype";
const SHAPE: &str = "shape";

/// What an attribute of this name says of an array; none if it does not say its type.
pub(super) fn given_type(name: &OsStr, value: &[u8]) -> Option<Result<GivenType>> {
    let name = name.to_str()?.strip_prefix(PREFIX)?;
    let invalid = |what: &str| {
        let value = String::from_utf8_lossy(value);
        Error::Invalid(format!("{PREFIX}{name}: {value} is no {what}"))
    };
    match name {
        DTYPE => Some(match std::str::from_utf8(value) {
            Ok(dtype) => Ok(GivenType {
                dtype: Some(dtype.trim().to_owned()),
                shape: None,
            }),
            Err(_) => Err(invalid("dtype of NumPy's")),
        }),
        SHAPE => Some(match serde_json::from_slice(value) {
            Ok(shape) => Ok(GivenType {
                dtype: None,
                shape: Some(shape),
            }),
            Err(_) => Err(invalid("shape, such as [2, 3]")),
        }),
        _ => None,
    }
}

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
            Node::Entry(version, entry) => self.retype(version, *entry, to),
            Node::File(_) => {
                // Whether it can be said; whether it fits is known when all of it is there.
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
        let disk = self.writable()?;
        let _stays = self.stay_in_new(inode).ok_or_else(not_an_array)?;
        let changed = self.with_target(inode, node, |target, _| change(disk, target));
        self.note_use(inode);
        changed
    }

    /// How the new container is made in which a file is an array.
    fn creation_of_draft(&self, inode: InodeId) -> Result<&'static dyn Creation> {
        let parent = self.inodes.parent(inode).ok_or_else(not_an_array)?;
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

    /// What has been said of a file that is to be an array.
    pub(super) fn said_of_draft(&self, path: &Path, id: FileId) -> Result<GivenType> {
        let mut said = GivenType::default();
        for name in [DTYPE, SHAPE].map(|name| format!("{PREFIX}{name}")) {
            let name = OsStr::new(&name);
            let value = match self.store.xattr(path, Some(id), name) {
                Err(Error::NoAttribute | Error::Unsupported) => continue,
                value => value?,
            };
            if let Some(given) = given_type(name, &value) {
                let given = given?;
                said.dtype = said.dtype.or(given.dtype);
                said.shape = said.shape.or(given.shape);
            }
        }
        Ok(said)
    }

    /// Gives an array another type. What has been written to it is committed before, with the type that it has.
    fn retype(
        &self,
        version: &Arc<ContainerVersion>,
        entry: EntryIndex,
        to: &GivenType,
    ) -> Result<()> {
        self.check_current(version)?;
        let number = self.written_array(version, entry)?;
        self.commit(version, Effort::All)?;
        let container = self.stage_of(version)?;
        let staged = &version.staged;
        let _turn = staged.take_turn();
        if !container.stage.is_clean() {
            let what = "set the type of an array that is being written".to_owned();
            return Err(refused_saying(what, libc::EBUSY));
        }
        let stored = container.base().stored_array(number)?;
        let Some(rewrite) = container.rewrite().retyped(stored.name(), to)? else {
            return Ok(());
        };
        let len = stored.info()?.bytes;
        let unchanged = ChangedArray {
            shown: container.merged(number, Vec::new(), &self.cache)?,
            len,
            ranges: Vec::new(),
            visible: len,
            ahead: None,
        };
        self.commit_retyped(version, &container, &*rewrite, unchanged)
    }

    /// A commit of no bytes, which a crash leaves done or not done as any other.
    fn commit_retyped(
        &self,
        version: &Arc<ContainerVersion>,
        container: &StagedContainer,
        rewrite: &dyn Rewrite,
        unchanged: ChangedArray,
    ) -> Result<()> {
        let staged = &version.staged;
        let frozen = staged.stored.while_nobody_reads(|| {
            let frozen = container.stage.freeze_all();
            staged.show(&self.cache).map(|()| frozen)
        })?;
        let frozen = frozen.ok_or_else(|| Error::Bug("two commits at once".into()))?;
        let changes = Changes {
            rewrite,
            changed: &[unchanged],
            layer: frozen.number(),
            written: Some(Timestamp::now()),
        };
        let done = self.commit_changes(version, container, &changes, Effort::All);
        if !matches!(done, Ok(CommitOutcome::Published)) {
            staged.stored.while_nobody_reads(|| {
                let thawed = container.stage.thaw();
                staged.show(&self.cache).and(thawed)
            })?;
        }
        match done? {
            CommitOutcome::Published => Ok(()),
            CommitOutcome::Stays(why) => Err(Error::Invalid(why)),
            CommitOutcome::TooMuch => Err(Error::Bug("there was no limit".into())),
        }
    }
}

fn not_an_array() -> Error {
    Error::Computed(format!(
        "{PREFIX}{DTYPE} and .{SHAPE} can be set of arrays, and of the files of a new container that will be arrays"
    ))
}
