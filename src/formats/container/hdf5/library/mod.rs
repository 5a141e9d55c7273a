//! libhdf5 behind a small door: opens a file whose bytes it is given, describes its structure, and
//! says what a change of it would write.
//!
//! The library is C and its input is untrusted, so all this runs in the worker process (see
//! `serve`) and hands plain data back. It reads metadata, attributes and nothing else of a file:
//! datasets are decoded in the daemon. It is set to open no plugins, to take no locks and to print
//! nothing; it gets at the bytes by [`driver`] alone, and the worker can open nothing, whatever a
//! file asks for. Only this folder names the crates of libhdf5.

mod attribute;
mod chunks;
mod dataset;
mod details;
mod driver;
mod editing;
mod elements;
mod from_json;
mod identifier;
mod json;
mod links;
mod new_type;
mod new_value;
mod parts;
mod scales;
mod softlink;
mod space;
mod stand_in;
mod swizzle;
#[cfg(test)]
pub(super) mod tests;
mod text;
mod types;
mod walk;
mod written;

use std::ptr;

use hdf5_sys::h5::{H5garbage_collect, H5get_libversion, HADDR_UNDEF};
use hdf5_sys::h5f::{
    H5F_ACC_RDONLY, H5F_ACC_RDWR, H5F_ACC_TRUNC, H5F_LIBVER_LATEST, H5F_close_degree_t,
    H5F_fspace_strategy_t, H5F_libver_t, H5Fcreate, H5Fget_create_plist, H5Fget_mdc_image_info,
    H5Fopen,
};
use hdf5_sys::h5p::{
    H5P_CLS_FILE_ACCESS, H5P_CLS_FILE_CREATE, H5Pcreate, H5Pget_file_space_strategy, H5Pget_sizes,
    H5Pget_userblock, H5Pset_attr_creation_order, H5Pset_fclose_degree, H5Pset_file_locking,
    H5Pset_libver_bounds, H5Pset_link_creation_order,
};
use hdf5_sys::h5pl::H5PLset_loading_state;

use super::index::{CacheImage, FileIndex};
use super::made::NewFileForm;
use super::worker::wire::WorkerAnswer;
use dataset::LibraryDataset;
pub(super) use driver::FileBytes;
use driver::{DrivenFile, Offer, SharedFile};
pub(super) use editing::FileEdit;
use editing::IN_ORDER;
use identifier::{Identifier, Outcome, asked, check};
pub(super) use stand_in::is_any as has_stand_ins;
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
    driven: SharedFile,
    _garbage: Garbage,
}

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpenedFor {
    Reading,
    Editing,
    Making(NewFileForm),
}

impl LibraryFile {
    /// Opens a file for reading.
    pub(super) fn open(bytes: Box<dyn FileBytes>) -> Outcome<LibraryFile> {
        LibraryFile::open_for(bytes, OpenedFor::Reading)
    }

    fn open_for(bytes: Box<dyn FileBytes>, purpose: OpenedFor) -> Outcome<LibraryFile> {
        let driven = DrivenFile::shared(bytes);
        driver::lock(&driven).is_edited = purpose == OpenedFor::Editing;
        let _lock = hdf5_sys::LOCK.lock();
        let (access, offer) = (access()?, Offer::new(&driven)?);
        let name = offer.name().as_ptr();
        let file = match purpose {
            // SAFETY: the name is NUL-terminated, the handle is a file access property list.
            OpenedFor::Reading => unsafe { H5Fopen(name, H5F_ACC_RDONLY, access.id()) },
            // SAFETY: as above.
            OpenedFor::Editing => unsafe { H5Fopen(name, H5F_ACC_RDWR, access.id()) },
            OpenedFor::Making(form) => {
                let list = creation(form, &access)?;
                // SAFETY: as above; the other handle is a file creation property list.
                unsafe { H5Fcreate(name, H5F_ACC_TRUNC, list.id(), access.id()) }
            }
        };
        let file = Identifier::new(file);
        let failed = driver::lock(&driven).failure.take();
        match (file, failed) {
            (Ok(file), _) => Ok(LibraryFile {
                file,
                driven,
                _garbage: Garbage,
            }),
            (Err(_), Some(why)) | (Err(why), None) => Err(why),
        }
    }

    /// Closes a file that was edited: the library writes what it has not written yet.
    fn close(self) -> Outcome<SharedFile> {
        let LibraryFile { file, driven, .. } = self;
        file.close()?;
        Ok(driven)
    }

    /// Describes the whole file.
    pub(super) fn index(&self) -> Outcome<FileIndex> {
        let _lock = hdf5_sys::LOCK.lock();
        // SAFETY: the handle is a file.
        let properties = Identifier::new(unsafe { H5Fget_create_plist(self.file.id()) })?;
        let (mut offset, mut length) = (0, 0);
        // SAFETY: the handle is a file creation property list; the numbers are ours.
        check(unsafe { H5Pget_sizes(properties.id(), &mut offset, &mut length) })?;
        let base = asked(&properties, 0, H5Pget_userblock)?;
        let (mut start, mut len) = (0, 0);
        // SAFETY: the handle is a file; the numbers are ours.
        check(unsafe { H5Fget_mdc_image_info(self.file.id(), &mut start, &mut len) })?;
        let cache_image = (start != HADDR_UNDEF && len > 0).then(|| CacheImage {
            start: start.saturating_add(base),
            len,
        });
        let walk = FileWalk::through(&self.file, links::token_of(&self.file)?);
        Ok(FileIndex {
            superblock: 0,
            offset_size: u8::try_from(offset).unwrap_or(u8::MAX),
            length_size: u8::try_from(length).unwrap_or(u8::MAX),
            base,
            cache_image,
            groups: walk.groups,
            datasets: walk.datasets,
            types: walk.types,
            problems: walk.problems,
            left_out: walk.left_out,
        })
    }

    /// The stored chunks of the dataset with this token, packed.
    pub(super) fn chunks(&self, token: u64) -> WorkerAnswer<Vec<u8>> {
        let _lock = hdf5_sys::LOCK.lock();
        let dataset = LibraryDataset::new(walk::open(&self.file, token)?)?;
        let (dims, chunk) = dataset.chunking()?;
        chunks::table(dataset.handle(), &dims, &chunk)
    }

    /// Whether the file says by itself where there is room in it: by pages, or in lists that are
    /// stored.
    fn keeps_lists_of_room(&self) -> Outcome<bool> {
        // SAFETY: the handle is a file.
        let properties = Identifier::new(unsafe { H5Fget_create_plist(self.file.id()) })?;
        let mut strategy = H5F_fspace_strategy_t::H5F_FSPACE_STRATEGY_FSM_AGGR;
        let (mut is_kept, mut threshold) = (0, 0);
        // SAFETY: the handle is a file creation property list; the numbers are ours.
        check(unsafe {
            H5Pget_file_space_strategy(properties.id(), &mut strategy, &mut is_kept, &mut threshold)
        })?;
        let is_paged = strategy == H5F_fspace_strategy_t::H5F_FSPACE_STRATEGY_PAGE;
        Ok(is_paged || is_kept > 0)
    }
}

/// The library's own version, as it says at run time. Opens nothing, so it needs no worker.
pub fn library_version() -> String {
    let (mut major, mut minor, mut release) = (0, 0, 0);
    // SAFETY: the three are written to and not kept.
    match unsafe { H5get_libversion(&mut major, &mut minor, &mut release) } {
        0.. => format!("{major}.{minor}.{release}"),
        _ => "of an unknown version".to_owned(),
    }
}

/// What the library keeps for later, once the file is closed.
struct Garbage;

impl Drop for Garbage {
    fn drop(&mut self) {
        let _lock = hdf5_sys::LOCK.lock();
        // SAFETY: the lock is held.
        unsafe { H5garbage_collect() };
    }
}

/// How files are opened: by our driver, without locks, and closed with all that was opened in them.
fn access() -> Outcome<Identifier> {
    // SAFETY: the library is open.
    let list = Identifier::new(unsafe { H5Pcreate(*H5P_CLS_FILE_ACCESS) })?;
    driver::set(list.id())?;
    // SAFETY: the handle is a file access property list.
    check(unsafe { H5Pset_file_locking(list.id(), 0, 1) })?;
    let strong = H5F_close_degree_t::H5F_CLOSE_STRONG;
    // SAFETY: as above.
    check(unsafe { H5Pset_fclose_degree(list.id(), strong) })?;
    Ok(list)
}

/// How a new file is made: of this form, which its list for access is told, too.
fn creation(form: NewFileForm, access: &Identifier) -> Outcome<Identifier> {
    let oldest = match form.superblock {
        0 | 1 => H5F_libver_t::H5F_LIBVER_EARLIEST,
        2 => H5F_libver_t::H5F_LIBVER_V18,
        _ => H5F_libver_t::H5F_LIBVER_V110,
    };
    // SAFETY: the handle is a file access property list.
    check(unsafe { H5Pset_libver_bounds(access.id(), oldest, H5F_LIBVER_LATEST) })?;
    // SAFETY: the library is open.
    let list = Identifier::new(unsafe { H5Pcreate(*H5P_CLS_FILE_CREATE) })?;
    if form.is_ordered {
        // SAFETY: the handle is a file creation property list, here and below.
        check(unsafe { H5Pset_link_creation_order(list.id(), IN_ORDER) })?;
        // SAFETY: as above.
        check(unsafe { H5Pset_attr_creation_order(list.id(), IN_ORDER) })?;
    }
    Ok(list)
}
