//! A dataset as a recipe for a file has told it: new bytes, and parts of what it holds now.
//!
//! The new ones lie in memory, charged, until the dataset is written. Used by [`super::bpcells`].

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::array::{Array, Info, Order, Piece, direct_piece};
use crate::container::bpcells::fields::{Field, Number};
use crate::container::bpcells::write::ELEMENTS_AT;
use crate::container::inside::ContainerNumber;
use crate::container::rewrite::ChangedArray;
use crate::error::{Error, Fault, Result};
use crate::memory::budget::{Budget, Hold};
use crate::memory::fallible;

/// What is told of one file, by where it lies.
pub(super) struct FieldChanges {
    parts: BTreeMap<u64, FieldPart>,
    len: u64,
    hold: Hold,
}

enum FieldPart {
    Put(Vec<u8>),
    /// From there, so many.
    Copied(u64, u64),
}

impl FieldChanges {
    pub(super) fn new(budget: &Arc<Budget>) -> Result<FieldChanges> {
        Ok(FieldChanges {
            parts: BTreeMap::new(),
            len: 0,
            hold: budget.keep(0)?,
        })
    }

    pub(super) fn put(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        self.hold.keep_more(bytes.len() as u64)?;
        let bytes = fallible::copy(bytes, "cannot write a container")?;
        self.parts.insert(at, FieldPart::Put(bytes));
        Ok(())
    }

    pub(super) fn copy(&mut self, from: Range<u64>, to: u64) {
        let len = from.end.saturating_sub(from.start);
        self.parts.insert(to, FieldPart::Copied(from.start, len));
    }

    /// Of the file, its header too.
    pub(super) fn set_len(&mut self, len: u64) {
        self.len = len;
    }

    /// The array that a dataset is made of which is not there yet.
    pub(super) fn into_array(self, name: &str, number: Number) -> Result<Arc<dyn Array>> {
        let nothing: Arc<dyn Field> = Arc::new(NoField(number));
        let change = self.into_change(ContainerNumber::OUTERMOST, (name, &nothing))?;
        Ok(change.shown)
    }

    /// The array that it makes of a dataset.
    pub(super) fn into_change(
        self,
        container: ContainerNumber,
        (name, field): (&str, &Arc<dyn Field>),
    ) -> Result<ChangedArray> {
        let len = self.len.checked_sub(ELEMENTS_AT);
        let len = len.ok_or_else(|| Error::Bug(format!("{name} is told without a header")))?;
        let number = field.number();
        let stored = field.len().saturating_mul(number.width());
        let ranges = self.parts.iter().filter_map(|(at, part)| {
            let end = match part {
                FieldPart::Put(bytes) => at.saturating_add(bytes.len() as u64),
                FieldPart::Copied(from, _) if from == at => return None,
                FieldPart::Copied(_, len) => at.saturating_add(*len),
            };
            let elements = |at: u64| at.saturating_sub(ELEMENTS_AT).min(len);
            Some(elements(*at)..elements(end)).filter(|range| !range.is_empty())
        });
        let ranges = ranges.collect();
        let info = Info {
            dtype: number.dtype(),
            shape: vec![len / number.width()],
            order: Order::C,
            bytes: len,
            stored_bytes: field.stored_bytes(),
            blocks: 1,
            codec: "none".into(),
        };
        Ok(ChangedArray {
            container,
            shown: Arc::new(FieldArray {
                name: name.to_owned(),
                info,
                field: Arc::clone(field),
                recipe: self,
            }),
            len,
            ranges,
            visible: stored.min(len),
            ahead: None,
        })
    }
}

/// A dataset that is not there yet.
struct NoField(Number);

impl Field for NoField {
    fn number(&self) -> Number {
        self.0
    }

    fn len(&self) -> u64 {
        0
    }

    fn stored_bytes(&self) -> u64 {
        0
    }

    fn read(&self, _at: u64, _out: &mut [u8]) -> Result<()> {
        Err(Error::Bug("a new dataset has nothing to copy from".into()))
    }

    fn locate(&self, fault: Fault, _range: Range<u64>) -> Fault {
        fault
    }
}

/// The dataset as it is going to be.
struct FieldArray {
    name: String,
    info: Info,
    field: Arc<dyn Field>,
    recipe: FieldChanges,
}

impl FieldArray {
    /// Fills the beginning of `out` with what lies at a place in the file; says how much.
    fn fill(&self, at: u64, out: &mut [u8]) -> Result<usize> {
        let nothing = || Fault::new("nothing is told of it").array(&self.name);
        let (start, part) = self
            .recipe
            .parts
            .range(..=at)
            .next_back()
            .ok_or_else(nothing)?;
        let skip = at - start;
        let (bytes, len) = match part {
            FieldPart::Put(bytes) => (Some(bytes), bytes.len() as u64),
            FieldPart::Copied(_, len) => (None, *len),
        };
        let n = len.saturating_sub(skip).min(out.len() as u64) as usize;
        let out = &mut out[..n];
        match (part, bytes) {
            _ if n == 0 => return Err(nothing().into()),
            (_, Some(bytes)) => out.copy_from_slice(&bytes[skip as usize..][..n]),
            (FieldPart::Copied(from, _), _) => {
                let from = from.saturating_add(skip);
                self.field.read(from.saturating_sub(ELEMENTS_AT), out)?;
            }
            (FieldPart::Put(_), None) => return Err(nothing().into()),
        }
        Ok(n)
    }
}

impl Array for FieldArray {
    fn name(&self) -> &str {
        &self.name
    }

    fn info(&self) -> Result<Info> {
        Ok(self.info.clone())
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        direct_piece(range.start..range.end.min(self.info.bytes), out);
        Ok(())
    }

    fn places_known(&self, _range: &Range<u64>) -> bool {
        true
    }

    fn read_direct(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < out.len() {
            let at = at.saturating_add(ELEMENTS_AT).saturating_add(done as u64);
            done += self.fill(at, &mut out[done..])?;
        }
        Ok(())
    }
}
