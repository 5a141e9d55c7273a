//! Attributes of everything in the mount: owner, mode and times of the source, sizes of the arrays.

use super::inode::InodeId;
use super::ordinary::StalePages;
use super::settings::Settings;
use crate::live::owner::Owner;
use crate::live::shown::entry_stat::EntryStat;
use crate::source::{FileKind, Stat, Timestamp};

/// What `stat` shows.
#[derive(Debug, Clone)]
pub struct Attr {
    pub inode: InodeId,
    pub kind: FileKind,
    pub size: u64,
    /// 512-byte units.
    pub blocks: u64,
    pub mode: u16,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    pub rdev: u32,
    pub atime: Timestamp,
    pub mtime: Timestamp,
    pub ctime: Timestamp,
    /// Another process has changed the file: the kernel's pages of it are to go before it hears of
    /// anything else.
    pub stale: Option<StalePages>,
    /// An array that has been opened for writing: to be written in large pieces.
    pub is_written: bool,
    /// It follows from arrays that are written: the kernel is to ask each time.
    pub follows: bool,
}

/// The rights of a directory that is a file in the source: users who may read it may also enter.
pub(super) fn enterable(mode: u16) -> u16 {
    (mode & 0o777) | (mode & 0o444) >> 2
}

impl Attr {
    /// An entry of the source; a container that is a file becomes a directory.
    pub(super) fn of_source(
        inode: InodeId,
        stat: &Stat,
        is_container: bool,
        settings: &Settings,
    ) -> Attr {
        if is_container && stat.kind == FileKind::File {
            return Attr::directory(inode, &Owner::of(stat), settings);
        }
        let attr = Attr {
            kind: stat.kind,
            blocks: stat.blocks,
            mode: settings.shown_mode(stat.mode, stat.list.as_deref()),
            nlink: stat.nlink,
            rdev: stat.rdev,
            ..Attr::file(inode, &Owner::of(stat), stat.size, 0, settings)
        };
        attr.shown(settings)
    }

    /// A directory that is not one in the source.
    pub(super) fn directory(inode: InodeId, owner: &Owner, settings: &Settings) -> Attr {
        let mode = enterable(settings.shown_mode(owner.mode, owner.list.as_deref()));
        Attr {
            kind: FileKind::Directory,
            mode,
            ..Attr::file(inode, owner, 0, 0, settings)
        }
        .shown(settings)
    }

    /// `stored`: bytes in the container, shown as blocks.
    pub(super) fn file(
        inode: InodeId,
        owner: &Owner,
        size: u64,
        stored: u64,
        settings: &Settings,
    ) -> Attr {
        let attr = Attr {
            inode,
            kind: FileKind::File,
            size,
            blocks: stored.div_ceil(512),
            mode: settings.shown_mode(owner.mode, owner.list.as_deref()) & 0o666,
            nlink: 1,
            uid: owner.uid,
            gid: owner.gid,
            rdev: 0,
            atime: owner.atime,
            mtime: owner.mtime,
            ctime: owner.ctime,
            stale: None,
            is_written: false,
            follows: false,
        };
        attr.shown(settings)
    }

    /// An entry that could not be looked at: only its kind is known, and no user is let in.
    pub(super) fn unseen(inode: InodeId, kind: FileKind, settings: &Settings) -> Attr {
        let nobody = Owner {
            uid: 0,
            gid: 0,
            mode: 0,
            list: None,
            atime: Timestamp::default(),
            mtime: Timestamp::default(),
            ctime: Timestamp::default(),
        };
        Attr {
            kind,
            ..Attr::file(inode, &nobody, 0, 0, settings)
        }
    }

    /// An entry of a container.
    pub(super) fn of_entry(inode: InodeId, stat: &EntryStat, settings: &Settings) -> Attr {
        let attr = match stat.kind {
            FileKind::Directory => Attr::directory(inode, &stat.owner, settings),
            // The mode of a link means nothing.
            FileKind::Symlink => Attr {
                kind: FileKind::Symlink,
                mode: 0o777 & !settings.umask.unwrap_or(0),
                ..Attr::file(inode, &stat.owner, stat.size, 0, settings)
            },
            FileKind::File | FileKind::Other(_) => {
                Attr::file(inode, &stat.owner, stat.size, stat.stored, settings)
            }
        };
        Attr {
            nlink: stat.names,
            is_written: stat.is_written,
            follows: stat.follows,
            ..attr
        }
    }

    fn shown(mut self, settings: &Settings) -> Attr {
        self.uid = settings.uid.unwrap_or(self.uid);
        self.gid = settings.gid.unwrap_or(self.gid);
        self.mode &= !settings.umask.unwrap_or(0);
        self
    }
}
