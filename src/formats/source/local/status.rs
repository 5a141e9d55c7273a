//! What the system says of a file: `statx`, and `fstatat` where that is missing or forbidden.
//!
//! `statx` also reports when a file was born and through which mount it was reached. Where the
//! system does not say, both are 0: then a file whose number was given away again passes for the
//! old one. A file that a commit makes longer is told as before ([`super::growing`]). Used by
//! [`super`] and by `disk`.

use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::{self, AtFlags, FileType, Statx, StatxFlags, StatxTimestamp};
use rustix::io::{Errno, Result};

use super::growing::as_before;
use crate::source::{FileId, FileKind, MountId, SpecialKind, Stat, Timestamp};

/// Of an entry of `directory`, which is not followed if it is a link.
pub(crate) fn of_entry(directory: BorrowedFd<'_>, name: &Path) -> Result<Stat> {
    as_before(|| ask(directory, name, AtFlags::SYMLINK_NOFOLLOW))
}

/// Of an opened file.
pub fn of_file(file: BorrowedFd<'_>) -> Result<Stat> {
    as_before(|| ask(file, Path::new(""), AtFlags::EMPTY_PATH))
}

/// As it is, also if it grows.
pub(super) fn ask(directory: BorrowedFd<'_>, name: &Path, flags: AtFlags) -> Result<Stat> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME | StatxFlags::MNT_ID;
    match fs::statx(directory, name, flags, wanted) {
        Ok(found) => Ok(of_statx(&found)),
        // Filters of system calls answer one that they do not know with either.
        Err(Errno::NOSYS | Errno::PERM) => Ok(of_stat(&fs::statat(directory, name, flags)?)),
        Err(e) => Err(e),
    }
}

fn of_statx(found: &Statx) -> Stat {
    let told = |what: StatxFlags, value| match found.stx_mask & what.bits() {
        0 => 0,
        _ => value,
    };
    Stat {
        kind: kind(FileType::from_raw_mode(found.stx_mode.into())),
        id: FileId {
            device: fs::makedev(found.stx_dev_major, found.stx_dev_minor),
            inode: found.stx_ino,
            birth: told(StatxFlags::BTIME, birth(&found.stx_btime)),
        },
        size: found.stx_size,
        mtime: timestamp(&found.stx_mtime),
        tag: None,
        mount: MountId(told(StatxFlags::MNT_ID, found.stx_mnt_id)),
        blocks: found.stx_blocks,
        mode: found.stx_mode & 0o7777,
        list: None,
        uid: found.stx_uid,
        gid: found.stx_gid,
        nlink: found.stx_nlink,
        rdev: device_number(fs::makedev(found.stx_rdev_major, found.stx_rdev_minor)),
        atime: timestamp(&found.stx_atime),
        ctime: timestamp(&found.stx_ctime),
    }
}

#[allow(
    clippy::unnecessary_cast,
    reason = "the field types differ between architectures"
)]
fn of_stat(found: &fs::Stat) -> Stat {
    let nanos = |nanos| u32::try_from(nanos).unwrap_or(0);
    Stat {
        kind: kind(FileType::from_raw_mode(found.st_mode)),
        id: FileId {
            device: found.st_dev as u64,
            inode: found.st_ino as u64,
            birth: 0,
        },
        size: u64::try_from(found.st_size).unwrap_or(0),
        mtime: Timestamp {
            secs: found.st_mtime as i64,
            nanos: nanos(found.st_mtime_nsec),
        },
        tag: None,
        mount: MountId(0),
        blocks: u64::try_from(found.st_blocks).unwrap_or(0),
        mode: (found.st_mode & 0o7777) as u16,
        list: None,
        uid: found.st_uid,
        gid: found.st_gid,
        nlink: u32::try_from(found.st_nlink).unwrap_or(u32::MAX),
        rdev: device_number(found.st_rdev as u64),
        atime: Timestamp {
            secs: found.st_atime as i64,
            nanos: nanos(found.st_atime_nsec),
        },
        ctime: Timestamp {
            secs: found.st_ctime as i64,
            nanos: nanos(found.st_ctime_nsec),
        },
    }
}

fn timestamp(time: &StatxTimestamp) -> Timestamp {
    Timestamp {
        secs: time.tv_sec,
        nanos: time.tv_nsec,
    }
}

/// Distinct for distinct times; never 0, which says that it is unknown.
fn birth(born: &StatxTimestamp) -> u64 {
    let nanos = born.tv_sec.wrapping_mul(1_000_000_000);
    nanos
        .wrapping_add(born.tv_nsec.into())
        .cast_unsigned()
        .max(1)
}

/// As FUSE has it: in 32 bits.
fn device_number(device: u64) -> u32 {
    u32::try_from(device).unwrap_or(0)
}

pub(super) fn kind(file_type: FileType) -> FileKind {
    match file_type {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        FileType::Fifo => FileKind::Other(SpecialKind::Fifo),
        FileType::Socket => FileKind::Other(SpecialKind::Socket),
        FileType::BlockDevice => FileKind::Other(SpecialKind::BlockDevice),
        FileType::CharacterDevice | FileType::Unknown => FileKind::Other(SpecialKind::CharDevice),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn both_ways_of_asking_agree() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("x"), [0; 5000]).unwrap();
        let opened = std::fs::File::open(directory.path()).unwrap();
        for name in ["x", "."] {
            let asked = of_entry(opened.as_fd(), Path::new(name)).unwrap();
            let found = fs::statat(&opened, name, AtFlags::empty()).unwrap();
            let mut old = of_stat(&found);
            old.id.birth = asked.id.birth;
            old.mount = asked.mount;
            assert_eq!(format!("{asked:?}"), format!("{old:?}"));
        }
        let file = std::fs::File::open(directory.path().join("x")).unwrap();
        let by_name = of_entry(opened.as_fd(), Path::new("x")).unwrap();
        assert_eq!(
            of_file(file.as_fd()).unwrap().identity(),
            by_name.identity()
        );
    }
}
