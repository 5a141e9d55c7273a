//! Blocks of a stream: how a stretch is best told, and telling it. Used by [`super`].

use std::ops::Range;

use super::bits::BitWriter;
use super::codes::{Codes, DISTANCES, Header, LITERALS};
use super::matches::{LONGEST, LiteralsAndMatch, Matcher};

/// Longest stretch that can be told as it is.
pub(super) const MOST: usize = u16::MAX as usize;

/// So many bytes of a stretch say whether repetitions are worth looking for.
const SAMPLE: usize = 6 << 10;

/// About what a repetition takes beside the bits that say where it is.
const REPETITION: f64 = 9.0;

/// Repetitions are looked for if they save one of so many bits.
const GAIN: f64 = 12.0;

const END: usize = 256;

/// How often each symbol occurs.
struct Counts {
    literals: [u32; LITERALS],
    distances: [u32; DISTANCES],
    /// Bits that follow symbols.
    more: u64,
}

/// A stretch, told with codes of its own.
struct Coded {
    literals: Codes<LITERALS>,
    distances: Codes<DISTANCES>,
    header: Header,
    /// Bits of all of it.
    cost: u64,
}

/// A stretch of one value.
pub(super) fn put_run(
    plain: &[u8],
    stretch: Range<usize>,
    is_last: bool,
    (sequences, write): (&mut Vec<LiteralsAndMatch>, &mut BitWriter<'_>),
) -> Option<()> {
    let mut left = stretch.len() - 1;
    let mut literals = 1;
    while left > 0 {
        // Less than 3 cannot be repeated.
        let length = match left {
            ..=LONGEST => left,
            261.. => LONGEST,
            _ => left - 3,
        };
        if length < 3 {
            literals += length as u32;
            break;
        }
        sequences.push(LiteralsAndMatch {
            literals,
            length: length as u16,
            back: 0,
        });
        (literals, left) = (0, left - length);
    }
    sequences.push(LiteralsAndMatch {
        literals,
        ..LiteralsAndMatch::default()
    });
    let coded = Coded::of(&Counts::of(plain, stretch.start, sequences));
    coded.put(plain, stretch.start, (sequences, is_last), write)
}

/// Any other, no longer than [`MOST`].
pub(super) fn put_stretch(
    plain: &[u8],
    stretch: Range<usize>,
    is_last: bool,
    (matcher, sequences): (&mut Matcher, &mut Vec<LiteralsAndMatch>),
    write: &mut BitWriter<'_>,
) -> Option<()> {
    let bytes = &plain[stretch.clone()];
    let alone = Counts::of_bytes(bytes);
    let bits = alone.bits_of_byte(bytes.len());
    let sample = stretch.start..stretch.end.min(stretch.start + SAMPLE);
    matcher.parse(plain, sample.clone(), sequences);
    let mut best = Coded::of(&alone);
    let mut repeats = false;
    if is_worth_it(sequences, bits, sample.len()) {
        sequences.clear();
        matcher.parse(plain, stretch.clone(), sequences);
        let coded = Coded::of(&Counts::of(plain, stretch.start, sequences));
        repeats = coded.cost < best.cost;
        if repeats {
            best = coded;
        }
    }
    if !repeats {
        sequences.clear();
        sequences.push(LiteralsAndMatch {
            literals: bytes.len() as u32,
            ..LiteralsAndMatch::default()
        });
    }
    match best.cost < 8 * (bytes.len() as u64 + 5) {
        true => best.put(plain, stretch.start, (sequences, is_last), write),
        false => put_plain(bytes, is_last, write),
    }
}

/// Bytes as they are.
fn put_plain(bytes: &[u8], is_last: bool, write: &mut BitWriter<'_>) -> Option<()> {
    if !write.has_room_for_bytes(3, 4 + bytes.len()) {
        return None;
    }
    write.put(is_last.into(), 3);
    write.align();
    let len = bytes.len() as u16;
    write.put_bytes(&len.to_le_bytes());
    write.put_bytes(&(!len).to_le_bytes());
    write.put_bytes(bytes);
    Some(())
}

/// Whether repetitions save enough. `bits`: what a byte takes without them.
fn is_worth_it(sequences: &[LiteralsAndMatch], bits: f64, bytes: usize) -> bool {
    let cost = sequences.iter().map(|sequence| {
        let repetition = match sequence.length {
            0 => 0.0,
            _ => REPETITION + f64::from(distance(sequence.back).1),
        };
        f64::from(sequence.literals) * bits + repetition
    });
    cost.sum::<f64>() < bits * bytes as f64 * (1.0 - 1.0 / GAIN)
}

impl Counts {
    fn of_bytes(bytes: &[u8]) -> Counts {
        // Tables that take turns: bytes that follow each other are often the same.
        let mut tables = [[0u32; 256]; 4];
        let [one, two, three, four] = &mut tables;
        let fours = bytes.chunks_exact(4);
        fours
            .remainder()
            .iter()
            .for_each(|byte| one[*byte as usize] += 1);
        for bytes in fours {
            one[bytes[0] as usize] += 1;
            two[bytes[1] as usize] += 1;
            three[bytes[2] as usize] += 1;
            four[bytes[3] as usize] += 1;
        }
        let mut counts = Counts::none();
        for (byte, count) in counts.literals[..256].iter_mut().enumerate() {
            *count = tables.iter().map(|table| table[byte]).sum();
        }
        counts
    }

    fn none() -> Counts {
        let mut literals = [0; LITERALS];
        literals[END] = 1;
        Counts {
            literals,
            distances: [0; DISTANCES],
            more: 0,
        }
    }

    fn of(plain: &[u8], mut at: usize, sequences: &[LiteralsAndMatch]) -> Counts {
        let mut counts = Counts::none();
        for sequence in sequences {
            let end = at + sequence.literals as usize;
            for byte in &plain[at..end] {
                counts.literals[*byte as usize] += 1;
            }
            if sequence.length > 0 {
                let (length, more, _) = length(sequence.length);
                let (distance, farther, _) = distance(sequence.back);
                counts.literals[length] += 1;
                counts.distances[distance] += 1;
                counts.more += u64::from(more + farther);
            }
            at = end + sequence.length as usize;
        }
        counts
    }

    /// What a byte takes on the average with a code of its own.
    fn bits_of_byte(&self, bytes: usize) -> f64 {
        let all = bytes as f64;
        let counts = self.literals[..256].iter().filter(|count| **count > 0);
        let bits = counts.map(|count| f64::from(*count) * (all / f64::from(*count)).log2());
        bits.sum::<f64>() / all
    }
}

impl Coded {
    fn of(counts: &Counts) -> Coded {
        let (literals, distances) = (Codes::of(&counts.literals), Codes::of(&counts.distances));
        let header = Header::of(&literals, &distances);
        let symbols = literals.cost(&counts.literals) + distances.cost(&counts.distances);
        Coded {
            cost: 3 + header.cost() + symbols + counts.more,
            literals,
            distances,
            header,
        }
    }

    fn put(
        &self,
        plain: &[u8],
        mut at: usize,
        (sequences, is_last): (&[LiteralsAndMatch], bool),
        write: &mut BitWriter<'_>,
    ) -> Option<()> {
        if !write.has_room(self.cost) {
            return None;
        }
        write.put(u64::from(is_last) | 2 << 1, 3);
        self.header.put(write);
        for sequence in sequences {
            let end = at + sequence.literals as usize;
            self.put_literals(&plain[at..end], write);
            if sequence.length > 0 {
                self.put_repetition(sequence, write);
            }
            at = end + sequence.length as usize;
        }
        self.literals.put(END, write);
        write.flush();
        Some(())
    }

    fn put_literals(&self, bytes: &[u8], write: &mut BitWriter<'_>) {
        let fours = bytes.chunks_exact(4);
        let rest = fours.remainder();
        for bytes in fours {
            self.literals.put(bytes[0].into(), write);
            self.literals.put(bytes[1].into(), write);
            self.literals.put(bytes[2].into(), write);
            self.literals.put(bytes[3].into(), write);
            write.flush();
        }
        for byte in rest {
            self.literals.put((*byte).into(), write);
        }
        write.flush();
    }

    fn put_repetition(&self, sequence: &LiteralsAndMatch, write: &mut BitWriter<'_>) {
        let (symbol, more, bits) = length(sequence.length);
        self.literals.put(symbol, write);
        write.put(bits, more);
        let (symbol, more, bits) = distance(sequence.back);
        self.distances.put(symbol, write);
        write.put(bits, more);
        write.flush();
    }
}

/// The symbol of a length, how many bits follow it, and these.
#[inline(always)]
fn length(length: u16) -> (usize, u32, u64) {
    let over = u32::from(length).saturating_sub(3);
    if length as usize == LONGEST {
        return (285, 0, 0);
    }
    if over < 8 {
        return (257 + over as usize, 0, 0);
    }
    let more = over.ilog2() - 2;
    let symbol = 257 + 4 * (more + 1) + (over >> more & 3);
    (symbol as usize, more, (over & ((1 << more) - 1)).into())
}

/// The same of a distance, less 1.
#[inline(always)]
fn distance(back: u16) -> (usize, u32, u64) {
    let back = u32::from(back);
    if back < 4 {
        return (back as usize, 0, 0);
    }
    let more = back.ilog2() - 1;
    let symbol = 2 * (more + 1) + (back >> more & 1);
    (symbol as usize, more, (back & ((1 << more) - 1)).into())
}
