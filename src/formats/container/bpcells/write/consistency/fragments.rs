//! The rules of fragments: `chr_ptr` says where chromosomes begin and end, and how many fragments
//! there are. Used by [`super`].

use super::{Judge, Ruling, passable};
use crate::container::bpcells::fragments::MOST_POINTERS;
use crate::container::bpcells::write::chromosomes::{Chromosomes, unsigned};
use crate::container::bpcells::write::merged::MergedArray;
use crate::container::bpcells::write::objection::Objection;
use crate::container::bpcells::write::spaces::{read_step, telling_steps};
use crate::range_set::RangeSet;

pub(super) fn judge(judge: &Judge<'_>) -> Ruling {
    let merged = judge.merged;
    let pointers = merged.array("chr_ptr")?;
    if merged.has_changed(&["chr_ptr", "cell", "start", "end"]) {
        let fragments = judge.chromosomes_fit(&pointers)?;
        judge.arrays_fit(fragments)?;
    }
    judge.cells_have_names()?;
    judge.names_have_pointers(&pointers)?;
    judge.starts_rise(&pointers)
}

impl Judge<'_> {
    /// A begin and an end for each chromosome; the largest is the number of fragments.
    fn chromosomes_fit(&self, pointers: &MergedArray<'_>) -> Ruling<u64> {
        let count = pointers.count();
        if !count.is_multiple_of(2) {
            return Err(Objection::NotYet(format!(
                "chr_ptr has {count} entries, and should have two for each chromosome"
            )));
        }
        if count > MOST_POINTERS {
            return Err(Objection::Unfit(format!(
                "chr_ptr has {count} entries, and at most {MOST_POINTERS} are read"
            )));
        }
        let width = pointers.form.width().unwrap_or(8);
        let is_changed = self.merged.has_changed(&["chr_ptr"]);
        let mut space = self.space(pointers)?;
        let mut largest = 0;
        for step in telling_steps(pointers.shown, 0..pointers.len) {
            let entries = read_step(pointers.shown, &step, &mut space)?;
            let pairs = entries.chunks_exact(2 * width as usize);
            for (pair, number) in pairs.zip(step.start / (2 * width)..) {
                let (begin, end) = pair.split_at(width as usize);
                let (begin, end) = (unsigned(begin), unsigned(end));
                if begin > end && is_changed {
                    return Err(Objection::NotYet(format!(
                        "chr_ptr: chromosome {number} begins with {begin} and ends with {end}"
                    )));
                }
                largest = largest.max(begin).max(end);
            }
        }
        Ok(largest)
    }

    /// As many of everything as there are fragments.
    fn arrays_fit(&self, fragments: u64) -> Ruling {
        for name in ["cell", "start", "end"] {
            let count = self.merged.array(name)?.count();
            if count != fragments {
                return Err(Objection::NotYet(format!(
                    "{name} has {count} values, the largest of chr_ptr is {fragments}"
                )));
            }
        }
        Ok(())
    }

    /// Every cell number has a name: those that have changed, and all of them if there are fewer
    /// names.
    fn cells_have_names(&self) -> Ruling {
        let merged = self.merged;
        if merged.change("cell_names").is_none() && merged.change("cell").is_none() {
            return Ok(());
        }
        let (cell, names) = (merged.array("cell")?, merged.array("cell_names")?);
        let count = self.lines(&names)?;
        let before = match (names.change, merged.files.array("cell_names")) {
            (Some(_), Some(stored)) => stored.info()?.shape.first().copied(),
            _ => None,
        };
        let elements = match before.is_some_and(|before| count < before) {
            true => RangeSet::from(0..cell.count()),
            false => cell.dirty_elements(),
        };
        if elements.is_empty() {
            return Ok(());
        }
        self.all_below(&cell, &elements, count, "cell_names")
    }

    /// Every name has a begin and an end.
    fn names_have_pointers(&self, pointers: &MergedArray<'_>) -> Ruling {
        let merged = self.merged;
        if merged.change("chr_names").is_none() && merged.change("chr_ptr").is_none() {
            return Ok(());
        }
        let lines = self.lines(&merged.array("chr_names")?)?;
        let chromosomes = pointers.count() / 2;
        match lines > chromosomes {
            true => Err(Objection::NotYet(format!(
                "chr_names has {lines} lines, chr_ptr has {chromosomes} chromosomes"
            ))),
            false => Ok(()),
        }
    }

    /// The fragments of a chromosome are in the order of their starts.
    fn starts_rise(&self, pointers: &MergedArray<'_>) -> Ruling {
        let merged = self.merged;
        let start = merged.array("start")?;
        let elements = match merged.has_changed(&["chr_ptr"]) {
            true => RangeSet::from(0..start.count()),
            false => with_neighbours(&start),
        };
        if elements.is_empty() {
            return Ok(());
        }
        let mut space = self.space(pointers)?;
        let chromosomes = Chromosomes::read(pointers, &mut space, self.budget)?;
        space = self.space(&start)?;
        for run in elements.iter() {
            let mut before = None;
            for step in telling_steps(start.shown, 4 * run.start..4 * run.end) {
                let Some(values) = passable(read_step(start.shown, &step, &mut space))? else {
                    before = None;
                    continue;
                };
                for (value, number) in values.as_chunks::<4>().0.iter().zip(step.start / 4..) {
                    let value = u32::from_le_bytes(*value);
                    if let Some(before) = before.filter(|before| value < *before)
                        && chromosomes.continues_at(number)
                    {
                        return Err(Objection::NotYet(format!(
                            "start: fragment {number} starts at {value}, before the one before it, {before}, \
                             of the same chromosome"
                        )));
                    }
                    before = Some(value);
                }
            }
        }
        Ok(())
    }
}

/// What has changed, and the elements beside it.
fn with_neighbours(array: &MergedArray<'_>) -> RangeSet {
    let count = array.count();
    let wider = |run: std::ops::Range<u64>| {
        run.start.saturating_sub(1)..run.end.saturating_add(1).min(count)
    };
    RangeSet::from_iter(array.dirty_elements().iter().map(wider))
}
