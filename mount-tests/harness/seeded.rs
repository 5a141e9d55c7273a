//! Numbers that look random and are the same every time, unless the environment asks for others.

/// A seed of the whole run: `scripts/nightly.sh` tries random ones.
const RUN_SEED: &str = "ARRAYFS_TEST_SEED";

pub struct Seeded(u64);

impl Seeded {
    pub fn new(seed: u64) -> Self {
        Seeded(seed ^ run_seed() << 16)
    }

    /// SplitMix64.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `limit`, which is not 0.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// Small counts with a long tail, as in single-cell data.
    pub fn count(&mut self) -> u32 {
        let small = self.next().trailing_zeros() + 1;
        match self.below(1000) {
            0 => small + (self.next() as u32 >> 4),
            _ => small,
        }
    }

    /// Bytes without any pattern.
    pub fn noise(&mut self, len: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend(self.next().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }

    /// Rising 64-bit numbers, cut to `len` bytes: they compress, and no two places are alike.
    pub fn rising(&mut self, len: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = Vec::with_capacity(len + 8);
        let mut number = self.next() >> 16;
        while bytes.len() < len {
            bytes.extend(number.to_le_bytes());
            number += self.next() % 4000;
        }
        bytes.truncate(len);
        bytes
    }
}

/// 0 if the environment says nothing.
pub fn run_seed() -> u64 {
    match std::env::var(RUN_SEED) {
        Ok(seed) => seed.parse().expect("ARRAYFS_TEST_SEED is a number"),
        Err(_) => 0,
    }
}
