//! What libhdf5 hands out, as values that give it back, and its complaints as plain sentences.
//!
//! libhdf5 is not safe for threads, so every call is made under its one lock: the entry points in
//! [`super`] hold it while they work, and a handle that is dropped takes it again (it is
//! re-entrant).

use std::ffi::{CStr, c_char, c_uint, c_void};

use hdf5_sys::h5::{H5free_memory, herr_t};
use hdf5_sys::h5e::{
    H5E_CANTALLOC, H5E_DEFAULT, H5E_NOSPACE, H5E_WALK_UPWARD, H5E_error2_t, H5E_walk2_t, H5Ewalk2,
};
use hdf5_sys::h5i::{H5Idec_ref, hid_t};
use rustix::process::{Resource, getrlimit};

/// What libhdf5 says when it refuses, in words for `error.txt`.
pub(super) type Outcome<T> = std::result::Result<T, String>;

/// An identifier of libhdf5: file, object, type, space, property list.
#[derive(Debug)]
pub(super) struct Identifier(hid_t);

impl Identifier {
    /// Takes what a call returned; a negative number is a refusal.
    pub(super) fn new(id: hid_t) -> Outcome<Identifier> {
        if id < 0 {
            return Err(complaint());
        }
        Ok(Identifier(id))
    }

    pub(super) fn id(&self) -> hid_t {
        self.0
    }

    /// Gives it back, and says what the library says to that.
    pub(super) fn close(self) -> Outcome<()> {
        let _lock = hdf5_sys::LOCK.lock();
        let id = self.0;
        std::mem::forget(self);
        // SAFETY: the identifier is ours and is given back once; the lock is held.
        check(unsafe { H5Idec_ref(id) }).map(|_| ())
    }
}

impl Drop for Identifier {
    fn drop(&mut self) {
        let _lock = hdf5_sys::LOCK.lock();
        // SAFETY: the identifier is ours and is given back once; the lock is held.
        unsafe { H5Idec_ref(self.0) };
    }
}

/// The outcome of a call that returns a negative number when it refuses.
pub(super) fn check(status: herr_t) -> Outcome<usize> {
    usize::try_from(status).map_err(|_| complaint())
}

/// What a getter of the library says of a handle of the kind that it is for.
pub(super) fn asked<T>(
    of: &Identifier,
    mut answer: T,
    get: unsafe extern "C" fn(hid_t, *mut T) -> herr_t,
) -> Outcome<T> {
    // SAFETY: there is room for the answer; a handle of another kind is refused.
    check(unsafe { get(of.id(), &mut answer) })?;
    Ok(answer)
}

/// A string that libhdf5 allocated.
pub(super) fn owned(text: *mut c_char) -> Outcome<Vec<u8>> {
    if text.is_null() {
        return Err(complaint());
    }
    // SAFETY: not null, and libhdf5 returns NUL-terminated strings here.
    let copy = unsafe { CStr::from_ptr(text) }.to_bytes().to_vec();
    // SAFETY: it was allocated by libhdf5 for the caller, which frees it once.
    unsafe { H5free_memory(text.cast()) };
    Ok(copy)
}

/// The longest complaint that is passed on, in bytes: some quote the file.
const COMPLAINT_MOST: usize = 200;

#[derive(Default)]
struct Heard {
    what: Option<String>,
    memory: bool,
}

/// The innermost complaint on libhdf5's stack: what it met, not which calls met it.
pub(super) fn complaint() -> String {
    let mut heard = Heard::default();
    let hear: H5E_walk2_t = Some(hear);
    // SAFETY: the callback gets our `heard`, which outlives the call.
    unsafe { H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, hear, (&raw mut heard).cast()) };
    if heard.memory {
        return out_of_memory();
    }
    heard
        .what
        .unwrap_or_else(|| "the HDF5 library gives no reason".into())
}

extern "C" fn hear(_: c_uint, entry: *const H5E_error2_t, heard: *mut c_void) -> herr_t {
    // SAFETY: libhdf5 passes a valid entry, and `heard` is the one of `complaint`.
    let (entry, heard) = unsafe { (&*entry, &mut *heard.cast::<Heard>()) };
    if entry.desc.is_null() {
        return 0;
    }
    // SAFETY: not null; libhdf5 keeps descriptions as NUL-terminated strings.
    let what = unsafe { CStr::from_ptr(entry.desc) }.to_string_lossy();
    let minors = [*H5E_NOSPACE, *H5E_CANTALLOC];
    heard.memory |= minors.contains(&entry.min_num) && what.contains("alloc");
    if heard.what.is_none() && !what.is_empty() {
        heard.what = Some(shortened(&what));
    }
    0
}

/// Without what only the library's developers can use: times, descriptors, addresses of memory.
fn shortened(what: &str) -> String {
    let what = what.split(": time = ").next().unwrap_or(what);
    what.chars().take(COMPLAINT_MOST).collect()
}

/// Says how much there was to have.
pub(super) fn out_of_memory() -> String {
    match getrlimit(Resource::As).current {
        Some(bytes) => format!("the HDF5 library needed more than {} MiB", bytes >> 20),
        None => "the HDF5 library ran out of memory".into(),
    }
}
