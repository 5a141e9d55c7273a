//! Memory of decoded blocks.
//!
//! Large blocks live in anonymous mappings of their own, so that freed memory returns to the system
//! (an allocator would keep it, and the budget would bound nothing); a few recently freed mappings are
//! kept for the next decode, whose pages are then already there. Small blocks come from the allocator.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memmap2::MmapMut;

use super::budget::Hold;
use super::no_memory;
use super::scratch::{self, Scratch};
use crate::error::Result;

/// Blocks of at least this size are mapped.
const MAPPED_FROM: u64 = 64 << 10;

/// Mapped sizes are rounded up to this, so that blocks of about the same size can take each other's place.
const MAPPED_STEP: u64 = 64 << 10;

/// Most bytes kept in freed mappings, beside the budget.
const KEEP: u64 = 8 << 20;

/// Freed mappings by size, ready to be used again.
pub struct Pool {
    free: Mutex<Freed>,
    keep: u64,
}

#[derive(Default)]
struct Freed {
    by_size: HashMap<usize, Vec<MmapMut>>,
    bytes: u64,
}

enum Memory {
    Heap(Box<[u8]>),
    Mapped(MmapMut),
    Returned,
}

/// A decoded block: its bytes and the part of the budget that they take.
pub struct Block {
    memory: Memory,
    len: usize,
    pool: Arc<Pool>,
    charge: Hold,
}

impl Pool {
    pub fn new(limit: u64) -> Self {
        Pool {
            free: Mutex::default(),
            keep: KEEP.min(limit / 8),
        }
    }

    /// A mapping of at least `len` bytes; its contents are arbitrary.
    fn take(&self, len: u64) -> Option<MmapMut> {
        let size = usize::try_from(len.checked_next_multiple_of(MAPPED_STEP)?).ok()?;
        let mut free = self.lock();
        if let Some(mapping) = free.by_size.get_mut(&size).and_then(Vec::pop) {
            free.bytes -= size as u64;
            return Some(mapping);
        }
        drop(free);
        MmapMut::map_anon(size)
            .or_else(|_| {
                // What the system refuses it may grant when it has got these back.
                *self.lock() = Freed::default();
                MmapMut::map_anon(size)
            })
            .ok()
    }

    fn put_back(&self, mapping: MmapMut) {
        let size = mapping.len() as u64;
        let mut free = self.lock();
        if size > self.keep {
            return;
        }
        if free.bytes + size > self.keep {
            if free
                .by_size
                .get(&mapping.len())
                .is_some_and(|same| !same.is_empty())
            {
                return;
            }
            // Sizes change with the container that is read: start over with the new one.
            *free = Freed::default();
        }
        free.bytes += size;
        free.by_size.entry(mapping.len()).or_default().push(mapping);
    }

    fn lock(&self) -> MutexGuard<'_, Freed> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Block {
    /// A block of `len` bytes of arbitrary content; ENOMEM if the system has no memory left. The allocator
    /// may have some even where no mapping is to be had (a limit of the address space).
    pub fn new(len: u64, charge: Hold, pool: &Arc<Pool>) -> Result<Self> {
        let mapped = (len >= MAPPED_FROM).then(|| pool.take(len)).flatten();
        let memory = match mapped {
            Some(mapping) => Some(Memory::Mapped(mapping)),
            None => zeros(len).map(Memory::Heap),
        };
        Ok(Block {
            memory: memory.ok_or_else(|| no_memory("cannot decode a block"))?,
            len: len as usize,
            pool: Arc::clone(pool),
            charge,
        })
    }

    /// Memory for a decode that asked for `len` bytes of it.
    pub fn for_scratch(len: u64, charge: Hold, pool: &Arc<Pool>) -> Result<Self> {
        Block::new(scratch::padded(len), charge, pool)
    }

    /// `len` bytes of scratch memory, as it was made for.
    pub fn scratch(&mut self, len: u64) -> Scratch<'_> {
        scratch::within(self.bytes_mut(), len)
    }

    /// The part of the budget that it takes.
    pub fn charge(&self) -> u64 {
        self.charge.bytes()
    }

    pub fn bytes(&self) -> &[u8] {
        match &self.memory {
            Memory::Heap(bytes) => &bytes[..self.len],
            Memory::Mapped(mapping) => &mapping[..self.len],
            Memory::Returned => &[],
        }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Memory::Heap(bytes) => &mut bytes[..self.len],
            Memory::Mapped(mapping) => &mut mapping[..self.len],
            Memory::Returned => &mut [],
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Memory::Mapped(mapping) = std::mem::replace(&mut self.memory, Memory::Returned) {
            self.pool.put_back(mapping);
        }
    }
}

fn zeros(len: u64) -> Option<Box<[u8]>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(usize::try_from(len).ok()?).ok()?;
    bytes.resize(len as usize, 0);
    Some(bytes.into_boxed_slice())
}
