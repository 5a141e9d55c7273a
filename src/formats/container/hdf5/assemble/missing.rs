//! What of a file is no array: links that lead to none, what the worker could not read or had no
//! room for, and what a container lacks that needs it. Used by `assemble`.

use crate::container::hdf5::index::{FileIndex, LinkTarget, Problem};
use crate::container::{Unreadable, names};
use crate::error::{Error, Fault, Result};

/// Why a link leads to no dataset.
pub(crate) fn no_dataset(target: &LinkTarget) -> String {
    match target {
        LinkTarget::External { file, path } => format!(
            "an external link to {} in {}; never followed",
            names::escaped_path(path),
            names::escaped_path(file)
        ),
        LinkTarget::Dangling { path } => {
            let path = names::escaped_path(path);
            format!("a soft link to {path}, which leads nowhere")
        }
        LinkTarget::Type(_) => "a committed datatype, no array".into(),
        LinkTarget::NotFollowed { reason } | LinkTarget::Unknown { reason } => reason.clone(),
        LinkTarget::Group(_) => "a group, no dataset".into(),
        LinkTarget::Dataset(_) => "not in the file's index".into(),
    }
}

/// What is whole has an entry; not a link to nothing, which an open does not find.
pub(super) fn not_a_dataset(path: &str, target: &LinkTarget) -> Unreadable {
    let (is_whole, entry) = match target {
        LinkTarget::External { .. } | LinkTarget::NotFollowed { .. } => (true, true),
        LinkTarget::Dangling { .. } => (true, false),
        LinkTarget::Group(_)
        | LinkTarget::Dataset(_)
        | LinkTarget::Type(_)
        | LinkTarget::Unknown { .. } => (false, false),
    };
    Unreadable {
        name: path.to_owned(),
        reason: no_dataset(target),
        is_whole,
        entry,
    }
}

pub(super) fn problems(index: &FileIndex) -> impl Iterator<Item = Fault> {
    index.problems.iter().map(|problem| {
        let fault = Fault::new(problem.what.clone());
        match problem.path[..] {
            [] => fault,
            _ => fault.array(&shown_path(problem)),
        }
    })
}

/// What we have no room for is no fault of the file.
pub(super) fn left_out(index: &FileIndex) -> impl Iterator<Item = Unreadable> {
    index.left_out.iter().map(|part| Unreadable {
        name: shown_path(part),
        reason: part.what.clone(),
        is_whole: true,
        entry: false,
    })
}

fn shown_path(of: &Problem) -> String {
    let names: Vec<String> = of.path.iter().map(|name| names::escape(name)).collect();
    names.join("/")
}

/// What is wrong with a container in a group, other errors apart. It needs all its arrays.
pub(super) fn needed<T>(opened: Result<T>) -> Result<std::result::Result<T, Fault>> {
    match opened.map_err(Error::needed) {
        Ok(value) => Ok(Ok(value)),
        Err(Error::Fault(fault)) => Ok(Err(*fault)),
        Err(other) => Err(other),
    }
}
