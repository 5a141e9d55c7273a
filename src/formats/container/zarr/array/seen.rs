//! What is remembered of chunks that were looked for: which are missing, and of the others what
//! tells their content.
//!
//! A few bytes each, charged to the budget. Where there is no memory for that, all is forgotten,
//! and what was read counts as changed when it is asked for. Used by [`super::places`].

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Instant;

use crate::error::Result;
use crate::memory::budget::{Budget, Hold};
use crate::range_set::RangeSet;
use crate::source::SourceIdentity;
use crate::sync::Mutex;

/// What one takes in a table that grows.
const EACH: u64 = 48;

/// Most that are compared in one look, of either kind.
const LOOK_MOST: usize = 1 << 18;

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
    stored: BTreeMap<u64, u64>,
    /// The ones that are compared next, of those that are stored and of those that are missing.
    next: [u64; 2],
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

    pub(super) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    pub(super) fn is_stored(&self, number: u64) -> bool {
        self.known.lock().stored.contains_key(&number)
    }

    /// Whether all that is remembered is as `is_still` finds it: as many as can be looked at until
    /// that time, and those behind them when it is asked again.
    pub(super) fn all(
        &self,
        until: Option<Instant>,
        is_still: &mut dyn FnMut(u64, Option<u64>) -> Result<bool>,
    ) -> Result<bool> {
        let known = self.known.lock();
        if known.is_incomplete {
            return Ok(false);
        }
        let [stored, missing] = known.next;
        let behind = known.stored.range(stored..);
        let of_stored = behind.chain(known.stored.range(..stored));
        let of_stored = of_stored.map(|(number, digest)| (*number, Some(*digest)));
        let of_stored: Vec<_> = of_stored.take(LOOK_MOST).collect();
        let behind = known.missing.within(missing..u64::MAX);
        let of_missing = behind.chain(known.missing.within(0..missing)).flatten();
        let of_missing = of_missing.map(|number| (number, None));
        let of_missing: Vec<_> = of_missing.take(LOOK_MOST).collect();
        drop(known);
        // In turns, so that neither kind waits for all of the other.
        let kinds = [of_stored, of_missing];
        for at in 0..kinds.iter().map(Vec::len).max().unwrap_or(0) {
            for (kind, found) in kinds.iter().enumerate() {
                let Some((number, was)) = found.get(at) else {
                    continue;
                };
                if !is_still(*number, *was)? {
                    return Ok(false);
                }
                if let Some(next) = self.known.lock().next.get_mut(kind) {
                    *next = number.saturating_add(1);
                }
            }
            if until.is_some_and(|until| Instant::now() > until) {
                break;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Without time, one of each kind is compared, and the next ones when it is asked again.
    #[test]
    fn all_are_compared_in_turns_however_short_each_look_is() {
        let seen = SeenKeys::new(&Budget::new(1 << 20));
        let identity = SourceIdentity::of_object(Default::default(), 1);
        for number in 0..5 {
            assert!(seen.note(number, Some(&identity)));
            assert!(seen.note(number + 10, None));
        }
        let mut compared = Vec::new();
        for _ in 0..6 {
            let past = Instant::now();
            let all = seen.all(Some(past), &mut |number, _| {
                std::thread::sleep(std::time::Duration::from_micros(10));
                compared.push(number);
                Ok(true)
            });
            assert!(all.unwrap());
        }
        assert_eq!(compared, [0, 10, 1, 11, 2, 12, 3, 13, 4, 14, 0, 10]);
        let all = seen.all(None, &mut |number, _| Ok(number != 13));
        assert!(!all.unwrap());
    }
}
