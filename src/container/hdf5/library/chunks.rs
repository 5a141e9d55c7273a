//! The table of a dataset's stored chunks, taken in one pass over its index.
//!
//! Whatever kind of index it is (B-trees of both versions, single, implicit, fixed and extensible
//! arrays), libhdf5 walks it once. The index may claim anything: chunks outside of the dataset, one
//! chunk twice, more chunks than there can be; those are refused, here or by the reader.

use std::ffi::{c_int, c_uint, c_void};

use hdf5_sys::h5::{haddr_t, hsize_t};
use hdf5_sys::h5d::{H5Dchunk_iter, H5Dget_space, H5Dget_storage_size};
use hdf5_sys::h5p::H5P_DEFAULT;

use super::extensible::{self, Counting};
use super::handle::{Handle, Outcome, check};
use super::space::{count, grid};
use super::swizzle::Swizzle;
use crate::container::hdf5::index::Chunk;

/// Largest number of chunks in the grid of a dataset whose table comes with the index of the file.
pub(super) const INLINE_MOST: u64 = 256;

/// Chunks in one table: 256 MiB of them.
const TABLE_MOST: usize = 8 << 20;

/// Elements along each dimension: of the dataset, as large as it is and may become, and of its chunks.
pub(super) struct Extents {
    pub(super) dims: Vec<u64>,
    pub(super) largest: Vec<u64>,
    pub(super) chunk: Vec<u64>,
}

/// The stored chunks of a dataset, by number.
pub(super) fn table(dataset: &Handle, extents: &Extents) -> Outcome<Vec<Chunk>> {
    let Extents { dims, chunk, .. } = extents;
    let grid = grid(dims, chunk).ok_or("the chunks do not fit the dataset")?;
    let chunks = count(&grid).ok_or("the dataset has more chunks than can be counted")?;
    let most = usize::try_from(chunks).map_or(TABLE_MOST, |n| n.min(TABLE_MOST));
    let counting = miscounting(dataset, extents, &grid)?;
    let mut found: Vec<Chunk> = Vec::new();
    walk(dataset, &grid, &mut |told| {
        let offset = told.offset;
        let place = place(offset, chunk);
        let place = place.and_then(|place| match &counting {
            Some(counting) => counting.place(&place),
            None => Some(place),
        });
        let number = place.and_then(|place| number(&place, &grid));
        let number = number.ok_or_else(|| {
            format!("the index has a chunk at {offset:?}, outside of the dataset")
        })?;
        if found.len() >= most {
            return Err(format!("the index has more than {most} chunks"));
        }
        found.push(told.numbered(number));
        Ok(true)
    })?;
    found.sort_unstable_by_key(|chunk| chunk.number);
    if found.is_sorted_by(|a, b| a.number < b.number) {
        return Ok(found);
    }
    Err("the index of the chunks has one chunk twice".into())
}

/// How places have to be counted again, if the library miscounts those of this dataset: the first chunk
/// that is elsewhere by that account is looked up there.
fn miscounting(dataset: &Handle, extents: &Extents, grid: &[u64]) -> Outcome<Option<Counting>> {
    let chunk = &extents.chunk;
    let Some(counting) = Counting::of(&extents.largest, chunk) else {
        return Ok(None);
    };
    let mut elsewhere = None;
    walk(dataset, grid, &mut |told| {
        let told_place = place(told.offset, chunk);
        let place = told_place.as_deref().and_then(|at| counting.place(at));
        let inside = place.filter(|place| number(place, grid).is_some());
        elsewhere = inside
            .filter(|inside| told_place.as_ref() != Some(inside))
            .map(|inside| (inside, told.address));
        Ok(elsewhere.is_none())
    })?;
    let Some((place, address)) = elsewhere else {
        return Ok(None);
    };
    let offset: Vec<u64> = place.iter().zip(chunk).map(|(at, len)| at * len).collect();
    let is_there = extensible::address(dataset, &offset) == Some(address);
    Ok(is_there.then_some(counting))
}

/// What the chunks of a dataset occupy, without their table.
pub(super) fn stored_bytes(dataset: &Handle) -> u64 {
    // SAFETY: the handle is a dataset. It answers 0 where it cannot tell.
    unsafe { H5Dget_storage_size(dataset.id()) }
}

/// A chunk as the library tells of it.
struct Told<'a> {
    /// Its first element.
    offset: &'a [u64],
    mask: u32,
    address: u64,
    size: u64,
}

impl Told<'_> {
    fn numbered(&self, number: u64) -> Chunk {
        Chunk {
            number,
            address: self.address,
            size: self.size,
            mask: self.mask,
        }
    }
}

/// Says whether to go on.
type Visit<'a> = dyn FnMut(Told<'_>) -> Outcome<bool> + 'a;

struct Walk<'a> {
    rank: usize,
    visit: &'a mut Visit<'a>,
    refused: Option<String>,
}

/// Visits the stored chunks in the order of their index.
fn walk<'a>(dataset: &Handle, grid: &[u64], visit: &'a mut Visit<'a>) -> Outcome<()> {
    let mut walk = Walk {
        rank: grid.len(),
        visit,
        refused: None,
    };
    let at: *mut c_void = (&raw mut walk).cast();
    // SAFETY: the handle is a chunked dataset; the callback gets our `walk`, which outlives the call.
    let walked = check(unsafe { H5Dchunk_iter(dataset.id(), H5P_DEFAULT, Some(visited), at) });
    match walk.refused {
        Some(why) => Err(why),
        None => walked.map(|_| ()),
    }
}

const GO_ON: c_int = 0;
const STOP: c_int = 1;

unsafe extern "C" fn visited(
    offset: *const hsize_t,
    mask: c_uint,
    address: haddr_t,
    size: hsize_t,
    walk: *mut c_void,
) -> c_int {
    // SAFETY: `walk` is the one of the function of that name.
    let walk = unsafe { &mut *walk.cast::<Walk<'_>>() };
    // SAFETY: libhdf5 gives as many offsets as the dataset has dimensions.
    let offset = unsafe { std::slice::from_raw_parts(offset, walk.rank) };
    let told = Told {
        offset,
        mask,
        address,
        size,
    };
    match (walk.visit)(told) {
        Ok(true) => GO_ON,
        Ok(false) => STOP,
        Err(why) => {
            walk.refused = Some(why);
            STOP
        }
    }
}

/// The place among the chunks of that whose first element is at `offset`; none if no chunk begins there.
fn place(offset: &[u64], chunk: &[u64]) -> Option<Vec<u64>> {
    let pairs = offset.iter().zip(chunk);
    pairs.map(|(at, len)| at.is_multiple_of(*len).then(|| at / len)).collect()
}

/// The number of the chunk at a place in the grid; none if it is outside.
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
