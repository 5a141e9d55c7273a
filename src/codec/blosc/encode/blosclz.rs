//! BloscLZ encoder, the counterpart of [`super::super::blosclz`], which describes the format.
//!
//! A greedy search: a table knows where each hash of four bytes was last seen. The longer nothing
//! is found, the more bytes are skipped, so that noise costs little; at higher levels later.

const MIN_MATCH: usize = 3;
/// A match length field of this value goes on in the bytes that follow.
const EXTENDED: usize = 6;
/// Distances above take two bytes more, which hold the excess.
const NEAR: usize = 8191;
const FAR_MARK: usize = 0x1fff;
/// C-Blosc's own limit, a little below that of the format.
const FARTHEST: usize = NEAR + 65535 - 1;
/// A match must be worth its bytes, and the control byte of the literals behind it: a near one ...
const MIN_NEAR: usize = 5;
/// ... and a far one.
const MIN_FAR: usize = 8;
/// Bytes that are looked up.
const LOOKED_UP: usize = 4;
/// So many bytes at the end are literals: a stream must not end with a match, and eight are read at
/// a time.
const TAIL: usize = 12;
/// A control byte stands for so many literals at most.
const LONGEST_RUN: usize = 32;
/// Set in the first byte of all streams, and meaning nothing.
const MARK: u8 = 1 << 5;

/// Where bytes were last seen, by their hash; kept between streams to be allocated once.
#[derive(Default)]
pub(super) struct SeenSequences {
    places: Vec<u32>,
}

impl SeenSequences {
    /// Writes one stream into `out`; none if it has no place there.
    pub(super) fn encode(&mut self, plain: &[u8], out: &mut [u8], level: u8) -> Option<usize> {
        let end = plain.len().checked_sub(TAIL).filter(|end| *end > 1)?;
        let bits = table_bits(plain.len());
        let patience = patience(level);
        let places = self.cleared(bits);
        let mut stored = StreamWriter { out, at: 0 };
        let (mut literals, mut at, mut misses) = (0, 1, 0);
        while at < end {
            let seen = &mut places[hash(four(plain, at), bits)];
            let earlier = std::mem::replace(seen, at as u32) as usize;
            let Some(len) = match_len(plain, earlier, at) else {
                at += 1 + (misses >> patience);
                misses += 1;
                continue;
            };
            let (start, len) = extend_back(plain, earlier, at, len, literals);
            stored.literals(plain, literals, start)?;
            stored.repeat(at - earlier, len)?;
            (at, misses) = (start + len, 0);
            literals = at;
            let inside = at - 2;
            places[hash(four(plain, inside), bits)] = inside as u32;
        }
        stored.literals(plain, literals, plain.len())?;
        stored.finish()
    }

    fn cleared(&mut self, bits: u32) -> &mut [u32] {
        self.places.clear();
        self.places.resize(1 << bits, 0);
        &mut self.places
    }
}

/// Short streams get a small table, which is cleared sooner; a large one is still in the
/// second-level cache.
fn table_bits(len: usize) -> u32 {
    (usize::BITS - len.leading_zeros()).clamp(8, 14)
}

/// After two to this power of misses, one byte more is skipped at a time.
fn patience(level: u8) -> u32 {
    6 + u32::from(level) / 3
}

/// Length of the match, if there is one that is worth its bytes.
#[inline(always)]
fn match_len(plain: &[u8], earlier: usize, at: usize) -> Option<usize> {
    let distance = at - earlier;
    if distance > FARTHEST || four(plain, earlier) != four(plain, at) {
        return None;
    }
    let len = LOOKED_UP + same(plain, earlier + LOOKED_UP, at + LOOKED_UP);
    let least = if distance > NEAR { MIN_FAR } else { MIN_NEAR };
    (len >= least).then_some(len)
}

/// Equal bytes from two places on, up to the tail.
#[inline(always)]
fn same(plain: &[u8], earlier: usize, at: usize) -> usize {
    let end = plain.len() - TAIL / 2;
    let mut len = 0;
    while at + len + 8 <= end {
        let differing = eight(plain, earlier + len) ^ eight(plain, at + len);
        if differing != 0 {
            return len + differing.trailing_zeros() as usize / 8;
        }
        len += 8;
    }
    while at + len < end && plain[earlier + len] == plain[at + len] {
        len += 1;
    }
    len
}

/// Start and length of the match with the bytes before it that are the same too.
#[inline(always)]
fn extend_back(
    plain: &[u8],
    earlier: usize,
    at: usize,
    len: usize,
    literals: usize,
) -> (usize, usize) {
    let most = earlier.min(at - literals);
    let before = (1..=most).take_while(|back| plain[earlier - back] == plain[at - back]);
    let back = before.count();
    (at - back, len + back)
}

#[inline(always)]
fn four(plain: &[u8], at: usize) -> u32 {
    let bytes = plain.get(at..at + 4).and_then(|bytes| bytes.first_chunk());
    bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

#[inline(always)]
fn eight(plain: &[u8], at: usize) -> u64 {
    let bytes = plain.get(at..at + 8).and_then(|bytes| bytes.first_chunk());
    bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

#[inline(always)]
fn hash(sequence: u32, bits: u32) -> usize {
    (sequence.wrapping_mul(2_654_435_761) >> (32 - bits)) as usize
}

/// The stream so far.
struct StreamWriter<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl StreamWriter<'_> {
    fn byte(&mut self, byte: usize) -> Option<()> {
        *self.out.get_mut(self.at)? = byte as u8;
        self.at += 1;
        Some(())
    }

    #[inline(always)]
    fn literals(&mut self, plain: &[u8], mut from: usize, to: usize) -> Option<()> {
        while from < to {
            let run = (to - from).min(LONGEST_RUN);
            self.byte(run - 1)?;
            let place = self.out.get_mut(self.at..)?;
            // A copy of fixed length is a few instructions; what is too much of it will be
            // overwritten.
            match (place.first_chunk_mut(), plain[from..].first_chunk()) {
                (Some(place), Some(bytes)) => *place = *bytes as [u8; LONGEST_RUN],
                _ => place
                    .get_mut(..run)?
                    .copy_from_slice(&plain[from..from + run]),
            }
            self.at += run;
            from += run;
        }
        Some(())
    }

    #[inline(always)]
    fn repeat(&mut self, distance: usize, len: usize) -> Option<()> {
        let field = if distance > NEAR {
            FAR_MARK
        } else {
            distance - 1
        };
        let excess = len - MIN_MATCH;
        self.byte((excess.min(EXTENDED) + 1) << 5 | field >> 8)?;
        if let Some(more) = excess.checked_sub(EXTENDED) {
            self.out.get_mut(self.at..self.at + more / 255)?.fill(255);
            self.at += more / 255;
            self.byte(more % 255)?;
        }
        self.byte(field)?;
        if distance > NEAR {
            let excess = distance - NEAR - 1;
            self.byte(excess >> 8)?;
            self.byte(excess)?;
        }
        Some(())
    }

    fn finish(self) -> Option<usize> {
        *self.out.first_mut()? |= MARK;
        Some(self.at)
    }
}
