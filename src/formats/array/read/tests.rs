//! Ranges of arrays that are made up, against their bytes.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::array::dtype::Dtype;
use crate::array::steps;
use crate::array::{Info, Order};
use crate::error::Fault;
use crate::memory::Arena;
use crate::sync::Mutex;
use proptest::prelude::*;

/// An array of two dimensions, in blocks of so many rows and columns; columns from `plain` on are
/// direct.
struct Grid {
    rows: u64,
    columns: u64,
    block: (u64, u64),
    plain: u64,
    bad_direct: Range<u64>,
    bad_pieces: u64,
    decodes: AtomicUsize,
    direct_reads: AtomicUsize,
    most_pieces: AtomicUsize,
    /// What a format with a bug would do to its pieces.
    spoil: Mutex<fn(&mut Vec<Piece>)>,
}

impl Default for Grid {
    fn default() -> Self {
        Grid {
            rows: 1,
            columns: 1 << 20,
            block: (1, 1 << 20),
            plain: u64::MAX,
            bad_direct: 0..0,
            bad_pieces: u64::MAX,
            decodes: AtomicUsize::new(0),
            direct_reads: AtomicUsize::new(0),
            most_pieces: AtomicUsize::new(0),
            spoil: Mutex::new(|_| {}),
        }
    }
}

fn byte(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

impl Grid {
    fn piece(&self, at: u64, end: u64) -> Piece {
        let (row, column) = (at / self.columns, at % self.columns);
        let left = (end - at).min(self.columns - column);
        if column >= self.plain {
            return Piece::Direct { at, take: left };
        }
        let (height, width) = self.block;
        let across = self.columns.div_ceil(width);
        Piece::Block {
            id: BlockId(row / height * across + column / width),
            block_len: height * width,
            skip: row % height * width + column % width,
            take: left.min(width - column % width).min(self.plain - column),
        }
    }

    fn count(&self, counter: &AtomicUsize) -> usize {
        counter.load(Ordering::Relaxed)
    }
}

impl Array for Grid {
    fn name(&self) -> &str {
        "grid"
    }

    fn info(&self) -> Result<Info> {
        Ok(Info {
            dtype: Dtype::Text,
            shape: vec![self.rows, self.columns],
            order: Order::C,
            bytes: self.rows * self.columns,
            stored_bytes: 0,
            blocks: 0,
            codec: "none".into(),
        })
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        if range.end > self.bad_pieces {
            return Err(Fault::new("no table").into());
        }
        let mut at = range.start;
        while at < range.end {
            let piece = self.piece(at, range.end);
            at += piece.take();
            out.push(piece);
        }
        self.most_pieces.fetch_max(out.len(), Ordering::Relaxed);
        self.spoil.lock()(out);
        Ok(())
    }

    fn places_known(&self, range: &Range<u64>) -> bool {
        range.end <= self.bad_pieces
    }

    fn decode(&self, block: BlockId, out: &mut [u8], _scratch: Arena<'_>) -> Result<()> {
        self.decodes.fetch_add(1, Ordering::Relaxed);
        let (_, width) = self.block;
        let across = self.columns.div_ceil(width);
        let row = block.0 / across * self.block.0;
        let first = row * self.columns + block.0 % across * width;
        for (row, out) in out.chunks_mut(width as usize).enumerate() {
            let start = first + row as u64 * self.columns;
            out.iter_mut()
                .zip(start..)
                .for_each(|(b, at)| *b = byte(at));
        }
        Ok(())
    }

    fn read_direct(&self, at: u64, out: &mut [u8]) -> Result<()> {
        self.direct_reads.fetch_add(1, Ordering::Relaxed);
        let end = at + out.len() as u64;
        if at < self.bad_direct.end && self.bad_direct.start < end {
            return Err(Fault::new("bad bytes").into());
        }
        out.iter_mut().zip(at..).for_each(|(b, at)| *b = byte(at));
        Ok(())
    }
}

fn cached(array: &Arc<Grid>, limit: u64, prefix: &[u8]) -> CachedArray {
    CachedArray {
        array: array.clone(),
        cache: BlockCache::new(limit),
        version: VersionId(1),
        index: ArrayIndex(0),
        container: "container".into(),
        group: "".into(),
        prefix: prefix.into(),
        bytes: array.rows * array.columns,
        is_far: false,
    }
}

fn read(array: &CachedArray, range: Range<u64>, tail: Tail) -> Result<Vec<u8>> {
    let len = (range.end - range.start) as usize;
    array.read(range.start, len, tail, |bytes| bytes.map(<[u8]>::to_vec))
}

fn assert_read(array: &CachedArray, range: Range<u64>) {
    let expected: Vec<u8> = range.clone().map(byte).collect();
    let found = read(array, range.clone(), Tail::Whole).unwrap();
    assert!(found == expected, "{range:?} differs");
}

#[test]
fn a_piece_for_every_byte_takes_little_memory_and_no_more_decodes() {
    let grid = Arc::new(Grid {
        rows: 1 << 19,
        columns: 4,
        block: (1 << 19, 1),
        ..Grid::default()
    });
    let array = cached(&grid, 8 << 20, b"");
    assert_read(&array, 1..(1 << 20) + 1);
    array.prefetch(1 << 20..2 << 20);
    array.let_go(0..1 << 20);
    assert_eq!(grid.count(&grid.decodes), 4);
    let most = grid.count(&grid.most_pieces);
    assert!(most <= steps::LEAST as usize, "{most} pieces");
    let whole = PlacedRange {
        from: 0..2 << 20,
        to: 0,
    };
    let ranges = [whole];
    let mut steps = PieceSteps::new(&*array.array, &ranges);
    let mut placed = Vec::new();
    while !steps.is_done() {
        steps.next(&mut placed).unwrap();
        assert!(placed.len() < steps::PIECES + steps::LEAST as usize);
    }
    assert_eq!(array.cache.blocks(), 4);
    array.let_go(0..2 << 20);
    assert_eq!(array.cache.blocks(), 0);
}

#[test]
fn a_range_of_one_block_is_answered_from_it() {
    let grid = Arc::new(Grid::default());
    let array = cached(&grid, 8 << 20, b"");
    for (at, len) in [(0, 1 << 20), (4096, 4096), (100_000, 900_001)] {
        let block = array.block(BlockId(0), 1 << 20).unwrap();
        let whence = array.read(at, len, Tail::Whole, |read| read.unwrap().as_ptr_range());
        assert_eq!(whence, block.bytes()[at as usize..][..len].as_ptr_range());
    }
}

#[test]
fn direct_bytes_are_read_at_once() {
    let plain = Grid {
        plain: 0,
        ..Grid::default()
    };
    let grid = Arc::new(plain);
    let array = cached(&grid, 1 << 20, b"");
    assert_read(&array, 5..1 << 20);
    assert_eq!(grid.count(&grid.direct_reads), 1);
}

#[test]
fn what_lies_before_a_fault_is_good() {
    let bad_direct = Grid {
        plain: 0,
        bad_direct: 500_000..500_001,
        ..Grid::default()
    };
    let bad_pieces = Grid {
        bad_pieces: 500_000,
        ..Grid::default()
    };
    for grid in [bad_direct, bad_pieces] {
        let array = cached(&Arc::new(grid), 8 << 20, b"");
        assert!(read(&array, 0..1 << 20, Tail::Whole).is_err());
        let good = read(&array, 0..1 << 20, Tail::GoodPart).unwrap();
        let near = 500_000 - steps::MOST as usize..=500_000;
        assert!(near.contains(&good.len()), "{}", good.len());
        assert!(good.iter().copied().eq((0..good.len() as u64).map(byte)));
    }
}

/// Or a reader would get what the last request has left in the buffer.
#[test]
fn pieces_that_do_not_cover_the_range_are_a_fault() {
    let grid = Arc::new(Grid {
        columns: 1 << 18,
        block: (1, 5000),
        ..Grid::default()
    });
    let array = cached(&grid, 8 << 20, b"");
    let spoils: [fn(&mut Vec<Piece>); 5] = [
        |_| {},
        |pieces| pieces.truncate(pieces.len() - 1),
        |pieces| pieces.clear(),
        |pieces| pieces.push(Piece::Direct { at: 0, take: 1 }),
        |pieces| {
            let take = u64::MAX;
            pieces.extend([Piece::Direct { at: 0, take }; 2]);
        },
    ];
    for (number, spoil) in spoils.into_iter().enumerate() {
        *grid.spoil.lock() = spoil;
        for range in [0..100, 0..10_000, 0..1 << 18] {
            let read = read(&array, range.clone(), Tail::Whole);
            assert_eq!(read.is_ok(), number == 0, "{number} {range:?}");
            if let Err(e) = read {
                let told = "container: grid: the pieces do not cover the range";
                assert!(e.to_string().starts_with(told), "{e}");
            }
        }
        array.prefetch(0..1 << 18);
        array.let_go(0..1 << 18);
    }
}

proptest! {
    #[test]
    fn every_range_of_every_grid_is_read(
        (rows, columns) in (1u64..200, 1u64..3000),
        (height, width) in (1u64..70, 1u64..900),
        plain in 0u64..4000,
        prefix in 0usize..50,
        ranges in proptest::collection::vec((0.0..1.0, 0.0..1.0), 1..4),
    ) {
        let block = (height, width);
        let grid = Arc::new(Grid { rows, columns, block, plain, ..Grid::default() });
        let prefix = vec![0xee; prefix];
        let array = cached(&grid, 1 << 20, &prefix);
        let size = array.size();
        let all: Vec<u8> = prefix.iter().copied().chain((0..array.bytes).map(byte)).collect();
        for (a, b) in ranges {
            let at = |part: f64| (part * size as f64) as u64;
            let range = at(f64::min(a, b))..at(f64::max(a, b));
            array.prefetch(0..range.start.min(array.bytes));
            let found = read(&array, range.clone(), Tail::Whole).unwrap();
            prop_assert!(found == all[range.start as usize..range.end as usize]);
        }
    }
}

#[test]
fn what_is_in_the_cache_is_read_without_waiting_and_nothing_else_is() {
    let array = Arc::new(Grid {
        columns: 1000,
        block: (1, 100),
        plain: 800,
        bad_pieces: 900,
        ..Grid::default()
    });
    let cached = cached(&array, 1 << 20, b"head");
    let in_cache = |at, len| cached.read_cached(at, len, <[u8]>::to_vec);
    let whole = |at, len| cached.read(at, len, Tail::Whole, |read| read.unwrap().to_vec());
    assert_eq!(in_cache(4, 50), None);
    let expected = whole(0, 204);
    assert_eq!(array.count(&array.decodes), 2);
    // A part of one block, of two, and behind what stands before the array.
    for (at, len) in [(14, 50), (4, 200), (0, 204), (2, 60)] {
        assert_eq!(in_cache(at, len).unwrap(), expected[at as usize..][..len]);
    }
    assert_eq!(in_cache(2000, 10), Some(Vec::new()));
    // One more block, direct bytes, and places that are not found yet.
    for (at, len) in [(4, 201), (4 + 810, 10), (4 + 895, 10)] {
        assert_eq!(in_cache(at, len), None);
    }
    assert_eq!(array.count(&array.decodes), 2);
}
