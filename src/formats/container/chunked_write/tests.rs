//! An array of chunks in memory, of which each byte is encoded as the next one.

use proptest::prelude::*;

use super::dirty::dirty_chunks;
use super::*;
use crate::array::chunking::EvenChunks;
use crate::range_set::RangeSet;

struct Sample {
    plain: Vec<u8>,
    grid: EvenChunks,
    dirty: RangeSet,
    together: u64,
    ahead: Option<AheadOf>,
    /// Zeros are known to be some.
    tells_zeros: bool,
    reads: AtomicU64,
}

/// One block, as it was encoded.
struct AheadOf(u64, Vec<u8>);

impl DoneBefore for AheadOf {
    fn take(&self, block: ChunkId, take: &mut dyn FnMut(&[u8])) -> bool {
        let is_this = self.0 == block.number;
        if is_this {
            take(&self.1);
        }
        is_this
    }
}

impl Sample {
    fn new(plain: Vec<u8>, size: u64, changed: &[Range<u64>], together: u64) -> Sample {
        let grid = EvenChunks::new(size, plain.len() as u64);
        Sample {
            dirty: dirty_chunks(&grid, Some(&grid), changed.iter().cloned()),
            plain,
            grid,
            together,
            ahead: None,
            tells_zeros: false,
            reads: AtomicU64::new(0),
        }
    }

    fn of_batch(&self, batch: &Batch) -> Vec<u8> {
        let range = |run: &Range<u64>| self.grid.range(run.clone());
        let bytes = batch.runs().iter().map(range);
        bytes
            .flat_map(|bytes| &self.plain[bytes.start as usize..bytes.end as usize])
            .copied()
            .collect()
    }

    fn written(&self, budget: &Arc<Budget>) -> Result<(Written<'_>, BatchCounts)> {
        let needs = |threads| self.needs(threads);
        let mut memory = EncodeMemory::reserve(&needs, self.dirty.len(), 10, budget)?;
        let mut written = Written {
            of: self,
            bytes: Vec::new(),
            kept: 0,
        };
        let counts = write_chunks(self, &mut memory, &mut written)?;
        Ok((written, counts))
    }
}

impl ChunkedArray for Sample {
    type Settings = ();

    fn chunking(&self) -> impl Chunking {
        self.grid
    }

    fn dirty(&self) -> &RangeSet {
        &self.dirty
    }

    fn chunks_together(&self) -> u64 {
        self.together
    }

    fn needs(&self, threads: usize) -> Result<EncodeNeeds> {
        let plain = self.plain.len() as u64;
        Ok(EncodeNeeds {
            plain,
            out: plain,
            scratch: 64 * threads as u64,
        })
    }

    fn settings(&self, _: &Batch) -> Result<()> {
        Ok(())
    }

    fn is_known_zeros(&self, batch: &Batch) -> bool {
        self.tells_zeros && are_zeros(&self.of_batch(batch))
    }

    fn read(&self, batch: &Batch, plain: &mut [u8], _: Arena<'_>) -> Result<()> {
        plain.copy_from_slice(&self.of_batch(batch));
        self.reads.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn encode(
        &self,
        (): &(),
        plain: &[u8],
        out: &mut [u8],
        mut scratch: Arena<'_>,
        threads: usize,
    ) -> Result<usize> {
        scratch.take(64 * threads as u64)?;
        for (out, plain) in out.iter_mut().zip(plain) {
            *out = plain.wrapping_add(1);
        }
        Ok(plain.len())
    }

    fn ahead(&self, batch: &Batch) -> Option<(&dyn DoneBefore, ChunkId)> {
        let block = ChunkId {
            shape: self.grid.shape(),
            number: batch.first(),
        };
        self.ahead.as_ref().map(|ahead| (ahead as _, block))
    }

    fn is_encoded(&self, _: &Batch, bytes: &[u8]) -> bool {
        bytes != b"damaged"
    }
}

/// What was written, a byte for each plain one.
struct Written<'a> {
    of: &'a Sample,
    bytes: Vec<u8>,
    kept: u64,
}

impl ChunkWriter for Written<'_> {
    fn keep(&mut self, chunks: Range<u64>) -> Result<()> {
        assert!(!chunks.is_empty());
        let bytes = self.of.grid.range(chunks.clone());
        assert_eq!(bytes.start, self.bytes.len() as u64);
        self.kept += chunks.end - chunks.start;
        self.bytes.resize(bytes.end as usize, 255);
        Ok(())
    }

    fn put(&mut self, chunks: Range<u64>, batch: &EncodedBatch<'_>) -> Result<()> {
        let bytes = self.of.grid.range(chunks);
        assert_eq!(bytes.start, self.bytes.len() as u64);
        // All chunks of a batch but the last one of the array are as large.
        let size = self.of.grid.bytes(0..1);
        let from = (batch.before * size) as usize;
        let len = (bytes.end - bytes.start) as usize;
        self.bytes.extend(&batch.bytes[from..from + len]);
        Ok(())
    }
}

fn numbered(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 250) as u8).collect()
}

proptest! {
    #[test]
    fn every_chunk_is_kept_or_put_in_order(
        size in 1u64..9,
        len in 0usize..3000,
        changed in proptest::collection::vec((0u64..3000, 1u64..400), 0..8),
        together in prop_oneof![Just(1u64), Just(8), Just(64)],
        memory in prop_oneof![Just(1u64), Just(64 << 20)],
    ) {
        let changed: Vec<_> = changed.into_iter().map(|(at, len)| at..at + len).collect();
        let sample = Sample::new(numbered(len), size, &changed, together);
        let budget = Budget::new(memory);
        let (written, _) = sample.written(&budget).unwrap();
        prop_assert_eq!(budget.used(), 0);
        let is_dirty = |at: usize| sample.dirty.iter().flatten().any(|chunk| chunk == at as u64 / size);
        let expected: Vec<u8> = (0..len)
            .map(|at| if is_dirty(at) { sample.plain[at] + 1 } else { 255 })
            .collect();
        prop_assert_eq!(written.bytes, expected);
        prop_assert_eq!(written.kept, sample.grid.chunks() - sample.dirty.len());
    }
}

#[test]
fn zeros_are_encoded_once() {
    let mut plain = vec![0; 4000];
    plain[10..20].fill(7);
    let all = std::iter::once(0..4000).collect::<Vec<_>>();
    for tells_zeros in [false, true] {
        let mut sample = Sample::new(plain.clone(), 10, &all, 1);
        sample.tells_zeros = tells_zeros;
        for _ in 0..20 {
            let (written, counts) = sample.written(&Budget::new(1 << 20)).unwrap();
            assert!(written.bytes.iter().zip(&plain).all(|(a, b)| *a == b + 1));
            let expected = BatchCounts {
                encoded: 2,
                ahead: 0,
                zeros: 398,
            };
            assert_eq!(counts, expected);
        }
    }
}

#[test]
fn zeros_that_are_known_are_not_read_again() {
    let all = std::iter::once(0..4000).collect::<Vec<_>>();
    let mut sample = Sample::new(vec![0; 4000], 10, &all, 1);
    sample.tells_zeros = true;
    // One thread, so that the first is done before the second begins.
    let budget = Budget::new(1);
    let (_, counts) = sample.written(&budget).unwrap();
    assert_eq!((counts.encoded, counts.zeros), (1, 399));
    assert_eq!(sample.reads.load(Ordering::Relaxed), 1);
}

#[test]
fn what_was_encoded_ahead_is_taken_if_it_can_be_that() {
    let all = std::iter::once(0..100).collect::<Vec<_>>();
    let mut sample = Sample::new(numbered(100), 10, &all, 1);
    for (bytes, ahead) in [(&b"elsewhere!"[..], 1), (b"damaged", 0), (&[1; 101], 0)] {
        sample.ahead = Some(AheadOf(2, bytes.to_vec()));
        let (written, counts) = sample.written(&Budget::new(1 << 20)).unwrap();
        assert_eq!((counts.ahead, counts.encoded), (ahead, 10 - ahead));
        let expected = match ahead {
            1 => bytes.to_vec(),
            _ => (21..31).collect(),
        };
        assert_eq!(written.bytes[20..30], expected);
    }
}

#[test]
fn one_batch_is_encoded_alone_if_there_is_memory_to_spare() {
    let one = std::iter::once(31..32).collect::<Vec<_>>();
    let sample = Sample::new(numbered(100), 10, &one, 4);
    let budget = Budget::new(1 << 20);
    let alone = encode_alone(&sample, &budget).unwrap();
    assert_eq!(alone, Some((31..41).collect()));
    assert_eq!(encode_alone(&sample, &Budget::new(1000)).unwrap(), None);
    let _others = budget.reserve(budget.limit());
    assert_eq!(encode_alone(&sample, &budget).unwrap(), None);
}
