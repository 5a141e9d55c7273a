//! Strings of variable length, which the library alone can store: their values go to the global
//! heap, and what was there of the elements before is taken from it. Used by [`super`].

use hdf5_sys::h5d::{H5Dget_space, H5Dget_type};
use hdf5_sys::h5s::{H5S_seloper_t, H5Sselect_elements, H5Sselect_hyperslab};

use super::making::space;
use super::{FileEdit, write};
use crate::container::hdf5::library::identifier::{Identifier, Outcome, check};
use crate::container::hdf5::library::space::dims;
use crate::container::hdf5::library::types::is_variable;
use crate::container::hdf5::library::walk;
use crate::container::hdf5::made::TextRun;

/// The dataset that texts are put into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TextsOf {
    /// Of a new file, by its path.
    Path(Vec<u8>),
    Token(u64),
}

impl FileEdit {
    /// Puts texts, each with a NUL behind it, where these runs of elements lie. The dataset stays
    /// open for the next ones: chunks that are written in parts are encoded once.
    pub(super) fn put_texts(&mut self, of: TextsOf, runs: &[TextRun], texts: &[u8]) -> Outcome<()> {
        if self.texts.as_ref().is_none_or(|(open, _)| *open != of) {
            let dataset = match &of {
                TextsOf::Path(path) => self.object(path)?,
                TextsOf::Token(token) => walk::open(&self.file.file, *token)?,
            };
            self.texts = Some((of, dataset));
        }
        let Some((_, dataset)) = &self.texts else {
            return Err("a dataset has gone".into());
        };
        // SAFETY: the handle is a dataset, here and below.
        let element = Identifier::new(unsafe { H5Dget_type(dataset.id()) })?;
        if !is_variable(&element)? {
            return Err("the dataset holds no strings of variable length".into());
        }
        let mut at = Vec::new();
        let mut rest = texts;
        while let Some(end) = memchr::memchr(0, rest) {
            at.push(rest.as_ptr());
            rest = &rest[end + 1..];
        }
        // SAFETY: as above.
        let there = Identifier::new(unsafe { H5Dget_space(dataset.id()) })?;
        let here = space(Some(&[at.len() as u64]), None)?;
        select(&there, runs, at.len())?;
        // SAFETY: the pointers lead to as many NUL-terminated texts as are selected, which live
        // through the call.
        unsafe {
            let spaces = (here.id(), there.id());
            write((dataset, &element), spaces, at.as_ptr().cast())
        }
    }
}

/// Selects the elements of these runs, which must be so many.
fn select(space: &Identifier, runs: &[TextRun], elements: usize) -> Outcome<()> {
    let dims = dims(space)?.ok_or("the dataset has no elements")?;
    let all = runs
        .iter()
        .try_fold(0u64, |sum, run| sum.checked_add(run.count));
    if all != Some(elements as u64) {
        return Err(format!("{elements} texts for {all:?} elements"));
    }
    let (id, set) = (space.id(), H5S_seloper_t::H5S_SELECT_SET);
    if dims.is_empty() {
        return Ok(());
    }
    if let ([_], [run]) = (&*dims, runs) {
        let (first, elements) = ([run.first], [run.count]);
        let none = std::ptr::null();
        // SAFETY: the space has one dimension, as the lists have.
        let selected =
            unsafe { H5Sselect_hyperslab(id, set, first.as_ptr(), none, elements.as_ptr(), none) };
        return check(selected).map(drop);
    }
    let mut places = vec![0u64; elements.saturating_mul(dims.len())];
    let numbers = runs
        .iter()
        .flat_map(|run| (run.first..).take(run.count as usize));
    for (number, place) in numbers.zip(places.chunks_exact_mut(dims.len())) {
        let mut rest = number;
        for (at, dim) in place.iter_mut().zip(&dims).rev() {
            (*at, rest) = (rest % (*dim).max(1), rest / (*dim).max(1));
        }
    }
    // SAFETY: there are so many places of as many coordinates as the space has dimensions.
    check(unsafe { H5Sselect_elements(id, set, elements, places.as_ptr()) }).map(drop)
}
