//! The seam below BPCells: the named arrays of a container, wherever they lie.
//!
//! A BPCells container is a set of named arrays of numbers and of lines. Everything above this seam
//! (`packed`, `plain`, `pointers`, `matrix`, `fragments`) knows names, types and lengths, and
//! nothing of files, headers or HDF5. [`super::directory`] implements it for directories of files;
//! a group of an HDF5 file is a second implementation.

use std::ops::Range;
use std::sync::Arc;

use crate::array::Array;
use crate::array::dtype::Dtype;
use crate::error::{Error, Fault, Result};
use crate::source::StoredRanges;

/// Types of the stored numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Number {
    U32,
    U64,
    F32,
    F64,
}

impl Number {
    /// Bytes of an element.
    pub(crate) fn width(self) -> u64 {
        match self {
            Number::U32 | Number::F32 => 4,
            Number::U64 | Number::F64 => 8,
        }
    }

    pub(crate) fn dtype(self) -> Dtype {
        match self {
            Number::U32 => Dtype::U32,
            Number::U64 => Dtype::U64,
            Number::F32 => Dtype::F32,
            Number::F64 => Dtype::F64,
        }
    }
}

/// An opened numeric array. Its bytes are its elements in little-endian order and nothing else.
pub(crate) trait Field: Send + Sync {
    fn number(&self) -> Number;

    /// Whole elements that are there. What a container claims is compared with this, never the
    /// other way round.
    fn len(&self) -> u64;

    /// What it occupies in the container.
    fn stored_bytes(&self) -> u64;

    /// Fills `out` from byte `at` of the elements on.
    fn read(&self, at: u64, out: &mut [u8]) -> Result<()>;

    /// Names what reading a range of the elements' bytes fetches ([`Array::stored`]).
    fn stored(&self, _range: Range<u64>, _round: u32, _needed: &mut StoredRanges) -> Result<bool> {
        Ok(false)
    }

    /// Says in `fault` where bytes `range` of the elements are stored.
    fn locate(&self, fault: Fault, range: Range<u64>) -> Fault;
}

/// The named arrays of one container. An array that is missing or not what it should be is a
/// [`Fault`]; any other error means that the storage could not be read.
pub(crate) trait Fields {
    /// Opens a numeric array that holds `number`s.
    fn field(&self, name: &str, number: Number) -> Result<Arc<dyn Field>>;

    /// Opens an array of strings, one per line.
    fn names(&self, name: &str) -> Result<Arc<dyn Array>>;

    /// The first string of an array, without its line end; cut after a few hundred bytes.
    fn first_line(&self, name: &str) -> Result<Vec<u8>>;
}

impl dyn Field {
    /// Refuses an array of fewer than `needed` elements.
    pub(crate) fn require(&self, needed: u64) -> Result<()> {
        let held = self.len();
        if held >= needed {
            return Ok(());
        }
        let width = self.number().width();
        let fault = Fault::new("the array is too short")
            .expected(format_args!("{needed} values"))
            .found(held);
        Err(self
            .locate(
                fault,
                held.saturating_mul(width)..needed.saturating_mul(width),
            )
            .into())
    }

    /// Fills `out` with elements of 32 bits from element `first` on.
    pub(crate) fn read_u32s(&self, first: u64, out: &mut [u32]) -> Result<()> {
        self.read(self.byte_of(first)?, bytemuck::cast_slice_mut(out))?;
        for element in out {
            *element = u32::from_le(*element);
        }
        Ok(())
    }

    /// Reads the unsigned element `index`.
    pub(crate) fn read_unsigned(&self, index: u64) -> Result<u64> {
        let mut bytes = [0; 8];
        self.read(
            self.byte_of(index)?,
            &mut bytes[..self.number().width() as usize],
        )?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Where element `index` begins.
    pub(crate) fn byte_of(&self, index: u64) -> Result<u64> {
        let at = index.checked_mul(self.number().width());
        at.ok_or_else(|| {
            Fault::new("an element number is too large")
                .found(index)
                .into()
        })
    }
}

/// Passes errors of the storage on, which concern everything, and leaves faults, which concern one
/// array. All arrays are needed: one that is not shown is a fault.
pub(crate) fn faults_apart<T>(result: Result<T>) -> Result<Result<T>> {
    match result.map_err(Error::needed) {
        Err(error) if !matches!(error, Error::Fault(_)) => Err(error),
        apart => Ok(apart),
    }
}

/// Decoded size of `len` elements; sizes of files are signed 64-bit numbers.
pub(crate) fn decoded_bytes(len: u64, number: Number) -> Result<u64> {
    let bytes = len
        .checked_mul(number.width())
        .filter(|&bytes| i64::try_from(bytes).is_ok());
    bytes.ok_or_else(|| {
        Fault::new("more values than a file can hold")
            .found(len)
            .into()
    })
}
