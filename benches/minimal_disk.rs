//! The minimal server over one directory of a disk: its files are made, opened, written with
//! `pwrite` and read with `pread`. Nothing else is answered: no listing, no attributes to set, no
//! directory within.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, INodeNo, KernelConfig,
    LockOwner, OpenFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyWrite, Request, WriteFlags,
};

use super::{GENERATION, TTL, configure};

pub struct Disk {
    directory: PathBuf,
    /// By the inode of the disk; the directory itself is [`INodeNo::ROOT`].
    names: RwLock<HashMap<INodeNo, OsString>>,
    open: RwLock<HashMap<FileHandle, Arc<File>>>,
    handles: AtomicU64,
}

impl Disk {
    pub fn new(directory: PathBuf) -> Self {
        Disk {
            directory,
            names: RwLock::default(),
            open: RwLock::default(),
            handles: AtomicU64::new(1),
        }
    }

    fn path(&self, ino: INodeNo) -> io::Result<PathBuf> {
        if ino == INodeNo::ROOT {
            return Ok(self.directory.clone());
        }
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        let name = names.get(&ino).ok_or(io::ErrorKind::NotFound)?;
        Ok(self.directory.join(name))
    }

    /// A file that was found under this name.
    fn enter(&self, name: &OsStr, found: &Metadata) -> FileAttr {
        let ino = INodeNo(found.ino());
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        names.insert(ino, name.to_owned());
        attr(ino, found)
    }

    fn keep(&self, file: File) -> FileHandle {
        let handle = FileHandle(self.handles.fetch_add(1, Ordering::Relaxed));
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        open.insert(handle, Arc::new(file));
        handle
    }

    fn file(&self, handle: FileHandle) -> io::Result<Arc<File>> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        let file = open.get(&handle).cloned();
        file.ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))
    }

    fn look_up(&self, name: &OsStr) -> io::Result<FileAttr> {
        let found = fs::symlink_metadata(self.directory.join(name))?;
        Ok(self.enter(name, &found))
    }

    fn create(&self, name: &OsStr, mode: u32) -> io::Result<(FileAttr, FileHandle)> {
        let mut options = File::options();
        options.read(true).write(true).create_new(true).mode(mode);
        let file = options.open(self.directory.join(name))?;
        let attr = self.enter(name, &file.metadata()?);
        Ok((attr, self.keep(file)))
    }

    fn open(&self, ino: INodeNo, flags: OpenFlags) -> io::Result<FileHandle> {
        let mut options = File::options();
        options.read(true);
        options.write(flags.0 & libc::O_ACCMODE != libc::O_RDONLY);
        options.truncate(flags.0 & libc::O_TRUNC != 0);
        Ok(self.keep(options.open(self.path(ino)?)?))
    }

    fn read(&self, handle: FileHandle, offset: u64, size: u32) -> io::Result<Vec<u8>> {
        let file = self.file(handle)?;
        let mut bytes = vec![0; size as usize];
        let mut done = 0;
        while done < bytes.len() {
            match file.read_at(&mut bytes[done..], offset + done as u64)? {
                0 => break,
                n => done += n,
            }
        }
        bytes.truncate(done);
        Ok(bytes)
    }
}

fn attr(ino: INodeNo, found: &Metadata) -> FileAttr {
    let time = |result: io::Result<_>| result.unwrap_or(UNIX_EPOCH);
    FileAttr {
        ino,
        size: found.size(),
        blocks: found.blocks(),
        atime: time(found.accessed()),
        mtime: time(found.modified()),
        ctime: UNIX_EPOCH + Duration::from_secs(found.ctime().cast_unsigned()),
        crtime: UNIX_EPOCH,
        kind: if found.is_dir() {
            FileType::Directory
        } else {
            FileType::RegularFile
        },
        perm: (found.mode() & 0o7777) as u16,
        nlink: 1,
        uid: found.uid(),
        gid: found.gid(),
        rdev: 0,
        blksize: 1 << 17,
        flags: 0,
    }
}

impl Filesystem for Disk {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> io::Result<()> {
        configure(config);
        Ok(())
    }

    fn lookup(&self, _req: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.look_up(name) {
            Ok(attr) => reply.entry(&TTL, &attr, GENERATION),
            Err(e) => reply.error(e.into()),
        }
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        match self.path(ino).and_then(fs::symlink_metadata) {
            Ok(found) => reply.attr(&TTL, &attr(ino, &found)),
            Err(e) => reply.error(e.into()),
        }
    }

    fn create(
        &self,
        _req: &Request,
        _parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        match Disk::create(self, name, mode) {
            Ok((attr, handle)) => {
                reply.created(&TTL, &attr, GENERATION, handle, FopenFlags::empty());
            }
            Err(e) => reply.error(e.into()),
        }
    }

    fn open(&self, _req: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match Disk::open(self, ino, flags) {
            Ok(handle) => reply.opened(handle, FopenFlags::FOPEN_KEEP_CACHE),
            Err(e) => reply.error(e.into()),
        }
    }

    fn read(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match Disk::read(self, fh, offset, size) {
            Ok(bytes) => reply.data(&bytes),
            Err(e) => reply.error(e.into()),
        }
    }

    fn write(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self
            .file(fh)
            .and_then(|file| file.write_all_at(data, offset))
        {
            Ok(()) => reply.written(data.len() as u32),
            Err(e) => reply.error(e.into()),
        }
    }

    fn flush(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        reply.ok();
    }

    fn release(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        open.remove(&fh);
        drop(open);
        reply.ok();
    }

    /// The kernel remembers it and opens directories by itself.
    fn opendir(&self, _req: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.error(Errno::ENOSYS);
    }
}
