//! Bytes that a commit in place puts behind the old end of a file, before it is sealed.
//!
//! Nobody reads there, so they need no redo: they are written once, and are on the disk when the
//! log is sealed. Before the first of them the log says how the file was, and that is on the disk;
//! a commit that comes to nothing cuts the file back to it, and so does whoever finds such a log
//! ([`cut_back`]). Meanwhile everybody sees the file as it was ([`Growth`]). Used by
//! [`super::in_place`] and [`super::recovery`].

use std::ffi::OsString;
use std::sync::Arc;

use super::changed_file::may_set_time;
use super::fingerprint::{fingerprint_of, fingerprint_of_all};
use super::input::Commit;
use super::recovery_state::{is_base, path_of};
use super::spot::{SeenFile, beside};
use crate::disk::{Caller, Disk, DiskFile, NewAttributes, NewTime, Target};
use crate::error::{Error, Result};
use crate::source::local::growing::Growth;
use crate::source::{Fetch, FileIdentity, Source, SourceIdentity, Stat};
use crate::stage::log::{CommitRecord, GrowingFile, Patch};
use crate::stage::{LogOf, LogSpot, LogState};

/// So many bytes behind the end go to the log, and into the file later, as all others do: for few
/// of them the two syncs more cost more than writing them twice.
pub(super) const GROWN_FROM: u64 = if cfg!(test) { 100 } else { 4 << 20 };

/// The disk begins to write so much as soon as it is there.
const WRITEBACK: u64 = 2 << 20;

/// A file of a container that has got bytes behind its end.
pub(super) struct GrownFile {
    file: Arc<dyn DiskFile>,
    name: OsString,
    /// What the log says of it.
    said: GrowingFile,
    disk: Arc<dyn Disk>,
    growth: Growth,
    owner: Caller,
    /// Where they end.
    end: u64,
    /// From here on the disk has not begun to write.
    waiting: u64,
}

impl GrownFile {
    /// Says in the log that the file is going to grow. None if its time could not be taken back, or
    /// if it cannot be compared with what it was.
    pub(super) fn begin(
        commit: &Commit<'_>,
        seen: &SeenFile,
        old: &dyn Source,
    ) -> Result<Option<GrownFile>> {
        let path = beside(commit.spot, &seen.name);
        let stat = commit.store.stat(&path)?;
        let file = match commit.disk.open(&path, old.id()) {
            Err(e) if e.is_permission_denied() => return Ok(None),
            file => file?,
        };
        if !may_set_time(commit, &*file, &stat)? {
            return Ok(None);
        }
        let growth = match Growth::begin(file.source()) {
            Ok(growth) if old.identity() == growth.before().into() => growth,
            _ => return Ok(None),
        };
        let name = seen.name.to_str();
        let said = GrowingFile {
            name: name
                .filter(|_| commit.is_directory)
                .unwrap_or_default()
                .to_owned(),
            untouched: fingerprint_of_all(old, old.len())?,
            grown: None,
        };
        commit.stage.append(&CommitRecord::Growing {
            layer: commit.layer,
            file: said.clone(),
        })?;
        commit.stage.sync_log()?;
        Ok(Some(GrownFile {
            name: seen.name.clone(),
            said,
            disk: Arc::clone(commit.disk),
            owner: commit.owner(&stat),
            end: old.len(),
            waiting: old.len(),
            growth,
            file,
        }))
    }

    /// How the file was, and is shown.
    fn before(&self) -> FileIdentity {
        self.growth.before()
    }

    pub(super) fn put(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        let end = at.saturating_add(bytes.len() as u64);
        self.step(end, |file, owner| file.put_all(at, bytes, owner))?;
        self.end = self.end.max(end);
        if self.end.saturating_sub(self.waiting) >= WRITEBACK {
            self.file.begin_writeback(self.waiting..self.end);
            self.waiting = self.end;
        }
        Ok(())
    }

    /// Changes the file, which is shown as before all the same. `len`: of the file then, at most.
    pub(super) fn step<T>(
        &self,
        len: u64,
        change: impl FnOnce(&dyn DiskFile, Caller) -> Result<T>,
    ) -> Result<T> {
        let file = &*self.file;
        self.growth
            .step(file.source(), len, || change(file, self.owner))
    }

    /// Returns when all of it is on the disk, in a file that is not going to be longer than this,
    /// and the log says how it is recognised. `patches`: what is put there later.
    pub(super) fn settle(
        &mut self,
        commit: &Commit<'_>,
        len: u64,
        patches: &[Patch],
    ) -> Result<()> {
        let most = len.max(self.before().size);
        if self.end > most {
            self.step(most, |file, owner| file.set_len(most, owner))?;
            self.end = most;
        }
        self.disk.sync(Target::Open(self.file.source()), true)?;
        let (bytes, old) = (self.bytes(), self.before().size);
        if fingerprint_of_all(&*bytes, old)? != self.said.untouched {
            return Err(commit.changed(&self.name));
        }
        let changed = patches.iter().map(Patch::range).collect();
        commit.stage.append(&CommitRecord::Grown {
            name: self.said.name.clone(),
            end: self.end,
            grown: fingerprint_of(&*bytes, &changed, old..self.end)?,
        })
    }

    /// The file as it is, to be read behind the old end.
    pub(super) fn bytes(&self) -> Arc<dyn Source> {
        Arc::new(BytesBehindTheEnd {
            file: Arc::clone(&self.file),
            before: self.before(),
            end: self.end,
        })
    }

    /// The file is as it was before. One that another process has changed is left alone.
    fn take_back(&self) -> Result<()> {
        let before = self.before();
        match self.step(0, |file, owner| cut(&*self.disk, (file, owner), &before)) {
            Err(Error::Changed { .. }) => Ok(()),
            cut => cut,
        }
    }
}

/// The commit has come to nothing: cuts the files back. If that is not possible the log goes on
/// saying that they have grown, or, if it was sealed, what they are to become.
pub(super) fn take_back(
    commit: &Commit<'_>,
    grown: impl IntoIterator<Item = GrownFile>,
    is_sealed: bool,
) -> Result<()> {
    let grown: Vec<GrownFile> = grown.into_iter().collect();
    // Something else could not be taken back: the seal stays, and they are a part of it.
    if is_sealed && commit.stage.is_half_done() {
        return Ok(());
    }
    // A seal whose file has been cut would be carried out without the bytes behind the end.
    if is_sealed {
        let void = grown.iter().try_for_each(|file| {
            let (layer, file) = (commit.layer, file.said.clone());
            commit.stage.append(&CommitRecord::Growing { layer, file })
        });
        void.and_then(|()| commit.stage.sync_log())
            .inspect_err(|_| commit.stage.stay_sealed())?;
    }
    grown
        .iter()
        .try_for_each(GrownFile::take_back)
        .and_then(|()| commit.stage.call_off(commit.layer))
        .inspect_err(|_| commit.stage.stay_sealed())
}

/// Gives a file the length and the time that it had.
fn cut(
    disk: &dyn Disk,
    (file, owner): (&dyn DiskFile, Caller),
    before: &FileIdentity,
) -> Result<()> {
    file.set_len(before.size, owner)?;
    let target = Target::Open(file.source());
    let times = NewAttributes {
        mtime: Some(NewTime::At(before.mtime)),
        ..NewAttributes::default()
    };
    disk.set_attributes(target, &times)?;
    disk.sync(target, false)
}

/// Whether a file is the one that a log says was going to grow, or has grown in part, or was being
/// cut back.
pub(super) fn is_grown(
    of: &LogOf<'_>,
    now: &Stat,
    (state, name): (&LogState, &str),
) -> Result<bool> {
    let base = state.base().file(name);
    let (Some(growing), Some(base)) = (state.growing(name), base) else {
        return Ok(false);
    };
    if now.size < base.size {
        return Ok(false);
    }
    let source = of.store.open(&path_of(of, name))?;
    Ok(fingerprint_of_all(&*source, base.size)? == growing.untouched)
}

/// Whether a file has the bytes behind its old end that a sealed commit does not put there again.
/// `patches`: what it does put.
pub(super) fn has_grown(
    of: &LogOf<'_>,
    now: &Stat,
    (state, name): (&LogState, &str),
    patches: &[Patch],
) -> Result<bool> {
    let base = state.base().file(name);
    let (Some(growing), Some(base)) = (state.growing(name), base) else {
        return Ok(true);
    };
    let Some((end, grown)) = growing.grown.filter(|(end, _)| now.size >= *end) else {
        return Ok(false);
    };
    let source = of.store.open(&path_of(of, name))?;
    let changed = patches.iter().map(Patch::range).collect();
    Ok(fingerprint_of(&*source, &changed, base.size..end)? == grown)
}

/// Cuts the files back that a commit had made longer when it was cut short: they are then what the
/// log says they were.
pub(super) fn cut_back(spot: &LogSpot, state: &LogState) -> Result<bool> {
    let (of, mut is_cut) = (spot.of(), false);
    for base in &state.base().files {
        if state.growing(&base.name).is_none() {
            continue;
        }
        let path = path_of(&of, &base.name);
        let now = spot.store.stat(&path)?;
        if is_base(&now, base) {
            continue;
        }
        let file = spot.disk.open(&path, now.id)?;
        let owner = Caller::of(now.uid, now.gid);
        let before = FileIdentity {
            size: base.size,
            mtime: base.mtime(),
            ..now.file()
        };
        cut(&*spot.disk, (&*file, owner), &before)?;
        is_cut = true;
    }
    Ok(is_cut)
}

/// Read without being compared: it grows.
struct BytesBehindTheEnd {
    file: Arc<dyn DiskFile>,
    before: FileIdentity,
    end: u64,
}

impl Source for BytesBehindTheEnd {
    fn len(&self) -> u64 {
        self.end
    }

    fn identity(&self) -> SourceIdentity {
        self.before.into()
    }

    fn fetch(&self, ranges: &mut [Fetch<'_>]) -> Result<()> {
        ranges
            .iter_mut()
            .try_for_each(|fetch| super::fingerprint::read_filled(self, fetch.offset, fetch.buf))
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.file.source().read(offset, buf)
    }
}
