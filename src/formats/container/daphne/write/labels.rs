//! The labels of a Frame of the specification's form, as they are written: one to a line.
//!
//! A frame has as many labels as columns for good, so a text of more or fewer lines stays staged.
//! In the file a label is its length and its bytes, whatever these are; a line feed alone cannot
//! come into it. What lies behind the labels moves if they take more room or less. The text is gone
//! through in steps, whose memory is charged, and never held as a whole. Used by [`super::cells`].

use std::sync::Arc;

use super::file_writer::FileWriter;
use super::too_large;
use crate::array::dtype::Dtype;
use crate::array::uncached::{DecodeMemory, lent_for, read_into};
use crate::array::{Array, Info};
use crate::container::chunked_write::memory::at_once;
use crate::container::daphne::header::{FIXED, MOST_LABELS};
use crate::container::rewrite::{Change, ChangedArray, Consistency};
use crate::error::{Error, Result};
use crate::memory::block::Workspace;
use crate::memory::budget::Budget;

/// Bytes that are read at once.
const STEP: u64 = 256 << 10;

/// A label's length is stored in 16 bits.
const LONGEST: usize = u16::MAX as usize;

pub(super) struct WrittenLabels {
    /// The lines as they are stored.
    pub(super) lines: Arc<dyn Array>,
    /// Where the first label's length is stored.
    pub(super) at: u64,
    pub(super) columns: u64,
    /// Metadata beside the file may say them, too.
    pub(super) has_sidecar: bool,
}

/// What was found in a text.
#[derive(Default)]
struct CountedLines {
    lines: u64,
    /// Bytes of the last line, as far as it goes.
    open: usize,
    /// The first line that is too long.
    too_long: Option<u64>,
}

impl CountedLines {
    fn add(&mut self, text: &[u8]) {
        for part in text.split_inclusive(|byte| *byte == b'\n') {
            let has_end = part.ends_with(b"\n");
            self.open += part.len() - usize::from(has_end);
            if self.open > LONGEST {
                self.too_long.get_or_insert(self.lines);
            }
            if has_end {
                (self.lines, self.open) = (self.lines + 1, 0);
            }
        }
    }
}

impl WrittenLabels {
    pub(super) fn name(&self) -> &str {
        self.lines.name()
    }

    pub(super) fn permits(&self, change: Change) -> Result<()> {
        if self.has_sidecar && !matches!(change, Change::Write { len: 0, .. }) {
            let what = "the metadata beside the file may say them, too";
            return Err(Error::Invalid(format!("{}: {what}", self.name())));
        }
        let end = match change {
            Change::Write { offset, len } => offset.saturating_add(len),
            Change::SetLen(len) | Change::Truncate(len) => len,
        };
        let head = FIXED.saturating_add(self.columns.saturating_mul(2));
        match end > MOST_LABELS.saturating_sub(head) {
            true => Err(too_large()),
            false => Ok(()),
        }
    }

    /// What they are at this length, with as many lines as a frame has.
    pub(super) fn info(&self, len: u64) -> Result<Info> {
        Ok(Info {
            dtype: Dtype::Text,
            shape: vec![self.columns],
            bytes: len,
            ..self.lines.info()?
        })
    }

    /// Bytes that they take in the file.
    pub(super) fn stored(&self, change: &ChangedArray) -> u64 {
        // A length instead of the line feed.
        change.len.saturating_add(self.columns)
    }

    pub(super) fn judge(&self, change: &ChangedArray, budget: &Arc<Budget>) -> Result<Consistency> {
        self.permits(Change::SetLen(change.len))?;
        let mut found = CountedLines::default();
        each_part(change, budget, &mut |part| {
            found.add(part);
            Ok(())
        })?;
        let (name, columns) = (self.name(), self.columns);
        Ok(if let Some(line) = found.too_long {
            let what = format!("is longer than the {LONGEST} bytes that a label can have");
            Consistency::Unfit(format!("{name}: line {line} {what}"))
        } else if found.open > 0 {
            Consistency::Unfit(format!("{name}: the last line has no end"))
        } else if found.lines != columns {
            let lines = found.lines;
            Consistency::NotYet(format!(
                "{name} has {lines} lines for the {columns} columns"
            ))
        } else {
            Consistency::Now
        })
    }

    /// Tells labels that have been judged.
    pub(super) fn put(
        &self,
        change: &ChangedArray,
        budget: &Arc<Budget>,
        write: &mut FileWriter<'_>,
    ) -> Result<()> {
        let (mut label, mut left) = (Vec::new(), self.columns);
        let changed = || Error::Bug("labels are not as they were judged".into());
        each_part(change, budget, &mut |part| {
            for part in part.split_inclusive(|byte| *byte == b'\n') {
                let (text, has_end) = match part.strip_suffix(b"\n") {
                    Some(text) => (text, true),
                    None => (part, false),
                };
                label.extend_from_slice(text);
                let len = u16::try_from(label.len()).map_err(|_| changed())?;
                if has_end {
                    left = left.checked_sub(1).ok_or_else(changed)?;
                    write.put(&len.to_le_bytes())?;
                    write.put(&label)?;
                    label.clear();
                }
            }
            Ok(())
        })?;
        match left == 0 && label.is_empty() {
            true => Ok(()),
            false => Err(changed()),
        }
    }
}

/// Gives the text to `take`, from its start to its end.
fn each_part(
    change: &ChangedArray,
    budget: &Arc<Budget>,
    take: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    if change.len == 0 {
        return Ok(());
    }
    let lent = lent_for(&*change.shown, 0..change.len)?;
    let hold = at_once(STEP.saturating_add(lent), budget);
    let mut space = Workspace::new(STEP, lent, hold, STEP)?;
    let mut at = 0;
    while at < change.len {
        let len = STEP.min(change.len - at);
        let (room, scratch) = space.parts();
        let bytes = &mut room[..len as usize];
        let read = read_into(&*change.shown, at, bytes, DecodeMemory::Lent(scratch));
        read.map_err(|e| e.of_array("", change.shown.name()))?;
        take(bytes)?;
        at += len;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(parts: &[&[u8]]) -> (u64, usize, Option<u64>) {
        let mut found = CountedLines::default();
        parts.iter().for_each(|part| found.add(part));
        (found.lines, found.open, found.too_long)
    }

    #[test]
    fn lines_are_counted_across_parts() {
        assert_eq!(counted(&[]), (0, 0, None));
        assert_eq!(counted(&[b"\n\n"]), (2, 0, None));
        assert_eq!(counted(&[b"a\nb", b"c", b"\nd"]), (2, 1, None));
        let long = vec![b'x'; LONGEST];
        assert_eq!(counted(&[b"a\n", &long, b"\n"]), (2, 0, None));
        assert_eq!(counted(&[b"a\n", &long, b"y\nb\n"]), (3, 0, Some(1)));
        assert_eq!(counted(&[&long, b"y"]).2, Some(0));
    }
}
