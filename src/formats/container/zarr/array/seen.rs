//! What is remembered of chunks that were looked for: which are missing, and of the others what
//! tells their content.
//!
//! A few bytes each, charged to the budget. Where there is no memory for that, all is forgotten,
//! and what was read counts as changed when it is asked for. Used by [`super::places`].

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use crate::error::Result;
use crate::memory::budget::{Budget, Hold};
use crate::range_set::RangeSet;
use crate::source::SourceIdentity;
use crate::sync::Mutex;

/// What one takes in a table that grows.
const EACH: u64 = 48;

/// So many are charged at once.
const STEP: usize = 256;

/// Most that are remembered; more than that is looked at again in no short time.
const MOST: usize = 1 << 20;

pub(in super::super) struct SeenKeys {
    budget: Arc<Budget>,
    known: Mutex<KnownKeys>,
}

#[derive(Default)]
struct KnownKeys {
    missing: RangeSet,
    stored: HashMap<u64, u64>,
    /// For as many as there is room.
    charge: Option<Hold>,
    room: usize,
    /// Some were forgotten.
    is_incomplete: bool,
}

/// What tells a content from others, in a word.
pub(super) fn digest(identity: &SourceIdentity) -> u64 {
    let mut hasher = DefaultHasher::new();
    identity.hash(&mut hasher);
    hasher.finish()
}

impl SeenKeys {
    pub(in super::super) fn new(budget: &Arc<Budget>) -> SeenKeys {
        SeenKeys {
            budget: Arc::clone(budget),
            known: Mutex::default(),
        }
    }

    pub(super) fn is_missing(&self, number: u64) -> bool {
        let end = number.saturating_add(1);
        self.known.lock().missing.contains(&(number..end))
    }

    /// Notes what was found; false if something else had been found before.
    pub(super) fn note(&self, number: u64, found: Option<&SourceIdentity>) -> bool {
        let found = found.map(digest);
        let mut known = self.known.lock();
        if let Some(was) = known.stored.get(&number) {
            return found == Some(*was);
        }
        if !known.has_room(&self.budget) {
            known.forget();
            return true;
        }
        match found {
            Some(digest) => drop(known.stored.insert(number, digest)),
            None => known.missing.insert(number..number.saturating_add(1)),
        }
        true
    }

    /// Whether all that is remembered is as `is_still` finds it.
    pub(super) fn all(
        &self,
        is_still: &mut dyn FnMut(u64, Option<u64>) -> Result<bool>,
    ) -> Result<bool> {
        let known = self.known.lock();
        if known.is_incomplete {
            return Ok(false);
        }
        let stored: Vec<(u64, u64)> = known.stored.iter().map(|(n, d)| (*n, *d)).collect();
        let missing: Vec<_> = known.missing.iter().collect();
        drop(known);
        for (number, digest) in stored {
            if !is_still(number, Some(digest))? {
                return Ok(false);
            }
        }
        for number in missing.into_iter().flatten() {
            if !is_still(number, None)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl KnownKeys {
    fn len(&self) -> usize {
        self.stored.len() + self.missing.ranges()
    }

    /// Whether another one can be remembered.
    fn has_room(&mut self, budget: &Arc<Budget>) -> bool {
        let missing = usize::try_from(self.missing.len()).unwrap_or(usize::MAX);
        if self.len() >= MOST || missing >= MOST {
            return false;
        }
        if self.len() < self.room {
            return true;
        }
        let more = self.room.max(STEP);
        let bytes = more as u64 * EACH;
        let kept = match &mut self.charge {
            Some(charge) => charge.keep_more(bytes),
            none => budget.keep(bytes).map(|hold| *none = Some(hold)),
        };
        self.room += if kept.is_ok() { more } else { 0 };
        kept.is_ok()
    }

    fn forget(&mut self) {
        *self = KnownKeys {
            is_incomplete: true,
            ..KnownKeys::default()
        };
    }
}
