//! LZMA in the forms that Python's module makes: xz, alone, and raw with its filters told apart.
//!
//! Dictionaries are as large as they have to be for the bytes that come out, whatever a stream
//! claims.

use std::io::Read;

use lzma_rust2::filter::bcj::BcjReader;
use lzma_rust2::filter::delta::DeltaReader;
use lzma_rust2::{Lzma2Reader, LzmaReader};

use super::xz;
use crate::filters::FilterError;
use crate::memory::{room, set_aside};

/// What a decoder takes beside its dictionary: measured, and doubled.
const DECODER: u64 = 1 << 20;

/// The smallest dictionary.
const LEAST: usize = 4096;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LzmaForm {
    Xz,
    Alone,
    /// One of the two, as its first bytes tell.
    Either,
    /// In order of writing; the last one is LZMA itself.
    Raw(Vec<LzmaFilter>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LzmaFilter {
    Lzma1 {
        lc: u32,
        lp: u32,
        pb: u32,
    },
    Lzma2,
    Delta {
        distance: usize,
    },
    /// Of machine code, by its number in the format.
    Code {
        id: u64,
        start: usize,
    },
}

/// Memory to decode at most `plain` bytes.
pub(super) fn scratch(plain: usize) -> u64 {
    DECODER.saturating_add(room(plain.max(LEAST) as u64))
}

pub(super) fn decode(form: &LzmaForm, stored: &[u8], out: &mut [u8]) -> Result<usize, FilterError> {
    set_aside(scratch(out.len()), "cannot decode lzma", || match form {
        LzmaForm::Xz => xz::decode(stored, out),
        LzmaForm::Either if xz::is_one(stored) => xz::decode(stored, out),
        LzmaForm::Alone | LzmaForm::Either => alone(stored, out),
        LzmaForm::Raw(filters) => {
            let mut rest = stored;
            read_filtered(filters, &mut rest, out)
        }
    })?
}

/// A dictionary for so many bytes.
fn dictionary(plain: usize) -> u32 {
    let needed = plain.clamp(LEAST, 1 << 30).next_multiple_of(16);
    u32::try_from(needed).unwrap_or(u32::MAX)
}

/// A header of 13 bytes: properties, dictionary, length.
fn alone(stored: &[u8], out: &mut [u8]) -> Result<usize, FilterError> {
    let (head, rest) = stored
        .split_first_chunk()
        .ok_or_else(FilterError::truncated)?;
    let [properties, _, _, _, _, length @ ..]: [u8; 13] = *head;
    let length = u64::from_le_bytes(length);
    if length != u64::MAX && length > out.len() as u64 {
        return Err(FilterError::too_long(out.len()).found(length));
    }
    let dictionary = dictionary(out.len());
    let reader = LzmaReader::new_with_props(rest, length, properties, dictionary, None);
    read_whole(reader.map_err(damaged)?, out)
}

/// Decodes what filters, told apart, have made of bytes. Takes what it reads from `stored`, at
/// least where LZMA2 is among them.
pub(super) fn read_filtered(
    filters: &[LzmaFilter],
    stored: &mut &[u8],
    out: &mut [u8],
) -> Result<usize, FilterError> {
    let unusable = || FilterError::new("these filters cannot stand in this order");
    let (last, before) = filters.split_last().ok_or_else(unusable)?;
    let dictionary = dictionary(out.len());
    let mut reader: Box<dyn Read + '_> = match *last {
        LzmaFilter::Lzma2 => Box::new(Lzma2Reader::new(stored, dictionary, None)),
        LzmaFilter::Lzma1 { lc, lp, pb } => {
            let reader = LzmaReader::new(stored, u64::MAX, lc, lp, pb, dictionary, None);
            Box::new(reader.map_err(damaged)?)
        }
        _ => return Err(unusable()),
    };
    for filter in before.iter().rev() {
        reader = match *filter {
            LzmaFilter::Delta { distance } if (1..=256).contains(&distance) => {
                Box::new(DeltaReader::new(reader, distance))
            }
            LzmaFilter::Code { id, start } => match id {
                4 => Box::new(BcjReader::new_x86(reader, start)),
                5 => Box::new(BcjReader::new_ppc(reader, start)),
                6 => Box::new(BcjReader::new_ia64(reader, start)),
                7 => Box::new(BcjReader::new_arm(reader, start)),
                8 => Box::new(BcjReader::new_arm_thumb(reader, start)),
                9 => Box::new(BcjReader::new_sparc(reader, start)),
                10 => Box::new(BcjReader::new_arm64(reader, start)),
                _ => return Err(unusable()),
            },
            _ => return Err(unusable()),
        };
    }
    read_whole(reader, out)
}

/// Reads to the end, which must come before `out` is too short.
fn read_whole(mut reader: impl Read, out: &mut [u8]) -> Result<usize, FilterError> {
    let mut done = 0;
    let mut beyond = [0];
    loop {
        let room = match out.get_mut(done..) {
            Some(rest) if !rest.is_empty() => rest,
            _ => &mut beyond,
        };
        match reader.read(room) {
            Ok(0) => return Ok(done),
            Ok(n) => done += n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(damaged(e)),
        }
        if done > out.len() {
            return Err(FilterError::too_long(out.len()));
        }
    }
}

fn damaged(error: impl std::fmt::Display) -> FilterError {
    FilterError::new(format!("the stream is damaged: {error}"))
}
