//! The cache as its users see it, with decodes that are made up.

use super::*;
use crate::error::Fault;
use crate::sync::Mutex;
use std::sync::Barrier;
use std::sync::atomic::AtomicU64;

fn key(block: u64) -> BlockKey {
    BlockKey {
        version: VersionId(1),
        array: ArrayIndex(0),
        block: BlockId(block),
    }
}

/// A decode made of a length and a function.
struct By<F>(u64, F);

/// A decode whose scratch memory is made up as well.
struct WithScratch<S, D>(S, D);

impl<S: Fn() -> u64, D: Decode> Decode for WithScratch<S, D> {
    fn yields(&self) -> u64 {
        self.1.yields()
    }

    fn scratch(&self) -> u64 {
        (self.0)()
    }

    fn decode(&self, out: &mut [u8], scratch: Arena<'_>) -> Result<()> {
        self.1.decode(out, scratch)
    }
}

impl<F: Fn(&mut [u8]) -> Result<()>> Decode for By<F> {
    fn yields(&self) -> u64 {
        self.0
    }

    fn scratch(&self) -> u64 {
        0
    }

    fn decode(&self, out: &mut [u8], _scratch: Arena<'_>) -> Result<()> {
        (self.1)(out)
    }
}

fn fill(len: u64, with: u8) -> impl Decode {
    By(len, move |out: &mut [u8]| {
        out.fill(with);
        Ok(())
    })
}

fn never(len: u64, why: &'static str) -> impl Decode {
    By(len, move |_: &mut [u8]| panic!("{why}"))
}

#[test]
fn one_decode_for_many_readers() {
    let cache = BlockCache::new(1 << 20);
    let decodes = AtomicU64::new(0);
    let together = Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                together.wait();
                let block = cache.get(
                    key(7),
                    &By(1000, |out: &mut [u8]| {
                        decodes.fetch_add(1, Ordering::SeqCst);
                        out.fill(9);
                        Ok(())
                    }),
                );
                assert_eq!(block.unwrap().bytes(), &[9; 1000]);
            });
        }
    });
    assert_eq!(decodes.load(Ordering::SeqCst), 1);
}

#[test]
fn stays_within_the_budget_and_keeps_what_was_used_last() {
    let cache = BlockCache::new(100_000);
    for block in 0..1000 {
        cache.get(key(block), &fill(5000, block as u8)).unwrap();
        assert!(cache.used() <= cache.limit());
    }
    assert!(cache.blocks() >= 10, "{} blocks", cache.blocks());
    cache.get(key(999), &never(5000, "was just used")).unwrap();
}

#[test]
fn a_block_larger_than_the_budget_is_decoded_alone() {
    let cache = BlockCache::new(1000);
    cache.get(key(1), &fill(500, 1)).unwrap();
    let block = cache.get(key(2), &fill(50_000, 2)).unwrap();
    assert_eq!(block.bytes().len(), 50_000);
    drop(block);
    cache.get(key(3), &fill(500, 3)).unwrap();
    assert!(cache.used() <= 1000);
}

#[test]
fn waiting_for_memory_ends_when_others_let_go() {
    let cache = BlockCache::new(10_000);
    let held = cache.get(key(1), &fill(9000, 1)).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| cache.get(key(2), &fill(9000, 2)).unwrap().bytes()[0]);
        drop(held);
        assert_eq!(waiting.join().unwrap(), 2);
    });
}

/// A block that lands in the cache can be evicted, although nothing is given back: with memory for
/// one block and readers of many, one of them always waits.
#[test]
fn readers_of_more_than_fits_all_come_through() {
    let cache = BlockCache::new(10_000);
    std::thread::scope(|scope| {
        for reader in 0..4u64 {
            let cache = &cache;
            scope.spawn(move || {
                for n in 0..2000 {
                    let block = (n * 7 + reader * 13) % 5;
                    let read = cache.get(key(block), &fill(9000, block as u8)).unwrap();
                    assert_eq!(read.bytes()[0], block as u8);
                }
            });
        }
    });
    assert!(cache.used() <= cache.limit());
}

#[test]
fn errors_are_delivered_and_not_cached() {
    let cache = BlockCache::new(10_000);
    let failed = cache.get(
        key(1),
        &By(10, |_: &mut [u8]| Err(Fault::new("bad").into())),
    );
    assert!(failed.is_err());
    assert!(cache.get(key(1), &fill(10, 4)).is_ok());
    assert!(cache.used() < 1000);
}

#[test]
fn a_panicking_decoder_leaves_nothing_behind() {
    let cache = BlockCache::new(10_000);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = cache.get(key(1), &never(10, "decoder"));
    }));
    assert!(panicked.is_err());
    assert_eq!(cache.used(), 0);
    assert!(cache.get(key(1), &fill(10, 4)).is_ok());
}

#[test]
fn forgetting_a_version_frees_its_blocks() {
    let cache = BlockCache::new(100_000);
    cache.get(key(1), &fill(1000, 1)).unwrap();
    let other = BlockKey {
        version: VersionId(2),
        ..key(1)
    };
    cache.get(other, &fill(1000, 2)).unwrap();
    cache.forget(VersionId(1));
    assert_eq!(cache.blocks(), 1);
    cache
        .get(other, &never(1000, "other versions stay"))
        .unwrap();
}

#[test]
fn prefetch_never_waits() {
    let cache = BlockCache::new(10_000);
    let held = cache.get(key(1), &fill(9000, 1)).unwrap();
    cache.prefetch(key(2), &never(9000, "no memory for this"));
    drop(held);
    cache.prefetch(key(2), &fill(9000, 2));
    cache.get(key(2), &never(9000, "was prefetched")).unwrap();
}

/// A reader that comes while read-ahead looks for memory does not get its refusal.
#[test]
fn a_prefetch_without_memory_disappoints_nobody() {
    let cache = BlockCache::new(10_000);
    let held = cache.get(key(1), &fill(9000, 1)).unwrap();
    let asked = || {
        let counted = cache.stats.snapshot();
        counted.misses + counted.waits
    };
    std::thread::scope(|scope| {
        let reader = Mutex::new(None);
        let meanwhile = || {
            let read = || {
                cache
                    .get(key(2), &fill(9000, 2))
                    .map(|block| block.bytes()[0])
            };
            *reader.lock() = Some(scope.spawn(read));
            until(|| asked() == 2);
            0
        };
        cache.prefetch(key(2), &WithScratch(meanwhile, never(9000, "no memory")));
        drop(held);
        let reader = reader.into_inner().unwrap();
        assert_eq!(reader.join().unwrap().unwrap(), 2);
    });
}

#[test]
fn a_prefetch_that_comes_too_late_gives_its_memory_back() {
    let cache = BlockCache::new(100_000);
    let meanwhile = || {
        cache.get(key(2), &fill(1000, 2)).unwrap();
        0
    };
    cache.prefetch(key(2), &WithScratch(meanwhile, never(1000, "is cached")));
    assert_eq!(cache.used(), 1000 + ENTRY_OVERHEAD);
}

#[test]
fn a_prefetch_that_cannot_have_its_memory_evicts_nothing() {
    let cache = BlockCache::new(10_000);
    let _held = cache.get(key(1), &fill(6000, 1)).unwrap();
    // Evicted while it is read: what evicting the others gives back is less than all.
    cache.let_go(key(1));
    cache.get(key(2), &fill(3000, 2)).unwrap();
    cache.prefetch(key(3), &never(9000, "no memory for this"));
    cache.get(key(2), &never(3000, "was there")).unwrap();
}

#[test]
fn blocks_are_charged_for_their_bytes_however_much_scratch_they_need() {
    let cache = BlockCache::new(100_000);
    for block in 0..20 {
        let decode = WithScratch(|| 1 << 20, fill(30_000, block as u8));
        cache.get(key(block), &decode).unwrap();
        let bytes = cache.blocks() as u64 * 30_000;
        assert!(cache.used() >= bytes, "{} of {bytes}", cache.used());
        assert!(cache.used() <= cache.limit());
    }
}

#[test]
fn beside_a_block_larger_than_the_budget_nothing_is_kept() {
    let cache = BlockCache::new(1000);
    for block in 0..3 {
        cache.get(key(block), &fill(50_000, 1)).unwrap();
        assert_eq!((cache.blocks(), cache.used()), (1, 1000));
    }
    cache
        .get(key(2), &never(50_000, "nobody needed its memory"))
        .unwrap();
}

#[test]
fn memory_that_the_system_refuses_is_an_error_of_the_read() {
    let cache = BlockCache::new(10_000);
    for len in [1 << 60, u64::MAX] {
        match cache.get(key(1), &never(len, "no memory")).map(drop) {
            Err(crate::error::Error::Io { cause, .. }) => {
                assert_eq!(cause.raw_os_error(), Some(libc::ENOMEM));
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(cache.used(), 0);
    cache.get(key(1), &fill(10, 1)).unwrap();
}

/// Small blocks, for which there is memory, do not overtake a large one that waits for it.
#[test]
fn readers_get_memory_in_the_order_in_which_they_came() {
    let cache = BlockCache::new(10_000);
    let held = cache.get(key(0), &fill(4000, 0)).unwrap();
    let decoded = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for (number, len) in [(1, 9000), (2, 4000), (3, 9000), (4, 4000)] {
            let (cache, decoded) = (&cache, &decoded);
            scope.spawn(move || {
                let decode = By(len, |_: &mut [u8]| {
                    decoded.lock().push(number);
                    Ok(())
                });
                cache.get(key(number), &decode).map(drop)
            });
            until(|| cache.budget.waiting() == number || !decoded.lock().is_empty());
        }
        cache.prefetch(key(5), &never(100, "others wait"));
        drop(held);
    });
    assert_eq!(decoded.into_inner(), [1, 2, 3, 4]);
}

/// Blocks of all sizes (up to more than the budget), read, read ahead, let go and forgotten by
/// many; some decodes fail, some panic. A sound block is always read, and in the end nothing is in
/// use.
#[test]
fn a_sound_block_is_read_whatever_else_happens() {
    let cache = BlockCache::new(20_000);
    let len = |block: u64| [100, 4000, 9000, 19_000, 70_000][block as usize % 5];
    std::thread::scope(|scope| {
        for worker in 0..8u64 {
            let cache = &cache;
            scope.spawn(move || {
                let mut seed = worker;
                for _ in 0..3000 {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let (block, act) = ((seed >> 33) % 15, (seed >> 48) % 16);
                    let decode = WithScratch(|| block * 1000, troubled(block, len(block)));
                    match act {
                        0 => cache.let_go(key(block)),
                        1 => cache.forget(VersionId(1)),
                        2..8 => caught(|| cache.prefetch(key(block), &decode)).unwrap_or(()),
                        _ => check(block, caught(|| cache.get(key(block), &decode))),
                    }
                    assert!(cache.used() <= cache.limit());
                }
            });
        }
    });
    cache.forget(VersionId(1));
    assert_eq!(
        (cache.blocks(), cache.used(), cache.budget.waiting()),
        (0, 0, 0)
    );
    assert_eq!(cache.reclaimable(), 0);
}

/// Of the blocks from 10 on, one in two fails and the other panics.
fn troubled(block: u64, len: u64) -> impl Decode {
    By(len, move |out: &mut [u8]| match block {
        0..10 => {
            out.fill(block as u8);
            Ok(())
        }
        _ if block.is_multiple_of(2) => Err(Fault::new("bad").into()),
        // Unlike `panic!`, without a message on standard error.
        _ => std::panic::resume_unwind(Box::new("decoder")),
    })
}

fn check(block: u64, read: std::thread::Result<Result<Arc<Block>>>) {
    match read {
        Ok(Ok(bytes)) => assert!(block < 10 && bytes.bytes().iter().all(|b| *b == block as u8)),
        Ok(Err(e)) => assert!(block >= 10, "block {block}: {e}"),
        Err(_) => assert!(block > 10 && !block.is_multiple_of(2)),
    }
}

fn caught<R>(run: impl FnOnce() -> R) -> std::thread::Result<R> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run))
}

fn until(condition: impl Fn() -> bool) {
    while !condition() {
        std::thread::yield_now();
    }
}
