//! Bytes that were there before: looked for with one table, without a second try. Used by
//! [`super::block`].

use std::ops::Range;

/// Shortest repetition that is looked for.
const LEAST: usize = 4;
pub(super) const LONGEST: usize = 258;
const FARTHEST: usize = 32 << 10;

/// Binary logarithm of the entries of the table.
const TABLE: u32 = 15;

/// All bytes of a longer repetition are not worth being found again.
const ENTERED: usize = 32;

/// Bytes as they are, and then a repetition.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LiteralsAndMatch {
    pub(super) literals: u32,
    /// 0: there is none.
    pub(super) length: u16,
    /// How far back, less 1.
    pub(super) back: u16,
}

/// Where four bytes were seen last.
pub(super) struct Matcher {
    table: Vec<u32>,
}

impl Matcher {
    /// None: there is no memory.
    pub(super) fn new() -> Option<Matcher> {
        let mut table = Vec::new();
        table.try_reserve_exact(1 << TABLE).ok()?;
        table.resize(1 << TABLE, u32::MAX);
        Some(Matcher { table })
    }

    pub(super) fn clear(&mut self) {
        self.table.fill(u32::MAX);
    }

    /// Puts a stretch together from bytes and repetitions of what lies before.
    pub(super) fn parse(
        &mut self,
        plain: &[u8],
        stretch: Range<usize>,
        out: &mut Vec<LiteralsAndMatch>,
    ) {
        let (mut at, mut first) = (stretch.start, stretch.start);
        while at + LEAST <= stretch.end {
            let found = self.find(plain, at);
            let length = found.map_or(0, |before| same(plain, before, at..stretch.end));
            if length < LEAST {
                at += 1;
                continue;
            }
            let back = at - found.unwrap_or(at) - 1;
            out.push(LiteralsAndMatch {
                literals: (at - first) as u32,
                length: length as u16,
                back: back as u16,
            });
            let entered = (at + length)
                .min(stretch.end.saturating_sub(LEAST))
                .min(at + ENTERED);
            for at in at + 1..entered {
                let _ = self.find(plain, at);
            }
            at += length;
            first = at;
        }
        out.push(LiteralsAndMatch {
            literals: (stretch.end - first) as u32,
            ..LiteralsAndMatch::default()
        });
    }

    /// The last place with the same four bytes, perhaps; this one is the last from now on.
    #[inline(always)]
    fn find(&mut self, plain: &[u8], at: usize) -> Option<usize> {
        let four = plain.get(at..at + LEAST)?;
        let key = u32::from_le_bytes([four[0], four[1], four[2], four[3]]);
        let slot = key.wrapping_mul(0x9e37_79b1) >> (u32::BITS - TABLE);
        let before = std::mem::replace(self.table.get_mut(slot as usize)?, at as u32) as usize;
        (before < at && at - before <= FARTHEST).then_some(before)
    }
}

/// How many bytes are the same, at most the longest repetition.
#[inline(always)]
fn same(plain: &[u8], before: usize, at: Range<usize>) -> usize {
    let most = (at.end - at.start).min(LONGEST);
    let (one, other) = (
        &plain[before..before + most],
        &plain[at.start..at.start + most],
    );
    let mut done = 0;
    for (one, other) in one.chunks_exact(8).zip(other.chunks_exact(8)) {
        let one = u64::from_le_bytes(one.try_into().unwrap_or_default());
        let other = u64::from_le_bytes(other.try_into().unwrap_or_default());
        match one ^ other {
            0 => done += 8,
            differ => return done + differ.trailing_zeros() as usize / 8,
        }
    }
    let rest = one[done..].iter().zip(&other[done..]);
    done + rest.take_while(|(one, other)| one == other).count()
}
