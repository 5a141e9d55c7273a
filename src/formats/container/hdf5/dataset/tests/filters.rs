//! Chunks that skip filters, and filters that have no decoder.

use super::*;

#[test]
fn filters_without_a_decoder_are_no_damage_and_have_no_bytes() {
    let mut odd = chunked(&[3], &[3], Some(vec![chunk(0, 0, 6)]));
    odd.filters = vec![filter(33999)];
    let Ok(OpenedDataset::Array {
        array,
        trouble: Some(Error::NotShown(_)),
        ..
    }) = opened(&[0; 6], &odd, Arc::new(|_| Ok(ChunkTable::small(&[]))))
    else {
        panic!("no trouble");
    };
    assert_eq!(array.info().unwrap().codec, "filter-33999");
    assert!(fault(&*array, 0..6).contains("33999"));
    assert!(
        array
            .decode(BlockId(0), &mut [0; 6], Arena::none())
            .is_err()
    );
}

#[test]
fn a_shuffle_without_a_width_is_skipped() {
    let stored = gzip(&[1, 2, 3, 4]);
    let mut skips = chunk(0, 0, stored.len() as u64);
    skips.mask = 1;
    let mut of = chunked(&[2], &[2], Some(vec![skips]));
    of.filters = vec![filter(SHUFFLE), filter(GZIP)];
    of.filters[0].values.clear();
    assert_eq!(read_all(&*open(&stored, &of)).unwrap(), [1, 2, 3, 4]);
    let unmasked = chunk(0, 0, stored.len() as u64);
    of.layout = chunked(&[2], &[2], Some(vec![unmasked])).layout;
    let array = open(&stored, &of);
    assert!(fault(&*array, 0..4).contains("the size of its elements is missing"));
}

/// A chunk that skips what has no decoder is read, one that does not costs no other.
#[test]
fn a_filter_without_a_decoder_is_refused_chunk_by_chunk() {
    let plain = gzip(&[1, 2, 3, 4]);
    let at = plain.len() as u64;
    let file = [&plain[..], &[9; 8]].concat();
    let mut skips = chunk(0, 0, at);
    skips.mask = 2;
    let open_with = |table: Vec<ChunkEntry>| {
        let mut of = chunked(&[4], &[2], None);
        let applied = table.iter().fold(0, |all, chunk| all | !chunk.mask);
        of.layout = StorageLayout::Chunked {
            chunk: vec![2],
            first_most: 0,
            early: false,
            plain_edges: false,
            applied,
            table: Some(table),
        };
        of.filters = vec![filter(GZIP), filter(32013)];
        let tables: ChunkTables = Arc::new(|_| panic!("it is there"));
        match opened(&file, &of, tables) {
            Ok(OpenedDataset::Array { array, trouble, .. }) => (array, trouble),
            _ => panic!("not opened"),
        }
    };
    let (array, trouble) = open_with(vec![skips]);
    assert!(trouble.is_none());
    assert_eq!(read_all(&*array).unwrap(), [1, 2, 3, 4, 0, 0, 0, 0]);
    assert_eq!(array.info().unwrap().codec, "gzip+filter-32013");

    let (array, trouble) = open_with(vec![skips, chunk(1, at, 8)]);
    let why = "filter 32013 (zfp): there is no decoder for it";
    let is_not_shown = |error: &Error| match error {
        Error::NotShown(not) => not.why == why,
        _ => false,
    };
    assert!(trouble.is_some_and(|error| is_not_shown(&error)));
    assert_eq!(read(&*array, 0..4).unwrap(), [1, 2, 3, 4]);
    assert!(is_not_shown(&read(&*array, 3..5).unwrap_err()));
    assert_eq!(survey(&*array), (vec![0], vec![(4, 1)]));
}

#[test]
fn edges_may_be_without_filters() {
    let (first, last) = ([1, 0, 2, 0], [3, 0, 4, 0]);
    let stored = gzip(&first);
    let at = stored.len() as u64;
    let mut of = chunked(&[3], &[2], None);
    of.layout = StorageLayout::Chunked {
        chunk: vec![2],
        first_most: 0,
        early: false,
        plain_edges: true,
        applied: u32::MAX,
        table: Some(vec![chunk(0, 0, at), chunk(1, at, 4)]),
    };
    of.filters = vec![filter(GZIP)];
    let array = open(&[&stored[..], &last].concat(), &of);
    assert_eq!(read_all(&*array).unwrap(), [1, 0, 2, 0, 3, 0]);
}
