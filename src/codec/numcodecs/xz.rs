//! The container xz: streams of blocks, each with its filters and its check, and an index at the
//! end.
//!
//! Read here and not by the library, which makes dictionaries as large as a block claims. Numbers
//! in headers are little-endian; every header has a CRC-32.

use sha2::{Digest, Sha256};

use super::LzmaFilter;
use super::lzma::read_filtered;
use crate::filters::FilterError;

const MAGIC: &[u8] = b"\xfd7zXZ\0";
const FOOTER: &[u8] = b"YZ";
/// Magic, flags and their sum; as long as the footer.
const HEADER: usize = 12;

pub(super) fn is_one(stored: &[u8]) -> bool {
    stored.starts_with(MAGIC)
}

/// Decodes streams that follow on each other.
pub(super) fn decode(stored: &[u8], out: &mut [u8]) -> Result<usize, FilterError> {
    let (mut rest, mut done) = (stored, 0);
    loop {
        done += stream(&mut rest, &mut out[done..])?;
        while let Some(behind) = rest.strip_prefix(&[0; 4]) {
            rest = behind;
        }
        if !is_one(rest) {
            return Ok(done);
        }
    }
}

fn damaged(what: &str) -> FilterError {
    FilterError::new(format!("the xz stream is damaged: {what}"))
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Result<&'a [u8], FilterError> {
    let (taken, behind) = rest
        .split_at_checked(len)
        .ok_or_else(FilterError::truncated)?;
    *rest = behind;
    Ok(taken)
}

/// What stands in front of its sum.
fn summed(bytes: &[u8]) -> Result<&[u8], FilterError> {
    let (data, sum) = bytes
        .split_last_chunk()
        .ok_or_else(FilterError::truncated)?;
    match u32::from_le_bytes(*sum) == crc32fast::hash(data) {
        true => Ok(data),
        false => Err(damaged("a header has another sum")),
    }
}

/// Up to nine bytes of seven bits, the lowest first.
fn number(rest: &mut &[u8]) -> Result<u64, FilterError> {
    let mut value = 0;
    for shift in (0..63).step_by(7) {
        let byte = take(rest, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(damaged("a number is too long"))
}

fn stream(rest: &mut &[u8], out: &mut [u8]) -> Result<usize, FilterError> {
    let header = take(rest, HEADER)?;
    let flags = header
        .strip_prefix(MAGIC)
        .ok_or_else(|| damaged("it has no magic"))?;
    let (flags, mut done, mut blocks) = (summed(flags)?, 0, 0u64);
    let &[0, kind @ 0..=15] = flags else {
        return Err(damaged("unknown flags"));
    };
    while rest.first().is_some_and(|size| *size != 0) {
        done += block(rest, kind, &mut out[done..])?;
        blocks += 1;
    }
    let index = *rest;
    take(rest, 1)?;
    if number(rest)? != blocks {
        return Err(damaged("its index has another number of blocks"));
    }
    for _ in 0..blocks {
        number(rest)?;
        number(rest)?;
    }
    let padding = (index.len() - rest.len()).wrapping_neg() % 4;
    take(rest, padding + 4)?;
    summed(&index[..index.len() - rest.len()])?;
    let footer = take(rest, HEADER)?;
    let fields = footer
        .strip_suffix(FOOTER)
        .ok_or_else(|| damaged("it has no end"))?;
    let (sum, fields) = fields
        .split_first_chunk()
        .ok_or_else(FilterError::truncated)?;
    let is_right = u32::from_le_bytes(*sum) == crc32fast::hash(fields) && fields.ends_with(flags);
    is_right
        .then_some(done)
        .ok_or_else(|| damaged("its end has another sum"))
}

fn block(rest: &mut &[u8], kind: u8, out: &mut [u8]) -> Result<usize, FilterError> {
    let size = (usize::from(rest.first().copied().unwrap_or(0)) + 1) * 4;
    let mut header = summed(take(rest, size)?)?;
    let flags = take(&mut header, 2)?[1];
    for has_size in [flags & 0x40 != 0, flags & 0x80 != 0] {
        if has_size {
            number(&mut header)?;
        }
    }
    let filters = (0..=flags & 3).map(|_| filter(&mut header));
    let filters: Vec<LzmaFilter> = filters.collect::<Result<_, _>>()?;
    let before = rest.len();
    let len = read_filtered(&filters, rest, out)?;
    let padding = (before - rest.len()).wrapping_neg() % 4;
    take(rest, padding)?;
    // Kinds of the same size follow on each other.
    let sizes = [0, 4, 4, 4, 8, 8, 8, 16, 16, 16, 32, 32, 32, 64, 64, 64];
    let told = take(rest, sizes.get(usize::from(kind)).copied().unwrap_or(0))?;
    check(kind, &out[..len], told)?;
    Ok(len)
}

fn filter(header: &mut &[u8]) -> Result<LzmaFilter, FilterError> {
    let id = number(header)?;
    let len = number(header)?;
    let properties = take(header, usize::try_from(len).unwrap_or(usize::MAX))?;
    Ok(match (id, properties) {
        (0x21, [_]) => LzmaFilter::Lzma2,
        (3, [distance]) => LzmaFilter::Delta {
            distance: usize::from(*distance) + 1,
        },
        (4..=10, []) => LzmaFilter::Code { id, start: 0 },
        (4..=10, &[a, b, c, d]) => LzmaFilter::Code {
            id,
            start: u32::from_le_bytes([a, b, c, d]) as usize,
        },
        _ => return Err(damaged("an unknown filter")),
    })
}

/// Kinds that are not known are not checked, as the format wants it.
fn check(kind: u8, data: &[u8], told: &[u8]) -> Result<(), FilterError> {
    let is_right = match kind {
        1 => crc32fast::hash(data).to_le_bytes() == told,
        4 => crc64(data).to_le_bytes() == told,
        10 => Sha256::digest(data)[..] == *told,
        _ => true,
    };
    is_right
        .then_some(())
        .ok_or_else(|| damaged("a block has another sum"))
}

/// CRC-64 of ECMA-182, lowest bit first.
fn crc64(data: &[u8]) -> u64 {
    const TABLE: [u64; 256] = table();
    let step = |crc: u64, byte: &u8| TABLE[(crc as u8 ^ byte) as usize] ^ crc >> 8;
    !data.iter().fold(!0, step)
}

const fn table() -> [u64; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = (byte as u64, 0);
        while bit < 8 {
            crc = (crc >> 1)
                ^ (if crc & 1 == 1 {
                    0xc96c_5795_d787_0f42
                } else {
                    0
                });
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}
