//! Arrays as files that are written: opening, lengths, closing.
//!
//! What is written goes to the container's stage (`live::staged`). Used by [`super`].

use std::ffi::OsStr;
use std::sync::Arc;

use super::super::Tree;
use super::super::attr::Attr;
use super::super::container_directory::ContainerDirectory;
use super::super::inode::{Dirent, InodeId};
use super::super::node::Node;
use super::super::open_file::{HandleId, Open, OpenFile};
use crate::disk::Caller;
use crate::error::Result;
use crate::live::shown::entry_table::EntryIndex;
use crate::live::version::ContainerVersion;

impl Tree {
    /// Opens an entry of a container, to be written.
    pub(super) fn open_array_for_writing(
        &self,
        inode: InodeId,
        version: &Arc<ContainerVersion>,
        entry: EntryIndex,
    ) -> Result<Open> {
        let is_first = version.staged.now().is_none();
        let opened = self.fs.live.open_entry_for_writing(version, entry)?;
        if is_first {
            self.following.add(self.known_entries(version));
        }
        Ok(Open {
            handle: self.fs.open_files.insert(inode, OpenFile::Entry(opened)),
            keep_cache: !self.outdated.has(inode),
            size_is_old: false,
            ordinary: false,
            set_id: false,
        })
    }

    /// Changes the length of an array by its name alone: that is committed at once, unless a handle
    /// is open for writing, which is about to write: an open that begins anew (O_TRUNC) looks the
    /// same.
    pub(super) fn set_array_len(
        &self,
        inode: InodeId,
        version: &Arc<ContainerVersion>,
        entry: EntryIndex,
        len: u64,
    ) -> Result<()> {
        let others = self.fs.open_files.of_inode(inode);
        let mut writers = others.iter().rev().filter_map(|file| file.array_writer());
        match writers.next() {
            Some(writer) if len == 0 => self.fs.live.empty_open(writer),
            Some(writer) => self.fs.live.truncate_open(writer, len),
            None => {
                let is_first = version.staged.now().is_none();
                self.fs.live.set_array_len(version, entry, len)?;
                if is_first {
                    self.following.add(self.known_entries(version));
                }
                Ok(())
            }
        }
    }

    /// The entries of a version that the kernel knows.
    fn known_entries(&self, version: &ContainerVersion) -> Vec<InodeId> {
        let entries = self.fs.inodes.of_version(version.id).into_iter();
        entries.map(|(inode, _)| inode).collect()
    }

    /// A file has become the content of an array. If that was its last name, what programs write
    /// through the handles that they have of it goes to the array; the pages that the kernel has of
    /// the file stay its own.
    pub(super) fn absorbed_by(
        &self,
        inode: InodeId,
        node: &Node,
        (version, entry): (&Arc<ContainerVersion>, EntryIndex),
        is_last_name: bool,
    ) {
        if let Some(file) = node.ordinary() {
            file.note_absorbed();
            self.absorbed.note(inode, (version.id, entry));
        }
        if !is_last_name {
            return;
        }
        let redirected = self.fs.open_files.replace(inode, |open| {
            open.written()?;
            match self.fs.live.open_entry_for_writing(version, entry) {
                Ok(opened) => Some(OpenFile::Entry(opened)),
                Err(e) => {
                    let path = self.fs.inodes.path(version.container.into());
                    let shown = self.fs.store.display(&path.unwrap_or_default());
                    log::warn!(
                        "{}: what is still written to a file that has become an array of it is lost: {e}",
                        shown.display()
                    );
                    None
                }
            }
        });
        for file in &redirected {
            if let Some((file, _)) = file.written()
                && let Err(e) = file.release()
            {
                log::error!("{}", self.error_lines.named(inode, None, &e));
            }
        }
    }

    /// A handle is closed, perhaps not for the last time: a child has one more. What was written is
    /// committed.
    pub fn close(&self, handle: HandleId) -> Result<()> {
        let open = self.fs.open_files.get(handle)?;
        match open.array_writer() {
            Some(writer) => self.fs.live.close_writer(writer),
            None => match open.written() {
                Some((file, _)) => {
                    self.closed(handle);
                    file.flush()?;
                    self.refuse_stray(handle)?;
                    self.check_description(handle)
                }
                None => Ok(()),
            },
        }
    }

    /// What is made under the name of an array that was removed is the array's new content. None if
    /// there is no such array.
    pub(super) fn create_removed(
        &self,
        (parent, above): (InodeId, &ContainerDirectory),
        name: &OsStr,
        caller: Caller,
    ) -> Result<Option<(Attr, Open)>> {
        let (version, opened) = (&above.version, &above.opened);
        let Some(named) = opened.find_removed(above.at, name) else {
            return Ok(None);
        };
        self.fs.live.written_array(version, named)?;
        version.tombstones.remove(named);
        let attr = self
            .names
            .enter(version, opened, named, Dirent::new(parent, name))?;
        let entry = opened.file_of(named);
        let open = self.open_array_for_writing(attr.inode, version, entry)?;
        self.set_len(attr.inode, Some(open.handle), 0, caller)?;
        Ok(Some((Attr { size: 0, ..attr }, open)))
    }
}
