//! Dimension scales, as HDF5's own library of them stores them in attributes: `CLASS` and `NAME` of
//! a scale, `DIMENSION_LIST` of a dataset with references to its scales, `REFERENCE_LIST` of a
//! scale with references to the dimensions of datasets.
//!
//! Used by [`super`].

use hdf5_sys::h5t::{
    H5T_C_S1, H5T_STD_I32LE, H5T_STD_REF_OBJ, H5T_class_t, H5Tcopy, H5Tcreate, H5Tinsert,
    H5Tset_size, H5Tvlen_create,
};

use super::FileEdit;
use super::making::space;
use crate::container::hdf5::library::from_json::GivenSequence;
use crate::container::hdf5::library::identifier::{Identifier, Outcome, check};
use crate::container::hdf5::library::links::token_of;

/// A member of `REFERENCE_LIST`: the reference, the dimension, and room behind it.
const MEMBER: usize = 16;
const DIMENSION_AT: usize = 8;

impl FileEdit {
    pub(super) fn make_scale(&self, path: &[u8], name: &[u8]) -> Outcome<()> {
        let scale = self.object(path)?;
        self.write_text(&scale, b"CLASS", b"DIMENSION_SCALE")?;
        match name {
            b"" => Ok(()),
            name => self.write_text(&scale, b"NAME", name),
        }
    }

    /// A string of fixed length with a NUL behind it.
    fn write_text(&self, of: &Identifier, name: &[u8], text: &[u8]) -> Outcome<()> {
        // SAFETY: a type of the library's.
        let element = Identifier::new(unsafe { H5Tcopy(*H5T_C_S1) })?;
        // SAFETY: the handle is a string type of our own.
        check(unsafe { H5Tset_size(element.id(), text.len() + 1) })?;
        let value = [text, b"\0"].concat();
        let scalar = space(Some(&[]), None)?;
        self.write_attribute(of, name, (&element, &scalar), Some(&value))
    }

    pub(super) fn attach_scales(&mut self, path: &[u8], scales: &[Vec<Vec<u8>>]) -> Outcome<()> {
        let dataset = self.object(path)?;
        let of = token_of(&dataset)?;
        let mut references: Vec<Vec<u64>> = Vec::new();
        for (dimension, scales) in (0..).zip(scales) {
            let mut of_dimension = Vec::new();
            for scale in scales {
                of_dimension.push(token_of(&self.object(scale)?)?);
                let listed = self.references.entry(scale.clone()).or_default();
                listed.push((of, dimension));
            }
            references.push(of_dimension);
        }
        let sequences: Vec<GivenSequence> = references
            .iter()
            .map(|list| GivenSequence {
                len: list.len(),
                at: list.as_ptr().cast(),
            })
            .collect();
        let bytes = size_of_val(&sequences[..]);
        // SAFETY: the sequences as bytes, of which all are set; both lists live through the call.
        let values = unsafe { std::slice::from_raw_parts(sequences.as_ptr().cast::<u8>(), bytes) };
        // SAFETY: a type of the library's.
        let element = Identifier::new(unsafe { H5Tvlen_create(*H5T_STD_REF_OBJ) })?;
        let space = space(Some(&[references.len() as u64]), None)?;
        self.write_attribute(
            &dataset,
            b"DIMENSION_LIST",
            (&element, &space),
            Some(values),
        )
    }

    pub(super) fn list_references(&mut self) -> Outcome<()> {
        let element = reference_member()?;
        for (path, listed) in std::mem::take(&mut self.references) {
            let mut values = Vec::with_capacity(listed.len() * MEMBER);
            for (dataset, dimension) in &listed {
                values.extend(dataset.to_le_bytes());
                values.extend(u32::to_le_bytes(*dimension));
                values.extend([0; MEMBER - DIMENSION_AT - 4]);
            }
            let (scale, space) = (
                self.object(&path)?,
                space(Some(&[listed.len() as u64]), None)?,
            );
            self.write_attribute(&scale, b"REFERENCE_LIST", (&element, &space), Some(&values))?;
        }
        Ok(())
    }
}

fn reference_member() -> Outcome<Identifier> {
    // SAFETY: makes a new type.
    let made = Identifier::new(unsafe { H5Tcreate(H5T_class_t::H5T_COMPOUND, MEMBER) })?;
    let members = [
        (c"dataset", 0, *H5T_STD_REF_OBJ),
        (c"dimension", DIMENSION_AT, *H5T_STD_I32LE),
    ];
    for (name, at, element) in members {
        // SAFETY: both are datatypes, and the name is NUL-terminated.
        check(unsafe { H5Tinsert(made.id(), name.as_ptr(), at, element) })?;
    }
    Ok(made)
}
