//! Opening files, by their names or by a handle where they have none, and reading them.
//!
//! A file may have several names, and any of them may lead to another file by now, for others
//! change the source, too. What is opened is the file that was looked up, or nothing. Used by
//! `kernel` and `writing`.

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::inode::InodeId;
use super::mounted_fs::MountedFs;
use super::node::Node;
use super::open_file::{HandleId, Open, OpenFile, Stored, takes_away_bits};
use super::ordinary::{OrdinaryFile, StalePages, StillKnown};
use super::outdated::Outdated;
use crate::array::prefetch::ReadAheadWorkers;
use crate::error::{Error, Result};
use crate::live::shown::open_entry::{OpenEntry, PageCache};
use crate::source::{Source, on_descriptor};

/// Opens and reads files.
pub(crate) struct FileReading {
    pub(super) fs: Arc<MountedFs>,
    pub(super) outdated: Arc<Outdated>,
    pub(super) workers: ReadAheadWorkers,
}

impl FileReading {
    /// Opens what an inode stands for, to be read. The handle keeps what it opened, whatever
    /// happens to its name.
    pub fn open(&self, inode: InodeId) -> Result<Open> {
        let node = self.fs.inodes.get(inode)?;
        self.fs.refuse_absorbed(inode, &node)?;
        let mut set_id = false;
        let (file, known, ordinary) = match &*node {
            Node::Directory(_) | Node::Container(_) => return Err(Error::IsADirectory),
            Node::Special(..) => return Err(Error::Unsuitable),
            Node::Unseen(_) => return Err(self.fs.unseen(inode)),
            Node::File(file) => {
                let moment = file.moment();
                let source = match self.open_ordinary(inode, file) {
                    Ok(source) => source,
                    Err(e) => return self.open_again(inode, false).ok_or(e),
                };
                let known = file.opened(moment, source.identity());
                let stored = Stored::Read(source);
                set_id = takes_away_bits(&stored);
                let file = OpenFile::Ordinary(stored, Arc::clone(&node));
                (file, known, true)
            }
            Node::Entry(version, entry) => {
                self.fs.live.current.check(version)?;
                self.fs.live.recovery.recover_again(version)?;
                let opened = self.fs.live.entries.open(version, *entry)?;
                let pages = self.keeps_pages(inode, &opened);
                let opened = OpenFile::Entry(opened);
                (opened, StillKnown { pages, size: true }, false)
            }
        };
        let handle = self.fs.open_files.insert(inode, file);
        Ok(Open {
            set_id,
            ..Open::new(handle, known, ordinary)
        })
    }

    /// Whether the kernel's pages of what was opened hold: of an array they always do, for we never
    /// change it behind the kernel's back; of what follows from arrays, as long as these are what
    /// they were. Two may open it at once, and the answer to the first, for which the kernel drops
    /// its pages, may be on its way still: so an edition counts once a handle of it is closed.
    fn keeps_pages(&self, inode: InodeId, opened: &OpenEntry) -> bool {
        let holds = opened.derived().is_none_or(|derived| {
            let staged = &derived.version.writes;
            staged.edition_of_pages(derived.entry) == derived.edition
        });
        holds && !self.outdated.has(inode)
    }

    /// A file that has no name any more is opened by a handle that has it open (as `/proc/self/fd`
    /// does).
    pub(super) fn open_again(&self, inode: InodeId, write: bool) -> Option<Open> {
        if !self.fs.inodes.paths(inode).is_empty() {
            return None;
        }
        let open = self.fs.open_files.of_inode(inode);
        let fits = |file: &Arc<OpenFile>| match write {
            true => file.written().is_some(),
            false => file.source().is_some(),
        };
        let file = open.into_iter().find(fits)?;
        let (pages, size) = (true, true);
        let handle = self.fs.open_files.share(inode, file);
        Some(Open::new(handle, StillKnown { pages, size }, true))
    }

    /// The caller was let in to the file that was looked up: no other one is opened.
    fn open_ordinary(&self, inode: InodeId, file: &OrdinaryFile) -> Result<Arc<dyn Source>> {
        self.by_a_name(inode, file, |path| match self.fs.store.open(path) {
            Ok(source) if source.id() == file.at.id => Ok(source),
            Ok(_) => Err(self.fs.live.ground.changed(path)),
            Err(e) => Err(e),
        })
    }

    /// Opens a file by the first of its names that leads to it.
    pub(super) fn by_a_name<T>(
        &self,
        inode: InodeId,
        file: &OrdinaryFile,
        open: impl Fn(&Path) -> Result<T>,
    ) -> Result<T> {
        let mut missing = None;
        for path in self.names_that_hold(inode, file)? {
            match open(&path) {
                Ok(opened) => return Ok(opened),
                Err(e) => {
                    missing.get_or_insert(e);
                }
            }
        }
        // Names that others have removed: the kernel is to look again, and finds what is there
        // instead.
        match missing {
            Some(e) if !e.is_not_found() => Err(e),
            _ => Err(self.fs.unseen(inode)),
        }
    }

    /// The paths of a file. The kernel does not say by which of its names it is opened: if one of
    /// several leads to another file by now, they are to be looked up afresh, or the old file would
    /// be opened under a new one's name.
    fn names_that_hold(&self, inode: InodeId, file: &OrdinaryFile) -> Result<Vec<PathBuf>> {
        let all = self.fs.inodes.paths(inode);
        if all.len() < 2 {
            return Ok(all);
        }
        let (mut holding, mut replaced) = (all.clone(), None);
        holding.retain(|path| match self.fs.store.stat(path) {
            Ok(stat) if stat.id == file.at.id => true,
            Ok(_) => {
                replaced = Some(self.fs.live.ground.changed(path));
                false
            }
            Err(_) => false,
        });
        if holding.len() < all.len() {
            self.fs.inodes.keep_names(inode, &holding);
        }
        match replaced {
            Some(changed) => Err(changed),
            None if holding.is_empty() => Ok(all),
            None => Ok(holding),
        }
    }

    /// Gives the bytes of an open file to `reply`.
    pub fn read<R>(
        &self,
        handle: HandleId,
        offset: u64,
        len: usize,
        pages: PageCache,
        reply: impl FnOnce(Result<&[u8]>) -> R,
    ) -> R {
        match self.fs.open_files.get(handle) {
            Ok(file) => file.read(&self.workers, offset, len, pages, reply),
            Err(e) => reply(Err(e)),
        }
    }

    /// Gives the bytes of an open file to `reply` from memory alone, for a thread that must not
    /// wait: bytes that need a decode, the source, or another thread's work are not read, and
    /// `reply` is not called.
    pub fn read_in_memory<R>(
        &self,
        handle: HandleId,
        offset: u64,
        len: usize,
        pages: PageCache,
        reply: impl FnOnce(&[u8]) -> R,
    ) -> Option<R> {
        let file = self.fs.open_files.get(handle).ok()?;
        file.read_in_memory(&self.workers, offset, len, pages, reply)
    }

    /// Runs `with` on the local descriptor of an open file that is shown as it is.
    pub fn with_fd<R>(
        &self,
        handle: HandleId,
        with: impl FnOnce(BorrowedFd<'_>) -> R,
    ) -> Option<R> {
        let handle = self.fs.open_files.get(handle).ok()?;
        on_descriptor(handle.source()?, with).ok()
    }

    /// The kernel has dropped its pages.
    pub fn dropped(&self, inode: InodeId, stale: StalePages) {
        if let Ok(node) = self.fs.inodes.get(inode)
            && let Some(file) = node.ordinary()
        {
            file.dropped(stale);
        }
    }

    /// The last byte of a file that has grown, and where it is, if the file is open.
    pub fn last_byte(&self, inode: InodeId, stale: StalePages) -> Option<(u64, u8)> {
        let at = stale.grown_to()?.checked_sub(1)?;
        let open = self.fs.open_files.of_inode(inode);
        let source = open.iter().find_map(|file| file.source())?;
        let mut last = [0];
        let n = source.read(at, &mut last).ok()?;
        (n == 1).then_some((at, last[0]))
    }
}
