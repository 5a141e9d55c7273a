//! What a log says of a file, without the bytes: which parts of it lie where in the log, which are
//! zeros, and how long it is.
//!
//! Costs memory by the records that there are, and never by what they claim. Used by
//! [`super::replay`], which has it held by a mount, and by [`super::logged`], which reads through
//! it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::base::{MOST_CHUNKS, StoredChunks};
use super::mark::SeenChange;
use super::tail::{self, RecordKind, TailRecord};
use crate::error::{Fault, Result};
use crate::memory::budget::{Budget, Hold};
use crate::memory::fallible;
use crate::source::Source;

/// Bytes of memory that a record may take, about: two extents, for it may lie within another.
const EXTENT: usize = 128;

/// So many bytes of memory are charged at once.
const CHARGED: usize = 128 << 10;

/// A part of the file that the log has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LogExtent {
    pub(super) end: u64,
    /// Where its bytes lie in the stored file; none of zeros.
    pub(super) from: Option<u64>,
}

/// What a log says.
pub(super) struct LogOverlay {
    /// By where they begin; none overlap.
    extents: BTreeMap<u64, LogExtent>,
    /// How long the file is now, and how much of what is stored was never cut off.
    pub(super) len: u64,
    pub(super) least_len: u64,
    /// Where the records end that count.
    pub(super) end: u64,
    pub(super) changed: Option<SeenChange>,
    hold: Option<Hold>,
}

impl LogOverlay {
    /// Of the log behind these chunks, if there is one. Its memory is charged to the budget as it
    /// is read.
    pub(super) fn read(
        source: &dyn Source,
        stored: &StoredChunks,
        budget: &Arc<Budget>,
    ) -> Result<Option<LogOverlay>> {
        let (start, fingerprint) = (stored.end(), stored.fingerprint());
        let len = stored.len();
        let mut overlay = LogOverlay {
            extents: BTreeMap::new(),
            len,
            least_len: len,
            end: start,
            changed: None,
            hold: None,
        };
        let most = u64::from(stored.form.chunk_size).saturating_mul(MOST_CHUNKS);
        let (mut said, mut charged) = (Vec::new(), 0);
        tail::records(source, start, fingerprint, |record| {
            let pending = said.len() * size_of::<TailRecord>();
            if overlay.extents.len() * EXTENT + pending >= charged {
                overlay.charge(budget, CHARGED)?;
                charged += CHARGED;
            }
            if record.kind != RecordKind::Whole {
                return fallible::push(&mut said, record, "cannot read a log");
            }
            overlay.end = record.carried_at;
            said.drain(..).try_for_each(|one| overlay.note(one, most))
        })?;
        // What was pending is no more.
        overlay.hold = None;
        overlay.charge(budget, overlay.extents.len() * EXTENT)?;
        Ok((overlay.end > start).then_some(overlay))
    }

    fn charge(&mut self, budget: &Arc<Budget>, bytes: usize) -> Result<()> {
        let bytes = bytes as u64;
        match &mut self.hold {
            Some(hold) => hold.keep_more(bytes),
            none => budget.keep(bytes).map(|hold| *none = Some(hold)),
        }
    }

    /// A record that counts.
    fn note(&mut self, record: TailRecord, most: u64) -> Result<()> {
        if record.kind == RecordKind::Changed {
            self.changed = Some(SeenChange::of_numbers([record.at, record.len]));
            return Ok(());
        }
        let range = record.at.checked_add(record.len);
        let Some(end) = range.filter(|end| *end <= most) else {
            let fault = Fault::new("a log speaks of more than a file can have");
            return Err(fault.found(record.at).into());
        };
        match record.kind {
            RecordKind::Data => self.put(record.at..end, Some(record.carried_at)),
            // As far as the file goes.
            RecordKind::Zeros => self.put(record.at..end.min(self.len), None),
            RecordKind::Length => self.cut(record.at),
            _ => {}
        }
        Ok(())
    }

    fn put(&mut self, range: Range<u64>, from: Option<u64>) {
        if range.is_empty() {
            return;
        }
        self.len = self.len.max(range.end);
        self.split(range.start);
        self.split(range.end);
        let within = self.extents.range(range.clone()).map(|(start, _)| *start);
        let within: Vec<u64> = within.collect();
        for start in within {
            self.extents.remove(&start);
        }
        let end = range.end;
        self.extents.insert(range.start, LogExtent { end, from });
    }

    fn cut(&mut self, len: u64) {
        self.split(len);
        self.extents.split_off(&len);
        self.len = len;
        self.least_len = self.least_len.min(len);
    }

    /// No extent goes on across this place.
    fn split(&mut self, at: u64) {
        let before = self.extents.range_mut(..at).next_back();
        let Some((start, extent)) = before.filter(|(_, extent)| extent.end > at) else {
            return;
        };
        let rest = LogExtent {
            end: extent.end,
            from: extent.from.map(|from| from + (at - *start)),
        };
        extent.end = at;
        self.extents.insert(at, rest);
    }

    /// The parts of a range that the log has.
    pub(super) fn parts(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, LogExtent)> {
        let first = self.extents.range(..=range.start).next_back();
        let first = first.map_or(range.start, |(start, _)| *start);
        let within = self.extents.range(first..range.end.max(first));
        within.filter_map(move |(start, extent)| {
            let part = (*start).max(range.start)..extent.end.min(range.end);
            let from = extent.from.map(|from| from + (part.start - start));
            let end = part.end;
            (!part.is_empty()).then_some((part, LogExtent { end, from }))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    enum Said {
        Data(u64, u64),
        Zeros(u64, u64),
        Length(u64),
    }

    fn said() -> impl Strategy<Value = Vec<Said>> {
        let one = prop_oneof![
            (0u64..60, 1u64..30).prop_map(|(at, len)| Said::Data(at, len)),
            (0u64..60, 1u64..30).prop_map(|(at, len)| Said::Zeros(at, len)),
            (0u64..80).prop_map(Said::Length),
        ];
        proptest::collection::vec(one, 0..20)
    }

    proptest! {
        /// A byte of the model is where it comes from: stored, zero, or a place in the log.
        #[test]
        fn it_says_what_the_records_do_one_after_the_other(said in said(), at in 0u64..90, n in 0u64..90) {
            const STORED: i64 = -1;
            let mut overlay = LogOverlay { extents: BTreeMap::new(), len: 40, least_len: 40, end: 0, changed: None, hold: None };
            let mut model = vec![STORED; 40];
            for (number, said) in said.iter().enumerate() {
                let from = 1000 * (number as u64 + 1);
                match *said {
                    Said::Data(at, len) => {
                        overlay.put(at..at + len, Some(from));
                        model.resize(model.len().max((at + len) as usize), 0);
                        for i in 0..len {
                            model[(at + i) as usize] = (from + i) as i64;
                        }
                    }
                    Said::Zeros(at, len) => {
                        let end = (at + len).min(overlay.len);
                        overlay.put(at..end, None);
                        if at < end {
                            model[at as usize..end as usize].fill(0);
                        }
                    }
                    Said::Length(len) => {
                        overlay.cut(len);
                        model.resize(len as usize, 0);
                    }
                }
            }
            prop_assert_eq!(overlay.len, model.len() as u64);
            let end = (at + n).min(overlay.len);
            let mut found: Vec<i64> = (at..end)
                .map(|at| if at < overlay.least_len { STORED } else { 0 })
                .collect();
            for (part, extent) in overlay.parts(at..at + n) {
                for byte in part.clone() {
                    let from = extent.from.map_or(0, |from| (from + byte - part.start) as i64);
                    found[(byte - at) as usize] = from;
                }
            }
            let expected = model.get(at as usize..end.max(at) as usize).unwrap_or(&[]);
            prop_assert_eq!(&found[..], expected);
        }
    }
}
