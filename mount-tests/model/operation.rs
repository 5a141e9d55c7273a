//! What is done to a tree, and what comes of it: system calls, with an errno or a value to compare.

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use memmap2::MmapOptions;
use rustix::fs::{
    AtFlags, CWD, Dir, FallocateFlags, FileType, Mode, OFlags, RenameFlags, SeekFrom, Timespec,
    Timestamps, XattrFlags,
};
use rustix::io::Errno;

use crate::harness::seeded::Seeded;

/// Open files are known by their place in a table.
pub type Slot = usize;
pub const SLOTS: usize = 4;

#[derive(Clone, Debug)]
pub enum Operation {
    Open(PathBuf, OFlags, u32, Slot),
    Close(Slot),
    Read(Slot, u64, usize),
    Write(Slot, u64, Noise),
    /// Where the last one ended, or at the end of the file (`O_APPEND`).
    WriteOn(Slot, Noise),
    SeekEnd(Slot),
    MapWrite(Slot, u64, Noise),
    SetLength(Slot, u64),
    Truncate(PathBuf, u64),
    Allocate(Slot, FallocateFlags, u64, u64),
    Copy(Slot, u64, Slot, u64, usize),
    Stat(Slot),
    ChangeModeOfOpen(Slot, u32),
    TimesOfOpen(Slot, Times),
    Sync(Slot, bool),
    SyncDirectory(PathBuf),
    Rename(PathBuf, PathBuf, RenameFlags),
    Link(PathBuf, PathBuf),
    Symlink(PathBuf, PathBuf),
    Unlink(PathBuf),
    MakeDirectory(PathBuf, u32),
    RemoveDirectory(PathBuf),
    ChangeMode(PathBuf, u32),
    SetTimes(PathBuf, Times),
    SetXattr(PathBuf, &'static str, Noise, XattrFlags),
    RemoveXattr(PathBuf, &'static str),
    List(PathBuf),
    ReadLink(PathBuf),
}

/// Bytes, known by how they are made.
#[derive(Clone, Copy, Debug)]
pub struct Noise {
    pub seed: u64,
    pub len: usize,
}

/// Seconds, which may be negative, and nanoseconds of access and modification.
pub type Times = ((i64, i64), (i64, i64));

#[derive(PartialEq, Debug)]
pub enum Outcome {
    Done,
    Count(u64),
    Bytes(Vec<u8>),
    Names(Vec<Vec<u8>>),
    Opened,
    /// Size, links, mode.
    Stat(i64, u64, u32),
    /// The slot is empty.
    NotOpen,
}

impl Noise {
    pub fn bytes(self) -> Vec<u8> {
        Seeded::new(self.seed).noise(self.len)
    }
}

/// A tree and what is open of it.
pub struct Tree {
    root: PathBuf,
    open: [Option<OwnedFd>; SLOTS],
}

impl Tree {
    pub fn new(root: PathBuf) -> Self {
        Tree {
            root,
            open: Default::default(),
        }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    fn full(&self, path: &Path) -> PathBuf {
        self.root.join(path)
    }

    pub fn perform(&mut self, operation: &Operation) -> Result<Outcome, Errno> {
        use Operation::*;
        match operation {
            Open(path, flags, mode, slot) => {
                let mode = Mode::from_raw_mode(*mode);
                let opened = rustix::fs::open(self.full(path), *flags | OFlags::CLOEXEC, mode)?;
                self.open[*slot] = Some(opened);
                Ok(Outcome::Opened)
            }
            Close(slot) => {
                self.open[*slot] = None;
                Ok(Outcome::Done)
            }
            Read(slot, ..)
            | Write(slot, ..)
            | WriteOn(slot, ..)
            | SeekEnd(slot)
            | MapWrite(slot, ..)
            | SetLength(slot, ..)
            | Allocate(slot, ..)
            | Stat(slot)
            | ChangeModeOfOpen(slot, ..)
            | TimesOfOpen(slot, ..)
            | Sync(slot, ..) => match &self.open[*slot] {
                Some(file) => of_open(file, operation),
                None => Ok(Outcome::NotOpen),
            },
            Copy(from, at, to, to_at, len) => match (&self.open[*from], &self.open[*to]) {
                (Some(from), Some(to)) => copy(from, *at, to, *to_at, *len),
                _ => Ok(Outcome::NotOpen),
            },
            _ => self.of_path(operation),
        }
    }

    fn of_path(&self, operation: &Operation) -> Result<Outcome, Errno> {
        use Operation::*;
        match operation {
            Truncate(path, len) => truncate(&self.full(path), *len)?,
            Rename(from, to, flags) => {
                rustix::fs::renameat_with(CWD, self.full(from), CWD, self.full(to), *flags)?;
            }
            Link(from, to) => {
                let flags = AtFlags::empty();
                rustix::fs::linkat(CWD, self.full(from), CWD, self.full(to), flags)?;
            }
            Symlink(target, at) => rustix::fs::symlink(target, self.full(at))?,
            Unlink(path) => rustix::fs::unlink(self.full(path))?,
            MakeDirectory(path, mode) => {
                rustix::fs::mkdir(self.full(path), Mode::from_raw_mode(*mode))?;
            }
            RemoveDirectory(path) => rustix::fs::rmdir(self.full(path))?,
            ChangeMode(path, mode) => {
                rustix::fs::chmod(self.full(path), Mode::from_raw_mode(*mode))?;
            }
            SetTimes(path, times) => {
                let follow_not = AtFlags::SYMLINK_NOFOLLOW;
                rustix::fs::utimensat(CWD, self.full(path), &timestamps(times), follow_not)?;
            }
            SetXattr(path, name, value, flags) => {
                rustix::fs::setxattr(self.full(path), *name, &value.bytes(), *flags)?;
            }
            RemoveXattr(path, name) => rustix::fs::removexattr(self.full(path), *name)?,
            SyncDirectory(path) => {
                let flags = OFlags::DIRECTORY | OFlags::RDONLY;
                rustix::fs::fsync(rustix::fs::open(self.full(path), flags, Mode::empty())?)?;
            }
            List(path) => return list(&self.full(path)),
            ReadLink(path) => {
                let target = rustix::fs::readlink(self.full(path), Vec::new())?;
                return Ok(Outcome::Bytes(target.into_bytes()));
            }
            _ => unreachable!("an operation on open files: {operation:?}"),
        }
        Ok(Outcome::Done)
    }
}

fn of_open(file: &OwnedFd, operation: &Operation) -> Result<Outcome, Errno> {
    use Operation::*;
    match operation {
        Read(_, at, len) => {
            let mut bytes = vec![0; *len];
            let n = rustix::io::pread(file, &mut bytes[..], *at)?;
            bytes.truncate(n);
            return Ok(Outcome::Bytes(bytes));
        }
        Write(_, at, noise) => {
            let n = rustix::io::pwrite(file, &noise.bytes(), *at)?;
            return Ok(Outcome::Count(n as u64));
        }
        WriteOn(_, noise) => {
            let n = rustix::io::write(file, &noise.bytes())?;
            return Ok(Outcome::Count(n as u64));
        }
        SeekEnd(_) => return seek_end(file),
        MapWrite(_, at, noise) => map_write(file, *at, *noise)?,
        SetLength(_, len) => rustix::fs::ftruncate(file, *len)?,
        Allocate(_, mode, at, len) => rustix::fs::fallocate(file, *mode, *at, *len)?,
        Stat(_) => {
            let stat = rustix::fs::fstat(file)?;
            return Ok(Outcome::Stat(stat.st_size, stat.st_nlink, stat.st_mode));
        }
        ChangeModeOfOpen(_, mode) => rustix::fs::fchmod(file, Mode::from_raw_mode(*mode))?,
        TimesOfOpen(_, times) => rustix::fs::futimens(file, &timestamps(times))?,
        Sync(_, true) => rustix::fs::fdatasync(file)?,
        Sync(_, false) => rustix::fs::fsync(file)?,
        _ => unreachable!("an operation on a path: {operation:?}"),
    }
    Ok(Outcome::Done)
}

/// Of a directory every file system has its own opinion.
fn seek_end(file: &OwnedFd) -> Result<Outcome, Errno> {
    let kind = FileType::from_raw_mode(rustix::fs::fstat(file)?.st_mode);
    match kind {
        FileType::Directory => Ok(Outcome::Done),
        _ => rustix::fs::seek(file, SeekFrom::End(0)).map(Outcome::Count),
    }
}

fn copy(from: &OwnedFd, at: u64, to: &OwnedFd, to_at: u64, len: usize) -> Result<Outcome, Errno> {
    let (mut at, mut to_at) = (at, to_at);
    let n = rustix::fs::copy_file_range(from, Some(&mut at), to, Some(&mut to_at), len)?;
    Ok(Outcome::Count(n as u64))
}

/// Writes what lies within the file through a shared mapping.
fn map_write(file: &OwnedFd, at: u64, noise: Noise) -> Result<(), Errno> {
    let size = rustix::fs::fstat(file)?.st_size as u64;
    if at >= size {
        return Ok(());
    }
    let len = noise.len.min((size - at) as usize);
    let mut options = MmapOptions::new();
    let options = options.offset(at).len(len);
    // SAFETY: nobody makes the file shorter before the mapping ends.
    let mapped = unsafe { options.map_mut(file.as_raw_fd()) };
    let failed = |e: std::io::Error| Errno::from_io_error(&e).unwrap_or(Errno::IO);
    let mut mapped = mapped.map_err(failed)?;
    mapped.copy_from_slice(&noise.bytes()[..len]);
    mapped.flush().map_err(failed)
}

fn truncate(path: &Path, len: u64) -> Result<(), Errno> {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: the path ends with a zero byte.
    match unsafe { libc::truncate(path.as_ptr(), len as i64) } {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap()),
    }
}

fn timestamps((accessed, modified): &Times) -> Timestamps {
    let of = |&(tv_sec, tv_nsec): &(i64, i64)| Timespec { tv_sec, tv_nsec };
    Timestamps {
        last_access: of(accessed),
        last_modification: of(modified),
    }
}

fn list(path: &Path) -> Result<Outcome, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY;
    let directory = Dir::new(rustix::fs::open(path, flags, Mode::empty())?)?;
    let name =
        |entry: Result<rustix::fs::DirEntry, Errno>| Ok(entry?.file_name().to_bytes().into());
    let mut names: Vec<Vec<u8>> = directory.map(name).collect::<Result<_, Errno>>()?;
    names.sort();
    Ok(Outcome::Names(names))
}
