//! Blocks that share a large page.
//!
//! The system gives and charges memory page by page; for a block of 1 MiB that takes longer than lz4 takes to fill it. One page of
//! 2 MiB costs half as much as the 512 small ones, so blocks of some sizes are parts of one. A part that is freed while
//! another one is in use is told to the system, which takes it back when it is short of memory; a page without parts is
//! unmapped. Used by [`super::block`].

use std::sync::Arc;

use memmap2::{Advice, MmapRaw, UncheckedAdvice};

/// Bytes of a large page. Where the system has other ones or none, the parts are as good as memory of their own.
pub const LARGE_PAGE: usize = 2 << 20;

/// Sizes of parts. Of smaller ones there would be too many that nobody wants at once.
const LEAST: usize = 256 << 10;

/// A part of a large page: the only one that reads and writes its bytes.
pub(super) struct Part {
    page: Arc<MmapRaw>,
    at: usize,
    len: usize,
}

/// As many parts of `len` bytes as a large page has, with their pages; none if that is no such size, or if the system has
/// no memory.
pub(super) fn parts(len: usize) -> Option<impl Iterator<Item = Part>> {
    let count = LARGE_PAGE.checked_div(len)?;
    if len < LEAST || count < 2 {
        return None;
    }
    let page = memmap2::MmapMut::map_anon(LARGE_PAGE).ok()?;
    // Both are wishes: small pages do as well, and come when they are touched.
    let _ = page.advise(Advice::HugePage);
    let _ = page.advise(Advice::PopulateWrite);
    let page = Arc::new(MmapRaw::from(page));
    Some((0..count).map(move |number| Part {
        page: Arc::clone(&page),
        at: number * len,
        len,
    }))
}

impl Part {
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: the range lies within the mapping, which lives as long as `page`; no other part has any of it, and
        // writing to it takes `&mut self`.
        unsafe { std::slice::from_raw_parts(self.page.as_ptr().add(self.at), self.len) }
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and nobody else has this part.
        unsafe { std::slice::from_raw_parts_mut(self.page.as_mut_ptr().add(self.at), self.len) }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let is_last = Arc::strong_count(&self.page) == 1;
        if !is_last {
            // SAFETY: nobody reads these bytes any more. Refused, they stay until the last part goes.
            let _ = unsafe {
                self.page
                    .unchecked_advise_range(UncheckedAdvice::DontNeed, self.at, self.len)
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_apart() {
        for len in [256 << 10, 320 << 10, 1 << 20] {
            let mut parts: Vec<Part> = parts(len).unwrap().collect();
            assert_eq!(parts.len(), LARGE_PAGE / len);
            for (number, part) in parts.iter_mut().enumerate() {
                part.bytes_mut().fill(number as u8 + 1);
            }
            drop(parts.remove(0));
            for (number, part) in parts.iter().enumerate() {
                assert!(part.bytes().len() == len);
                assert!(part.bytes().iter().all(|byte| *byte == number as u8 + 2));
            }
        }
        for len in [0, 64 << 10, (1 << 20) + 1, 2 << 20, usize::MAX] {
            assert!(parts(len).is_none(), "{len}");
        }
    }

    #[test]
    fn what_is_freed_goes_back_while_others_are_in_use() {
        let mut parts: Vec<Part> = parts(1 << 20).unwrap().collect();
        let left = parts.pop().unwrap();
        let freed = (parts[0].bytes().as_ptr(), parts[0].len);
        drop(parts);
        let mut resident = vec![1u8; freed.1 / 4096];
        // SAFETY: asks about a mapping that lives as long as `left`, and fills as many bytes as it has pages.
        let asked =
            unsafe { libc::mincore(freed.0.cast_mut().cast(), freed.1, resident.as_mut_ptr()) };
        assert_eq!(asked, 0);
        assert!(resident.iter().all(|page| page & 1 == 0));
        assert_eq!(left.bytes().len(), 1 << 20);
    }
}
