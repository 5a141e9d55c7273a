//! Containers in a store that is far away: what a request needs is asked for at once.
//!
//! Arrays of the golden containers are read through a cache in requests as the kernel makes them,
//! and what is asked of their files is counted. Used by no other module: tests.

use std::path::Path;
use std::sync::Arc;

use super::in_memory::{cases, corpora, put};
use super::inside::Located;
use super::walked::{LONGEST, open};
use crate::array::read::{CachedArray, Tail};
use crate::cache::{ArrayIndex, BlockCache, VersionId};
use crate::source::memory::{FarRequests, MemoryStore};
use crate::source::wrapping::WrappingStore;
use crate::source::{ReopenedSource, Source, Store};

const REQUEST: usize = 1 << 20;

/// Requests for a megabyte of a file: ends of fragments come from five files.
const MOST: u64 = 5;

fn cached(located: &Located, number: usize) -> CachedArray {
    let bytes = located.array.info().unwrap().bytes;
    CachedArray {
        array: Arc::clone(&located.array),
        cache: BlockCache::new(64 << 20),
        version: VersionId(0),
        index: ArrayIndex(number as u32),
        container: "far".into(),
        group: Arc::clone(&located.group),
        prefix: Arc::from([]),
        bytes,
        is_far: located.is_far,
    }
}

/// What has been asked of a store since this was last called.
fn requests(far: &MemoryStore) -> FarRequests {
    let sources = far.opened().into_iter();
    sources.fold(FarRequests::default(), |sum, source| {
        let one = source.take_requests();
        FarRequests {
            gathered: sum.gathered + one.gathered,
            alone: sum.alone + one.alone,
            bytes: sum.bytes + one.bytes,
        }
    })
}

/// As a mount has it: files are opened again when they are read, and must be what they were.
fn as_mounted(store: &Arc<dyn Store>) -> Arc<dyn Store> {
    Arc::new(WrappingStore::new(store, |_, opened| {
        let source = opened?;
        let again = Arc::clone(&source);
        let reopened = ReopenedSource::new(source, move || Ok(Arc::clone(&again)));
        Ok(Arc::new(reopened) as Arc<dyn Source>)
    }))
}

fn forget(far: &MemoryStore) {
    far.opened().iter().for_each(|source| source.forget());
}

/// How a container of a store is not read as it should be.
fn badly_read(far: &Arc<MemoryStore>, name: &Path, complain: &mut dyn FnMut(String)) -> usize {
    let store = as_mounted(&(far.clone() as Arc<dyn Store>));
    let Ok(Some(container)) = open(&store, name) else {
        return 0;
    };
    let arrays = container.all_arrays();
    for (number, located) in arrays.iter().enumerate() {
        let array = cached(located, number);
        let read = |array: &CachedArray, at| {
            array.read(at, REQUEST, Tail::Whole, |read| assert!(read.is_ok()));
        };
        // What a read in sequence looks up once is not counted.
        let mut pieces = Vec::new();
        let first = 0..array.bytes.min(1);
        located.array.pieces(first, &mut pieces).unwrap();
        requests(far);
        forget(far);
        for at in (0..array.bytes.min(LONGEST)).step_by(REQUEST) {
            read(&array, at);
            let asked = requests(far);
            // Each chunk may be a file of its own, or lie in shards of shards.
            let opened = far.opened();
            let most = MOST.max(4 * opened.len() as u64);
            let stored: u64 = opened.iter().map(|source| source.len()).sum();
            if asked.alone > 0 || asked.gathered > most || asked.bytes > stored {
                complain(format!("{} at {at}: {asked:?}", located.path()));
            }
            forget(far);
        }
        let again = cached(located, number);
        again.fetch_ahead(0..array.bytes.min(LONGEST));
        let ahead = requests(far);
        (0..array.bytes.min(LONGEST))
            .step_by(REQUEST)
            .for_each(|at| read(&again, at));
        let after = requests(far);
        if after != FarRequests::default() {
            complain(format!("{}: {after:?} after {ahead:?}", located.path()));
        }
    }
    arrays.len()
}

#[test]
fn what_a_request_needs_is_asked_for_before_it_is_decoded() {
    let (mut complaints, mut arrays) = (Vec::new(), 0);
    for corpus in corpora() {
        let sources = corpus.join("sources");
        for case in cases(&corpus) {
            if case["expect"] != "ok" || case["optional"] == true {
                continue;
            }
            let path = corpus.join(case["source"].as_str().unwrap());
            let mut memory = MemoryStore::new(&sources);
            put(&mut memory, &sources, &path);
            let name = path.strip_prefix(&sources).unwrap();
            arrays += badly_read(&Arc::new(memory.far()), name, &mut |said| {
                complaints.push(format!("{}: {said}", case["id"]));
            });
        }
    }
    assert!(arrays > 300, "{arrays} arrays");
    let count = complaints.len();
    assert!(complaints.is_empty(), "{count}: {complaints:#?}");
}
