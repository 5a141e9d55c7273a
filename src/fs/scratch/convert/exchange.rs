//! A file and all its names give way to a new one, so that a crash at any moment leaves one of the
//! two whole under each name.
//!
//! The new file is written beside the old one under a temporary name, and synced. It gets the new
//! names as further links; these are synced; then the old names go, then the temporary one. So as
//! long as a temporary name has a second link, what has that inode is the same as what still has
//! the old one, and [`super::leftovers`] can go on; one without was not finished. Several files at
//! a time share the waiting for the disk. Used by [`super::pass`].

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::alike::make_alike;
use super::{Conversion, ConvertDirection, packing, unpacking, walk, writers};
use crate::disk::{DiskFile, Place, Target};
use crate::error::{Error, Result};
use crate::source::{FileId, Source, Stat};

use super::super::tail::DAEMON;

/// A name of a file, and the one that it is to have.
pub(super) struct ChangedName {
    pub(super) directory: Arc<Path>,
    /// Of the directory.
    pub(super) id: FileId,
    pub(super) old: OsString,
    pub(super) new: OsString,
}

/// A file that is to be converted.
pub(super) struct ConvertJob {
    pub(super) names: Vec<ChangedName>,
    pub(super) id: FileId,
}

/// One that has been, under its temporary name.
pub(super) struct PreparedFile {
    names: Vec<ChangedName>,
    temporary: OsString,
    made: FileId,
    /// The old one, as it was when it was read.
    old: Stat,
    len: u64,
}

impl ChangedName {
    pub(super) fn place<'a>(&'a self, name: &'a OsStr) -> Place<'a> {
        Place {
            directory: &self.directory,
            id: self.id,
            name,
        }
    }

    pub(super) fn old_path(&self) -> PathBuf {
        self.directory.join(&self.old)
    }
}

impl PreparedFile {
    fn first(&self) -> &ChangedName {
        &self.names[0]
    }

    fn temporary_path(&self) -> PathBuf {
        self.first().directory.join(&self.temporary)
    }
}

impl Conversion<'_> {
    /// Writes the new file. What fails concerns this file alone.
    pub(super) fn prepare(&self, job: ConvertJob, threads: usize) -> Result<PreparedFile> {
        let first = job.names.first();
        let first = first.ok_or_else(|| Error::Bug("a file without a name".into()))?;
        let path = first.old_path();
        let source = self.store.open(&path)?;
        let old = source.stat_opened()?;
        if old.id != job.id {
            let path = self.store.display(&path);
            return Err(Error::Changed { path });
        }
        // A change within the same tick of the clock would not be seen.
        source.fetch(&mut [])?;
        let temporary = walk::temporary_name(self.direction, job.id);
        let new = self.disk.create(first.place(&temporary), 0o600, DAEMON)?;
        let len = self
            .fill(&path, (&*source, &old), &*new, threads)
            .and_then(|len| make_alike(self.disk, &*source, &old, &*new).map(|()| len));
        let made = new.source().id();
        match len {
            Ok(len) => Ok(PreparedFile {
                names: job.names,
                temporary,
                made,
                old,
                len,
            }),
            Err(e) => {
                self.unlink_quietly(first.place(&temporary));
                self.restore_times(&first.directory, first.id);
                Err(e)
            }
        }
    }

    fn fill(
        &self,
        path: &Path,
        (source, old): (&dyn Source, &Stat),
        new: &dyn DiskFile,
        threads: usize,
    ) -> Result<u64> {
        let size = old.size;
        let reported = Cell::new(0);
        let report = |to: u64| {
            self.watch.advanced(to.saturating_sub(reported.get()));
            reported.set(to.max(reported.get()));
        };
        let done = Cell::new(0u64);
        let len = match (self.direction, &self.stored) {
            (ConvertDirection::Unpack, Some(stored)) => {
                let file = stored.file(path)?;
                if file.id != old.id {
                    let path = self.store.display(path);
                    return Err(Error::Changed { path });
                }
                let plain = u128::from(file.read().len.max(1));
                unpacking::unpack(&file, new, threads, &|more| {
                    done.set(done.get().saturating_add(more));
                    let share = u128::from(size) * u128::from(done.get()) / plain;
                    report(u64::try_from(share).unwrap_or(size).min(size));
                })
            }
            _ => packing::pack(source, new, self.options, threads, &|more| {
                done.set(done.get().saturating_add(more));
                report(done.get().min(size));
            }),
        }?;
        report(size);
        Ok(len)
    }

    /// Gives files that are prepared the names of the old ones. What fails here is the disk.
    pub(super) fn publish(&self, prepared: Vec<PreparedFile>) -> Result<()> {
        let directories = directories_of(&prepared);
        let published = self.give_way(prepared);
        for (path, id) in directories {
            self.restore_times(&path, id);
        }
        published
    }

    fn give_way(&self, prepared: Vec<PreparedFile>) -> Result<()> {
        if prepared.is_empty() {
            return Ok(());
        }
        if let Err(e) = self.sync_new(&prepared) {
            prepared.iter().for_each(|file| self.discard(file, 0));
            return Err(e);
        }
        let linked: Vec<PreparedFile> = prepared
            .into_iter()
            .filter(|file| self.tell(file, self.give_names(file)).is_some())
            .collect();
        let directories = directories_of(&linked);
        for (path, id) in &directories {
            let synced = self.disk.sync(Target::Named { path, id: *id }, false);
            if let Err(e) = synced.or_else(unless_no_such_call) {
                linked
                    .iter()
                    .for_each(|file| self.discard(file, file.names.len()));
                return Err(e);
            }
        }
        for file in linked {
            if self.tell(&file, self.remove_old(&file)).is_some() {
                let names = file.names.len() as u64;
                self.done.files.fetch_add(names, Relaxed);
                self.done.before.fetch_add(file.old.size, Relaxed);
                self.done.after.fetch_add(file.len, Relaxed);
            }
        }
        Ok(())
    }

    /// What failed concerns one file, which is left alone.
    fn tell<T>(&self, file: &PreparedFile, outcome: Result<T>) -> Option<T> {
        let path = file.first().old_path();
        let told = outcome.map_err(|e| self.leave_file(file.old.id, &path, &e));
        told.ok()
    }

    /// A file system that reports a failure of anybody's bytes says so once: whoever hears of it
    /// ends all.
    fn sync_new(&self, prepared: &[PreparedFile]) -> Result<()> {
        let mut failed = self.sync_failed.lock();
        if *failed {
            return Err(Error::Invalid("the disk has failed before".into()));
        }
        let paths: Vec<PathBuf> = prepared.iter().map(PreparedFile::temporary_path).collect();
        let named = paths.iter().zip(prepared);
        let targets: Vec<_> = named
            .map(|(path, file)| Target::Named {
                path,
                id: file.made,
            })
            .collect();
        let synced = self.disk.sync_many(&targets);
        *failed = synced.is_err();
        synced
    }

    fn give_names(&self, file: &PreparedFile) -> Result<()> {
        let path = file.temporary_path();
        let target = Target::Named {
            path: &path,
            id: file.made,
        };
        for (count, name) in file.names.iter().enumerate() {
            if let Err(e) = self.disk.link(target, name.place(&name.new)) {
                self.discard(file, count);
                return Err(e);
            }
        }
        Ok(())
    }

    /// Only if nobody has changed anything meanwhile.
    fn remove_old(&self, file: &PreparedFile) -> Result<()> {
        if let Err(e) = self.check_unchanged(file) {
            self.discard(file, file.names.len());
            return Err(e);
        }
        for (count, name) in file.names.iter().enumerate() {
            if let Err(e) = self.disk.unlink(name.place(&name.old)) {
                // With the temporary name, and the log, the next conversion can finish it.
                match count {
                    0 => self.discard(file, file.names.len()),
                    _ => self.has_odd_names.store(true, Relaxed),
                }
                return Err(e);
            }
        }
        self.unlink_quietly(file.first().place(&file.temporary));
        Ok(())
    }

    fn check_unchanged(&self, file: &PreparedFile) -> Result<()> {
        for name in &file.names {
            let path = name.old_path();
            let now = self.store.stat(&path)?;
            let (is, was) = (&now, &file.old);
            let is_same =
                is.identity() == was.identity() && is.ctime == was.ctime && is.nlink == was.nlink;
            if !is_same {
                return Err(Error::Invalid("it was changed meanwhile".into()));
            }
        }
        let opened = self.store.open(&file.first().old_path())?;
        match writers::is_being_written(&*opened) {
            true => Err(Error::Invalid("a program has it open for writing".into())),
            false => Ok(()),
        }
    }

    /// Takes back the first of the new names, and the new file; as long as one is left, the
    /// temporary name says what it is.
    fn discard(&self, file: &PreparedFile, names: usize) {
        let mut given = file.names.iter().take(names);
        if given.all(|name| self.unlink_quietly(name.place(&name.new))) {
            self.unlink_quietly(file.first().place(&file.temporary));
        }
    }

    /// What stays is found by the next conversion.
    fn unlink_quietly(&self, place: Place<'_>) -> bool {
        let unlinked = self.disk.unlink(place);
        let unlinked = unlinked.inspect_err(|e| log::warn!("{e}")).is_ok();
        // The next run knows by the log that the name is ours.
        self.has_odd_names.fetch_or(!unlinked, Relaxed);
        unlinked
    }

    /// A directory has the times again that it had before all this.
    pub(super) fn restore_times(&self, path: &Path, id: FileId) {
        self.log.restore_times(self.disk, path, id);
    }
}

/// Not every file system has directories that can be synced.
pub(super) fn unless_no_such_call(e: Error) -> Result<()> {
    match &e {
        Error::Io { cause, .. } if cause.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        _ => Err(e),
    }
}

/// Each directory in which something changes, once.
fn directories_of(files: &[PreparedFile]) -> Vec<(Arc<Path>, FileId)> {
    let names = files.iter().flat_map(|file| &file.names);
    let mut found: Vec<(Arc<Path>, FileId)> = names
        .map(|name| (Arc::clone(&name.directory), name.id))
        .collect();
    found.sort_by(|one, other| one.0.cmp(&other.0));
    found.dedup_by(|one, other| one.0 == other.0);
    found
}
