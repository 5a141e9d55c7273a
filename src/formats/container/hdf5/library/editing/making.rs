//! Objects of a new file: groups, types, datasets without values, attributes, links.
//!
//! What a step names comes from a user's `arrays.json`; a step that the library refuses says so,
//! and the others go on, since the file has no damage that it could meet. Used by [`super`].

use std::ffi::{CString, c_uint};

use hdf5_sys::h5a::{H5Adelete, H5Awrite};
use hdf5_sys::h5d::{H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS, H5D_layout_t, H5Dcreate2};
use hdf5_sys::h5g::H5Gcreate2;
use hdf5_sys::h5i::hid_t;
use hdf5_sys::h5l::{H5Lcreate_hard, H5Lcreate_soft};
use hdf5_sys::h5o::H5Oopen;
use hdf5_sys::h5p::{
    H5P_CLS_ATTRIBUTE_CREATE, H5P_CLS_DATASET_CREATE, H5P_CLS_GROUP_CREATE, H5P_CLS_LINK_CREATE,
    H5P_CRT_ORDER_INDEXED, H5P_CRT_ORDER_TRACKED, H5P_DEFAULT, H5Pcreate,
    H5Pset_attr_creation_order, H5Pset_char_encoding, H5Pset_chunk, H5Pset_chunk_opts,
    H5Pset_fill_value, H5Pset_filter, H5Pset_layout, H5Pset_link_creation_order,
    H5Pset_obj_track_times,
};
use hdf5_sys::h5s::{H5S_class_t, H5Screate, H5Screate_simple};
use hdf5_sys::h5t::{H5T_cset_t, H5Tcommit2};
use serde_json::Value as Json;

use super::FileEdit;
use super::texts::TextsOf;
use crate::container::hdf5::edit::{EditReply, OWN_FILTERS};
use crate::container::hdf5::library::elements::create_attribute;
use crate::container::hdf5::library::from_json::ValueMaker;
use crate::container::hdf5::library::identifier::{Identifier, Outcome, check};
use crate::container::hdf5::library::space::count;
use crate::container::hdf5::library::{links, new_type, stand_in, types};
use crate::container::hdf5::made::{
    MadeAttribute, MadeDataset, MadeFill, MadeStorage, MadeValue, MakeStep,
};
use crate::container::stored::StoredType;

const DEFLATE: u32 = 1;
const NBIT: u32 = 5;
const SCALE_OFFSET: u32 = 6;

/// The order is kept, and can be listed by.
pub(crate) const IN_ORDER: c_uint = H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED;

impl FileEdit {
    /// Carries the steps out, each by itself.
    pub(super) fn make(&mut self, steps: Vec<MakeStep>) -> Outcome<EditReply> {
        let made = steps.into_iter().map(|step| self.make_one(step));
        Ok(EditReply::Made(made.collect()))
    }

    /// The token of a dataset that was made, else 0.
    fn make_one(&mut self, step: MakeStep) -> Outcome<u64> {
        match step {
            MakeStep::Group { path } => self.make_group(&path)?,
            MakeStep::Type { path, element } => self.commit_type(&path, &element)?,
            MakeStep::Dataset(dataset) => return self.make_dataset(&dataset),
            MakeStep::Attribute(attribute) => self.make_attribute(&attribute)?,
            MakeStep::Scale { path, name } => self.make_scale(&path, &name)?,
            MakeStep::Dimensions { path, scales } => self.attach_scales(&path, &scales)?,
            MakeStep::References => self.list_references()?,
            MakeStep::HardLink { path, to } => self.link_hard(&path, &to)?,
            MakeStep::SoftLink { path, to } => self.link_soft(&path, &to)?,
            MakeStep::Texts { path, runs, texts } => {
                self.put_texts(TextsOf::Path(path), &runs, &texts)?;
            }
        }
        Ok(0)
    }

    fn root(&self) -> hid_t {
        self.file.file.id()
    }

    /// The object of a path; the root of an empty one.
    pub(super) fn object(&self, path: &[u8]) -> Outcome<Identifier> {
        let path = match path {
            b"" => c"/".to_owned(),
            path => name_of(path)?,
        };
        // SAFETY: the handle is a file, the path is NUL-terminated.
        Identifier::new(unsafe { H5Oopen(self.root(), path.as_ptr(), H5P_DEFAULT) })
    }

    fn make_group(&self, path: &[u8]) -> Outcome<()> {
        let (name, link) = (name_of(path)?, link_list(path)?);
        let list = properties(*H5P_CLS_GROUP_CREATE)?;
        if self.is_ordered {
            // SAFETY: the handle is a group creation property list, here and below.
            check(unsafe { H5Pset_link_creation_order(list.id(), IN_ORDER) })?;
            // SAFETY: as above.
            check(unsafe { H5Pset_attr_creation_order(list.id(), IN_ORDER) })?;
        }
        let (at, list) = (self.root(), list.id());
        // SAFETY: a file, a NUL-terminated path and property lists.
        let made = unsafe { H5Gcreate2(at, name.as_ptr(), link.id(), list, H5P_DEFAULT) };
        Identifier::new(made).map(drop)
    }

    fn commit_type(&self, path: &[u8], element: &StoredType) -> Outcome<()> {
        let (name, link) = (name_of(path)?, link_list(path)?);
        let element = new_type::make(element, &self.file.file)?;
        let (at, element) = (self.root(), element.id());
        let (name, link) = (name.as_ptr(), link.id());
        // SAFETY: a file, a NUL-terminated path, a type of our own and property lists.
        let made = unsafe { H5Tcommit2(at, name, element, link, H5P_DEFAULT, H5P_DEFAULT) };
        check(made).map(drop)
    }

    fn make_dataset(&self, made: &MadeDataset) -> Outcome<u64> {
        let (name, link) = (name_of(&made.path)?, link_list(&made.path)?);
        let element = new_type::make(&made.element, &self.file.file)?;
        let space = space(made.dims.as_deref(), Some(&made.most))?;
        let list = self.dataset_list(made, &element)?;
        let (at, name, last) = (self.root(), name.as_ptr(), H5P_DEFAULT);
        let (element, space, link, list) = (element.id(), space.id(), link.id(), list.id());
        // SAFETY: a file, a NUL-terminated path, a type, a space and property lists.
        let made = unsafe { H5Dcreate2(at, name, element, space, link, list, last) };
        links::token_of(&Identifier::new(made)?)
    }

    fn dataset_list(&self, made: &MadeDataset, element: &Identifier) -> Outcome<Identifier> {
        let list = properties(*H5P_CLS_DATASET_CREATE)?;
        let id = list.id();
        // SAFETY: the handle is a dataset creation property list, here and below.
        check(unsafe { H5Pset_obj_track_times(id, 0) })?;
        if self.is_ordered {
            // SAFETY: as above.
            check(unsafe { H5Pset_attr_creation_order(id, IN_ORDER) })?;
        }
        let layout = match made.storage {
            MadeStorage::Compact => H5D_layout_t::H5D_COMPACT,
            MadeStorage::Contiguous => H5D_layout_t::H5D_CONTIGUOUS,
            MadeStorage::Chunked { .. } => H5D_layout_t::H5D_CHUNKED,
        };
        // SAFETY: as above.
        check(unsafe { H5Pset_layout(id, layout) })?;
        if let MadeStorage::Chunked { chunk, plain_edges } = &made.storage {
            let rank = i32::try_from(chunk.len()).map_err(|e| e.to_string())?;
            // SAFETY: as above; there are as many dimensions as is said.
            check(unsafe { H5Pset_chunk(id, rank, chunk.as_ptr()) })?;
            if *plain_edges {
                // SAFETY: as above.
                check(unsafe { H5Pset_chunk_opts(id, H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) })?;
            }
            let elements = count(chunk).unwrap_or(u64::MAX);
            set_filters(
                &list,
                made,
                elements.saturating_mul(types::size(element) as u64),
            )?;
        }
        set_fill(&list, &made.fill, element)?;
        Ok(list)
    }

    fn make_attribute(&self, made: &MadeAttribute) -> Outcome<()> {
        let element = new_type::make(&made.element, &self.file.file)?;
        let mut maker = ValueMaker::default();
        let values = match &made.dims {
            None => None,
            Some(dims) => Some(values(&mut maker, &made.value, &element, dims)?),
        };
        let space = space(made.dims.as_deref(), None)?;
        self.write_attribute(
            &self.object(&made.of)?,
            &made.name,
            (&element, &space),
            values.as_deref(),
        )
    }

    /// `values`: of this type and space; what they point to lives until then.
    pub(super) fn write_attribute(
        &self,
        of: &Identifier,
        name: &[u8],
        (element, space): (&Identifier, &Identifier),
        values: Option<&[u8]>,
    ) -> Outcome<()> {
        let list = properties(*H5P_CLS_ATTRIBUTE_CREATE)?;
        in_utf8(&list, name)?;
        let name = name_of(name)?;
        let attribute = create_attribute((of, &name), (element, space), &list)?;
        let Some(values) = values.filter(|values| !values.is_empty()) else {
            return Ok(());
        };
        // SAFETY: there are all elements of the attribute, of its own type.
        let written = unsafe { H5Awrite(attribute.id(), element.id(), values.as_ptr().cast()) };
        check(written).map(drop).inspect_err(|_| {
            // SAFETY: an object and a NUL-terminated name.
            unsafe { H5Adelete(of.id(), name.as_ptr()) };
        })
    }

    fn link_hard(&self, path: &[u8], to: &[u8]) -> Outcome<()> {
        let to = if to.is_empty() { b"/" } else { to };
        let (name, target, list) = (name_of(path)?, name_of(to)?, link_list(path)?);
        let (at, to, name) = (self.root(), target.as_ptr(), name.as_ptr());
        // SAFETY: files, NUL-terminated paths and property lists.
        let made = unsafe { H5Lcreate_hard(at, to, at, name, list.id(), H5P_DEFAULT) };
        check(made).map(drop)
    }

    fn link_soft(&self, path: &[u8], to: &[u8]) -> Outcome<()> {
        let (name, target, list) = (name_of(path)?, name_of(to)?, link_list(path)?);
        let (at, to, name) = (self.root(), target.as_ptr(), name.as_ptr());
        // SAFETY: a file, NUL-terminated paths and property lists.
        let made = unsafe { H5Lcreate_soft(to, at, name, list.id(), H5P_DEFAULT) };
        check(made).map(drop)
    }
}

pub(super) fn name_of(path: &[u8]) -> Outcome<CString> {
    CString::new(path).map_err(|_| "a name with a NUL".into())
}

pub(super) fn properties(class: hid_t) -> Outcome<Identifier> {
    // SAFETY: a class of property lists of the library's.
    Identifier::new(unsafe { H5Pcreate(class) })
}

fn link_list(path: &[u8]) -> Outcome<Identifier> {
    let list = properties(*H5P_CLS_LINK_CREATE)?;
    in_utf8(&list, path)?;
    Ok(list)
}

/// Names that are not ASCII are UTF-8, and say so.
fn in_utf8(list: &Identifier, name: &[u8]) -> Outcome<()> {
    if name.is_ascii() {
        return Ok(());
    }
    // SAFETY: the handle is a property list for names.
    check(unsafe { H5Pset_char_encoding(list.id(), H5T_cset_t::H5T_CSET_UTF8) }).map(drop)
}

/// A dataspace; without dimensions (none) it is null, with no dimension a scalar.
pub(super) fn space(dims: Option<&[u64]>, most: Option<&[u64]>) -> Outcome<Identifier> {
    let class = match dims {
        None => H5S_class_t::H5S_NULL,
        Some([]) => H5S_class_t::H5S_SCALAR,
        Some(dims) => {
            let rank = i32::try_from(dims.len()).map_err(|e| e.to_string())?;
            let most = most.filter(|most| most.len() == dims.len());
            let most = most.map_or(std::ptr::null(), |most| most.as_ptr());
            // SAFETY: there are as many dimensions as is said.
            return Identifier::new(unsafe { H5Screate_simple(rank, dims.as_ptr(), most) });
        }
    };
    // SAFETY: a class of the library's.
    Identifier::new(unsafe { H5Screate(class) })
}

fn set_filters(list: &Identifier, made: &MadeDataset, chunk_bytes: u64) -> Outcome<()> {
    for filter in &made.filters {
        let is_own = OWN_FILTERS.contains(&filter.id);
        if !is_own {
            stand_in::provide(filter.id, chunk_bytes)?;
        }
        // Of these the library works out most values by the type.
        let given = match filter.id {
            NBIT => 0,
            SCALE_OFFSET => 2,
            DEFLATE => usize::MAX,
            _ if is_own => 0,
            _ => usize::MAX,
        };
        let values = &filter.values[..filter.values.len().min(given)];
        let id = i32::try_from(filter.id).map_err(|e| e.to_string())?;
        let optional = c_uint::from(filter.optional);
        // SAFETY: a dataset creation property list, and as many values as is said.
        let set = unsafe { H5Pset_filter(list.id(), id, optional, values.len(), values.as_ptr()) };
        check(set)?;
    }
    Ok(())
}

fn set_fill(list: &Identifier, fill: &MadeFill, element: &Identifier) -> Outcome<()> {
    let mut maker = ValueMaker::default();
    let value = match fill {
        MadeFill::Usual => return Ok(()),
        MadeFill::Undefined => None,
        MadeFill::Value(value) => Some(values(&mut maker, value, element, &[])?),
    };
    let at = value
        .as_ref()
        .map_or(std::ptr::null(), |value| value.as_ptr());
    // SAFETY: one element of the type, or none.
    check(unsafe { H5Pset_fill_value(list.id(), element.id(), at.cast()) }).map(drop)
}

fn values(
    maker: &mut ValueMaker,
    value: &MadeValue,
    element: &Identifier,
    dims: &[u64],
) -> Outcome<Vec<u8>> {
    match value {
        MadeValue::Shown(text) => {
            let shown: Json = serde_json::from_str(text).map_err(|e| e.to_string())?;
            maker.values(element, dims, &shown)
        }
        MadeValue::Stored(bytes) if types::is_variable(element)? => maker.texts(dims, bytes),
        MadeValue::Stored(bytes) => {
            let elements = count(dims).and_then(|n| n.checked_mul(types::size(element) as u64));
            match elements == Some(bytes.len() as u64) && types::describe(element)?.is_plain() {
                true => Ok(bytes.clone()),
                false => Err("stored bytes that are none of the type".into()),
            }
        }
    }
}
