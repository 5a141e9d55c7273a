//! BPCells: a sparse matrix or a set of fragments as a directory of arrays, most of them packed by
//! BP-128.
//!
//! A file `version` makes a directory a container and names its variant; what the variant's arrays
//! are called and how they hang together is in [`matrix`] and [`fragments`], above the seam
//! [`fields`], so that the same arrays can be read where they do not lie in files. Opening reads
//! headers, the last entries of pointers and indices, and `chr_ptr`: kilobytes, however large the
//! container. An array that cannot be trusted becomes a fault, the others are shown.

mod audit;
mod directory;
mod ends;
pub(crate) mod fields;
mod fragments;
mod header;
mod lines;
mod matrix;
mod names;
mod offsets;
mod packed;
mod plain;
mod pointers;
#[cfg(test)]
mod tests;
pub(crate) mod version;

use super::{Candidate, Container, Format, OpenRequest, Text, Verdict};
use crate::error::{Fault, Result};
use directory::Directory;
use fields::Fields;
use version::{Content, Seen, Version};

pub(crate) const NAME: &str = "bpcells";

/// Every file name of any version.
pub(crate) static MEMBERS: &[&str] = &[
    "version",
    "storage_order",
    "shape",
    "row_names",
    "col_names",
    "idxptr",
    "idxptr_data",
    "idxptr_idx",
    "idxptr_idx_offsets",
    "idxptr_starts",
    "val",
    "val_data",
    "val_idx",
    "val_idx_offsets",
    "index",
    "index_data",
    "index_idx",
    "index_idx_offsets",
    "index_starts",
    "chr_ptr",
    "chr_names",
    "cell_names",
    "cell",
    "cell_data",
    "cell_idx",
    "cell_idx_offsets",
    "start",
    "start_data",
    "start_idx",
    "start_idx_offsets",
    "start_starts",
    "end",
    "end_data",
    "end_idx",
    "end_idx_offsets",
    "end_max",
];

pub struct BpCells;

impl Format for BpCells {
    fn name(&self) -> &'static str {
        NAME
    }

    fn recognise(&self, candidate: &Candidate<'_>) -> Result<Verdict> {
        if !candidate.is_directory() {
            return Ok(Verdict::No);
        }
        let head = candidate.member_head("version", version::MOST)?;
        match head.as_deref().map_or(Seen::Foreign, version::read) {
            Seen::Known(..) => Ok(Verdict::Yes),
            Seen::Unreadable(fault) => Ok(Verdict::Damaged(fault.file("version"))),
            Seen::Foreign => lost_version(candidate, head.is_some()),
        }
    }

    fn members(&self) -> &'static [&'static str] {
        MEMBERS
    }

    fn open(&self, request: &OpenRequest<'_>) -> Result<Container> {
        let directory = Directory::new(request.store.as_ref(), request.path);
        match version::read(&directory.head("version", version::MOST)?) {
            Seen::Known(version, text) => open(&directory, version, &text),
            Seen::Unreadable(fault) => Err(fault.file("version").into()),
            Seen::Foreign => Err(no_version().into()),
        }
    }
}

/// Opens the container of version `text` whose arrays are `fields`.
pub(crate) fn open(fields: &dyn Fields, version: Version, text: &str) -> Result<Container> {
    let mut container = Container::new(NAME, text);
    match version.content {
        Content::Matrix(values) => matrix::open(fields, version, values, &mut container)?,
        Content::Fragments => fragments::open(fields, version, &mut container)?,
    }
    let content = format!("{text}\n").into_bytes().into();
    container.texts.push(Text {
        name: "version".into(),
        content,
    });
    Ok(container)
}

/// Tells a container that has lost its version file by two files that only BPCells writes together.
fn lost_version(candidate: &Candidate<'_>, has_version: bool) -> Result<Verdict> {
    for (pointers, companion) in [("idxptr", "storage_order"), ("chr_ptr", "cell_names")] {
        let Some(head) = candidate.member_head(pointers, header::LEN)? else {
            continue;
        };
        if header::number(&head).is_some() && candidate.member_head(companion, 1)?.is_some() {
            let fault = if has_version {
                foreign_version()
            } else {
                no_version()
            };
            return Ok(Verdict::Damaged(fault));
        }
    }
    Ok(Verdict::No)
}

fn no_version() -> Fault {
    Fault::new("no version file: the variant of BPCells is unknown").file("version")
}

fn foreign_version() -> Fault {
    Fault::new("the version file is not one of BPCells: the variant is unknown").file("version")
}
