//! BPCells in a group: the named arrays of `container::bpcells` as datasets of an HDF5 file.
//!
//! Numbers of another width or kind than BPCells writes are converted when they are read: integers
//! that do not fit are faults, other floats are rounded (docs/formats.md). Used by `assemble`.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use super::assemble::{Assembly, NeededArray, no_dataset, of_packed};
use super::index::{self, GroupEntry};
use super::lines::FixedLines;
use super::write::{BpcellsRules, WrittenDataset, WrittenTexts};
use crate::array::Array;
use crate::array::dtype::Dtype;
use crate::array::nested::NestedArray;
use crate::container::Container;
use crate::container::bpcells::fields::{Field, Fields, Number};
use crate::container::bpcells::version::Variant;
use crate::container::bpcells::write::{MemberFiles, NamedField, stored_first};
use crate::error::{Fault, Result};
use crate::source::StoredRanges;

/// Elements converted at a time; of at most [`WIDEST`] bytes.
const STEP: usize = 512;

const WIDEST: usize = 8;

pub(super) struct GroupFields<'a> {
    assembly: &'a Assembly<'a>,
    group: &'a GroupEntry,
    /// The numeric ones that were opened, each with its dataset if it can be written as it is.
    opened: RefCell<Vec<(NamedField, Option<WrittenDataset>)>>,
    /// The texts that can be written.
    texts: RefCell<Vec<WrittenTexts>>,
}

impl<'a> GroupFields<'a> {
    pub(super) fn new(assembly: &'a Assembly<'a>, group: &'a GroupEntry) -> GroupFields<'a> {
        GroupFields {
            assembly,
            group,
            opened: RefCell::default(),
            texts: RefCell::default(),
        }
    }

    /// How the container of these fields can be changed, if all of them can be, with its texts that
    /// can be written.
    pub(super) fn into_rules(
        self,
        container: &Container,
        variant: Variant,
    ) -> Option<(BpcellsRules, Vec<WrittenTexts>)> {
        let (fields, datasets): (_, Vec<_>) = self.opened.into_inner().into_iter().unzip();
        let rules = BpcellsRules {
            datasets: datasets.into_iter().collect::<Option<_>>()?,
            directory: MemberFiles::of_fields(container, variant, fields),
        };
        Some((rules, self.texts.into_inner()))
    }

    /// Says of the arrays how their datasets are stored: all of an array's alike.
    pub(super) fn detail(&self, container: &mut Container, variant: Variant) -> Result<()> {
        let arrays = container.arrays.iter().map(|array| array.name().to_owned());
        for name in arrays.collect::<Vec<_>>() {
            let first = stored_first(variant, &name);
            if let Some(Ok(dataset)) = first.map(|first| self.dataset(&first)) {
                container.detail(&name, of_packed(dataset)?);
            }
        }
        Ok(())
    }

    fn link(&self, name: &str) -> Option<&index::LinkEntry> {
        let stored = name.as_bytes();
        self.group.links.iter().find(|link| link.name == stored)
    }

    fn dataset(&self, name: &str) -> Result<&index::DatasetEntry> {
        let link = self.link(name);
        let dataset = link.and_then(|link| self.assembly.dataset(&link.target));
        dataset.ok_or_else(|| {
            let what = match link {
                Some(link) => format!("cannot be shown: {}", no_dataset(&link.target)),
                None => "the dataset is missing".into(),
            };
            Fault::new(what).file(name).into()
        })
    }

    /// Opens a dataset of one dimension; says of one to which no other name leads what it is.
    fn open(&self, name: &str) -> Result<(NeededArray, Option<&index::DatasetEntry>)> {
        let dataset = self.dataset(name)?;
        let opened = self.assembly.open(name, dataset);
        let opened = opened.map_err(|e| e.map_fault(|fault| fault.file(name)))?;
        let dimensions = opened.0.info()?.shape.len();
        if dimensions != 1 {
            let fault = Fault::new("the dataset is not a list").file(name);
            let fault = fault.expected("one dimension").found(dimensions);
            return Err(fault.into());
        }
        let is_alone = |link: &&index::LinkEntry| self.assembly.has_one_name(&link.target);
        let alone = self.link(name).filter(is_alone);
        Ok((opened, alone.map(|_| dataset)))
    }
}

impl Fields for GroupFields<'_> {
    fn field(&self, name: &str, number: Number) -> Result<Arc<dyn Field>> {
        let ((array, opened), alone) = self.open(name)?;
        let written = opened.zip(alone);
        let written = written.and_then(|(opened, one)| WrittenDataset::of(&opened, one, true));
        let info = array.info()?;
        let Some(stored) =
            DatasetNumber::of(&info.dtype).filter(|stored| stored.converts_to(number))
        else {
            return Err(Fault::new("the dataset holds other values")
                .file(name)
                .expected(number.dtype().name())
                .found(info.dtype.name())
                .into());
        };
        let field: Arc<dyn Field> = Arc::new(DatasetField {
            name: name.to_owned(),
            len: info.shape.first().copied().unwrap_or(0),
            stored_bytes: info.stored_bytes,
            stored,
            number,
            values: self.assembly.nested.array(array),
        });
        let named = (name.to_owned(), Arc::clone(&field));
        let written = written.filter(|_| stored.is(number));
        self.opened.borrow_mut().push((named, written));
        Ok(field)
    }

    fn names(&self, name: &str) -> Result<Arc<dyn Array>> {
        let ((array, _), alone) = self.open(name)?;
        match array.info()?.dtype {
            Dtype::Text => {
                let written = alone.and_then(|one| WrittenTexts::of(&array, one, true));
                self.texts.borrow_mut().extend(written);
                Ok(array)
            }
            Dtype::Descr { descr, itemsize } if descr.starts_with("|S") => {
                let strings = self.assembly.nested.array(array);
                Ok(Arc::new(FixedLines::new(name, strings, itemsize)?))
            }
            other => Err(Fault::new("the dataset holds no strings")
                .file(name)
                .found(other.name())
                .into()),
        }
    }

    fn first_line(&self, name: &str) -> Result<Vec<u8>> {
        const MOST: u64 = 256;
        let names = self.names(name)?;
        let bytes = names.info()?.bytes.min(MOST);
        let mut line = vec![0; bytes as usize];
        self.assembly.nested.array(names).read(0, &mut line)?;
        line.truncate(memchr::memchr(b'\n', &line).unwrap_or(line.len()));
        Ok(line)
    }
}

/// Datatype of the elements of a dataset, as shown: little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DatasetNumber {
    kind: NumberKind,
    /// 1, 2, 4 or 8 bytes; 4 or 8 for floats.
    size: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NumberKind {
    Unsigned,
    Signed,
    Float,
}

impl DatasetNumber {
    fn of(dtype: &Dtype) -> Option<DatasetNumber> {
        let name = dtype.name();
        let split = name.find(|c: char| c.is_ascii_digit())?;
        let kind = match &name[..split] {
            "uint" => NumberKind::Unsigned,
            "int" => NumberKind::Signed,
            "float" => NumberKind::Float,
            _ => return None,
        };
        let bits: usize = name[split..].parse().ok()?;
        let size = bits / 8;
        (size >= 4 || kind != NumberKind::Float).then_some(DatasetNumber { kind, size })
    }

    fn converts_to(self, number: Number) -> bool {
        self.kind != NumberKind::Float || matches!(number, Number::F32 | Number::F64)
    }

    fn is(self, number: Number) -> bool {
        let same_kind = match number {
            Number::U32 | Number::U64 => self.kind == NumberKind::Unsigned,
            Number::F32 | Number::F64 => self.kind == NumberKind::Float,
        };
        same_kind && self.size as u64 == number.width()
    }

    /// An element as the integer or the float that it is.
    fn value(self, element: &[u8]) -> NumberValue {
        let mut wide = [0; 8];
        wide[..element.len()].copy_from_slice(element);
        let raw = u64::from_le_bytes(wide);
        match self.kind {
            NumberKind::Unsigned => NumberValue::Integer(i128::from(raw)),
            NumberKind::Signed => {
                let unused = 64 - 8 * self.size as u32;
                NumberValue::Integer(i128::from((raw << unused).cast_signed() >> unused))
            }
            NumberKind::Float if self.size == 4 => {
                NumberValue::Float(f64::from(f32::from_bits(raw as u32)))
            }
            NumberKind::Float => NumberValue::Float(f64::from_bits(raw)),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum NumberValue {
    Integer(i128),
    Float(f64),
}

impl NumberValue {
    /// The bits of the value as `number`; none if it does not fit.
    fn bits(self, number: Number) -> Option<u64> {
        Some(match (number, self) {
            (Number::U32, NumberValue::Integer(n)) => u32::try_from(n).ok()?.into(),
            (Number::U64, NumberValue::Integer(n)) => u64::try_from(n).ok()?,
            (Number::F32, NumberValue::Integer(n)) => (n as f32).to_bits().into(),
            (Number::F64, NumberValue::Integer(n)) => (n as f64).to_bits(),
            (Number::F32, NumberValue::Float(x)) => (x as f32).to_bits().into(),
            (Number::F64, NumberValue::Float(x)) => x.to_bits(),
            (Number::U32 | Number::U64, NumberValue::Float(_)) => return None,
        })
    }
}

/// A numeric dataset.
struct DatasetField {
    name: String,
    values: NestedArray,
    stored: DatasetNumber,
    number: Number,
    len: u64,
    stored_bytes: u64,
}

impl DatasetField {
    /// Fills `out` with elements from number `first` on, converted; whole ones, at most [`STEP`].
    fn convert(&self, first: u64, out: &mut [u8]) -> Result<()> {
        let size = self.stored.size;
        let mut raw = [0; STEP * WIDEST];
        let raw = &mut raw[..out.len() / self.number.width() as usize * size];
        self.read_stored(first.saturating_mul(size as u64), raw)?;
        let elements = raw.chunks_exact(size);
        let places = out.chunks_exact_mut(self.number.width() as usize);
        for ((element, place), at) in elements.zip(places).zip(first..) {
            let value = self.stored.value(element);
            let unfit = || {
                Fault::new("a value does not fit")
                    .file(&self.name)
                    .expected(self.number.dtype().name())
                    .found(format_args!("{value:?} at element {at}"))
            };
            let bits = value.bits(self.number).ok_or_else(unfit)?;
            place.copy_from_slice(&bits.to_le_bytes()[..place.len()]);
        }
        Ok(())
    }

    fn read_stored(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let read = self.values.read(at, out);
        read.map_err(|e| e.map_fault(|fault| fault.file(&self.name)))
    }
}

impl Field for DatasetField {
    fn number(&self) -> Number {
        self.number
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn stored_bytes(&self) -> u64 {
        self.stored_bytes
    }

    fn read(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let width = self.number.width();
        let end = at.saturating_add(out.len() as u64);
        if end > self.len.saturating_mul(width) {
            let fault = Fault::new("the dataset is too short").file(&self.name);
            return Err(fault.expected(end / width).found(self.len).into());
        }
        if self.stored.is(self.number) {
            return self.read_stored(at, out);
        }
        let (mut element, mut skip) = (at / width, (at % width) as usize);
        let mut rest = out;
        while !rest.is_empty() {
            let n = (STEP * width as usize - skip).min(rest.len());
            let (part, others) = rest.split_at_mut(n);
            let mut whole = [0; STEP * WIDEST];
            let whole = &mut whole[..(skip + n).next_multiple_of(width as usize)];
            self.convert(element, whole)?;
            part.copy_from_slice(&whole[skip..][..n]);
            rest = others;
            (element, skip) = (element + STEP as u64, 0);
        }
        Ok(())
    }

    fn stored(&self, range: Range<u64>, round: u32, needed: &mut StoredRanges) -> Result<bool> {
        let (width, size) = (self.number.width(), self.stored.size as u64);
        let first = (range.start / width).saturating_mul(size);
        let end = range.end.div_ceil(width).min(self.len).saturating_mul(size);
        self.values.stored(first..end.max(first), round, needed)
    }

    fn locate(&self, fault: Fault, range: Range<u64>) -> Fault {
        let width = self.number.width();
        let first = range.start / width;
        let last = range.end.div_ceil(width);
        let fault = fault.file(&self.name);
        match fault.found {
            None => fault.found(format_args!("elements {first} to {last}")),
            Some(_) => fault,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn types_are_told_by_their_names() {
        let stored = |kind, size| Some(DatasetNumber { kind, size });
        let of = |descr: &str, size| DatasetNumber::of(&Dtype::numpy(descr, size));
        assert_eq!(of("<i2", 2), stored(NumberKind::Signed, 2));
        assert_eq!(of("|u1", 1), stored(NumberKind::Unsigned, 1));
        assert_eq!(of("<f4", 4), stored(NumberKind::Float, 4));
        assert_eq!(of("|S4", 4), None);
        assert_eq!(of("<f2", 2), None);
        assert_eq!(of("|b1", 1), None);
    }

    proptest! {
        #[test]
        fn integers_keep_their_value_or_are_refused(n in any::<i64>(), size in 0usize..4) {
            let size = 1 << size;
            let cut = (n << (64 - 8 * size)) >> (64 - 8 * size);
            let stored = DatasetNumber { kind: NumberKind::Signed, size };
            let value = stored.value(&cut.to_le_bytes()[..size]);
            prop_assert_eq!(value, NumberValue::Integer(i128::from(cut)));
            let fits = u32::try_from(cut).ok();
            prop_assert_eq!(value.bits(Number::U32), fits.map(u64::from));
        }
    }
}
