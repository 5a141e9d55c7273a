//! The next file of a container ([`NextFile`]), taken by the commit that makes it the container.
//!
//! That can be done where every array that has a place in it keeps this place, and where no byte
//! that the log refers to is to be another one: until the commit is over, a crash finds there what
//! is staged. Other commits read from it as from memory. Used by [`super::replaced`],
//! [`super::beside_old`] and [`super::recovery`].

use std::ffi::OsStr;
use std::sync::Arc;

use super::exchange::cannot_exchange;
use super::free_space::free_bytes;
use super::input::Commit;
use super::preparing::FEW_ARRAYS;
use super::spot::{Spot, beside};
use crate::container::writable::Amount;
use crate::disk::{Disk, DiskFile, Place, Renaming};
use crate::error::{Error, Fault, Result};
use crate::source::Store;
use crate::stage::{Layer, LogOf, LogSpot, LogState, NextFile, new_name, next_name};

pub(super) struct TakenNext {
    next: Arc<NextFile>,
    file: Arc<dyn DiskFile>,
}

impl Commit<'_> {
    /// How many bytes of the changes need not be written any more if it is taken.
    pub(super) fn bytes_in_next(&self) -> u64 {
        let is_whole = self.layer().filter(|layer| layer.whole_next().is_some());
        is_whole.map_or(0, |layer| layer.bytes_in_next())
    }

    /// The layer that is committed.
    fn layer(&self) -> Option<Arc<Layer>> {
        let mut layers = self.stage.layers().into_iter();
        layers.find(|layer| layer.number() == self.layer)
    }

    /// Whether arrays that are a part of the file have been written anew, nearly whole: others may
    /// follow, so that fewer bytes are copied.
    pub(super) fn is_rewritten(&self, amount: &Amount) -> bool {
        let layer = self.layer();
        let in_next = layer.as_ref().map_or(0, |layer| layer.bytes_in_next());
        let places = layer.map_or(0, |layer| layer.bytes_of_runs());
        in_next >= amount.stored / FEW_ARRAYS && in_next >= places / 4 * 3 && in_next > 0
    }

    /// Whether the disk has room for so much several times: for it, for a log, and for what others
    /// write meanwhile.
    pub(super) fn has_room_for(&self, bytes: u64) -> Result<bool> {
        let free = free_bytes(&*self.source()?);
        Ok(free.is_none_or(|free| free / 4 >= bytes))
    }

    /// Takes it, if there is one that can be what the recipe makes.
    pub(super) fn take_next(&self) -> Result<Option<TakenNext>> {
        let frozen = self.stage.frozen();
        let Some((next, areas)) = frozen.and_then(|frozen| frozen.whole_next()) else {
            return Ok(None);
        };
        let mut placed = 0;
        for change in self.changed {
            let Some(run) = change.done_before.as_ref().and_then(|done| done.run()) else {
                continue;
            };
            placed += 1;
            let now = self.writable.stored_run(change.address(), self.changed)?;
            if now != Some(run) {
                return Ok(None);
            }
        }
        let taken = (placed == areas && !self.is_directory).then(|| next.take());
        let taken = taken.flatten();
        Ok(taken.map(|file| TakenNext { next, file }))
    }
}

impl TakenNext {
    /// It gets the name of the commit's new file.
    pub(super) fn rename(
        &self,
        commit: &Commit<'_>,
        new_name: &OsStr,
    ) -> Result<Arc<dyn DiskFile>> {
        let name = next_name(&commit.spot.name);
        let (from, to) = (commit.spot.place(&name), commit.spot.place(new_name));
        commit.disk.rename(from, to, Renaming::Over)?;
        Ok(Arc::clone(&self.file))
    }

    pub(super) fn give_back(&self) {
        self.next.give_back();
    }

    /// The commit has synced it, or failed to.
    pub(super) fn note_synced(&self, synced: Result<()>) -> Result<()> {
        self.next.note_synced(synced)
    }
}

impl Commit<'_> {
    /// A commit before may have taken it, come to nothing, and failed to give it its own name: what
    /// is staged lies there, so it gets that name before another file gets this one.
    pub(super) fn spare_next(&self, new_name: &OsStr) -> Result<()> {
        let next = self.stage.frozen().and_then(|frozen| frozen.next_file());
        let Some(next) = next.filter(|_| !self.is_directory) else {
            return Ok(());
        };
        match self.store.stat(&beside(self.spot, new_name)) {
            Ok(found) if found.id == next.id() => put_back(self, self.spot),
            Err(e) if !e.is_not_found() => Err(e),
            _ => Ok(()),
        }
    }
}

/// The commit came to nothing: what is staged lies there as before.
pub(super) fn put_back(commit: &Commit<'_>, spot: &Spot) -> Result<()> {
    let (from, to) = (new_name(&spot.name), next_name(&spot.name));
    let (from, to) = (spot.place(&from), spot.place(&to));
    give_own_name((&**commit.disk, &**commit.store), from, to)
}

/// Gives the next file its own name again, which nothing else has.
fn give_own_name(
    (disk, store): (&dyn Disk, &dyn Store),
    from: Place<'_>,
    to: Place<'_>,
) -> Result<()> {
    match disk.rename(from, to, Renaming::NoReplace) {
        // Checked a moment before, where a file system cannot do that at once.
        Err(e) if cannot_exchange(&e) => match store.stat(&to.directory.join(to.name)) {
            Err(gone) if gone.is_not_found() => disk.rename(from, to, Renaming::Over),
            _ => Err(e),
        },
        renamed => renamed,
    }
}

/// Gives the next file its own name again, if a commit had taken it that came to nothing.
pub(super) fn keep_next(spot: &LogSpot, state: &LogState) -> Result<()> {
    if !state.next_was_taken() {
        return Ok(());
    }
    let (new, next) = (new_name(&spot.container), next_name(&spot.container));
    let (new, next) = (spot.place(&new), spot.place(&next));
    match give_own_name((&*spot.disk, &*spot.store), new, next) {
        // It has it by now.
        Err(e) if e.is_not_found() => Ok(()),
        kept => kept,
    }
}

/// What the log refers to from there on had reached the disk.
pub(super) fn not_there(of: &LogOf<'_>, name: &OsStr, at: u64) -> Error {
    let next = next_name(of.container);
    let fault = Fault::new(format!(
        "the log is damaged at byte {at}: it refers to bytes that {} does not have",
        next.display()
    ));
    let log = of.store.display(&of.directory.join(name));
    Error::from(fault.container(&log))
}
