//! The new files of a commit while they are told: one beside each old file that changes, under a hidden name.
//!
//! A file is made when something is told of it for the first time; what is not told of stays as it is. All of them are given what
//! the old ones have (mode, group, extended attributes) and synced before anybody sees them. Used by [`super::replaced`].

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::sync::Arc;

use super::exchange::Swap;
use super::fingerprint::fingerprint;
use super::new_container::create_hidden;
use super::{Commit, SHARED_FROM, SeenFile, beside};
use crate::container::rewrite::{MemberNumber, Recipe};
use crate::disk::reopened::{Hooks, ReopenedFile};
use crate::disk::{Caller, DiskFile, NewAttributes, NewTime, Putting, Target, XattrSetting};
use crate::error::{Error, Result};
use crate::source::{Source, Stat};
use crate::stage::log::NewFileRecord;
use crate::stage::new_name;

/// Whether new files begin with all bytes of the old ones, which the two share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sharing {
    Never,
    /// Nothing is made of a file that cannot.
    Always,
    /// A large file does if it can.
    WhereItCan,
}

pub(super) struct NewFiles<'a> {
    commit: &'a Commit<'a>,
    /// The container's first file, as it is: what a file that is missing would be like.
    first: &'a Stat,
    sharing: Sharing,
    made: BTreeMap<MemberNumber, NewMember>,
    /// A file that had to share bytes with the old one cannot.
    pub(super) cannot_share: bool,
}

/// A new file beside an old one.
struct NewMember {
    seen: SeenFile,
    new_name: OsString,
    file: Arc<ReopenedFile>,
    /// None: there is none of that name.
    old: Option<OldFile>,
    /// It has had all bytes of the old one from the start.
    shares: bool,
    owner: Caller,
    /// What the disk has not begun to write.
    waiting: Range<u64>,
}

struct OldFile {
    source: Arc<dyn Source>,
    stat: Stat,
}

/// The disk begins to write so much of a new file as soon as it is there, so that little is left to wait for.
const WRITEBACK: u64 = 2 << 20;

impl<'a> NewFiles<'a> {
    pub(super) fn new(commit: &'a Commit<'a>, first: &'a Stat, sharing: Sharing) -> Self {
        NewFiles {
            commit,
            first,
            sharing,
            made: BTreeMap::new(),
            cannot_share: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.made.is_empty()
    }

    fn file(&mut self, number: MemberNumber) -> Result<&mut NewMember> {
        if !self.made.contains_key(&number) {
            let made = self.make(number)?;
            self.made.insert(number, made);
        }
        let file = self.made.get_mut(&number);
        file.ok_or_else(|| Error::Bug("a new file has gone".into()))
    }

    fn make(&mut self, number: MemberNumber) -> Result<NewMember> {
        let commit = self.commit;
        let seen = commit.seen.get(number.0 as usize);
        let seen = seen.ok_or_else(|| Error::Bug("there is no such file".into()))?;
        let old = match seen.identity {
            Some(_) => Some(OldFile {
                source: commit.source_of(seen)?,
                stat: commit.store.stat(&beside(commit.spot, &seen.name))?,
            }),
            None => None,
        };
        let ours = rustix::process::geteuid().as_raw();
        if let Some(old) = old.as_ref().filter(|old| ours != 0 && old.stat.uid != ours)
            && commit.is_directory
        {
            let doing = format!(
                "cannot replace {}, which is user {}'s",
                seen.name.display(),
                old.stat.uid
            );
            let cause = std::io::Error::from_raw_os_error(libc::EPERM);
            return Err(Error::io(doing, cause));
        }
        let owner = commit.owner(old.as_ref().map_or(self.first, |old| &old.stat));
        let new_name = new_name(&seen.name);
        let file = create_hidden(&**commit.disk, commit.spot, &new_name, 0o600, owner)?;
        let path = beside(commit.spot, &new_name);
        let file = ReopenedFile::new(commit.disk, path, file, Hooks::NONE)?;
        let mut made = NewMember {
            seen: seen.clone(),
            new_name,
            file,
            old,
            shares: false,
            owner,
            waiting: 0..0,
        };
        let shared = made.take_group(commit, self.first);
        let shared = shared.and_then(|()| self.share(&mut made));
        if matches!(shared, Ok(true)) {
            return Ok(made);
        }
        made.remove_ours(commit);
        shared?;
        self.cannot_share = true;
        Err(short())
    }

    /// False if it cannot, and has to.
    fn share(&self, made: &mut NewMember) -> Result<bool> {
        let (disk, sharing) = (self.commit.disk, self.sharing);
        let Some(old) = made.old.as_ref() else {
            return Ok(true);
        };
        let is_large = old.source.len() > SHARED_FROM && disk.may_share(&*old.source);
        if sharing == Sharing::Always || (sharing == Sharing::WhereItCan && is_large) {
            made.shares = disk.share(&*made.file, &*old.source, made.owner);
        }
        // What was not shared may be there in part.
        if sharing == Sharing::WhereItCan && is_large && !made.shares {
            made.file.set_len(0, made.owner)?;
        }
        Ok(made.shares || sharing != Sharing::Always)
    }

    /// Gives all files what the old ones have beside their bytes, and returns when they are on the disk.
    pub(super) fn finish(&self) -> Result<()> {
        let mut made = self.made.values();
        made.try_for_each(|made| made.finish(self.commit, self.first))
    }

    pub(super) fn swaps(&self) -> Result<Vec<Swap>> {
        let swap = |made: &NewMember| {
            Ok(Swap {
                name: made.seen.name.clone(),
                new_name: made.new_name.clone(),
                seen: made.seen.identity,
                new: made.file.source().stat()?.identity,
            })
        };
        self.made.values().map(swap).collect()
    }

    /// For the log: which files are about to take their places.
    pub(super) fn manifest(&self) -> Result<Vec<NewFileRecord>> {
        let is_directory = self.commit.is_directory;
        let record = |made: &NewMember| {
            let source = made.file.source();
            let now = source.stat()?.identity;
            let name = made.seen.name.to_str().filter(|_| is_directory);
            Ok(NewFileRecord {
                name: name.unwrap_or_default().to_owned(),
                inode: now.id.inode,
                birth: now.id.birth,
                size: now.size,
                mtime_secs: now.mtime.secs,
                mtime_nanos: now.mtime.nanos,
                sample: fingerprint(source, Vec::new(), now.size)?,
            })
        };
        self.made.values().map(record).collect()
    }

    /// Removes what lies under the hidden names now: the old files.
    pub(super) fn remove_old(&self) -> Result<()> {
        let (disk, spot) = (self.commit.disk, self.commit.spot);
        let mut made = self.made.values();
        made.try_for_each(|made| match disk.unlink(spot.place(&made.new_name)) {
            Err(e) if e.is_not_found() => Ok(()),
            other => other,
        })
    }

    /// Removes the new files, as far as they have not taken their places.
    pub(super) fn remove_ours(&self) {
        for made in self.made.values() {
            made.remove_ours(self.commit);
        }
    }
}

impl Recipe for NewFiles<'_> {
    fn copy(&mut self, file: MemberNumber, from: Range<u64>, to: u64) -> Result<()> {
        self.file(file)?.copy(from, to)
    }

    fn put(&mut self, file: MemberNumber, at: u64, bytes: &[u8]) -> Result<()> {
        let member = self.file(file)?;
        put_all(&*member.file, at, bytes, member.owner)?;
        member.written(at..at + bytes.len() as u64);
        Ok(())
    }

    fn set_len(&mut self, file: MemberNumber, len: u64) -> Result<()> {
        let member = self.file(file)?;
        member.file.set_len(len, member.owner)
    }
}

impl NewMember {
    fn copy(&mut self, from: Range<u64>, to: u64) -> Result<()> {
        if self.shares && from.start == to {
            return Ok(());
        }
        let old = self.old.as_ref();
        let old = old.ok_or_else(|| Error::Bug("a new file has nothing to copy from".into()))?;
        let mut done = 0;
        while from.start + done < from.end {
            let range = from.start + done..from.end;
            let n = self.file.copy(&*old.source, range, to + done, self.owner)? as u64;
            if n == 0 {
                return Err(short());
            }
            done += n;
        }
        self.written(to..to + done);
        Ok(())
    }

    fn written(&mut self, range: Range<u64>) {
        self.waiting = match self.waiting.end == range.start {
            true => self.waiting.start..range.end,
            false => range,
        };
        if self.waiting.end - self.waiting.start >= WRITEBACK {
            self.file.begin_writeback(self.waiting.clone());
            self.waiting.start = self.waiting.end;
        }
    }

    /// The group of the old file. Who is not in it cannot give it, and finds that out before he has written anything.
    fn take_group(&self, commit: &Commit<'_>, first: &Stat) -> Result<()> {
        let like = self.old.as_ref().map_or(first, |old| &old.stat);
        let source = self.file.source();
        if source.stat().is_ok_and(|own| own.gid == like.gid) {
            return Ok(());
        }
        let group = NewAttributes {
            gid: Some(like.gid),
            ..NewAttributes::default()
        };
        let set = commit.disk.set_attributes(Target::Open(source), &group);
        match set {
            // There is none that it stands for.
            Err(e) if self.old.is_none() && e.is_permission_denied() => Ok(()),
            set => set,
        }
    }

    fn finish(&self, commit: &Commit<'_>, first: &Stat) -> Result<()> {
        let (disk, target) = (commit.disk, Target::Open(self.file.source()));
        // A directory may grant rights on its new files that the old one does not grant.
        let rights = OsStr::new("system.posix_acl_access");
        if self.file.source().xattr(rights).is_ok() {
            disk.remove_xattr(target, rights)?;
        }
        if let Some(old) = &self.old {
            for name in copied_names(commit, &self.seen.name, &old.stat)? {
                let value = old.source.xattr(&name)?;
                disk.set_xattr(target, &name, &value, XattrSetting::Any)?;
            }
        }
        let like = self.old.as_ref().map_or(first, |old| &old.stat);
        // What is written loses such bits, and new files of a directory are written as the owner, whoever has changed them.
        let kept = if commit.is_directory {
            !0o6000
        } else {
            u16::MAX
        };
        let attributes = NewAttributes {
            mode: Some(u32::from(like.mode & kept)),
            uid: None,
            gid: None,
            atime: None,
            mtime: Some(NewTime::At(commit.written)),
        };
        disk.set_attributes(target, &attributes)?;
        if self.file.take_failure() {
            let cause = std::io::Error::from_raw_os_error(libc::EIO);
            let name = beside(commit.spot, &self.new_name);
            let name = commit.store.display(&name);
            return Err(Error::io(format!("cannot sync {}", name.display()), cause));
        }
        disk.sync(target, false)
    }

    /// Ours, unless it has got its name and somebody else's file could not be put back.
    fn remove_ours(&self, commit: &Commit<'_>) {
        let left = commit.store.stat(&beside(commit.spot, &self.new_name));
        let ours = self.file.source().identity().id;
        if left.is_ok_and(|left| left.identity.id == ours) {
            let _ = commit.disk.unlink(commit.spot.place(&self.new_name));
        }
    }
}

/// Attributes that a new file gets from the old one. Of one file these are what everybody may set, for others make it be changed in
/// place; the files of a directory keep all, or are not replaced.
fn copied_names(commit: &Commit<'_>, name: &OsStr, now: &Stat) -> Result<Vec<OsString>> {
    let path = beside(commit.spot, name);
    let names = commit.store.xattr_names(&path, Some(now.identity.id));
    let copied = |name: &OsString| match commit.is_directory {
        true => !is_given(name),
        false => is_copied(name),
    };
    match names {
        Ok(names) => Ok(names.into_iter().filter(copied).collect()),
        Err(Error::Unsupported) => Ok(Vec::new()),
        Err(e) => Err(e),
    }
}

/// What everybody may set on his own files.
pub(super) fn is_copied(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"user.")
}

/// What the system gives to every new file by itself.
pub(super) fn is_given(name: &OsStr) -> bool {
    name == "security.selinux"
}

/// Writes all bytes, or fails.
pub(super) fn put_all(file: &dyn DiskFile, at: u64, bytes: &[u8], caller: Caller) -> Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        let how = Putting::default();
        let n = file.put(at + done as u64, &bytes[done..], how, caller)?;
        if n == 0 {
            return Err(short());
        }
        done += n;
    }
    Ok(())
}

fn short() -> Error {
    let cause = std::io::Error::from_raw_os_error(libc::ENOSPC);
    Error::io("cannot write a container", cause)
}
