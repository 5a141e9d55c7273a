//! Bits read from the highest of each byte down, as szip, nbit and scale-offset store them.

use super::error::FilterError;

/// Reader of single bits and of fields up to 64 bits.
pub(super) struct BitReader<'a> {
    bytes: &'a [u8],
    /// First byte not wholly in the cache.
    at: usize,
    /// The next bits, from the highest down. Those below `count` are what comes next, or 0.
    cache: u64,
    /// Bits of the cache that are accounted for.
    count: u32,
}

impl<'a> BitReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            cache: 0,
            count: 0,
        }
    }

    /// The next `n` bits as a number; `n` is at most 64.
    #[inline]
    pub(super) fn take(&mut self, n: u32) -> Result<u64, FilterError> {
        if n > 32 {
            let high = self.take_short(n - 32)?;
            return Ok(high << 32 | self.take_short(32)?);
        }
        self.take_short(n)
    }

    /// The number of 0 bits before the next 1, which is taken too.
    #[inline]
    pub(super) fn unary(&mut self) -> Result<u64, FilterError> {
        let mut zeros = 0;
        loop {
            if self.count == 0 {
                self.need(1)?;
            }
            let run = self.cache.leading_zeros();
            if run < self.count {
                self.skip(run + 1);
                return Ok(zeros + u64::from(run));
            }
            zeros += u64::from(self.count);
            self.skip(self.count);
        }
    }

    #[inline]
    fn take_short(&mut self, n: u32) -> Result<u64, FilterError> {
        if n == 0 {
            return Ok(0);
        }
        self.need(n)?;
        let field = self.cache >> (64 - n);
        self.skip(n);
        Ok(field)
    }

    #[inline]
    fn skip(&mut self, n: u32) {
        self.cache = self.cache.checked_shl(n).unwrap_or(0);
        self.count -= n;
    }

    /// Fills the cache up to `n` bits, at most 56.
    #[inline]
    fn need(&mut self, n: u32) -> Result<(), FilterError> {
        if self.count >= n {
            return Ok(());
        }
        match self.bytes.get(self.at..).and_then(<[u8]>::first_chunk) {
            Some(eight) => {
                self.cache |= u64::from_be_bytes(*eight) >> self.count;
                let whole = (63 - self.count) / 8;
                self.at += whole as usize;
                self.count += 8 * whole;
            }
            None => self.fill_slowly(),
        }
        match self.count >= n {
            true => Ok(()),
            false => Err(FilterError::truncated()),
        }
    }

    fn fill_slowly(&mut self) {
        while let (true, Some(byte)) = (self.count <= 56, self.bytes.get(self.at)) {
            self.cache |= u64::from(*byte) << (56 - self.count);
            self.at += 1;
            self.count += 8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Packs (bits, value) fields, the naive way.
    fn pack(fields: &[(u32, u64)]) -> Vec<u8> {
        let mut bits = Vec::new();
        for &(n, value) in fields {
            bits.extend((0..n).rev().map(|i| value >> i & 1 == 1));
        }
        let byte = |eight: &[bool]| {
            (0..8).fold(0, |byte, i| {
                byte << 1 | u8::from(*eight.get(i).unwrap_or(&false))
            })
        };
        bits.chunks(8).map(byte).collect()
    }

    proptest! {
        #[test]
        fn fields_come_back(raw in prop::collection::vec((0u32..=64, any::<u64>()), 0..200)) {
            let fields: Vec<_> = raw
                .iter()
                .map(|&(n, value)| (n, if n == 64 { value } else { value & ((1 << n) - 1) }))
                .collect();
            let packed = pack(&fields);
            let mut bits = BitReader::new(&packed);
            for &(n, value) in &fields {
                prop_assert_eq!(bits.take(n).unwrap(), value);
            }
            // Less than a byte is left.
            prop_assert!(bits.take(8).is_err());
        }

        #[test]
        fn unary_numbers_come_back(numbers in prop::collection::vec(0u64..200, 0..60)) {
            let fields: Vec<_> = numbers
                .iter()
                .flat_map(|&n| std::iter::repeat_n((1, 0), n as usize).chain([(1, 1)]))
                .collect();
            let packed = pack(&fields);
            let mut bits = BitReader::new(&packed);
            for &n in &numbers {
                prop_assert_eq!(bits.unary().unwrap(), n);
            }
            prop_assert!(bits.unary().is_err());
        }
    }
}
