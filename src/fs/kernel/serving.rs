//! What requests are answered with: the tree, how it is shown, and how its answers become replies.
//!
//! Used by `adapter` and `read`.

use std::ffi::{OsStr, OsString};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use fuser::{
    Errno, FileHandle, FopenFlags, Generation, INodeNo, OpenFlags, ReplyAttr, ReplyCreate,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs,
    ReplyWrite, ReplyXattr,
};

use super::about::{Asked, asked};
use super::direct_writes::{DirectWrites, writes_directly};
use super::directory;
use super::errno::errno;
use super::passthrough::Passthrough;
use super::reply::{TTL, attr_ttl, dot_attr, file_attr, file_type, ttl};
use super::request::writes;
use super::request_counters::{RequestCounters, TimedRequest};
use super::session::Options;
use super::stale_pages::{PageRange, StaleFile, StaleFiles};
use crate::error::{Error, Result};
use crate::source::Space;
use crate::tree::{Attr, HandleId, InodeId, Open, Tree};

pub(super) struct Serving {
    pub(super) tree: Arc<Tree>,
    pub(super) options: Options,
    pub(super) counters: Arc<RequestCounters>,
    /// Files that are read by the kernel itself, if it agreed to do so.
    pub(super) passthrough: Option<Passthrough>,
    /// The kernel lists directories without opening them.
    pub(super) handle_free: bool,
    pub(super) stale_files: StaleFiles,
    pub(super) direct_writes: DirectWrites,
}

pub(super) const GENERATION: Generation = Generation(0);

impl Serving {
    /// Answers with the result of `work`, or with its errno.
    pub(super) fn answer<T, R>(
        &self,
        reply: R,
        work: impl FnOnce() -> Result<T>,
        ok: impl FnOnce(R, T),
        error: impl FnOnce(R, Errno),
    ) {
        match self.outcome(work) {
            Ok(value) => ok(reply, value),
            Err(errno) => error(reply, errno),
        }
    }

    fn outcome<T>(&self, work: impl FnOnce() -> Result<T>) -> std::result::Result<T, Errno> {
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(done) => done.map_err(|e| self.failed(&e)),
            Err(_) => Err(self.panicked()),
        }
    }

    /// A request has been served; `name`: what it asked for in a directory.
    pub(super) fn end(&self, request: TimedRequest, name: Option<&OsStr>) {
        if let Some(took) = self.counters.end(request) {
            let path = self.tree.status.path_in_mount(request.inode, name);
            self.counters.note_slow(request.kind, path, took);
        }
    }

    /// The log has where it was, by the hook of `daemon::log`.
    pub(super) fn panicked(&self) -> Errno {
        log::error!("a request failed by a bug of arrayfs; it is answered with an I/O error");
        self.counters.io_error();
        Errno::EIO
    }

    fn steadily<T>(&self, work: impl Fn(&Tree) -> Result<T>) -> Result<T> {
        self.tree.fs.moves.retry(|| work(&self.tree))
    }

    pub(super) fn failed(&self, e: &Error) -> Errno {
        let (errno, level) = errno(e);
        if errno.code() == libc::EIO {
            self.counters.io_error();
        }
        if let Some(level) = level {
            log::log!(level, "{}", self.named(e));
        }
        errno
    }

    fn named(&self, e: &Error) -> String {
        match asked() {
            Some(Asked { inode, name }) => self.tree.error_lines.named(inode, name.as_deref(), e),
            None => e.to_string(),
        }
    }

    /// The file of an answer, if the kernel's pages of it are to go first. What the kernel reads by
    /// itself it has no pages of.
    fn stale(&self, attr: &Attr) -> Option<StaleFile> {
        let stale = attr.stale?;
        let ino = INodeNo(attr.inode.0);
        let by_kernel = self
            .passthrough
            .as_ref()
            .is_some_and(|files| files.has(ino));
        (!by_kernel).then_some((attr.inode, stale))
    }

    fn answer_after(&self, stale: Option<StaleFile>, answer: impl FnOnce() + Send + 'static) {
        self.stale_files
            .answer_after(stale.into_iter().collect(), answer);
    }

    pub(super) fn entry(&self, reply: ReplyEntry, work: impl Fn(&Tree) -> Result<Attr>) {
        let ok = |reply: ReplyEntry, attr: Attr| {
            let stale = self.stale(&attr);
            self.answer_after(stale, move || {
                reply.entry(&attr_ttl(&attr), &file_attr(&attr), GENERATION)
            });
        };
        self.answer(reply, || self.steadily(work), ok, ReplyEntry::error);
    }

    pub(super) fn attr(&self, reply: ReplyAttr, work: impl Fn(&Tree) -> Result<Attr>) {
        let ok = |reply: ReplyAttr, attr: Attr| {
            let stale = self.stale(&attr);
            self.answer_after(stale, move || {
                reply.attr(&attr_ttl(&attr), &file_attr(&attr))
            });
        };
        self.answer(reply, || self.steadily(work), ok, ReplyAttr::error);
    }

    /// Answers a request that has changed attributes. While it truncates, the kernel holds back
    /// writes of the file, for which dropping pages would wait: so the answer comes first.
    pub(super) fn attr_set(&self, reply: ReplyAttr, work: impl Fn(&Tree) -> Result<Attr>) {
        let ok = |reply: ReplyAttr, attr: Attr| {
            let stale = self.stale(&attr);
            self.drop_following();
            reply.attr(&TTL, &file_attr(&attr));
            self.answer_after(stale, || {});
        };
        self.answer(reply, || self.steadily(work), ok, ReplyAttr::error);
    }

    pub(super) fn done(&self, reply: ReplyEmpty, work: impl Fn(&Tree) -> Result<()>) {
        self.done_once(reply, |tree| tree.fs.moves.retry(|| work(tree)));
    }

    /// Answers a request without a result, tried once, whatever is moved meanwhile.
    pub(super) fn done_once(&self, reply: ReplyEmpty, work: impl FnOnce(&Tree) -> Result<()>) {
        let outcome = self.outcome(|| work(&self.tree));
        self.stale_files
            .answer_after_outdated(move || say(reply, outcome));
    }

    /// Says how many bytes were written to an open file. `past_cache`: where past the page cache.
    pub(super) fn written(
        &self,
        (ino, fh): (INodeNo, FileHandle),
        past_cache: Option<PageRange>,
        reply: ReplyWrite,
        work: impl FnOnce(&Tree) -> Result<usize>,
    ) {
        let ok = |reply: ReplyWrite, n: usize| {
            self.note_lost_bits(ino, fh);
            self.counters.written(n);
            let answer = move || reply.written(u32::try_from(n).unwrap_or(u32::MAX));
            match past_cache.filter(|range| self.direct_writes.leaves_pages(range.inode)) {
                Some(range) => self.stale_files.answer_after_range(range, answer),
                // The file has become an array, of which the kernel has pages of their own.
                None if !self.tree.outdated.is_empty()
                    && self.tree.names.absorbed.has(InodeId(ino.0)) =>
                {
                    self.stale_files.answer_after_outdated(answer);
                }
                None => answer(),
            }
        };
        self.answer(reply, || work(&self.tree), ok, ReplyWrite::error);
    }

    /// A range of an open file has been allocated, or emptied.
    pub(super) fn allocated(
        &self,
        (ino, fh): (INodeNo, FileHandle),
        reply: ReplyEmpty,
        work: impl Fn(&Tree) -> Result<()>,
    ) {
        self.done(reply, |tree| {
            work(tree)?;
            self.note_lost_bits(ino, fh);
            Ok(())
        });
    }

    /// The kernel leaves it to us to take set-user-id bits away, and goes on with the mode that was
    /// reported to it.
    fn note_lost_bits(&self, ino: INodeNo, fh: FileHandle) {
        if self.tree.contents.has_lost_bits(HandleId(fh.0)) {
            self.stale_files.drop_attributes(ino);
        }
    }

    /// Says where in a file something is.
    pub(super) fn found(
        &self,
        reply: ReplyLseek,
        offset: i64,
        work: impl FnOnce(&Tree, u64) -> Result<u64>,
    ) {
        let ok = |reply: ReplyLseek, at: u64| match i64::try_from(at) {
            Ok(at) => reply.offset(at),
            Err(_) => reply.error(Errno::EOVERFLOW),
        };
        let seek = || match u64::try_from(offset) {
            Ok(at) => work(&self.tree, at),
            Err(_) => Err(Error::BeyondTheEnd),
        };
        self.answer(reply, seek, ok, ReplyLseek::error);
    }

    /// The kernel sends every close of a file that is opened for writing, after it has written out
    /// pages that mappings have changed.
    pub(super) fn open(
        &self,
        ino: INodeNo,
        opened_with: OpenFlags,
        reply: ReplyOpen,
        work: impl Fn(&Tree) -> Result<Open>,
    ) {
        let writes = writes(opened_with);
        let ok = |reply: ReplyOpen, open: Open| {
            self.note_opened(ino, open.handle, opened_with.0);
            if open.size_is_old {
                self.stale_files.drop_attributes(ino);
            }
            self.drop_following();
            let reply = match &self.passthrough {
                Some(passthrough) if open.ordinary && !self.options.direct_io => {
                    let may_begin = !writes && !open.set_id;
                    passthrough.open(ino, &self.tree, open.handle, (writes, may_begin), reply)
                }
                _ => Some(reply),
            };
            let mut flags = self.open_flags(open.keep_cache);
            flags.set(FopenFlags::FOPEN_NOFLUSH, !writes);
            if let Some(reply) = reply {
                reply.opened(FileHandle(open.handle.0), flags);
            }
        };
        self.answer(reply, || self.steadily(work), ok, ReplyOpen::error);
    }

    /// The kernel asks for attributes that follow from an array which is written from now on.
    fn drop_following(&self) {
        let forget = |inode: InodeId| self.stale_files.drop_attributes(INodeNo(inode.0));
        self.tree.contents.following.drain(forget);
    }

    /// With `-o direct_io` all is written so, and the kernel drops pages of mappings by itself.
    fn note_opened(&self, ino: INodeNo, handle: HandleId, flags: i32) {
        if writes_directly(flags) && !self.options.direct_io {
            self.direct_writes.opened(ino, handle);
        }
    }

    pub(super) fn created(
        &self,
        reply: ReplyCreate,
        flags: i32,
        work: impl Fn(&Tree) -> Result<(Attr, Open)>,
    ) {
        let ok = |reply: ReplyCreate, (attr, open): (Attr, Open)| {
            self.note_opened(INodeNo(attr.inode.0), open.handle, flags);
            if let Some(passthrough) = &self.passthrough {
                passthrough.created(INodeNo(attr.inode.0), open.handle);
            }
            let (handle, flags) = (FileHandle(open.handle.0), self.open_flags(open.keep_cache));
            reply.created(&TTL, &file_attr(&attr), GENERATION, handle, flags);
        };
        self.answer(reply, || self.steadily(work), ok, ReplyCreate::error);
    }

    fn open_flags(&self, keep_cache: bool) -> FopenFlags {
        match (self.options.direct_io, keep_cache) {
            (true, _) => FopenFlags::FOPEN_DIRECT_IO,
            (false, true) => FopenFlags::FOPEN_KEEP_CACHE,
            (false, false) => FopenFlags::empty(),
        }
    }

    pub(super) fn list(&self, ino: INodeNo, offset: u64, mut reply: ReplyDirectory) {
        let filled = self.outcome(|| {
            directory::kinds(&self.tree, InodeId(ino.0), offset, |name, next, kind| {
                reply.add(ino, next, file_type(kind), name)
            })
        });
        match filled {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno),
        }
    }

    pub(super) fn list_attributes(&self, ino: INodeNo, offset: u64, mut reply: ReplyDirectoryPlus) {
        let mut stale = Vec::new();
        let filled = self.outcome(|| {
            directory::attributes(&self.tree, InodeId(ino.0), offset, |name, next, entry| {
                stale.extend(entry.and_then(|entry| self.stale(&entry.attr)));
                // The kernel does not look at the attributes of `.` and `..`.
                let attr = entry.map_or_else(|| dot_attr(ino), |entry| file_attr(&entry.attr));
                reply.add(attr.ino, next, name, &ttl(entry), &attr, GENERATION)
            })
        });
        match filled {
            Ok(()) => self.stale_files.answer_after(stale, move || reply.ok()),
            Err(errno) => reply.error(errno),
        }
    }

    /// `bytes`: as many as the caller has room for; 0 asks how many there are.
    pub(super) fn xattr(
        &self,
        reply: ReplyXattr,
        bytes: u32,
        work: impl Fn(&Tree) -> Result<Vec<u8>>,
    ) {
        let ok = |reply: ReplyXattr, value: Vec<u8>| {
            if bytes == 0 {
                reply.size(u32::try_from(value.len()).unwrap_or(u32::MAX));
            } else if value.len() <= bytes as usize {
                reply.data(&value);
            } else {
                reply.error(Errno::ERANGE);
            }
        };
        self.answer(reply, || self.steadily(work), ok, ReplyXattr::error);
    }

    pub(super) fn space(&self, reply: ReplyStatfs) {
        let ok = |reply: ReplyStatfs, space: Space| {
            reply.statfs(
                space.blocks,
                space.free,
                space.available,
                space.files,
                space.files_free,
                space.block_size,
                space.name_max,
                space.fragment_size,
            );
        };
        self.answer(reply, || self.tree.space(), ok, ReplyStatfs::error);
    }
}

/// Names of attributes, each with its end.
pub(super) fn ended(names: Vec<OsString>) -> Vec<u8> {
    let ended = |name: &OsString| [name.as_encoded_bytes(), b"\0"].concat();
    names.iter().flat_map(ended).collect()
}

fn say(reply: ReplyEmpty, outcome: std::result::Result<(), Errno>) {
    match outcome {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}
