//! Owner, rights and times that all entries of a container share.
//!
//! Used by [`super::version`], and by `tree::attr` for entries of the source.

use std::sync::Arc;

use crate::container::MemberStats;
use crate::source::acl::AccessList;
use crate::source::{Stat, Timestamp};

#[derive(Debug, Clone)]
pub struct Owner {
    pub uid: u32,
    pub gid: u32,
    /// Permission bits of the stored file, as far as they hold without its list.
    pub mode: u16,
    /// The access control list, where one can say who may use all files.
    pub list: Option<Arc<AccessList>>,
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
            list: stat.list.clone(),
            atime: stat.atime,
            mtime: stat.mtime,
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
            && self.list == other.list
    }

    /// The mode that is shown beside the list.
    pub(crate) fn mode_with_list(&self) -> u16 {
        self.list.as_ref().map_or(self.mode, |list| list.mode())
    }

    /// Changes the rights of each class; `change` is given the bits of a mode.
    pub(crate) fn map_rights(&mut self, change: impl Fn(u16) -> u16) {
        self.mode = change(self.mode);
        self.list = self.list.take().map(|list| Arc::new(list.map(change)));
    }

    /// An array made of several files may be read by the users who may read each of them.
    pub fn restrict(&mut self, member: &Stat) {
        let is_same_owner = (member.uid, member.gid) == (self.uid, self.gid);
        self.list = match (self.list.take(), &member.list) {
            (Some(own), Some(its)) if is_same_owner => own.of_both(its).map(Arc::new),
            _ => None,
        };
        if !is_same_owner {
            let others = member.mode & 0o7;
            self.mode &= others << 6 | others << 3 | others;
        }
        self.mode &= member.mode;
        self.mtime = self.mtime.max(member.mtime);
        self.ctime = self.ctime.max(member.ctime);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use super::*;
    use crate::source::PosixStore;
    use crate::source::local::LocalStore;

    /// `user::rw-,user:NUMBER:ALLOWED,group::---,mask::rw-,other::---`.
    fn let_in(path: &Path, number: u32, allowed: u16) -> bool {
        let entries = [(1, 6, u32::MAX), (2, allowed, number), (4, 0, u32::MAX)];
        let last = [(0x10, 6, u32::MAX), (0x20, 0, u32::MAX)];
        let mut list = 2u32.to_le_bytes().to_vec();
        for (tag, allowed, number) in entries.into_iter().chain(last) {
            list.extend(u16::to_le_bytes(tag));
            list.extend(u16::to_le_bytes(allowed));
            list.extend(u32::to_le_bytes(number));
        }
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(path, crate::source::acl::ACCESS, &list, flags).is_ok()
    }

    #[test]
    fn who_may_use_all_files_is_named_if_they_name_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let store = LocalStore::open(directory.path(), directory.path()).unwrap();
        for name in ["one", "two", "else", "plain"] {
            let path = directory.path().join(name);
            std::fs::write(&path, "").unwrap();
            let closed = std::fs::Permissions::from_mode(0o640);
            std::fs::set_permissions(path, closed).unwrap();
        }
        let file = |name: &str| directory.path().join(name);
        let set = let_in(&file("one"), 7, 6) && let_in(&file("two"), 7, 4);
        if !set || !let_in(&file("else"), 8, 6) {
            eprintln!("not tested: the file system has no access control lists");
            return;
        }
        let stat = |name: &str| store.stat_with_list(Path::new(name)).unwrap();
        let both = |one: &str, two: &str| {
            let mut owner = Owner::of(&stat(one));
            owner.restrict(&stat(two));
            owner
        };
        let named = both("one", "two");
        assert_eq!(named.list, stat("two").list, "each has what both allow");
        assert_eq!((named.mode_with_list(), named.mode), (0o660, 0o600));
        for (one, two) in [("one", "else"), ("one", "plain"), ("plain", "one")] {
            let owner = both(one, two);
            assert_eq!((owner.list, owner.mode), (None, 0o600), "{one}, {two}");
        }
        assert_eq!(both("plain", "plain").mode_with_list(), 0o640);
    }
}
