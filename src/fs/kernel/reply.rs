//! Our attributes in FUSE's terms.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo};

use crate::source::{FileKind, SpecialKind, Timestamp};
use crate::tree::{Attr, ListedEntry};

/// How long the kernel believes names and attributes. Opening a file always asks, so this bounds
/// only how long `stat` may show the container as it was before a change.
pub(super) const TTL: Duration = Duration::from_secs(1);

/// How long the kernel believes what a listing says of an entry.
pub(super) fn ttl(entry: Option<&ListedEntry>) -> Duration {
    match entry {
        Some(entry) if !entry.seen => Duration::ZERO,
        Some(entry) => attr_ttl(&entry.attr),
        None => TTL,
    }
}

/// How long it believes attributes.
pub(super) fn attr_ttl(attr: &Attr) -> Duration {
    match attr.follows {
        true => Duration::ZERO,
        false => TTL,
    }
}

/// The unit that `stat` recommends.
const BLOCK_SIZE: u32 = 1 << 17;

/// `cp` and others write as much at a time as `stat` says when they have opened a file, and each
/// write costs its way there and back. A program that reads here and there would read as much, too:
/// so only files that are written say so.
fn block_size(attr: &Attr) -> u32 {
    match attr.is_written {
        true => super::config::WRITE,
        false => BLOCK_SIZE,
    }
}

/// What is stored, and a block at least of everything that has bytes: programs that keep holes
/// (`tar -S`) take what has none for one hole, and read nothing of it. The bytes may be held,
/// staged, made up, or in the kernel alone. A link has its bytes in its inode.
fn blocks(attr: &Attr) -> u64 {
    match attr.kind {
        FileKind::Symlink => attr.blocks,
        _ => attr.blocks.max(attr.size.min(1)),
    }
}

pub(super) fn file_attr(attr: &Attr) -> FileAttr {
    FileAttr {
        ino: INodeNo(attr.inode.0),
        size: attr.size,
        blocks: blocks(attr),
        atime: time(attr.atime),
        mtime: time(attr.mtime),
        ctime: time(attr.ctime),
        crtime: UNIX_EPOCH,
        kind: file_type(attr.kind),
        perm: attr.mode,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        blksize: block_size(attr),
        flags: 0,
    }
}

/// For `.` and `..` in a listing: only the kind and the number are looked at.
pub(super) fn dot_attr(inode: INodeNo) -> FileAttr {
    FileAttr {
        ino: inode,
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: FileType::Directory,
        perm: 0,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: BLOCK_SIZE,
        flags: 0,
    }
}

pub(super) fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::File => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Other(SpecialKind::Fifo) => FileType::NamedPipe,
        FileKind::Other(SpecialKind::Socket) => FileType::Socket,
        FileKind::Other(SpecialKind::CharDevice) => FileType::CharDevice,
        FileKind::Other(SpecialKind::BlockDevice) => FileType::BlockDevice,
    }
}

fn time(stamp: Timestamp) -> SystemTime {
    let nanos = Duration::from_nanos(u64::from(stamp.nanos));
    let secs = Duration::from_secs(stamp.secs.unsigned_abs());
    let whole = if stamp.secs < 0 {
        UNIX_EPOCH.checked_sub(secs)
    } else {
        UNIX_EPOCH.checked_add(secs)
    };
    whole
        .and_then(|t| t.checked_add(nanos))
        .unwrap_or(UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_keep_their_fraction() {
        let before = time(Timestamp {
            secs: -2,
            nanos: 500_000_000,
        });
        assert_eq!(
            UNIX_EPOCH.duration_since(before).unwrap(),
            Duration::from_millis(1500)
        );
    }
}
