//! Everything in a container, opened, described, read and checked, for tests that compare what
//! becomes of it. Used by [`super::out_of_memory`], [`super::in_memory`] and [`super::fuzzed`].

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::array::Piece;
use crate::array::uncached::{DecodeMemory, read_into};
use crate::memory::budget::Budget;
use crate::memory::set_aside;

/// What became of everything in a container, by the path of an array or what was done: a hash, or
/// what went wrong.
pub(super) type Outcomes = BTreeMap<String, Result<u64>>;

/// The corpora of containers in a directory, one for each format: those that say what they hold.
#[cfg(test)]
pub(super) fn corpora_in(golden: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(golden).into_iter().flatten();
    let mut corpora: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    corpora.retain(|corpus| corpus.join("manifest.json").exists());
    corpora.sort();
    corpora
}

/// Longest array that is read by tests.
#[cfg(test)]
pub(super) const LONGEST: u64 = 64 << 20;

/// Opens, describes, reads and checks a container. Arrays of more bytes than `longest` are read as
/// far as there is something stored.
pub(super) fn walk(store: &Arc<dyn Store>, name: &Path, longest: u64) -> Outcomes {
    let mut outcomes = Outcomes::new();
    let container = match open(store, name) {
        Ok(Some(container)) => container,
        Ok(None) => return outcomes,
        Err(e) => {
            outcomes.insert("opening".into(), Err(e));
            return outcomes;
        }
    };
    let told = describe::arrays_json(&container).map(|text| hash(&text));
    outcomes.insert("describing".into(), told);
    // As a mount does.
    let room = 4 * describe::weight(&container) as u64;
    let arrays = match set_aside(room, "cannot list arrays", || container.all_arrays()) {
        Ok(arrays) => arrays,
        Err(e) => {
            outcomes.insert("listing".into(), Err(e));
            return outcomes;
        }
    };
    for located in arrays {
        let array = &*located.array;
        outcomes.insert(located.path(), read(array, longest));
        let mut faults = 0;
        let verified = array.verify(&mut |_| faults += 1).map(|()| faults);
        outcomes.insert(format!("{} checked", located.path()), verified);
    }
    for (number, (_, check)) in container.all_checks().into_iter().enumerate() {
        let mut faults = 0;
        let checked = check.check(&Budget::impatient(64 << 20), &mut |_| faults += 1);
        outcomes.insert(format!("check {number}"), checked.map(|()| faults));
    }
    outcomes
}

/// Opens a container, if it is one.
pub(super) fn open(store: &Arc<dyn Store>, name: &Path) -> Result<Option<Arc<Container>>> {
    let kind = store.stat(name)?.kind;
    let candidate = Candidate::new(&**store, name, kind, Preferences::default());
    match recognise(&candidate)? {
        Some(recognised) => {
            let container = recognised.open(store, name, &Budget::impatient(64 << 20))?;
            Ok(Some(Arc::new(container)))
        }
        None => Ok(None),
    }
}

/// A hash of what is stored of an array: its blocks and its direct bytes.
fn read(array: &dyn Array, longest: u64) -> Result<u64> {
    const SURVEYED: usize = 100;
    let budget = Budget::impatient(64 << 20);
    let mut hasher = DefaultHasher::new();
    let mut stored: Vec<Piece> = Vec::new();
    array.survey(&mut |piece| {
        if stored.len() < SURVEYED {
            stored.push(piece);
        }
    })?;
    let bytes = array.info()?.bytes;
    if bytes > longest {
        for piece in stored {
            crate::array::uncached::check(array, piece, &budget, &mut |_| ())?;
        }
        return Ok(0);
    }
    let mut buffer = [0; 10_000];
    for at in (0..bytes).step_by(buffer.len()) {
        let part = &mut buffer[..(bytes - at).min(10_000) as usize];
        read_into(array, at, part, DecodeMemory::Reserved(&budget))?;
        hasher.write(part);
    }
    Ok(hasher.finish())
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}
