//! The local file system as a [`Disk`].
//!
//! Everything goes through the descriptor of a directory that was reached below the source without
//! following a link ([`crate::source::local::beneath`]), and that is the directory which was meant:
//! so nothing outside the source is changed, whatever is renamed meanwhile. Descriptors of
//! directories are not kept. Used by `cli::mount`, which makes it, and by tests.

mod attributes;
mod caller;
mod file;
mod names;
mod umask;

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{self, Access, AtFlags, CWD, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::{
    Caller, Disk, DiskFile, NewAttributes, NewEntry, Place, Renaming, Target, Trial, XattrSetting,
};
use crate::error::{Error, Result};
use crate::source::descriptors::retrying;
use crate::source::local::{LocalStore, beneath, proc_name, status};
use crate::source::{FileId, FileKind, Source, SpecialKind, Store, on_descriptor};
use caller::Privilege;
use file::LocalFile;

/// File systems of Linux with files that share bytes, by their magic numbers: Btrfs, XFS, bcachefs,
/// OCFS2, NFS. On some they are an option, so this says no more than that it is worth trying. Not
/// ZFS, where it depends on what was synced when, and has failed silently.
const SHARING: &[u32] = &[
    0x9123_683E,
    0x5846_5342,
    0xCA45_1A4E,
    0x7461_636F,
    0x0000_6969,
];

/// So many files are synced with their file system.
const MANY: usize = 8;

/// What a directory of the local file system is read through, and what it is changed through.
/// `shown`: how messages call it.
pub fn open_local(directory: &Path, shown: &Path) -> io::Result<(Arc<dyn Store>, Arc<dyn Disk>)> {
    let store = Arc::new(LocalStore::open(directory, shown)?);
    let disk = LocalDisk::new(Arc::clone(&store));
    Ok((store, Arc::new(disk)))
}

/// What a directory of the local file system is changed through.
pub struct LocalDisk {
    store: Arc<LocalStore>,
    /// The device of which files could not share bytes when that was tried last; 0 if none was
    /// found.
    not_sharing: AtomicU64,
    /// The source's own device, if a file's new name goes to the disk together with the file there.
    names_follow: Option<u64>,
}

/// What a [`Target`] is changed through.
#[derive(Clone, Copy)]
enum Reached<'a> {
    /// With `O_PATH`.
    Named(BorrowedFd<'a>),
    Open(BorrowedFd<'a>),
}

impl LocalDisk {
    /// Changes what `store` reads.
    pub fn new(store: Arc<LocalStore>) -> LocalDisk {
        let root = status::of_file(store.root());
        let device = root.ok().map(|root| root.id.device);
        LocalDisk {
            store,
            not_sharing: AtomicU64::new(0),
            names_follow: device.filter(|device| names::go_with_files(*device)),
        }
    }

    fn failed(&self, doing: &str, path: &Path, cause: Errno) -> Error {
        let path = self.store.shown(path);
        Error::io(format!("cannot {doing} {}", path.display()), cause)
    }

    fn failed_at<'a>(&'a self, doing: &'a str, place: Place<'a>) -> impl Fn(Errno) -> Error + 'a {
        move |cause| self.failed(doing, &place.directory.join(place.name), cause)
    }

    /// Opens `path`, which must be this file.
    fn reach(&self, path: &Path, id: FileId, flags: OFlags) -> Result<OwnedFd> {
        let failed = |e| self.failed("open", path, e);
        let fd = beneath::open(self.store.root(), path, flags).map_err(failed)?;
        match status::of_file(fd.as_fd()).map_err(failed)?.id == id {
            true => Ok(fd),
            false => Err(Error::Changed {
                path: self.store.shown(path),
            }),
        }
    }

    fn sync_file_system(&self) -> Result<()> {
        let failed = |e| self.failed("sync the file system of", Path::new(""), e);
        fs::syncfs(self.store.root()).map_err(failed)
    }

    fn directory(&self, place: Place<'_>) -> Result<OwnedFd> {
        self.reach(place.directory, place.id, OFlags::PATH | OFlags::DIRECTORY)
    }

    fn on_target<T>(&self, target: Target<'_>, with: impl FnOnce(Reached<'_>) -> T) -> Result<T> {
        match target {
            Target::Named { path, id } => {
                let file = self.reach(path, id, OFlags::PATH)?;
                Ok(with(Reached::Named(file.as_fd())))
            }
            Target::Open(source) => on_descriptor(source, |fd| with(Reached::Open(fd))),
        }
    }

    /// How messages call it.
    fn name_of(&self, target: Target<'_>) -> PathBuf {
        match target {
            Target::Named { path, .. } => self.store.shown(path),
            Target::Open(source) => on_descriptor(source, name_of_open)
                .unwrap_or_else(|_| PathBuf::from("an open file")),
        }
    }

    fn change(
        &self,
        target: Target<'_>,
        doing: &str,
        change: impl FnOnce(&Reached<'_>) -> rustix::io::Result<()>,
    ) -> Result<()> {
        self.on_target(target, |reached| change(&reached))?
            .map_err(|e| {
                let name = self.name_of(target);
                Error::io(format!("cannot {doing} {}", name.display()), e)
            })
    }
}

/// Opens a regular file for reading and writing, or for what of it is allowed: one of a user's own
/// that he may not read, or that may only be appended to. Nothing else is opened, not for an
/// instant: a pipe has others at its end. If another program holds a lease on the file, waits until
/// that one gives it up.
fn open_reached(file: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
    if status::of_file(file)?.kind != FileKind::File {
        return Err(Errno::INVAL);
    }
    let name = proc_name(file);
    let open = |flags: OFlags| loop {
        match retrying(|| fs::open(&name, flags | OFlags::CLOEXEC, Mode::empty())) {
            Err(Errno::INTR) => continue,
            opened => return opened,
        }
    };
    let refused = |e: &Errno| matches!(*e, Errno::ACCESS | Errno::PERM);
    let mut opened = open(OFlags::RDWR);
    for flags in [OFlags::WRONLY, OFlags::WRONLY | OFlags::APPEND] {
        if opened.as_ref().is_err_and(refused) {
            opened = open(flags);
        }
    }
    opened
}

/// Makes a file without a name, where the file system has such files.
fn make_and_remove(directory: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<()> {
    let make = |name: &OsStr, flags: OFlags| {
        let flags = flags | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        retrying(|| fs::openat(directory, name, flags, mode(0o600)))
    };
    match make(OsStr::new("."), OFlags::TMPFILE) {
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => {
            make(name, OFlags::CREATE | OFlags::EXCL)?;
            let remove = || fs::unlinkat(directory, name, AtFlags::empty());
            remove().or_else(|_| remove())
        }
        made => made.map(drop),
    }
}

/// By its name now, as the system knows it.
fn name_of_open(file: BorrowedFd<'_>) -> PathBuf {
    let unnamed = |_| PathBuf::from("an open file");
    std::fs::read_link(proc_name(file)).unwrap_or_else(unnamed)
}

impl Reached<'_> {
    /// For calls that take a name.
    fn name(&self) -> PathBuf {
        match self {
            Reached::Named(fd) | Reached::Open(fd) => proc_name(*fd),
        }
    }
}

/// Without the bits that say of what kind it is.
fn mode(bits: u32) -> Mode {
    Mode::from_raw_mode(bits & 0o7777)
}

fn file_type(kind: SpecialKind) -> FileType {
    match kind {
        SpecialKind::Fifo => FileType::Fifo,
        SpecialKind::Socket => FileType::Socket,
        SpecialKind::CharDevice => FileType::CharacterDevice,
        SpecialKind::BlockDevice => FileType::BlockDevice,
    }
}

impl Disk for LocalDisk {
    fn create(&self, place: Place<'_>, bits: u32, caller: Caller) -> Result<Arc<dyn DiskFile>> {
        let failed = self.failed_at("make", place);
        let directory = self.directory(place)?;
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made =
            caller.make(|| retrying(|| fs::openat(&directory, place.name, flags, mode(bits))));
        let path = self.store.shown(&place.directory.join(place.name));
        let file = made.and_then(|fd| LocalFile::new(fd, path));
        Ok(Arc::new(file.map_err(failed)?))
    }

    fn try_create(&self, place: Place<'_>, trial: Trial, caller: Caller) -> Result<()> {
        let directory = self.directory(place)?;
        let tried = caller.run(Privilege::Pass, || {
            match fs::statat(&directory, place.name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(_) => return Err(Errno::EXIST),
                Err(Errno::NOENT) => {}
                Err(e) => return Err(e),
            }
            match trial {
                Trial::Rights => {
                    let rights = Access::WRITE_OK | Access::EXEC_OK;
                    fs::accessat(&directory, ".", rights, AtFlags::EACCESS)
                }
                Trial::Made => make_and_remove(directory.as_fd(), place.name),
            }
        });
        tried.map_err(self.failed_at("make", place))
    }

    fn open(&self, path: &Path, id: FileId) -> Result<Arc<dyn DiskFile>> {
        let failed = |e| self.failed("open", path, e);
        let reached = self.reach(path, id, OFlags::PATH)?;
        let opened = open_reached(reached.as_fd()).map_err(failed)?;
        let file = LocalFile::new(opened, self.store.shown(path));
        Ok(Arc::new(file.map_err(failed)?))
    }

    fn make(&self, place: Place<'_>, what: NewEntry<'_>, caller: Caller) -> Result<()> {
        let directory = self.directory(place)?;
        let name = place.name;
        let made = caller.make(|| match what {
            NewEntry::Directory { mode: bits } => fs::mkdirat(&directory, name, mode(bits)),
            NewEntry::File { mode: bits } => {
                fs::mknodat(&directory, name, FileType::RegularFile, mode(bits), 0)
            }
            NewEntry::Special {
                kind,
                mode: bits,
                device,
            } => fs::mknodat(&directory, name, file_type(kind), mode(bits), device.into()),
            NewEntry::Symlink { target } => fs::symlinkat(target, &directory, name),
        });
        made.map_err(self.failed_at("make", place))
    }

    fn link(&self, file: Target<'_>, place: Place<'_>) -> Result<()> {
        let directory = self.directory(place)?;
        // Of the name in /proc it is the file that gets another name, even if it is a link.
        let link = |file: Reached<'_>| {
            let (file, flags) = (file.name(), AtFlags::SYMLINK_FOLLOW);
            fs::linkat(CWD, file, &directory, place.name, flags)
        };
        self.on_target(file, link)?
            .map_err(self.failed_at("link", place))
    }

    fn unlink(&self, place: Place<'_>) -> Result<()> {
        let directory = self.directory(place)?;
        fs::unlinkat(&directory, place.name, AtFlags::empty())
            .map_err(self.failed_at("remove", place))
    }

    fn remove_directory(&self, place: Place<'_>) -> Result<()> {
        let directory = self.directory(place)?;
        fs::unlinkat(&directory, place.name, AtFlags::REMOVEDIR)
            .map_err(self.failed_at("remove", place))
    }

    fn rename(&self, from: Place<'_>, to: Place<'_>, how: Renaming) -> Result<()> {
        let (old, new) = (self.directory(from)?, self.directory(to)?);
        let flags = match how {
            Renaming::Over => RenameFlags::empty(),
            Renaming::NoReplace => RenameFlags::NOREPLACE,
            Renaming::Exchange => RenameFlags::EXCHANGE,
        };
        fs::renameat_with(&old, from.name, &new, to.name, flags)
            .map_err(self.failed_at("rename", from))
    }

    fn set_attributes(&self, of: Target<'_>, to: &NewAttributes) -> Result<()> {
        self.change(of, "set attributes of", |file| attributes::set(file, to))
    }

    fn set_xattr(
        &self,
        of: Target<'_>,
        name: &OsStr,
        value: &[u8],
        how: XattrSetting,
    ) -> Result<()> {
        let flags = attributes::xattr_flags(how);
        self.change(of, "set an attribute of", |file| {
            fs::setxattr(file.name(), name, value, flags)
        })
    }

    fn remove_xattr(&self, of: Target<'_>, name: &OsStr) -> Result<()> {
        self.change(of, "remove an attribute of", |file| {
            fs::removexattr(file.name(), name)
        })
    }

    fn may_share(&self, of: &dyn Source) -> bool {
        let system = on_descriptor(of, |fd| fs::fstatfs(fd).map(|system| system.f_type as u32));
        matches!(system, Ok(Ok(system)) if SHARING.contains(&system))
            && self.not_sharing.load(Ordering::Relaxed) != of.id().device
    }

    fn share(&self, file: &dyn DiskFile, all_of: &dyn Source, caller: Caller) -> bool {
        let share = |to: BorrowedFd<'_>, from: BorrowedFd<'_>| {
            caller.run(Privilege::None, || fs::ioctl_ficlone(to, from))
        };
        let shared = on_descriptor(file.source(), |to| {
            on_descriptor(all_of, |from| share(to, from))
        });
        let Ok(Ok(shared)) = shared else {
            return false;
        };
        if let Err(e) = shared {
            log::debug!("files cannot share bytes: {e}");
            // Anything else may be of these two alone, or pass.
            if [Errno::OPNOTSUPP, Errno::NOTTY, Errno::NOSYS].contains(&e) {
                let device = all_of.id().device;
                self.not_sharing.store(device, Ordering::Relaxed);
            }
            return false;
        }
        // There have been file systems that shared a part and said nothing.
        let now = file.source().stat();
        now.is_ok_and(|now| now.size == all_of.len())
    }

    fn sync(&self, of: Target<'_>, data: bool) -> Result<()> {
        let sync = |file: BorrowedFd<'_>| match data {
            true => fs::fdatasync(file),
            false => fs::fsync(file),
        };
        match of {
            Target::Named { path, id } => {
                let file = self.reach(path, id, OFlags::RDONLY)?;
                sync(file.as_fd()).map_err(|e| self.failed("sync", path, e))
            }
            Target::Open(source) => on_descriptor(source, |file| {
                sync(file).map_err(|e| {
                    let name = name_of_open(file);
                    Error::io(format!("cannot sync {}", name.display()), e)
                })
            })?,
        }
    }

    /// Many files at once are less work together with all others than one after another.
    fn sync_many(&self, of: &[Target<'_>]) -> Result<()> {
        match of.len() {
            0..MANY => of.iter().try_for_each(|of| self.sync(*of, false)),
            _ => self.sync_file_system(),
        }
    }

    fn sync_all(&self, _: Target<'_>) -> Result<()> {
        self.sync_file_system()
    }

    fn sync_named(&self, file: &dyn Source, directory: Target<'_>) -> Result<()> {
        self.sync(Target::Open(file), false)?;
        match self.names_follow == Some(file.id().device) {
            true => Ok(()),
            false => self.sync(directory, false),
        }
    }
}
