//! The yardstick of `scripts/bench.sh`: a file system as small as fuser allows, which answers a
//! directory and all below it from memory, or writes to the files of a directory of the disk.
//!
//!     minimal-server DIR MOUNTPOINT            from memory, read-only, as root
//!     minimal-server --disk DIR MOUNTPOINT     on the disk, writable (`minimal_disk`)
//!
//! It stays in the foreground and ends when it is unmounted. It mounts, asks for capabilities,
//! opens and serves as arrayfs does (`src/fs/kernel`): what arrayfs needs longer for the same bytes is
//! its own work, not FUSE's.

mod minimal_disk;

use std::collections::HashMap;
use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen, Request, Session,
    SessionACL,
};
use minimal_disk::Disk;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use rustix::mount::{MountFlags, mount};

const TTL: Duration = Duration::from_secs(1);
const READ: u32 = 256 << 10;
const WRITE: u32 = 1 << 20;
const GENERATION: Generation = Generation(0);

/// Those of `kernel::config`, without passthrough: the server itself must answer.
const WANTED: &[InitFlags] = &[
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_ASYNC_DIO,
    InitFlags::FUSE_EXPLICIT_INVAL_DATA,
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
    InitFlags::FUSE_CACHE_SYMLINKS,
    InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
];

/// As `kernel::config`.
fn configure(config: &mut KernelConfig) {
    for &flag in WANTED {
        // Refused only when the kernel does not offer it.
        let _ = config.add_capabilities(flag);
    }
    let _ = config.set_max_background(64);
    let _ = config.set_max_write(WRITE);
    let _ = config
        .set_max_readahead(READ)
        .map_err(|most| config.set_max_readahead(most));
}

/// What stands at a number: [`INodeNo::ROOT`] is the first.
enum Stored {
    Directory(Vec<(OsString, INodeNo)>),
    File(Vec<u8>),
}

struct Minimal {
    nodes: Vec<Stored>,
    by_name: HashMap<(INodeNo, OsString), INodeNo>,
}

impl Minimal {
    fn load(directory: &Path) -> io::Result<Self> {
        let mut minimal = Minimal {
            nodes: Vec::new(),
            by_name: HashMap::new(),
        };
        minimal.add(directory)?;
        Ok(minimal)
    }

    /// Takes a directory or a file, and all below it, into memory.
    fn add(&mut self, path: &Path) -> io::Result<INodeNo> {
        self.nodes.push(Stored::File(Vec::new()));
        let (index, ino) = (self.nodes.len() - 1, INodeNo(self.nodes.len() as u64));
        self.nodes[index] = if path.is_dir() {
            let mut entries = Vec::new();
            for entry in fs::read_dir(path)? {
                let entry = entry?;
                let child = self.add(&entry.path())?;
                self.by_name.insert((ino, entry.file_name()), child);
                entries.push((entry.file_name(), child));
            }
            Stored::Directory(entries)
        } else {
            Stored::File(fs::read(path)?)
        };
        Ok(ino)
    }

    fn stored(&self, ino: INodeNo) -> Option<&Stored> {
        let index = usize::try_from(ino.0.checked_sub(1)?).ok()?;
        self.nodes.get(index)
    }

    /// Names from `offset` on, with the offset behind each.
    fn entries(
        &self,
        ino: INodeNo,
        offset: u64,
    ) -> impl Iterator<Item = (INodeNo, u64, FileAttr, &OsStr)> {
        let entries = match self.stored(ino) {
            Some(Stored::Directory(entries)) => entries.as_slice(),
            _ => &[],
        };
        let skip = usize::try_from(offset).unwrap_or(usize::MAX);
        let numbered = entries.iter().zip(1u64..).skip(skip);
        numbered.filter_map(|((name, child), next)| {
            Some((*child, next, self.attr(*child)?, name.as_os_str()))
        })
    }

    fn attr(&self, ino: INodeNo) -> Option<FileAttr> {
        let (kind, perm, size) = match self.stored(ino)? {
            Stored::File(bytes) => (FileType::RegularFile, 0o444, bytes.len() as u64),
            Stored::Directory(_) => (FileType::Directory, 0o555, 0),
        };
        Some(FileAttr {
            ino,
            size,
            blocks: size.div_ceil(512),
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 1 << 17,
            flags: 0,
        })
    }
}

impl Filesystem for Minimal {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> io::Result<()> {
        configure(config);
        Ok(())
    }

    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.by_name.get(&(parent, name.to_owned()));
        match found.and_then(|&ino| self.attr(ino)) {
            Some(attr) => reply.entry(&TTL, &attr, GENERATION),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        match self.attr(ino) {
            Some(attr) => reply.attr(&TTL, &attr),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _req: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
    }

    fn read(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let Some(Stored::File(file)) = self.stored(ino) else {
            return reply.error(Errno::EISDIR);
        };
        let start = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(file.len());
        let end = start.saturating_add(size as usize).min(file.len());
        reply.data(&file[start..end]);
    }

    fn flush(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::ENOSYS);
    }

    /// The kernel remembers it and opens directories by itself.
    fn opendir(&self, _req: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.error(Errno::ENOSYS);
    }

    fn readdir(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        for (child, next, attr, name) in self.entries(ino, offset) {
            if reply.add(child, next, attr.kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn readdirplus(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        for (child, next, attr, name) in self.entries(ino, offset) {
            if reply.add(child, next, name, &TTL, &attr, GENERATION) {
                break;
            }
        }
        reply.ok();
    }
}

fn main() -> io::Result<()> {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let (on_disk, places) = match arguments.split_first() {
        Some((first, rest)) if first == "--disk" => (true, rest),
        _ => (false, arguments.as_slice()),
    };
    let [directory, mountpoint] = places else {
        eprintln!("usage: minimal-server [--disk] DIR MOUNTPOINT");
        std::process::exit(2);
    };
    let (directory, mountpoint) = (Path::new(directory), Path::new(mountpoint));
    if on_disk {
        let access = MountOption::RW;
        serve(Disk::new(directory.to_owned()), mountpoint, access)
    } else {
        serve(Minimal::load(directory)?, mountpoint, MountOption::RO)
    }
}

fn serve(files: impl Filesystem, mountpoint: &Path, access: MountOption) -> io::Result<()> {
    let mut config = Config::default();
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    config.n_threads = Some(cores.clamp(4, 16));
    config.clone_fd = true;
    config.acl = SessionACL::Owner;
    if !rustix::process::geteuid().is_root() {
        // Through fusermount3, which sets no read-ahead.
        config.mount_options = vec![
            MountOption::Subtype("minimal".into()),
            access,
            MountOption::DefaultPermissions,
            MountOption::CUSTOM(format!("max_read={READ}")),
        ];
        return Session::new(files, mountpoint, &config)?.run();
    }
    let device = File::options().read(true).write(true).open("/dev/fuse")?;
    mount_at(mountpoint, &device, access == MountOption::RO)?;
    let session = Session::from_fd(files, device.into(), config.acl, config)?;
    read_ahead(mountpoint)?;
    session.run()
}

/// As `daemon::readahead`: what `arrayfs mount` sets by default.
fn read_ahead(mountpoint: &Path) -> io::Result<()> {
    let flags = AtFlags::STATX_DONT_SYNC;
    let found = statx(CWD, mountpoint, flags, StatxFlags::empty())?;
    let (major, minor) = (found.stx_dev_major, found.stx_dev_minor);
    fs::write(
        format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb"),
        "512",
    )
}

/// As `kernel::root_mount`, under another type.
fn mount_at(mountpoint: &Path, device: &File, read_only: bool) -> io::Result<()> {
    let data = format!(
        "fd={},rootmode={:o},user_id={},group_id={},default_permissions,max_read={READ}",
        device.as_raw_fd(),
        fs::metadata(mountpoint)?.mode(),
        rustix::process::getuid(),
        rustix::process::getgid()
    );
    let mut flags = MountFlags::NOSUID | MountFlags::NODEV;
    flags.set(MountFlags::RDONLY, read_only);
    let data = CString::new(data)?;
    mount(
        "minimal-server",
        mountpoint,
        "fuse.minimal",
        flags,
        data.as_c_str(),
    )?;
    Ok(())
}
