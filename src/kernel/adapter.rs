//! FUSE requests, decoded and passed to the tree.
//!
//! Every operation is a few lines: ids in, answer or errno out. Nothing here blocks another request:
//! fuser calls these methods from several threads, and the last of them that is free serves nothing but what is
//! in memory: everything else is handed over ([`StandIns`]). A panic in one of them is caught, logged and
//! answered with EIO, and costs that request alone.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::Sender;
use fuser::{
    BackingId, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, IoctlFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyXattr, Request,
};

use super::errno::errno;
use super::read::ReadRequest;
use super::reply::{TTL, dot_attr, file_attr, file_type, ttl};
use super::stand_in::{Errand, StandIns};
use super::{config, directory, session::Options};
use crate::error::{Error, Result};
use crate::tree::{HandleId, InodeId, PageCache, Tree};

/// The file system that fuser serves.
pub(super) struct Adapter {
    serving: Arc<Serving>,
    stand_ins: Arc<StandIns>,
    /// Told when the kernel has ended the connection.
    ended: Sender<()>,
}

/// What requests are answered with.
pub(super) struct Serving {
    pub(super) tree: Arc<Tree>,
    options: Options,
    passthrough: bool,
    /// The kernel lists directories without opening them.
    handle_free: bool,
    backing: Backing,
}

/// Files that the kernel reads by itself. It wants the same backing for all opens of an inode; kept with
/// the handles that use it.
#[derive(Default)]
pub(super) struct Backing {
    by_inode: Mutex<HashMap<INodeNo, (Arc<BackingId>, Users)>>,
}

type Users = HashSet<HandleId>;

const GENERATION: Generation = Generation(0);

impl Adapter {
    pub(super) fn new(tree: Arc<Tree>, options: Options, ended: Sender<()>) -> Adapter {
        let stand_ins = StandIns::new(options.threads);
        let serving = Arc::new(Serving {
            tree,
            options,
            passthrough: false,
            handle_free: false,
            backing: Backing::default(),
        });
        Adapter {
            serving,
            stand_ins,
            ended,
        }
    }

    /// Serves a request that may have to open a container first.
    fn serve(&self, work: impl FnOnce(&Serving) + Send + 'static) {
        let at_work = self.stand_ins.begin();
        if at_work.is_last() {
            let serving = Arc::clone(&self.serving);
            self.stand_ins
                .hand_over(Errand::Look, move || work(&serving));
        } else {
            work(&self.serving);
        }
    }

    /// Serves a read. They come in great numbers, and many find their bytes decoded: those are not handed over.
    fn serve_read(&self, request: ReadRequest, reply: ReplyData) {
        let at_work = self.stand_ins.begin();
        if !at_work.is_last() {
            self.serving.read(request, reply);
        } else if let Some(reply) = self.serving.read_in_memory(request, reply) {
            let serving = Arc::clone(&self.serving);
            self.stand_ins
                .hand_over(Errand::Read, move || serving.read(request, reply));
        }
    }
}

impl Serving {
    /// Answers with the result of `work`, or with its errno.
    fn answer<T, R>(
        &self,
        reply: R,
        work: impl FnOnce() -> Result<T>,
        ok: impl FnOnce(R, T),
        error: impl FnOnce(R, Errno),
    ) {
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(Ok(value)) => ok(reply, value),
            Ok(Err(e)) => error(reply, self.failed(&e)),
            Err(_) => error(reply, panicked()),
        }
    }

    pub(super) fn failed(&self, e: &Error) -> Errno {
        let (errno, level) = errno(e);
        if let Some(level) = level {
            self.options.faults.log(level, e);
        }
        errno
    }

    /// Runs `list`, which fills the reply to a request for names.
    fn fill(&self, list: impl FnOnce() -> Result<()>) -> std::result::Result<(), Errno> {
        match catch_unwind(AssertUnwindSafe(list)) {
            Ok(result) => result.map_err(|e| self.failed(&e)),
            Err(_) => Err(panicked()),
        }
    }

    fn open_flags(&self, keep_cache: bool) -> FopenFlags {
        match (self.options.direct_io, keep_cache) {
            (true, _) => FopenFlags::FOPEN_DIRECT_IO,
            (false, true) => FopenFlags::FOPEN_KEEP_CACHE,
            (false, false) => FopenFlags::empty(),
        }
    }
}

/// The log has where it was, by the hook of `daemon::log`.
pub(super) fn panicked() -> Errno {
    log::error!("a request failed by a bug of arrayfs; it is answered with an I/O error");
    Errno::EIO
}

impl Backing {
    /// Answers an open with a backing file, or gives the reply back if the kernel wants none.
    fn open(
        &self,
        ino: INodeNo,
        tree: &Tree,
        handle: HandleId,
        reply: ReplyOpen,
    ) -> Option<ReplyOpen> {
        let mut table = self.by_inode.lock().unwrap_or_else(PoisonError::into_inner);
        let known = table.get(&ino).map(|(id, _)| Arc::clone(id));
        let opened = known.or_else(|| {
            tree.with_fd(handle, |fd| reply.open_backing(fd).ok().map(Arc::new))
                .flatten()
        });
        let Some(id) = opened else { return Some(reply) };
        let users = table.entry(ino);
        let (_, users) = users.or_insert_with(|| (Arc::clone(&id), Users::new()));
        users.insert(handle);
        drop(table);
        reply.opened_passthrough(FileHandle(handle.0), FopenFlags::empty(), &id);
        None
    }

    fn release(&self, ino: INodeNo, handle: HandleId) {
        let mut table = self.by_inode.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, users)) = table.get_mut(&ino)
            && users.remove(&handle)
            && users.is_empty()
        {
            table.remove(&ino);
        }
    }
}

impl Filesystem for Adapter {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Nobody else has it yet.
        if let Some(serving) = Arc::get_mut(&mut self.serving) {
            let granted = config::configure(config, serving.options.passthrough);
            serving.passthrough = granted.passthrough;
            serving.handle_free = granted.handle_free_listing;
        }
        Ok(())
    }

    fn destroy(&mut self) {
        let _ = self.ended.send(());
    }

    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let name = name.to_owned();
        self.serve(move |serving| {
            serving.answer(
                reply,
                || serving.tree.lookup(InodeId(parent.0), &name),
                |reply, attr| reply.entry(&TTL, &file_attr(&attr), GENERATION),
                ReplyEntry::error,
            );
        });
    }

    fn forget(&self, _req: &Request, ino: INodeNo, nlookup: u64) {
        self.serving.tree.forget(InodeId(ino.0), nlookup);
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        self.serve(move |serving| {
            serving.answer(
                reply,
                || serving.tree.attr(InodeId(ino.0)),
                |reply, attr| reply.attr(&TTL, &file_attr(&attr)),
                ReplyAttr::error,
            );
        });
    }

    fn readlink(&self, _req: &Request, ino: INodeNo, reply: ReplyData) {
        self.serve(move |serving| {
            serving.answer(
                reply,
                || serving.tree.read_link(InodeId(ino.0)),
                |reply, target| reply.data(target.as_encoded_bytes()),
                ReplyData::error,
            );
        });
    }

    fn open(&self, _req: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.serve(move |serving| {
            serving.answer(
                reply,
                || {
                    if flags.0 & libc::O_ACCMODE != libc::O_RDONLY {
                        return Err(Error::ReadOnly);
                    }
                    serving.tree.open(InodeId(ino.0))
                },
                |reply, open| {
                    let reply =
                        if serving.passthrough && open.ordinary && !serving.options.direct_io {
                            serving.backing.open(ino, &serving.tree, open.handle, reply)
                        } else {
                            Some(reply)
                        };
                    if let Some(reply) = reply {
                        reply.opened(
                            FileHandle(open.handle.0),
                            serving.open_flags(open.keep_cache),
                        );
                    }
                },
                ReplyOpen::error,
            );
        });
    }

    fn read(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let direct = self.serving.options.direct_io || flags.0 & libc::O_DIRECT != 0;
        let request = ReadRequest {
            handle: HandleId(fh.0),
            offset,
            len: size as usize,
            pages: if direct {
                PageCache::Bypassed
            } else {
                PageCache::Used
            },
        };
        self.serve_read(request, reply);
    }

    fn flush(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        // Nothing is written yet; the kernel remembers this and stops asking at every close.
        reply.error(Errno::ENOSYS);
    }

    fn fsync(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        reply.ok();
    }

    fn ioctl(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _flags: IoctlFlags,
        _cmd: u32,
        _in_data: &[u8],
        _out_size: u32,
        reply: ReplyIoctl,
    ) {
        // isatty(3) asks; nothing here is a terminal.
        reply.error(Errno::ENOTTY);
    }

    fn lseek(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _offset: i64,
        _whence: i32,
        reply: ReplyLseek,
    ) {
        // No array has holes: the kernel seeks by the size alone.
        reply.error(Errno::ENOSYS);
    }

    fn release(
        &self,
        _req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.serving.tree.release(HandleId(fh.0));
        self.serving.backing.release(ino, HandleId(fh.0));
        reply.ok();
    }

    fn opendir(&self, _req: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        if self.serving.handle_free {
            // The kernel remembers it and opens directories by itself.
            reply.error(Errno::ENOSYS);
        } else {
            reply.opened(FileHandle(0), FopenFlags::empty());
        }
    }

    fn readdir(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        self.serve(move |serving| {
            let filled = serving.fill(|| {
                directory::kinds(&serving.tree, InodeId(ino.0), offset, |name, next, kind| {
                    reply.add(ino, next, file_type(kind), name)
                })
            });
            match filled {
                Ok(()) => reply.ok(),
                Err(errno) => reply.error(errno),
            }
        });
    }

    fn readdirplus(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        self.serve(move |serving| {
            let filled = serving.fill(|| {
                directory::attributes(
                    &serving.tree,
                    InodeId(ino.0),
                    offset,
                    |name, next, entry| {
                        // The kernel does not look at the attributes of `.` and `..`.
                        let attr =
                            entry.map_or_else(|| dot_attr(ino), |entry| file_attr(&entry.attr));
                        reply.add(attr.ino, next, name, &ttl(entry), &attr, GENERATION)
                    },
                )
            });
            match filled {
                Ok(()) => reply.ok(),
                Err(errno) => reply.error(errno),
            }
        });
    }

    fn statfs(&self, _req: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        self.serve(move |serving| {
            serving.answer(
                reply,
                || serving.tree.space(),
                |reply, s| {
                    reply.statfs(
                        s.blocks,
                        s.free,
                        s.available,
                        s.files,
                        s.files_free,
                        s.block_size,
                        s.name_max,
                        s.fragment_size,
                    );
                },
                ReplyStatfs::error,
            );
        });
    }

    fn getxattr(&self, _req: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let name = name.to_owned();
        self.serve(move |serving| {
            serving.answer(
                reply,
                || serving.tree.xattr(InodeId(ino.0), &name),
                |reply, value| give_xattr(reply, size, &value),
                ReplyXattr::error,
            );
        });
    }

    fn listxattr(&self, _req: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        self.serve(move |serving| {
            serving.answer(
                reply,
                || {
                    let names = serving.tree.xattr_names(InodeId(ino.0))?;
                    let ended =
                        |name: &std::ffi::OsString| [name.as_encoded_bytes(), b"\0"].concat();
                    Ok(names.iter().flat_map(ended).collect::<Vec<u8>>())
                },
                |reply, names| give_xattr(reply, size, &names),
                ReplyXattr::error,
            );
        });
    }
}

/// The caller first asks for the size, then for the value.
fn give_xattr(reply: ReplyXattr, size: u32, value: &[u8]) {
    if size == 0 {
        reply.size(u32::try_from(value.len()).unwrap_or(u32::MAX));
    } else if value.len() <= size as usize {
        reply.data(value);
    } else {
        reply.error(Errno::ERANGE);
    }
}
