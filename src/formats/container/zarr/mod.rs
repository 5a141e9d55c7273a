//! Zarr, versions 2 and 3: hierarchies of arrays whose chunks are files of a directory, or members
//! of a zip file.
//!
//! What recognises: [`recognise`]. What describes: [`nodes`] finds groups and arrays, by the
//! documents that [`version_2`] and [`version_3`] read ([`document`], [`element`] types, [`fill`]
//! values, [`keys`] of chunks, [`codecs`] and the [`plan`] of decoding them); [`assemble`] makes
//! the container of them, and [`current`] tells when that is another one. What reads: [`members`]
//! fetches stored bytes, [`array`] decodes chunks, and [`text`] those of strings. What checks:
//! [`check`]. See docs/formats.md.
//!
//! A store is opened by its documents alone: no chunk is looked for before it is read, and no
//! directory of chunks is gone through. Consolidated metadata are not believed over a node's own.

mod array;
mod assemble;
mod check;
mod codecs;
mod current;
mod damage;
mod document;
mod element;
mod fill;
mod json;
mod keys;
mod members;
mod nodes;
mod plan;
mod recognise;
#[cfg(test)]
mod tests;
mod text;
mod version_2;
mod version_3;

use std::ffi::OsStr;
use std::sync::Arc;

use super::layout::MemberNames;
use super::{Candidate, Container, Format, Layout, OpenRequest, Verdict};
use crate::array::nested::NestedBlocks;
use crate::error::Result;
use members::{DirectoryMembers, Members, ZipMembers};

const NAME: &str = "zarr";

/// Documents by which a directory is a node.
const MAKE_NODES: [&str; 3] = ["zarr.json", ".zarray", ".zgroup"];

/// All that a node may have.
const OF_NODES: [&str; 5] = ["zarr.json", ".zgroup", ".zarray", ".zattrs", ".zmetadata"];

/// By these a store is recognised, the first being there in most.
const DOCUMENTS: [&str; 3] = ["zarr.json", ".zgroup", ".zarray"];

/// A store that is a directory.
pub struct Zarr;

/// A store in a zip file.
pub struct ZippedZarr;

/// Which files of a group's directory are the store's.
struct StoreFiles;

impl MemberNames for StoreFiles {
    /// Those of the root: documents of other nodes are compared when they are looked at.
    fn identifying(&self) -> &'static [&'static str] {
        &["zarr.json", ".zgroup", ".zarray", ".zattrs"]
    }

    fn has(&self, name: &OsStr) -> bool {
        const LEFT: [&str; 3] = [".DS_Store", "__MACOSX", "Thumbs.db"];
        let is = |known: &&str| OsStr::new(known) == name;
        // What a writer that was killed has left.
        let is_partial = name.as_encoded_bytes().ends_with(b".partial");
        OF_NODES.iter().any(is) || LEFT.iter().any(is) || is_partial
    }

    fn has_directories(&self) -> bool {
        true
    }
}

impl Format for Zarr {
    fn name(&self) -> &'static str {
        NAME
    }

    fn recognise(&self, candidate: &Candidate<'_>) -> Result<Verdict> {
        recognise::directory(candidate)
    }

    fn layout(&self) -> Layout {
        Layout::Directory(&StoreFiles)
    }

    /// A directory of any name may become one.
    fn extensions(&self) -> &'static [&'static str] {
        &[]
    }

    fn promised_by(&self) -> &'static [&'static str] {
        &["zarr"]
    }

    fn open(&self, request: &OpenRequest<'_>) -> Result<Container> {
        let nested = NestedBlocks::new(request.budget);
        let members: Arc<dyn Members> =
            Arc::new(DirectoryMembers::new(request.store, request.path));
        assemble::container(&members, &nested, request.budget)
    }
}

impl Format for ZippedZarr {
    fn name(&self) -> &'static str {
        NAME
    }

    fn recognise(&self, candidate: &Candidate<'_>) -> Result<Verdict> {
        recognise::zip(candidate)
    }

    fn extensions(&self) -> &'static [&'static str] {
        &[]
    }

    fn promised_by(&self) -> &'static [&'static str] {
        &["zarr.zip", "zarr"]
    }

    fn open(&self, request: &OpenRequest<'_>) -> Result<Container> {
        let nested = NestedBlocks::new(request.budget);
        let source = request.store.open(request.path)?;
        let members: Arc<dyn Members> =
            Arc::new(ZipMembers::open(source, &nested, request.budget)?);
        assemble::container(&members, &nested, request.budget)
    }
}
