//! Random lies of the offsets table and random damage: what is shown is exactly what
//! [`crate::container::bloscpack::chunks`] says, whatever was read before.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::files::{File, Stored};
use super::lies::{skip, uneven};
use super::{data, plain, verify};
use crate::array::uncached::read;

const SIZE: usize = 100;

/// A change of the table.
#[derive(Debug, Clone)]
enum Lie {
    Skip(usize, i64),
    Set(usize, i64),
    Copy(usize, usize),
    Swap(usize, usize),
    Shift(usize, i64),
}

impl Lie {
    fn tell(&self, file: &mut File) {
        let chunks = file.chunks.len();
        let at = |i: usize| i % chunks;
        match *self {
            Lie::Skip(i, last) => {
                let last = if last == 0 {
                    file.bytes().len() as i64
                } else {
                    last
                };
                skip(file, at(i), last);
            }
            Lie::Set(i, value) => file.offsets[at(i)] = value,
            Lie::Copy(i, j) => file.offsets[at(i)] = file.offsets[at(j)],
            Lie::Swap(i, j) => file.offsets.swap(at(i), at(j)),
            Lie::Shift(i, by) => file.offsets[at(i)..].iter_mut().for_each(|o| *o += by),
        }
    }
}

fn lies() -> impl Strategy<Value = Vec<Lie>> {
    let entry = || 0usize..40;
    let lie = prop_oneof![
        (entry(), prop_oneof![Just(-1i64), Just(0), 0i64..40_000])
            .prop_map(|(i, v)| Lie::Skip(i, v)),
        (entry(), prop_oneof![-2i64..20_000, any::<i64>()]).prop_map(|(i, v)| Lie::Set(i, v)),
        (entry(), entry()).prop_map(|(i, j)| Lie::Copy(i, j)),
        (entry(), entry()).prop_map(|(i, j)| Lie::Swap(i, j)),
        (entry(), -40i64..1200).prop_map(|(i, by)| Lie::Shift(i, by)),
    ];
    proptest::collection::vec(lie, 0..3)
}

/// The table in terms of the chunks that its entries lead to, and what is to be shown of it: the
/// rules of the module, for a file of sound chunks.
struct Told {
    /// The chunk at each entry, if there is one; the number of chunks for the end of the file.
    entries: Vec<Option<usize>>,
    /// Where each chunk begins, and the last one ends.
    places: Vec<i64>,
    /// Stored bytes of the smallest chunk.
    least: i64,
    /// Plain bytes of each chunk.
    sizes: Vec<usize>,
}

/// Where a walk stands: at a chunk or nowhere, and the last chunk that is certain.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    at: Option<usize>,
    certain: (usize, usize),
    ended: bool,
}

impl Place {
    fn certain(number: usize, chunk: usize) -> Self {
        Place {
            at: Some(chunk),
            certain: (number, chunk),
            ended: false,
        }
    }
}

impl Told {
    fn by(file: &File, plain: usize) -> Self {
        let chunks = file.chunks.len();
        let mut places = vec![file.first()];
        for chunk in &file.chunks {
            let stored = chunk.len() + file.checksum().digest_len();
            places.push(places[places.len() - 1] + stored as i64);
        }
        let chunk_at = |offset: &i64| places.iter().position(|place| place == offset);
        let mut entries: Vec<_> = file.offsets[..chunks].iter().map(chunk_at).collect();
        entries[0] = Some(0);
        let size = |i: usize| SIZE.min(plain - i * SIZE);
        Told {
            entries,
            places,
            least: 16 + file.checksum().digest_len() as i64,
            sizes: (0..chunks).map(size).collect(),
        }
    }

    /// Whether two neighbouring entries, or the last, are of other chunks in their order.
    fn first_run(&self) -> Option<usize> {
        (0..self.sizes.len())
            .find(|&number| self.linked(number).is_some_and(|found| found != number))
    }

    fn is_sound(&self, number: usize, chunk: usize) -> bool {
        chunk < self.sizes.len() && self.sizes[chunk] == self.sizes[number]
    }

    fn sound_entry(&self, number: usize) -> Option<usize> {
        self.entries[number].filter(|chunk| self.is_sound(number, *chunk))
    }

    /// The chunk of an entry that the next one fits.
    fn linked(&self, number: usize) -> Option<usize> {
        let chunk = self.sound_entry(number)?;
        let is_last = number + 1 == self.sizes.len();
        (is_last || self.sound_entry(number + 1) == Some(chunk + 1)).then_some(chunk)
    }

    fn believed(&self, number: usize) -> Option<usize> {
        let chunk = self.linked(number)?;
        let fits =
            number == 0 || self.sound_entry(number - 1).map(|before| before + 1) == Some(chunk);
        fits.then_some(chunk)
    }

    /// Where the table leads from a certain chunk.
    fn led_by_table(&self, number: usize, certain: (usize, usize)) -> Option<usize> {
        let between = (number - certain.0) as i64;
        let least = self.places[certain.1] + between * self.least;
        self.linked(number)
            .filter(|chunk| self.places[*chunk] >= least)
    }

    /// Where chunk `number` is, if the one before it is there.
    fn step(&self, before: Place, number: usize) -> Place {
        let chunks = self.sizes.len();
        if before.ended || before.at == Some(chunks) {
            return Place {
                ended: true,
                ..before
            };
        }
        let next = before.at.map(|chunk| chunk + 1);
        let is_certain =
            |next: usize| self.entries[number] == Some(next) || self.is_sound(number, next);
        if let Some(next) = next.filter(|next| is_certain(*next)) {
            return Place::certain(number, next);
        }
        match self.led_by_table(number, before.certain) {
            Some(chunk) => Place::certain(number, chunk),
            None => Place {
                at: next.filter(|next| *next < chunks),
                ..before
            },
        }
    }

    fn place(&self, number: usize) -> Place {
        if let Some(chunk) = self.believed(number) {
            return Place::certain(number, chunk);
        }
        let known = |before: usize| Some((before, self.believed(before)?));
        let (start, chunk) = (0..number).rev().find_map(known).unwrap_or((0, 0));
        let mut place = Place::certain(start, chunk);
        for next in start + 1..=number {
            place = self.step(place, next);
            let disputed = self
                .linked(next)
                .is_some_and(|chunk| place.at != Some(chunk));
            if disputed && place.at.is_some() && !place.ended {
                let walk = |place, number| self.step(place, number);
                return (1..=number).fold(Place::certain(0, 0), walk);
            }
        }
        place
    }

    /// The chunk whose bytes are shown as those of chunk `number`.
    fn shown(&self, number: usize) -> Option<usize> {
        let place = self.place(number);
        let chunk = place.at.filter(|_| !place.ended)?;
        let is_last = number + 1 == self.sizes.len();
        let leads_elsewhere = || {
            let next = self.step(place, number + 1);
            chunk < self.sizes.len() && next.at.is_some_and(|next| next != chunk + 1)
        };
        let settled = is_last || self.believed(number).is_some();
        (self.is_sound(number, chunk) && (settled || !leads_elsewhere())).then_some(chunk)
    }
}

/// Reads all chunks, some of them first and in an order; yields what each shows.
fn read_in_order(file: &File, plain: &[u8], order: &[usize]) -> Vec<Option<Vec<u8>>> {
    let stored = Stored::new(&file.bytes());
    let container = stored.open();
    let array = data(&container);
    let chunks = plain.len().div_ceil(SIZE);
    let chunk = |number: usize| {
        let end = plain.len().min((number + 1) * SIZE);
        read(array, (number * SIZE) as u64..end as u64).ok()
    };
    for number in order {
        chunk(number % chunks);
    }
    let all: Vec<_> = (0..chunks).map(chunk).collect();
    let again = read(array, 0..plain.len() as u64);
    assert_eq!(again.is_err(), all.contains(&None));
    verify(array);
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn of_a_table_that_lies_just_what_the_rules_say_is_shown(
        len in 600usize..4000, even: bool, checksum: bool, lies in lies(),
        order in proptest::collection::vec(0usize..40, 0..6),
    ) {
        let plain = &plain()[..len];
        let mut file = sample_file(plain, even, checksum);
        lies.iter().for_each(|lie| lie.tell(&mut file));
        let told = Told::by(&file, len);
        let parts: Vec<&[u8]> = plain.chunks(SIZE).collect();
        for (number, found) in read_in_order(&file, plain, &order).into_iter().enumerate() {
            let expected = told.shown(number);
            prop_assert_eq!(found.as_deref(), expected.map(|chunk| parts[chunk]), "chunk {}", number);
        }
    }

    #[test]
    fn only_a_run_of_other_chunks_shows_other_bytes_beside_damage_too(
        len in 600usize..4000, even: bool, checksum: bool, table: bool, lies in lies(),
        damage in proptest::collection::vec((0usize..40, 0usize..16, 1u8..=255), 0..3),
        order in proptest::collection::vec(0usize..40, 0..6),
    ) {
        let plain = &plain()[..len];
        let mut file = sample_file(plain, even, checksum);
        match table {
            true => lies.iter().for_each(|lie| lie.tell(&mut file)),
            false => file = file.without_offsets(),
        }
        let first_run = table.then(|| Told::by(&file, len)).and_then(|told| told.first_run());
        let mut damaged = BTreeSet::new();
        for (number, at, bits) in damage {
            let number = number % file.chunks.len();
            file.chunks[number][at] ^= bits;
            prop_assume!(!leads_past(&file, number));
            damaged.insert(number);
        }
        let found = read_in_order(&file, plain, &order);
        for (number, part) in plain.chunks(SIZE).enumerate() {
            let may_lie = first_run.is_some_and(|first| number >= first);
            let right = found[number].as_ref().is_none_or(|found| found == part);
            prop_assert!(right || may_lie || damaged.contains(&number), "chunk {}", number);
        }
    }

    #[test]
    fn one_wrong_entry_and_one_damaged_header_lose_what_lies_between_them(
        len in 600usize..4000, even: bool, number in 0usize..40, at in 0usize..16, bits in 1u8..=255,
        entry in 0usize..40, value in any::<i64>(),
    ) {
        let plain = &plain()[..len];
        let mut file = sample_file(plain, even, true);
        let (number, entry) = (number % file.chunks.len(), entry % file.chunks.len());
        file.chunks[number][at] ^= bits;
        prop_assume!(!leads_past(&file, number));
        file.offsets[entry] = value;
        let between = if at >= 12 && (1..=2).contains(&entry.wrapping_sub(number)) { entry } else { number };
        let found = read_in_order(&file, plain, &[]);
        for (i, part) in plain.chunks(SIZE).enumerate() {
            let lost = (number..=between).contains(&i) && found[i].is_none();
            let right = found[i].as_deref() == Some(part) || i == number;
            prop_assert!(right || lost, "chunk {}", i);
        }
    }
}

/// Whether a chunk's length is wrong and by chance just that of it and those behind it, which no
/// table and no digest of the ones behind would tell from a chunk that is so long.
fn leads_past(file: &File, number: usize) -> bool {
    let chunks = &file.chunks[number..];
    let stored = u32::from_le_bytes(*chunks[0][12..].first_chunk().unwrap());
    let digest = file.checksum().digest_len();
    let ends = chunks.iter().scan(0, |end, chunk| {
        *end += chunk.len() + digest;
        Some(*end - digest)
    });
    ends.skip(1).any(|end| end == stored as usize)
}

/// Chunks of 100 bytes, of one stored length or of many.
fn sample_file(plain: &[u8], even: bool, checksum: bool) -> File {
    let file = match even {
        true => File::new(plain, SIZE),
        false => File::of_chunks(uneven(plain, SIZE), SIZE),
    };
    if checksum {
        file
    } else {
        file.without_checksum()
    }
}
