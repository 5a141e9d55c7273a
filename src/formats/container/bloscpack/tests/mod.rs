//! Whole files: recognised, opened, read in pieces and checked, sound and damaged.

mod far;
pub(crate) mod files;
mod lies;
mod random_lies;

use proptest::prelude::*;
use std::path::Path;

use super::*;
use crate::array::uncached::read;
use crate::array::{Array, Piece};
use crate::container::Preferences;
use crate::memory::Arena;
use crate::source::FileKind;
use files::{File, Stored};

/// 10 007 bytes without a short period.
pub(crate) fn plain() -> Vec<u8> {
    (0..10_007u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect()
}

pub(crate) fn data(container: &Container) -> &dyn Array {
    assert_eq!(container.arrays.len(), 1, "{:?}", container.faults);
    &*container.arrays[0]
}

pub(crate) fn verify(array: &dyn Array) -> Vec<String> {
    let mut faults = Vec::new();
    array
        .verify(&mut |fault| faults.push(fault.to_string()))
        .unwrap();
    faults
}

/// Opens the file and reads it whole; it must be sound.
fn check_good(file: &File, plain: &[u8]) {
    let stored = Stored::new(&file.bytes());
    let container = stored.open();
    assert!(container.faults.is_empty(), "{:?}", container.faults);
    let array = data(&container);
    assert_eq!(array.info().unwrap().bytes, plain.len() as u64);
    assert!(read(array, 0..plain.len() as u64).unwrap() == plain);
    assert!(verify(array).is_empty(), "{:?}", verify(array));
}

/// The chunks of a file of `plain` in chunks of `size` that cannot be read; the others must be
/// right.
pub(crate) fn bad_chunks(bytes: &[u8], plain: &[u8], size: usize) -> Vec<usize> {
    let stored = Stored::new(bytes);
    let container = stored.open();
    let array = data(&container);
    let mut bad = Vec::new();
    // Backwards, so that later chunks are found without the help of earlier ones.
    for (i, part) in plain
        .chunks(size)
        .enumerate()
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
    {
        let from = (i * size) as u64;
        match read(array, from..from + part.len() as u64) {
            Ok(found) => assert!(found == part, "chunk {i}"),
            Err(Error::Fault(fault)) => {
                assert_eq!(fault.block, Some(i as u64), "{fault}");
                assert!(fault.bytes.is_some(), "{fault}");
                bad.insert(0, i);
            }
            Err(other) => panic!("{other}"),
        }
    }
    bad
}

#[test]
fn recognised_by_magic_and_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let store = crate::source::local::LocalStore::open(dir.path(), dir.path()).unwrap();
    let verdict = |name: &str, content: &[u8]| {
        std::fs::write(dir.path().join(name), content).unwrap();
        Bloscpack
            .recognise(&Candidate::new(
                &store,
                Path::new(name),
                FileKind::File,
                Preferences::default(),
            ))
            .unwrap()
    };
    assert!(matches!(verdict("any", b"blpk"), Verdict::Yes));
    assert!(matches!(verdict("any", b"blp"), Verdict::No));
    assert!(matches!(verdict("any.BLP", b"zzzzzz"), Verdict::No));
    let Verdict::Damaged(fault) = verdict("a.blp", b"zzzzzz") else {
        panic!()
    };
    assert_eq!(fault.found.unwrap(), "7a 7a 7a 7a");
    let Verdict::Damaged(fault) = verdict("a.blp", b"") else {
        panic!()
    };
    assert_eq!(fault.found.unwrap(), "0 bytes");
    let directory = Candidate::new(
        &store,
        Path::new("a.blp"),
        FileKind::Directory,
        Preferences::default(),
    );
    assert!(matches!(
        Bloscpack.recognise(&directory).unwrap(),
        Verdict::No
    ));
}

#[test]
fn short_files_are_refused() {
    let bytes = File::new(b"abc", 16).bytes();
    for len in [4, 31, 32, 50] {
        let container = Stored::new(&bytes[..len]).open();
        assert!(container.arrays.is_empty() && container.faults.len() == 1);
    }
}

#[test]
fn what_a_sound_file_shows() {
    let text = br#"{"dtype":"'<f8'","shape":[5,2],"order":"F","container":"numpy"}"#;
    let metadata = files::metadata(text, 0, text.len(), 300);
    let container = Stored::new(&File::new(&[7; 80], 32).with_metadata(metadata).bytes()).open();
    let info = data(&container).info().unwrap();
    assert_eq!(
        (info.dtype.name().as_ref(), info.shape, info.blocks),
        ("float64", vec![5, 2], 3)
    );
    assert_eq!(
        (info.order.name(), info.bytes, info.codec.as_ref()),
        ("F", 80, "blosc lz4 shuffle")
    );
    assert_eq!(
        (container.version.as_str(), &container.texts[0].content[..]),
        ("3", &text[..])
    );
    assert_eq!(container.attributes["metadata"]["shape"][0], 5);
    assert_eq!(container.attributes["checksum"], "adler32");
    assert_eq!(container.attributes["nchunks"], 3);
}

#[test]
fn numpy_metadata_that_no_longer_fit_are_a_note() {
    let text = br#"{"dtype":"'<f8'","shape":[9],"order":"C","container":"numpy"}"#;
    let metadata = files::metadata(text, 0, text.len(), 300);
    let container = Stored::new(&File::new(&[7; 80], 32).with_metadata(metadata).bytes()).open();
    let info = data(&container).info().unwrap();
    assert_eq!(
        (info.dtype.name().as_ref(), info.shape),
        ("uint8", vec![80])
    );
    assert!(container.faults.is_empty());
    assert!(
        container.attributes["note"]
            .as_str()
            .unwrap()
            .contains("72 bytes")
    );
}

#[test]
fn damaged_metadata_leave_the_data() {
    let metadata = files::metadata(b"{]", 0, 2, 30);
    let file = File::new(&plain(), 1000).with_metadata(metadata);
    let stored = Stored::new(&file.bytes());
    let container = stored.open();
    assert_eq!((container.faults.len(), container.texts.len()), (1, 0));
    assert!(read(data(&container), 0..10_007).unwrap() == plain());
}

#[test]
fn offsets_absent_unfilled_or_with_junk_behind() {
    let mut file = File::new(&plain(), 1000);
    check_good(&file, &plain());
    file.junk = vec![9; 100];
    check_good(&file, &plain());
    file.offsets.fill(-1);
    check_good(&file, &plain());
    check_good(&file.without_offsets(), &plain());
}

#[test]
fn wrong_offsets_harm_no_chunk_and_are_reported() {
    let file = || File::new(&plain(), 1000);
    type Change = fn(&mut Vec<i64>);
    let changes: [(&str, Change); 8] = [
        ("far", |o| o[3] = 1 << 40),
        ("absurd", |o| o[3] = i64::MAX),
        ("negative", |o| o[3] = -7),
        ("first", |o| o[0] = 8),
        ("one unknown", |o| o[5] = -1),
        ("swapped", |o| o.swap(4, 5)),
        ("shifted", |o| o[1..11].iter_mut().for_each(|o| *o += 1)),
        ("last", |o| o[10] += 3),
    ];
    for (name, change) in changes {
        let mut file = file();
        change(&mut file.offsets);
        let bytes = file.bytes();
        assert!(bad_chunks(&bytes, &plain(), 1000).is_empty(), "{name}");
        let stored = Stored::new(&bytes);
        let faults = verify(data(&stored.open()));
        assert!(faults[0].contains("offsets section"), "{name}: {faults:?}");
    }
    let mut file = file();
    file.offsets[12] = 5;
    assert_eq!(
        verify(data(&Stored::new(&file.bytes()).open())).len(),
        1,
        "a spare entry"
    );
}

#[test]
fn a_bad_header_harms_its_chunk_alone() {
    for (at, value) in [(0, 3), (2, 0x3b), (12, 0), (14, 0xff), (4, 0), (8, 0)] {
        let mut file = File::new(&plain(), 1000);
        file.chunks[4][at] = value;
        let bytes = file.bytes();
        assert_eq!(bad_chunks(&bytes, &plain(), 1000), [4], "byte {at}");
        // Without the table the rest is lost only if the length is.
        let found = bad_chunks(&file.without_offsets().bytes(), &plain(), 1000);
        let all = (4..11).collect::<Vec<_>>();
        assert_eq!(
            found,
            if [12, 14].contains(&at) {
                &all[..]
            } else {
                &[4]
            },
            "byte {at}"
        );
    }
}

#[test]
fn a_changed_byte_is_found_by_the_digest() {
    let mut bytes = File::new(&plain(), 1000).bytes();
    let in_chunk_2 = bytes.len() - 27 - 7 * 1020 - 500;
    bytes[in_chunk_2] ^= 1;
    assert_eq!(bad_chunks(&bytes, &plain(), 1000), [2]);
}

#[test]
fn truncated_files_show_what_is_left() {
    let bytes = File::new(&plain(), 1000).bytes();
    let plain = plain();
    for (cut, first_bad) in [(1, 10), (4, 10), (27, 10), (28, 9), (1500, 8)] {
        let bad: Vec<usize> = (first_bad..11).collect();
        assert_eq!(
            bad_chunks(&bytes[..bytes.len() - cut], &plain, 1000),
            bad,
            "{cut}"
        );
        let mut unfilled = File::new(&plain, 1000).without_offsets().bytes();
        unfilled.truncate(unfilled.len() - cut);
        assert_eq!(bad_chunks(&unfilled, &plain, 1000), bad, "{cut}");
    }
}

#[test]
fn chunks_of_another_size_than_the_header_says() {
    let mut chunks: Vec<_> = plain()
        .chunks(1000)
        .map(|part| files::chunk(part, 16))
        .collect();
    chunks[3] = files::chunk(&plain()[3000..3900], 16);
    chunks[6] = files::chunk(&plain()[6000..7100], 16);
    assert_eq!(
        bad_chunks(&File::of_chunks(chunks, 1000).bytes(), &plain(), 1000),
        [3, 6]
    );
}

#[test]
fn unknown_sizes_come_from_the_chunks() {
    let parts = [
        0..10,
        10..10,
        10..5000,
        5000..5001,
        5001..10_007,
        10_007..10_007,
    ];
    let chunks = || {
        parts
            .iter()
            .map(|r| files::chunk(&plain()[r.clone()], 16))
            .collect()
    };
    for unknown in [8..12, 12..16, 8..16] {
        let mut file = File::of_chunks(chunks(), 6000);
        file.header[unknown.clone()].fill(0xff);
        check_good(&file, &plain());
        file = file.without_offsets();
        file.header[16..24].fill(0xff);
        file.header[24..].fill(0);
        check_good(&file, &plain());
    }
    let mut file = File::of_chunks(chunks(), 6000);
    file.header[8..16].fill(0xff);
    file.chunks[4][0] = 9;
    let container = Stored::new(&file.bytes()).open();
    assert_eq!(
        data(&container).info().unwrap().bytes,
        5001,
        "shown up to the damage"
    );
    assert!(container.faults[0].what.contains("only up to here"));
    file.chunks[0][0] = 9;
    let container = Stored::new(&file.bytes()).open();
    assert!(container.arrays.is_empty() && container.faults.len() == 1);
}

#[test]
fn a_file_that_does_not_say_that_it_is_empty_is_not_shown_as_empty() {
    let container = Stored::new(&files::header(0, 1, 100, 100, -1, 0)).open();
    assert!(container.arrays.is_empty() && container.faults.len() == 1);
    let container = Stored::new(&files::header(0, 1, 100, 100, 0, 0)).open();
    assert_eq!(data(&container).info().unwrap().bytes, 0);
}

#[test]
fn empty_chunks_are_checked() {
    let empty = || File::of_chunks(vec![files::chunk(b"", 1)], 0);
    check_good(&empty(), b"");
    let mut bytes = empty().bytes();
    *bytes.last_mut().unwrap() ^= 1;
    let container = Stored::new(&bytes).open();
    assert_eq!(
        (container.faults.len(), verify(data(&container)).len()),
        (1, 1)
    );
    let mut file = File::of_chunks(vec![files::chunk(b"abc", 3)], 0);
    file.header[12..16].fill(0);
    assert_eq!(
        Stored::new(&file.bytes()).open().faults.len(),
        1,
        "not empty at all"
    );
}

#[test]
fn blocks_in_any_order_and_large_chunks() {
    let plain: Vec<u8> = plain().iter().copied().cycle().take(6 << 20).collect();
    for (size, blocksize) in [
        (6 << 20, 100_000),
        (6 << 20, 6000),
        (1 << 20, 50_000),
        (5000, 64),
    ] {
        for reversed in [false, true] {
            let chunk = |part| files::blocked_chunk(part, blocksize, reversed);
            let mut file = File::of_chunks(plain.chunks(size).map(chunk).collect(), size);
            check_good(&file, &plain);
            file.header[6] = 0;
            let first = file.offsets[0];
            file.offsets[..]
                .iter_mut()
                .enumerate()
                .for_each(|(i, offset)| {
                    *offset -= if *offset > first { 4 * i as i64 } else { 0 };
                });
            check_good(&file, &plain);
        }
    }
}

#[test]
fn many_chunks_span_segments() {
    let plain: Vec<u8> = plain().iter().copied().cycle().take(30_000).collect();
    let file = File::new(&plain, 19);
    assert_eq!(file.chunks.len(), 1579);
    check_good(&file, &plain);
    assert!(bad_chunks(&file.bytes(), &plain, 19).is_empty());
    let file = file.without_offsets();
    check_good(&file, &plain);
    assert!(bad_chunks(&file.bytes(), &plain, 19).is_empty());
    let mut file = File::new(&plain, 19);
    file.offsets[1100] += 1;
    assert!(bad_chunks(&file.bytes(), &plain, 19).is_empty());
    let mut file = File::new(&plain, 19).without_offsets();
    file.header[8..16].fill(0xff);
    check_good(&file, &plain);
}

#[test]
fn claimed_sizes_take_no_memory() {
    let mut chunk = files::blocked_chunk(&[1; 100], 100, false);
    chunk[4..8].copy_from_slice(&2_000_000_000u32.to_le_bytes());
    chunk[8..12].copy_from_slice(&700_000_000u32.to_le_bytes());
    let mut file = File::of_chunks(vec![chunk], 2_000_000_000);
    let stored = Stored::new(&file.bytes());
    let container = stored.open();
    let array = data(&container);
    let mut pieces = Vec::new();
    array.pieces(0..2_000_000_000, &mut pieces).unwrap();
    for piece in &pieces[..2] {
        let Piece::Block { id, block_len, .. } = *piece else {
            panic!("not a block")
        };
        assert!(block_len <= 1 << 20 && array.scratch(id) == 0);
        let mut out = vec![0; block_len as usize];
        assert!(array.decode(id, &mut out, Arena::none()).is_err());
    }
    file.header[8..16].fill(0xff);
    assert!(
        Stored::new(&file.bytes()).open().arrays.is_empty(),
        "no size from such a claim"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn any_range_of_any_file(
        len in 1usize..10_007, size in 1usize..4000, blocksize in 1usize..4000, kind in 0..4,
        table in any::<bool>(), a in 0u64..10_007, b in 0u64..10_007,
    ) {
        let plain = &plain()[..len];
        let chunk = |part: &[u8]| match kind {
            0 => files::chunk(part, 1),
            1 => files::blocked_chunk(part, blocksize.min(part.len()), true),
            _ => files::blocked_chunk(part, blocksize.min(part.len()), false),
        };
        let size = size.min(len);
        let mut file = File::of_chunks(plain.chunks(size).map(chunk).collect(), size);
        if !table {
            file = file.without_offsets();
        }
        if kind == 3 {
            file.header[8..16].fill(0xff);
        }
        let stored = Stored::new(&file.bytes());
        let container = stored.open();
        let (start, end) = (a.min(b).min(len as u64), a.max(b).min(len as u64));
        let found = read(data(&container), start..end).unwrap();
        prop_assert!(found == plain[start as usize..end as usize]);
    }

    #[test]
    fn damage_anywhere_is_no_panic(
        at in 0usize..3000, value in any::<u8>(), cut in 0usize..3000, options in any::<bool>(),
    ) {
        let metadata = files::metadata(br#"{"a":1}"#, 0, 7, 20);
        let mut file = File::new(&plain()[..2000], 100).with_metadata(metadata);
        if options {
            file.header[6] = 0;
        }
        let mut bytes = file.bytes();
        let (at, cut) = (at % bytes.len(), cut % bytes.len());
        bytes[at] = value;
        bytes.truncate(bytes.len() - cut / 4);
        let stored = Stored::new(&bytes);
        let container = stored.open();
        for array in &container.arrays {
            let end = array.info().unwrap().bytes.min(1 << 16);
            for from in (0..end).step_by(64) {
                let _ = read(&**array, from..(from + 64).min(end));
            }
            verify(&**array);
        }
    }
}
