//! An array by another of its names.
//!
//! Everything but the name is the array's own. Used by `container::hdf5`, where several names may
//! lead to one dataset.

use std::ops::Range;
use std::sync::Arc;

use super::{Array, BlockId, Info, Piece, Unfiltered};
use crate::error::{Fault, Result};
use crate::memory::Scratch;
use crate::memory::block::Block;

pub struct NamedArray {
    name: String,
    array: Arc<dyn Array>,
}

impl NamedArray {
    pub fn new(name: String, array: Arc<dyn Array>) -> NamedArray {
        NamedArray { name, array }
    }
}

impl Array for NamedArray {
    fn name(&self) -> &str {
        &self.name
    }

    fn info(&self) -> Result<Info> {
        self.array.info()
    }

    fn check_structure(&self) -> Result<()> {
        self.array.check_structure()
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        self.array.pieces(range, out)
    }

    fn len_now(&self) -> Option<u64> {
        self.array.len_now()
    }

    fn weight(&self) -> u64 {
        self.array.weight()
    }

    fn places_known(&self, range: &Range<u64>) -> bool {
        self.array.places_known(range)
    }

    fn zeros_ahead(&self, range: Range<u64>) -> u64 {
        self.array.zeros_ahead(range)
    }

    fn scratch(&self, block: BlockId) -> u64 {
        self.array.scratch(block)
    }

    fn decode(&self, block: BlockId, out: &mut [u8], scratch: Scratch<'_>) -> Result<()> {
        self.array.decode(block, out, scratch)
    }

    fn at_hand(&self, block: BlockId) -> Option<Arc<Block>> {
        self.array.at_hand(block)
    }

    fn read_direct(&self, at: u64, out: &mut [u8]) -> Result<()> {
        self.array.read_direct(at, out)
    }

    fn survey(&self, visit: &mut dyn FnMut(Piece)) -> Result<()> {
        self.array.survey(visit)
    }

    fn unfiltered(&self, are_counted: bool) -> Result<Unfiltered> {
        self.array.unfiltered(are_counted)
    }

    fn verify(&self, report: &mut dyn FnMut(Fault)) -> Result<()> {
        self.array.verify(report)
    }
}
