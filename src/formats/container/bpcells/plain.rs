//! Numbers stored as they are shown: read straight from their field, never decoded nor cached here.
//!
//! `shape` and `end_max` always, everything of unpacked containers, and float and double values of
//! packed ones. Used by `matrix` and `fragments`, and by `write` for files that are told.

use std::ops::Range;
use std::sync::Arc;

use super::fields::{Field, Fields, Number, decoded_bytes};
use crate::array::{Array, Info, Order, Piece, direct_piece};
use crate::error::Result;
use crate::source::StoredRanges;

pub(super) struct PlainArray {
    name: String,
    field: Arc<dyn Field>,
    /// Elements shown; the field may be longer.
    len: u64,
    bytes: u64,
}

impl PlainArray {
    /// Shows the first `len` elements of `field`.
    pub(super) fn new(name: &str, field: Arc<dyn Field>, len: u64) -> Result<Self> {
        field.require(len)?;
        let bytes = decoded_bytes(len, field.number())?;
        Ok(PlainArray {
            name: name.to_owned(),
            field,
            len,
            bytes,
        })
    }

    /// Opens the field of the same name and shows its first `len` elements.
    pub(super) fn open(
        fields: &dyn Fields,
        name: &str,
        number: Number,
        len: u64,
    ) -> Result<Arc<dyn Array>> {
        Ok(Arc::new(PlainArray::new(
            name,
            fields.field(name, number)?,
            len,
        )?))
    }
}

impl Array for PlainArray {
    fn name(&self) -> &str {
        &self.name
    }

    fn info(&self) -> Result<Info> {
        Ok(Info {
            dtype: self.field.number().dtype(),
            shape: vec![self.len],
            order: Order::C,
            bytes: self.bytes,
            stored_bytes: self.field.stored_bytes(),
            blocks: u64::from(self.len > 0),
            codec: "none".into(),
        })
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        direct_piece(range.start..range.end.min(self.bytes), out);
        Ok(())
    }

    fn stored(&self, piece: &Piece, round: u32, needed: &mut StoredRanges) -> Result<bool> {
        match piece.direct() {
            Some(range) => self.field.stored(range, round, needed),
            None => Ok(false),
        }
    }

    fn read_direct(&self, at: u64, out: &mut [u8]) -> Result<()> {
        self.field.read(at, out)
    }
}
