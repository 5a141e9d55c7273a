//! Whether the arrays are there, of the declared types, and as long as the levels make them.
//!
//! Walks the levels from the root to the values and counts positions: what a level holds is what
//! the next one must have arrays for (specification, section 3.5.2). Finds on the way what a full
//! check has to read. Used by `super`.

use std::collections::HashMap;
use std::sync::Arc;

use super::Member;
use super::check::order::{OuterIndex, TriangleRule};
use super::declared::Type;
use super::descriptor::Descriptor;
use super::levels::{Level, LevelLayout};
use crate::array::sequential::WholeNumber;
use crate::array::{Array, Info};
use crate::error::{Error, Fault, Result};

/// What the check of the lengths finds out.
#[derive(Default)]
pub(super) struct Counted {
    /// Number of stored values, declared or counted.
    pub(super) count: Option<u64>,
    /// Sparse levels whose arrays are all there and fit each other.
    pub(super) levels: Vec<SparseLevel>,
    /// Something else is wrong with the arrays than their lengths.
    pub(super) misfits: bool,
}

/// A sparse level to be checked in full.
pub(super) struct SparseLevel {
    /// None at the root, which is one slice.
    pub(super) pointers: Option<IntegerArray>,
    /// One for each dimension of the level, equally long.
    pub(super) indices: Vec<IntegerArray>,
    /// Extents of these dimensions.
    pub(super) extents: Vec<u64>,
    pub(super) no_empty_slices: bool,
    /// Indices rise within a slice.
    pub(super) in_order: bool,
    /// The triangle to stay in.
    pub(super) side: Option<TriangleRule>,
}

/// An array of whole numbers.
#[derive(Clone)]
pub(super) struct IntegerArray {
    pub(super) name: String,
    pub(super) array: Arc<dyn Array>,
    pub(super) len: u64,
}

/// Reports what is wrong with the arrays. An error means that the source could not be read.
pub(super) fn examine(
    descriptor: &Descriptor,
    members: &[Member],
    faults: &mut Vec<Fault>,
) -> Result<Counted> {
    let by_name = members.iter().map(|member| (&*member.name, member));
    let mut examiner = Examiner {
        descriptor,
        members: by_name.collect(),
        faults,
        misfits: false,
    };
    let mut found = Counted {
        count: descriptor.count,
        levels: Vec::new(),
        misfits: false,
    };
    if let Some(layout) = &descriptor.layout {
        let shape = descriptor.shape.as_ref();
        let shape = shape.and_then(|shape| layout.stored_shape(shape));
        let positions = examiner.levels(layout, shape.as_deref(), &mut found.levels)?;
        if found.count.is_none() {
            found.count = positions.and_then(|n| u64::try_from(n).ok());
        }
        examiner.values(found.count)?;
    }
    examiner.fill_value()?;
    found.misfits = examiner.misfits;
    Ok(found)
}

struct Examiner<'a> {
    descriptor: &'a Descriptor,
    members: HashMap<&'a str, &'a Member>,
    faults: &'a mut Vec<Fault>,
    misfits: bool,
}

/// A member: its array and its length.
struct Vector {
    array: Arc<dyn Array>,
    len: u64,
    dtype: String,
    number: Option<WholeNumber>,
}

impl Vector {
    fn new(array: &Arc<dyn Array>, len: u64, info: &Info) -> Vector {
        Vector {
            array: Arc::clone(array),
            len,
            dtype: info.dtype.name().into_owned(),
            number: WholeNumber::of(&info.dtype),
        }
    }
}

impl Examiner<'_> {
    /// Checks the arrays of every level; gives the positions of the element level, if they can be
    /// counted.
    fn levels(
        &mut self,
        layout: &LevelLayout,
        shape: Option<&[u64]>,
        sound: &mut Vec<SparseLevel>,
    ) -> Result<Option<u128>> {
        let mut positions = Some(1u128);
        let mut depth = 0;
        for (number, &level) in layout.levels.iter().enumerate() {
            let extents = shape.and_then(|shape| shape.get(depth..depth + level.rank()));
            match level {
                Level::Dense { .. } => {
                    let product = |p, extents: &[u64]| {
                        extents
                            .iter()
                            .fold(p, |p: u128, &e| p.saturating_mul(e.into()))
                    };
                    positions = positions
                        .zip(extents)
                        .map(|(p, extents)| product(p, extents));
                }
                Level::Sparse { rank } => {
                    let last = number + 1 == layout.levels.len();
                    let (length, whole) = self.sparse(depth, rank, positions, last)?;
                    positions = length.map(u128::from);
                    if let (Some(mut level), Some(extents)) = (whole, extents) {
                        level.extents = extents.to_vec();
                        level.no_empty_slices = layout.no_empty_slices;
                        level.side = self.side(layout, depth, sound, last);
                        sound.push(level);
                    }
                }
            }
            depth += level.rank();
        }
        self.positions(layout, positions);
        Ok(positions)
    }

    /// The arrays of one sparse level: their length, and the level itself if all is well with it.
    fn sparse(
        &mut self,
        depth: usize,
        rank: usize,
        positions: Option<u128>,
        last: bool,
    ) -> Result<(Option<u64>, Option<SparseLevel>)> {
        let before = self.faults.len();
        let mut pointers = None;
        if depth > 0 {
            let name = format!("pointers_to_{depth}");
            pointers = self.whole_numbers(&name)?;
            if let (Some(pointers), Some(positions)) = (&pointers, positions) {
                self.expect(&name, pointers.len, positions.saturating_add(1));
            }
        }
        let mut indices = Vec::new();
        for dimension in depth..depth + rank {
            indices.extend(self.whole_numbers(&format!("indices_{dimension}"))?);
        }
        let first = indices.first().map(|first| first.len);
        // Below the last level there are only the values.
        let expected = self.descriptor.count.filter(|_| last).or(first);
        for stored in &indices {
            self.expect(
                &stored.name,
                stored.len,
                expected.unwrap_or(stored.len).into(),
            );
        }
        let sound = self.faults.len() == before;
        let level = sound.then(|| SparseLevel {
            pointers,
            indices,
            extents: Vec::new(),
            no_empty_slices: false,
            in_order: true,
            side: None,
        });
        Ok((first, level))
    }

    /// The triangle that a level's entries must lie in: only a sparse level next to the values
    /// decides about single entries.
    fn side(
        &self,
        layout: &LevelLayout,
        depth: usize,
        before: &[SparseLevel],
        last: bool,
    ) -> Option<TriangleRule> {
        let structure = self.descriptor.structure.filter(|_| last)?;
        // Reported with the descriptor: a triangle of what is not square means nothing.
        let shape = self.descriptor.shape.as_ref()?;
        shape.windows(2).all(|two| two[0] == two[1]).then_some(())?;
        let outer = match (&layout.levels[..], depth) {
            ([Level::Sparse { rank: 2 }], 0) => OuterIndex::Within,
            ([Level::Dense { rank: 1 }, Level::Sparse { rank: 1 }], 1) => OuterIndex::Position,
            ([Level::Sparse { rank: 1 }, Level::Sparse { rank: 1 }], 1) => {
                OuterIndex::Array(before.first()?.indices.first()?.clone())
            }
            _ => return None,
        };
        let transposed = layout.transpose == [1, 0];
        Some(TriangleRule {
            triangle: structure.triangle(transposed),
            outer,
        })
    }

    /// The declared number of values against the positions that the levels leave for them.
    fn positions(&mut self, layout: &LevelLayout, positions: Option<u128>) {
        // Where a sparse level is the last, the lengths of its indices were compared already.
        let dense = matches!(layout.levels.last(), Some(Level::Dense { .. }));
        if let (true, Some(count), Some(positions)) = (dense, self.descriptor.count, positions)
            && u128::from(count) != positions
        {
            let fault = Fault::new("the number of stored values is not that of the positions");
            let fault = fault.file(super::TEXT).expected(positions);
            self.faults.push(fault.found(count));
        }
    }

    fn values(&mut self, count: Option<u64>) -> Result<()> {
        let declared = self.elements("values", count.map(u128::from))?;
        if let (Some(structure), Some(declared)) = (self.descriptor.structure, declared)
            && structure.needs_complex()
            && !declared.complex
        {
            let what = format!("the structure {} needs complex values", structure.name());
            self.misfit(Fault::new(what).array("values"));
        }
        Ok(())
    }

    fn fill_value(&mut self) -> Result<()> {
        if self.descriptor.fill == Some(true) {
            self.elements("fill_value", Some(1))?;
        }
        Ok(())
    }

    /// Checks an array of `count` values; gives its declared type.
    fn elements(&mut self, name: &str, count: Option<u128>) -> Result<Option<Type>> {
        let declared = self.declared(name);
        // One value for all may be stored without a dimension.
        let single = count == Some(1) || declared.is_some_and(|declared| declared.iso);
        if let (Some(vector), Some(declared)) = (self.vector(name, single)?, declared) {
            self.expect_type(name, &vector, declared);
            if let Some(count) = count {
                self.expect(name, vector.len, declared.elements(count));
            }
        }
        Ok(declared)
    }

    /// An array of indices or pointers, unless its type is not one for them.
    fn whole_numbers(&mut self, name: &str) -> Result<Option<IntegerArray>> {
        let declared = self.declared(name);
        let Some(vector) = self.vector(name, false)? else {
            return Ok(None);
        };
        if let Some(declared) = declared {
            self.expect_type(name, &vector, declared);
        }
        if vector.number.is_none() || declared.is_some_and(|declared| !declared.is_index()) {
            let fault = Fault::new("indices and pointers must be whole numbers").array(name);
            self.misfit(fault.found(vector.dtype));
            return Ok(None);
        }
        Ok(Some(IntegerArray {
            name: name.to_owned(),
            array: vector.array,
            len: vector.len,
        }))
    }

    /// The type that the descriptor declares for an array.
    fn declared(&mut self, name: &str) -> Option<Type> {
        let fault = match self.descriptor.types.as_ref()?.get(name) {
            Some(Ok(declared)) => return Some(declared),
            Some(Err((what, found))) => Fault::new(what).found(found),
            None => Fault::new("no type is declared for the array"),
        };
        self.misfit(fault.array(name));
        None
    }

    /// The array of that name, if it is there and has one dimension; or none, if it is `single`.
    fn vector(&mut self, name: &str, single: bool) -> Result<Option<Vector>> {
        let unreadable = |why: &str| Fault::new(format!("the array cannot be read: {why}"));
        let fault = match self.members.get(name).map(|member| &member.array) {
            None => Fault::new("the array is missing"),
            Some(Err(reason)) => unreadable(reason),
            Some(Ok(array)) => match array.info() {
                Err(Error::Fault(fault)) => *fault,
                Err(Error::NotShown(not)) => unreadable(&not.why),
                Err(other) => return Err(other),
                Ok(info) => match (&info.shape[..], single) {
                    (&[len], _) => return Ok(Some(Vector::new(array, len, &info))),
                    ([], true) => return Ok(Some(Vector::new(array, 1, &info))),
                    _ => Fault::new("the array has not one dimension")
                        .found(format!("shape {:?}", info.shape)),
                },
            },
        };
        self.misfit(fault.array(name));
        Ok(None)
    }

    fn expect(&mut self, name: &str, len: u64, expected: u128) {
        if u128::from(len) != expected {
            let fault = Fault::new("the array has another length").array(name);
            self.faults.push(fault.expected(expected).found(len));
        }
    }

    fn expect_type(&mut self, name: &str, vector: &Vector, declared: Type) {
        if !declared.is_stored_as(&vector.dtype) {
            let fault = Fault::new("the array is stored in another type than declared").array(name);
            let found = super::json::cut(&vector.dtype);
            self.misfit(fault.expected(declared.base()).found(found));
        }
    }

    /// A fault that is none of lengths.
    fn misfit(&mut self, fault: Fault) {
        self.misfits = true;
        self.faults.push(fault);
    }
}
