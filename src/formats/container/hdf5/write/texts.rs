//! A dataset of strings of variable length that can be written: a line for each value.
//!
//! Nobody but libhdf5 stores these: values that are others than before go to it, in order, and it
//! puts them where those before them were, or behind the end of the file. It keeps what it writes
//! in memory, so what it would come to is reckoned up before ([`super::heap_cost`]). A dataset of
//! one value is that value, whatever line feeds it has. Where several values have some of their
//! own, there are more lines than values: other ones are refused, for nobody could tell which line
//! is which. Used by [`super`].

use std::sync::{Arc, OnceLock};

use super::edit_recipe::EditRecipe;
use super::heap_cost::WrittenCost;
use crate::array::dtype::Dtype;
use crate::array::grid::product;
use crate::array::{Array, Info};
use crate::container::hdf5::edit::{EditStep, OWN_FILTERS};
use crate::container::hdf5::index::details::FillSpelling;
use crate::container::hdf5::index::{
    DatasetEntry, StorageLayout, TEXT_MOST as COMPACT_MOST, UNLIMITED,
};
use crate::container::hdf5::made::TextRun;
use crate::container::hdf5::text_lines::{self, Line, MOST, TextBatch, TextValues};
use crate::container::writable::{Change, ChangedArray, Consistency};
use crate::error::{Error, Result};
use crate::memory::budget::Budget;

/// Most bytes that the library may come to write for all texts of a commit: it is given up where it
/// writes 192 MiB, whatever they are.
const WRITTEN_MOST: u64 = 144 << 20;

/// libhdf5 looks at every chunk of the grid that is cut off, stored or not.
const CUT_MOST: u64 = 10_000_000;

/// Elements that are emptied at once before they are cut off.
const EMPTIED: u64 = 64 << 10;

pub(crate) struct WrittenTexts {
    array: Arc<dyn Array>,
    pub(super) token: u64,
    /// None, or one.
    dims: Vec<u64>,
    place: TextPlace,
    values: OnceLock<TextValues>,
}

enum TextPlace {
    /// In the object header.
    Compact,
    Contiguous,
    /// Elements of a chunk, and most of the dataset; none if it has its length for good.
    Chunked(u64, Option<u64>),
}

/// The texts of a dataset as they are going to be.
pub(super) struct PlannedTexts<'a> {
    pub(super) texts: &'a WrittenTexts,
    pub(super) change: ChangedArray,
    lines: u64,
}

/// A value as it is stored, and as it is going to be; none behind the end.
struct LinePair<'l> {
    number: u64,
    old: Option<&'l Line>,
    new: Option<&'l Line>,
}

impl LinePair<'_> {
    /// What is to be written.
    fn written(&self) -> Option<&Line> {
        let stays = |new: &&Line| self.old.is_some_and(|old| old.is(new));
        self.new.filter(|new| !stays(new))
    }

    fn changes(&self) -> bool {
        self.written().is_some() || self.new.is_none()
    }
}

impl WrittenTexts {
    /// None for what is not written: of more than one dimension, with values elsewhere, or through
    /// filters that the library lacks. `is_free`: its length may change.
    pub(crate) fn of(
        array: &Arc<dyn Array>,
        dataset: &DatasetEntry,
        is_free: bool,
    ) -> Option<WrittenTexts> {
        let dims = dataset.dims.clone().filter(|dims| dims.len() <= 1)?;
        let is_descriptor = dataset.text.is_some();
        let count = product(&dims, 1)?;
        if !dataset.element.is_text() || is_descriptor || count > MOST {
            return None;
        }
        let mut filters = dataset.filters.iter();
        if !filters.all(|filter| OWN_FILTERS.contains(&filter.id)) {
            return None;
        }
        // Chunks that come to be would have it in every element that is not written: on the heap,
        // where nobody has reckoned it up.
        let fill = &dataset.details.fill;
        if matches!(fill, FillSpelling::Value { shown, .. } if shown != "\"\"") {
            return None;
        }
        let place = match &dataset.layout {
            StorageLayout::Texts(..) => TextPlace::Compact,
            StorageLayout::Contiguous { .. } => TextPlace::Contiguous,
            StorageLayout::Chunked {
                chunk, first_most, ..
            } => {
                let most = Some(*first_most).filter(|_| is_free);
                TextPlace::Chunked(*chunk.first()?, most)
            }
            StorageLayout::Compact(_)
            | StorageLayout::External(_)
            | StorageLayout::Virtual(_)
            | StorageLayout::Unknown(_) => return None,
        };
        Some(WrittenTexts {
            array: Arc::clone(array),
            token: dataset.token,
            dims,
            place,
            values: OnceLock::new(),
        })
    }

    pub(super) fn name(&self) -> &str {
        self.array.name()
    }

    fn count(&self) -> u64 {
        self.dims.first().copied().unwrap_or(1)
    }

    /// One value, if it has no room for more. One that may become several is its lines, unless it
    /// is stored with line feeds.
    fn values(&self, budget: &Arc<Budget>) -> Result<TextValues> {
        let most = match self.place {
            TextPlace::Chunked(_, Some(most)) => most,
            _ => self.count(),
        };
        if self.dims.is_empty() || most == 1 {
            return Ok(TextValues::One);
        }
        if self.count() != 1 {
            return Ok(TextValues::Lines);
        }
        if let Some(known) = self.values.get() {
            return Ok(*known);
        }
        let stored = text_lines::count(&*self.array, self.array.info()?.bytes, budget)?;
        let values = match stored {
            ..=1 => TextValues::Lines,
            _ => TextValues::One,
        };
        Ok(*self.values.get_or_init(|| values))
    }

    /// How many values it is going to have. As many lines as it is stored with are its values,
    /// although some of these have several.
    pub(super) fn count_values(&self, change: &ChangedArray, budget: &Arc<Budget>) -> Result<u64> {
        let values = self.values(budget)?;
        let found = values.count(&*change.shown, change.len, budget)?;
        if found == self.count() {
            return Ok(found);
        }
        let stored = values.count(&*self.array, self.array.info()?.bytes, budget)?;
        Ok(if found == stored { self.count() } else { found })
    }

    pub(super) fn permits(&self, change: Change) -> Result<()> {
        let end = match change {
            Change::Write { offset, len } => offset.saturating_add(len),
            Change::SetLen(len) | Change::Truncate(len) => len,
        };
        match end > MOST {
            true => Err(self.too_large()),
            false => Ok(()),
        }
    }

    fn too_large(&self) -> Error {
        let (name, mebibytes) = (self.name(), MOST >> 20);
        too_large(format!("{name}: more than {mebibytes} MiB of text"))
    }

    /// What it is at this length. `lines`: if they have been counted.
    pub(super) fn info(&self, len: u64, lines: Option<u64>) -> Result<Info> {
        let stored = self.array.info()?;
        let lines = lines.or((len == 0).then_some(0));
        let lines = lines.filter(|_| !self.dims.is_empty());
        Ok(Info {
            dtype: Dtype::Text,
            shape: lines.map_or_else(|| stored.shape.clone(), |lines| vec![lines]),
            bytes: len,
            ..stored
        })
    }

    /// Whether its lines can be stored, and about how many bytes the library would write.
    pub(super) fn judge(
        &self,
        change: &ChangedArray,
        budget: &Arc<Budget>,
    ) -> Result<(Consistency, u64)> {
        if change.len > MOST {
            return Err(self.too_large());
        }
        let (mut lines, mut values, mut changes) = (0, 0, false);
        let (mut unfit, mut open) = (None, false);
        let mut cost = WrittenCost::default();
        self.compare(change, budget, &mut |pair| {
            if let Some(new) = pair.new {
                (lines, open) = (lines + 1, !new.has_end);
            }
            values += u64::from(pair.old.is_some());
            changes |= pair.changes();
            if let Some(line) = pair.written() {
                unfit = unfit.take().or(text_lines::objection(self.name(), line));
            }
            let (old, new) = (pair.old.map(|line| line.len), pair.written());
            cost.add(old, new.map(|line| line.len), pair.changes());
            Ok(())
        })?;
        let name = self.name();
        let judged = if !changes && !open {
            Consistency::Now
        } else if values != self.count() {
            let what =
                "values have line feeds in them, so that nobody can tell which line is which";
            Consistency::Unfit(format!("{name}: {what}"))
        } else if let Some(why) = unfit {
            Consistency::Unfit(why)
        } else if open {
            Consistency::Unfit(format!("{name}: the last line has no end"))
        } else if let Some(why) = self.objection(lines) {
            Consistency::NotYet(why)
        } else {
            self.check_compact(change.len.saturating_sub(lines))?;
            Consistency::Now
        };
        Ok((judged, cost.bytes()))
    }

    /// Why it cannot have so many values.
    fn objection(&self, lines: u64) -> Option<String> {
        let (name, count) = (self.name(), self.count());
        match self.place {
            _ if lines == count => None,
            TextPlace::Chunked(_, Some(most)) if lines > most && most != UNLIMITED => Some(
                format!("{name} has {lines} lines, and at most {most} values"),
            ),
            TextPlace::Chunked(chunk, Some(_)) => {
                let cut = count.saturating_sub(lines) / chunk.max(1);
                let many = format!("{name}: {cut} chunks of the grid would be cut off");
                (cut > CUT_MOST).then_some(many)
            }
            _ => Some(format!("{name} has {lines} lines for its {count} values")),
        }
    }

    /// Text in an object header comes with the structure of the file.
    fn check_compact(&self, bytes: u64) -> Result<()> {
        match self.place {
            TextPlace::Compact if bytes > COMPACT_MOST as u64 => {
                let why = format!("{}: more than {COMPACT_MOST} bytes of text", self.name());
                Err(too_large(why))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn planned<'a>(
        &'a self,
        change: &ChangedArray,
        budget: &Arc<Budget>,
    ) -> Result<PlannedTexts<'a>> {
        Ok(PlannedTexts {
            texts: self,
            change: change.clone(),
            lines: self.count_values(change, budget)?,
        })
    }

    /// Goes through the values that are stored, and those that are to be.
    fn compare(
        &self,
        change: &ChangedArray,
        budget: &Arc<Budget>,
        visit: &mut dyn FnMut(LinePair<'_>) -> Result<()>,
    ) -> Result<()> {
        let stored = self.array.info()?.bytes;
        let mut before = text_lines::reader(&*self.array, stored, budget)?;
        let mut after = text_lines::reader(&*change.shown, change.len, budget)?;
        let (mut old, mut new) = (Line::new(budget)?, Line::new(budget)?);
        let values = self.values(budget)?;
        for number in 0.. {
            let has_old = values.read(&mut before, &mut old)?;
            let has_new = values.read(&mut after, &mut new)?;
            if !has_old && !has_new {
                break;
            }
            visit(LinePair {
                number,
                old: has_old.then_some(&old),
                new: has_new.then_some(&new),
            })?;
        }
        Ok(())
    }
}

impl PlannedTexts<'_> {
    /// The dimensions that it is going to have.
    pub(super) fn dims(&self) -> Vec<u64> {
        self.texts.dims.iter().map(|_| self.lines).collect()
    }

    /// Has the library put what has changed.
    pub(super) fn put(&self, budget: &Arc<Budget>, recipe: &mut EditRecipe<'_, '_>) -> Result<()> {
        let (token, count) = (self.texts.token, self.texts.count());
        // What is cut off would keep its room.
        let mut first = self.lines;
        while first < count {
            let n = EMPTIED.min(count - first);
            let runs = vec![TextRun { first, count: n }];
            let texts = vec![0; n as usize];
            recipe.step(&EditStep::Texts { token, runs, texts })?;
            first += n;
        }
        if self.lines != count {
            let dims = self.dims();
            recipe.step(&EditStep::Extent { token, dims })?;
        }
        let mut send = |runs, texts| {
            let step = EditStep::Texts { token, runs, texts };
            recipe.step(&step).map(drop)
        };
        let mut batch = TextBatch::new(self.texts.name(), &mut send);
        self.texts.compare(&self.change, budget, &mut |pair| {
            let written = pair.written();
            written.map_or(Ok(()), |line| batch.put(pair.number, line))
        })?;
        batch.end()
    }
}

/// Whether all texts that change can be stored.
pub(super) fn judge<'a>(
    changes: impl Iterator<Item = (&'a WrittenTexts, &'a ChangedArray)>,
    budget: &Arc<Budget>,
) -> Result<Consistency> {
    let mut written = 0u64;
    for (texts, change) in changes {
        let (judged, bytes) = texts.judge(change, budget)?;
        if judged != Consistency::Now {
            return Ok(judged);
        }
        written = written.saturating_add(bytes);
        if written > WRITTEN_MOST {
            let (name, mebibytes) = (texts.name(), WRITTEN_MOST >> 20);
            let what = format!("texts that take more than {mebibytes} MiB as they are stored");
            return Err(too_large(format!("{name}: {what}")));
        }
    }
    Ok(Consistency::Now)
}

fn too_large(what: String) -> Error {
    let cause = std::io::Error::from_raw_os_error(libc::EFBIG);
    Error::io(what, cause)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::hdf5::strings::compact::compact_strings;
    use crate::container::inside::ContainerNumber;

    fn array(count: u64, text: &str) -> Arc<dyn Array> {
        Arc::new(compact_strings("x", &[count], text.as_bytes(), 0).unwrap())
    }

    fn texts(count: u64, text: &str, place: TextPlace) -> WrittenTexts {
        WrittenTexts {
            array: array(count, text),
            token: 7,
            dims: vec![count],
            place,
            values: OnceLock::new(),
        }
    }

    fn change(text: &str) -> ChangedArray {
        ChangedArray {
            container: ContainerNumber::OUTERMOST,
            shown: array(0, text),
            len: text.len() as u64,
            ranges: Vec::new(),
            visible: 0,
            done_before: None,
        }
    }

    fn judged(of: &WrittenTexts, text: &str) -> Consistency {
        of.judge(&change(text), &Budget::new(1 << 30)).unwrap().0
    }

    #[track_caller]
    fn assert_not_yet(judged: Consistency, what: &str) {
        assert!(
            matches!(&judged, Consistency::NotYet(why) if why.contains(what)),
            "{judged:?}"
        );
    }

    #[track_caller]
    fn assert_unfit(judged: Consistency, what: &str) {
        assert!(
            matches!(&judged, Consistency::Unfit(why) if why.contains(what)),
            "{judged:?}"
        );
    }

    #[test]
    fn as_many_lines_fit_as_there_may_be_values() {
        let fixed = texts(2, "a\nb\n", TextPlace::Contiguous);
        assert_eq!(judged(&fixed, "c\nd\n"), Consistency::Now);
        assert_not_yet(judged(&fixed, "c\n"), "1 lines for its 2 values");
        assert_not_yet(judged(&fixed, ""), "0 lines for its 2 values");
        let most = texts(2, "a\nb\n", TextPlace::Chunked(1, Some(3)));
        assert_eq!(judged(&most, "c\n"), Consistency::Now);
        assert_eq!(judged(&most, "c\nd\ne\n"), Consistency::Now);
        assert_not_yet(judged(&most, "c\nd\ne\nf\n"), "at most 3 values");
        let free = texts(2, "a\nb\n", TextPlace::Chunked(1, Some(UNLIMITED)));
        assert_eq!(judged(&free, &"c\n".repeat(100)), Consistency::Now);
    }

    #[test]
    fn lines_that_are_no_values_are_unfit() {
        let place = || TextPlace::Chunked(1, Some(UNLIMITED));
        let free = texts(2, "a\nb\n", place());
        assert_unfit(judged(&free, "a\nb"), "the last line has no end");
        assert_unfit(judged(&free, "a\nb\nx\0y\n"), "no NUL");
        // Its second value is `b`, a line feed and `c`.
        let feeds = texts(2, "a\nb\nc\n", place());
        assert_unfit(judged(&feeds, "a\nb\nd\n"), "line feeds");
        assert_eq!(judged(&feeds, "a\nb\nc\n"), Consistency::Now);
        // A NUL that was there before stays.
        let nul = texts(2, "a\0\nb\n", place());
        assert_eq!(judged(&nul, "a\0\nc\n"), Consistency::Now);
    }

    #[test]
    fn one_value_is_all_of_its_text() {
        let budget = Budget::new(1 << 30);
        let scalar = WrittenTexts {
            dims: Vec::new(),
            ..texts(1, "a\nb\n", TextPlace::Contiguous)
        };
        let fixed = texts(1, "a\n", TextPlace::Chunked(1, Some(1)));
        // It could have several, but has one that would be several lines.
        let stored = texts(1, "a\nb\n", TextPlace::Chunked(1, Some(UNLIMITED)));
        for one in [&scalar, &fixed, &stored] {
            assert_eq!(judged(one, "x\n\ny\n"), Consistency::Now);
            assert_unfit(judged(one, "x\ny"), "the last line has no end");
            assert_eq!(one.count_values(&change("x\ny\n"), &budget).unwrap(), 1);
        }
        assert_not_yet(judged(&scalar, ""), "has 0 lines");
        let free = texts(1, "a\n", TextPlace::Chunked(1, Some(UNLIMITED)));
        assert_eq!(free.count_values(&change("x\ny\n"), &budget).unwrap(), 2);
    }

    #[test]
    fn what_does_not_change_costs_nothing() {
        let many: String = (0..1000).map(|n| format!("name {n}\n")).collect();
        let of = texts(1000, &many, TextPlace::Contiguous);
        let cost = |text: &str| of.judge(&change(text), &Budget::new(1 << 30)).unwrap().1;
        assert_eq!(cost(&many), 0);
        assert_eq!(cost(&many.replace("name 7\n", "other\n")), 2 * 4096 + 16);
        assert!(cost(&many.replace("name", "x")) > 2 * 24 * 1000);
    }
}
