//! What a log says of the next file, held against that file.
//!
//! Bytes to which a record refers reach the disk before the log does when it is synced; before
//! that, a power loss may have left the record without them. Then the log ends there, as at any
//! record that was torn; and if a later one says that so much had reached the disk, it is damaged.
//! Used by [`super`], and by the recovery, which knows whether a commit has made that file the
//! container.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::sync::Arc;

use super::LogState;
use crate::array::stored_run::StoredRun;
use crate::error::{Error, Fault, Result};
use crate::memory::fallible;
use crate::range_set::RangeSet;
use crate::source::{FileKind, Source};
use crate::stage::log::{LogOf, new_name, next_name};
use crate::stage::next_file::{REFERRED_AT_ONCE, checksum};
use crate::stage::written_array::WrittenArray;

/// Bytes of an array that a record says are in the next file.
#[derive(Clone)]
pub(crate) struct LoggedReference {
    pub(crate) layer: u64,
    pub(crate) array: WrittenArray,
    pub(crate) range: Range<u64>,
    pub(crate) run: StoredRun,
    pub(crate) crc: u32,
    /// Where the record begins.
    pub(crate) at: u64,
}

/// The next file, as it was found.
pub(crate) struct FoundNext {
    pub(crate) source: Arc<dyn Source>,
    /// A commit that came to nothing had taken it.
    was_taken: bool,
}

impl FoundNext {
    /// Under which it lies.
    pub(crate) fn name(&self, container: &OsStr) -> OsString {
        match self.was_taken {
            true => new_name(container),
            false => next_name(container),
        }
    }
}

impl LogState {
    /// Notes a reference, if an array can have bytes there.
    pub(super) fn add_reference(&mut self, reference: LoggedReference) -> Result<()> {
        let (run, range) = (&reference.run, &reference.range);
        let end = run.begin.checked_add(run.len);
        let is_sound = end.is_some_and(|end| end <= i64::MAX as u64)
            && range.end <= run.len
            && range.end - range.start <= REFERRED_AT_ONCE
            && run.len.is_multiple_of(u64::from(run.turned.max(1)))
            && matches!(run.turned, 0 | 1 | 2 | 4 | 8);
        if !is_sound {
            let fault = Fault::new("the log refers to bytes that no array has there");
            return Err(fault.found(format_args!("{run:?}, {range:?}")).into());
        }
        let place = self.runs.entry(reference.array.0).or_insert(*run);
        if *place != *run {
            return Err(Fault::new("an array has two places in the next file").into());
        }
        let of_layer = self.references.entry(reference.layer).or_default();
        fallible::push(of_layer, reference, super::DOING)
    }

    /// Layers up to this one need nothing of the next file any more.
    pub(super) fn forget_references(&mut self, committed: u64) {
        while self
            .references
            .first_key_value()
            .is_some_and(|(&first, _)| first <= committed)
        {
            self.references.pop_first();
        }
        if self.references.is_empty() {
            self.runs.clear();
        }
    }

    /// Finds the file to which the log refers, unless a commit has made it the container. Returns
    /// the beginning of the first record whose bytes are not there.
    pub fn find_next(&mut self, of: &LogOf<'_>) -> Result<Option<u64>> {
        self.sort_references();
        let shown = self.layers.iter().flat_map(|layer| &layer.references);
        let Some(first) = shown.map(|reference| reference.at).min() else {
            return Ok(None);
        };
        let name = next_name(of.container);
        let found = open(of, &name)?.map(|source| (source, false));
        let found = match found {
            None => open(of, &new_name(of.container))?.map(|source| (source, true)),
            found => found,
        };
        let Some((source, was_taken)) = found else {
            return Ok(Some(first));
        };
        let mut void = None;
        for reference in self.layers.iter().flat_map(|layer| &layer.references) {
            if !is_there(&*source, reference)? {
                void = Some(void.map_or(reference.at, |at: u64| at.min(reference.at)));
            }
        }
        self.next = Some(FoundNext { source, was_taken });
        Ok(void)
    }

    /// Gives the layers those references of which they show anything.
    fn sort_references(&mut self) {
        let references = std::mem::take(&mut self.references);
        let references = references.into_values().flatten();
        let bottom = self.layers.first().map_or(0, |layer| layer.number);
        let mut above = self.layers.iter_mut().rev();
        let (top, below) = (above.next(), above.next());
        let (own, others): (Vec<_>, Vec<_>) = match below.is_some() {
            true => references.partition(|one| one.layer <= bottom),
            false => (Vec::new(), references.collect()),
        };
        for (layer, references) in [(below, own), (top, others)] {
            if let Some(layer) = layer {
                // Bytes are those of the last reference to them: those before may be to another
                // file, which has gone.
                let mut later: BTreeMap<u32, RangeSet> = BTreeMap::new();
                let mut shown = Vec::new();
                for one in references.into_iter().rev() {
                    let later = later.entry(one.array.0).or_default();
                    let is_shown = layer.shows(&one, later);
                    later.insert(one.range.clone());
                    if is_shown {
                        shown.push(one);
                    }
                }
                shown.reverse();
                layer.references = shown;
            }
        }
    }

    /// The next file.
    pub(crate) fn next(&self) -> Option<&FoundNext> {
        self.next.as_ref()
    }

    /// Whether it has the name of new files, for a commit that came to nothing had taken it.
    pub fn next_was_taken(&self) -> bool {
        self.next.as_ref().is_some_and(|next| next.was_taken)
    }
}

/// A file of this name that may be the next file.
fn open(of: &LogOf<'_>, name: &OsStr) -> Result<Option<Arc<dyn Source>>> {
    let path = of.directory.join(name);
    let found = match of.store.stat(&path) {
        Err(e) if e.is_not_found() => return Ok(None),
        found => found?,
    };
    if found.kind != FileKind::File || found.uid != of.owner {
        return Ok(None);
    }
    let source = of.store.open(&path)?;
    match source.id() == found.id {
        true => Ok(Some(source)),
        false => Err(Error::Changed {
            path: of.store.display(&path),
        }),
    }
}

fn is_there(source: &dyn Source, reference: &LoggedReference) -> Result<bool> {
    let (run, range) = (&reference.run, &reference.range);
    let place = run.place(&run.elements(range));
    Ok(place.end <= source.len() && checksum(source, run, range)? == reference.crc)
}
