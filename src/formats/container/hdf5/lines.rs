//! Strings of fixed length as lines of text: each up to its first NUL, and a line feed.
//!
//! What BPCells makes of names that another program has written. The shown size takes one pass over
//! the strings, made when it is first asked for. Used by `fields`.

use std::ops::Range;
use std::sync::OnceLock;

use crate::array::dtype::Dtype;
use crate::array::nested::NestedArray;
use crate::array::{Array, BlockId, Info, Order, Piece};
use crate::error::{Error, Fault, Result};
use crate::memory::budget::Hold;
use crate::memory::{Arena, no_memory};
use crate::source::StoredRanges;

/// Strings of a block.
const STRINGS: u64 = 4096;

/// Stored bytes that are read at a time.
const STEP: usize = 2048;

pub(super) struct FixedLines {
    name: String,
    strings: NestedArray,
    /// Bytes of a stored string.
    size: u64,
    count: u64,
    starts: OnceLock<Starts>,
}

/// Where each block begins in the shown bytes, and their end.
struct Starts {
    shown: Vec<u64>,
    _charge: Hold,
}

impl FixedLines {
    /// `strings`: a list of strings of `size` bytes.
    pub(super) fn new(name: &str, strings: NestedArray, size: u64) -> Result<Self> {
        let size = size.max(1);
        Ok(FixedLines {
            name: name.to_owned(),
            count: strings.array().info()?.bytes / size,
            strings,
            size,
            starts: OnceLock::new(),
        })
    }

    /// Two readers may scan at once; both find the same.
    fn starts(&self) -> Result<&[u64]> {
        if self.starts.get().is_none() {
            let _ = self.starts.set(self.scan()?);
        }
        Ok(self.starts.get().map_or(&[], |starts| &starts.shown))
    }

    fn scan(&self) -> Result<Starts> {
        let blocks = self.count.div_ceil(STRINGS);
        let charge = self.strings.budget().keep(8 * (blocks + 1))?;
        let mut shown = Vec::new();
        let reserved = shown.try_reserve_exact(blocks as usize + 1);
        reserved.map_err(|_| no_memory("cannot count the strings"))?;
        let mut total = 0;
        shown.push(total);
        for block in 0..blocks {
            self.each_part(block, |part| {
                total += part.len() as u64;
                Ok(())
            })?;
            shown.push(total);
        }
        Ok(Starts {
            shown,
            _charge: charge,
        })
    }

    /// Bytes of the string that is stored at this place, up to its first NUL.
    fn length(&self, at: u64) -> Result<u64> {
        let (mut buffer, mut len) = ([0; STEP], 0);
        while len < self.size {
            let n = (self.size - len).min(STEP as u64) as usize;
            self.strings.read(at + len, &mut buffer[..n])?;
            match memchr::memchr(0, &buffer[..n]) {
                Some(end) => return Ok(len + end as u64),
                None => len += n as u64,
            }
        }
        Ok(len)
    }

    fn strings_of(&self, block: u64) -> Range<u64> {
        let first = block.saturating_mul(STRINGS).min(self.count);
        first..first.saturating_add(STRINGS).min(self.count)
    }

    /// Visits the shown bytes of a block, in order.
    fn each_part(&self, block: u64, mut visit: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let strings = self.strings_of(block);
        let end = strings.end * self.size;
        let mut buffer = [0; STEP];
        let mut at = strings.start * self.size;
        while at < end {
            let n = (end - at).min(STEP as u64) as usize;
            let read = &mut buffer[..n];
            self.strings.read(at, read)?;
            at = self.show(at, read, &mut visit)?;
        }
        Ok(())
    }

    /// Visits what is shown of `read`, the stored bytes from `at` on, and says where to go on: what
    /// lies behind a NUL need not be read.
    fn show(
        &self,
        at: u64,
        read: &[u8],
        visit: &mut impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<u64> {
        let end = at + read.len() as u64;
        let mut at = at;
        let mut rest = read;
        while !rest.is_empty() {
            let string_end = at - at % self.size + self.size;
            let here = rest.len().min((string_end - at) as usize);
            let (part, others) = rest.split_at(here);
            let nul = memchr::memchr(0, part);
            visit(&part[..nul.unwrap_or(here)])?;
            if nul.is_some() || at + here as u64 == string_end {
                visit(b"\n")?;
            }
            at = match nul {
                Some(_) => string_end,
                None => at + here as u64,
            };
            rest = others;
        }
        Ok(at.max(end))
    }
}

impl Array for FixedLines {
    fn name(&self) -> &str {
        &self.name
    }

    fn info(&self) -> Result<Info> {
        let starts = self.starts()?;
        Ok(Info {
            dtype: Dtype::Text,
            shape: vec![self.count],
            order: Order::C,
            bytes: starts.last().copied().unwrap_or(0),
            blocks: (starts.len() as u64).saturating_sub(1),
            ..self.strings.array().info()?
        })
    }

    fn check_structure(&self) -> Result<()> {
        self.strings.array().check_structure()
    }

    fn value_lengths(&self, visit: &mut dyn FnMut(u64) -> Result<()>) -> Result<bool> {
        for number in 0..self.count {
            visit(self.length(number * self.size)?)?;
        }
        Ok(true)
    }

    fn weight(&self) -> u64 {
        self.strings.array().weight() + 256
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        crate::array::uneven_pieces(self.starts()?, range, out);
        Ok(())
    }

    fn stored(&self, piece: &Piece, round: u32, needed: &mut StoredRanges) -> Result<bool> {
        let block = piece.block().map_or(u64::MAX, |block| block.0);
        let strings = self.strings_of(block);
        let bytes = strings.start * self.size..strings.end * self.size;
        self.strings.stored(bytes, round, needed)
    }

    fn decode(&self, block: BlockId, out: &mut [u8], _scratch: Arena<'_>) -> Result<()> {
        let (expected, mut found) = (out.len(), 0);
        let mut rest = out;
        self.each_part(block.0, |part| {
            found += part.len();
            if let Some((to, others)) = std::mem::take(&mut rest).split_at_mut_checked(part.len()) {
                to.copy_from_slice(part);
                rest = others;
            }
            Ok(())
        })?;
        if found != expected {
            let fault = Fault::new("the strings are not as long as when they were counted");
            let fault = fault.block(block.0).expected(expected).found(found);
            return Err(Error::from(fault));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::array::nested::NestedBlocks;
    use crate::array::uncached::{read, read_all};
    use crate::memory::budget::Budget;
    use proptest::prelude::*;

    /// Strings of `size` bytes, stored as they are, `block` bytes to a block.
    struct Strings {
        bytes: Vec<u8>,
        size: u64,
        block: u64,
    }

    impl Array for Strings {
        fn name(&self) -> &str {
            "strings"
        }

        fn info(&self) -> Result<Info> {
            Ok(Info {
                dtype: Dtype::numpy(format!("|S{}", self.size), self.size),
                shape: vec![self.bytes.len() as u64 / self.size],
                order: Order::C,
                bytes: self.bytes.len() as u64,
                stored_bytes: 0,
                blocks: 0,
                codec: "none".into(),
            })
        }

        fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
            crate::array::even_pieces(self.bytes.len() as u64, self.block, range, out);
            Ok(())
        }

        fn decode(&self, block: BlockId, out: &mut [u8], _scratch: Arena<'_>) -> Result<()> {
            out.copy_from_slice(&self.bytes[(block.0 * self.block) as usize..][..out.len()]);
            Ok(())
        }
    }

    proptest! {
        #[test]
        fn every_string_is_a_line(
            strings in proptest::collection::vec(proptest::collection::vec(0u8..3, 0..30), 0..300),
            size in prop_oneof![1usize..40, 1500usize..5000],
            block in 50u64..5000,
        ) {
            let (mut bytes, mut expected) = (Vec::new(), Vec::new());
            for string in &strings {
                let mut stored = string.clone();
                stored.resize(size, if string.len() % 2 == 0 { 0 } else { 7 });
                let shown = stored.split(|b| *b == 0).next().unwrap_or_default();
                expected.extend_from_slice(shown);
                expected.push(b'\n');
                bytes.extend(stored);
            }
            let budget = Budget::new(1 << 20);
            let stored = Strings { bytes, size: size as u64, block };
            let nested = NestedBlocks::new(&budget).array(Arc::new(stored));
            let lines = FixedLines::new("names", nested, size as u64).unwrap();
            prop_assert_eq!(&read_all(&lines).unwrap(), &expected);
            let middle = expected.len() as u64 / 3..expected.len() as u64 / 2;
            let part = read(&lines, middle.clone()).unwrap();
            prop_assert_eq!(part, &expected[middle.start as usize..middle.end as usize]);
            drop(lines);
            prop_assert_eq!(budget.used(), 0);
        }
    }
}
