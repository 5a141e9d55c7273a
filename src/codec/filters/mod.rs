//! HDF5's filter pipeline, decoded: the stored bytes of a chunk to its plain bytes.
//!
//! A dataset's filters are applied one after another when a chunk is written, and undone from the
//! last to the first when it is read. [`Pipeline::new`] checks filters and client values once;
//! [`Pipeline::decode`] then runs per chunk, in any number of threads, each with its own scratch.
//!
//! Used by the reader of HDF5 containers. Bytes in, bytes out: no I/O, and of the crate only the
//! decoders of `codec::blosc`. Every chunk is taken to be hostile: each filter writes within the
//! room it is given, which is bounded by the size of a chunk, and ends with bytes or a
//! [`FilterError`].
//!
//! Adding a filter: a decoder in a file of its own, and its lines in `stage.rs`.

mod bits;
mod bitshuffle;
mod blosc;
mod blosc2;
#[cfg(test)]
mod encode;
mod error;
mod fletcher32;
mod libraries;
mod lz4;
mod lzf;
mod nbit;
#[cfg(test)]
mod real;
mod scale_offset;
mod shuffle;
mod stage;
mod szip;
#[cfg(test)]
mod tests;
mod tools;

pub use error::{FilterError, Unsupported};

use stage::{Size, Stage};
use tools::{Tools, room};

/// Filters that HDF5 allows in a pipeline, one per bit of a chunk's mask.
const MAX_FILTERS: usize = 32;

/// A chunk between two filters is at most twice as long as it is plain, and so many bytes.
const MAX_GROWTH: usize = 1 << 20;

/// A filter as a dataset's header names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// Registered number.
    pub id: u32,
    /// Client values, as far as stored.
    pub values: Vec<u32>,
}

/// The filters of a dataset, in order of writing.
#[derive(Debug, Clone)]
pub struct Pipeline {
    stages: Vec<Stage>,
    chunk_bytes: usize,
}

impl Pipeline {
    /// Checks the filters, which are in order of writing; the first that cannot be decoded is named.
    ///
    /// `chunk_bytes` is the plain size of a chunk, in the file's own type.
    pub fn new(filters: &[Filter], chunk_bytes: usize) -> Result<Self, Unsupported> {
        if let Some(filter) = filters.get(MAX_FILTERS) {
            return Err(Unsupported::new(filter.id, "more than 32 filters"));
        }
        let stages = filters.iter().map(Stage::new).collect::<Result<_, _>>()?;
        Ok(Self {
            stages,
            chunk_bytes,
        })
    }

    /// The filters in order of writing, as in `shuffle+gzip`; `none` if there is none.
    pub fn name(&self) -> String {
        let names: Vec<_> = self.stages.iter().map(Stage::name).collect();
        match names.is_empty() {
            true => "none".to_owned(),
            false => names.join("+"),
        }
    }

    /// Chunks are stored as they are.
    pub fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }

    /// Upper bound of the memory that decoding takes beside the stored bytes and the output.
    pub fn scratch(&self) -> u64 {
        let mut size = self.plain_size();
        let (mut largest, mut own) = (0, 0);
        for stage in &self.stages {
            own = own.max(stage.scratch(size.most as u64));
            size = self.stored_size(stage, size);
            largest = largest.max(size.most as u64);
        }
        let between = self
            .stages
            .iter()
            .filter(|stage| !stage.is_view())
            .count()
            .min(2);
        own.saturating_add(largest.saturating_mul(between as u64))
    }

    /// The most that a chunk of `stored` bytes can decode to; `u64::MAX` where there is no bound.
    ///
    /// Guards allocation by a claimed chunk size. A filter that the chunk's mask skips is counted,
    /// as it can only make the bound larger.
    pub fn most(&self, stored: u64) -> u64 {
        let undo = |bytes: u64, stage: &Stage| bytes.max(stage.most(bytes));
        self.stages.iter().rev().fold(stored, undo)
    }

    /// Decodes a stored chunk into exactly `out`, which is one chunk long.
    ///
    /// Filter `i` is skipped where bit `i` of `mask` is set. On failure `out` holds rubbish.
    pub fn decode(&self, mask: u32, stored: &[u8], out: &mut [u8]) -> Result<(), FilterError> {
        if out.len() != self.chunk_bytes {
            return Err(FilterError::new("the room is not that of a chunk")
                .expected(self.chunk_bytes)
                .found(out.len()));
        }
        let mut live = Vec::with_capacity(self.stages.len());
        let mut size = self.plain_size();
        for (i, stage) in self.stages.iter().enumerate() {
            if mask >> i & 1 == 0 {
                live.push((stage, size));
                size = self.stored_size(stage, size);
            }
        }
        Tools::lend(self.chunk_bytes, |tools| {
            let mut between = std::mem::take(&mut tools.between);
            let done = undo_all(&live, tools, &mut between, stored, out);
            tools.between = between;
            done
        })
    }

    /// Size of what `stage` makes of `plain` bytes; many filters together do not add up beyond bounds.
    fn stored_size(&self, stage: &Stage, plain: Size) -> Size {
        let Size { most, exact } = stage.stored_size(plain);
        let limit = self
            .chunk_bytes
            .saturating_mul(2)
            .saturating_add(MAX_GROWTH);
        let most = if exact { most } else { most.min(limit) };
        Size { most, exact }
    }

    fn plain_size(&self) -> Size {
        Size {
            most: self.chunk_bytes,
            exact: true,
        }
    }
}

/// Undoes filters, given in order of writing, each with the size of what it was applied to.
fn undo_all(
    live: &[(&Stage, Size)],
    tools: &mut Tools,
    [held, spare]: &mut [Vec<u8>; 2],
    stored: &[u8],
    out: &mut [u8],
) -> Result<(), FilterError> {
    // The bytes so far are the first `len` of `held`, once there are any there, or of `stored`.
    let (mut in_held, mut len) = (false, stored.len());
    for (i, (stage, size)) in live.iter().enumerate().rev() {
        let named = |error: FilterError| error.of(stage.name());
        let input = if in_held {
            &held[..len]
        } else {
            &stored[..len]
        };
        if let Some(plain) = stage.view(input).map_err(named)? {
            len = plain.len();
        } else if i == 0 {
            len = stage.decode(tools, input, out).map_err(named)?;
            return check_size(*size, len).map_err(named);
        } else {
            let target = room(spare, size.most);
            len = stage.decode(tools, input, target).map_err(named)?;
            std::mem::swap(held, spare);
            in_held = true;
        }
        check_size(*size, len).map_err(named)?;
    }
    let plain = if in_held {
        &held[..len]
    } else {
        &stored[..len]
    };
    // Without filters the size is not checked yet.
    let exact = Size {
        most: out.len(),
        exact: true,
    };
    check_size(exact, len)?;
    out.copy_from_slice(plain);
    Ok(())
}

fn check_size(size: Size, found: usize) -> Result<(), FilterError> {
    let right = if size.exact {
        found == size.most
    } else {
        found <= size.most
    };
    match right {
        true => Ok(()),
        false => Err(FilterError::new("it decodes to a wrong number of bytes")
            .expected(size.most)
            .found(found)),
    }
}
