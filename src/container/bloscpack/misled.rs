//! Tests of files whose offsets table, chunk headers or sizes mislead: every chunk that can be found is shown
//! right, whatever was read before it, and no chunk is shown as another.

use std::collections::BTreeSet;
use std::path::Path;

use proptest::prelude::*;

use super::sample::{self, File, Stored};
use super::tests::{bad_chunks, data, plain, verify};
use super::*;
use crate::array::uncached::read;
use crate::codec::blosc::ChunkHeader;
use crate::container::{Preferences, open_as};
use crate::source::Store;

const SIZE: usize = 1000;

/// Ten chunks of different stored lengths and a short one.
fn file() -> File {
    File::of_chunks(uneven(&plain(), SIZE), SIZE)
}

fn uneven(plain: &[u8], size: usize) -> Vec<Vec<u8>> {
    let chunk = |(i, part): (usize, &[u8])| {
        sample::blocked_chunk(part, (10 + i * 7 % 40).min(part.len()), false)
    };
    plain.chunks(size).enumerate().map(chunk).collect()
}

fn bad(file: &File) -> Vec<usize> {
    bad_chunks(&file.bytes(), &plain(), SIZE)
}

/// Without entry `skipped`, and something behind the last.
fn skip(file: &mut File, skipped: usize, last: i64) {
    let chunks = file.chunks.len();
    file.offsets.remove(skipped);
    file.offsets.insert(chunks - 1, last);
}

#[test]
fn a_table_that_skips_a_chunk_misleads_nobody() {
    for even in [false, true] {
        for skipped in 1..11 {
            let mut file = if even {
                File::new(&plain(), SIZE)
            } else {
                file()
            };
            let end = file.bytes().len() as i64;
            skip(&mut file, skipped, end);
            assert!(bad(&file).is_empty(), "without entry {skipped}");
            let found = verify(data(&Stored::new(&file.bytes()).open()));
            assert!(found[0].contains("offsets section"), "{found:?}");
        }
    }
}

#[test]
fn a_table_of_many_chunks_that_skips_one_misleads_nobody() {
    let plain: Vec<u8> = plain().into_iter().cycle().take(30_000).collect();
    for skipped in [1, 511, 512, 513, 1024, 1500] {
        let mut file = File::new(&plain, 19);
        let end = file.bytes().len() as i64;
        skip(&mut file, skipped, end);
        assert!(bad_chunks(&file.bytes(), &plain, 19).is_empty());
    }
}

#[test]
fn a_skipped_chunk_is_missed_behind_damage_too() {
    for skipped in 1..11 {
        let mut file = file();
        let end = file.bytes().len() as i64;
        skip(&mut file, skipped, end);
        file.chunks[skipped - 1][12..16].fill(0xff);
        let bad = bad(&file);
        assert!(
            bad.contains(&(skipped - 1)) && bad[0] == skipped - 1,
            "{bad:?}"
        );
    }
}

/// Changes a chunk's header.
type Damage = fn(&mut [u8]);

#[test]
fn a_wrong_entry_and_a_damaged_chunk_harm_no_others() {
    let damages: [(Damage, bool); 2] = [
        (|chunk| chunk[0] = 3, false),
        (|chunk| chunk[12..16].fill(0xff), true),
    ];
    type Change = fn(i64) -> i64;
    let changes: [Change; 5] = [|o| o + 8, |_| -1, |_| 0, |o| o - 8, |_| i64::MAX];
    for (damage, loses_length) in damages {
        for change in changes {
            for entry in 0..11 {
                let mut file = file();
                damage(&mut file.chunks[3]);
                file.offsets[entry] = change(file.offsets[entry]);
                // Only both together lose the chunk between them.
                let lost = if loses_length && entry == 4 {
                    vec![3, 4]
                } else {
                    vec![3]
                };
                assert_eq!(bad(&file), lost, "entry {entry}: {}", file.offsets[entry]);
            }
        }
    }
}

#[test]
fn a_length_that_is_wrong_but_possible_harms_one_chunk() {
    for checksum in [0, 1] {
        for other in [-300, -40, 40, 300, 1500] {
            let mut file = file();
            if checksum == 0 {
                file = file.without_checksum();
            }
            let stored = i32::from_le_bytes(*file.chunks[3][12..].first_chunk().unwrap());
            file.chunks[3][12..16].copy_from_slice(&(stored + other).to_le_bytes());
            assert_eq!(bad(&file), [3], "{other} with checksum {checksum}");
        }
    }
}

#[test]
fn adjacent_damage_is_stepped_over_without_a_table() {
    let mut file = file().without_offsets();
    file.chunks[3][0] = 3;
    file.chunks[4][1] = 9;
    file.chunks[5][..8].fill(0xee);
    assert_eq!(bad(&file), [3, 4, 5]);
}

#[test]
fn a_last_chunk_that_should_be_empty_and_is_not_is_told_at_once() {
    for table in [true, false] {
        let mut file = file();
        if !table {
            file = file.without_offsets();
        }
        file.header[12..16].fill(0);
        let container = Stored::new(&file.bytes()).open();
        assert_eq!(container.faults.len(), 1);
        assert!(container.faults[0].what.contains("another number of bytes"));
    }
}

#[test]
fn an_empty_last_chunk_is_checked_at_once() {
    let mut chunks = uneven(&plain()[..10_000], SIZE);
    chunks.push(sample::chunk(b"", 1));
    let mut bytes = File::of_chunks(chunks, SIZE).bytes();
    assert!(Stored::new(&bytes).open().faults.is_empty());
    *bytes.last_mut().unwrap() ^= 1;
    assert_eq!(Stored::new(&bytes).open().faults.len(), 1);
}

#[test]
fn many_lost_chunks_are_one_fault() {
    let mut file = sample::header(0, 0, 16, 16, 1_000_000, 0).to_vec();
    file.resize(32 + 16 * 1_000_000, 0);
    let stored = Stored::new(&file);
    let container = stored.open();
    let array = data(&container);
    let mut visited = 0;
    array.survey(&mut |_| visited += 1).unwrap();
    let faults = verify(array);
    assert!(visited <= 1, "{visited}");
    assert_eq!(faults.len(), 1);
    assert!(faults[0].contains("chunks 1 to 999999"), "{faults:?}");
}

#[test]
fn spare_entries_beyond_count_are_not_all_read() {
    let chunk = sample::chunk(b"abc", 3);
    let spare = 1i64 << 36;
    let mut head = sample::header(1, 0, 3, 3, 1, spare).to_vec();
    let first = 32 + 8 * (1 + spare);
    head.extend_from_slice(&first.to_le_bytes());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.blp");
    let file = std::fs::File::create(&path).unwrap();
    use std::os::unix::fs::FileExt;
    file.write_all_at(&head, 0).unwrap();
    file.write_all_at(&chunk, first as u64).unwrap();
    let store: Arc<dyn Store> =
        Arc::new(crate::source::local::LocalStore::open(dir.path(), dir.path()).unwrap());
    let (path, preferences) = (Path::new("a.blp"), Preferences::default());
    let container = open_as(&Bloscpack, &store, path, preferences).unwrap();
    assert_eq!(read(data(&container), 0..3).unwrap(), b"abc");
    assert!(verify(data(&container)).len() > 1);
}

#[test]
fn what_the_decoder_does_not_look_at_may_be_odd() {
    let mut file = file();
    file.chunks[10] = sample::chunk(&plain()[10_000..], 7);
    file = File::of_chunks(file.chunks, SIZE);
    file.chunks[10][2] |= 0xe0;
    assert!(bad(&File::of_chunks(file.chunks, SIZE)).is_empty());
    for (at, value) in [(2, 0xf3), (3, 0), (2, 0x02)] {
        let mut empty = sample::chunk(b"", 1);
        empty[at] = value;
        let container = Stored::new(&File::of_chunks(vec![empty], 0).bytes()).open();
        assert!(container.faults.is_empty(), "{:?}", container.faults);
    }
}

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

/// Reads chunks in an order; yields those that cannot be read. Others must be right, if they are whole.
fn read_in_order(
    bytes: &[u8],
    plain: &[u8],
    size: usize,
    order: &[usize],
    damaged: &BTreeSet<usize>,
) -> std::result::Result<BTreeSet<usize>, TestCaseError> {
    let stored = Stored::new(bytes);
    let container = stored.open();
    let array = data(&container);
    let parts: Vec<&[u8]> = plain.chunks(size).collect();
    let mut bad = BTreeSet::new();
    for number in order.iter().map(|i| i % parts.len()).chain(0..parts.len()) {
        let (from, part) = ((number * size) as u64, parts[number]);
        match read(array, from..from + part.len() as u64) {
            Ok(found) => prop_assert!(found == part || damaged.contains(&number), "{}", number),
            Err(_) => drop(bad.insert(number)),
        }
    }
    let again = read(array, 0..plain.len() as u64);
    prop_assert_eq!(again.is_err(), !bad.is_empty());
    verify(array);
    Ok(bad)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn tables_that_lie_harm_no_chunk(
        len in 600usize..4000, even: bool, checksum: bool, lies in lies(),
        order in proptest::collection::vec(0usize..40, 0..6),
    ) {
        let plain = &plain()[..len];
        let mut file = sample_file(plain, even, checksum);
        lies.iter().for_each(|lie| lie.tell(&mut file));
        let bad = read_in_order(&file.bytes(), plain, 100, &order, &BTreeSet::new())?;
        prop_assert!(bad.is_empty(), "{:?}", bad);
    }

    #[test]
    fn tables_that_lie_and_damaged_headers_show_no_other_bytes(
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
        let mut damaged = BTreeSet::new();
        for (number, at, bits) in damage {
            let number = number % file.chunks.len();
            file.chunks[number][at] ^= bits;
            prop_assume!(!leads_past(&file, number));
            damaged.insert(number);
        }
        read_in_order(&file.bytes(), plain, 100, &order, &damaged)?;
    }

    #[test]
    fn one_wrong_entry_and_one_damaged_header_lose_no_other_chunk(
        len in 600usize..4000, even: bool, number in 0usize..40, at in 0usize..16, bits in 1u8..=255,
        entry in 0usize..40, value in any::<i64>(),
    ) {
        let plain = &plain()[..len];
        let mut file = sample_file(plain, even, true);
        let (number, entry) = (number % file.chunks.len(), entry % file.chunks.len());
        file.chunks[number][at] ^= bits;
        prop_assume!(!leads_past(&file, number));
        file.offsets[entry] = value;
        let damaged = BTreeSet::from([number]);
        let mut bad = read_in_order(&file.bytes(), plain, 100, &[], &damaged)?;
        bad.remove(&number);
        if at >= 12 && entry == number + 1 {
            bad.remove(&entry);
        }
        prop_assert!(bad.is_empty(), "{:?}", bad);
    }
}

/// Whether a chunk's length is wrong and by chance just that of it and those behind it, which no table and no
/// digest of the ones behind would tell from a chunk that is so long.
fn leads_past(file: &File, number: usize) -> bool {
    let chunks = &file.chunks[number..];
    let Ok(header) = ChunkHeader::parse(chunks[0].first_chunk().unwrap()) else {
        return false;
    };
    let digest = file.checksum().digest_len();
    let ends = chunks.iter().scan(0, |end, chunk| {
        *end += chunk.len() + digest;
        Some(*end - digest)
    });
    ends.skip(1).any(|end| end == header.ctbytes() as usize)
}

/// Chunks of 100 bytes, of one stored length or of many.
fn sample_file(plain: &[u8], even: bool, checksum: bool) -> File {
    let file = match even {
        true => File::new(plain, 100),
        false => File::of_chunks(uneven(plain, 100), 100),
    };
    if checksum {
        file
    } else {
        file.without_checksum()
    }
}
