//! Target of fuzzers: what may lie behind the chunks of a stored file. Used by `fuzzing`.

use std::sync::Arc;

use super::base::StoredChunks;
use super::encode::encoded_zeros;
use super::mark::{PendingMerge, TailMark};
use super::recovery::left_log;
use super::relaid::read_through_log;
use super::tail::{RecordKind, TailRecord};
use crate::codec::checksum::Checksum;
use crate::container::bloscpack::layout::FileHeader;
use crate::fuzz_input::{FuzzInput, no_bug};
use crate::memory::budget::Budget;
use crate::source::{BytesSource, Source};

/// Plain bytes of a chunk.
const SIZE: u32 = 4096;
const CHUNKS: u64 = 3;

const KINDS: [RecordKind; 6] = [
    RecordKind::Data,
    RecordKind::Zeros,
    RecordKind::Length,
    RecordKind::Changed,
    RecordKind::Whole,
    RecordKind::Behind,
];

/// A few chunks with records behind them, or any bytes.
pub fn log(data: &[u8]) {
    let mut input = FuzzInput(data);
    let stored = match input.u8() {
        0 => input.bytes(data.len()).to_vec(),
        how => with_records(&mut input, how),
    };
    let source: Arc<dyn Source> = Arc::new(BytesSource::new(stored));
    let budget = Budget::new(16 << 20);
    no_bug(left_log(&*source));
    if let Some(Some(through)) = no_bug(read_through_log(&source, &budget)) {
        let mut bytes = vec![0; through.len().min(1 << 20) as usize];
        no_bug(through.read(0, &mut bytes));
        drop(through);
    }
    assert_eq!(budget.used(), 0);
}

/// A stored file of so many chunks of zeros, without a table. Tests begin with one, too.
pub(super) fn stored_zeros(size: u32, chunks: u64) -> Vec<u8> {
    let chunk = encoded_zeros(size as usize, Checksum::Adler32).expect("a chunk");
    let header = FileHeader {
        has_offsets: false,
        has_metadata: false,
        checksum: Checksum::Adler32,
        typesize: 1,
        chunk_size: Some(size),
        last_chunk: Some(size),
        nchunks: Some(chunks),
        max_app_chunks: 0,
    };
    let mut stored = header.bytes().to_vec();
    stored.extend(chunk.repeat(chunks as usize));
    stored
}

fn with_records(input: &mut FuzzInput<'_>, how: u8) -> Vec<u8> {
    let mut stored = stored_zeros(SIZE, CHUNKS);
    let source = BytesSource::new(stored.clone());
    let chunks = StoredChunks::read(&source, stored.len() as u64, SIZE).expect("chunks");
    let (start, fingerprint) = (chunks.end(), chunks.fingerprint());
    while !input.is_empty() {
        let what = input.u8();
        let kind = KINDS[usize::from(what & 15) % KINDS.len()];
        let number = |input: &mut FuzzInput<'_>, is_long: bool| match is_long {
            true => input.number::<8>(),
            false => input.number::<2>(),
        };
        let at = number(input, what & 64 != 0);
        let len = number(input, what & 128 != 0 && !matches!(kind, RecordKind::Data));
        let carried = match kind {
            RecordKind::Data => input.bytes(len as usize),
            // Of which the checksum is right, if it is that of these.
            RecordKind::Behind => input.bytes(4),
            _ => &[],
        };
        let len = match kind {
            RecordKind::Data => carried.len() as u64,
            _ => len,
        };
        TailRecord::write(kind, (at, len), carried, fingerprint, &mut stored);
    }
    let mark = match how {
        1 => TailMark::Log { start, fingerprint },
        how => TailMark::Redo(PendingMerge {
            start,
            fingerprint,
            end: start.saturating_sub(u64::from(how)),
        }),
    };
    stored.extend(mark.bytes());
    stored
}
