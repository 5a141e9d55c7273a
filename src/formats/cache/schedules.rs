//! The cache in many schedules of the threads that use it. Run with the feature `schedules`.

use std::sync::atomic::{AtomicUsize, Ordering};

use shuttle::thread;

use super::*;
use crate::error::Fault;
use crate::sync::schedules::in_schedules;

const LEN: u64 = 100;

fn key(block: u64) -> BlockKey {
    BlockKey {
        version: VersionId(block % 2),
        array: ArrayIndex(0),
        block: BlockId(block),
    }
}

/// Fills a block with its number, and counts how many do so at once and in all.
struct Counted<'a> {
    block: u64,
    at_once: &'a AtomicUsize,
    in_all: &'a AtomicUsize,
    fails: bool,
}

impl Decode for Counted<'_> {
    fn yields(&self) -> u64 {
        LEN
    }

    fn scratch(&self) -> u64 {
        LEN / 2
    }

    fn decode(&self, out: &mut [u8], _: Arena<'_>) -> Result<()> {
        assert_eq!(self.at_once.fetch_add(1, Ordering::SeqCst), 0);
        thread::yield_now();
        out.fill(self.block as u8);
        self.in_all.fetch_add(1, Ordering::SeqCst);
        self.at_once.fetch_sub(1, Ordering::SeqCst);
        match self.fails {
            true => Err(Fault::new("made up").into()),
            false => Ok(()),
        }
    }
}

fn cache(limit: u64) -> Arc<BlockCache> {
    BlockCache::new(limit)
}

#[test]
fn a_block_is_decoded_once() {
    in_schedules(2000, || {
        let cache = cache(1 << 20);
        let counts = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let read = |cache: &BlockCache, [at_once, in_all]: &[AtomicUsize; 2]| {
            let decode = Counted {
                block: 7,
                at_once,
                in_all,
                fails: false,
            };
            let block = cache.get(key(7), &decode).unwrap();
            assert_eq!(*block.bytes(), [7; LEN as usize]);
        };
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let (cache, counts) = (Arc::clone(&cache), Arc::clone(&counts));
                thread::spawn(move || read(&cache, &counts))
            })
            .collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        assert_eq!(counts[1].load(Ordering::SeqCst), 1);
    });
}

/// Those who wait for a decode that fails get its error, and the next one decodes again.
#[test]
fn a_decode_that_fails_is_nobody_s_block() {
    in_schedules(2000, || {
        let cache = cache(1 << 20);
        let counts = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let threads: Vec<_> = (0..3)
            .map(|number| {
                let (cache, counts) = (Arc::clone(&cache), Arc::clone(&counts));
                thread::spawn(move || {
                    let decode = Counted {
                        block: 7,
                        at_once: &counts[0],
                        in_all: &counts[1],
                        fails: number == 0,
                    };
                    cache.get(key(7), &decode).is_ok()
                })
            })
            .collect();
        let got: Vec<bool> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect();
        let decoded = counts[1].load(Ordering::SeqCst);
        assert!((1..=2).contains(&decoded), "{decoded} decodes");
        // Whoever decoded for itself and did not fail has its block.
        assert!(got[1] || got[2] || decoded == 1);
        assert_eq!(cache.blocks(), usize::from(cache.cached(key(7)).is_some()));
    });
}

/// More blocks than there is room for, read, read ahead and forgotten: nobody waits for ever, and
/// nothing stays charged.
#[test]
fn a_small_cache_serves_all_and_gives_everything_back() {
    in_schedules(1000, || {
        let cache = cache(2 * (LEN + ENTRY_OVERHEAD) + LEN);
        let threads: Vec<_> = (0..3u64)
            .map(|number| {
                let cache = Arc::clone(&cache);
                thread::spawn(move || {
                    for step in 0..4 {
                        let block = (number + step) % 4;
                        let counts = [AtomicUsize::new(0), AtomicUsize::new(0)];
                        let decode = |block| Counted {
                            block,
                            at_once: &counts[0],
                            in_all: &counts[1],
                            fails: false,
                        };
                        let got = cache.get(key(block), &decode(block)).unwrap();
                        assert_eq!(*got.bytes(), [block as u8; LEN as usize]);
                        drop(got);
                        cache.prefetch(key(block + 1), &decode(block + 1));
                        if step == number {
                            cache.forget(VersionId(block % 2));
                        }
                    }
                })
            })
            .collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        (0..2).for_each(|version| cache.forget(VersionId(version)));
        assert_eq!((cache.blocks(), cache.used()), (0, 0));
    });
}
