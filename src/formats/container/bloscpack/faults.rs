//! What can be wrong with a chunk as a whole, in the words that users read. Used by whatever finds,
//! reads and checks chunks.

use std::fmt;

use super::chunks::FoundChunk;
use super::sections::{CHUNK_HEADER, Sections};
use crate::codec::blosc::ChunkHeader;
use crate::error::Fault;

/// A chunk that does not fit into the file.
pub(super) fn cut_short(at: u64, needed: u64, sections: &Sections) -> Fault {
    let there = sections.len.saturating_sub(at);
    Fault::new("the file ends within the chunk")
        .bytes(at.min(sections.len)..sections.len)
        .expected(format_args!("at least {needed} bytes"))
        .found(format_args!("{there} bytes"))
}

/// A header that breaks a rule of its own.
pub(super) fn unsound(at: u64, error: &impl fmt::Display) -> Fault {
    Fault::new(error.to_string()).bytes(at..at.saturating_add(CHUNK_HEADER))
}

/// The guard before any memory is taken for a chunk's claimed size.
pub(super) fn implausible(at: u64, header: &ChunkHeader) -> Option<Fault> {
    let stored = u64::from(header.ctbytes());
    let codec = header.codec().name();
    (!header.plausible(stored)).then(|| {
        Fault::new("the chunk claims more than it can hold")
            .bytes(at..at.saturating_add(stored))
            .expected(format_args!("what {stored} bytes of {codec} can give"))
            .found(format_args!("{} bytes", header.nbytes()))
    })
}

/// The chunks behind this one do not begin where it says that it ends.
pub(super) fn elsewhere(chunk: &FoundChunk, next: u64, sections: &Sections) -> Fault {
    let end = chunk.stored().end + sections.digest;
    Fault::new("the chunk does not end where the next one begins")
        .block(chunk.number)
        .bytes(chunk.stored())
        .expected(format_args!("the next chunk at {end}"))
        .found(next)
}
