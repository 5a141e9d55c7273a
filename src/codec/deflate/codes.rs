//! Prefix codes of symbols that occur more or less often, and how a block says which it uses.
//!
//! Pure. Used by [`super::block`].

use super::bits::BitWriter;

/// Symbols for bytes, for the end of a block and for lengths.
pub(super) const LITERALS: usize = 286;
pub(super) const DISTANCES: usize = 30;

/// Longest code: four of them and the rest of a byte fit into what is written at once.
const LONGEST: usize = 14;
/// Of the lengths of codes.
const LENGTHS: usize = 19;
const LONGEST_LENGTH: usize = 7;

/// The order in which a block says how long their codes are.
const LENGTH_ORDER: [u8; LENGTHS] = [
    16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15,
];

/// A code of each symbol: its bits, and from bit 16 on their number.
pub(super) struct Codes<const N: usize> {
    codes: [u32; N],
    lengths: [u8; N],
}

impl<const N: usize> Codes<N> {
    pub(super) fn of(counts: &[u32; N]) -> Codes<N> {
        Codes::limited(counts, LONGEST)
    }

    fn limited(counts: &[u32; N], most: usize) -> Codes<N> {
        let lengths = lengths_of(counts, most);
        let mut of_length = [0; 16];
        for length in &lengths {
            of_length[usize::from(*length)] += 1;
        }
        of_length[0] = 0;
        let (mut next, mut code) = ([0u32; 16], 0);
        for (next, shorter) in next[1..].iter_mut().zip(of_length) {
            code = (code + shorter) << 1;
            *next = code;
        }
        let mut codes = [0; N];
        for (code, &length) in codes.iter_mut().zip(&lengths).filter(|(_, len)| **len > 0) {
            let bits = next[length as usize].reverse_bits() >> (32 - u32::from(length));
            next[length as usize] += 1;
            *code = bits | u32::from(length) << 16;
        }
        Codes { codes, lengths }
    }

    #[inline(always)]
    pub(super) fn put(&self, symbol: usize, write: &mut BitWriter<'_>) {
        let code = self.codes[symbol];
        write.put(u64::from(code & 0xffff), code >> 16);
    }

    /// Bits that so many of each symbol take.
    pub(super) fn cost(&self, counts: &[u32; N]) -> u64 {
        let each = counts.iter().zip(&self.lengths);
        each.map(|(n, len)| u64::from(*n) * u64::from(*len)).sum()
    }

    /// The lengths up to the last symbol that occurs, of `least` symbols or more.
    fn told(&self, least: usize) -> &[u8] {
        let last = self.lengths.iter().rposition(|len| *len > 0);
        let told = last.map_or(0, |last| last + 1).max(least);
        &self.lengths[..told]
    }
}

/// What a block says of its codes.
pub(super) struct Header {
    literals: usize,
    distances: usize,
    /// Lengths and runs of them, with the bits behind the symbol.
    told: Vec<(u8, u8)>,
    codes: Codes<LENGTHS>,
}

impl Header {
    pub(super) fn of(literals: &Codes<LITERALS>, distances: &Codes<DISTANCES>) -> Header {
        let (literals, distances) = (literals.told(257), distances.told(1));
        let told = runs(&[literals, distances].concat());
        let mut counts = [0; LENGTHS];
        told.iter()
            .for_each(|(symbol, _)| counts[*symbol as usize] += 1);
        Header {
            literals: literals.len(),
            distances: distances.len(),
            told,
            codes: Codes::limited(&counts, LONGEST_LENGTH),
        }
    }

    /// How many lengths of lengths are told.
    fn told_lengths(&self) -> usize {
        let lengths = &self.codes.lengths;
        let last = LENGTH_ORDER
            .iter()
            .rposition(|symbol| lengths[*symbol as usize] > 0);
        last.map_or(0, |last| last + 1).max(4)
    }

    pub(super) fn cost(&self) -> u64 {
        let each = self.told.iter().map(|(symbol, _)| {
            let code = self.codes.lengths[*symbol as usize];
            u64::from(u32::from(code) + more_bits(*symbol))
        });
        14 + 3 * self.told_lengths() as u64 + each.sum::<u64>()
    }

    pub(super) fn put(&self, write: &mut BitWriter<'_>) {
        write.put(self.literals as u64 - 257, 5);
        write.put(self.distances as u64 - 1, 5);
        write.put(self.told_lengths() as u64 - 4, 4);
        write.flush();
        for symbol in &LENGTH_ORDER[..self.told_lengths()] {
            write.put(self.codes.lengths[*symbol as usize].into(), 3);
            write.flush();
        }
        for (symbol, more) in &self.told {
            self.codes.put(*symbol as usize, write);
            write.put((*more).into(), more_bits(*symbol));
            write.flush();
        }
    }
}

fn more_bits(symbol: u8) -> u32 {
    match symbol {
        16 => 2,
        17 => 3,
        18 => 7,
        _ => 0,
    }
}

/// Lengths as they are told: runs of one, and of zeros, are told once.
fn runs(lengths: &[u8]) -> Vec<(u8, u8)> {
    let mut told = Vec::with_capacity(lengths.len());
    for run in lengths.chunk_by(|one, next| one == next) {
        let (length, mut left) = (run[0], run.len());
        if length > 0 {
            told.push((length, 0));
            left -= 1;
        }
        while left > 0 {
            let (symbol, least, most) = match (length, left) {
                (0, 11..) => (18, 11, 138),
                (0, 3..) => (17, 3, 10),
                (1.., 3..) => (16, 3, 6),
                _ => (length, 1, 1),
            };
            let now = left.min(most);
            told.push((symbol, (now - least) as u8));
            left -= now;
        }
    }
    told
}

/// Of a code that takes the fewest bits, or nearly, with no more than `most` for any symbol.
fn lengths_of<const N: usize>(counts: &[u32; N], most: usize) -> [u8; N] {
    let mut lengths = [0; N];
    let mut symbols: Vec<usize> = (0..N).filter(|symbol| counts[*symbol] > 0).collect();
    symbols.sort_unstable_by_key(|symbol| counts[*symbol]);
    if let [only] = symbols[..] {
        lengths[only] = 1;
    }
    if symbols.len() < 2 {
        return lengths;
    }
    let weights: Vec<u32> = symbols.iter().map(|symbol| counts[*symbol]).collect();
    let of_length = shortened(depths(&weights), most);
    // The rarest have the longest.
    let all = (1..=most)
        .rev()
        .flat_map(|len| std::iter::repeat_n(len as u8, of_length[len]));
    symbols
        .iter()
        .zip(all)
        .for_each(|(symbol, len)| lengths[*symbol] = len);
    lengths
}

/// How deep each of these weights, which rise, lies in a tree that has the heavy ones on top.
fn depths(weights: &[u32]) -> Vec<usize> {
    let leaves = weights.len();
    let mut sums: Vec<u64> = Vec::with_capacity(leaves);
    // Leaves by their numbers, inner nodes behind them.
    let mut parents = vec![0; 2 * leaves - 1];
    let (mut leaf, mut inner) = (0, 0);
    for parent in leaves..2 * leaves - 1 {
        let mut sum = 0;
        for _ in 0..2 {
            let is_leaf = match (weights.get(leaf), sums.get(inner)) {
                (Some(weight), Some(sum)) => u64::from(*weight) <= *sum,
                (weight, _) => weight.is_some(),
            };
            match is_leaf {
                true => {
                    sum += u64::from(weights[leaf]);
                    parents[leaf] = parent;
                    leaf += 1;
                }
                false => {
                    sum += sums[inner];
                    parents[leaves + inner] = parent;
                    inner += 1;
                }
            }
        }
        sums.push(sum);
    }
    let mut depths = vec![0; 2 * leaves - 1];
    for node in (0..2 * leaves - 2).rev() {
        depths[node] = depths[parents[node]] + 1;
    }
    depths.truncate(leaves);
    depths
}

/// How many codes there are of each length, none longer than `most`.
fn shortened(depths: Vec<usize>, most: usize) -> [usize; 16] {
    let mut of_length = [0; 16];
    depths
        .iter()
        .for_each(|depth| of_length[(*depth).min(most)] += 1);
    let taken = |of_length: &[usize; 16]| -> usize {
        (1..=most).map(|len| of_length[len] << (most - len)).sum()
    };
    // Codes that were too long take more room than there is: shorter ones make it.
    let mut beyond = taken(&of_length).saturating_sub(1 << most);
    while beyond > 0 {
        let Some(shorter) = (1..most).rev().find(|len| of_length[*len] > 0) else {
            break;
        };
        of_length[most] -= 1;
        of_length[shorter] -= 1;
        of_length[shorter + 1] += 2;
        beyond -= 1;
    }
    of_length
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_code_is_complete_and_never_too_long(
            counts in proptest::collection::vec((0u32..40, 1u32..100_000), 19),
            most in 5usize..8,
        ) {
            let mut own = [0; LENGTHS];
            for (own, (rare, often)) in own.iter_mut().zip(&counts) {
                *own = if rare % 3 == 0 { 0 } else { often >> (rare % 17) };
            }
            let lengths = lengths_of(&own, most);
            let used = own.iter().filter(|count| **count > 0).count();
            let taken: usize = lengths.iter().filter(|len| **len > 0)
                .map(|len| (1 << most) >> *len).sum();
            for (count, length) in own.iter().zip(&lengths) {
                prop_assert_eq!(*count > 0, *length > 0);
                prop_assert!(usize::from(*length) <= most);
            }
            match used {
                0 | 1 => prop_assert_eq!(taken, used << (most - 1)),
                _ => prop_assert_eq!(taken, 1 << most),
            }
        }
    }

    #[test]
    fn of_weights_that_double_the_longest_codes_are_cut() {
        let mut counts = [0; DISTANCES];
        counts
            .iter_mut()
            .enumerate()
            .for_each(|(n, count)| *count = 1 << n);
        let lengths = lengths_of(&counts, LONGEST);
        let taken: usize = lengths
            .iter()
            .map(|len| 1 << (LONGEST - usize::from(*len)))
            .sum();
        assert_eq!((taken, lengths[DISTANCES - 1]), (1 << LONGEST, 1));
    }

    #[test]
    fn runs_of_lengths_are_told_once() {
        let lengths = [[3; 9].as_slice(), &[0; 150], &[0, 5, 5, 0, 0]].concat();
        let expected = [
            (3, 0),
            (16, 3),
            (3, 0),
            (3, 0),
            (18, 127),
            (18, 2),
            (5, 0),
            (5, 0),
        ];
        let told = runs(&lengths);
        assert_eq!(told[..2], expected[..2]);
        let unfolded: usize = told
            .iter()
            .map(|(symbol, more)| match symbol {
                16 | 17 => usize::from(*more) + 3,
                18 => usize::from(*more) + 11,
                _ => 1,
            })
            .sum();
        assert_eq!(unfolded, lengths.len());
    }
}
