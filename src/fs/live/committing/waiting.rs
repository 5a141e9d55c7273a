//! Commits that wait for another program which has the file open: who that is, and what is done
//! when it has closed it.
//!
//! Programs of HDF5 that close a file which they could have written give it another time of
//! modification, whether or not they have changed it: they have marked it when they opened it. So
//! the content is known from the moment at which a commit begins to wait ([`HeldContent`]): if it
//! is the same afterwards the file gets its time back, and the version that is shown goes on, with
//! what is staged of it. Used by [`super::later`], which tries again, by [`super`], and by
//! [`crate::live::version`].

use std::hash::{DefaultHasher, Hasher};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::due::{DueCommits, Later};
use crate::commit::{FileInUse, program_lock};
use crate::container::MemberStats;
use crate::disk::{NewAttributes, NewTime};
use crate::error::Result;
use crate::live::ground::Ground;
use crate::live::shown::StoredReaders;
use crate::live::version::ContainerVersion;
use crate::patience;
use crate::source::{FileIdentity, FileKind, Source, open_same};
use crate::stage::{HeldFile, LogState};

/// Longest file of which the content is remembered, and of which it is at once: of a longer one it
/// is when it is tried again, so that no close waits for that.
const MOST: u64 = 64 << 30;
const MOST_AT_ONCE: u64 = 1 << 30;

const STEP: usize = 256 << 10;

/// After so many bytes it is asked whether who waits is still there.
const LOOKED_EACH: u64 = 64 << 20;

/// What a file was when a commit began to wait for a program that has it open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeldContent {
    file: FileIdentity,
    /// Of all but the marks.
    hash: u64,
    marks: (u64, u64),
}

impl HeldContent {
    /// None if the file changes meanwhile, or the program that waits for this has been killed.
    fn of(source: &dyn Source, marks: (u64, u64)) -> Result<Option<HeldContent>> {
        let file = source.stat()?.file();
        let (mut hash, mut at, mut part) = (DefaultHasher::new(), 0u64, vec![0; STEP]);
        loop {
            let n = source.read(at, &mut part)?;
            if n == 0 {
                break;
            }
            let bytes = &mut part[..n];
            let within = |place: u64| place.saturating_sub(at).min(n as u64) as usize;
            bytes[within(marks.0)..within(marks.1.max(marks.0))].fill(0);
            hash.write(bytes);
            at += n as u64;
            if at % LOOKED_EACH < STEP as u64 && patience::caller().has_gone() {
                return Ok(None);
            }
        }
        let still = at == file.size && source.stat()?.file() == file;
        let hash = hash.finish();
        Ok(still.then_some(HeldContent { file, hash, marks }))
    }
}

impl HeldContent {
    fn logged(self) -> HeldFile {
        HeldFile {
            size: self.file.size,
            hash: self.hash,
            marks: self.marks,
        }
    }
}

/// Looks after the files of commits that wait.
pub(crate) struct HeldFiles {
    pub(crate) ground: Arc<Ground>,
    pub(crate) readers: Arc<StoredReaders>,
    pub(crate) due: Arc<DueCommits>,
}

impl HeldFiles {
    /// Whether a file of another time is what a commit waited for when its daemon was killed.
    pub(crate) fn is_as_held(&self, path: &Path, state: &LogState) -> Result<bool> {
        let Some(held) = state.held().filter(|held| held.size <= MOST) else {
            return Ok(false);
        };
        let source = self.ground.store.open(path)?;
        if source.len() != held.size {
            return Ok(false);
        }
        let Ok(_locked) = program_lock::take(&*source, false)? else {
            return Ok(false);
        };
        let found = HeldContent::of(&*source, held.marks)?;
        Ok(found.is_some_and(|found| found.logged() == held))
    }

    /// A commit could not be made for this: it is tried again.
    pub(crate) fn wait_for_program(&self, version: &Arc<ContainerVersion>, in_use: FileInUse) {
        let known = match version.writes.outcome.held_content() {
            Some(known) => self.log_held(version, known),
            None => self.held_content(version, MOST_AT_ONCE),
        };
        let again = version.writes.outcome.note_waits(in_use, known);
        self.due.set(Later::PutOff, version, Instant::now() + again);
    }

    /// Of the file as it was opened for this version, if it is at most so long.
    fn held_content(&self, version: &ContainerVersion, most: u64) -> Option<HeldContent> {
        let path = self.ground.places.path(version.container).ok()?;
        let seen = version
            .identity()
            .file()
            .filter(|file| file.size() <= most)?;
        let source = open_same(&*self.ground.store, &path, &seen).ok()?;
        let marks = version.writes.now()?.writable().marks();
        let held = HeldContent::of(&*source, (marks.start, marks.end));
        self.log_held(version, held.ok().flatten()?)
    }

    /// For the next mount, should this one be killed.
    fn log_held(&self, version: &ContainerVersion, held: HeldContent) -> Option<HeldContent> {
        if let Some(now) = version.writes.now()
            && let Err(e) = now.stage.note_held(held.logged())
        {
            log::debug!("{e}");
        }
        Some(held)
    }

    /// When to look again, if another program still has the file open for which a commit waits.
    pub(super) fn still_waits(
        &self,
        version: &ContainerVersion,
        waits: FileInUse,
    ) -> Option<Duration> {
        self.held_by(version, waits.alone)?;
        let known = version.writes.outcome.held_content();
        let known = known.or_else(|| self.held_content(version, MOST));
        Some(version.writes.outcome.note_waits(waits, known))
    }

    /// Who has the file of a container open, against such a change.
    fn held_by(&self, version: &ContainerVersion, alone: bool) -> Option<String> {
        let path = self.ground.places.path(version.container).ok()?;
        let source = self.ground.store.open(&path).ok()?;
        match alone && self.readers.has(&source.id()) {
            true => Some("a program has its `views/stored` open".into()),
            false => program_lock::held_by(&*source, alone),
        }
    }

    /// Brings the reason up to date for which something stays staged: who has the file open now.
    pub(crate) fn look_who_holds(&self, version: &ContainerVersion) {
        let Some(waits) = version.writes.outcome.waits() else {
            return;
        };
        let by = match self.held_by(version, waits.alone) {
            Some(by) => by,
            // Who was named has closed it; others are not always told by the system.
            None if waits.by.starts_with("process ") => "it is about to be committed".into(),
            None => return,
        };
        let known = version.writes.outcome.held_content();
        version
            .writes
            .outcome
            .note_waits(FileInUse { by, ..waits }, known);
    }

    /// Gives a file its time back that another program has closed without a change. Says whether it
    /// did: else it is another version.
    pub(crate) fn give_time_back(
        &self,
        version: &ContainerVersion,
        path: &Path,
        found: &MemberStats,
    ) -> bool {
        let (now, known) = (found.own.file(), version.writes.outcome.held_content());
        let Some(known) = known.filter(|_| found.own.kind == FileKind::File) else {
            return false;
        };
        let is_touched = known.file.id == now.id
            && known.file.size == now.size
            && known.file.mtime != now.mtime
            && version.identity().file() == Some(known.file.into());
        if !is_touched {
            return false;
        }
        let given = self.time_given_back(path, &now, known);
        given.unwrap_or_else(|e| {
            log::debug!("{e}");
            false
        })
    }

    fn time_given_back(&self, path: &Path, now: &FileIdentity, known: HeldContent) -> Result<bool> {
        self.ground.writable()?;
        let source = open_same(&*self.ground.store, path, &(*now).into())?;
        // No program of the format writes to it meanwhile.
        let Ok(_locked) = program_lock::take(&*source, false)? else {
            return Ok(false);
        };
        let found = HeldContent::of(&*source, known.marks)?;
        if found.is_none_or(|found| found.hash != known.hash) {
            return Ok(false);
        }
        let time = NewAttributes {
            mtime: Some(NewTime::At(known.file.mtime)),
            ..NewAttributes::default()
        };
        self.ground.set_attributes(path, now.id, &time)?;
        Ok(true)
    }
}
