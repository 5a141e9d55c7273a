//! A chunk's filters undone, from the last to the first.
//!
//! What one filter leaves to the next lies in one of two buffers that take turns; the last one
//! undone writes to the output. How large the buffers are is known from the filters alone
//! ([`FilterSteps`]).

use super::MAX_FILTERS;
use super::Pipeline;
use super::checked::CheckedFilter;
use super::error::FilterError;
use super::tools::Tools;
use crate::contexts::Contexts;
use crate::memory::{Arena, room};

/// A filter that is undone, and the most bytes that come out.
#[derive(Clone, Copy)]
struct FilterStep<'p> {
    filter: &'p CheckedFilter,
    most: usize,
}

/// The filters that a chunk did not skip, in order of writing.
struct FilterSteps<'p> {
    steps: [Option<FilterStep<'p>>; MAX_FILTERS],
}

impl<'p> FilterSteps<'p> {
    fn new(pipeline: &'p Pipeline, mask: u32) -> Self {
        let mut steps = [None; MAX_FILTERS];
        let mut most = pipeline.chunk_bytes;
        for (i, filter) in pipeline.filters.iter().enumerate().take(MAX_FILTERS) {
            if mask >> i & 1 == 0 {
                steps[i] = Some(FilterStep { filter, most });
                most = pipeline.most_stored(filter, most);
            }
        }
        Self { steps }
    }

    /// In order of undoing.
    fn undone(&self) -> impl Iterator<Item = FilterStep<'p>> {
        self.steps.iter().rev().flatten().copied()
    }

    /// How many steps write bytes of their own.
    fn writing(&self) -> usize {
        let writes = |step: &FilterStep| !step.filter.is_view();
        self.undone().filter(writes).count()
    }

    /// Sizes of the two buffers, which every step that writes uses in turn, but for the last.
    fn buffers(&self) -> [usize; 2] {
        let mut sizes = [0; 2];
        let writes = |step: &FilterStep| !step.filter.is_view();
        let between = self.undone().filter(writes).take(self.between());
        for (i, step) in between.enumerate() {
            sizes[i % 2] = step.most.max(sizes[i % 2]);
        }
        sizes
    }

    /// How many steps write to the buffers: all that write, but for one that is undone last of all.
    fn between(&self) -> usize {
        let last = self.undone().last();
        let to_output = last.is_some_and(|step| !step.filter.is_view());
        self.writing() - usize::from(to_output)
    }
}

impl Pipeline {
    /// Memory that decoding a chunk takes beside the stored bytes and the output: the most that
    /// [`Pipeline::decode`] takes from its scratch memory. The libraries' own is of constant size
    /// (`codec::contexts`).
    pub fn scratch(&self, mask: u32) -> u64 {
        let steps = FilterSteps::new(self, mask);
        let own = steps.undone().map(|step| step.filter.scratch(step.most));
        let [first, second] = steps.buffers().map(|size| room(size as u64));
        let own = own.max().unwrap_or(0);
        own.saturating_add(first).saturating_add(second)
    }

    /// Decodes a stored chunk into the front of `out`, which is one chunk long; returns the number
    /// of bytes written.
    ///
    /// That may be fewer than a chunk has: writers store chunks short, and what they leave out is
    /// not known here. Of more bytes than a chunk has, the first are taken, as HDF5 does, if no
    /// filter has to make room for them; else they are an error. Filter `i` is skipped where bit
    /// `i` of `mask` is set. Behind the bytes written, and everywhere on failure, `out` holds
    /// rubbish.
    pub fn decode(
        &self,
        mask: u32,
        stored: &[u8],
        out: &mut [u8],
        mut scratch: Arena<'_>,
    ) -> Result<usize, FilterError> {
        if out.len() != self.chunk_bytes {
            return Err(FilterError::new("the room is not that of a chunk")
                .expected(self.chunk_bytes)
                .found(out.len()));
        }
        let steps = FilterSteps::new(self, mask);
        let [first, second] = steps.buffers();
        let buffers = [scratch.take(first as u64)?, scratch.take(second as u64)?];
        Contexts::lend(|contexts| {
            let tools = Tools { contexts, scratch };
            undo_all(&steps, tools, buffers, stored, out)
        })
    }
}

fn undo_all(
    steps: &FilterSteps,
    mut tools: Tools,
    [mut spare, mut held]: [&mut [u8]; 2],
    stored: &[u8],
    out: &mut [u8],
) -> Result<usize, FilterError> {
    // The bytes so far are the first `len` of `held`, once there are any there, or of `stored`.
    let (mut in_held, mut len) = (false, stored.len());
    let mut between = steps.between();
    for FilterStep { filter, most } in steps.undone() {
        let named = |error: FilterError| error.of(filter.name());
        let input = match in_held {
            true => &held[..len],
            false => &stored[..len],
        };
        if let Some(plain) = filter.view(input).map_err(named)? {
            len = plain.len();
        } else if between == 0 {
            return filter.decode(tools, input, out).map_err(named);
        } else {
            let decoded = filter.decode(tools.lend(), input, &mut spare[..most]);
            len = decoded.map_err(named)?;
            std::mem::swap(&mut held, &mut spare);
            (in_held, between) = (true, between - 1);
        }
    }
    let plain = match in_held {
        true => &held[..len],
        false => &stored[..len],
    };
    let len = plain.len().min(out.len());
    out[..len].copy_from_slice(&plain[..len]);
    Ok(len)
}
