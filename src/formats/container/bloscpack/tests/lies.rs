//! Files whose offsets table, chunk headers or sizes mislead, case by case: what is found and what
//! is not, as [`crate::container::bloscpack::chunks`] says. Random ones are in
//! [`super::random_lies`].

use std::path::Path;

use crate::array::uncached::read;
use crate::container::bloscpack::tests::files::{self, File, Stored};
use crate::container::bloscpack::tests::{bad_chunks, data, plain, verify};
use crate::container::bloscpack::*;
use crate::container::{Preferences, open_as};
use crate::source::Store;

const SIZE: usize = 1000;

/// Ten chunks of different stored lengths and a short one.
fn file() -> File {
    File::of_chunks(uneven(&plain(), SIZE), SIZE)
}

pub(super) fn uneven(plain: &[u8], size: usize) -> Vec<Vec<u8>> {
    let chunk = |(i, part): (usize, &[u8])| {
        files::blocked_chunk(part, (10 + i * 7 % 40).min(part.len()), false)
    };
    plain.chunks(size).enumerate().map(chunk).collect()
}

fn bad(file: &File) -> Vec<usize> {
    bad_chunks(&file.bytes(), &plain(), SIZE)
}

/// Without entry `skipped`, and something behind the last.
pub(super) fn skip(file: &mut File, skipped: usize, last: i64) {
    let chunks = file.chunks.len();
    file.offsets.remove(skipped);
    file.offsets.insert(chunks - 1, last);
}

/// Which chunk is shown in the place of each; none where there is an error. Read backwards, so that
/// later ones are found without the help of earlier ones.
fn shown(file: &File, plain: &[u8], size: usize) -> Vec<Option<usize>> {
    let stored = Stored::new(&file.bytes());
    let container = stored.open();
    let array = data(&container);
    let parts: Vec<&[u8]> = plain.chunks(size).collect();
    let read = |i: usize| {
        let from = (i * size) as u64;
        let found = read(array, from..from + parts[i].len() as u64).ok()?;
        Some(
            parts
                .iter()
                .position(|part| *part == found)
                .expect("made-up bytes"),
        )
    };
    let mut all: Vec<_> = (0..parts.len()).rev().map(read).collect();
    all.reverse();
    all
}

#[test]
fn a_table_that_skips_a_chunk_misleads_behind_it_and_verify_tells() {
    for even in [false, true] {
        for skipped in 1..7 {
            let mut file = if even {
                File::new(&plain(), SIZE)
            } else {
                file()
            };
            let end = file.bytes().len() as i64;
            skip(&mut file, skipped, end);
            let found = shown(&file, &plain(), SIZE);
            for (number, found) in found.into_iter().enumerate() {
                let expected = match number {
                    // Before the lie, and where the headers before and the table disagree.
                    _ if number <= skipped => Some(number),
                    // Within the run of other chunks three neighbours agree.
                    _ if number < 9 => Some(number + 1),
                    // The last chunk has another size than the ninth must have.
                    _ => None,
                };
                assert_eq!(found, expected, "chunk {number} without entry {skipped}");
            }
            let found = verify(data(&Stored::new(&file.bytes()).open()));
            assert_eq!(found.len(), 11 - skipped, "{found:?}");
            assert!(found.iter().all(|fault| fault.contains("offsets section")));
        }
    }
}

#[test]
fn a_chunk_more_than_the_header_counts_that_the_table_skips_is_told_by_verify_alone() {
    let mut file = file();
    file.offsets.remove(4);
    file.offsets[..10]
        .iter_mut()
        .for_each(|offset| *offset -= 8);
    file.header[16..24].copy_from_slice(&10i64.to_le_bytes());
    let stored = Stored::new(&file.bytes());
    let container = stored.open();
    assert!(container.faults.is_empty());
    let array = data(&container);
    let part = |i: usize| plain()[i * SIZE..(i + 1) * SIZE].to_vec();
    assert!(
        read(array, 4000..5000).unwrap() == part(4),
        "at the end of the run"
    );
    assert!(
        read(array, 6000..7000).unwrap() == part(7),
        "as the table has it"
    );
    assert!(verify(array)[0].contains("offsets section"));
}

#[test]
fn single_wrong_entries_harm_nothing_wherever_they_lead() {
    let good = file();
    let inner = good.offsets[4] + 40;
    let all = good.offsets[..11].iter().copied();
    for value in all.chain([-1, 0, inner, i64::MAX, 1 << 40]) {
        for entry in 0..11 {
            let mut file = file();
            file.offsets[entry] = value;
            assert!(bad(&file).is_empty(), "entry {entry} is {value}");
        }
    }
}

#[test]
fn swapped_entries_behind_a_damaged_length_show_no_other_bytes() {
    let plain = &plain()[..801];
    let mut file = File::of_chunks(uneven(plain, 100), 100).without_checksum();
    file.offsets.swap(5, 6);
    file.chunks[4][12] ^= 1;
    let found = shown(&file, plain, 100);
    let right = |i: usize| ![4, 5, 6].contains(&i);
    for (i, found) in found.into_iter().enumerate() {
        assert!(
            found == Some(i) || found.is_none() && !right(i),
            "{i}: {found:?}"
        );
    }
}

#[test]
fn headers_within_a_chunk_that_the_table_leads_to_are_not_believed_at_its_ends() {
    // A Bloscpack file within the first chunk, and entries that lead to its chunks.
    let inner = File::new(&plain()[..300], 100);
    let mut outer = inner.bytes();
    outer.resize(1000, 7);
    let chunks = |plain: &[u8]| {
        plain
            .chunks(100)
            .map(|part| files::chunk(part, 16))
            .collect()
    };
    let mut file = File::of_chunks(chunks(&outer), 100).without_checksum();
    let nested = file.offsets[0] + 16;
    file.offsets[1] = nested + inner.offsets[0];
    file.offsets[2] = nested + inner.offsets[1];
    let stored = Stored::new(&file.bytes());
    let container = stored.open();
    let array = data(&container);
    for number in 0..10 {
        let from = number * 100;
        match read(array, from..from + 100) {
            Ok(found) => assert!(found == outer[from as usize..][..100], "chunk {number}"),
            Err(_) => assert!((1..4).contains(&number), "chunk {number}"),
        }
    }
}

#[test]
fn a_length_that_leads_past_a_chunk_is_doubted_if_the_table_has_that_chunk() {
    let mut file = File::new(&plain(), SIZE).without_checksum();
    let both = (2 * file.chunks[3].len()) as u32;
    file.chunks[3][2] &= !2;
    file.chunks[3][12..16].copy_from_slice(&both.to_le_bytes());
    let found = shown(&file, &plain(), SIZE);
    for (number, found) in found.into_iter().enumerate() {
        let doubtful = number == 3 || number == 4;
        assert!(
            found == Some(number) || doubtful && found.is_none(),
            "chunk {number}"
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
                // Only both together lose the chunks between them.
                let lost = match entry {
                    4 if loses_length => vec![3, 4],
                    5 if loses_length => vec![3, 4, 5],
                    _ => vec![3],
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
    chunks.push(files::chunk(b"", 1));
    let mut bytes = File::of_chunks(chunks, SIZE).bytes();
    assert!(Stored::new(&bytes).open().faults.is_empty());
    *bytes.last_mut().unwrap() ^= 1;
    assert_eq!(Stored::new(&bytes).open().faults.len(), 1);
}

#[test]
fn many_lost_chunks_are_one_fault() {
    let mut file = files::header(0, 0, 16, 16, 1_000_000, 0).to_vec();
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
    let chunk = files::chunk(b"abc", 3);
    let spare = 1i64 << 36;
    let mut head = files::header(1, 0, 3, 3, 1, spare).to_vec();
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
    let container = open_as(
        &Bloscpack,
        &store,
        Path::new("a.blp"),
        Preferences::default(),
    )
    .unwrap();
    assert_eq!(read(data(&container), 0..3).unwrap(), b"abc");
    let found = verify(data(&container));
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn what_the_decoder_does_not_look_at_may_be_odd() {
    let mut file = file();
    file.chunks[10] = files::chunk(&plain()[10_000..], 7);
    file = File::of_chunks(file.chunks, SIZE);
    file.chunks[10][2] |= 0xe0;
    assert!(bad(&File::of_chunks(file.chunks, SIZE)).is_empty());
    for (at, value) in [(2, 0xf3), (3, 0), (2, 0x02)] {
        let mut empty = files::chunk(b"", 1);
        empty[at] = value;
        let container = Stored::new(&File::of_chunks(vec![empty], 0).bytes()).open();
        assert!(container.faults.is_empty(), "{:?}", container.faults);
    }
}
