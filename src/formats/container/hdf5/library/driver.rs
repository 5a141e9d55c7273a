//! A virtual file driver: how libhdf5 reads and writes the bytes of a file that it never sees.
//!
//! Bytes come from whatever [`FileBytes`] is given; what the library writes is kept in memory
//! ([`WrittenBytes`]), over them. So a file is opened without a path, nothing needs to be openable,
//! and no file is ever changed here: what is written becomes patches, which the daemon carries out.
//! Raw chunks are not written at all: the library is told to write a chunk of a length from an
//! address that nothing is read from, and the driver notes where it would go ([`Placement`]).
//! Assumes the lock of the library, under which it is called. Used by [`super`].
//!
//! The structures are those of HDF5 1.14 to 2: the crate has older ones, which the library refuses.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_ulong, c_void};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr;
use std::sync::{Arc, LazyLock};

use hdf5_sys::h5::{HADDR_UNDEF, haddr_t, herr_t, hsize_t};
use hdf5_sys::h5f::H5F_mem_t;
use hdf5_sys::h5i::hid_t;

use super::identifier::{Outcome, complaint};
use super::written::WrittenBytes;
use crate::range_set::RangeSet;
use crate::sync::{Mutex, MutexGuard};

/// Class of the driver among others: those from 512 on are free for use.
const VALUE: c_int = 512;
const VERSION: c_uint = 1;
const NAME: &CStr = c"arrayfs";

/// No address of a file is larger: libhdf5 counts in signed numbers in places.
const MAXADDR: haddr_t = i64::MAX as haddr_t;

/// More ranges that it reads are not told.
const NOTED_MOST: usize = 1 << 18;

/// The library gathers reads and writes of metadata; it allocates what it needs and no more, since
/// what is left of a larger block would be lost.
const FEATURES: c_ulong = 0x2 | 0x4;

const DONE: herr_t = 0;
const FAILED: herr_t = -1;

/// Where the bytes of a file come from.
pub(crate) trait FileBytes: Send {
    fn len(&self) -> u64;

    /// Fills `out`, which lies within the file.
    fn read(&self, at: u64, out: &mut [u8]) -> Outcome<()>;
}

/// A file as the library sees it, and as it has changed it.
pub(super) struct DrivenFile {
    bytes: Box<dyn FileBytes>,
    pub(super) written: WrittenBytes,
    /// End of what is allocated, and of the file, in bytes from its beginning.
    end: u64,
    eof: u64,
    /// Room that raw data may be put into, of ranges that lie before the end.
    pub(super) room: Vec<Range<u64>>,
    /// The length of the chunk that is about to be written, and where it goes.
    awaited: Option<u64>,
    placed: Option<u64>,
    /// Raw data that are written are dropped: the daemon writes all of them.
    pub(super) drops_raw: bool,
    /// What the library reads is noted.
    pub(super) notes: bool,
    noted: RangeSet,
    /// It reads and writes metadata piece by piece, so that it can be told what it reads.
    pub(super) is_edited: bool,
    /// The first thing that went wrong below the library, which says less of it.
    pub(super) failure: Option<String>,
}

#[cfg(any(test, feature = "fuzzing"))]
impl FileBytes for Vec<u8> {
    fn len(&self) -> u64 {
        self.len() as u64
    }

    fn read(&self, at: u64, out: &mut [u8]) -> Outcome<()> {
        out.copy_from_slice(&self[at as usize..][..out.len()]);
        Ok(())
    }
}

pub(super) type SharedFile = Arc<Mutex<DrivenFile>>;

pub(super) fn lock(file: &SharedFile) -> MutexGuard<'_, DrivenFile> {
    file.lock()
}

/// What the address of a chunk's bytes is: nothing lies there, and nothing is read.
pub(super) const NOTHING: *const c_void = ptr::without_provenance(1 << 12);

impl DrivenFile {
    pub(super) fn shared(bytes: Box<dyn FileBytes>) -> SharedFile {
        let eof = bytes.len();
        Arc::new(Mutex::new(DrivenFile {
            bytes,
            written: WrittenBytes::default(),
            end: 0,
            eof,
            room: Vec::new(),
            awaited: None,
            placed: None,
            drops_raw: false,
            notes: false,
            noted: RangeSet::default(),
            is_edited: false,
            failure: None,
        }))
    }

    /// End of what is allocated.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// The next raw write of so many bytes is a chunk, whose place is noted.
    pub(super) fn await_chunk(&mut self, len: u64) {
        (self.awaited, self.placed) = (Some(len), None);
    }

    /// Where that chunk goes; none if it was not written.
    pub(super) fn take_placed(&mut self) -> Option<u64> {
        self.awaited = None;
        self.placed.take()
    }

    /// Address and length of what has been noted, in order; none if it was too much.
    pub(super) fn take_noted(&mut self) -> Vec<(u64, u64)> {
        let noted = std::mem::take(&mut self.noted);
        match noted.ranges() <= NOTED_MOST {
            true => noted
                .iter()
                .map(|it| (it.start, it.end - it.start))
                .collect(),
            false => Vec::new(),
        }
    }

    fn read(&mut self, at: u64, out: &mut [u8]) -> Outcome<()> {
        if self.notes && self.noted.ranges() <= NOTED_MOST {
            self.noted.insert(at..at.saturating_add(out.len() as u64));
        }
        let there = self.bytes.len().saturating_sub(at).min(out.len() as u64);
        let (stored, behind) = out.split_at_mut(there as usize);
        behind.fill(0);
        if !stored.is_empty() {
            self.bytes.read(at, stored)?;
        }
        self.written.read(at, out);
        Ok(())
    }

    fn write(&mut self, is_raw: bool, at: u64, bytes: *const c_void, len: usize) -> Outcome<()> {
        if is_raw && self.drops_raw {
            return Ok(());
        }
        if ptr::eq(bytes, NOTHING) {
            if self.awaited.take() != Some(len as u64) {
                return Err("a chunk of another length was written".into());
            }
            self.placed = Some(at);
            self.eof = self.eof.max(at.saturating_add(len as u64));
            return self.written.place(at, len as u64);
        }
        // SAFETY: the library hands over so many bytes, which it does not change meanwhile.
        let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), len) };
        self.eof = self.eof.max(at.saturating_add(len as u64));
        self.written.put(at, bytes)
    }

    /// An address for new data.
    fn allocate(&mut self, is_raw: bool, size: u64) -> Option<u64> {
        if is_raw && let Some(found) = self.take_room(size) {
            return Some(found);
        }
        let at = self.end;
        self.end = at.checked_add(size).filter(|end| *end <= MAXADDR)?;
        Some(at)
    }

    /// The smallest room that is large enough.
    fn take_room(&mut self, size: u64) -> Option<u64> {
        let end = self.end;
        let fits = |range: &&mut Range<u64>| range.end.min(end).saturating_sub(range.start) >= size;
        let room = self.room.iter_mut().filter(fits);
        let smallest = room.min_by_key(|range| range.end - range.start)?;
        let at = smallest.start;
        smallest.start += size;
        Some(at)
    }
}

/// `H5FD_t`: what the library knows of an opened file; ours follows.
#[repr(C)]
struct OpenedHead {
    driver_id: hid_t,
    cls: *const DriverClass,
    fileno: c_ulong,
    access_flags: c_uint,
    feature_flags: c_ulong,
    maxaddr: haddr_t,
    base_addr: haddr_t,
    threshold: hsize_t,
    alignment: hsize_t,
    paged_aggr: bool,
}

#[repr(C)]
struct Opened {
    head: OpenedHead,
    file: SharedFile,
}

/// A callback that is not there.
type Absent = Option<unsafe extern "C" fn()>;

/// `H5FD_class_t`.
#[repr(C)]
struct DriverClass {
    version: c_uint,
    value: c_int,
    name: *const c_char,
    maxaddr: haddr_t,
    fc_degree: c_int,
    /// `terminate`, `sb_size`, `sb_encode`, `sb_decode`.
    before_properties: [Absent; 4],
    fapl_size: usize,
    /// `fapl_get`, `fapl_copy`, `fapl_free`.
    of_access: [Absent; 3],
    dxpl_size: usize,
    /// `dxpl_copy`, `dxpl_free`.
    of_transfer: [Absent; 2],
    open: unsafe extern "C" fn(*const c_char, c_uint, hid_t, haddr_t) -> *mut Opened,
    close: unsafe extern "C" fn(*mut Opened) -> herr_t,
    cmp: Absent,
    query: unsafe extern "C" fn(*const Opened, *mut c_ulong) -> herr_t,
    get_type_map: Absent,
    alloc: unsafe extern "C" fn(*mut Opened, c_int, hid_t, hsize_t) -> haddr_t,
    free: Absent,
    get_eoa: unsafe extern "C" fn(*const Opened, c_int) -> haddr_t,
    set_eoa: unsafe extern "C" fn(*mut Opened, c_int, haddr_t) -> herr_t,
    get_eof: unsafe extern "C" fn(*const Opened, c_int) -> haddr_t,
    get_handle: Absent,
    read: unsafe extern "C" fn(*mut Opened, c_int, hid_t, haddr_t, usize, *mut c_void) -> herr_t,
    write: unsafe extern "C" fn(*mut Opened, c_int, hid_t, haddr_t, usize, *const c_void) -> herr_t,
    /// `read_vector`, `write_vector`, `read_selection`, `write_selection`, `flush`.
    before_truncate: [Absent; 5],
    truncate: unsafe extern "C" fn(*mut Opened, hid_t, bool) -> herr_t,
    /// `lock`, `unlock`, `del`, `ctl`.
    behind_truncate: [Absent; 4],
    fl_map: [c_int; 7],
}

// The sizes of the library's own, which reads and writes these.
const _: () = assert!(size_of::<OpenedHead>() == 80 && size_of::<DriverClass>() == 336);

// SAFETY: all of it is constant, the name as well.
unsafe impl Sync for DriverClass {}

static CLASS: DriverClass = DriverClass {
    version: VERSION,
    value: VALUE,
    name: NAME.as_ptr(),
    maxaddr: MAXADDR,
    // H5F_CLOSE_WEAK: what a driver demands at least.
    fc_degree: 1,
    before_properties: [None; 4],
    fapl_size: 0,
    of_access: [None; 3],
    dxpl_size: 0,
    of_transfer: [None; 2],
    open,
    close,
    cmp: None,
    query,
    get_type_map: None,
    alloc,
    free: None,
    get_eoa,
    set_eoa,
    get_eof,
    get_handle: None,
    read,
    write,
    before_truncate: [None; 5],
    truncate,
    // Without locks no mark "being written" is set in the file.
    behind_truncate: [None; 4],
    // One kind of free space for raw data and one for all else.
    fl_map: [1, 1, 1, 3, 3, 1, 1],
};

unsafe extern "C" {
    fn H5FDregister(class: *const DriverClass) -> hid_t;
    fn H5Pset_driver(list: hid_t, driver: hid_t, info: *const c_void) -> herr_t;
}

/// Identifier of the driver, registered once for the life of the process.
static DRIVER: LazyLock<Outcome<hid_t>> = LazyLock::new(|| {
    // SAFETY: the class is constant and has the layout that its version promises.
    let driver = unsafe { H5FDregister(&CLASS) };
    match driver < 0 {
        true => Err(format!(
            "the HDF5 library takes no driver of this version (1.14 or newer is needed): {}",
            complaint()
        )),
        false => Ok(driver),
    }
});

/// Files that are about to be opened, by the names that they are opened with.
static OFFERED: LazyLock<Mutex<(u64, HashMap<CString, SharedFile>)>> =
    LazyLock::new(Mutex::default);

/// A file while it is being opened: by a name that leads to nothing else.
pub(super) struct Offer(CString);

impl Offer {
    pub(super) fn new(file: &SharedFile) -> Outcome<Offer> {
        let mut offered = OFFERED.lock();
        offered.0 += 1;
        let name = CString::new(offered.0.to_string()).map_err(|e| e.to_string())?;
        offered.1.insert(name.clone(), Arc::clone(file));
        Ok(Offer(name))
    }

    pub(super) fn name(&self) -> &CStr {
        &self.0
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        let mut offered = OFFERED.lock();
        offered.1.remove(&self.0);
    }
}

/// Has files be opened by the driver that an access list is for.
pub(super) fn set(list: hid_t) -> Outcome<()> {
    let driver = DRIVER.clone()?;
    // SAFETY: both are identifiers of the library, and the driver takes no further properties.
    match unsafe { H5Pset_driver(list, driver, ptr::null()) } < 0 {
        true => Err(complaint()),
        false => Ok(()),
    }
}

fn is_raw(kind: c_int) -> bool {
    kind == H5F_mem_t::H5FD_MEM_DRAW as c_int
}

/// What became of it for the library; the reason is kept.
fn told(file: &mut DrivenFile, done: Outcome<()>) -> herr_t {
    match done {
        Ok(()) => DONE,
        Err(why) => {
            file.failure.get_or_insert(why);
            FAILED
        }
    }
}

unsafe extern "C" fn open(
    name: *const c_char,
    _flags: c_uint,
    _list: hid_t,
    _maxaddr: haddr_t,
) -> *mut Opened {
    if name.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: not null, and a string of C.
    let name = unsafe { CStr::from_ptr(name) };
    let offered = OFFERED.lock();
    // A link to another file leads here, too, and finds nothing.
    let Some(file) = offered.1.get(name).map(Arc::clone) else {
        return ptr::null_mut();
    };
    // SAFETY: numbers, a pointer that is null, and no: the library fills them in.
    let head = unsafe { MaybeUninit::<OpenedHead>::zeroed().assume_init() };
    Box::into_raw(Box::new(Opened { head, file }))
}

unsafe extern "C" fn close(opened: *mut Opened) -> herr_t {
    // SAFETY: it was made by `open`, and is closed once.
    drop(unsafe { Box::from_raw(opened) });
    DONE
}

unsafe extern "C" fn query(opened: *const Opened, features: *mut c_ulong) -> herr_t {
    let is_edited = !opened.is_null() && driven(opened).is_edited;
    if !features.is_null() {
        // SAFETY: not null, and the library's.
        unsafe { *features = if is_edited { 0 } else { FEATURES } };
    }
    DONE
}

/// The file behind a pointer of the library's.
fn driven<'a>(opened: *const Opened) -> MutexGuard<'a, DrivenFile> {
    // SAFETY: made by `open`, and not closed: the library hands it over as long as it has it open.
    lock(unsafe { &(*opened).file })
}

unsafe extern "C" fn alloc(
    opened: *mut Opened,
    kind: c_int,
    _transfer: hid_t,
    size: hsize_t,
) -> haddr_t {
    driven(opened)
        .allocate(is_raw(kind), size)
        .unwrap_or(HADDR_UNDEF)
}

unsafe extern "C" fn get_eoa(opened: *const Opened, _kind: c_int) -> haddr_t {
    driven(opened).end
}

unsafe extern "C" fn set_eoa(opened: *mut Opened, _kind: c_int, end: haddr_t) -> herr_t {
    driven(opened).end = end;
    DONE
}

unsafe extern "C" fn get_eof(opened: *const Opened, _kind: c_int) -> haddr_t {
    driven(opened).eof
}

unsafe extern "C" fn read(
    opened: *mut Opened,
    _kind: c_int,
    _transfer: hid_t,
    at: haddr_t,
    len: usize,
    out: *mut c_void,
) -> herr_t {
    // SAFETY: the library has room for so many bytes.
    let out = unsafe { std::slice::from_raw_parts_mut(out.cast::<u8>(), len) };
    let mut file = driven(opened);
    let done = file.read(at, out);
    told(&mut file, done)
}

unsafe extern "C" fn write(
    opened: *mut Opened,
    kind: c_int,
    _transfer: hid_t,
    at: haddr_t,
    len: usize,
    bytes: *const c_void,
) -> herr_t {
    let mut file = driven(opened);
    let done = file.write(is_raw(kind), at, bytes, len);
    told(&mut file, done)
}

/// The file ends where what is allocated ends.
unsafe extern "C" fn truncate(opened: *mut Opened, _transfer: hid_t, _closing: bool) -> herr_t {
    let mut file = driven(opened);
    file.eof = file.end;
    DONE
}
