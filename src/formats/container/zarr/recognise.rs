//! What makes a directory, or a zip file, a store: a document of it.
//!
//! A directory has one itself; a zip file may have the store in a folder. Used by [`super`].

use super::DOCUMENTS;
use super::members::zip;
use crate::container::{Candidate, Verdict};
use crate::error::Result;

pub(super) fn directory(candidate: &Candidate<'_>) -> Result<Verdict> {
    if !candidate.is_directory() {
        return Ok(Verdict::No);
    }
    for document in DOCUMENTS {
        if candidate.has_member(document)? {
            return Ok(Verdict::Yes);
        }
    }
    Ok(Verdict::No)
}

pub(super) fn zip(candidate: &Candidate<'_>) -> Result<Verdict> {
    if !candidate.is_file() || !zip::is_zip(candidate.head()?) {
        return Ok(Verdict::No);
    }
    let source = candidate.store.open(candidate.path)?;
    Ok(match zip::holds_store(&*source)? {
        true => Verdict::Yes,
        false => Verdict::No,
    })
}
