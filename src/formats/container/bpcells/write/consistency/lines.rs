//! Whether names can be stored: as lines, whose ends a reader looks for. Used by `matrix` and
//! `fragments`.

use super::{Judge, Ruling};
use crate::container::bpcells::write::merged::MergedArray;
use crate::container::bpcells::write::objection::Objection;
use crate::container::bpcells::write::spaces::{read_step, telling_steps};

impl Judge<'_> {
    /// The number of names; an objection to those that would not be read as they are written.
    pub(super) fn lines(&self, array: &MergedArray<'_>) -> Ruling<u64> {
        if array.change.is_none() && array.stored.is_some() {
            let info = array.shown.info()?;
            return Ok(info.shape.first().copied().unwrap_or(0));
        }
        let unfit = |what: &str, at: u64| {
            let why = format!("{}: {what} (byte {at})", array.name);
            Err(Objection::Unfit(why))
        };
        let mut space = self.space(array)?;
        let dirty = array.dirty();
        let (mut lines, mut last) = (0, None);
        for step in telling_steps(array.shown, 0..array.len) {
            let text = read_step(array.shown, &step, &mut space)?;
            for end in memchr::memchr_iter(b'\n', text) {
                let before = match end.checked_sub(1) {
                    Some(before) => text.get(before).copied(),
                    None => last,
                };
                if before == Some(b'\r') {
                    return unfit("a name ends with CR", step.start + end as u64);
                }
                lines += 1;
            }
            for run in dirty.within(step.clone()) {
                let from = (run.start - step.start) as usize;
                let written = text.get(from..(run.end - step.start) as usize);
                if let Some(at) = memchr::memchr(0, written.unwrap_or_default()) {
                    return unfit("a name has a NUL", run.start + at as u64);
                }
            }
            last = text.last().copied();
        }
        match last {
            None | Some(b'\n') => Ok(lines),
            Some(_) => unfit("the last line has no end", array.len),
        }
    }
}
