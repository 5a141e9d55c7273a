//! Owner, mode and times that all entries of a container share.
//!
//! Used by [`super::version`], and by `tree::attr` for entries of the source.

use crate::container::MemberStats;
use crate::source::{Stat, Timestamp};

#[derive(Debug, Clone, Copy)]
pub struct Owner {
    pub uid: u32,
    pub gid: u32,
    /// Permission bits of the stored file.
    pub mode: u16,
    pub atime: Timestamp,
    pub mtime: Timestamp,
    pub ctime: Timestamp,
}

impl Owner {
    pub fn of(stat: &Stat) -> Self {
        Owner {
            uid: stat.uid,
            gid: stat.gid,
            mode: stat.mode,
            atime: stat.atime,
            mtime: stat.identity.mtime,
            ctime: stat.ctime,
        }
    }

    /// Of the files of a container together.
    pub(crate) fn of_container(found: &MemberStats) -> Self {
        let mut owner = Owner::of(&found.own);
        for member in found.members.iter().flatten() {
            owner.restrict(member);
        }
        owner
    }

    /// Whether it lets in the same users as another.
    pub(crate) fn lets_in_as(&self, other: &Owner) -> bool {
        (self.uid, self.gid, self.mode) == (other.uid, other.gid, other.mode)
    }

    /// An array made of several files may be read by the users who may read each of them.
    pub fn restrict(&mut self, member: &Stat) {
        if (member.uid, member.gid) != (self.uid, self.gid) {
            let others = member.mode & 0o7;
            self.mode &= others << 6 | others << 3 | others;
        }
        self.mode &= member.mode;
        self.mtime = self.mtime.max(member.identity.mtime);
        self.ctime = self.ctime.max(member.ctime);
    }
}
