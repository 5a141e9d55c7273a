//! A commit as changes of the files themselves, behind a log of them.
//!
//! Every byte that is going to be written to any file of the container is in the log first, and one
//! record that seals it; both are on the disk before a file is touched. Doing it all again from the
//! log gives the same files, however much of it was done before: so after a crash they are the old
//! ones, if there is no seal, or the new ones. Bytes that stay where they are cost nothing. A file
//! that was not there is named in the seal, made, and then written like the others. Much that
//! comes behind a file's end is no redo ([`super::grown`]). Used by [`super`].

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::changed_file::ChangedFile;
use super::covered::CoveredBytes;
use super::future_file::FutureFile;
use super::grown;
use super::grown::{GROWN_FROM, GrownFile};
use super::input::Commit;
use super::phases::CommitTarget;
use super::redo::STEP;
use crate::container::writable::{CommitWay, MemberNumber, Recipe};
use crate::error::{Error, Result};
use crate::patience;
use crate::source::{BytesSource, Source};
use crate::stage::log::{CommitRecord, Patch, last_said};

/// The log as a recipe is written to it, and then the files.
pub(super) struct RedoLog<'a> {
    commit: &'a Commit<'a>,
    told: BTreeMap<MemberNumber, RedoFile>,
    /// Those that are sealed.
    files: Vec<ChangedFile>,
    /// Those that have got bytes behind their ends, until they are published.
    grown: BTreeMap<MemberNumber, GrownFile>,
    is_sealed: bool,
}

/// A file as far as the recipe has told it.
struct RedoFile {
    /// None: there is none.
    old: Option<Arc<dyn Source>>,
    patches: Vec<Patch>,
    told: CoveredBytes,
    behind: BehindTheEnd,
}

/// What has been told of the bytes behind the old end of a file.
#[derive(Default)]
struct BehindTheEnd {
    /// How many went to the log, and where the last of them end.
    logged: u64,
    logged_to: u64,
    /// Whether all of them go there.
    cannot_grow: bool,
}

impl<'a> RedoLog<'a> {
    pub(super) fn new(commit: &'a Commit<'a>) -> RedoLog<'a> {
        RedoLog {
            commit,
            told: BTreeMap::new(),
            files: Vec::new(),
            grown: BTreeMap::new(),
            is_sealed: false,
        }
    }

    fn file(&mut self, number: MemberNumber) -> Result<&mut RedoFile> {
        if !self.told.contains_key(&number) {
            let seen = self.commit.seen_file(number)?;
            let old = seen.identity.map(|_| self.commit.source_of(seen));
            let told = RedoFile {
                old: old.transpose()?,
                patches: Vec::new(),
                told: CoveredBytes::default(),
                behind: BehindTheEnd::default(),
            };
            self.told.insert(number, told);
        }
        let file = self.told.get_mut(&number);
        file.ok_or_else(|| Error::Bug("a file that was told of has gone".into()))
    }

    /// The changes of a file; none if there are none.
    fn changed(&mut self, number: MemberNumber, file: RedoFile) -> Result<Option<ChangedFile>> {
        let len = file.told.check(number)?;
        let patches = last_said(file.patches);
        let grown = self.grown.get_mut(&number);
        let stays = |old: &Arc<dyn Source>| old.len() == len && patches.is_empty();
        if grown.is_none() && file.old.as_ref().is_some_and(stays) {
            return Ok(None);
        }
        if let Some(grown) = grown {
            grown.settle(self.commit, len, &patches)?;
        }
        let seen = self.commit.seen_file(number)?.clone();
        let changed = match file.old {
            Some(old) => ChangedFile::open(self.commit, (number, seen), old, (patches, len)),
            None => {
                let old = Arc::new(BytesSource::new(Vec::new()));
                ChangedFile::missing(self.commit, (number, seen), old, (patches, len))
            }
        };
        changed.map(Some)
    }

    /// Takes the room that the files are going to need: that there is none is found out before any
    /// is changed.
    fn reserve_all(&self) -> Result<()> {
        for (number, file) in self.files.iter().enumerate() {
            let grown = self.grown.get(&file.number());
            match file.reserve(self.commit, grown) {
                Err(e) if e.is_no_room() => {
                    let reserved = self.files[..=number].iter().rev();
                    // Those that have grown are cut back.
                    let is_left = |file: &&ChangedFile| !self.grown.contains_key(&file.number());
                    reserved
                        .filter(is_left)
                        .try_for_each(|file| file.restore(self.commit))
                        .inspect_err(|_| self.commit.stage.stay_sealed())?;
                    return Err(e);
                }
                Err(e @ Error::Changed { .. }) => return Err(e),
                Err(e) => log::debug!("{e}"),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    fn carry_out_all(&self) -> Result<()> {
        let mut files = self.files.iter();
        files.try_for_each(|file| file.carry_out(self.commit))
    }

    /// Makes the files that were not there; all of them, or none.
    fn make_all(&mut self) -> Result<()> {
        let commit = self.commit;
        let mut files = self.files.iter_mut();
        let made = files.try_for_each(|file| file.make(commit));
        if made.is_err() {
            self.files.iter().for_each(|file| file.remove_made(commit));
        }
        made
    }
}

impl CommitTarget for RedoLog<'_> {
    fn recipe_way(&self) -> CommitWay {
        CommitWay::InPlace
    }

    fn published_as(&self) -> CommitWay {
        CommitWay::InPlace
    }

    fn prepare(&mut self) -> Result<Vec<FutureFile>> {
        for (number, file) in std::mem::take(&mut self.told) {
            if let Some(changed) = self.changed(number, file)? {
                self.commit.stage.append(&changed.length())?;
                self.files.push(changed);
            }
        }
        if self.files.is_empty() {
            return Ok(Vec::new());
        }
        let log = self.commit.stage.log_bytes()?;
        let files = self.files.iter().map(|file| {
            let grown = self.grown.get(&file.number());
            file.future(log.clone(), grown)
        });
        Ok(files.collect())
    }

    fn seal(&mut self) -> Result<()> {
        self.is_sealed = true;
        let sealed = self.files.iter().map(|file| file.seal(self.commit));
        self.commit.stage.append(&CommitRecord::Sealed {
            layer: self.commit.layer,
            files: sealed.collect::<Result<_>>()?,
        })?;
        self.commit.stage.sync_log()
    }

    fn publish(&mut self) -> Result<()> {
        self.make_all()?;
        self.reserve_all().inspect_err(|_| {
            self.files
                .iter()
                .for_each(|file| file.remove_made(self.commit))
        })?;
        // From here on there is no way back: they are shown as they are.
        self.grown.clear();
        // A half changed file is neither container: a failed step is tried again here, and after a
        // second failure by the recovery.
        self.carry_out_all()
            .or_else(|e| {
                log::warn!("{}; trying again", self.commit.named(&e));
                self.carry_out_all()
            })
            .inspect_err(|_| self.commit.stage.stay_sealed())
    }

    fn sync(&mut self) -> Result<()> {
        let mut files = self.files.iter();
        files.try_for_each(|file| file.sync(self.commit))
    }

    /// What could not be written is not dirty any more: it is put there once more.
    fn redo(&mut self) -> Result<()> {
        let done = self.carry_out_all();
        done.and_then(|()| self.sync())
            .inspect_err(|_| self.commit.stage.stay_sealed())
    }

    fn end(&mut self, _is_made: bool) {
        self.take_back();
    }
}

impl Recipe for RedoLog<'_> {
    fn copy(&mut self, file: MemberNumber, from: Range<u64>, to: u64) -> Result<()> {
        let redo = self.file(file)?;
        let old = redo.old.as_ref().map(Arc::clone);
        let old = old.ok_or_else(|| nothing(file))?;
        if from.start == to {
            redo.told.add(from);
            return Ok(());
        }
        let mut buf = vec![0; STEP.min(from.end - from.start) as usize];
        let mut at = from.start;
        while at < from.end {
            patience::check()?;
            let n = STEP.min(from.end - at) as usize;
            old.fetch_one(at, &mut buf[..n])?;
            self.put(file, to + (at - from.start), &buf[..n])?;
            at += n as u64;
        }
        Ok(())
    }

    fn put(&mut self, file: MemberNumber, at: u64, bytes: &[u8]) -> Result<()> {
        let (stage, range) = (self.commit.stage, at..at + bytes.len() as u64);
        self.file(file)?.told.add(range.clone());
        if let Some(grown) = self.behind_the_end(file, &range)? {
            return grown.put(at, bytes);
        }
        let redo = self.file(file)?;
        redo.log_behind_the_end(&range);
        let patches = &mut redo.patches;
        stage.append_redo(file.0, at, bytes, &mut |at, logged| {
            patches.push(Patch { at, logged });
        })
    }

    /// They come by themselves when the file gets longer.
    fn zeros(&mut self, file: MemberNumber, range: Range<u64>) -> Result<()> {
        let redo = self.file(file)?;
        if range.start < redo.old.as_ref().map_or(0, |old| old.len()) {
            let place = format!("zeros before the end of a file, at {}", range.start);
            return Err(Error::Bug(place));
        }
        redo.told.add(range);
        Ok(())
    }

    fn keep_rest(&mut self, file: MemberNumber) -> Result<()> {
        let redo = self.file(file)?;
        let old = redo.old.as_ref().ok_or_else(|| nothing(file))?;
        redo.told.keep(old.len());
        Ok(())
    }

    fn set_len(&mut self, file: MemberNumber, len: u64) -> Result<()> {
        self.file(file)?.told.set_len(len);
        Ok(())
    }
}

impl RedoLog<'_> {
    /// The file, if these bytes are written behind its end now rather than logged: once there are
    /// many, and not over those that are going to be put there from the log.
    fn behind_the_end(
        &mut self,
        number: MemberNumber,
        range: &Range<u64>,
    ) -> Result<Option<&mut GrownFile>> {
        let (commit, redo) = (self.commit, self.file(number)?);
        let len = range.end - range.start;
        let is_free = |len: u64| range.start >= len.max(redo.behind.logged_to);
        let Some(old) = redo.old.clone().filter(|old| len > 0 && is_free(old.len())) else {
            return Ok(None);
        };
        let are_many = redo.behind.logged.saturating_add(len) > GROWN_FROM;
        // Programs of other formats do not say that they have the file open: what they write
        // meanwhile could pass for a part of the growth.
        let is_alone = commit.writable.heeds_locks();
        let begins = are_many && is_alone && !redo.behind.cannot_grow;
        if begins && !self.grown.contains_key(&number) {
            match GrownFile::begin(commit, commit.seen_file(number)?, &*old)? {
                Some(grown) => drop(self.grown.insert(number, grown)),
                None => self.file(number)?.behind.cannot_grow = true,
            }
        }
        Ok(self.grown.get_mut(&number))
    }

    /// Cuts the files back if the commit has come to nothing.
    fn take_back(&mut self) {
        let grown = std::mem::take(&mut self.grown);
        if !grown.is_empty()
            && let Err(e) = grown::take_back(self.commit, grown.into_values(), self.is_sealed)
        {
            log::warn!("{}", self.commit.named(&e));
        }
    }
}

impl RedoFile {
    fn log_behind_the_end(&mut self, range: &Range<u64>) {
        let old = self.old.as_ref().map_or(0, |old| old.len());
        if range.end > old && range.start < range.end {
            let behind = &mut self.behind;
            behind.logged = behind
                .logged
                .saturating_add(range.end - range.start.max(old));
            behind.logged_to = behind.logged_to.max(range.end);
        }
    }
}

fn nothing(file: MemberNumber) -> Error {
    Error::Bug(format!("there is no file {} that could stay", file.0))
}
