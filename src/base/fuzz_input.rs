//! Numbers and bytes taken from the front of what a fuzzer gives; zeros, and nothing, behind its
//! end. And the judgement of a result. For fuzzers and tests: see `fuzzing`.

use crate::error::Error;

/// What is left of the bytes.
pub struct FuzzInput<'a>(pub &'a [u8]);

impl<'a> FuzzInput<'a> {
    pub fn number<const N: usize>(&mut self) -> u64 {
        const { assert!(N <= 8) };
        let mut number = [0; 8];
        let taken = self.bytes(N);
        number[..taken.len()].copy_from_slice(taken);
        u64::from_le_bytes(number)
    }

    pub fn u8(&mut self) -> u8 {
        self.number::<1>() as u8
    }

    pub fn u32(&mut self) -> u32 {
        self.number::<4>() as u32
    }

    /// So many bytes, or what is left.
    pub fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Up to a byte that is zero, which goes as well.
    pub fn name(&mut self) -> &'a [u8] {
        let len = self.0.iter().position(|byte| *byte == 0);
        let name = self.bytes(len.unwrap_or(self.0.len()));
        self.bytes(1);
        name
    }
}

/// An error is fine, unless it is one of ours.
pub fn no_bug<T>(result: Result<T, Error>) -> Option<T> {
    match result {
        Err(Error::Bug(what)) => panic!("a bug: {what}"),
        result => result.ok(),
    }
}
