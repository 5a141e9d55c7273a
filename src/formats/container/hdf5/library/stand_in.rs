//! Filters that the library lacks, as filters that change nothing.
//!
//! Another extent makes the library read and write the chunks at the edge, which it refuses to do
//! where it does not know a filter. What it makes of them does not matter: the daemon stores every
//! such chunk anew. Used by [`super::editing`].

use std::ffi::{c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hdf5_sys::h5::{H5allocate_memory, H5free_memory, herr_t};
use hdf5_sys::h5z::{H5Z_CLASS_T_VERS, H5Z_class2_t, H5Zfilter_avail};

use super::identifier::{Outcome, check};

unsafe extern "C" {
    /// What registers filters behind `H5Zregister`, which refuses the numbers of the library's own:
    /// szip is one of these, and is not built in.
    fn H5Z_register(class: *const H5Z_class2_t) -> herr_t;
}

/// The library takes every chunk that has been decoded to be as long as chunks are.
static CHUNK: AtomicU64 = AtomicU64::new(0);

/// Whether there has been any need. The process must not read by them what it is asked for later.
static ANY: AtomicBool = AtomicBool::new(false);

pub(crate) fn is_any() -> bool {
    ANY.load(Ordering::Relaxed)
}

/// Sees to it that there is a filter of this number, for chunks of so many bytes.
pub(super) fn provide(id: u32, chunk_bytes: u64) -> Outcome<()> {
    CHUNK.store(chunk_bytes, Ordering::Relaxed);
    let id = i32::try_from(id).map_err(|e| e.to_string())?;
    // SAFETY: looks for a filter by its number; plugins are not loaded.
    if unsafe { H5Zfilter_avail(id) } > 0 {
        return Ok(());
    }
    let class = H5Z_class2_t {
        version: H5Z_CLASS_T_VERS as i32,
        id,
        encoder_present: 1,
        decoder_present: 1,
        name: c"none".as_ptr(),
        can_apply: None,
        set_local: None,
        filter: Some(keep),
    };
    // SAFETY: the class is copied, its name is constant.
    check(unsafe { H5Z_register(&raw const class) })?;
    ANY.store(true, Ordering::Relaxed);
    Ok(())
}

const DECODES: c_uint = 0x0100;

/// Leaves the bytes as they are; on reading, exactly as many as a chunk has, with zeros behind
/// them.
unsafe extern "C" fn keep(
    flags: c_uint,
    _count: usize,
    _values: *const c_uint,
    len: usize,
    room: *mut usize,
    buffer: *mut *mut c_void,
) -> usize {
    let all = usize::try_from(CHUNK.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
    if flags & DECODES == 0 {
        return len;
    }
    if len >= all {
        return all;
    }
    // SAFETY: memory of the library's, which is given back by it.
    let longer = unsafe { H5allocate_memory(all, 1) };
    if longer.is_null() {
        return 0;
    }
    // SAFETY: the buffer holds `len` bytes, and there is room for more; the library hands over both
    // pointers and takes what they are set to.
    unsafe {
        ptr::copy_nonoverlapping((*buffer).cast::<u8>(), longer.cast::<u8>(), len);
        H5free_memory(*buffer);
        *buffer = longer;
        *room = all;
    }
    all
}
