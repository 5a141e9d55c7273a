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
    /// The first byte that is a variable's, behind the header.
    data: u64,
}

/// What comes of a header with another descriptor.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewHeader {
    /// So many bytes at the start of the file are told anew.
    replaced: u64,
    /// So much farther lies what follows.
    pub(super) shift: u64,
}

impl NewHeader {
    /// Bytes that are told.
    pub(super) fn len(&self) -> u64 {
        self.replaced + self.shift
    }

    /// Bytes that get another place, of a file of so many.
    pub(super) fn moved(&self, file: u64) -> u64 {
        match self.shift {
            0 => 0,
            _ => file.saturating_sub(self.replaced),
        }
    }
}

impl HeaderPlaces {
    /// None where there is no descriptor, and where a variable is said to begin within the header.
    pub(super) fn of(header: &ClassicHeader) -> Option<HeaderPlaces> {
        let mut attributes = header.attributes.iter();
        let descriptor = attributes.find(|one| one.name == DESCRIPTOR.as_bytes())?;
        let data = header.variables.iter().map(|one| one.begin).min();
        let data = data.unwrap_or(header.len);
        (data >= header.len).then(|| HeaderPlaces {
            version: header.version,
            len: header.len,
            descriptor: descriptor.stored.clone(),
            begins: header.variables.iter().map(|one| one.begin_at).collect(),
            data,
        })
    }

    /// What comes of a descriptor of so many bytes. Room between the header and the variables is
    /// taken as far as it is needed: what lies there may be somebody's.
    pub(super) fn with_descriptor(&self, bytes: usize) -> NewHeader {
        let len = self.len - (self.descriptor.end - self.descriptor.start);
        let len = len + self.stored_len(bytes);
        match len <= self.data {
            true => NewHeader {
                replaced: len.max(self.len),
                shift: 0,
            },
            false => NewHeader {
                replaced: self.data,
                shift: (len - self.data).next_multiple_of(4),
            },
        }
    }

    /// What a descriptor of so many bytes takes.
    fn stored_len(&self, bytes: usize) -> u64 {
        let number = if self.version.has_long_sizes() { 8 } else { 4 };
        (bytes as u64).next_multiple_of(4) + number
    }

    /// The start of the file with this descriptor, and so many records if that changes. The caller
    /// has room for it.
    pub(super) fn with(
        &self,
        text: &[u8],
        records: Option<u64>,
        source: &Arc<dyn Source>,
    ) -> Result<NewStart> {
        let (new, doing) = (self.with_descriptor(text.len()), "cannot write a header");
        let mut bytes = fallible::zeros(self.len, doing)?;
        source.fetch_one(0, &mut bytes)?;
        if new.shift > 0 {
            for at in &self.begins {
                self.move_begin(&mut bytes, *at, new.shift)?;
            }
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
        fallible::lengthen(&mut bytes, new.len() as usize, doing)?;
        Ok(NewStart {
            replaced: new.replaced,
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
