//! Which chunks' digests were seen to be right: a chunk is hashed on its first touch, by one
//! reader, and others that want it meanwhile wait for the outcome.
//!
//! Kept in one bit for each chunk, in groups that exist where something was read; the groups read
//! longest ago are forgotten, and their chunks hashed again when they are next read. No lock is
//! held while a chunk is read or hashed. Used by [`super::decode`].

use std::ops::Range;

use lru::LruCache;

use crate::codec::checksum::{Checksum, Digest};
use crate::container::bloscpack::chunks::FoundChunk;
use crate::container::bloscpack::header::hex;
use crate::error::{Fault, Result};
use crate::source::Source;
use crate::sync::{Condvar, Mutex, MutexGuard};

/// Chunks of a group: 64 bytes of bits.
const GROUP: u64 = 512;

/// Groups remembered: half a million chunks.
const GOOD_GROUPS: usize = 1024;

/// Bad chunks remembered: a large one is not hashed again for each of its blocks.
const BAD: usize = 16;

pub(super) struct SeenDigests {
    checksum: Checksum,
    seen: Mutex<SeenChunks>,
    checked: Condvar,
}

struct SeenChunks {
    good: LruCache<u64, [u64; 8]>,
    bad: LruCache<u64, Fault>,
    /// Chunks that a thread is checking.
    under_way: Vec<u64>,
}

/// The right to check a chunk; others wait until it is dropped.
pub(super) struct DigestCheck<'a> {
    digests: &'a SeenDigests,
    number: u64,
}

impl SeenDigests {
    pub(super) fn new(checksum: Checksum) -> Self {
        SeenDigests {
            checksum,
            seen: Mutex::new(SeenChunks {
                good: LruCache::unbounded(),
                bad: LruCache::unbounded(),
                under_way: Vec::new(),
            }),
            checked: Condvar::new(),
        }
    }

    /// Stored bytes of a digest.
    pub(super) fn len(&self) -> usize {
        self.checksum.digest_len()
    }

    pub(super) fn exist(&self) -> bool {
        self.checksum != Checksum::None
    }

    /// `None` if a chunk is known to be good; its fault if it is known to be bad. Else the check is
    /// the caller's.
    pub(super) fn to_check(&self, number: u64) -> Result<Option<DigestCheck<'_>>> {
        if !self.exist() {
            return Ok(None);
        }
        let mut seen = self.lock();
        loop {
            if seen.is_good(number) {
                return Ok(None);
            }
            if let Some(fault) = seen.bad.get(&number) {
                return Err(fault.clone().into());
            }
            if !seen.under_way.contains(&number) {
                break;
            }
            self.checked.wait(&mut seen);
        }
        seen.under_way.push(number);
        let digests = self;
        Ok(Some(DigestCheck { digests, number }))
    }

    /// Whether a chunk is going to be read for its digest.
    pub(super) fn are_due(&self, number: u64) -> bool {
        self.exist() && !self.lock().is_good(number)
    }

    fn lock(&self) -> MutexGuard<'_, SeenChunks> {
        self.seen.lock()
    }
}

impl DigestCheck<'_> {
    /// Checks a chunk that is in memory, with its digest behind it.
    pub(super) fn of_whole(self, chunk: &FoundChunk, both: &[u8]) -> Result<()> {
        let stored = both.len().saturating_sub(self.digests.len());
        let (whole, digest) = both.split_at(stored);
        self.compare(chunk, self.digests.checksum.digest(whole), digest)
    }

    /// Checks a chunk by reading it piece by piece, each as long as `buf`.
    pub(super) fn by_pieces(
        self,
        source: &dyn Source,
        chunk: &FoundChunk,
        buf: &mut [u8],
    ) -> Result<()> {
        let found = self.hash(source, chunk.stored(), buf)?;
        let mut digest = [0; 64];
        let digest = &mut digest[..self.digests.len()];
        source.fetch_one(chunk.stored().end, digest)?;
        self.compare(chunk, found, digest)
    }

    fn hash(&self, source: &dyn Source, bytes: Range<u64>, buf: &mut [u8]) -> Result<Digest> {
        let mut hasher = self.digests.checksum.hasher();
        let mut at = bytes.start;
        while at < bytes.end {
            let len = (bytes.end - at).min(buf.len() as u64) as usize;
            source.fetch_one(at, &mut buf[..len])?;
            hasher.update(&buf[..len]);
            at += len as u64;
        }
        Ok(hasher.finish())
    }

    fn compare(&self, chunk: &FoundChunk, found: Digest, digest: &[u8]) -> Result<()> {
        let mut seen = self.digests.lock();
        if found.as_bytes() == digest {
            seen.set_good(self.number);
            return Ok(());
        }
        let fault = Fault::new(format!("{} mismatch", self.digests.checksum.name()))
            .block(chunk.number)
            .bytes(chunk.stored())
            .expected(hex(digest))
            .found(hex(found.as_bytes()));
        seen.bad.put(self.number, fault.clone());
        if seen.bad.len() > BAD {
            seen.bad.pop_lru();
        }
        Err(fault.into())
    }
}

impl Drop for DigestCheck<'_> {
    fn drop(&mut self) {
        let mut seen = self.digests.lock();
        seen.under_way.retain(|number| *number != self.number);
        drop(seen);
        self.digests.checked.notify_all();
    }
}

impl SeenChunks {
    fn is_good(&mut self, number: u64) -> bool {
        let bit = (number % GROUP) as usize;
        let group = self.good.get(&(number / GROUP));
        group.is_some_and(|group| group[bit / 64] & 1 << (bit % 64) != 0)
    }

    fn set_good(&mut self, number: u64) {
        let bit = (number % GROUP) as usize;
        let group = self.good.get_or_insert_mut(number / GROUP, || [0; 8]);
        group[bit / 64] |= 1 << (bit % 64);
        if self.good.len() > GOOD_GROUPS {
            self.good.pop_lru();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forgotten_is_checked_again() {
        let digests = SeenDigests::new(Checksum::Adler32);
        for number in 0..3 * GROUP {
            digests.lock().set_good(number);
        }
        assert!(digests.to_check(700).unwrap().is_none());
        assert!(digests.to_check(3 * GROUP).unwrap().is_some());
        for group in 0..GOOD_GROUPS as u64 {
            digests.lock().set_good((10 + group) * GROUP);
        }
        assert!(digests.to_check(700).unwrap().is_some());
        assert!(
            SeenDigests::new(Checksum::None)
                .to_check(1)
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn one_checks_and_the_others_wait() {
        let digests = SeenDigests::new(Checksum::Adler32);
        let mine = digests.to_check(7).unwrap();
        let other = digests.to_check(8).unwrap();
        assert!(mine.is_some() && other.is_some(), "each has its own");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| digests.to_check(7).unwrap().is_none());
            digests.lock().set_good(7);
            drop(mine);
            assert!(waiting.join().unwrap());
        });
        drop(other);
        assert!(
            digests.to_check(8).unwrap().is_some(),
            "given back unchecked"
        );
    }
}
