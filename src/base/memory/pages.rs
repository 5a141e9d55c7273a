//! Memory that the system gives with its pages, before these are touched.
//!
//! Pages that are taken one by one, as they are written, cost as much as decoding to them. Code
//! that is going to write all of a mapping asks for its pages here, at one of three moments:
//!
//! - when it is needed: a block that is about to be decoded ([`super::block`]), or the page that
//!   several share ([`super::large_page`]);
//! - before, for readers: [`super::spare`] has a few of the size that is read in sequence. They are
//!   small, beside the budget, and made by a thread of their own, which gives them back when there
//!   were no reads for a moment;
//! - before, for writers: `stage::ready` has large pages, which are charged to the budget and the
//!   first to go when memory is wanted; they are made by background workers between encoding, and
//!   go with the last slab in use.
//!
//! The last two keep what they have in ways of their own: a few blocks of any size, for a moment,
//! are too little to account for, and large pages beside a small budget would exceed it.

use std::io;

use memmap2::{Advice, MmapMut, MmapOptions};

/// Bytes of a large page. Where the system has other ones or none, it is as good as small ones.
pub const LARGE_PAGE: usize = 2 << 20;

/// Mappings of up to this size have their pages at once.
const POPULATED: usize = 4 << 20;

/// With its pages; not those of something huge, which may be nothing but a claim.
pub(super) fn mapped(size: usize) -> io::Result<MmapMut> {
    let mut options = MmapOptions::new();
    options.len(size);
    if size <= POPULATED {
        options.populate();
    }
    options.map_anon()
}

/// A large page without its memory, which comes with [`populate`], or when it is touched.
pub fn large_page() -> io::Result<MmapMut> {
    let mapping = MmapMut::map_anon(LARGE_PAGE)?;
    // A wish: small pages do as well.
    let _ = mapping.advise(Advice::HugePage);
    Ok(mapping)
}

/// Has the system give and clear the pages now; where it does not, it does it when they are
/// touched.
pub fn populate(mapping: &MmapMut) {
    let _ = mapping.advise(Advice::PopulateWrite);
}
