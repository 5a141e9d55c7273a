//! Sums that stand before a chunk or behind it: 32 bits, little-endian.

use std::ops::Range;

use crate::filters::{FilterError, fletcher32};

/// Bytes of a sum.
pub(super) const SUM: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sum {
    Adler32,
    Crc32,
    Crc32c,
    Fletcher32,
}

impl Sum {
    pub(super) fn name(self) -> &'static str {
        match self {
            Sum::Adler32 => "adler32",
            Sum::Crc32 => "crc32",
            Sum::Crc32c => "crc32c",
            Sum::Fletcher32 => "fletcher32",
        }
    }
}

/// Where the data lie, once the sum is found right.
pub(super) fn check(sum: Sum, at_start: bool, stored: &[u8]) -> Result<Range<usize>, FilterError> {
    let len = stored
        .len()
        .checked_sub(SUM)
        .ok_or_else(FilterError::truncated)?;
    if sum == Sum::Fletcher32 {
        return fletcher32::check(stored).map(|data| 0..data.len());
    }
    let data = match at_start {
        true => SUM..stored.len(),
        false => 0..len,
    };
    let told = match at_start {
        true => stored.first_chunk(),
        false => stored.last_chunk(),
    };
    let told = told.copied().map_or(0, u32::from_le_bytes);
    let plain = &stored[data.clone()];
    let found = match sum {
        Sum::Adler32 => simd_adler32::adler32(&plain),
        Sum::Crc32 => crc32fast::hash(plain),
        Sum::Crc32c | Sum::Fletcher32 => crc32c::crc32c(plain),
    };
    if told == found {
        return Ok(data);
    }
    Err(FilterError::new("the checksum does not match")
        .expected(format_args!("{found:#010x}"))
        .found(format_args!("{told:#010x}")))
}
