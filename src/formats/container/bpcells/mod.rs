//! BPCells: a sparse matrix or a set of fragments as a directory of arrays, most of them packed by
//! BP-128.
//!
//! What recognises: [`recognise`], by a file `version`, which names the container's variant
//! ([`version`]). What describes: [`matrix`] and [`fragments`] know what a variant's arrays are
//! called and how they hang together. They stand above the seam [`fields`], so that the same arrays
//! can be read where they do not lie in files; below it are [`directory`] and [`header`]. What
//! reads: [`packed`], [`plain`] and [`pointers`] numbers, [`names`] lines. What checks: [`check`],
//! the rules between arrays. What writes: [`write`].
//!
//! Opening reads headers, the last entries of pointers and indices, and `chr_ptr`: kilobytes,
//! however large the container. An array that cannot be trusted becomes a fault, the others are
//! shown.

mod check;
mod directory;
pub(crate) mod fields;
mod fragments;
mod header;
mod matrix;
mod names;
mod packed;
mod plain;
mod pointers;
mod recognise;
#[cfg(test)]
mod tests;
pub(crate) mod version;
pub(crate) mod write;

use super::creation::Creation;
use super::{AllMembers, Candidate, Container, Format, Layout, OpenRequest, Text, Verdict};
use crate::error::Result;
use directory::Directory;
use fields::Fields;
use version::{Holds, Seen, Variant};

pub(crate) const NAME: &str = "bpcells";

/// They are few, and none is right without the others.
const LAYOUT: Layout = Layout::Directory(&AllMembers(MEMBERS));

/// Every file name of any version.
pub(crate) const MEMBERS: &[&str] = &[
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

    fn extensions(&self) -> &'static [&'static str] {
        &["bpcells"]
    }

    fn recognise(&self, candidate: &Candidate<'_>) -> Result<Verdict> {
        recognise::recognise(candidate)
    }

    fn layout(&self) -> Layout {
        LAYOUT
    }

    fn is_changed(&self) -> bool {
        true
    }

    fn creation(&self) -> Option<&'static dyn Creation> {
        Some(&BpCells)
    }

    fn open(&self, request: &OpenRequest<'_>) -> Result<Container> {
        let directory = Directory::new(request, MEMBERS);
        match version::read(&directory.head("version", version::MOST)?) {
            Seen::Known(version, text) => {
                let mut container = open(&directory, version, &text)?;
                write::offer(&mut container, version, directory.into_opened());
                Ok(container)
            }
            Seen::Unreadable(fault) => Err(fault.file("version").into()),
            Seen::Foreign => Err(recognise::no_version().into()),
        }
    }
}

/// Opens the container of version `text` whose arrays are `fields`.
pub(crate) fn open(fields: &dyn Fields, version: Variant, text: &str) -> Result<Container> {
    let mut container = Container::new(NAME, text);
    match version.content {
        Holds::Matrix(values) => matrix::open(fields, version, values, &mut container)?,
        Holds::Fragments => fragments::open(fields, version, &mut container)?,
    }
    let content = format!("{text}\n").into_bytes().into();
    container.texts.push(Text {
        name: "version".into(),
        content,
    });
    Ok(container)
}
