//! Which chunks are stored, found out at once: by listing the directories that they lie in.
//!
//! Where nearly all of very many are missing, one look for each would take minutes. As long as the
//! directories are what they were, none has come. Used by [`super::places`].

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use super::places::Counts;
use crate::container::zarr::keys::KeyEncoding;
use crate::container::zarr::members::{MemberKind, Members, join};
use crate::error::{NotShown, Result};
use crate::memory::budget::{Budget, Hold};
use crate::source::SourceIdentity;

/// Most chunks that are stored, and most directories of them.
pub(in super::super) const STORED_MOST: u64 = 1 << 20;

/// What a directory takes beside its key.
const EACH: u64 = 128;

/// Where chunks lie, and under which keys.
pub(super) struct Listable<'l> {
    pub(super) members: &'l dyn Members,
    pub(super) directory: &'l Path,
    pub(super) keys: KeyEncoding,
    pub(super) counts: &'l Counts,
    pub(super) budget: &'l Arc<Budget>,
}

pub(super) struct ListedChunks {
    /// Sorted.
    stored: Vec<u64>,
    /// First places of those that are stored; sorted.
    rows: Vec<u64>,
    /// And what they were before they were listed.
    directories: Vec<(PathBuf, Option<SourceIdentity>)>,
    /// The directory that is compared next.
    next: usize,
    _charge: Hold,
}

impl ListedChunks {
    pub(super) fn of(at: &Listable<'_>) -> Result<ListedChunks> {
        let dimensions = at.counts.dimensions();
        let mut left = vec![(at.directory.to_owned(), 0)];
        let (mut stored, mut directories) = (Vec::new(), Vec::new());
        let mut charge = at.budget.keep(EACH)?;
        while let Some((directory, depth)) = left.pop() {
            let identity = at.members.directory_identity(&directory)?;
            let (mut is_too_many, before) = (false, (stored.len(), left.len()));
            at.members.list(&directory, &mut |name, kind| {
                let key = join(&directory, name);
                is_too_many |= stored.len().max(left.len()) as u64 >= STORED_MOST;
                if kind == MemberKind::Directory {
                    let name = std::str::from_utf8(name).ok();
                    let is_own = |name| at.keys.is_directory(name, depth, dimensions);
                    if name.is_some_and(is_own) && !is_too_many {
                        left.push((key, depth + 1));
                    }
                } else if let Some(number) = at.number(&key)
                    && !is_too_many
                {
                    stored.push(number);
                }
            })?;
            if is_too_many || directories.len() as u64 >= STORED_MOST {
                let why = format!("more text than can be shown: {STORED_MOST} stored chunks");
                return Err(NotShown::new(why).into());
            }
            // Twice: chunks have rows.
            let chunks = (stored.len() - before.0) as u64 * 16;
            let deeper = (left.len() - before.1) as u64;
            let each = directory.as_os_str().len() as u64 + EACH;
            charge.keep_more(chunks.saturating_add(deeper.saturating_mul(each)))?;
            directories.push((directory, identity));
        }
        stored.sort_unstable();
        let first = |number: &u64| at.counts.place(*number).first().copied().unwrap_or(0);
        let mut rows: Vec<u64> = stored.iter().map(first).collect();
        rows.dedup();
        Ok(ListedChunks {
            stored,
            rows,
            directories,
            next: 0,
            _charge: charge,
        })
    }

    pub(super) fn is_missing(&self, number: u64) -> bool {
        self.stored.binary_search(&number).is_err()
    }

    /// Whether a chunk is stored whose first place is this one.
    pub(super) fn has_row(&self, first: u64) -> bool {
        self.rows.binary_search(&first).is_ok()
    }

    /// Whether the same chunks are stored by now. Compares directories until that time, and then
    /// the others when it is asked again.
    pub(super) fn is_unchanged(
        &mut self,
        at: &Listable<'_>,
        until: Option<Instant>,
    ) -> Result<bool> {
        for _ in 0..self.directories.len() {
            self.next %= self.directories.len();
            let Some((key, was)) = self.directories.get(self.next) else {
                break;
            };
            if at.members.directory_identity(key)? != *was {
                // A file may have come that is no chunk, or a chunk been replaced.
                let now = ListedChunks::of(at)?;
                let is_same = now.stored == self.stored;
                *self = now;
                return Ok(is_same);
            }
            self.next += 1;
            if until.is_some_and(|until| Instant::now() > until) {
                break;
            }
        }
        Ok(true)
    }
}

impl Listable<'_> {
    fn number(&self, key: &Path) -> Option<u64> {
        let below = key.strip_prefix(self.directory).ok()?.to_str()?;
        let place = self.keys.place(below, self.counts.dimensions())?;
        self.counts.number(&place)
    }
}
