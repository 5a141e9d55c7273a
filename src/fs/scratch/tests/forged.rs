//! Logs that claim much: reading through one costs memory and time by what is stored.

use super::*;
use crate::codec::checksum::Checksum;
use crate::container::bloscpack::layout::{self, FileHeader};
use crate::memory::budget::Budget;
use crate::scratch::encode::encoded_plain;
use crate::scratch::fuzzed::stored_zeros;
use crate::scratch::mark::TailMark;
use crate::scratch::tail::{RecordKind, TailRecord};
use crate::source::{BytesSource, Source};

const SIZE: u32 = 8 << 20;
const CHUNKS: u64 = 64;

/// Half a gigabyte of zeros, and a log.
fn zeros_with_log(records: impl IntoIterator<Item = (RecordKind, u64, u64)>) -> Vec<u8> {
    let stored = stored_zeros(SIZE, CHUNKS);
    with_log(stored, SIZE, records)
}

/// These chunks, and a log behind them.
fn with_log(
    mut stored: Vec<u8>,
    size: u32,
    records: impl IntoIterator<Item = (RecordKind, u64, u64)>,
) -> Vec<u8> {
    let source = BytesSource::new(stored.clone());
    let chunks = StoredChunks::read(&source, stored.len() as u64, size).unwrap();
    assert_eq!(chunks.form.chunk_size, size);
    let (start, fingerprint) = (chunks.end(), chunks.fingerprint());
    let records = records.into_iter();
    for (kind, at, len) in records.chain([(RecordKind::Whole, 0, 0)]) {
        let bytes = match kind {
            RecordKind::Data => vec![7; len as usize],
            _ => Vec::new(),
        };
        TailRecord::write(kind, (at, len), &bytes, fingerprint, &mut stored);
    }
    stored.extend(TailMark::Log { start, fingerprint }.bytes());
    assert!(layout::has_log(&BytesSource::new(stored.clone())).unwrap());
    stored
}

/// What is read of one chunk.
fn chunk_through_log(stored: Vec<u8>, number: u64) -> (Vec<u8>, u64) {
    let budget = Budget::new(64 << 20);
    let source: Arc<dyn Source> = Arc::new(BytesSource::new(stored));
    let through = read_through_log(&source, &budget).unwrap().unwrap();
    let chunks = StoredChunks::read(&*through, through.len(), SIZE).unwrap();
    let mut plain = vec![1; chunks.plain(number)];
    chunks.decode(&*through, number, &mut plain).unwrap();
    (plain, budget.used())
}

#[test]
fn a_byte_in_each_chunk_has_none_of_them_held() {
    let bytes = (0..CHUNKS).map(|number| (RecordKind::Data, number * u64::from(SIZE) + 5, 1));
    let stored = zeros_with_log(bytes);
    assert!(stored.len() < 64 << 10);
    let (plain, used) = chunk_through_log(stored, 9);
    assert!(
        plain
            .iter()
            .enumerate()
            .all(|(at, byte)| *byte == 7 * u8::from(at == 5))
    );
    assert!(used < 20 << 20, "{used}");
}

/// Chunks of a byte each: every byte of the log is one that changes.
#[test]
fn more_chunks_than_there_is_memory_for_are_refused_before_they_are_laid_out() {
    let chunk = encoded_plain(&[1], Checksum::Adler32).unwrap();
    let header = FileHeader {
        has_offsets: false,
        has_metadata: false,
        checksum: Checksum::Adler32,
        typesize: 1,
        chunk_size: Some(1),
        last_chunk: Some(1),
        nchunks: Some(2),
        max_app_chunks: 0,
    };
    let stored = [&header.bytes()[..], &chunk, &chunk].concat();
    let records = (0..4u64).map(|at| (RecordKind::Data, at << 19, 1 << 19));
    let chunks_alone = stored.clone();
    let stored = with_log(stored, 1, records);
    let source: Arc<dyn Source> = Arc::new(BytesSource::new(stored));
    let refused = read_through_log(&source, &Budget::new(64 << 20));
    let refused = refused.err().expect("two million chunks");
    assert!(refused.is_no_memory(), "{refused}");
    // As few as fit are read.
    let few = with_log(chunks_alone, 1, [(RecordKind::Data, 0, 1000)]);
    let source: Arc<dyn Source> = Arc::new(BytesSource::new(few));
    let through = read_through_log(&source, &Budget::new(64 << 20))
        .unwrap()
        .unwrap();
    let chunks = StoredChunks::read(&*through, through.len(), 1).unwrap();
    let mut plain = [0];
    chunks.decode(&*through, 999, &mut plain).unwrap();
    assert_eq!((chunks.chunks(), plain), (1000, [7]));
}

#[test]
fn zeros_over_everything_are_not_laid_chunk_by_chunk() {
    let all = CHUNKS * u64::from(SIZE);
    let many = (0..100_000).map(|at| (RecordKind::Zeros, at % 7, all));
    let stored = zeros_with_log(many.chain([(RecordKind::Data, all - 1, 1)]));
    let (plain, used) = chunk_through_log(stored, CHUNKS - 1);
    assert_eq!(plain.iter().map(|byte| u64::from(*byte)).sum::<u64>(), 7);
    assert!(used < 20 << 20, "{used}");
}

#[test]
fn a_length_beyond_what_a_file_can_have_is_no_log() {
    let budget = Budget::new(64 << 20);
    let stored = zeros_with_log([(RecordKind::Length, u64::MAX, 0)]);
    let source: Arc<dyn Source> = Arc::new(BytesSource::new(stored));
    assert!(read_through_log(&source, &budget).unwrap().is_none());
    // The longest that it can have takes next to nothing.
    let stored = zeros_with_log([(RecordKind::Length, u64::from(SIZE) * (8 << 20), 0)]);
    let source: Arc<dyn Source> = Arc::new(BytesSource::new(stored));
    assert!(read_through_log(&source, &budget).unwrap().is_some());
    assert!(budget.used() < 20 << 20, "{}", budget.used());
}
