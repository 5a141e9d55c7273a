//! Changing NetCDF classic files: values in place, and records that are appended or cut.
//!
//! A fixed variable has its length for good. Variables along the unlimited dimension share the
//! number of records: the file has as many as the longest of them, the others are filled there, and
//! are shown in the mount as long as they were (`own_lengths`). Of a Binsparse container the arrays
//! have to agree, and the descriptor follows ([`sparse`]), for which the [`header`] may need more
//! room. Assumes a file without faults and without bytes behind its end; others are not offered for
//! writing. What is stored where follows from [`super::layout`]; it is told by
//! [`crate::container::plain_write`].

mod header;
mod sparse;
mod variable;

use std::sync::Arc;

use super::header::ClassicHeader;
use super::kind::ClassicVersion;
use super::swap;
use crate::array::Info;
use crate::array::dtype::Dtype;
use crate::array::stored_run::StoredRun;
use crate::container::Container;
use crate::container::binsparse::{DescriptorText, SparseArrays, TEXT, is_member};
use crate::container::inside::{ArrayAddress, ContainerNumber};
use crate::container::own_lengths::ArrayLengths;
use crate::container::plain_write::{NewStart, PlainFile, PlainPart, dirty_bytes};
use crate::container::writable::{
    Amount, Change, ChangedArray, CommitWay, ComputedBytes, Consistency, Recipe, Restated,
    WritableContainer,
};
use crate::error::{Error, Result};
use crate::memory::budget::Budget;
use crate::range_set::RangeSet;
use crate::source::Source;
use sparse::SparseFile;
use variable::RecordLayout;
pub(super) use variable::{WrittenVariable, fill_of};

/// Where the number of records is.
const RECORDS_AT: u64 = 4;

/// What CDF-1 can hold: places are of 31 bits.
const MOST_OF_ONE: u64 = i32::MAX as u64;

/// Most records of versions with short sizes; one more means "as many as there are".
const MOST_RECORDS: u64 = i32::MAX as u64;

/// A writer may leave so much room before the records.
const ROOM: u64 = 1 << 20;

struct ClassicFile {
    source: Arc<dyn Source>,
    version: ClassicVersion,
    /// What the header says.
    counted: Option<u64>,
    variables: Vec<WrittenVariable>,
    records: RecordLayout,
    /// Of a Binsparse container.
    sparse: Option<SparseFile>,
}

/// Lets a file be written that is sound, and ends where its variables do.
pub(super) fn offer(
    container: &mut Container,
    header: &ClassicHeader,
    source: &Arc<dyn Source>,
    (variables, sparse): (Vec<WrittenVariable>, Option<SparseArrays>),
) {
    if let Some(member) = container.unreadable.first() {
        let why = format!("{} of it cannot be shown: {}", member.name, member.reason);
        container.is_only_read(why);
        return;
    }
    if !container.faults.is_empty() {
        return;
    }
    let records = RecordLayout::of(&variables, (header.len, source.len()));
    let fixed = variables.iter().filter(|one| one.place.record.is_none());
    let ends = fixed.map(|one| one.place.end().next_multiple_of(4));
    let of_records = records.end(records.count).filter(|_| records.stride > 0);
    // Some writers fill up a single record variable, too.
    let of_records = of_records.map(|end| u128::from(end).next_multiple_of(4));
    let end = ends.chain(of_records).fold(header.len.into(), u128::max);
    // Somebody's bytes that would be overwritten.
    if let Some(behind) = u128::from(source.len()).checked_sub(end).filter(|n| *n > 0) {
        container.is_only_read(format!(
            "{behind} bytes lie behind its end, which would be written over"
        ));
        return;
    }
    let sparse = sparse.map(|arrays| SparseFile::new(arrays, header));
    if let Some(sparse) = &sparse {
        // Two entries of one name.
        if variables.iter().any(|one| one.array.name() == TEXT) {
            container.is_only_read(format!(
                "it has a variable called {TEXT}, as its descriptor is shown"
            ));
            return;
        }
        sparse.show(container);
    }
    container.writable = Some(Arc::new(ClassicFile {
        sparse,
        source: Arc::clone(source),
        version: header.version,
        counted: header.records,
        variables,
        records,
    }));
}

/// What a variable's length becomes.
#[derive(Debug, Clone, Copy)]
struct NewLength {
    len: u64,
    /// With what is filled.
    stored: u64,
}

impl ClassicFile {
    fn variable(&self, name: &str) -> Result<&WrittenVariable> {
        let mut variables = self.variables.iter();
        let found = variables.find(|one| one.array.name() == name);
        found.ok_or_else(|| Error::Computed(format!("{name} is not a variable of the file")))
    }

    /// Records of the file with these changes: those of its longest variable.
    fn new_records(&self, changed: &[ChangedArray]) -> Result<u64> {
        let mut most = 0;
        for variable in &self.variables {
            if let Some(record) = variable.place.record {
                let len = length_of(variable, changed)?;
                most = most.max(len / record.run.max(1));
            }
        }
        Ok(most)
    }

    fn new_length(
        &self,
        variable: &WrittenVariable,
        changed: &[ChangedArray],
        records: u64,
    ) -> Result<NewLength> {
        let len = length_of(variable, changed)?;
        let stored = match variable.place.record {
            Some(record) => records.saturating_mul(record.run),
            None => variable.place.bytes(),
        };
        Ok(NewLength { len, stored })
    }

    /// The file as it is going to be.
    fn plan<'a>(
        &'a self,
        changed: &'a [ChangedArray],
        records: u64,
        start: Option<NewStart>,
    ) -> Result<PlainFile<'a>> {
        let mut parts = Vec::new();
        for variable in &self.variables {
            let new = self.new_length(variable, changed, records)?;
            parts.push(self.part(variable, change_of(variable, changed), new));
        }
        let (has_records, len) = (self.records.stride > 0, self.source.len());
        let len = match has_records && records != self.records.count {
            true => self.records.end(records).ok_or_else(too_large)?,
            false => len,
        };
        let mut literals = Vec::new();
        if let Some(records) = self.recount(records).filter(|_| start.is_none()) {
            literals.push((RECORDS_AT, count(self.version, records)?));
        }
        Ok(PlainFile {
            start,
            parts,
            literals,
            stored: &self.source,
            len,
        })
    }

    fn part<'a>(
        &'a self,
        variable: &'a WrittenVariable,
        change: Option<&'a ChangedArray>,
        new: NewLength,
    ) -> PlainPart<'a> {
        let element = variable.element();
        let stored = match variable.place.record {
            Some(record) => variable.records.saturating_mul(record.run),
            None => variable.place.bytes(),
        };
        // What has been filled before is filled.
        let (mut dirty, filled) = match change {
            Some(change) => (
                dirty_bytes(&change.ranges, (change.visible, change.len), element),
                new.len,
            ),
            None => (RangeSet::default(), stored),
        };
        if filled < new.stored {
            dirty.insert(filled..new.stored);
        }
        PlainPart {
            shown: change.map_or(&*variable.array, |change| &*change.shown),
            change,
            len: new.len,
            stored,
            runs: variable.runs(),
            dirty,
            element,
            to_stored: Some(swap::elements),
            fill: &variable.fill[..element as usize],
        }
    }

    /// The number of records that the header is to have, if it has another one.
    fn recount(&self, records: u64) -> Option<u64> {
        (self.records.stride > 0 && self.counted != Some(records)).then_some(records)
    }

    /// The arrays of a Binsparse container, if this is its descriptor.
    fn descriptor(&self, array: ArrayAddress<'_>) -> Option<&SparseFile> {
        let sparse = self.sparse.as_ref();
        sparse.filter(|sparse| array.name == TEXT && sparse.has_line())
    }

    /// Why the arrays of a Binsparse container would not agree in the file: one of them would be
    /// filled.
    fn filled_member(&self, changed: &[ChangedArray]) -> Result<Option<String>> {
        let records = self.new_records(changed)?;
        for variable in &self.variables {
            let name = variable.array.name();
            let new = self.new_length(variable, changed, records)?;
            if is_member(name) && new.len < new.stored {
                let why = format!("{name} would be filled up to {records} records of the file");
                return Ok(Some(why));
            }
        }
        Ok(None)
    }

    /// The changes of variables.
    fn of_variables<'a>(
        &self,
        changed: &'a [ChangedArray],
    ) -> impl Iterator<Item = &'a ChangedArray> {
        let changed = changed.iter();
        changed.filter(|array| self.descriptor(array.address()).is_none())
    }

    /// Whether an array may get this length, on the way to another one or not.
    fn takes_length(&self, variable: &WrittenVariable, len: u64) -> Result<()> {
        let name = variable.array.name();
        let Some(record) = variable.place.record else {
            return match len == 0 || len == variable.place.bytes() {
                true => Ok(()),
                false => Err(fixed(name, variable.place.bytes())),
            };
        };
        let stored = variable.records.saturating_mul(record.run);
        if len != stored && !self.records.grows {
            let why = format!("{name}: something else lies where its records would be");
            return Err(Error::Invalid(why));
        }
        let records = len.div_ceil(record.run.max(1));
        let end = self.records.end(records);
        let is_long = self.version.has_long_sizes();
        let most = match self.version {
            ClassicVersion::One => MOST_OF_ONE,
            ClassicVersion::Two | ClassicVersion::Five => i64::MAX as u64,
        };
        match end.is_none_or(|end| end > most) || !is_long && records > MOST_RECORDS {
            true => Err(too_large()),
            false => Ok(()),
        }
    }
}

fn change_of<'a>(
    variable: &WrittenVariable,
    changed: &'a [ChangedArray],
) -> Option<&'a ChangedArray> {
    let name = variable.array.name();
    changed.iter().find(|array| array.shown.name() == name)
}

fn length_of(variable: &WrittenVariable, changed: &[ChangedArray]) -> Result<u64> {
    let change = change_of(variable, changed);
    change.map_or_else(|| variable.len(), |change| Ok(change.len))
}

fn fixed(name: &str, bytes: u64) -> Error {
    Error::Invalid(format!(
        "{name} has {bytes} bytes for good: no dimension of it is unlimited"
    ))
}

/// A number as the header has it.
fn count(version: ClassicVersion, number: u64) -> Result<Vec<u8>> {
    match version.has_long_sizes() {
        true => Ok(number.to_be_bytes().to_vec()),
        false => {
            let number = u32::try_from(number).map_err(|_| too_large())?;
            Ok(number.to_be_bytes().to_vec())
        }
    }
}

fn too_large() -> Error {
    let cause = std::io::Error::from_raw_os_error(libc::EFBIG);
    Error::io("a file of this version of NetCDF cannot be so large", cause)
}

impl WritableContainer for ClassicFile {
    fn permits(&self, array: ArrayAddress<'_>, change: Change) -> Result<()> {
        if self.descriptor(array).is_some() {
            return DescriptorText::permits(change);
        }
        let variable = self.variable(array.name)?;
        match change {
            Change::Write { len: 0, .. } => Ok(()),
            Change::Write { offset, len } => {
                let end = offset.checked_add(len).ok_or_else(too_large)?;
                match variable.place.record {
                    None if end <= variable.place.bytes() => Ok(()),
                    Some(_) if end <= variable.len()? => Ok(()),
                    _ => self.takes_length(variable, end),
                }
            }
            Change::SetLen(len) | Change::Truncate(len) => self.takes_length(variable, len),
        }
    }

    fn follows(&self, array: ArrayAddress<'_>) -> bool {
        self.descriptor(array).is_some()
    }

    fn info(&self, array: ArrayAddress<'_>, len: u64) -> Result<Info> {
        if self.descriptor(array).is_some() {
            return Ok(Info::text(len));
        }
        let variable = self.variable(array.name)?;
        let stored = variable.array.info()?;
        if len == stored.bytes {
            return Ok(stored);
        }
        let record = variable.place.record.map(|record| record.run);
        match record.filter(|run| *run > 0 && len.is_multiple_of(*run)) {
            Some(run) => {
                let mut shape = stored.shape.clone();
                if let Some(first) = shape.first_mut() {
                    *first = len / run;
                }
                Ok(Info {
                    shape,
                    bytes: len,
                    ..stored
                })
            }
            // Shown as bytes, until it has whole records again.
            None => Ok(Info {
                dtype: Dtype::U8,
                shape: vec![len],
                bytes: len,
                ..stored
            }),
        }
    }

    /// The header may need more room where it has a descriptor.
    fn stored_run(
        &self,
        array: ArrayAddress<'_>,
        _changed: &[ChangedArray],
    ) -> Result<Option<StoredRun>> {
        let variable = self.variable(array.name)?;
        let is_fixed = variable.place.record.is_none() && self.sparse.is_none();
        Ok(is_fixed.then(|| StoredRun {
            begin: variable.place.begin,
            len: variable.place.bytes(),
            turned: variable.place.kind.size() as u8,
        }))
    }

    fn restate(
        &self,
        _container: ContainerNumber,
        changed: &[ChangedArray],
        _budget: &Arc<Budget>,
    ) -> Result<Restated> {
        let mut restated = Restated::default();
        for array in changed {
            let info = self.info(array.address(), array.len)?;
            restated.arrays.insert(array.shown.name().to_owned(), info);
        }
        if let Some(sparse) = self.sparse.as_ref().filter(|_| !changed.is_empty()) {
            sparse.restate(changed, &mut restated)?;
        }
        Ok(restated)
    }

    fn computed(
        &self,
        array: ArrayAddress<'_>,
        changed: &[ChangedArray],
        budget: &Arc<Budget>,
    ) -> Result<Option<ComputedBytes>> {
        match self.descriptor(array) {
            Some(sparse) => sparse.computed(changed, budget),
            None => Ok(None),
        }
    }

    fn consistency(&self, changed: &[ChangedArray], budget: &Arc<Budget>) -> Result<Consistency> {
        for array in self.of_variables(changed) {
            let (name, len) = (array.shown.name(), array.len);
            let variable = self.variable(name)?;
            let why = match variable.place.record {
                None if len != variable.place.bytes() => {
                    let all = variable.place.bytes();
                    format!("{name} has {len} of its {all} bytes")
                }
                Some(record) if !len.is_multiple_of(record.run.max(1)) => {
                    format!("{name} ends within a record of {} bytes", record.run)
                }
                _ => continue,
            };
            return Ok(Consistency::NotYet(why));
        }
        let Some(sparse) = &self.sparse else {
            return Ok(Consistency::Now);
        };
        match self.filled_member(changed)? {
            Some(why) => Ok(Consistency::NotYet(why)),
            None => sparse.judge(changed, budget),
        }
    }

    fn amount(&self, changed: &[ChangedArray]) -> Result<Amount> {
        let (records, stored) = (self.new_records(changed)?, self.source.len());
        let sparse = self.sparse.as_ref();
        let header = sparse
            .map(|sparse| sparse.new_header(changed))
            .transpose()?;
        let header = header.flatten();
        let anew = header.map_or(0, |new| new.len().saturating_add(new.moved(stored)));
        let values = self.plan(changed, records, None)?.changed();
        Ok(Amount {
            stored,
            changed: values.saturating_add(anew),
            grown: values.saturating_sub(stored),
            moves: header.is_some_and(|new| new.shift > 0),
            ..Amount::default()
        })
    }

    fn own_lengths(&self, changed: &[ChangedArray]) -> ArrayLengths {
        let Ok(records) = self.new_records(changed) else {
            return ArrayLengths::new();
        };
        let lengths = self.variables.iter().filter_map(|variable| {
            let new = self.new_length(variable, changed, records).ok()?;
            let name = variable.array.name().to_owned();
            (new.len != new.stored).then_some((name, new.len))
        });
        lengths.collect()
    }

    fn recipe(
        &self,
        changed: &[ChangedArray],
        way: CommitWay,
        budget: &Arc<Budget>,
        write: &mut dyn Recipe,
    ) -> Result<()> {
        let records = self.new_records(changed)?;
        let (mut start, mut _hold) = (None, None);
        if let Some(sparse) = &self.sparse {
            let file = (&self.source, budget);
            let new = sparse.new_start(changed, self.recount(records), file)?;
            (start, _hold) = new.unzip();
        }
        self.plan(changed, records, start)?.tell(way, budget, write)
    }
}
