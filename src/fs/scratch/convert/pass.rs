//! One pass through the tree: names change, files are converted.
//!
//! This thread lists directories, renames what only changes its name, and converts large files, a
//! few chunks of them at a time on all cores; small ones go to threads in batches, so that they
//! share the waiting for the disk. A file with several names is converted when all of them have
//! been seen. What a name is to become may be another's that goes later: such entries are left for
//! the next pass. Used by [`super::Conversion`].

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

use crossbeam_channel::{Receiver, Sender};

use super::super::base::StoredChunks;
use super::Conversion;
use super::exchange::{ChangedName, ConvertJob};
use super::walk::{self, Becomes, WalkedDirectory};
use crate::disk::{Place, Renaming};
use crate::error::{Error, Result};
use crate::source::{FileId, Stat};

/// Larger files are converted one after another, by all threads.
const SMALL: u64 = 8 << 20;

/// Bytes of a batch.
const BATCH_BYTES: u64 = 32 << 20;

/// The longest name that file systems of Linux have.
const NAME_MOST: usize = 255;

/// Small files that one thread converts.
type ConvertBatch = Vec<ConvertJob>;

/// An entry that cannot change yet.
pub(super) struct BlockedEntry {
    pub(super) path: PathBuf,
    pub(super) why: String,
    /// It is its name alone that was to change.
    pub(super) is_odd: bool,
}

/// What a pass has come across.
#[derive(Default)]
pub(super) struct PassOutcome {
    /// Entries that cannot change yet.
    pub(super) blocked: Vec<BlockedEntry>,
    /// Names that have changed.
    pub(super) renamed: u64,
}

/// A file with several names.
struct LinkedFile {
    stat: Stat,
    names: Vec<ChangedName>,
    /// The new one of another name of it is taken.
    is_blocked: bool,
}

/// A pass under way.
struct TreePass<'a, 'c> {
    conversion: &'a Conversion<'c>,
    is_first: bool,
    batches: Sender<ConvertBatch>,
    batch: ConvertBatch,
    batch_bytes: u64,
    /// Files with several names, by those that have been seen.
    linked: HashMap<FileId, LinkedFile>,
    outcome: PassOutcome,
}

impl Conversion<'_> {
    pub(super) fn pass(&self, is_first: bool) -> Result<PassOutcome> {
        let (batches, ordered) = crossbeam_channel::bounded::<ConvertBatch>(self.threads);
        let (mut outcome, linked) = std::thread::scope(|scope| {
            for _ in 0..self.threads {
                let ordered = ordered.clone();
                scope.spawn(move || self.work(&ordered));
            }
            drop(ordered);
            let mut pass = TreePass {
                conversion: self,
                is_first,
                batches,
                batch: Vec::new(),
                batch_bytes: 0,
                linked: HashMap::new(),
                outcome: PassOutcome::default(),
            };
            let walked = pass.walk().map(|()| pass.send());
            // The threads end when there is no sender any more.
            let TreePass {
                outcome, linked, ..
            } = pass;
            walked.map(|()| (outcome, linked))
        })?;
        self.check_failure()?;
        for (id, file) in linked {
            self.convert_linked(id, file, &mut outcome)?;
        }
        Ok(outcome)
    }

    fn work(&self, ordered: &Receiver<ConvertBatch>) {
        for batch in ordered {
            if let Err(e) = self.convert_batch(batch, 1) {
                // The disk has failed: nothing more is begun.
                self.failure.lock().get_or_insert(e);
            }
        }
    }

    /// Converts files one after the other, each by so many threads, and then gives them all their
    /// names.
    fn convert_batch(&self, batch: ConvertBatch, threads: usize) -> Result<()> {
        let mut prepared = Vec::with_capacity(batch.len());
        for job in batch {
            if self.is_ending() {
                break;
            }
            let (id, path) = (job.id, job.names.first().map(ChangedName::old_path));
            match self.prepare(job, threads) {
                Ok(file) => prepared.push(file),
                Err(e) => self.leave_file(id, &path.unwrap_or_default(), &e),
            }
        }
        self.publish(prepared)
    }

    /// A file all of whose names are to be seen here.
    fn convert_linked(
        &self,
        id: FileId,
        file: LinkedFile,
        outcome: &mut PassOutcome,
    ) -> Result<()> {
        let LinkedFile { stat, names, .. } = file;
        if self.is_ending() || self.is_left(id) {
            return Ok(());
        }
        if file.is_blocked {
            let paths = names.iter().map(ChangedName::old_path);
            let why = "the same file has another name that is left alone";
            outcome.blocked.extend(paths.map(|path| BlockedEntry {
                path,
                why: why.into(),
                is_odd: false,
            }));
            return Ok(());
        }
        if (names.len() as u64) < u64::from(stat.nlink) {
            let outside = u64::from(stat.nlink) - names.len() as u64;
            let path = names.first().map(ChangedName::old_path).unwrap_or_default();
            let what = format!(
                "{outside} of its names (hard links) are not here, and would stay as they are"
            );
            self.leave_file(id, &path, &Error::Invalid(what));
            return Ok(());
        }
        self.convert_batch(vec![ConvertJob { names, id }], self.threads)
    }
}

impl TreePass<'_, '_> {
    fn walk(&mut self) -> Result<()> {
        let mut directories = vec![PathBuf::new()];
        while let Some(path) = directories.pop() {
            let conversion = self.conversion;
            let is_first = self.is_first;
            let mut failed = |path: &Path, e: &Error| {
                if is_first {
                    conversion.leave(path, e);
                }
            };
            let mut directory = match walk::walked(conversion.store, &path, &mut failed) {
                Ok(directory) => directory,
                Err(e) if !path.as_os_str().is_empty() => {
                    failed(&path, &e);
                    continue;
                }
                Err(e) => return Err(e),
            };
            self.visit(&mut directory)?;
            let below = walk::below(&directory, &mut |path| {
                if is_first {
                    let what = "another file system is mounted there";
                    conversion.leave(path, &Error::Invalid(what.into()));
                }
            });
            directories.extend(below.into_iter().map(|(_, path)| path));
            conversion.restore_times(&directory.path, directory.stat.id);
            if conversion.is_ending() {
                break;
            }
        }
        Ok(())
    }

    fn visit(&mut self, directory: &mut WalkedDirectory) -> Result<()> {
        let conversion = self.conversion;
        let mut names: Vec<OsString> = directory.entries.keys().cloned().collect();
        names.sort();
        for name in names {
            let Some(stat) = directory.entries.get(&name).cloned() else {
                continue;
            };
            let becomes = directory.becomes(&name, conversion.direction, conversion.log);
            match becomes {
                Becomes::Same => {}
                _ if conversion.is_left(stat.id) => {}
                Becomes::StoredAlready if self.is_first => {
                    self.stored_already(directory, &name, &stat);
                }
                Becomes::StoredAlready => {}
                Becomes::Renamed(new) if directory.has(&new) => {
                    self.blocked(directory, &name, &new, true);
                }
                Becomes::Converted(new) if directory.has(&new) => {
                    if stat.nlink > 1 {
                        self.linked(&stat).is_blocked = true;
                    }
                    self.blocked(directory, &name, &new, false);
                }
                Becomes::Renamed(new) => self.rename(directory, &name, new),
                Becomes::Converted(new) => self.convert(directory, name, &stat, new)?,
            }
            if conversion.is_ending() {
                break;
            }
        }
        Ok(())
    }

    fn blocked(&mut self, at: &WalkedDirectory, name: &OsStr, new: &OsStr, is_odd: bool) {
        self.outcome.blocked.push(BlockedEntry {
            path: at.path.join(name),
            why: format!("{} is there, too", new.display()),
            is_odd,
        });
    }

    fn rename(&mut self, directory: &mut WalkedDirectory, name: &OsStr, new: OsString) {
        let id = directory.stat.id;
        let place = |name| Place {
            directory: &directory.path,
            id,
            name,
        };
        let how = Renaming::NoReplace;
        let renamed = self.conversion.disk.rename(place(name), place(&new), how);
        match renamed {
            Ok(()) => {
                self.outcome.renamed += 1;
                if let Some(stat) = directory.entries.remove(name) {
                    directory.entries.insert(new, stat);
                }
            }
            Err(e) => {
                let id = directory.entries.get(name).map(|stat| stat.id);
                let path = directory.path.join(name);
                self.conversion.has_odd_names.store(true, Relaxed);
                self.conversion
                    .leave_file(id.unwrap_or_default(), &path, &e);
            }
        }
    }

    /// A file that has the name of a stored one must be one, or nobody can read it in a mount.
    fn stored_already(&self, directory: &WalkedDirectory, name: &OsStr, stat: &Stat) {
        let conversion = self.conversion;
        let path = directory.path.join(name);
        let len = stat.size;
        let size = conversion.options.chunk_size;
        let sound = match len {
            0 => Ok(()),
            _ => conversion
                .store
                .open(&path)
                .and_then(|source| StoredChunks::read(&*source, len, size).map(drop)),
        };
        match sound {
            Ok(()) => {
                conversion.done.stored_already.fetch_add(1, Relaxed);
            }
            Err(e) => conversion.leave_file(stat.id, &path, &e),
        }
    }

    fn convert(
        &mut self,
        directory: &WalkedDirectory,
        old: OsString,
        stat: &Stat,
        new: OsString,
    ) -> Result<()> {
        let (id, size) = (stat.id, stat.size);
        let name = ChangedName {
            directory: directory.path.clone(),
            id: directory.stat.id,
            old,
            new,
        };
        if name.new.len() > NAME_MOST {
            let what = format!("its new name would be longer than {NAME_MOST} bytes");
            let path = name.old_path();
            self.conversion.leave_file(id, &path, &Error::Invalid(what));
            return Ok(());
        }
        if stat.nlink > 1 {
            self.linked(stat).names.push(name);
            return Ok(());
        }
        let names = vec![name];
        let job = ConvertJob { names, id };
        if size > SMALL {
            let conversion = self.conversion;
            return conversion.convert_batch(vec![job], conversion.threads);
        }
        self.batch.push(job);
        self.batch_bytes += size;
        if self.batch.len() >= self.conversion.batch || self.batch_bytes >= BATCH_BYTES {
            self.send();
        }
        Ok(())
    }

    fn linked(&mut self, stat: &Stat) -> &mut LinkedFile {
        let seen = self.linked.entry(stat.id);
        seen.or_insert_with(|| LinkedFile {
            stat: stat.clone(),
            names: Vec::new(),
            is_blocked: false,
        })
    }

    fn send(&mut self) {
        self.batch_bytes = 0;
        let batch = std::mem::take(&mut self.batch);
        // The threads live as long as this sender.
        let _ = self.batches.send(batch);
    }
}
