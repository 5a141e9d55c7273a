//! Bytes of files: opening for writing, writing, lengths, ranges, and copies within the mount that
//! a program leaves to the system (copy_file_range(2)).
//!
//! What is written to arrays goes to the container's stage (`live::writing`). Copies of files are
//! made by the source's file system, those of what containers show by reading it here, so that none
//! of its bytes go through the kernel. Used by `kernel::adapter`, and by [`super::making`].

use std::sync::Arc;

use super::super::absorbed::AbsorbedFiles;
use super::super::following::FollowingEntries;
use super::super::inode::InodeId;
use super::super::mounted_fs::MountedFs;
use super::super::node::Node;
use super::super::open_file::{HandleId, Open, OpenFile, Stored};
use super::super::ordinary::{OrdinaryFile, SET_ID, StillKnown};
use super::super::outdated::Outdated;
use super::super::reading::FileReading;
use super::super::written_here::WrittenHere;
use super::strays::Strays;
use crate::disk::{Allocation, Caller, DiskFile, Putting};
use crate::error::{Error, Result};
use crate::live::shown::entry_table::EntryIndex;
use crate::live::shown::open_entry::PageCache;
use crate::live::version::ContainerVersion;
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

/// Bytes that are read at once, and most of a request: its program cannot be interrupted before.
const PART: u64 = 256 << 10;
const MOST: u64 = 16 << 20;

/// Opens files for writing, and changes their bytes.
pub(crate) struct FileContents {
    pub(super) fs: Arc<MountedFs>,
    pub(super) reading: Arc<FileReading>,
    pub(super) strays: Arc<Strays>,
    pub(super) written_here: Arc<WrittenHere>,
    pub(super) absorbed: Arc<AbsorbedFiles>,
    pub(super) outdated: Arc<Outdated>,
    pub(crate) following: FollowingEntries,
}

impl FileContents {
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
        self.strays.refuse_to_write_stray(inode)?;
        let disk = self.fs.live.ground.writable()?;
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
        Ok(Open::new(handle, known, true))
    }

    /// Opens an entry of a container, to be written.
    pub(super) fn open_array_for_writing(
        &self,
        inode: InodeId,
        version: &Arc<ContainerVersion>,
        entry: EntryIndex,
    ) -> Result<Open> {
        let is_first = version.writes.now().is_none();
        let opened = self.fs.live.arrays.open(version, entry)?;
        if is_first {
            self.following.add(self.known_entries(version));
        }
        let handle = self.fs.open_files.insert(inode, OpenFile::Entry(opened));
        let (pages, size) = (!self.outdated.has(inode), true);
        Ok(Open::new(handle, StillKnown { pages, size }, false))
    }

    /// The entries of a version that the kernel knows.
    fn known_entries(&self, version: &ContainerVersion) -> Vec<InodeId> {
        let entries = self.fs.inodes.of_version(version.id).into_iter();
        entries.map(|(inode, _)| inode).collect()
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
                return self.fs.live.arrays.write(writer, offset, bytes, how);
            };
            // Pages of a file that has become the array are not the array's.
            let of_mapping = false;
            let how = Putting { of_mapping, ..how };
            let written = self.fs.live.arrays.write(writer, offset, bytes, how);
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
        let disk = self.fs.live.ground.writable()?;
        let open = handle.and_then(|handle| self.fs.open_files.get(handle).ok());
        if let Some(writer) = open.as_ref().and_then(|open| open.array_writer()) {
            return self.fs.live.arrays.truncate(writer, len);
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
            Some(writer) if len == 0 => self.fs.live.arrays.empty(writer),
            Some(writer) => self.fs.live.arrays.truncate(writer, len),
            None => {
                let is_first = version.writes.now().is_none();
                self.fs.live.arrays.set_len(version, entry, len)?;
                if is_first {
                    self.following.add(self.known_entries(version));
                }
                Ok(())
            }
        }
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
            return self.fs.live.arrays.allocate(writer, what);
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

    /// Copies a range of one open file to another, as far as the source can. Into arrays the
    /// program writes what it reads.
    pub fn copy_range(
        &self,
        from: (HandleId, u64),
        to: (InodeId, HandleId, u64),
        len: u64,
        caller: Caller,
    ) -> Result<usize> {
        let (source, open) = (
            self.fs.open_files.get(from.0)?,
            self.fs.open_files.get(to.1)?,
        );
        if open.array_writer().is_some() {
            return Err(Error::Unsupported);
        }
        let (file, of) = open.written().ok_or(Error::NotOpenForWriting)?;
        let range = from.1..from.1.saturating_add(len);
        let at = to.2;
        self.change(to.0, of, file, || match source.source() {
            Some(source) => file.copy(source, range, at, caller),
            None => self.copy_shown((&source, range.start), (file, at), len, caller),
        })
    }

    /// What a container shows, as far as a request goes.
    fn copy_shown(
        &self,
        (source, from): (&OpenFile, u64),
        (file, to): (&dyn DiskFile, u64),
        len: u64,
        caller: Caller,
    ) -> Result<usize> {
        let (most, mut done) = (len.min(MOST), 0);
        while done < most {
            let (at, len) = (from.saturating_add(done), PART.min(most - done) as usize);
            let put = |bytes: Result<&[u8]>| {
                let bytes = bytes?;
                let at = to.saturating_add(done);
                let put = file.put(at, bytes, Putting::default(), caller)?;
                Ok((put, put < bytes.len()))
            };
            let pages = PageCache::Bypassed;
            match source.read(&self.reading.workers, at, len, pages, put) {
                // The next request finds out why.
                Err(_) if done > 0 => break,
                Err(e) => return Err(e),
                Ok((n, is_full)) => {
                    done += n as u64;
                    if n == 0 || is_full {
                        break;
                    }
                }
            }
        }
        Ok(done as usize)
    }
}
