//! The blocks of a `b2nd` array: boxes in C order, each filled in C order and padded to full size.
//!
//! Metalayer: version, number of dimensions, shape (64-bit), shape of chunks and of blocks
//! (32-bit), each behind a byte for the array and one for every number.

use super::frame::size;
use crate::filters::error::FilterError;

/// Dimensions that an array can have.
const MAX_DIMENSIONS: usize = 16;

/// Where the blocks of an array of one chunk belong.
pub(super) struct Boxes {
    /// Bytes of an item.
    item: usize,
    shape: Vec<usize>,
    block: Vec<usize>,
}

impl Boxes {
    /// Reads a metalayer; the array must be one chunk, and a block no larger than it.
    pub(super) fn parse(layer: &[u8], item: usize) -> Result<Self, FilterError> {
        let dimensions = match layer.get(2).copied().map(usize::from) {
            Some(n @ 1..=MAX_DIMENSIONS) => n,
            found => {
                let fault = FilterError::new("an array of impossible dimensions");
                return Err(fault.found(found.unwrap_or(0)));
            }
        };
        let mut at = 3;
        let mut next = |width| lengths(layer, &mut at, dimensions, width);
        let (shape, chunk, block) = (next(8)?, next(4)?, next(4)?);
        if shape != chunk {
            return Err(FilterError::new(
                "the frame holds an array of several chunks",
            ));
        }
        let fits = |(block, shape): (&usize, &usize)| (1..=*shape).contains(block);
        let boxes = Self { item, shape, block };
        if !boxes.block.iter().zip(&boxes.shape).all(fits) || boxes.checked_len().is_none() {
            return Err(FilterError::new("an array's blocks do not fit it"));
        }
        Ok(boxes)
    }

    /// Bytes of the array. It was checked that the product does not overflow.
    pub(super) fn len(&self) -> usize {
        self.checked_len().unwrap_or(usize::MAX)
    }

    fn checked_len(&self) -> Option<usize> {
        product(&self.shape, self.item).filter(|len| *len > 0)
    }

    /// Compares the boxes with the sizes in the chunk's header.
    pub(super) fn check(&self, nbytes: usize, blocksize: usize) -> Result<(), FilterError> {
        let block = product(&self.block, self.item);
        let all = block.and_then(|block| product(&self.grid(), block));
        match block == Some(blocksize) && all == Some(nbytes) {
            true => Ok(()),
            false => Err(FilterError::new(
                "the chunk's sizes are not those of its array",
            )),
        }
    }

    /// Blocks in each dimension.
    fn grid(&self) -> Vec<usize> {
        let pairs = self.shape.iter().zip(&self.block);
        pairs.map(|(shape, block)| shape.div_ceil(*block)).collect()
    }

    /// Copies block `i` to its place in the array, less its padding. Sizes have been checked.
    pub(super) fn place(&self, i: usize, block: &[u8], out: &mut [u8]) {
        let last = self.shape.len() - 1;
        let start = self.start(i);
        let lens: Vec<_> = (0..=last)
            .map(|d| self.block[d].min(self.shape[d] - start[d]))
            .collect();
        let row = lens[last] * self.item;
        let mut inner = vec![0; last];
        loop {
            let from = position(&self.block, inner.iter().copied().chain([0])) * self.item;
            let outer = inner
                .iter()
                .zip(&start)
                .map(|(a, b)| a + b)
                .chain([start[last]]);
            let to = position(&self.shape, outer) * self.item;
            out[to..to + row].copy_from_slice(&block[from..from + row]);
            if !advance(&mut inner, &lens) {
                return;
            }
        }
    }

    /// First item of block `i`, in each dimension.
    fn start(&self, mut i: usize) -> Vec<usize> {
        let mut start = vec![0; self.shape.len()];
        for (d, blocks) in self.grid().into_iter().enumerate().rev() {
            start[d] = i % blocks * self.block[d];
            i /= blocks;
        }
        start
    }
}

/// Number of an item in C order.
fn position(shape: &[usize], at: impl Iterator<Item = usize>) -> usize {
    shape
        .iter()
        .zip(at)
        .fold(0, |position, (len, at)| position * len + at)
}

/// Goes on to the next index in C order; false after the last.
fn advance(index: &mut [usize], lens: &[usize]) -> bool {
    for (at, len) in index.iter_mut().zip(lens).rev() {
        *at += 1;
        if *at < *len {
            return true;
        }
        *at = 0;
    }
    false
}

fn product(lens: &[usize], first: usize) -> Option<usize> {
    lens.iter()
        .try_fold(first, |product, len| product.checked_mul(*len))
}

fn lengths(
    layer: &[u8],
    at: &mut usize,
    dimensions: usize,
    width: usize,
) -> Result<Vec<usize>, FilterError> {
    *at += 1;
    let mut next = || {
        let found = size(layer, *at + 1, width);
        *at += 1 + width;
        found
    };
    (0..dimensions).map(|_| next()).collect()
}
