//! A file that is a Binsparse container: its arrays keep the rules of that format, and the
//! descriptor, an attribute of the file, follows from them or is written itself. Used by [`super`].

use std::sync::Arc;

use super::super::header::ClassicHeader;
use super::header::{HeaderPlaces, NewHeader};
use crate::array::Info;
use crate::container::Container;
use crate::container::binsparse::{SparseArrays, TEXT};
use crate::container::plain_write::NewStart;
use crate::container::writable::{ChangedArray, ComputedBytes, Consistency, Restated};
use crate::error::Result;
use crate::memory::budget::{Budget, Hold};
use crate::source::Source;

pub(super) struct SparseFile {
    arrays: SparseArrays,
    /// None: the header stays as it is.
    places: Option<HeaderPlaces>,
}

impl SparseFile {
    pub(super) fn new(arrays: SparseArrays, header: &ClassicHeader) -> SparseFile {
        let places = HeaderPlaces::of(header);
        let arrays = match places {
            Some(_) => arrays,
            None => arrays.without_descriptor(),
        };
        SparseFile { arrays, places }
    }

    /// Whether the descriptor is an array, too.
    pub(super) fn has_line(&self) -> bool {
        self.places.is_some()
    }

    /// Has the descriptor be shown as what can be written.
    pub(super) fn show(&self, container: &mut Container) {
        if let Some(line) = self.arrays.line() {
            container.texts.retain(|text| text.name != TEXT);
            container.lines.push(Arc::new(line));
        }
    }

    /// What the container says of itself.
    pub(super) fn restate(&self, changed: &[ChangedArray], restated: &mut Restated) -> Result<()> {
        let changes: Vec<&ChangedArray> = changed.iter().collect();
        if let Some(text) = self.arrays.followed(&changes)? {
            let info = Info::text(text.len() as u64);
            restated.arrays.insert(TEXT.into(), info);
        }
        let (version, attributes) = self.arrays.examined(&changes)?;
        restated.version = Some(version);
        restated.attributes.extend(attributes);
        Ok(())
    }

    /// The descriptor, as long as nobody has written another one.
    pub(super) fn computed(
        &self,
        changed: &[ChangedArray],
        budget: &Arc<Budget>,
    ) -> Result<Option<ComputedBytes>> {
        let changes: Vec<&ChangedArray> = changed.iter().collect();
        let Some(bytes) = self.arrays.followed(&changes)? else {
            return Ok(None);
        };
        let hold = budget.keep(bytes.len() as u64)?;
        Ok(Some(ComputedBytes { bytes, hold }))
    }

    pub(super) fn judge(
        &self,
        changed: &[ChangedArray],
        budget: &Arc<Budget>,
    ) -> Result<Consistency> {
        let changes: Vec<&ChangedArray> = changed.iter().collect();
        self.arrays.judge(&changes, |_| None, budget)
    }

    /// How much of the file is told anew for its descriptor, and what moves; none if that stays.
    pub(super) fn new_header(&self, changed: &[ChangedArray]) -> Result<Option<NewHeader>> {
        let Some((places, text)) = self.changed_text(changed)? else {
            return Ok(None);
        };
        Ok(Some(places.with_descriptor(text.len())))
    }

    /// The start of the file, if its descriptor is another one, and the charge for it.
    pub(super) fn new_start(
        &self,
        changed: &[ChangedArray],
        records: Option<u64>,
        (source, budget): (&Arc<dyn Source>, &Arc<Budget>),
    ) -> Result<Option<(NewStart, Hold)>> {
        let Some((places, text)) = self.changed_text(changed)? else {
            return Ok(None);
        };
        // As it is stored, the descriptor, and both together.
        let hold = budget.keep(2 * places.with_descriptor(text.len()).len())?;
        let start = places.with(&text, records, source)?;
        Ok(Some((start, hold)))
    }

    fn changed_text(&self, changed: &[ChangedArray]) -> Result<Option<(&HeaderPlaces, Vec<u8>)>> {
        let changes: Vec<&ChangedArray> = changed.iter().collect();
        let text = self.arrays.changed_text(&changes)?;
        Ok(self.places.as_ref().zip(text))
    }
}
