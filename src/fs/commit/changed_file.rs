//! A file that a commit in place changes, or makes where there was none. Used by
//! [`super::in_place`].

use std::cell::OnceCell;
use std::path::Path;
use std::sync::Arc;

use super::beside_old::{remove_rights, set_mode};
use super::future_file::FutureFile;
use super::future_file::{FutureContent, Redo};
use super::grown::GrownFile;
use super::holes::Holes;
use super::input::Commit;
use super::new_files::create_hidden;
use super::redo::put_patches;
use super::sealed::{Sealing, seal};
use super::spot::{SeenFile, beside};
use crate::container::writable::MemberNumber;
use crate::disk::{Allocation, Caller, Disk, DiskFile, NewAttributes, NewTime, Target};
use crate::error::{Error, Result};
use crate::range_set::RangeSet;
use crate::source::{Source, Stat, Timestamp};
use crate::stage::log::{CommitRecord, LogBytes, Patch, SealedFile};
use crate::stage::new_name;

pub(super) struct ChangedFile {
    number: MemberNumber,
    seen: SeenFile,
    /// As it is before; without bytes if it is not there.
    old: Arc<dyn Source>,
    /// In order, none of which overlap.
    patches: Arc<[Patch]>,
    len: u64,
    /// None: it is still to be made.
    file: Option<Arc<dyn DiskFile>>,
    /// Before the change; of a file that is not there, that of the container's first one.
    stat: Stat,
    owner: Caller,
    /// The time that it gets; none if the committer may not set its time.
    mtime: Option<Timestamp>,
    lacking: OnceCell<RangeSet>,
}

impl ChangedFile {
    pub(super) fn open(
        commit: &Commit<'_>,
        (number, seen): (MemberNumber, SeenFile),
        old: Arc<dyn Source>,
        (patches, len): (Vec<Patch>, u64),
    ) -> Result<ChangedFile> {
        let path = beside(commit.spot, &seen.name);
        let stat = commit.store.stat(&path)?;
        let file = commit.disk.open(&path, old.id());
        let file = file.map_err(|e| match e.is_permission_denied() {
            true => not_writable(&commit.store.display(&path), &stat),
            false => e,
        })?;
        let sets_time = may_set_time(commit, &*file, &stat)?;
        Ok(ChangedFile {
            number,
            seen,
            old,
            patches: patches.into(),
            len,
            file: Some(file),
            owner: commit.owner(&stat),
            stat,
            mtime: sets_time.then_some(commit.written),
            lacking: OnceCell::new(),
        })
    }

    /// One that is not there: it is made when the log has been sealed, which names it.
    pub(super) fn missing(
        commit: &Commit<'_>,
        (number, seen): (MemberNumber, SeenFile),
        old: Arc<dyn Source>,
        (patches, len): (Vec<Patch>, u64),
    ) -> Result<ChangedFile> {
        let first = commit.store.stat(&commit.spot.path())?;
        Ok(ChangedFile {
            number,
            seen,
            old,
            patches: patches.into(),
            len,
            file: None,
            owner: commit.owner(&first),
            stat: first,
            mtime: Some(commit.written),
            lacking: OnceCell::new(),
        })
    }

    /// For the log.
    pub(super) fn length(&self) -> CommitRecord {
        CommitRecord::RedoLength {
            file: self.number.0,
            len: self.len,
        }
    }

    pub(super) fn seal(&self, commit: &Commit<'_>) -> Result<SealedFile> {
        let name = self.seen.name.to_str();
        let sealing = Sealing {
            number: self.number.0,
            name: name.filter(|_| commit.is_directory).unwrap_or_default(),
            old: &*self.old,
            patches: &self.patches,
            len: self.len,
            mtime: self.mtime,
        };
        seal(&sealing, &|at, out| commit.stage.read_logged(at, out))
    }

    pub(super) fn number(&self) -> MemberNumber {
        self.number
    }

    /// As it is going to be. `grown`: if it has got bytes behind its end already.
    pub(super) fn future(&self, log: LogBytes, grown: Option<&GrownFile>) -> FutureFile {
        FutureFile {
            name: self.seen.name.clone(),
            len: self.len,
            mtime: self.mtime,
            content: FutureContent::Redo(Redo {
                is_made: self.is_made(),
                patches: Arc::clone(&self.patches),
                grown: grown.map(GrownFile::bytes),
                log,
            }),
        }
    }

    fn is_made(&self) -> bool {
        self.seen.identity.is_none()
    }

    /// Makes it, if it was not there; if it is by now, it is another process's.
    pub(super) fn make(&mut self, commit: &Commit<'_>) -> Result<()> {
        if self.file.is_none() {
            let place = commit.spot.place(&self.seen.name);
            let made = commit.disk.create(place, HIDDEN, self.owner);
            self.file = Some(made.map_err(|e| match e.is_already_there() {
                true => commit.changed(&self.seen.name),
                false => e,
            })?);
        }
        Ok(())
    }

    /// Removes it again, if it was made here and nothing else has been changed.
    pub(super) fn remove_made(&self, commit: &Commit<'_>) {
        if self.is_made() && self.file.is_some() {
            let removed = commit.disk.unlink(commit.spot.place(&self.seen.name));
            // Without it the container is what it was: the recovery goes on with the sealed commit.
            if let Err(e) = removed {
                log::warn!("{}", commit.named(&e));
                commit.stage.stay_sealed();
            }
        }
    }

    fn file(&self) -> Result<&dyn DiskFile> {
        let file = self.file.as_deref();
        file.ok_or_else(|| Error::Bug("a file of a commit has not been made".into()))
    }

    /// Where the file has no room yet for what it gets: in holes, and behind its end, where zeros
    /// need none. The last byte is among it, for the length itself may be more than there can be.
    /// As it was before any room was taken.
    fn lacking(&self) -> &RangeSet {
        self.lacking.get_or_init(|| self.find_lacking())
    }

    fn find_lacking(&self) -> RangeSet {
        let (old, mut holes) = (self.old.len(), Holes::default());
        let last = (self.len > old).then(|| self.len - 1..self.len);
        let patches = self.patches.iter().map(Patch::range);
        let lacking = patches.chain(last).flat_map(|range| {
            let split = old.clamp(range.start, range.end);
            let mut parts = holes.within(&*self.old, range.start..split);
            parts.push(split..range.end);
            parts
        });
        lacking.collect()
    }

    pub(super) fn reserve(&self, commit: &Commit<'_>, grown: Option<&GrownFile>) -> Result<()> {
        let lacking = self.lacking();
        if lacking.is_empty() {
            return Ok(());
        }
        let take = |file: &dyn DiskFile, owner| {
            lacking.iter().try_for_each(|range| {
                let room = Allocation {
                    mode: libc::FALLOC_FL_KEEP_SIZE.cast_unsigned(),
                    offset: range.start,
                    len: range.end - range.start,
                };
                file.allocate(room, owner)
            })
        };
        if let Some(grown) = grown {
            return grown.step(0, take);
        }
        if self.mtime.is_some() {
            return take(self.file()?, self.owner);
        }
        // It may count as a modification, which could not be taken back: so another file shows that
        // there is room.
        let name = new_name(&self.seen.name);
        let other = create_hidden(&**commit.disk, commit.spot, &name, HIDDEN, self.owner)?;
        let reserved = take(&*other, self.owner);
        // Perhaps no later commit makes another one, and would remove this.
        let remove = || commit.disk.unlink(commit.spot.place(&name));
        remove().or_else(|_| remove())?;
        reserved
    }

    /// Keeping room may have counted as a modification.
    pub(super) fn restore(&self, commit: &Commit<'_>) -> Result<()> {
        if self.mtime.is_none() || self.is_made() || self.lacking().is_empty() {
            return Ok(());
        }
        let file = self.file()?;
        set_mtime(commit, file, self.stat.mtime)?;
        commit.disk.sync(Target::Open(file.source()), false)
    }

    pub(super) fn carry_out(&self, commit: &Commit<'_>) -> Result<()> {
        let file = self.file()?;
        put_patches(&self.patches, (file, self.owner), &|at, out| {
            commit.stage.read_logged(at, out)
        })?;
        file.set_len(self.len, self.owner)?;
        if self.is_made() {
            let (path, id) = (&*commit.spot.directory, commit.spot.id);
            let names = Target::Named { path, id };
            return finish_made(&**commit.disk, file, &self.stat, self.mtime, names);
        }
        if let Some(mtime) = self.mtime {
            set_mtime(commit, file, mtime)?;
        }
        Ok(())
    }

    /// Returns when it is on the disk.
    pub(super) fn sync(&self, commit: &Commit<'_>) -> Result<()> {
        let file = self.file()?;
        commit.disk.sync(Target::Open(file.source()), false)
    }
}

/// Of a file that is not whole yet.
pub(super) const HIDDEN: u32 = 0o600;

/// Gives a file that was made among others of its container the mode of the first of these, and
/// this time, and returns when it is on the disk with its name.
pub(super) fn finish_made(
    disk: &dyn Disk,
    file: &dyn DiskFile,
    first: &Stat,
    mtime: Option<Timestamp>,
    names: Target<'_>,
) -> Result<()> {
    remove_rights(disk, file)?;
    set_mode(disk, file, u32::from(first.mode & 0o777), mtime)?;
    disk.sync_named(file.source(), names)
}

/// A user who may write a file need not own it. Tried by setting the time of access to what it is,
/// not the time of modification: another process may be writing the file at this very moment, and
/// its time must not be lost.
pub(super) fn may_set_time(commit: &Commit<'_>, file: &dyn DiskFile, now: &Stat) -> Result<bool> {
    let same = NewAttributes {
        atime: Some(NewTime::At(now.atime)),
        ..NewAttributes::default()
    };
    let target = Target::Open(file.source());
    match commit.disk.set_attributes(target, &same) {
        Err(e) if e.is_permission_denied() => {
            log::debug!("{e}: its time of modification will be that of the commit");
            Ok(false)
        }
        set => set.map(|()| true),
    }
}

fn set_mtime(commit: &Commit<'_>, file: &dyn DiskFile, mtime: Timestamp) -> Result<()> {
    let times = NewAttributes {
        mtime: Some(NewTime::At(mtime)),
        ..NewAttributes::default()
    };
    commit
        .disk
        .set_attributes(Target::Open(file.source()), &times)
}

fn not_writable(path: &Path, now: &Stat) -> Error {
    let doing = format!(
        "cannot write {} (owner {}, group {}, mode {:04o}), which no new file can stand for; make it writable for user {}, then \
         `arrayfs stage commit`",
        path.display(),
        now.uid,
        now.gid,
        now.mode & 0o7777,
        rustix::process::geteuid().as_raw(),
    );
    Error::io(doing, std::io::Error::from_raw_os_error(libc::EACCES))
}
