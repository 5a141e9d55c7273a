//! libhdf5 behind a small door: opens a file by its descriptor and describes its structure.
//!
//! The library is C and its input is untrusted, so all this runs in the worker process (see
//! `serve`) and hands plain data back. It reads metadata, attributes and nothing else of a file:
//! datasets are decoded in the daemon. It is set to open no plugins, to take no locks and to print
//! nothing; the worker's limits keep it from opening other files, whatever a file asks for. Only
//! this folder names the crates of libhdf5.

mod attribute;
mod chunks;
mod dataset;
mod identifier;
mod json;
mod links;
mod parts;
mod softlink;
mod space;
mod swizzle;
#[cfg(test)]
pub(super) mod tests;
mod text;
mod types;
mod walk;

use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use hdf5_sys::h5::H5garbage_collect;
use hdf5_sys::h5f::{H5F_ACC_RDONLY, H5F_close_degree_t, H5Fget_create_plist, H5Fopen};
use hdf5_sys::h5o::{H5O_INFO_BASIC, H5O_info2_t, H5Oget_info3};
use hdf5_sys::h5p::{
    H5P_CLS_FILE_ACCESS, H5Pcreate, H5Pget_sizes, H5Pget_userblock, H5Pset_fapl_sec2,
    H5Pset_fclose_degree, H5Pset_file_locking,
};
use hdf5_sys::h5pl::H5PLset_loading_state;

use super::index::FileIndex;
use super::worker::wire::Answer;
use dataset::LibraryDataset;
use identifier::{Identifier, Outcome, check};
use walk::FileWalk;

/// Readies the library; to be called once, before anything else here.
pub(super) fn start() -> Outcome<()> {
    // Also opens the library.
    hdf5::silence_errors(true);
    let _lock = hdf5_sys::LOCK.lock();
    // SAFETY: the call takes a mask by value, which the crate declares as a pointer; 0 allows
    // nothing.
    check(unsafe { H5PLset_loading_state(ptr::null_mut()) })?;
    Ok(())
}

/// An opened HDF5 file.
pub(super) struct LibraryFile {
    file: Identifier,
}

impl LibraryFile {
    /// Opens the file behind a descriptor, from its beginning and for reading.
    pub(super) fn open(fd: BorrowedFd<'_>) -> Outcome<LibraryFile> {
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let path = CString::new(path).map_err(|e| e.to_string())?;
        let _lock = hdf5_sys::LOCK.lock();
        let access = access()?;
        // SAFETY: the path is NUL-terminated, the handle is a file access property list.
        let file = unsafe { H5Fopen(path.as_ptr(), H5F_ACC_RDONLY, access.id()) };
        Ok(LibraryFile {
            file: Identifier::new(file)?,
        })
    }

    /// Describes the whole file.
    pub(super) fn index(&self) -> Outcome<FileIndex> {
        let _lock = hdf5_sys::LOCK.lock();
        // SAFETY: the handle is a file.
        let properties = Identifier::new(unsafe { H5Fget_create_plist(self.file.id()) })?;
        let (mut offset, mut length, mut base) = (0, 0, 0);
        // SAFETY: the handle is a file creation property list; the numbers are ours.
        check(unsafe { H5Pget_sizes(properties.id(), &mut offset, &mut length) })?;
        // SAFETY: as above.
        check(unsafe { H5Pget_userblock(properties.id(), &mut base) })?;
        let walk = FileWalk::through(&self.file, self.root()?);
        Ok(FileIndex {
            superblock: 0,
            offset_size: u8::try_from(offset).unwrap_or(u8::MAX),
            length_size: u8::try_from(length).unwrap_or(u8::MAX),
            base,
            groups: walk.groups,
            datasets: walk.datasets,
            types: walk.types,
            problems: walk.problems,
            left_out: walk.left_out,
        })
    }

    /// The stored chunks of the dataset with this token, packed.
    pub(super) fn chunks(&self, token: u64) -> Answer<Vec<u8>> {
        let _lock = hdf5_sys::LOCK.lock();
        let dataset = LibraryDataset::new(walk::open(&self.file, token)?)?;
        let (dims, chunk) = dataset.chunking()?;
        chunks::table(dataset.handle(), &dims, &chunk)
    }

    fn root(&self) -> Outcome<u64> {
        let mut info = MaybeUninit::<H5O_info2_t>::zeroed();
        // SAFETY: a file stands for its root group, and there is room for the answer.
        check(unsafe { H5Oget_info3(self.file.id(), info.as_mut_ptr(), H5O_INFO_BASIC) })?;
        // SAFETY: filled in by the call, with kinds of objects that the crate knows.
        Ok(links::address(unsafe { info.assume_init() }.token))
    }
}

impl Drop for LibraryFile {
    fn drop(&mut self) {
        let _lock = hdf5_sys::LOCK.lock();
        // SAFETY: the lock is held. Gives back what the library keeps for later.
        unsafe { H5garbage_collect() };
    }
}

/// How files are opened: by plain reads, without locks, and closed with all that was opened in
/// them.
fn access() -> Outcome<Identifier> {
    // SAFETY: the library is open.
    let list = Identifier::new(unsafe { H5Pcreate(*H5P_CLS_FILE_ACCESS) })?;
    // SAFETY: the handle is a file access property list.
    check(unsafe { H5Pset_fapl_sec2(list.id()) })?;
    // SAFETY: as above.
    check(unsafe { H5Pset_file_locking(list.id(), 0, 1) })?;
    let strong = H5F_close_degree_t::H5F_CLOSE_STRONG;
    // SAFETY: as above.
    check(unsafe { H5Pset_fclose_degree(list.id(), strong) })?;
    Ok(list)
}
