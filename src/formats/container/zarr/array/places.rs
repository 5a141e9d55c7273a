//! Where the stored bytes of chunks lie: each under a key of its own.
//!
//! A chunk is looked for when it is read, and never before. What was found is remembered: of one
//! that is missing that it is, of one that is there what tells its content, so that another content
//! is never shown beside the first. Used by [`super`], and by [`super::shards`] for shards.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use lru::LruCache;

use super::listed::{Listable, ListedChunks};
use super::seen::SeenKeys;
use crate::container::zarr::current::Seldom;
use crate::container::zarr::keys::KeyEncoding;
use crate::container::zarr::members::Members;
use crate::error::{Error, Fault, Result};
use crate::source::{Source, SourceIdentity, StoredRanges};
use crate::sync::Mutex;

/// Sources that stay open for a while: between finding out how long a chunk is and decoding it.
const OPEN_MOST: usize = 64;

/// Of those that are far away, which take no descriptors and have been asked for what is wanted.
const FAR_MOST: usize = 4096;

/// Where a chunk's stored bytes are.
#[derive(Clone)]
pub(in super::super) struct ChunkAt {
    pub(in super::super) source: Arc<dyn Source>,
    pub(in super::super) range: Range<u64>,
}

impl ChunkAt {
    pub(in super::super) fn len(&self) -> u64 {
        self.range.end - self.range.start
    }
}

/// Visits the places of chunks.
pub(in super::super) type VisitPlace<'v> = &'v mut dyn FnMut(&[u64]) -> Result<()>;

/// Finds chunks, of one level, by their places in the grid.
pub(in super::super) trait ChunkLookup: Send + Sync {
    /// Where a chunk is stored; none if it is missing.
    fn locate(&self, place: &[u64]) -> Result<Option<ChunkAt>>;

    /// How many times something has to be fetched to locate a chunk, each before the next.
    fn rounds(&self) -> u32 {
        0
    }

    /// Names what that is in one of them, when those before have been fetched.
    fn name(&self, _place: &[u64], _round: u32, _needed: &mut StoredRanges) -> Result<()> {
        Ok(())
    }

    /// Its number among all.
    fn number(&self, place: &[u64]) -> Option<u64>;

    /// The place of one.
    fn place(&self, number: u64) -> Vec<u64>;

    /// Finds out at once which are stored, where they can be listed: those that are not then cost
    /// no look each.
    fn list(&self) -> Result<()>;

    /// Whether any may be stored whose first place is this one.
    fn has_row(&self, first: u64) -> bool;

    /// Visits the places of all that are stored, in any order.
    fn each_stored(&self, visit: VisitPlace<'_>) -> Result<()>;

    /// Whether those that were read are as they were.
    fn are_unchanged(&self) -> Result<bool>;
}

/// How many chunks there are along each dimension.
#[derive(Debug, Clone)]
pub(in super::super) struct Counts(Vec<u64>);

impl Counts {
    pub(in super::super) fn new(shape: &[u64], chunk: &[u64]) -> Counts {
        let pairs = shape.iter().zip(chunk);
        Counts(
            pairs
                .map(|(len, chunk)| len.div_ceil((*chunk).max(1)))
                .collect(),
        )
    }

    pub(in super::super) fn dimensions(&self) -> usize {
        self.0.len()
    }

    /// The number of a place; none if it lies outside.
    pub(in super::super) fn number(&self, place: &[u64]) -> Option<u64> {
        let mut pairs = self.0.iter().zip(place);
        if place.len() != self.0.len() || pairs.any(|(count, at)| at >= count) {
            return None;
        }
        let pairs = self.0.iter().zip(place);
        pairs.into_iter().try_fold(0u64, |number, (count, at)| {
            number.checked_mul(*count)?.checked_add(*at)
        })
    }

    pub(in super::super) fn place(&self, mut number: u64) -> Vec<u64> {
        let mut place = vec![0; self.0.len()];
        for (at, count) in place.iter_mut().zip(&self.0).rev() {
            *at = number % (*count).max(1);
            number /= (*count).max(1);
        }
        place
    }

    /// All places that there are.
    pub(in super::super) fn total(&self) -> Option<u64> {
        self.0
            .iter()
            .try_fold(1u64, |n, count| n.checked_mul(*count))
    }
}

/// Chunks with a key each.
pub(in super::super) struct KeyedChunks {
    members: Arc<dyn Members>,
    /// The array's directory.
    directory: PathBuf,
    keys: KeyEncoding,
    counts: Counts,
    seen: SeenKeys,
    /// If they have been listed.
    listed: Mutex<Option<ListedChunks>>,
    /// The array's own, and what it was when the array was opened: as long as it is there, what is
    /// missing beside it is.
    document: (PathBuf, SourceIdentity),
    open: Arc<OpenChunks>,
    /// Among the arrays of the store.
    array: u64,
    compared: Seldom,
}

/// The sources of a store that stay open for a while, by array and chunk.
pub(in super::super) struct OpenChunks {
    open: Mutex<LruCache<(u64, u64), Arc<dyn Source>>>,
    arrays: AtomicU64,
}

impl OpenChunks {
    pub(in super::super) fn new(is_far: bool) -> OpenChunks {
        let most = match is_far {
            true => FAR_MOST,
            false => OPEN_MOST,
        };
        let most = NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN);
        OpenChunks {
            open: Mutex::new(LruCache::new(most)),
            arrays: AtomicU64::new(0),
        }
    }
}

impl KeyedChunks {
    pub(in super::super) fn new(
        members: &Arc<dyn Members>,
        directory: PathBuf,
        (keys, counts): (KeyEncoding, Counts),
        (seen, document, open): (SeenKeys, (PathBuf, SourceIdentity), &Arc<OpenChunks>),
    ) -> KeyedChunks {
        KeyedChunks {
            members: Arc::clone(members),
            directory,
            keys,
            counts,
            seen,
            listed: Mutex::default(),
            document,
            array: open.arrays.fetch_add(1, Ordering::Relaxed),
            open: Arc::clone(open),
            compared: Seldom::default(),
        }
    }

    fn key(&self, place: &[u64]) -> PathBuf {
        self.directory.join(self.keys.key(place))
    }

    fn source(&self, number: u64, place: &[u64]) -> Result<Option<Arc<dyn Source>>> {
        if self.seen.is_missing(number) {
            return Ok(None);
        }
        let at = (self.array, number);
        let open = self.open.open.lock().get(&at).cloned();
        if open.is_some() {
            return Ok(open);
        }
        let listed = self.listed.lock();
        let is_missing = listed.as_ref().is_some_and(|l| l.is_missing(number));
        drop(listed);
        if is_missing && !self.seen.is_stored(number) {
            return Ok(None);
        }
        let key = self.key(place);
        let found = self.members.open(&key)?;
        let identity = found.as_ref().map(|source| source.identity());
        if found.is_none() && !self.members.is_far() {
            self.check_document(&key)?;
        }
        if !self.seen.note(number, identity.as_ref()) {
            return Err(Error::Changed { path: key });
        }
        if let Some(source) = &found {
            let replaced = self.open.open.lock().push(at, Arc::clone(source));
            drop(replaced);
        }
        Ok(found)
    }

    /// Where something is missing, it may be the whole store that has gone, or has been moved.
    fn check_document(&self, key: &Path) -> Result<()> {
        let (document, was) = &self.document;
        match self.members.identity(document)? == Some(*was) {
            true => Ok(()),
            false => Err(Error::Changed {
                path: key.to_owned(),
            }),
        }
    }

    fn listable(&self) -> Listable<'_> {
        Listable {
            members: &*self.members,
            directory: &self.directory,
            keys: self.keys,
            counts: &self.counts,
            budget: self.seen.budget(),
        }
    }

    /// Compares until that time; then the others when it is asked again.
    fn compare(&self, until: Option<Instant>) -> Result<bool> {
        if let Some(listed) = &mut *self.listed.lock()
            && !listed.is_unchanged(&self.listable(), until)?
        {
            return Ok(false);
        }
        self.seen.all(until, &mut |number, was: Option<u64>| {
            let now = self.members.identity(&self.key(&self.place(number)));
            Ok(now?.as_ref().map(super::seen::digest) == was)
        })
    }
}

impl ChunkLookup for KeyedChunks {
    fn locate(&self, place: &[u64]) -> Result<Option<ChunkAt>> {
        let number = self.number(place);
        let number = number.ok_or_else(|| Fault::new("there is no such chunk"))?;
        let source = self.source(number, place)?;
        Ok(source.map(|source| ChunkAt {
            range: 0..source.len(),
            source,
        }))
    }

    fn number(&self, place: &[u64]) -> Option<u64> {
        self.counts.number(place)
    }

    fn place(&self, number: u64) -> Vec<u64> {
        self.counts.place(number)
    }

    fn list(&self) -> Result<()> {
        // What is far away may have no listing, and is asked for many at once.
        if !self.members.is_far() {
            let listed = ListedChunks::of(&self.listable())?;
            self.check_document(&self.directory)?;
            *self.listed.lock() = Some(listed);
        }
        Ok(())
    }

    fn has_row(&self, first: u64) -> bool {
        let listed = self.listed.lock();
        listed.as_ref().is_none_or(|listed| listed.has_row(first))
    }

    fn each_stored(&self, visit: VisitPlace<'_>) -> Result<()> {
        let dimensions = self.counts.dimensions();
        let depth = match self.keys.is_nested() {
            true => dimensions + 1,
            false => 0,
        };
        let files = &mut |key: &Path| {
            let below = key
                .strip_prefix(&self.directory)
                .ok()
                .and_then(|key| key.to_str());
            let place = below.and_then(|key| self.keys.place(key, dimensions));
            match place.filter(|place| self.number(place).is_some()) {
                Some(place) => visit(&place),
                None => Ok(()),
            }
        };
        super::super::members::files_below(&*self.members, &self.directory, depth, files)
    }

    fn are_unchanged(&self) -> Result<bool> {
        match self.members.is_far() {
            true => self.compared.when_due(|| self.compare(None)),
            false => self.compared.in_parts(|until| self.compare(Some(until))),
        }
    }
}

/// The identity of something that follows from a chunk.
pub(super) fn identity_of(located: &ChunkAt) -> SourceIdentity {
    located.source.identity().resized(located.len())
}
