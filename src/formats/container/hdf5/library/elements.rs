//! Elements of an attribute or of a dataset, as libhdf5 reads them: with pointers to what it
//! allocates for strings and sequences of variable length; and attributes as they are opened and
//! made. Used by all here that looks at values.

use std::ffi::{CStr, c_void};

use hdf5_sys::h5a::{H5Acreate2, H5Aget_space, H5Aget_type, H5Aopen, H5Aread};
use hdf5_sys::h5p::H5P_DEFAULT;
use hdf5_sys::h5t::{H5T_class_t, H5Tget_class, H5Treclaim};

use super::identifier::{Identifier, Outcome, check};
use super::space::dims;

/// What has elements that can be read.
pub(super) trait Elements {
    /// Reads every element in the type given.
    ///
    /// # Safety
    /// `into` has room for all elements of type `memory`.
    unsafe fn read(&self, memory: &Identifier, into: *mut c_void) -> Outcome<()>;
}

/// An attribute that is open.
pub(super) struct LibraryAttribute {
    pub(super) opened: Identifier,
    pub(super) element: Identifier,
    pub(super) space: Identifier,
}

impl LibraryAttribute {
    /// The attribute of this name.
    pub(super) fn open(of: &Identifier, name: &CStr) -> Outcome<LibraryAttribute> {
        // SAFETY: the handle is an object and the name is NUL-terminated.
        let opened = Identifier::new(unsafe { H5Aopen(of.id(), name.as_ptr(), H5P_DEFAULT) })?;
        // SAFETY: the handle is an attribute.
        let element = Identifier::new(unsafe { H5Aget_type(opened.id()) })?;
        // SAFETY: as above.
        let space = Identifier::new(unsafe { H5Aget_space(opened.id()) })?;
        Ok(LibraryAttribute {
            opened,
            element,
            space,
        })
    }

    pub(super) fn dims(&self) -> Outcome<Option<Vec<u64>>> {
        dims(&self.space)
    }

    pub(super) fn class(&self) -> H5T_class_t {
        // SAFETY: the handle is a datatype.
        unsafe { H5Tget_class(self.element.id()) }
    }
}

impl Elements for LibraryAttribute {
    unsafe fn read(&self, memory: &Identifier, into: *mut c_void) -> Outcome<()> {
        // SAFETY: the caller has room for all elements of this type.
        check(unsafe { H5Aread(self.opened.id(), memory.id(), into) }).map(drop)
    }
}

/// Makes an attribute, of this type and space.
pub(super) fn create_attribute(
    (of, name): (&Identifier, &CStr),
    (element, space): (&Identifier, &Identifier),
    list: &Identifier,
) -> Outcome<Identifier> {
    let (of, name, last) = (of.id(), name.as_ptr(), H5P_DEFAULT);
    let (element, space, list) = (element.id(), space.id(), list.id());
    // SAFETY: an object, a NUL-terminated name, a type, a space and a list of properties.
    Identifier::new(unsafe { H5Acreate2(of, name, element, space, list, last) })
}

/// Elements that have been read; what libhdf5 allocated for them is given back when they are
/// dropped.
pub(super) struct ReadElements<'a, T> {
    pub(super) elements: Vec<T>,
    element: &'a Identifier,
    space: &'a Identifier,
}

impl<'a, T> ReadElements<'a, T> {
    /// All elements, of this type and space.
    ///
    /// # Safety
    /// `room` has room for all of them, as libhdf5 puts them there, and holds no pointers but null.
    pub(super) unsafe fn of(
        from: &dyn Elements,
        (element, space): (&'a Identifier, &'a Identifier),
        room: Vec<T>,
    ) -> Outcome<ReadElements<'a, T>> {
        let mut read = ReadElements {
            elements: room,
            element,
            space,
        };
        if size_of_val(&*read.elements) > 0 {
            // SAFETY: as the caller says.
            unsafe { from.read(element, read.elements.as_mut_ptr().cast())? };
        }
        Ok(read)
    }
}

impl<T> Drop for ReadElements<'_, T> {
    fn drop(&mut self) {
        let (element, space) = (self.element.id(), self.space.id());
        let at = self.elements.as_mut_ptr().cast();
        // SAFETY: these are values of this type and space, read or without pointers.
        unsafe { H5Treclaim(element, space, H5P_DEFAULT, at) };
    }
}
