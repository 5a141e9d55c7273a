//! The table of a dataset's stored chunks, taken in one pass over its index.
//!
//! Whatever kind of index it is (B-trees of both versions, single, implicit, fixed and extensible
//! arrays), libhdf5 walks it once. The index may claim anything: one chunk twice and more chunks
//! than there can be are refused, here or by the reader; chunks outside of the dataset are passed
//! over.

use std::ffi::{c_int, c_uint, c_void};

use hdf5_sys::h5::{haddr_t, hsize_t};
use hdf5_sys::h5d::{H5Dchunk_iter, H5Dget_space, H5Dget_storage_size};
use hdf5_sys::h5p::H5P_DEFAULT;

use super::identifier::{Identifier, Outcome, check};
use super::space::{count, grid};
use super::swizzle::Swizzle;
use crate::container::hdf5::chunk_table::{ChunkPacker, PackedChunks};
use crate::container::hdf5::index::ChunkEntry;
use crate::container::hdf5::worker::wire::{WorkerAnswer, WorkerRefusal};

/// Largest number of chunks in the grid of a dataset whose table comes with the index of the file.
pub(super) const INLINE_MOST: u64 = 256;

/// Chunks in one table: some 200 MiB of them.
const TABLE_MOST: u64 = 64 << 20;
/// Chunks that the index does not have in their order: they are put into it in memory.
const LOOSE_MOST: usize = 8 << 20;

/// The stored chunks of a dataset, packed as `chunk_table` says.
pub(super) fn table(dataset: &Identifier, dims: &[u64], chunk: &[u64]) -> WorkerAnswer<Vec<u8>> {
    let grid = grid(dims, chunk).ok_or("the chunks do not fit the dataset")?;
    let chunks = count(&grid).ok_or("the dataset has more chunks than can be counted")?;
    // SAFETY: the handle is a dataset.
    let space = Identifier::new(unsafe { H5Dget_space(dataset.id()) })?;
    let mut walk = ChunkWalk {
        grid: &grid,
        chunk,
        swizzle: Swizzle::of(dataset, &space, chunk)?,
        most: chunks,
        packed: ChunkPacker::default(),
        loose: Vec::new(),
        refused: None,
    };
    let at: *mut c_void = (&raw mut walk).cast();
    // SAFETY: the handle is a chunked dataset; the callback gets our `walk`, which outlives the
    // call.
    let walked = check(unsafe { H5Dchunk_iter(dataset.id(), H5P_DEFAULT, Some(visit), at) });
    if let Some(why) = walk.refused {
        return Err(why);
    }
    walked?;
    Ok(sorted(walk.packed, walk.loose)?)
}

/// Puts chunks where they belong.
fn sorted(packed: ChunkPacker, mut loose: Vec<ChunkEntry>) -> Outcome<Vec<u8>> {
    let packed = packed.finish();
    if loose.is_empty() {
        return Ok(packed);
    }
    loose.extend(PackedChunks(&packed).iter());
    loose.sort_unstable_by_key(|chunk| chunk.number);
    if !loose.is_sorted_by(|a, b| a.number < b.number) {
        return Err("the index of the chunks has one chunk twice".into());
    }
    let mut packer = ChunkPacker::default();
    loose.iter().for_each(|chunk| packer.push(*chunk));
    Ok(packer.finish())
}

/// Bits of the filters that some chunk went through. `plain_edges`: those that stick out of the
/// dataset did not.
pub(super) fn applied(
    chunks: PackedChunks<'_>,
    dims: &[u64],
    chunk: &[u64],
    plain_edges: bool,
) -> u32 {
    let sticks_out = |mut number: u64| {
        let mut axes = dims.iter().zip(chunk).rev();
        axes.any(|(&dim, &len)| {
            let count = dim.div_ceil(len.max(1)).max(1);
            let place = number % count;
            number /= count;
            (place + 1).saturating_mul(len) > dim
        })
    };
    let filtered = chunks.iter();
    let filtered = filtered.filter(|found| !(plain_edges && sticks_out(found.number)));
    filtered.fold(0, |applied, found| applied | !found.mask)
}

/// What the chunks of a dataset occupy, without their table.
pub(super) fn stored_bytes(dataset: &Identifier) -> u64 {
    // SAFETY: the handle is a dataset. It answers 0 where it does not know.
    unsafe { H5Dget_storage_size(dataset.id()) }
}

struct ChunkWalk<'a> {
    grid: &'a [u64],
    chunk: &'a [u64],
    swizzle: Option<Swizzle>,
    most: u64,
    /// Those that came by number, and the others.
    packed: ChunkPacker,
    loose: Vec<ChunkEntry>,
    refused: Option<WorkerRefusal>,
}

const GO_ON: c_int = 0;
const STOP: c_int = 1;

unsafe extern "C" fn visit(
    offset: *const hsize_t,
    mask: c_uint,
    address: haddr_t,
    size: hsize_t,
    walk: *mut c_void,
) -> c_int {
    // SAFETY: `walk` is the one of `table`.
    let walk = unsafe { &mut *walk.cast::<ChunkWalk<'_>>() };
    // SAFETY: libhdf5 gives as many offsets as the dataset has dimensions, which `grid` has too.
    let offset = unsafe { std::slice::from_raw_parts(offset, walk.grid.len()) };
    match walk.add(offset, mask, address, size) {
        Ok(()) => GO_ON,
        Err(why) => {
            walk.refused = Some(why);
            STOP
        }
    }
}

impl ChunkWalk<'_> {
    fn add(&mut self, offset: &[u64], mask: u32, address: u64, size: u64) -> WorkerAnswer<()> {
        // The library never asks for what lies outside of the dataset: it was larger once.
        let Some(number) = self.number(offset) else {
            return Ok(());
        };
        let found = ChunkEntry {
            number,
            address,
            size,
            mask,
        };
        let all = self.packed.len() + self.loose.len() as u64;
        if all >= self.most {
            return Err(format!("the index has more than {all} chunks").into());
        }
        if all >= TABLE_MOST || self.loose.len() >= LOOSE_MOST {
            let why = format!("it has more than {all} chunks, more than can be listed");
            return Err(WorkerRefusal::of_what_is_whole(why));
        }
        match self.packed.is_behind(number) {
            true => self.packed.push(found),
            false => self.loose.push(found),
        }
        Ok(())
    }

    /// The number of the chunk that begins at `offset` by the library's word; none if there is
    /// none.
    fn number(&self, offset: &[u64]) -> Option<u64> {
        let told = place(offset, self.chunk)?;
        match &self.swizzle {
            Some(swizzle) => number(&swizzle.truth(&told)?, self.grid),
            None => number(&told, self.grid),
        }
    }
}

/// Where in the grid a chunk lies whose first element is at `offset`; none if no chunk begins
/// there.
fn place(offset: &[u64], chunk: &[u64]) -> Option<Vec<u64>> {
    let pairs = offset.iter().zip(chunk);
    pairs
        .map(|(at, len)| at.is_multiple_of(*len).then(|| at / len))
        .collect()
}

/// The number of the chunk at a place; none if that is outside of the grid.
fn number(place: &[u64], grid: &[u64]) -> Option<u64> {
    let mut number: u64 = 0;
    for (&at, &chunks) in place.iter().zip(grid) {
        if at >= chunks {
            return None;
        }
        number = number.checked_mul(chunks)?.checked_add(at)?;
    }
    Some(number)
}
