//! Memory that one decode needs beside its output.
//!
//! A decode says beforehand how much it takes (`Array::scratch`, sums of [`room`]);
//! its caller charges the budget and hands over one region, from which the decode takes its buffers
//! in any order. They are all given back when it ends. So a decoder keeps no buffers, and nothing
//! is allocated that was not charged.

use super::no_memory;
use crate::error::{Error, Result};

/// Every buffer begins at a multiple of this: a cache line, and enough for any vector register.
const ALIGNED: usize = 64;

/// What taking `len` bytes uses up.
pub const fn room(len: u64) -> u64 {
    match len.checked_next_multiple_of(ALIGNED as u64) {
        Some(rounded) => rounded,
        None => u64::MAX,
    }
}

/// Memory for one decode: buffers of arbitrary content are taken from it.
pub struct Arena<'a> {
    free: &'a mut [u8],
}

impl<'a> Arena<'a> {
    /// Of a decode that asked for none.
    pub fn none() -> Self {
        Arena { free: &mut [] }
    }

    /// `len` bytes of a region that has the size that [`padded`] says.
    fn of(region: &'a mut [u8], len: u64) -> Self {
        let skip = region.as_ptr().align_offset(ALIGNED).min(region.len());
        let behind = &mut region[skip..];
        let len = room(len).min(behind.len() as u64) as usize;
        Arena {
            free: &mut behind[..len],
        }
    }

    /// `len` bytes of arbitrary content. Fails if the decode asked for less than it takes.
    pub fn take(&mut self, len: u64) -> Result<&'a mut [u8]> {
        let left = self.free.len() as u64;
        if len > left {
            let too_little =
                format!("a decode takes {len} bytes of scratch memory and {left} are left");
            return Err(Error::Bug(too_little));
        }
        let (taken, rest) =
            std::mem::take(&mut self.free).split_at_mut(room(len).min(left) as usize);
        self.free = rest;
        Ok(&mut taken[..len as usize])
    }

    /// `count` numbers of arbitrary value.
    pub fn take_u32s(&mut self, count: u64) -> Result<&'a mut [u32]> {
        if count == 0 {
            return Ok(&mut []); // No bytes need not lie where a number can.
        }
        let bytes = self.take(count.saturating_mul(4))?;
        Ok(bytemuck::cast_slice_mut(bytes))
    }

    /// `count` numbers of arbitrary value.
    pub fn take_u64s(&mut self, count: u64) -> Result<&'a mut [u64]> {
        if count == 0 {
            return Ok(&mut []);
        }
        let bytes = self.take(count.saturating_mul(8))?;
        Ok(bytemuck::cast_slice_mut(bytes))
    }

    /// What is left, for a decode within this one: what that takes is free again afterwards.
    pub fn lend(&mut self) -> Arena<'_> {
        Arena { free: self.free }
    }
}

/// A region for scratch memory that grows as needed, for decoding one block after the other.
#[derive(Default)]
pub struct Region {
    bytes: Vec<u8>,
}

impl Region {
    /// Scratch memory of `len` bytes.
    pub fn scratch(&mut self, len: u64) -> Result<Arena<'_>> {
        if len == 0 {
            return Ok(Arena::none());
        }
        let refused = || no_memory("cannot decode a block");
        let needed = usize::try_from(padded(len)).map_err(|_| refused())?;
        if self.bytes.len() < needed {
            // Not copied to its new place: the content is of no use.
            self.bytes = Vec::new();
            // Nor touched: pages that the decode does not need are never there.
            let zeroed = bytemuck::allocation::try_zeroed_vec(needed);
            self.bytes = zeroed.map_err(|()| refused())?;
        }
        Ok(Arena::of(&mut self.bytes, len))
    }
}

/// `len` bytes of scratch memory in a region of the size that [`padded`] says.
pub(super) fn within(region: &mut [u8], len: u64) -> Arena<'_> {
    Arena::of(region, len)
}

/// Size of a region that has `len` bytes behind its first aligned one, wherever it lies.
pub(super) const fn padded(len: u64) -> u64 {
    match len {
        0 => 0,
        len => room(len).saturating_add(ALIGNED as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_what_was_asked_for_and_no_more() {
        let mut region = Region::default();
        let mut scratch = region.scratch(room(3) + room(100) + room(5 * 8)).unwrap();
        let (small, large) = (scratch.take(3).unwrap(), scratch.take(100).unwrap());
        small.fill(1);
        large.fill(2);
        scratch.take_u64s(5).unwrap().fill(3);
        assert_eq!((small[2], large[99]), (1, 2));
        assert!(matches!(scratch.take(1), Err(Error::Bug(_))));
        assert!(matches!(scratch.take(u64::MAX), Err(Error::Bug(_))));
    }

    #[test]
    fn what_is_lent_comes_back() {
        let mut region = Region::default();
        let mut scratch = region.scratch(room(64)).unwrap();
        for _ in 0..3 {
            scratch.lend().take(64).unwrap();
        }
        assert_eq!(scratch.take(64).unwrap().len(), 64);
    }

    #[test]
    fn a_decode_that_asks_for_nothing_can_take_nothing() {
        assert!(Arena::none().take(0).unwrap().is_empty());
        assert!(Arena::none().take_u32s(0).unwrap().is_empty());
        assert!(Arena::none().take_u64s(0).unwrap().is_empty());
        assert!(Arena::none().take(1).is_err());
    }

    #[test]
    fn a_region_that_the_system_refuses_is_an_error() {
        assert!(Region::default().scratch(u64::MAX / 4).is_err());
        assert!(Region::default().scratch(u64::MAX).is_err());
    }
}
