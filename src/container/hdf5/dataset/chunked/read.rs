//! From one stored chunk to its shown bytes: fetched, its filters undone, its elements converted.
//!
//! Knows nothing of where chunks lie in the array. Buffers belong to the thread. Used by
//! [`super`].

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;
use std::thread::LocalKey;

use super::super::unchunked;
use crate::codec::filters::{FilterDescription, FilterError, Pipeline};
use crate::container::hdf5::element::cast::Cast;
use crate::container::hdf5::index::{ChunkEntry, FilterEntry};
use crate::error::{Error, Fault, NotShown, Result};
use crate::source::Source;

/// Filtered chunks up to this size are believed whatever their stored size.
const HARMLESS: u64 = 1 << 20;

/// Number of the shuffle filter.
const SHUFFLE: u32 = 2;

/// A larger buffer is not kept for the next chunk.
const KEPT: usize = 4 << 20;

thread_local! {
    /// Stored bytes of one chunk.
    static STORED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// Decoded bytes of one chunk that are converted into the block.
    static DECODED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

pub(super) struct ChunkReader {
    source: Arc<dyn Source>,
    /// Bytes of a chunk in the stored type.
    stored: u64,
    cast: Cast,
    filters: Vec<FilterEntry>,
    /// Bits of filters that chunks have to skip.
    skipped_always: u32,
    /// The error is what every read gets.
    pipeline: Result<Pipeline>,
}

impl ChunkReader {
    pub(super) fn new(
        source: &Arc<dyn Source>,
        filters: &[FilterEntry],
        stored: u64,
        cast: Cast,
    ) -> ChunkReader {
        ChunkReader {
            source: Arc::clone(source),
            stored,
            cast,
            filters: filters.to_vec(),
            skipped_always: skipped_always(filters),
            pipeline: pipeline(filters, stored),
        }
    }

    /// Why nothing can be decoded.
    pub(super) fn trouble(&self) -> Option<&Error> {
        self.pipeline.as_ref().err()
    }

    pub(super) fn pipeline(&self) -> Result<&Pipeline> {
        self.pipeline.as_ref().map_err(Error::clone)
    }

    pub(super) fn codec(&self) -> Cow<'static, str> {
        match &self.pipeline {
            Ok(pipeline) => pipeline.name().into(),
            Err(_) => {
                let ids: Vec<String> = self.filters.iter().map(|f| f.id.to_string()).collect();
                format!("filters {}", ids.join("+")).into()
            }
        }
    }

    pub(super) fn has_filters(&self) -> bool {
        !self.filters.is_empty()
    }

    /// Bytes of a chunk in the stored type.
    pub(super) fn stored(&self) -> u64 {
        self.stored
    }

    /// Finds what cannot be right about a chunk without reading it. `plain`: it is stored without
    /// filters.
    pub(super) fn check(&self, chunk: &ChunkEntry, plain: bool) -> Result<()> {
        let end = chunk.address.saturating_add(chunk.size);
        let bytes = chunk.address..end;
        if chunk.size >= u64::from(u32::MAX) || end > self.source.len() {
            let fault = unchunked::beyond_the_end(chunk.address, end, self.source.len());
            return Err(fault.block(chunk.number).into());
        }
        if plain && chunk.size < self.stored {
            let fault = Fault::new("the unfiltered chunk is too short").block(chunk.number);
            let fault = fault.bytes(bytes).expected(self.stored);
            return Err(fault.found(chunk.size).into());
        }
        if chunk.size == 0 || !(plain || self.is_plausible(chunk)) {
            let fault = Fault::new("the chunk is too short for what it is to hold");
            let fault = fault.block(chunk.number).bytes(bytes);
            let expected = format_args!("{} decoded bytes", self.stored);
            return Err(fault.expected(expected).into());
        }
        Ok(())
    }

    /// Whether a filtered chunk can be as long as it has to be.
    fn is_plausible(&self, chunk: &ChunkEntry) -> bool {
        let most = |pipeline: &Pipeline| pipeline.most(chunk.size);
        self.stored <= HARMLESS || self.pipeline.as_ref().map_or(0, most) >= self.stored
    }

    /// Memory beside the block: the stored chunk, what the filters need, and the chunk before it is
    /// converted.
    pub(super) fn scratch(&self, chunk: &ChunkEntry, plain: bool) -> u64 {
        let converted = if self.cast.in_place() { 0 } else { self.stored };
        match &self.pipeline {
            Ok(pipeline) if !plain => {
                let filters = chunk.size.saturating_add(pipeline.scratch());
                converted.saturating_add(filters)
            }
            _ => converted,
        }
    }

    /// Decodes a chunk that [`ChunkReader::check`] passes into its shown form.
    pub(super) fn decode(&self, chunk: &ChunkEntry, plain: bool, out: &mut [u8]) -> Result<()> {
        let decoded = if self.cast.in_place() {
            let decoded = self.decode_stored(chunk, plain, out);
            decoded.map(|()| self.cast.apply(out))
        } else {
            with_buffer(&DECODED, self.stored, |buffer| {
                self.decode_stored(chunk, plain, buffer)?;
                self.cast.run(buffer, out);
                Ok(())
            })
        };
        decoded.map_err(|e| e.map_fault(|fault| fault.block(chunk.number)))
    }

    fn decode_stored(&self, chunk: &ChunkEntry, plain: bool, out: &mut [u8]) -> Result<()> {
        let pipeline = self.pipeline()?;
        if plain {
            return self.source.fetch_one(chunk.address, out);
        }
        let skipped = chunk.mask;
        if self.skipped_always & !skipped != 0 {
            let fault = Fault::new("shuffle: the size of its elements is missing");
            return Err(fault.found(format_args!("mask {skipped:#x}")).into());
        }
        with_buffer(&STORED, chunk.size, |stored| {
            self.source.fetch_one(chunk.address, stored)?;
            let decoded = pipeline.decode(skipped, stored, out);
            let bytes = chunk.address..chunk.address.saturating_add(chunk.size);
            decoded.map_err(|error| fault(error).bytes(bytes).into())
        })
    }

    /// Reads shown bytes of an unfiltered chunk from `skip` on.
    pub(super) fn read(&self, chunk: &ChunkEntry, skip: u64, out: &mut [u8]) -> Result<()> {
        unchunked::read(&self.cast, skip, out, &mut |at, out| {
            let fetched = unchunked::fetch(&*self.source, chunk.address, at, out);
            fetched.map_err(|e| e.map_fault(|fault| fault.block(chunk.number)))
        })
    }
}

/// Libhdf5 shuffles no strings of variable length: the filter stays in the list, without the size of its
/// elements, and every chunk skips it.
fn lacks_width(filter: &FilterEntry) -> bool {
    filter.id == SHUFFLE && filter.values.is_empty()
}

fn skipped_always(filters: &[FilterEntry]) -> u32 {
    let bits = filters.iter().zip(0..u32::BITS);
    let lacking = bits.filter(|(filter, _)| lacks_width(filter));
    lacking.fold(0, |mask, (_, bit)| mask | 1 << bit)
}

fn pipeline(filters: &[FilterEntry], chunk_bytes: u64) -> Result<Pipeline> {
    let filters: Vec<FilterDescription> = filters
        .iter()
        .map(|filter| FilterDescription {
            id: filter.id,
            // Any width will do for what is always skipped.
            values: match lacks_width(filter) {
                true => vec![1],
                false => filter.values.clone(),
            },
        })
        .collect();
    // At most 4 GiB: the grid has checked it.
    let chunk_bytes = usize::try_from(chunk_bytes).unwrap_or(usize::MAX);
    let checked = Pipeline::new(&filters, chunk_bytes);
    checked.map_err(|error| match error.is_unknown {
        true => NotShown::new(error.to_string()).into(),
        false => Fault::new(error.to_string()).into(),
    })
}

/// The same, with its numbers where every fault has them.
fn fault(error: FilterError) -> Fault {
    let fault = match error.filter {
        "" => Fault::new(error.what),
        filter => Fault::new(format!("{filter}: {}", error.what)),
    };
    Fault {
        expected: error.expected,
        found: error.found,
        ..fault
    }
}

/// Lends `len` bytes of a thread's buffer, whose contents are arbitrary.
fn with_buffer<R>(
    buffer: &'static LocalKey<RefCell<Vec<u8>>>,
    len: u64,
    f: impl FnOnce(&mut [u8]) -> Result<R>,
) -> Result<R> {
    let no_room = || Fault::new("no memory for a chunk").expected(format_args!("{len} bytes"));
    let len = usize::try_from(len).map_err(|_| no_room())?;
    buffer.with_borrow_mut(|buffer| {
        if buffer.len() < len {
            let more = buffer.try_reserve_exact(len - buffer.len());
            more.map_err(|_| no_room())?;
            buffer.resize(len, 0);
        }
        let outcome = f(&mut buffer[..len]);
        if buffer.len() > KEPT {
            *buffer = Vec::new();
        }
        outcome
    })
}
