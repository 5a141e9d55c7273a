//! What a request says, in the tree's terms.
//!
//! Used by `adapter`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileHandle, INodeNo, OpenFlags, RenameFlags, Request, TimeOrNow, WriteFlags};

use crate::disk::{Caller, Durability, NewEntry, NewTime, Putting, Renaming, XattrSetting};
use crate::source::{SpecialKind, Timestamp};
use crate::tree::{HandleId, InodeId};

pub(super) fn id(ino: INodeNo) -> InodeId {
    InodeId(ino.0)
}

pub(super) fn handle(fh: FileHandle) -> HandleId {
    HandleId(fh.0)
}

/// What outlives the request's buffer; none if there is no memory for it.
pub(super) fn owned(data: &[u8]) -> Option<Vec<u8>> {
    let mut owned = Vec::new();
    owned.try_reserve_exact(data.len()).ok()?;
    owned.extend_from_slice(data);
    Some(owned)
}

pub(super) fn caller(request: &Request) -> Caller {
    Caller {
        uid: request.uid(),
        gid: request.gid(),
        umask: 0,
    }
}

/// The caller of a request that makes something.
pub(super) fn maker(request: &Request, umask: u32) -> Caller {
    Caller {
        umask,
        ..caller(request)
    }
}

/// Whether a caller may keep the set-group-id bit of files of this group: its members may, and
/// root. The kernel knows, but tells it in a form of setxattr that fuser 0.18 cannot read.
pub(super) fn keeps_group_bit(caller: Caller, pid: u32, gid: u32) -> bool {
    caller.uid == 0
        || caller.gid == gid
        || std::fs::read_to_string(format!("/proc/{pid}/status"))
            .is_ok_and(|status| groups_in(&status).any(|group| group == gid))
}

/// Supplementary groups, as the system describes a process.
fn groups_in(status: &str) -> impl Iterator<Item = u32> {
    let groups = status
        .lines()
        .find_map(|line| line.strip_prefix("Groups:"))
        .unwrap_or_default();
    groups
        .split_whitespace()
        .filter_map(|group| group.parse().ok())
}

/// Whether a file is opened for writing.
pub(super) fn writes(flags: OpenFlags) -> bool {
    flags.0 & libc::O_ACCMODE != libc::O_RDONLY
}

/// What the page cache writes goes where its page is, whatever the file was opened with.
pub(super) fn putting(flags: OpenFlags, write: WriteFlags) -> Putting {
    if write.contains(WriteFlags::FUSE_WRITE_CACHE) {
        return Putting {
            of_mapping: true,
            ..Putting::default()
        };
    }
    let durable = match flags.0 & libc::O_SYNC {
        libc::O_SYNC => Durability::All,
        libc::O_DSYNC => Durability::Data,
        _ => Durability::Later,
    };
    Putting {
        append: flags.0 & libc::O_APPEND != 0,
        of_mapping: false,
        durable,
    }
}

/// What mknod(2) is asked to make; none if nothing like it can be made.
pub(super) fn new_entry(mode: u32, device: u32) -> Option<NewEntry<'static>> {
    let special = |kind| NewEntry::Special { kind, mode, device };
    match mode & libc::S_IFMT {
        libc::S_IFREG | 0 => Some(NewEntry::File { mode }),
        libc::S_IFIFO => Some(special(SpecialKind::Fifo)),
        libc::S_IFSOCK => Some(special(SpecialKind::Socket)),
        libc::S_IFCHR => Some(special(SpecialKind::CharDevice)),
        libc::S_IFBLK => Some(special(SpecialKind::BlockDevice)),
        _ => None,
    }
}

/// How a name is changed, but for what it leaves ([`RenameFlags::RENAME_WHITEOUT`]); none for what
/// the kernel alone knows.
pub(super) fn renaming(flags: RenameFlags) -> Option<Renaming> {
    match flags - RenameFlags::RENAME_WHITEOUT {
        flags if flags.is_empty() => Some(Renaming::Over),
        RenameFlags::RENAME_NOREPLACE => Some(Renaming::NoReplace),
        RenameFlags::RENAME_EXCHANGE => Some(Renaming::Exchange),
        _ => None,
    }
}

pub(super) fn xattr_setting(flags: i32) -> Option<XattrSetting> {
    match flags {
        0 => Some(XattrSetting::Any),
        libc::XATTR_CREATE => Some(XattrSetting::Create),
        libc::XATTR_REPLACE => Some(XattrSetting::Replace),
        _ => None,
    }
}

pub(super) fn new_time(time: TimeOrNow) -> NewTime {
    match time {
        TimeOrNow::Now => NewTime::Now,
        TimeOrNow::SpecificTime(time) => NewTime::At(timestamp(time)),
    }
}

/// fuser 0.18 takes the nanoseconds of a time before 1970 from the seconds instead of adding them:
/// what it says is -(seconds + nanoseconds), whereas the kernel said -seconds + nanoseconds.
fn timestamp(time: SystemTime) -> Timestamp {
    let signed = |since: Duration| i64::try_from(since.as_secs());
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => Timestamp {
            secs: signed(since).unwrap_or(i64::MAX),
            nanos: since.subsec_nanos(),
        },
        Err(before) => Timestamp {
            secs: signed(before.duration()).map_or(i64::MIN, |secs| -secs),
            nanos: before.duration().subsec_nanos(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_are_what_the_kernel_said() {
        // As fuser reads -2 s and 250 ms.
        let told = UNIX_EPOCH - Duration::new(2, 250_000_000);
        let (secs, nanos) = (-2, 250_000_000);
        assert_eq!(timestamp(told), Timestamp { secs, nanos });
        let after = UNIX_EPOCH + Duration::new(2, 5);
        assert_eq!(timestamp(after), Timestamp { secs: 2, nanos: 5 });
    }

    #[test]
    fn groups_are_those_that_the_system_names() {
        let status = "Name:\tsh\nGid:\t7\t7\t7\t7\nGroups:\t4 24 1000 \nNStgid:\t5\n";
        assert!(groups_in(status).eq([4, 24, 1000]));
        assert_eq!(groups_in("Groups:\n").count() + groups_in("").count(), 0);
        let somebody = Caller::of(1234, 1234);
        assert!(keeps_group_bit(somebody, 0, 1234) && !keeps_group_bit(somebody, 0, 4));
        assert!(keeps_group_bit(Caller::of(0, 0), 0, 4));
    }

    #[test]
    fn what_the_page_cache_writes_is_never_appended() {
        let flags = OpenFlags(libc::O_WRONLY | libc::O_APPEND | libc::O_SYNC);
        let written = putting(flags, WriteFlags::empty());
        assert!(written.append && written.durable == Durability::All);
        let mapped = putting(flags, WriteFlags::FUSE_WRITE_CACHE);
        let expected = Putting {
            of_mapping: true,
            ..Putting::default()
        };
        assert_eq!(mapped, expected);
        let data = putting(OpenFlags(libc::O_DSYNC), WriteFlags::empty());
        assert_eq!(data.durable, Durability::Data);
    }
}
