//! FUSE requests, decoded and passed to the tree.
//!
//! Every operation is a few lines: ids in, answer or errno out. Nothing here blocks another
//! request: fuser calls these methods from several threads, and the last of them that is free
//! serves nothing but what is in memory: everything else is handed over ([`StandIns`]). A panic in
//! one of them is caught, logged and answered with EIO, and costs that request alone.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags, INodeNo,
    IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use super::dispatch::Adapter;
use super::read::ReadRequest;
use super::request::{
    caller, handle, id, keeps_group_bit, maker, new_entry, new_time, owned, putting, renaming,
    writes, xattr_setting,
};
use super::request_counters::RequestKind as Kind;
use super::serving::ended;
use crate::disk::{Allocation, NewAttributes, NewEntry};
use crate::error::Error;
use crate::tree::{Hole, PageCache, Tree};

impl Filesystem for Adapter {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> io::Result<()> {
        self.configure(config);
        Ok(())
    }

    fn destroy(&mut self) {
        let _ = self.ended.send(());
    }

    fn lookup(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.serve_named((req, Kind::Lookup, parent), name, move |serving, name| {
            serving.entry(reply, |tree| tree.names.lookup(id(parent), name))
        });
    }

    fn forget(&self, _req: &Request, ino: INodeNo, nlookup: u64) {
        let gone = self.serving.tree.names.forget(id(ino), nlookup);
        if let (true, Some(passthrough)) = (gone, &self.serving.passthrough) {
            passthrough.forget(ino);
        }
    }

    fn getattr(&self, req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        self.serve((req, Kind::Getattr, ino), move |serving| {
            serving.attr(reply, |tree| tree.attributes.attr(id(ino)))
        });
    }

    fn setattr(
        &self,
        req: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let (caller, inode, open) = (caller(req), id(ino), fh.map(handle));
        let to = NewAttributes {
            mode,
            uid,
            gid,
            atime: atime.map(new_time),
            mtime: mtime.map(new_time),
        };
        self.serve((req, Kind::Setattr, ino), move |serving| {
            serving.attr_set(reply, |tree| {
                tree.changes.set_attributes(inode, open, size, &to, caller)
            });
        });
    }

    fn readlink(&self, req: &Request, ino: INodeNo, reply: ReplyData) {
        self.serve((req, Kind::Readlink, ino), move |serving| {
            serving.answer(
                reply,
                || serving.tree.attributes.read_link(id(ino)),
                |reply, target| reply.data(target.as_encoded_bytes()),
                ReplyData::error,
            );
        });
    }

    fn mknod(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let caller = maker(req, umask);
        self.serve_named((req, Kind::Mknod, parent), name, move |serving, name| {
            serving.entry(reply, |tree| {
                let what = new_entry(mode, rdev).ok_or(Error::Unsuitable)?;
                tree.making.make(id(parent), name, what, caller)
            });
        });
    }

    fn mkdir(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let (caller, at) = (maker(req, umask), id(parent));
        let what = NewEntry::Directory { mode };
        self.serve_named((req, Kind::Mkdir, parent), name, move |serving, name| {
            serving.entry(reply, |tree| tree.making.make(at, name, what, caller));
        });
    }

    fn symlink(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let (caller, at, target) = (caller(req), id(parent), target.as_os_str().to_owned());
        self.serve_named((req, Kind::Symlink, parent), name, move |serving, name| {
            let what = NewEntry::Symlink { target: &target };
            serving.entry(reply, |tree| tree.making.make(at, name, what, caller));
        });
    }

    fn link(&self, req: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.serve_named((req, Kind::Link, parent), name, move |serving, name| {
            serving.entry(reply, |tree| tree.making.link(id(ino), id(parent), name));
        });
    }

    fn unlink(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.serve_named((req, Kind::Unlink, parent), name, move |serving, name| {
            serving.done(reply, |tree| tree.removing.unlink(id(parent), name));
        });
    }

    fn rmdir(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.serve_named((req, Kind::Rmdir, parent), name, move |serving, name| {
            let at = id(parent);
            serving.done(reply, |tree| tree.removing.remove_directory(at, name));
        });
    }

    fn rename(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (newname, caller) = (newname.to_owned(), maker(req, 0));
        let hider = Some(caller).filter(|_| flags.contains(RenameFlags::RENAME_WHITEOUT));
        self.serve_named((req, Kind::Rename, parent), name, move |serving, name| {
            let rename = |tree: &Tree| {
                let how = renaming(flags).ok_or(Error::Unsuitable)?;
                let (from, to) = ((id(parent), name), (id(newparent), &*newname));
                match hider {
                    Some(caller) => tree.rename_and_hide(from, to, how, caller),
                    None => tree.renames.rename(from, to, how),
                }
            };
            serving.done(reply, rename);
        });
    }

    fn open(&self, req: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        // Emptying it is a request of its own, which comes when the kernel has agreed to the
        // opening: a program that runs is not to be emptied.
        let write = writes(flags);
        self.serve((req, Kind::Open, ino), move |serving| {
            serving.open(ino, flags, reply, |tree| match write {
                true => tree.contents.open_for_writing(id(ino)),
                false => tree.reading.open(id(ino)),
            });
        });
    }

    fn create(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let (caller, at) = (maker(req, umask), id(parent));
        let exclusive = flags & libc::O_EXCL != 0;
        self.serve_named((req, Kind::Create, parent), name, move |serving, name| {
            serving.created(reply, flags, |tree| {
                tree.making.create(at, name, mode, exclusive, caller)
            });
        });
    }

    fn read(
        &self,
        req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let direct = self.serving.options.direct_io || flags.0 & libc::O_DIRECT != 0;
        if !direct {
            self.serving.direct_writes.note_cached(ino);
        }
        let request = ReadRequest {
            handle: handle(fh),
            offset,
            len: size as usize,
            pages: if direct {
                PageCache::Bypassed
            } else {
                PageCache::Used
            },
        };
        self.serve_read((req, Kind::Read, ino), request, reply);
    }

    fn write(
        &self,
        req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let (caller, how) = (caller(req), putting(flags, write_flags));
        let past_cache = self.past_cache(ino, (offset, data.len()), (flags, write_flags));
        let about = (req, Kind::Write, ino);
        let (file, ino, open) = ((ino, fh), id(ino), handle(fh));
        self.serve_write(about, (file, past_cache), data, reply, move |tree, data| {
            tree.contents.write(ino, open, offset, data, how, caller)
        });
    }

    fn flush(
        &self,
        req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        // Of ordinary files everything has been written through. Not "unknown": then the kernel
        // would never again write out what mappings have changed before a close returns.
        self.serve_once((req, Kind::Flush, ino), reply, move |tree| {
            tree.closing.close(handle(fh))
        });
    }

    fn fsync(
        &self,
        req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        datasync: bool,
        reply: ReplyEmpty,
    ) {
        self.serve_done((req, Kind::Fsync, ino), reply, move |tree| {
            tree.closing.sync(id(ino), handle(fh), datasync)
        });
    }

    fn fsyncdir(
        &self,
        req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        datasync: bool,
        reply: ReplyEmpty,
    ) {
        self.serve_done((req, Kind::Fsyncdir, ino), reply, move |tree| {
            tree.closing.sync_directory(id(ino), datasync)
        });
    }

    fn fallocate(
        &self,
        req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        len: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let (caller, mode) = (caller(req), mode.cast_unsigned());
        self.serve((req, Kind::Fallocate, ino), move |serving| {
            let what = Allocation { mode, offset, len };
            serving.allocated((ino, fh), reply, |tree| {
                tree.contents.allocate(id(ino), handle(fh), what, caller)
            });
        });
    }

    fn copy_file_range(
        &self,
        req: &Request,
        _ino_in: INodeNo,
        fh_in: FileHandle,
        offset_in: u64,
        ino_out: INodeNo,
        fh_out: FileHandle,
        offset_out: u64,
        len: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let (caller, from) = (caller(req), (handle(fh_in), offset_in));
        let to = (id(ino_out), handle(fh_out), offset_out);
        self.serve((req, Kind::CopyFileRange, ino_out), move |serving| {
            serving.written((ino_out, fh_out), None, reply, |tree| {
                tree.contents.copy_range(from, to, len, caller)
            });
        });
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
        req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let hole = match whence {
            libc::SEEK_HOLE => Hole::Hole,
            libc::SEEK_DATA => Hole::Data,
            _ => return reply.error(Errno::EINVAL),
        };
        self.serve((req, Kind::Lseek, ino), move |serving| {
            serving.found(reply, offset, |tree, at| {
                tree.contents.seek(id(ino), handle(fh), at, hole)
            })
        });
    }

    fn release(
        &self,
        req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        if let Some(passthrough) = &self.serving.passthrough {
            passthrough.release(ino, handle(fh));
        }
        self.serving.direct_writes.closed(ino, handle(fh));
        self.serve_done((req, Kind::Release, ino), reply, move |tree| {
            tree.closing.release(handle(fh));
            Ok(())
        });
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
        req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        self.serve((req, Kind::Readdir, ino), move |serving| {
            serving.list(ino, offset, reply)
        });
    }

    fn readdirplus(
        &self,
        req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        self.serve((req, Kind::Readdirplus, ino), move |serving| {
            serving.list_attributes(ino, offset, reply)
        });
    }

    fn statfs(&self, req: &Request, ino: INodeNo, reply: ReplyStatfs) {
        self.serve((req, Kind::Statfs, ino), move |serving| {
            serving.space(reply)
        });
    }

    fn setxattr(
        &self,
        req: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let (name, Some(value)) = (name.to_owned(), owned(value)) else {
            return reply.error(Errno::ENOMEM);
        };
        let (caller, inode, pid) = (caller(req), id(ino), req.pid());
        self.serve_done((req, Kind::Setxattr, ino), reply, move |tree| {
            let how = xattr_setting(flags).ok_or(Error::Unsuitable)?;
            let keeps = |gid| keeps_group_bit(caller, pid, gid);
            tree.changes.set_xattr(inode, &name, (&value, how), &keeps)
        });
    }

    fn getxattr(&self, req: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let name = name.to_owned();
        let kind = self.kind_of_getxattr(req, ino, &name);
        self.serve((req, kind, ino), move |serving| {
            serving.xattr(reply, size, |tree| tree.xattr(id(ino), &name))
        });
    }

    fn listxattr(&self, req: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        self.serve((req, Kind::Listxattr, ino), move |serving| {
            serving.xattr(reply, size, |tree| tree.xattrs.names(id(ino)).map(ended));
        });
    }

    fn removexattr(&self, req: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = name.to_owned();
        self.serve_done((req, Kind::Removexattr, ino), reply, move |tree| {
            tree.changes.remove_xattr(id(ino), &name)
        });
    }
}
