//! Bloscpack files: one array of bytes in Blosc chunks, each with a digest, and metadata about
//! them.
//!
//! `[header][metadata section][offsets section][chunk, digest]...`, see docs/formats.md. A file is
//! recognised by its magic, and a file named `.blp` without it is a damaged one. Opening reads the
//! header, the metadata and the first chunk's header; only a file that does not know its own sizes
//! is walked. Nothing that a file claims is believed before it is checked against the file's
//! length.
//!
//! - Recognising and opening: here.
//! - Describing: [`header`] (the first 32 bytes), [`metadata`] (its section, and NumPy's meaning of
//!   it), [`sections`] (where everything lies).
//! - Reading: [`chunks`] finds the chunk that holds a byte, [`read`] reads and decodes blocks of
//!   it.
//! - Checking: [`verify`] goes over the whole file; [`faults`] are its words and those of a read.
//! - Changing: [`write`] tells how a changed file comes about, or a new one ([`pack`]).

mod chunks;
mod faults;
mod header;
pub mod layout;
mod metadata;
mod read;
mod sections;
mod verify;
mod write;

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::creation::Creation;
use super::lookalike::appearance;
use super::{Candidate, Container, Format, LogsInFiles, OpenRequest, Text, Verdict};
use crate::error::{Error, Fault, Result};
use crate::memory::budget::Budget;
use crate::source::Source;
use chunks::{ChunkFinder, ChunkSizes};
use header::{FileHeader, MAGIC};
use metadata::Metadata;
use metadata::numpy::Numpy;
use read::PackedBytes;
use sections::Sections;
use write::BloscpackFile;

pub use write::packed::{LARGEST_CHUNK, PackSettings, pack};

const VERSION: &str = "3";
const EXTENSION: &str = "blp";
const TEXT_NAME: &str = "metadata.json";

pub struct Bloscpack;

impl Format for Bloscpack {
    fn name(&self) -> &'static str {
        "bloscpack"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &[EXTENSION]
    }

    fn is_changed(&self) -> bool {
        true
    }

    fn creation(&self) -> Option<&'static dyn Creation> {
        Some(&Bloscpack)
    }

    fn recognise(&self, candidate: &Candidate<'_>) -> Result<Verdict> {
        if !candidate.is_file() {
            return Ok(Verdict::No);
        }
        let head = candidate.head()?;
        if head.starts_with(MAGIC) {
            return Ok(Verdict::Yes);
        }
        if candidate
            .extension()
            .is_none_or(|extension| extension != EXTENSION)
        {
            return Ok(Verdict::No);
        }
        let found = match head.get(..MAGIC.len()) {
            Some(magic) => header::hex(magic),
            None => format!("{} bytes", head.len()),
        };
        let seen = appearance(head).map_or_else(String::new, |seen| format!(": {seen}"));
        let fault = Fault::new(format!("not a Bloscpack file{seen}"));
        Ok(Verdict::Damaged(
            fault
                .bytes(0..4)
                .expected("the magic \"blpk\"")
                .found(found),
        ))
    }

    fn open(&self, request: &OpenRequest<'_>) -> Result<Container> {
        let source = request.store.open(request.path)?;
        let LogsInFiles(read_through) = request.preferences.logs_in_files;
        let with_log = match read_through {
            Some(read) => read(&source, request.budget)?,
            None => None,
        };
        let is_in_log = with_log.is_some();
        let source = (with_log.unwrap_or(source), is_in_log);
        match open(self.name(), source, request.budget) {
            Err(Error::Fault(fault)) => Ok(Container::refused(self.name(), *fault)),
            Ok(container) if is_in_log => Ok(left_to_scratch(container)),
            other => other,
        }
    }
}

/// What a scratch mount has logged is shown, and changed by scratch mounts alone: a commit of what
/// is stored would lose it.
fn left_to_scratch(mut container: Container) -> Container {
    container.writable = None;
    container.is_only_read("a scratch mount has logged changes of it, and makes them");
    let note = "of a scratch store: its log is read through, and written to by scratch mounts";
    container.attributes.insert("note".into(), note.into());
    container
}

/// A fault here is one that leaves nothing to show. `is_in_log`: the source is a file of a scratch
/// store, read through its log.
fn open(
    format: &'static str,
    (source, is_in_log): (Arc<dyn Source>, bool),
    budget: &Arc<Budget>,
) -> Result<Container> {
    let (header, behind) = read_headers(&*source)?;
    let metadata = match header.has_metadata {
        true => metadata::read(&*source, behind.as_ref())?,
        false => Metadata {
            end: header::LEN as u64,
            ..Metadata::default()
        },
    };
    let sections = Sections::new(&header, metadata.end, source.len())?;
    let sizes = even_sizes(&header)?;
    let mut container = Container::new(format, VERSION);
    container.faults.extend(metadata.faults);

    let (chunks, fault) = ChunkFinder::new(Arc::clone(&source), sections, sizes, budget)?;
    let data = PackedBytes::new((source, is_in_log), chunks, header.checksum)?;
    container.attributes = attributes(&header, &data);
    let numpy = metadata
        .said
        .as_ref()
        .and_then(|said| Numpy::from_metadata(&said.value, data.bytes()));
    if let Some(Err(why)) = &numpy {
        container
            .attributes
            .insert("note".into(), format!("shown as bytes: {why}").into());
    }
    if let Some(said) = metadata.said.filter(|said| said.whole) {
        container.attributes.insert("metadata".into(), said.value);
    }
    let file = BloscpackFile {
        is_numpy: matches!(&numpy, Some(Ok(_))),
        text: metadata.text.clone(),
        retyped: None,
        encoded_as: None,
        data: Arc::new(data.with_numpy(numpy.and_then(|n| n.ok()))),
        header,
        after_metadata: metadata.end,
    };
    container.texts.extend(metadata.text.map(|text| Text {
        name: TEXT_NAME.to_owned(),
        content: text,
    }));
    show(&mut container, &file.data, fault)?;
    let is_sized = |chunk_size: Option<u32>, chunks: Option<u64>| {
        chunks == Some(1) || (chunk_size > Some(0) && chunks > Some(0))
    };
    let sized = is_sized(file.header.chunk_size, file.header.nchunks);
    if container.faults.is_empty() && sizes.is_some() && sized && !container.arrays.is_empty() {
        container.writable = Some(Arc::new(file));
    } else if sizes.is_none() || !sized {
        container.is_only_read("its header does not say how long its chunks are, or how many");
    }
    Ok(container)
}

/// The file's header, and what lies behind it, which may be the metadata's: with one read.
fn read_headers(source: &dyn Source) -> Result<(FileHeader, Option<[u8; metadata::HEADER]>)> {
    let mut bytes = [0; header::LEN + metadata::HEADER];
    let len = source.len().min(bytes.len() as u64);
    source.fetch_one(0, &mut bytes[..len as usize])?;
    let (header, behind) = bytes.split_at(header::LEN);
    let Some(header) = header.first_chunk().filter(|_| len >= header::LEN as u64) else {
        return Err(sections::short_header(len).into());
    };
    let whole = len == bytes.len() as u64;
    Ok((
        FileHeader::parse(header)?,
        behind.first_chunk().copied().filter(|_| whole),
    ))
}

/// The sizes, if the header knows them all.
fn even_sizes(header: &FileHeader) -> Result<Option<ChunkSizes>> {
    if header.plain_len()?.is_none() {
        return Ok(None);
    }
    let size = |bytes: Option<u32>| u64::from(bytes.unwrap_or(0));
    Ok(Some(ChunkSizes::Even {
        chunk_size: size(header.chunk_size),
        last: size(header.last_chunk),
        chunks: header.nchunks.unwrap_or(0),
    }))
}

/// Adds the array. `broken`: where the walk for the sizes broke off. An array of which no chunk was
/// found is not shown at all: an empty file would look like one.
fn show(container: &mut Container, data: &Arc<PackedBytes>, broken: Option<Fault>) -> Result<()> {
    let found = data.chunks.sizes();
    let nothing = data.fault_of_nothing()?;
    container
        .faults
        .extend(nothing.map(|fault| fault.array("data")));
    let nothing = Fault::new("the file holds no chunks, and does not say how many it should");
    let missing = match (found, broken) {
        (ChunkSizes::Walked { chunks: 0, .. }, None) if data.chunks.sections().chunks.is_none() => {
            Some(nothing)
        }
        (ChunkSizes::Walked { chunks: 0, .. }, broken) => broken,
        (_, broken) => {
            let known = |fault: Fault| Fault {
                what: format!("shown only up to here: {}", fault.what),
                ..fault
            };
            container
                .faults
                .extend(broken.map(|fault| known(fault).array("data")));
            None
        }
    };
    match missing {
        Some(fault) => container.add("data", Err(fault.into())),
        None => container.add("data", Ok(Arc::clone(data) as _)),
    }
}

fn attributes(header: &FileHeader, data: &PackedBytes) -> Map<String, Value> {
    let mut attributes = Map::new();
    let mut add = |name: &str, value: Value| attributes.insert(name.to_owned(), value);
    add("typesize", json!(header.typesize));
    add("chunk_size", json!(header.chunk_size));
    add("last_chunk", json!(header.last_chunk));
    add("nchunks", json!(header.nchunks));
    add("max_app_chunks", json!(header.max_app_chunks));
    add("checksum", json!(header.checksum.name()));
    if let Some(codec) = data.codec() {
        add("codec", json!(codec));
    }
    attributes
}

#[cfg(test)]
mod tests;
