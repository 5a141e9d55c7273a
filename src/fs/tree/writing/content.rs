//! Bytes of ordinary files: opening for writing, writing, lengths, ranges, syncing. Those of arrays
//! are in [`super::arrays`].
//!
//! Used by [`super`].

use std::sync::Arc;

use super::super::Tree;
use super::super::container_directory::ContainerDirectory;
use super::super::inode::InodeId;
use super::super::node::Node;
use super::super::open_file::{HandleId, Open, OpenFile, Stored};
use super::super::ordinary::{OrdinaryFile, SET_ID};
use crate::disk::{Allocation, Caller, DiskFile, Putting, Target};
use crate::error::{Error, Result};
use crate::source::SourceIdentity;

/// What a seek looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hole {
    Data,
    Hole,
}

fn identity_of(file: &dyn DiskFile) -> Result<SourceIdentity> {
    file.source().stat().map(|stat| stat.identity())
}

impl Tree {
    /// Opens what an inode stands for, to be written. From the first time on it stays ordinary.
    pub fn open_for_writing(&self, inode: InodeId) -> Result<Open> {
        let node = self.fs.inodes.get(inode)?;
        let Node::File(of) = &*node else {
            return match &*node {
                Node::Entry(version, entry) => self.open_array_for_writing(inode, version, *entry),
                _ => self.reading.open(inode),
            };
        };
        self.fs.refuse_absorbed(inode, &node)?;
        self.refuse_to_write_stray(inode)?;
        let disk = self.fs.live.writable()?;
        let stays = self.fs.enclosing.share_new(inode);
        let moment = of.moment();
        let file = match self
            .reading
            .by_a_name(inode, of, |path| disk.open(path, of.at.id))
        {
            Ok(file) => file,
            Err(e) => return self.reading.open_again(inode, true).ok_or(e),
        };
        self.written_here.add(of.at.id)?;
        let known = of.opened(moment, file.source().identity());
        let opened = OpenFile::Ordinary(Stored::Written(file), Arc::clone(&node));
        let handle = self.fs.open_files.insert(inode, opened);
        if stays.is_some() {
            self.fs.enclosing.note_use(inode);
        }
        Ok(Open {
            handle,
            keep_cache: known.pages,
            size_is_old: !known.size,
            ordinary: true,
            set_id: false,
        })
    }

    /// Makes a change of ours to a file. A change by another process before it costs the kernel's
    /// pages; not before this request is answered, which holds some of them.
    pub(super) fn change<T>(
        &self,
        inode: InodeId,
        of: &OrdinaryFile,
        file: &dyn DiskFile,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let (done, foreign) = of.change(|| identity_of(file), work);
        if foreign {
            self.fs.places.invalidate(inode, None);
        }
        done
    }

    /// Writes to an open file, and says how many bytes.
    pub fn write(
        &self,
        inode: InodeId,
        handle: HandleId,
        offset: u64,
        bytes: &[u8],
        how: Putting,
        caller: Caller,
    ) -> Result<usize> {
        let open = self.fs.open_files.get(handle)?;
        if let Some(writer) = open.array_writer() {
            let Some(by) = self.absorbed.of(inode) else {
                return self.fs.live.write_array(writer, offset, bytes, how);
            };
            // Pages of a file that has become the array are not the array's.
            let of_mapping = false;
            let how = Putting { of_mapping, ..how };
            let written = self.fs.live.write_array(writer, offset, bytes, how);
            if let Some(array) = self.fs.inodes.of_entry(by) {
                self.outdated.add(array, None);
            }
            return written;
        }
        let (file, of) = open.written().ok_or(Error::NotOpenForWriting)?;
        self.change(inode, of, file, || file.put(offset, bytes, how, caller))
    }

    /// Whether a write took bits of the mode away in the source that were reported to the kernel
    /// before.
    pub fn has_lost_bits(&self, handle: HandleId) -> bool {
        let Ok(open) = self.fs.open_files.get(handle) else {
            return false;
        };
        let written = open.written();
        let told = written.and_then(|(file, of)| Some((file, of.told_bits()?)));
        told.is_some_and(|(file, bits)| {
            let now = file.source().stat();
            now.is_ok_and(|now| now.mode & SET_ID != bits)
        })
    }

    /// Changes the length of a file, by an open handle if there is one.
    pub fn set_len(
        &self,
        inode: InodeId,
        handle: Option<HandleId>,
        len: u64,
        caller: Caller,
    ) -> Result<()> {
        let disk = self.fs.live.writable()?;
        let open = handle.and_then(|handle| self.fs.open_files.get(handle).ok());
        if let Some(writer) = open.as_ref().and_then(|open| open.array_writer()) {
            return self.fs.live.truncate_open(writer, len);
        }
        let node = self.fs.inodes.get(inode)?;
        let of = match &*node {
            Node::File(of) => of,
            Node::Entry(version, entry) => {
                return self.set_array_len(inode, version, *entry, len);
            }
            Node::Directory(_) | Node::Container(_) => return Err(Error::IsADirectory),
            Node::Special(..) => return Err(Error::Unsuitable),
            Node::Unseen(_) => return Err(self.fs.unseen(inode)),
        };
        if let Some((file, _)) = open.as_ref().and_then(|open| open.written()) {
            return self.change(inode, of, file, || file.set_len(len, caller));
        }
        self.fs.refuse_absorbed(inode, &node)?;
        let file = self
            .reading
            .by_a_name(inode, of, |path| disk.open(path, of.at.id))?;
        self.written_here.add(of.at.id)?;
        self.change(inode, of, &*file, || file.set_len(len, caller))
    }

    /// Allocates or frees a range of an open file.
    pub fn allocate(
        &self,
        inode: InodeId,
        handle: HandleId,
        what: Allocation,
        caller: Caller,
    ) -> Result<()> {
        let open = self.fs.open_files.get(handle)?;
        if let Some(writer) = open.array_writer() {
            return self.fs.live.allocate_array(writer, what);
        }
        let (file, of) = open.written().ok_or(Error::NotOpenForWriting)?;
        self.change(inode, of, file, || file.allocate(what, caller))
    }

    /// The next data or hole of an open file. An array has none but its end, nor has a file that is
    /// open for writing: the kernel may hold bytes of a mapping that it has not sent yet.
    pub fn seek(&self, inode: InodeId, handle: HandleId, offset: u64, hole: Hole) -> Result<u64> {
        let open = self.fs.open_files.get(handle)?;
        let all = self.fs.open_files.of_inode(inode);
        let is_written = all.iter().any(|file| file.written().is_some());
        let end = match open.source() {
            Some(source) if is_written => source.stat()?.size,
            Some(source) => match source
                .posix()
                .and_then(|file| file.seek(offset, hole == Hole::Hole))
            {
                // Only a local file knows its holes.
                Err(Error::Unsupported) => source.stat()?.size,
                found => return found,
            },
            None => open.len(),
        };
        match hole {
            _ if offset >= end => Err(Error::BeyondTheEnd),
            Hole::Data => Ok(offset),
            Hole::Hole => Ok(end),
        }
    }

    /// Returns when what was written to a file has reached the disk. `data`: without what is not
    /// needed to find it. A handle that is open for reading may ask for that as well.
    pub fn sync(&self, inode: InodeId, handle: HandleId, data: bool) -> Result<()> {
        let open = self.fs.open_files.get(handle)?;
        if let Some(writer) = open.array_writer() {
            return self.fs.live.sync_array(writer);
        }
        match (open.source(), &self.fs.disk) {
            (Some(source), Some(disk)) => {
                if open.written().is_some() {
                    self.refuse_to_write_stray(inode)?;
                }
                disk.sync(Target::Open(source), data)?;
                self.sync_new_above(handle)?;
                self.sync_added_above(inode)
            }
            _ => match self.fs.inodes.get(inode).as_deref() {
                Ok(Node::Entry(version, _)) => self.fs.live.sync_staged(version),
                // Nothing was written.
                _ => Ok(()),
            },
        }
    }

    /// Returns when the names in a directory have reached the disk.
    pub fn sync_directory(&self, inode: InodeId, data: bool) -> Result<()> {
        let Some(disk) = &self.fs.disk else {
            return Ok(());
        };
        if let Some(done) = self.fs.live.sync_new(inode.into()) {
            return done;
        }
        let version = match self.fs.inodes.get(inode).as_deref() {
            Ok(Node::Container(container)) => container.known().version.clone(),
            Ok(Node::Entry(version, _)) => Some(Arc::clone(version)),
            _ => None,
        };
        // The names of a container's arrays are never dirty, what is staged of it is.
        if let Some(version) = version {
            self.fs.live.commit_closed(&version)?;
            self.fs.live.sync_staged(&version)?;
        }
        let directory = match ContainerDirectory::find(&self.fs, inode) {
            Ok(Some(directory)) => return self.sync_beside(&directory),
            Ok(None) => self.directory(inode),
            Err(e) => Err(e),
        };
        match directory {
            Ok(directory) => {
                let (path, id) = (&*directory.path, directory.id);
                disk.sync(Target::Named { path, id }, data)
            }
            // Entries of a container are never dirty, whatever lies above them, and a directory
            // that was removed has none.
            Err(Error::ReadOnly | Error::NotFound) => Ok(()),
            Err(e) => Err(e),
        }
    }
}
