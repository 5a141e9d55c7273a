//! A commit as a new file that takes the place of the old one.
//!
//! The new file is made beside the old one, under a hidden name, and synced. Then the two exchange their names
//! ([`super::exchange`]). The log says before that it is going to happen: after a crash in between it tells which of the two is
//! which. Used by [`super`].

use std::ffi::OsStr;
use std::ops::Range;
use std::sync::Arc;

use super::exchange::Exchange;
use super::in_place::has_no_room;
use super::new_file::create_hidden;
use super::{Commit, Publish, beside};
use crate::container::rewrite::{CommitWay, MemberNumber, Recipe};
use crate::disk::{Caller, DiskFile, NewAttributes, NewTime, Putting, Target, XattrSetting};
use crate::error::{Error, Result};
use crate::source::{FileIdentity, Source, Stat};
use crate::stage::log::CommitRecord;
use crate::stage::new_name;

/// Whether a new file can be all that the old one is: one name, the same owner, no rights that only the old one has.
pub(super) fn is_possible(commit: &Commit<'_>, now: &Stat) -> Result<bool> {
    let ours = rustix::process::geteuid().as_raw();
    if now.nlink > 1 || (ours != 0 && now.uid != ours) || now.mode & 0o6000 != 0 {
        return Ok(false);
    }
    let names = commit
        .store
        .xattr_names(&commit.spot.path(), Some(now.identity.id));
    match names {
        Ok(names) => Ok(names.iter().all(|name| is_copied(name) || is_given(name))),
        Err(Error::Unsupported) => Ok(true),
        Err(e) => Err(e),
    }
}

/// What everybody may set on his own files.
fn is_copied(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"user.")
}

/// What the system gives to every new file by itself.
fn is_given(name: &OsStr) -> bool {
    name == "security.selinux"
}

pub(super) fn replace(commit: &Commit<'_>, now: &Stat, publish: Publish<'_>) -> Result<()> {
    replace_by(commit, now, false, publish).map(drop)
}

/// The new file shares all bytes with the old one before it is changed. False if it cannot, or if that takes room that there is
/// not: then nothing has happened.
pub(super) fn replace_sharing(
    commit: &Commit<'_>,
    now: &Stat,
    publish: Publish<'_>,
) -> Result<bool> {
    replace_by(commit, now, true, publish)
}

fn replace_by(commit: &Commit<'_>, now: &Stat, shares: bool, publish: Publish<'_>) -> Result<bool> {
    let new_name = new_name(&commit.spot.name);
    // An old log, whose removal was not synced, would take the new file for one that came out of an exchange.
    commit.stage.make_log()?;
    let file = create(commit, &new_name, now)?;
    let filled = match shares {
        true => fill_sharing(commit, now, &*file),
        false => fill(commit, now, false, &*file).map(|()| true),
    };
    let replaced = filled.and_then(|filled| {
        if filled {
            publish_new(commit, &new_name, &*file, publish)?;
        }
        Ok(filled)
    });
    match replaced {
        // The old file, or one that was not filled. The commit has happened, whether or not it can be removed.
        Ok(done) => {
            if let Err(e) = remove(commit, &new_name) {
                log::warn!("{e}; the next commit does it");
            }
            Ok(done)
        }
        Err(e) => {
            // Ours, unless somebody else's could not be put back.
            let left = commit.store.stat(&beside(commit.spot, &new_name));
            if left.is_ok_and(|left| left.identity.id == file.source().identity().id) {
                let _ = commit.disk.unlink(commit.spot.place(&new_name));
            }
            Err(e)
        }
    }
}

fn publish_new(
    commit: &Commit<'_>,
    name: &OsStr,
    file: &dyn DiskFile,
    publish: Publish<'_>,
) -> Result<()> {
    let new = file.source().stat()?.identity;
    commit.stage.append(&CommitRecord::Replacing {
        layer: commit.layer,
        inode: new.id.inode,
        birth: new.id.birth,
        size: new.size,
        mtime: new.mtime,
    })?;
    commit.stage.sync_log()?;
    publish(CommitWay::Replaced, &mut || exchange(commit, name, new))
}

fn create(commit: &Commit<'_>, name: &OsStr, now: &Stat) -> Result<Arc<dyn DiskFile>> {
    create_hidden(commit.disk, commit.spot, name, 0o600, commit.owner(now))
}

fn fill_sharing(commit: &Commit<'_>, now: &Stat, file: &dyn DiskFile) -> Result<bool> {
    let (old, owner) = (commit.source()?, commit.owner(now));
    if !commit.disk.share(file, &*old, owner) {
        return Ok(false);
    }
    match fill(commit, now, true, file) {
        // What is shared counts twice for a quota.
        Err(e) if has_no_room(&e) => {
            log::debug!("{e}");
            Ok(false)
        }
        filled => filled.map(|()| true),
    }
}

/// `shares`: the file has all bytes of the old one already.
fn fill(commit: &Commit<'_>, now: &Stat, shares: bool, file: &dyn DiskFile) -> Result<()> {
    let mut new = ReplacingFile {
        file,
        old: commit.source()?,
        caller: commit.owner(now),
        shares,
        waiting: 0..0,
    };
    let told = match shares {
        true => CommitWay::InPlace,
        false => CommitWay::Replaced,
    };
    let changed = commit.changed;
    commit
        .rewrite
        .recipe(changed, told, commit.budget, &mut new)?;
    let target = Target::Open(file.source());
    // A directory may grant rights on its new files that the old one does not grant.
    let rights = OsStr::new("system.posix_acl_access");
    if file.source().xattr(rights).is_ok() {
        commit.disk.remove_xattr(target, rights)?;
    }
    for name in copied_names(commit, now)? {
        let value = new.old.xattr(&name)?;
        commit
            .disk
            .set_xattr(target, &name, &value, XattrSetting::Any)?;
    }
    let attributes = NewAttributes {
        mode: Some(u32::from(now.mode)),
        uid: None,
        gid: Some(now.gid).filter(|gid| *gid != file_gid(file)),
        atime: None,
        mtime: Some(NewTime::At(commit.written)),
    };
    commit.disk.set_attributes(target, &attributes)?;
    commit.disk.sync(target, false)
}

fn file_gid(file: &dyn DiskFile) -> u32 {
    file.source().stat().map_or(u32::MAX, |stat| stat.gid)
}

fn copied_names(commit: &Commit<'_>, now: &Stat) -> Result<Vec<std::ffi::OsString>> {
    let names = commit
        .store
        .xattr_names(&commit.spot.path(), Some(now.identity.id));
    match names {
        Ok(names) => Ok(names.into_iter().filter(|name| is_copied(name)).collect()),
        Err(Error::Unsupported) => Ok(Vec::new()),
        Err(e) => Err(e),
    }
}

/// The two files exchange their names, if it is still the file that was opened that has this one. Until it is on the disk
/// the log tells of it, and must not say that there was nothing.
fn exchange(commit: &Commit<'_>, new_name: &OsStr, new: FileIdentity) -> Result<()> {
    let exchange = Exchange {
        disk: commit.disk,
        store: commit.store,
        spot: commit.spot,
        seen: commit.seen,
    };
    exchange.carry_out(new_name, new, &|| commit.stage.stay_sealed())
}

/// Removes the old file, which has the new one's name.
fn remove(commit: &Commit<'_>, new_name: &OsStr) -> Result<()> {
    match commit.disk.unlink(commit.spot.place(new_name)) {
        Err(e) if e.is_not_found() => Ok(()),
        other => other,
    }
}

/// The disk begins to write so much of the new file as soon as it is there, so that little is left to wait for.
const WRITEBACK: u64 = 8 << 20;

/// The new file as it is written.
struct ReplacingFile<'a> {
    file: &'a dyn DiskFile,
    old: Arc<dyn Source>,
    caller: Caller,
    /// It has had all bytes of the old one from the start.
    shares: bool,
    /// What the disk has not begun to write.
    waiting: Range<u64>,
}

impl ReplacingFile<'_> {
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
}

impl Recipe for ReplacingFile<'_> {
    fn copy(&mut self, _file: MemberNumber, from: Range<u64>, to: u64) -> Result<()> {
        if self.shares && from.start == to {
            return Ok(());
        }
        let mut done = 0;
        while from.start + done < from.end {
            let range = from.start + done..from.end;
            let n = self.file.copy(&*self.old, range, to + done, self.caller)? as u64;
            if n == 0 {
                return Err(short());
            }
            done += n;
        }
        self.written(to..to + done);
        Ok(())
    }

    fn put(&mut self, _file: MemberNumber, at: u64, bytes: &[u8]) -> Result<()> {
        put_all(self.file, at, bytes, self.caller)?;
        self.written(at..at + bytes.len() as u64);
        Ok(())
    }

    fn set_len(&mut self, _file: MemberNumber, len: u64) -> Result<()> {
        self.file.set_len(len, self.caller)
    }
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
