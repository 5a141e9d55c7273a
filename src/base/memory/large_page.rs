//! Blocks that share a large page.
//!
//! The system gives and charges memory page by page; for a block of 1 MiB that takes longer than
//! lz4 takes to fill it. One page of 2 MiB costs half as much as the 512 small ones, so blocks of
//! some sizes are parts of one. A part that is freed while another one is in use is given back, and
//! the page stays one of small pages from then on: the system would make a large one of it again,
//! and fill the gaps. A page without parts is unmapped. Used by [`super::block`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use memmap2::{Advice, MmapRaw, UncheckedAdvice};

use super::pages::{self, LARGE_PAGE};

/// Sizes of parts. Of smaller ones there would be more than are wanted at once.
const LEAST: usize = 512 << 10;

struct LargePage {
    mapping: MmapRaw,
    /// A part has been given back.
    is_broken: AtomicBool,
}

/// The only one that reads and writes these bytes.
pub(super) struct PagePart {
    page: Arc<LargePage>,
    at: usize,
    len: usize,
}

/// As many parts of `len` bytes as a large page has, with their pages; none if that is no such
/// size, or if the system has no memory.
pub(super) fn parts(len: usize) -> Option<impl Iterator<Item = PagePart>> {
    let count = LARGE_PAGE.checked_div(len)?;
    if len < LEAST || count < 2 {
        return None;
    }
    let page = pages::large_page().ok()?;
    pages::populate(&page);
    let page = Arc::new(LargePage {
        mapping: MmapRaw::from(page),
        is_broken: AtomicBool::new(false),
    });
    Some((0..count).map(move |number| PagePart {
        page: Arc::clone(&page),
        at: number * len,
        len,
    }))
}

impl PagePart {
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: the range lies within the mapping, which lives as long as `page`; no other part
        // has any of it, and writing to it takes `&mut self`.
        unsafe { std::slice::from_raw_parts(self.page.mapping.as_ptr().add(self.at), self.len) }
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and no other thread has this part.
        unsafe {
            std::slice::from_raw_parts_mut(self.page.mapping.as_mut_ptr().add(self.at), self.len)
        }
    }
}

impl Drop for PagePart {
    fn drop(&mut self) {
        if Arc::strong_count(&self.page) == 1 {
            return;
        }
        // Refused, the bytes stay until the last part goes.
        let mapping = &self.page.mapping;
        if !self.page.is_broken.swap(true, Ordering::Relaxed) {
            let _ = mapping.advise(Advice::NoHugePage);
        }
        // SAFETY: no thread reads these bytes any more, and they lie within the mapping.
        let _ =
            unsafe { mapping.unchecked_advise_range(UncheckedAdvice::DontNeed, self.at, self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_apart() {
        for len in [512 << 10, 640 << 10, 1 << 20] {
            let mut parts: Vec<PagePart> = parts(len).unwrap().collect();
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
        for len in [0, 64 << 10, 448 << 10, (1 << 20) + 1, 2 << 20, usize::MAX] {
            assert!(parts(len).is_none(), "{len}");
        }
    }

    #[test]
    fn what_is_freed_goes_back_while_others_are_in_use() {
        let mut parts: Vec<PagePart> = parts(1 << 20).unwrap().collect();
        let left = parts.pop().unwrap();
        let freed = (parts[0].bytes().as_ptr(), parts[0].len);
        drop(parts);
        let mut resident = vec![1u8; freed.1 / 4096];
        // SAFETY: asks about a mapping that lives as long as `left`, and fills as many bytes as it
        // has pages.
        let asked =
            unsafe { libc::mincore(freed.0.cast_mut().cast(), freed.1, resident.as_mut_ptr()) };
        assert_eq!(asked, 0);
        assert!(resident.iter().all(|page| page & 1 == 0));
        assert_eq!(left.bytes().len(), 1 << 20);
        // Flags of the mapping: no large pages, so the kernel does not fill the gap.
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut is_of_page = false;
        let flags = maps.lines().find_map(|line| {
            let range = line.split_once(' ')?.0.split_once('-');
            let bounds = range.map(|(from, to)| [from, to].map(|at| usize::from_str_radix(at, 16)));
            if let Some([Ok(from), Ok(to)]) = bounds {
                is_of_page = (from..to).contains(&freed.0.addr());
            }
            line.strip_prefix("VmFlags:").filter(|_| is_of_page)
        });
        assert!(
            flags.is_some_and(|flags| flags.contains(" nh")),
            "{flags:?}"
        );
    }
}
