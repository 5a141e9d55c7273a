//! The files that are going to replace a container's: each beside the old one, under a hidden name.
//!
//! They get mode, group and extended attributes of the old ones, and are synced before they are
//! shown. Where the file system lets them, they share unchanged bytes with the old ones. Used by
//! [`super::replaced`].

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;

use super::exchange::Swap;
use super::fingerprint::fingerprint;
use super::future_file::{FutureContent, FutureFile};
use super::input::Commit;
use super::new_files::{MakeFile, NewFile, NewFiles, create_hidden, short};
use super::spot::{SeenFile, Spot, beside};
use super::taken_next::{self, TakenNext};
use crate::container::writable::MemberNumber;
use crate::disk::reopened::{Hooks, ReopenedFile};
use crate::disk::{Disk, DiskFile, NewAttributes, NewTime, Target, XattrSetting};
use crate::error::{Error, Result};
use crate::range_set::RangeSet;
use crate::source::{FileId, Source, Stat, Timestamp, open_same};
use crate::stage::log::NewFileRecord;
use crate::stage::new_name;

/// Of files up to this size nothing is shared with the new one: changes that keep their place cost
/// more than the copy.
pub(super) const SHARED_FROM: u64 = if cfg!(test) { 0 } else { 64 << 20 };

/// Whether new files begin with all bytes of the old ones, which the two share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sharing {
    Never,
    /// Nothing is made of a file that cannot.
    Always,
    /// A large file does if it can.
    WhereItCan,
}

pub(super) struct BesideOld<'a> {
    pub(super) commit: &'a Commit<'a>,
    /// The container's first file, as it is: the model for a file that is missing.
    pub(super) first: Stat,
    pub(super) sharing: Sharing,
    /// A file that had to share bytes with the old one cannot.
    pub(super) cannot_share: Cell<bool>,
    /// The new files are on the disk as they will be seen.
    pub(super) are_whole: Cell<bool>,
    /// The container's only file, if it has been begun.
    pub(super) next: Option<TakenNext>,
}

/// A file that is to be replaced.
pub(super) struct Replaced {
    seen: SeenFile,
    new_name: OsString,
    /// The new file, which is opened again when descriptors have got short.
    file: Arc<ReopenedFile>,
    /// None: there is none of that name.
    old: Option<OldFile>,
    /// What is staged is read from it, as long as it is no part of the container.
    was_begun: bool,
}

struct OldFile {
    source: Arc<dyn Source>,
    stat: Stat,
}

impl Replaced {
    /// Whether that is the new file.
    fn is_new(&self, file: FileId) -> bool {
        let source: &dyn DiskFile = &*self.file;
        source.source().id() == file
    }
}

impl MakeFile for BesideOld<'_> {
    type Known = Replaced;

    fn make(&self, number: MemberNumber) -> Result<(NewFile, Replaced)> {
        let commit = self.commit;
        let seen = commit.seen_file(number)?;
        let old = match seen.identity {
            Some(_) => Some(OldFile {
                source: commit.source_of(seen)?,
                stat: commit.store.stat(&beside(commit.spot, &seen.name))?,
            }),
            None => None,
        };
        let like = old.as_ref().map_or(&self.first, |old| &old.stat);
        if old.is_some() {
            self.check_owner(&seen.name, like)?;
        }
        let (owner, new_name) = (commit.owner(like), new_name(&seen.name));
        let disk = &**commit.disk;
        let file = match &self.next {
            Some(next) => next.rename(commit, &new_name)?,
            None => {
                commit.spare_next(&new_name)?;
                create_hidden(disk, commit.spot, &new_name, 0o600, owner)?
            }
        };
        let path = beside(commit.spot, &new_name);
        let path = Arc::new(move |open: &mut dyn FnMut(&Path) -> Result<()>| open(&path));
        let file = ReopenedFile::new(commit.disk, path, file, Hooks::NONE)?;
        let source = old.as_ref().map(|old| Arc::clone(&old.source));
        let written: Arc<dyn DiskFile> = Arc::clone(&file) as _;
        let mut new = NewFile::new(written, owner).beside(source);
        let known = Replaced {
            seen: seen.clone(),
            new_name,
            file,
            old,
            was_begun: self.next.is_some(),
        };
        let begun = take_owner(disk, &*new.file, self.like(&known));
        // There is none that it stands for.
        let begun = begun.or_else(|e| match known.old.is_none() && e.is_permission_denied() {
            true => Ok(()),
            false => Err(e),
        });
        let shared = begun.and_then(|()| self.share(&mut new, &known));
        if matches!(shared, Ok(true)) {
            return Ok((new, known));
        }
        self.remove_ours(&new, &known);
        shared?;
        self.cannot_share.set(true);
        Err(short())
    }
}

impl BesideOld<'_> {
    /// The file whose mode, group and attributes a new one gets.
    fn like<'s>(&'s self, known: &'s Replaced) -> &'s Stat {
        known.old.as_ref().map_or(&self.first, |old| &old.stat)
    }

    fn check_owner(&self, name: &OsStr, old: &Stat) -> Result<()> {
        let written_here = rustix::process::geteuid().as_raw();
        if written_here == 0 || old.uid == written_here || !self.commit.is_directory {
            return Ok(());
        }
        let doing = format!(
            "cannot replace {}, which is user {}'s",
            name.display(),
            old.uid
        );
        let cause = std::io::Error::from_raw_os_error(libc::EPERM);
        Err(Error::io(doing, cause))
    }

    /// False if it cannot, and has to.
    fn share(&self, new: &mut NewFile, known: &Replaced) -> Result<bool> {
        let Some(old) = &known.old else {
            return Ok(true);
        };
        let disk = &**self.commit.disk;
        let is_large = old.source.len() > SHARED_FROM && disk.may_share(&*old.source);
        match self.sharing {
            Sharing::Never => Ok(true),
            Sharing::Always => new.share(disk),
            Sharing::WhereItCan => {
                // Bytes of a sharing that failed may be there in part.
                if is_large && !new.share(disk)? {
                    new.file.set_len(0, new.owner)?;
                }
                Ok(true)
            }
        }
    }

    fn finish(&self, new: &NewFile, known: &Replaced) -> Result<()> {
        let commit = self.commit;
        let (disk, target) = (&**commit.disk, Target::Open(new.file.source()));
        remove_rights(disk, &*new.file)?;
        if let Some(old) = &known.old {
            for name in copied_names(commit, &known.seen.name, &old.stat)? {
                let value = old.source.posix()?.xattr(&name)?;
                disk.set_xattr(target, &name, &value, XattrSetting::Any)?;
            }
        }
        // A write takes such bits away, and new files of a directory are written as the owner,
        // whichever user has changed them.
        let kept = match commit.is_directory {
            true => !0o6000,
            false => u16::MAX,
        };
        let mode = u32::from(self.like(known).mode & kept);
        // With that mode it might not be opened again.
        known.file.keep_open()?;
        set_mode(disk, &*new.file, mode, Some(commit.written))?;
        let synced = disk.sync(target, false);
        match &self.next {
            Some(next) => next.note_synced(synced)?,
            None => synced?,
        }
        if known.file.take_failure() {
            let cause = std::io::Error::from_raw_os_error(libc::EIO);
            let name = commit.store.display(&beside(commit.spot, &known.new_name));
            return Err(Error::io(format!("cannot sync {}", name.display()), cause));
        }
        Ok(())
    }

    /// Removes our new file, unless it has got its name and another process's file could not be put
    /// back.
    fn remove_ours(&self, new: &NewFile, known: &Replaced) {
        let ours = new.file.source().id();
        let removed = (self.commit.at_spot)(&mut |spot| self.remove_hidden(spot, known, ours));
        if let Err(e) = removed {
            log::debug!("{e}; the next commit removes it");
        }
    }

    /// Removes the file under a hidden name, if it is this one.
    fn remove_hidden(&self, spot: &Spot, known: &Replaced, file: FileId) -> Result<()> {
        let found = self.commit.store.stat(&beside(spot, &known.new_name))?;
        match found.id == file {
            true if known.was_begun && known.is_new(file) => {
                taken_next::put_back(self.commit, spot)
            }
            true => self.commit.disk.unlink(spot.place(&known.new_name)),
            false => Ok(()),
        }
    }

    /// Removes an old file that has changed places with a new one. Where there is no exchange the
    /// new one has overwritten it.
    fn remove_old(&self, known: &Replaced) -> Result<()> {
        let Some(old) = known.seen.identity else {
            return Ok(());
        };
        let removed = (self.commit.at_spot)(&mut |spot| self.remove_hidden(spot, known, old.id));
        match removed {
            Err(e) if e.is_not_found() => Ok(()),
            other => other,
        }
    }
}

impl NewFiles<BesideOld<'_>> {
    /// Gives all files mode, group and attributes of the old ones, and returns when they are on the
    /// disk.
    pub(super) fn finish(&self) -> Result<()> {
        self.check()?;
        let mut each = self.each();
        each.try_for_each(|(new, known)| self.maker.finish(new, known))
    }

    pub(super) fn swaps(&self) -> Result<Vec<Swap>> {
        let swap = |(new, known): (&NewFile, &Replaced)| {
            Ok(Swap {
                name: known.seen.name.clone(),
                new_name: known.new_name.clone(),
                seen: known.seen.identity,
                new: new.file.source().stat()?.file(),
            })
        };
        self.each().map(swap).collect()
    }

    /// The new files, to be read before they take their places. They are opened anew, since a
    /// reader has no business with a descriptor that can be written.
    pub(super) fn future(&self) -> Result<Vec<FutureFile>> {
        let commit = self.maker.commit;
        let future = |(new, known): (&NewFile, &Replaced)| {
            let now = new.file.source().stat()?;
            let path = beside(commit.spot, &known.new_name);
            let source = open_same(&**commit.store, &path, &now.identity())?;
            Ok(FutureFile {
                name: known.seen.name.clone(),
                len: now.size,
                mtime: Some(now.mtime),
                content: FutureContent::New(source),
            })
        };
        self.each().map(future).collect()
    }

    /// For the log: which files are about to take their places.
    pub(super) fn manifest(&self) -> Result<Vec<NewFileRecord>> {
        let is_directory = self.maker.commit.is_directory;
        let record = |(new, known): (&NewFile, &Replaced)| {
            let source = new.file.source();
            let now = source.stat()?;
            let name = known.seen.name.to_str().filter(|_| is_directory);
            Ok(NewFileRecord {
                name: name.unwrap_or_default().to_owned(),
                inode: now.id.inode,
                birth: now.id.birth,
                size: now.size,
                mtime_secs: now.mtime.secs,
                mtime_nanos: now.mtime.nanos,
                sample: fingerprint(source, &RangeSet::default(), now.size)?,
            })
        };
        self.each().map(record).collect()
    }

    /// Removes the old files, which have the hidden names now.
    pub(super) fn remove_old(&self) -> Result<()> {
        let mut each = self.each();
        each.try_for_each(|(_, known)| self.maker.remove_old(known))
    }

    /// Removes the new files, as far as they have not taken their places.
    pub(super) fn remove_ours(&self) {
        self.each()
            .for_each(|(new, known)| self.maker.remove_ours(new, known));
    }
}

/// Owner and group of another file: a file that was begun before may have been of another one. A
/// user who is not in that group cannot give it, and gets the error before anything is written.
fn take_owner(disk: &dyn Disk, file: &dyn DiskFile, like: &Stat) -> Result<()> {
    let source = file.source();
    let own = source.stat()?;
    let owner = NewAttributes {
        uid: (own.uid != like.uid).then_some(like.uid),
        gid: (own.gid != like.gid).then_some(like.gid),
        ..NewAttributes::default()
    };
    match owner.is_empty() {
        true => Ok(()),
        false => disk.set_attributes(Target::Open(source), &owner),
    }
}

/// A directory may grant rights on its new files that the container's other ones do not grant.
pub(super) fn remove_rights(disk: &dyn Disk, file: &dyn DiskFile) -> Result<()> {
    let rights = OsStr::new("system.posix_acl_access");
    match file.source().posix().and_then(|file| file.xattr(rights)) {
        Ok(_) => disk.remove_xattr(Target::Open(file.source()), rights),
        Err(_) => Ok(()),
    }
}

/// Gives a new file its mode, and perhaps its time.
pub(super) fn set_mode(
    disk: &dyn Disk,
    file: &dyn DiskFile,
    mode: u32,
    mtime: Option<Timestamp>,
) -> Result<()> {
    let attributes = NewAttributes {
        mode: Some(mode),
        mtime: mtime.map(NewTime::At),
        ..NewAttributes::default()
    };
    disk.set_attributes(Target::Open(file.source()), &attributes)
}

/// Attributes that a new file gets from the old one. Of a single file these are the attributes that
/// any user may set, for others make it be changed in place; the files of a directory keep all, or
/// are not replaced.
fn copied_names(commit: &Commit<'_>, name: &OsStr, now: &Stat) -> Result<Vec<OsString>> {
    let path = beside(commit.spot, name);
    let names = commit.store.posix()?.xattr_names(&path, Some(now.id));
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

/// An attribute that any user may set on files of his own.
pub(super) fn is_copied(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"user.")
}

/// An attribute that the system gives to every new file by itself.
pub fn is_given(name: &OsStr) -> bool {
    name == "security.selinux"
}
