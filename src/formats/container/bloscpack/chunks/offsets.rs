//! The offsets section: 64-bit places of the chunks, for access without going there chunk by chunk.
//!
//! No known reader of the format uses it, so nothing keeps writers honest: what an entry says is
//! believed only where the chunks agree ([`super`]). Entries of -1 are what an interrupted writer
//! leaves.

use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;

use crate::container::bloscpack::sections::{ENTRY, Sections};
use crate::error::Result;
use crate::source::Source;
use crate::sync::Mutex;

/// Entries read at once, with one before and one behind: a chunk is believed by its neighbours.
const PAGE: u64 = 512;

/// Pages kept, of 4 KiB each.
const KEPT: NonZeroUsize = NonZeroUsize::new(8).unwrap();

pub(super) struct OffsetsTable {
    /// Where the section begins.
    section: u64,
    chunks: u64,
    /// Where the first chunk begins, whatever its entry says.
    first: u64,
    pages: Mutex<LruCache<u64, Arc<Page>>>,
}

struct Page {
    /// Number of the first entry.
    first: u64,
    entries: Vec<i64>,
}

impl OffsetsTable {
    /// The file's table, if it has one.
    pub(super) fn of(sections: &Sections) -> Option<Self> {
        Some(OffsetsTable {
            section: sections.offsets?,
            chunks: sections.chunks?,
            first: sections.first,
            pages: Mutex::new(LruCache::new(KEPT)),
        })
    }

    /// Where the table says that a chunk begins; `None` if the entry is no place, or there is no
    /// such chunk.
    pub(super) fn place(&self, source: &dyn Source, number: u64) -> Result<Option<u64>> {
        if number >= self.chunks {
            return Ok(None);
        }
        if number == 0 {
            return Ok(Some(self.first));
        }
        let page = self.page(source, number / PAGE)?;
        Ok(page.place(number))
    }

    /// The places of a chunk and its two neighbours.
    pub(super) fn around(&self, source: &dyn Source, number: u64) -> Result<[Option<u64>; 3]> {
        let page = self.page(source, number / PAGE)?;
        let place = |number: Option<u64>| match number? {
            0 => Some(self.first),
            number => page.place(number),
        };
        Ok([number.checked_sub(1), Some(number), number.checked_add(1)].map(place))
    }

    fn page(&self, source: &dyn Source, index: u64) -> Result<Arc<Page>> {
        let lock = || self.pages.lock();
        if let Some(page) = lock().get(&index) {
            return Ok(Arc::clone(page));
        }
        let first = index.saturating_mul(PAGE).saturating_sub(1);
        let count = (PAGE + 2).min(self.chunks.saturating_sub(first));
        let entries = read_entries(source, self.section, first, count)?;
        let page = Arc::new(Page { first, entries });
        lock().put(index, Arc::clone(&page));
        Ok(page)
    }
}

impl Page {
    fn place(&self, number: u64) -> Option<u64> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        u64::try_from(*self.entries.get(index)?).ok()
    }
}

/// An entry that was never filled in.
pub(crate) const UNKNOWN: i64 = -1;

/// Entries `from..from + count` of the section at `section`, which the file has room for.
pub(crate) fn read_entries(
    source: &dyn Source,
    section: u64,
    from: u64,
    count: u64,
) -> Result<Vec<i64>> {
    let mut bytes = vec![0; (count * ENTRY) as usize];
    source.fetch_one(section + from * ENTRY, &mut bytes)?;
    let (entries, _) = bytes.as_chunks::<8>();
    let entries = entries.iter().map(|entry| i64::from_le_bytes(*entry));
    Ok(entries.collect())
}
