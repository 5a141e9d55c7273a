//! From one stored chunk to its shown bytes: fetched, its filters undone, its elements converted.
//!
//! Knows nothing of where chunks lie in the array. A chunk may turn out shorter than it is to be;
//! how long it is then is for [`super`] to judge.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use super::super::unchunked;
use crate::codec::filters::{FilterError, Pipeline, Unsupported};
use crate::container::hdf5::element::cast::Cast;
use crate::container::hdf5::index::{ChunkEntry, FilterEntry};
use crate::error::{Error, Fault, NotShown, Result};
use crate::memory::{Arena, room};
use crate::source::{Source, StoredRanges};

/// Filtered chunks up to this size are believed whatever their stored size.
const HARMLESS: u64 = 1 << 20;

/// Chunks up to this size may be stored short.
const SHORT_MOST: u64 = 64 << 20;

pub(super) struct ChunkReader {
    source: Arc<dyn Source>,
    /// Bytes of a chunk in the stored type.
    stored: u64,
    cast: Cast,
    filters: Vec<FilterEntry>,
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
            pipeline: pipeline(filters, stored),
        }
    }

    /// A reader of the same chunks in another file.
    pub(super) fn of_file(&self, source: &Arc<dyn Source>) -> ChunkReader {
        ChunkReader {
            source: Arc::clone(source),
            cast: self.cast.clone(),
            filters: self.filters.clone(),
            pipeline: self.pipeline.clone(),
            ..*self
        }
    }

    /// Why not everything can be shown. `applied`: bits of the filters that some chunk went
    /// through. One that a filter cannot have been given is damaged by itself.
    pub(super) fn trouble(&self, applied: u32) -> Option<Error> {
        match &self.pipeline {
            Ok(pipeline) => {
                let unusable = pipeline.unusable(!applied);
                unusable.filter(|filter| filter.is_unknown).map(refused)
            }
            Err(error) => Some(error.clone()),
        }
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
    /// filters; `reach`: so many shown bytes of it belong to the array or lie before some that do.
    pub(super) fn check(&self, chunk: &ChunkEntry, plain: bool, reach: u64) -> Result<()> {
        let end = chunk.address.saturating_add(chunk.size);
        let bytes = chunk.address..end;
        if chunk.size >= u64::from(u32::MAX) || end > self.source.len() {
            let fault = unchunked::beyond_the_end(chunk.address, end, self.source.len());
            return Err(fault.block(chunk.number).into());
        }
        let unusable = |pipeline: &Pipeline| pipeline.unusable(chunk.mask).map(refused);
        if let (false, Some(error)) = (plain, self.pipeline().ok().and_then(unusable)) {
            return Err(error.map_fault(|fault| fault.block(chunk.number).bytes(bytes)));
        }
        if chunk.size == 0 || !(plain || self.is_plausible(chunk, reach)) {
            let fault = Fault::new("the chunk is too short for what it is to hold");
            let fault = fault.block(chunk.number).bytes(bytes);
            let expected = format_args!("{} decoded bytes", self.stored);
            return Err(fault.expected(expected).into());
        }
        Ok(())
    }

    /// Whether a filtered chunk can be as long as it has to be.
    fn is_plausible(&self, chunk: &ChunkEntry, reach: u64) -> bool {
        let most = |pipeline: &Pipeline| pipeline.most(chunk.size);
        let most = self.pipeline.as_ref().map_or(0, most);
        let short = self.stored <= SHORT_MOST && self.shown(most) >= reach;
        self.stored <= HARMLESS || most >= self.stored || short
    }

    /// Shown bytes of the first `stored` bytes of a chunk.
    fn shown(&self, stored: u64) -> u64 {
        let units = stored / self.cast.from() as u64;
        units.saturating_mul(self.cast.to() as u64)
    }

    /// Shown bytes that an unfiltered chunk has.
    pub(super) fn held(&self, chunk: &ChunkEntry) -> u64 {
        self.shown(chunk.size.min(self.stored))
    }

    /// Memory beside the block: the chunk before it is converted, the stored chunk, what the
    /// filters need. It is what [`ChunkReader::decode`] takes.
    pub(super) fn scratch(&self, chunk: &ChunkEntry, plain: bool) -> u64 {
        let converted = match self.cast.in_place() {
            true => 0,
            false => room(self.stored),
        };
        match &self.pipeline {
            Ok(pipeline) if !plain => converted
                .saturating_add(room(chunk.size))
                .saturating_add(pipeline.scratch(chunk.mask)),
            _ => converted,
        }
    }

    /// Decodes a chunk that [`ChunkReader::check`] passes into its shown form; returns how many
    /// shown bytes it has. Zeros stand behind them.
    pub(super) fn decode(
        &self,
        chunk: &ChunkEntry,
        plain: bool,
        out: &mut [u8],
        mut scratch: Arena<'_>,
    ) -> Result<u64> {
        let (from, to) = (self.cast.from(), self.cast.to());
        let len = if self.cast.in_place() {
            let len = self.decode_stored(chunk, plain, out, scratch)?;
            let whole = len / from * from;
            self.cast.apply(&mut out[..whole]);
            whole
        } else {
            let stored = scratch.take(self.stored)?;
            let len = self.decode_stored(chunk, plain, stored, scratch)?;
            let units = (len / from).min(out.len() / to);
            let shown = &mut out[..units * to];
            self.cast.run(&stored[..units * from], shown);
            units * to
        };
        out[len..].fill(0);
        Ok(len as u64)
    }

    /// Names what shown bytes of a chunk take: a filtered one is fetched whole.
    pub(super) fn name(&self, chunk: &ChunkEntry, shown: Range<u64>, needed: &mut StoredRanges) {
        let end = chunk.address.saturating_add(chunk.size);
        let stored = match self.has_filters() {
            true => 0..chunk.size,
            false => unchunked::around(&self.cast, &shown),
        };
        let place = |at: u64| chunk.address.saturating_add(at).min(end);
        needed.name(&self.source, place(stored.start)..place(stored.end));
    }

    /// Decodes into the front of `out`; returns the number of bytes.
    pub(super) fn decode_stored(
        &self,
        chunk: &ChunkEntry,
        plain: bool,
        out: &mut [u8],
        mut scratch: Arena<'_>,
    ) -> Result<usize> {
        let pipeline = self.pipeline()?;
        if plain {
            let len = out.len().min(chunk.size as usize);
            self.source.fetch_one(chunk.address, &mut out[..len])?;
            return Ok(len);
        }
        let stored = scratch.take(chunk.size)?;
        self.source.fetch_one(chunk.address, stored)?;
        let decoded = pipeline.decode(chunk.mask, stored, out, scratch);
        let bytes = chunk.address..chunk.address.saturating_add(chunk.size);
        decoded.map_err(|e| error(e).map_fault(|fault| fault.bytes(bytes)))
    }

    /// Whether [`ChunkReader::read`] needs no memory.
    pub(super) fn reads_in_place(&self) -> bool {
        unchunked::reads_in_place(&self.cast)
    }

    /// Reads shown bytes of an unfiltered chunk from `skip` on.
    pub(super) fn read(&self, chunk: &ChunkEntry, skip: u64, out: &mut [u8]) -> Result<()> {
        unchunked::read(&self.cast, skip, out, &mut |at, out| {
            let fetched = unchunked::fetch(&*self.source, chunk.address, at, out);
            fetched.map_err(|e| e.map_fault(|fault| fault.block(chunk.number)))
        })
    }
}

/// The filters of a dataset with chunks of so many bytes.
pub(crate) fn pipeline(filters: &[FilterEntry], chunk_bytes: u64) -> Result<Pipeline> {
    let filters: Vec<_> = filters.iter().map(FilterEntry::described).collect();
    // At most 4 GiB: the grid has checked it.
    let chunk_bytes = usize::try_from(chunk_bytes).unwrap_or(usize::MAX);
    let checked = Pipeline::new(&filters, chunk_bytes);
    checked.map_err(|error| Fault::new(error.to_string()).into())
}

fn refused(filter: &Unsupported) -> Error {
    match filter.is_unknown {
        true => NotShown::new(filter.to_string()).into(),
        false => Fault::new(filter.to_string()).into(),
    }
}

/// What a filter says is wrong with a chunk, with its numbers where every fault has them.
fn error(error: FilterError) -> Error {
    let damage = match error {
        FilterError::Damage(damage) => *damage,
        FilterError::Failed(error) => return error,
    };
    let fault = match damage.filter {
        "" => Fault::new(damage.what),
        filter => Fault::new(format!("{filter}: {}", damage.what)),
    };
    let fault = Fault {
        expected: damage.expected,
        found: damage.found,
        ..fault
    };
    fault.into()
}
