//! Writes of mappings to an array while a file takes its place.
//!
//! The inode stays, and mappings of it with their pages, which are of the old content: the kernel
//! writes all of a page of which one byte was changed. On other file systems these are the old
//! file's, which has no name any more. So they wait as long as the array is being replaced. If that
//! succeeds they are dropped, until the kernel has no old pages; if not, they are written. Used by
//! `committing::replaced_array`.

use std::collections::HashMap;
use std::sync::Arc;

use crate::stage::WrittenArray;
use crate::sync::{Condvar, Mutex, MutexGuard};

/// Of a version of a container.
#[derive(Default)]
pub(crate) struct Replacements {
    arrays: Mutex<HashMap<u32, ReplacedState>>,
    ended: Condvar,
}

#[derive(Default)]
struct ReplacedState {
    under_way: bool,
    /// Replacements whose old pages the kernel may still have.
    old_pages: usize,
}

/// An array is being replaced, until this is dropped.
pub(crate) struct Replacement {
    of: Arc<Replacements>,
    array: u32,
}

/// The kernel may have pages of the replaced content, until this is dropped.
pub struct OldPages {
    of: Arc<Replacements>,
    array: u32,
}

impl Replacements {
    /// Begins when no other thread replaces the array.
    pub(crate) fn begin(self: &Arc<Self>, array: WrittenArray) -> Replacement {
        let mut arrays = self.when_ended(array);
        arrays.entry(array.0).or_default().under_way = true;
        Replacement {
            of: Arc::clone(self),
            array: array.0,
        }
    }

    /// Whether a mapping's writes are of content that has been replaced.
    pub(crate) fn is_of_the_old(&self, array: WrittenArray) -> bool {
        let arrays = self.when_ended(array);
        arrays
            .get(&array.0)
            .is_some_and(|array| array.old_pages > 0)
    }

    /// The lock, as soon as the array is not being replaced.
    fn when_ended(&self, array: WrittenArray) -> MutexGuard<'_, HashMap<u32, ReplacedState>> {
        let under_way = |arrays: &mut HashMap<u32, ReplacedState>| {
            arrays.get(&array.0).is_some_and(|array| array.under_way)
        };
        let mut arrays = self.lock();
        self.ended.wait_while(&mut arrays, under_way);
        arrays
    }

    fn change(&self, array: u32, change: impl FnOnce(&mut ReplacedState)) {
        let mut arrays = self.lock();
        let replaced = arrays.entry(array).or_default();
        change(replaced);
        if !replaced.under_way && replaced.old_pages == 0 {
            arrays.remove(&array);
        }
        drop(arrays);
        self.ended.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, ReplacedState>> {
        self.arrays.lock()
    }
}

impl Replacement {
    /// The array has its new content.
    pub(crate) fn succeeded(self) -> OldPages {
        self.of.change(self.array, |array| array.old_pages += 1);
        OldPages {
            of: Arc::clone(&self.of),
            array: self.array,
        }
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        self.of.change(self.array, |array| array.under_way = false);
    }
}

impl Drop for OldPages {
    fn drop(&mut self) {
        self.of.change(self.array, |array| array.old_pages -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARRAY: WrittenArray = WrittenArray(3);

    #[test]
    fn mappings_write_the_old_content_until_its_pages_have_gone() {
        let replacements = Arc::new(Replacements::default());
        assert!(!replacements.is_of_the_old(ARRAY));
        let old_pages = replacements.begin(ARRAY).succeeded();
        assert!(replacements.is_of_the_old(ARRAY));
        assert!(!replacements.is_of_the_old(WrittenArray(0)));
        // Another one begins before they have gone.
        drop(replacements.begin(ARRAY));
        assert!(replacements.is_of_the_old(ARRAY));
        drop(old_pages);
        assert!(!replacements.is_of_the_old(ARRAY));
    }

    #[test]
    fn mappings_wait_for_what_becomes_of_a_replacement() {
        let replacements = Arc::new(Replacements::default());
        for succeeds in [true, false] {
            let replacement = replacements.begin(ARRAY);
            let old_pages = std::thread::scope(|threads| {
                let waiting = threads.spawn(|| replacements.is_of_the_old(ARRAY));
                let old_pages = match succeeds {
                    true => Some(replacement.succeeded()),
                    false => {
                        drop(replacement);
                        None
                    }
                };
                assert_eq!(waiting.join().unwrap(), succeeds);
                old_pages
            });
            drop(old_pages);
        }
    }
}
