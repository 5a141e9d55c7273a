//! A file that holds its array as it is shown: numbers behind a header, and names.
//!
//! What was not written is copied from the file as it is. Used by `recipe`.

use std::ops::Range;
use std::sync::Arc;

use super::member_writer::MemberWriter;
use super::spaces::{lent, read_step, steps};
use crate::array::Array;
use crate::container::bpcells::fields::Number;
use crate::container::bpcells::header;
use crate::container::writable::{MemberNumber, Recipe};
use crate::error::Result;
use crate::memory::block::Workspace;
use crate::range_set::RangeSet;
use crate::source::Source;

pub(super) struct PlainPlan<'a> {
    pub(super) file: MemberNumber,
    pub(super) source: Option<Arc<dyn Source>>,
    /// What the header says; none if there is no header.
    pub(super) number: Option<Number>,
    pub(super) shown: &'a dyn Array,
    pub(super) len: u64,
    /// Bytes that are read from what is shown; the others are stored as they are.
    pub(super) dirty: RangeSet,
}

impl PlainPlan<'_> {
    /// What reading it takes.
    pub(super) fn lent(&self) -> Result<u64> {
        let mut most = 0;
        for run in self.dirty.iter() {
            most = most.max(lent(self.shown, run)?);
        }
        Ok(most)
    }

    pub(super) fn tell(&self, space: &mut Workspace, write: &mut dyn Recipe) -> Result<()> {
        let mut file = MemberWriter::new(self.file, self.source.clone())?;
        if let Some(number) = self.number {
            file.header(number, write)?;
        }
        let mut at = 0;
        for run in self.dirty.iter() {
            file.copy(self.stored(at..run.start), write)?;
            at = run.end;
            for step in steps(run) {
                file.put(read_step(self.shown, &step, space)?, write)?;
            }
        }
        file.copy(self.stored(at..self.len), write)?;
        file.end(write)
    }

    /// Where bytes of the array are stored.
    fn stored(&self, shown: Range<u64>) -> Range<u64> {
        let before = self.number.map_or(0, |_| header::LEN as u64);
        shown.start.saturating_add(before)..shown.end.saturating_add(before)
    }
}
