//! HDF5 and NetCDF-4 files: groups are directories, datasets are files; Binsparse and BPCells
//! containers in groups are containers of their own.
//!
//! The way of a file:
//!
//! 1. here: it is recognised by its signature;
//! 2. [`worker`] has a process of its own learn the structure with libhdf5 ([`library`]) and gets
//!    it back as an [`index`]: plain data that describes the file, and is not trusted;
//! 3. [`assemble`] makes a container of what is known ([`known_file`]): names, groups, links,
//!    attributes, inner containers;
//! 4. [`dataset`] reads: stored bytes by `pread`, filters and conversion in our own threads.
//!    [`chunk_table`] says where chunks lie, [`element`] what values are, [`strings`] how text is
//!    found;
//! 5. [`write`] changes datasets: it encodes what has changed, and libhdf5 says in a worker what
//!    becomes of the file's structures ([`edit`]). Strings of variable length it stores itself, out
//!    of lines ([`text_lines`]).
//!
//! The daemon itself never calls libhdf5.

mod assemble;
mod chunk_table;
mod create;
mod dataset;
mod edit;
mod element;
mod fields;
mod index;
mod known_file;
mod left;
mod library;
mod lines;
mod made;
#[cfg(test)]
mod sample;
mod strings;
mod text_lines;
mod worker;
mod write;

use std::sync::Arc;

use super::creation::Creation;
use super::{Candidate, Container, Format, OpenRequest, Verdict};
use crate::error::{Fault, Result};
use crate::source::switched::SwitchedSource;
use known_file::KnownFile;

pub(super) use create::NETCDF4;
pub use library::library_version;
pub use worker::{serve, start_by_command, worker_deaths};

const NAME: &str = "hdf5";

const SIGNATURE: [u8; 8] = *b"\x89HDF\r\n\x1a\n";

/// Beyond the first page, user blocks are looked for in files of these names alone: elsewhere it
/// would cost every ordinary file many reads.
const SUFFIXES: [&str; 8] = ["h5", "hdf5", "hdf", "he5", "h5ad", "nc", "nc4", "mat"];

/// No user block is larger.
const FARTHEST: u64 = 1 << 32;

pub struct Hdf5;

impl Format for Hdf5 {
    fn name(&self) -> &'static str {
        NAME
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["h5", "hdf5", "h5ad"]
    }

    fn recognise(&self, candidate: &Candidate<'_>) -> Result<Verdict> {
        if !candidate.is_file() {
            return Ok(Verdict::No);
        }
        let head = candidate.head()?;
        if head.starts_with(&SIGNATURE) || behind_user_block(candidate)? {
            return Ok(Verdict::Yes);
        }
        Ok(damaged_signature(head).map_or(Verdict::No, Verdict::Damaged))
    }

    fn is_changed(&self) -> bool {
        true
    }

    fn creation(&self) -> Option<&'static dyn Creation> {
        Some(create::HDF5)
    }

    fn open(&self, request: &OpenRequest<'_>) -> Result<Container> {
        let file = Arc::new(SwitchedSource::new(request.store.open(request.path)?));
        let (answer, index) = worker::index(&*file, request.budget)?;
        let known = KnownFile {
            tables: worker::tables(&(Arc::clone(&file) as _), request.budget),
            file,
            answer: Arc::new(answer),
            left: request.left.of_format(),
        };
        known.container(index, request.budget)
    }
}

/// The superblock may lie at 512, 1024, 2048 and so on.
fn behind_user_block(candidate: &Candidate<'_>) -> Result<bool> {
    let head = candidate.head()?;
    let mut at = 512;
    while at + SIGNATURE.len() <= head.len() {
        if head[at..].starts_with(&SIGNATURE) {
            return Ok(true);
        }
        at *= 2;
    }
    let extension = candidate
        .extension()
        .and_then(|extension| extension.to_str());
    let named = extension.is_some_and(|name| SUFFIXES.contains(&name));
    let mut at = at as u64;
    while named && at <= FARTHEST {
        match candidate.bytes_at(at, SIGNATURE.len())? {
            Some(bytes) if bytes == SIGNATURE => return Ok(true),
            Some(_) => at *= 2,
            None => break,
        }
    }
    Ok(false)
}

/// One wrong byte of eight is no accident of another format.
fn damaged_signature(head: &[u8]) -> Option<Fault> {
    let head = head.first_chunk::<8>()?;
    let wrong = head
        .iter()
        .zip(SIGNATURE)
        .filter(|(a, b)| **a != *b)
        .count();
    (wrong == 1).then(|| {
        Fault::new("the signature is damaged")
            .bytes(0..8)
            .expected(SIGNATURE.escape_ascii())
            .found(head.escape_ascii())
    })
}
