//! A commit as changes of the files themselves, behind a log of them.
//!
//! Every byte that is going to be written to any file of the container is in the log first, and one record that seals it; both
//! are on the disk before a file is touched. Doing it all again from the log gives the same files, however much of it was done
//! before: so after a crash they are the old ones, if there is no seal, or the new ones. Bytes that stay where they are cost
//! nothing. A file that is not there yet is not made this way. Used by [`super`].

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::new_container::create_hidden;
use super::redo::{STEP, put_patches};
use super::sealed::{Sealing, seal};
use super::{Commit, Publish, SeenFile, beside};
use crate::container::rewrite::{CommitWay, MemberNumber, Recipe};
use crate::disk::{Allocation, Caller, DiskFile, NewAttributes, NewTime, Target};
use crate::error::{Error, Result};
use crate::source::{Source, Stat, Timestamp};
use crate::stage::log::{CommitRecord, Patch, SealedFile, last_said};
use crate::stage::new_name;

pub(super) fn change(commit: &Commit<'_>, publish: Publish<'_>) -> Result<()> {
    let mut told = RedoLog {
        commit,
        files: BTreeMap::new(),
    };
    commit.tell(CommitWay::InPlace, &mut told)?;
    let files = told.files.into_iter().filter(|(_, told)| told.changes());
    let files = files.map(|(number, told)| ChangedFile::open(commit, number, told));
    let files = files.collect::<Result<Vec<_>>>()?;
    let sealed = files.iter().map(|file| file.seal(commit));
    commit.stage.append(&CommitRecord::Sealed {
        layer: commit.layer,
        files: sealed.collect::<Result<_>>()?,
    })?;
    commit.stage.sync_log()?;
    publish(CommitWay::InPlace, &mut || {
        // Nobody is kept from changing them at the very same time; whoever did it before is not overwritten.
        commit.unchanged()?;
        reserve_all(commit, &files)?;
        let carry_out = || files.iter().try_for_each(|file| file.carry_out(commit));
        // Half of it is neither container: what failed is tried again, and if it fails again, by who recovers.
        carry_out()
            .or_else(|e| {
                log::warn!("{e}; trying again");
                carry_out()
            })
            .inspect_err(|_| commit.stage.stay_sealed())
    })
}

/// Takes the room that the files are going to need: that there is none is found out before any is changed.
fn reserve_all(commit: &Commit<'_>, files: &[ChangedFile]) -> Result<()> {
    for (number, file) in files.iter().enumerate() {
        match file.reserve(commit) {
            Err(e) if e.is_no_room() => {
                let mut restored = files[..=number].iter().rev().filter(|file| file.grows());
                restored
                    .try_for_each(|file| file.restore_time(commit))
                    .inspect_err(|_| commit.stage.stay_sealed())?;
                return Err(e);
            }
            Err(e) => log::debug!("{e}"),
            Ok(()) => {}
        }
    }
    Ok(())
}

/// What a recipe has told of a file.
struct RedoFile {
    seen: SeenFile,
    old: Arc<dyn Source>,
    patches: Vec<Patch>,
    len: u64,
}

impl RedoFile {
    fn changes(&self) -> bool {
        !self.patches.is_empty() || self.len != self.old.len()
    }
}

/// A file that is about to be changed, as all of them are known.
struct ChangedFile {
    number: MemberNumber,
    told: RedoFile,
    file: Arc<dyn DiskFile>,
    /// Before the change.
    stat: Stat,
    owner: Caller,
    /// The time that it gets; none if whoever writes it cannot set its time.
    mtime: Option<Timestamp>,
}

impl ChangedFile {
    fn open(commit: &Commit<'_>, number: MemberNumber, mut told: RedoFile) -> Result<ChangedFile> {
        told.patches = last_said(told.patches);
        let path = beside(commit.spot, &told.seen.name);
        let stat = commit.store.stat(&path)?;
        let file = commit.disk.open(&path, told.old.identity().id);
        let file = file.map_err(|e| match e.is_permission_denied() {
            true => not_writable(&commit.store.display(&path), &stat),
            false => e,
        })?;
        let sets_time = may_set_time(commit, &*file, &stat)?;
        Ok(ChangedFile {
            number,
            told,
            file,
            owner: commit.owner(&stat),
            stat,
            mtime: sets_time.then_some(commit.written),
        })
    }

    fn seal(&self, commit: &Commit<'_>) -> Result<SealedFile> {
        let name = self.told.seen.name.to_str();
        let sealing = Sealing {
            number: self.number.0,
            name: name.filter(|_| commit.is_directory).unwrap_or_default(),
            old: &*self.told.old,
            patches: &self.told.patches,
            len: self.told.len,
            mtime: self.mtime,
        };
        seal(&sealing, &|at, out| commit.stage.read_logged(at, out))
    }

    fn grows(&self) -> bool {
        self.told.len > self.told.old.len()
    }

    fn reserve(&self, commit: &Commit<'_>) -> Result<()> {
        if !self.grows() {
            return Ok(());
        }
        let old = self.told.old.len();
        let room = |offset| Allocation {
            mode: libc::FALLOC_FL_KEEP_SIZE.cast_unsigned(),
            offset,
            len: self.told.len - old,
        };
        if self.mtime.is_some() {
            return self.file.allocate(room(old), self.owner);
        }
        // It may count as a modification, which could not be taken back: so another file shows that there is room.
        let name = new_name(&self.told.seen.name);
        let other = create_hidden(&**commit.disk, commit.spot, &name, 0o600, self.owner)?;
        let reserved = other.allocate(room(0), self.owner);
        commit.disk.unlink(commit.spot.place(&name))?;
        reserved
    }

    /// Keeping room may have counted as a modification.
    fn restore_time(&self, commit: &Commit<'_>) -> Result<()> {
        if self.mtime.is_none() {
            return Ok(());
        }
        let target = Target::Open(self.file.source());
        set_mtime(commit, &*self.file, self.stat.identity.mtime)?;
        commit.disk.sync(target, false)
    }

    fn carry_out(&self, commit: &Commit<'_>) -> Result<()> {
        put_patches(&self.told.patches, (&*self.file, self.owner), &|at, out| {
            commit.stage.read_logged(at, out)
        })?;
        self.file.set_len(self.told.len, self.owner)?;
        if let Some(mtime) = self.mtime {
            set_mtime(commit, &*self.file, mtime)?;
        }
        let target = Target::Open(self.file.source());
        commit.disk.sync(target, false)
    }
}

/// Who may write a file need not be its owner. Asked with a time that it has: of its last reading, because somebody may
/// be writing to it at this very moment, whose time must not go.
fn may_set_time(commit: &Commit<'_>, file: &dyn DiskFile, now: &Stat) -> Result<bool> {
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

fn not_writable(path: &std::path::Path, now: &Stat) -> Error {
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

/// The log as a recipe is written to it.
struct RedoLog<'a> {
    commit: &'a Commit<'a>,
    files: BTreeMap<MemberNumber, RedoFile>,
}

impl RedoLog<'_> {
    fn file(&mut self, number: MemberNumber) -> Result<&mut RedoFile> {
        if !self.files.contains_key(&number) {
            let seen = self.commit.seen.get(number.0 as usize);
            let seen = seen.ok_or_else(|| Error::Bug("there is no such file".into()))?;
            if seen.identity.is_none() {
                return Err(self.cannot_make(seen));
            }
            let old = self.commit.source_of(seen)?;
            let told = RedoFile {
                seen: seen.clone(),
                patches: Vec::new(),
                len: old.len(),
                old,
            };
            self.files.insert(number, told);
        }
        let file = self.files.get_mut(&number);
        file.ok_or_else(|| Error::Bug("a file that was told of has gone".into()))
    }

    fn cannot_make(&self, seen: &SeenFile) -> Error {
        let path = self
            .commit
            .store
            .display(&beside(self.commit.spot, &seen.name));
        let doing = format!(
            "cannot make {} while other files of the container are changed in place; give all of them one owner and group \
             (chown -R, chgrp -R), then `arrayfs stage commit`",
            path.display()
        );
        Error::io(doing, std::io::Error::from_raw_os_error(libc::EPERM))
    }
}

impl Recipe for RedoLog<'_> {
    fn copy(&mut self, file: MemberNumber, from: Range<u64>, to: u64) -> Result<()> {
        let old = Arc::clone(&self.file(file)?.old);
        if from.start == to {
            return Ok(());
        }
        let mut buf = vec![0; STEP.min(from.end - from.start) as usize];
        let mut at = from.start;
        while at < from.end {
            let n = STEP.min(from.end - at) as usize;
            old.fetch_one(at, &mut buf[..n])?;
            self.put(file, to + (at - from.start), &buf[..n])?;
            at += n as u64;
        }
        Ok(())
    }

    fn put(&mut self, file: MemberNumber, at: u64, bytes: &[u8]) -> Result<()> {
        let stage = self.commit.stage;
        let patches = &mut self.file(file)?.patches;
        stage.append_redo(file.0, at, bytes, &mut |at, logged| {
            patches.push(Patch { at, logged });
        })
    }

    fn set_len(&mut self, file: MemberNumber, len: u64) -> Result<()> {
        self.file(file)?.len = len;
        let record = CommitRecord::RedoLength { file: file.0, len };
        self.commit.stage.append(&record)
    }
}
