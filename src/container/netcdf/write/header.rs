//! The header of a file that gets another descriptor: everything else in it stays as it is stored,
//! byte for byte, but for the places of the variables, which move if the header needs their room.
//!
//! Used by [`super`].

use std::ops::Range;
use std::sync::Arc;

use super::super::header::ClassicHeader;
use super::super::kind::ClassicVersion;
use super::{MOST_OF_ONE, RECORDS_AT, count, too_large};
use crate::container::binsparse::DESCRIPTOR;
use crate::container::plain_write::NewStart;
use crate::error::{Error, Fault, Result};
use crate::memory::fallible;
use crate::source::Source;

/// Where a header says what may change.
pub(super) struct HeaderPlaces {
    version: ClassicVersion,
    len: u64,
    /// Number of bytes of the descriptor, the bytes, and what fills them up.
    descriptor: Range<u64>,
    /// Where the variables begin, one after the other.
    begins: Vec<u64>,
    /// The first byte that is a variable's.
    data: u64,
}

impl HeaderPlaces {
    /// None where there is no descriptor.
    pub(super) fn of(header: &ClassicHeader) -> Option<HeaderPlaces> {
        let mut attributes = header.attributes.iter();
        let descriptor = attributes.find(|one| one.name == DESCRIPTOR.as_bytes())?;
        let begins = header.variables.iter().map(|one| one.begin);
        let behind = begins.filter(|begin| *begin >= header.len);
        Some(HeaderPlaces {
            version: header.version,
            len: header.len,
            descriptor: descriptor.stored.clone(),
            begins: header.variables.iter().map(|one| one.begin_at).collect(),
            data: behind.min().unwrap_or(header.len),
        })
    }

    /// How far variables move for a descriptor of so many bytes.
    pub(super) fn shift(&self, bytes: usize) -> u64 {
        let new = self.stored_len(bytes);
        let len = self.len - (self.descriptor.end - self.descriptor.start) + new;
        len.saturating_sub(self.data).next_multiple_of(4)
    }

    /// What a descriptor of so many bytes takes.
    fn stored_len(&self, bytes: usize) -> u64 {
        let number = if self.version.has_long_sizes() { 8 } else { 4 };
        (bytes as u64).next_multiple_of(4) + number
    }

    /// The start of the file with this descriptor, and so many records if that changes.
    pub(super) fn with(
        &self,
        text: &[u8],
        records: Option<u64>,
        source: &Arc<dyn Source>,
    ) -> Result<NewStart> {
        let (shift, doing) = (self.shift(text.len()), "cannot write a header");
        let mut bytes = fallible::zeros(self.len, doing)?;
        source.fetch_one(0, &mut bytes)?;
        for at in &self.begins {
            self.move_begin(&mut bytes, *at, shift)?;
        }
        if let Some(records) = records {
            let count = count(self.version, records)?;
            let at = RECORDS_AT as usize;
            bytes[at..at + count.len()].copy_from_slice(&count);
        }
        let mut descriptor = count(self.version, text.len() as u64)?;
        descriptor.extend_from_slice(text);
        descriptor.resize(self.stored_len(text.len()) as usize, 0);
        let Range { start, end } = self.descriptor;
        bytes.splice(start as usize..end as usize, descriptor);
        fallible::lengthen(&mut bytes, (self.data + shift) as usize, doing)?;
        Ok(NewStart {
            replaced: self.data,
            bytes,
        })
    }

    /// Has a variable begin so much later; `at`: where the header says where it begins.
    fn move_begin(&self, header: &mut [u8], at: u64, shift: u64) -> Result<()> {
        let at = at as usize;
        let none = || Error::from(Fault::new("the header is shorter than it was"));
        match self.version.has_long_offsets() {
            true => {
                let begin = header.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<8>);
                let begin = begin.ok_or_else(none)?;
                let moved = u64::from_be_bytes(*begin).checked_add(shift);
                let moved = moved.filter(|moved| *moved <= i64::MAX as u64);
                *begin = moved.ok_or_else(too_large)?.to_be_bytes();
            }
            false => {
                let begin = header.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<4>);
                let begin = begin.ok_or_else(none)?;
                let moved = u64::from(u32::from_be_bytes(*begin)) + shift;
                if moved > MOST_OF_ONE {
                    return Err(too_large());
                }
                *begin = (moved as u32).to_be_bytes();
            }
        }
        Ok(())
    }
}
