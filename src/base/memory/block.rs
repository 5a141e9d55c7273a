//! Memory of decoded blocks, and of the decodes themselves.
//!
//! Large blocks live in anonymous mappings of their own, so that freed memory returns to the system
//! (an allocator would keep it, and the budget would bound nothing); a few recently freed mappings
//! are kept for the next decode, whose pages are then already there. So is the memory that decodes
//! take beside their blocks, of any size. Small blocks come from the allocator. Used by `cache` and
//! `array`.

use std::collections::HashMap;

use memmap2::MmapMut;

use super::budget::Hold;
use super::large_page::{self, PagePart};
use super::no_memory;
use super::pages::{LARGE_PAGE, mapped};
use super::scratch::{self, Arena};
use super::spare::SpareMappings;
use crate::error::Result;
use crate::sync::{Mutex, MutexGuard};

/// Blocks of at least this size are mapped.
const MAPPED_FROM: u64 = 64 << 10;

/// Mapped sizes are rounded up to this, so that blocks of about the same size can take each other's
/// place.
const MAPPED_STEP: u64 = 64 << 10;

/// Scratch memory is at least so large, and below [`MAPPED_FROM`] a power of two, for the same
/// reason.
const LEAST_SCRATCH: u64 = 4 << 10;

/// Most bytes kept in freed memory, beside the budget.
const KEEP: u64 = 8 << 20;

/// Freed memory by size, ready to be used again.
pub(super) struct FreedMemory {
    freed: Mutex<Freed>,
    keep: u64,
    spare: SpareMappings,
}

#[derive(Default)]
struct Freed {
    by_size: HashMap<usize, Vec<Memory>>,
    bytes: u64,
}

enum Memory {
    /// Goes back to the allocator.
    Heap(Box<[u8]>),
    /// These are used again.
    Small(Box<[u8]>),
    Mapped(MmapMut),
    Part(PagePart),
}

/// A decoded block: its bytes and the part of the budget that they take.
pub struct Block {
    /// None: it has no bytes.
    memory: Option<Memory>,
    len: usize,
    charge: Hold,
}

/// Memory for one decode: the block, and what the decode takes beside it.
pub struct Workspace {
    block: Block,
    scratch: Block,
    scratch_len: u64,
}

impl FreedMemory {
    /// Keeps at most an eighth of `limit`.
    pub(super) fn new(limit: u64) -> Self {
        FreedMemory {
            freed: Mutex::default(),
            keep: KEEP.min(limit / 8),
            spare: SpareMappings::new(limit / 8),
        }
    }

    /// A mapping of at least `len` bytes; its contents are arbitrary.
    fn mapping(&self, len: u64) -> Option<Memory> {
        let size = usize::try_from(len.checked_next_multiple_of(MAPPED_STEP)?).ok()?;
        self.take(size).or_else(|| {
            if super::refusing::is_wanted() && super::refusing::refuses(size) {
                return None;
            }
            if super::allocator::is_short() {
                return None;
            }
            if let Some(part) = self.part_of_page(size) {
                return Some(Memory::Part(part));
            }
            if let Some(spare) = self.spare.take(size) {
                return Some(Memory::Mapped(spare));
            }
            let mapping = mapped(size).or_else(|_| {
                // What the system refuses it may grant when it has got these back.
                self.give_up();
                mapped(size)
            });
            mapping.map(Memory::Mapped).ok()
        })
    }

    /// A part of a large page, whose other parts are kept, if there is room for them.
    fn part_of_page(&self, size: usize) -> Option<PagePart> {
        if self.lock().bytes + LARGE_PAGE as u64 > self.keep {
            return None;
        }
        let mut parts = large_page::parts(size)?;
        let first = parts.next();
        parts.for_each(|part| self.put_back(Memory::Part(part)));
        first
    }

    /// Memory of the allocator that will be used again, of at least `len` bytes.
    fn small(&self, len: u64) -> Option<Memory> {
        let size = len.max(LEAST_SCRATCH).checked_next_power_of_two()?;
        let taken = self.take(usize::try_from(size).ok()?);
        taken.or_else(|| zeros(size).map(Memory::Small))
    }

    fn take(&self, size: usize) -> Option<Memory> {
        let mut freed = self.lock();
        let taken = freed.by_size.get_mut(&size)?.pop()?;
        freed.bytes -= size as u64;
        Some(taken)
    }

    fn put_back(&self, memory: Memory) {
        let size = memory.bytes().len();
        if matches!(memory, Memory::Heap(_)) || size as u64 > self.keep {
            return;
        }
        let mut freed = self.lock();
        let mut dropped = None;
        if freed.bytes + size as u64 > self.keep {
            let same = freed.by_size.get(&size);
            if same.is_some_and(|same| !same.is_empty()) {
                return;
            }
            // Sizes change with the container that is read: start over with the new one.
            dropped = Some(std::mem::take(&mut *freed));
        }
        freed.bytes += size as u64;
        freed.by_size.entry(size).or_default().push(memory);
        drop(freed);
        drop(dropped);
    }

    pub(super) fn give_up(&self) {
        self.spare.give_up();
        let freed = std::mem::take(&mut *self.lock());
        drop(freed);
    }

    pub(super) fn bytes(&self) -> u64 {
        self.lock().bytes
    }

    fn lock(&self) -> MutexGuard<'_, Freed> {
        self.freed.lock()
    }
}

impl Memory {
    fn bytes(&self) -> &[u8] {
        match self {
            Memory::Heap(bytes) | Memory::Small(bytes) => bytes,
            Memory::Mapped(mapping) => mapping,
            Memory::Part(part) => part.bytes(),
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Memory::Heap(bytes) | Memory::Small(bytes) => bytes,
            Memory::Mapped(mapping) => mapping,
            Memory::Part(part) => part.bytes_mut(),
        }
    }
}

impl Block {
    /// A block of `len` bytes of arbitrary content; ENOMEM if the system has no memory left. The
    /// allocator may have some even where no mapping is to be had (a limit of the address space).
    pub fn new(len: u64, charge: Hold) -> Result<Self> {
        let freed = charge.freed_memory();
        let mapped = (len >= MAPPED_FROM).then(|| freed.mapping(len)).flatten();
        let memory = mapped.or_else(|| zeros(len).map(Memory::Heap));
        Block::of(memory, len, charge)
    }

    /// Memory for a decode that asked for `len` bytes of it.
    fn for_scratch(len: u64, charge: Hold) -> Result<Self> {
        let len = scratch::padded(len);
        if len == 0 || len > MAPPED_FROM / 2 {
            return Block::new(len, charge);
        }
        let memory = charge.freed_memory().small(len);
        Block::of(memory, len, charge)
    }

    fn of(memory: Option<Memory>, len: u64, charge: Hold) -> Result<Self> {
        match memory {
            Some(memory) => Ok(Block {
                memory: Some(memory),
                len: len as usize,
                charge,
            }),
            None if len == 0 => Ok(Block {
                memory: None,
                len: 0,
                charge,
            }),
            None => Err(no_memory("cannot decode a block")),
        }
    }

    /// The part of the budget that it takes.
    pub fn charge(&self) -> u64 {
        self.charge.bytes()
    }

    pub fn bytes(&self) -> &[u8] {
        let memory = self.memory.as_ref().map_or(&[][..], Memory::bytes);
        &memory[..self.len]
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let memory = self.memory.as_mut().map_or(&mut [][..], Memory::bytes_mut);
        &mut memory[..self.len]
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            self.charge.freed_memory().put_back(memory);
        }
    }
}

impl Workspace {
    /// Memory for a block of `len` bytes and `scratch` bytes beside it. Of `charge`, which may be
    /// less than both, the block gets up to `block_charge`: that is what stays.
    pub fn new(len: u64, scratch: u64, mut charge: Hold, block_charge: u64) -> Result<Self> {
        Ok(Workspace {
            block: Block::new(len, charge.split(block_charge))?,
            scratch: Block::for_scratch(scratch, charge)?,
            scratch_len: scratch,
        })
    }

    /// The block's bytes, to be filled in, and the memory for doing so.
    pub fn parts(&mut self) -> (&mut [u8], Arena<'_>) {
        let scratch = scratch::within(self.scratch.bytes_mut(), self.scratch_len);
        (self.block.bytes_mut(), scratch)
    }

    pub fn into_block(self) -> Block {
        self.block
    }
}

fn zeros(len: u64) -> Option<Box<[u8]>> {
    if len == 0 {
        return None;
    }
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(usize::try_from(len).ok()?).ok()?;
    bytes.resize(len as usize, 0);
    Some(bytes.into_boxed_slice())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::budget::Budget;

    #[test]
    fn memory_of_decodes_is_used_again() {
        let budget = Budget::new(64 << 20);
        let place = |len, scratch| {
            let hold = budget.reserve(len + scratch);
            let mut space = Workspace::new(len, scratch, hold, len).unwrap();
            let (block, mut scratch) = space.parts();
            let beside = scratch.take(64).unwrap().as_ptr();
            (block.as_ptr(), beside)
        };
        for (len, scratch) in [(1 << 20, 100), (70_000, 5000), (1 << 17, 300_000)] {
            assert_eq!(place(len, scratch), place(len, scratch));
        }
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn freed_memory_is_bounded() {
        let budget = Budget::new(8 << 20);
        let blocks = || (0..20).map(|_| Block::new(200_000, budget.reserve(0)).unwrap());
        drop(blocks().collect::<Vec<_>>());
        assert!(budget.freed_bytes() <= 1 << 20);
        drop(Block::new(900_000, budget.reserve(0)).unwrap());
        assert_eq!(budget.freed_bytes(), 14 << 16);
    }

    #[test]
    fn no_bytes_are_no_memory() {
        let budget = Budget::new(1 << 20);
        let mut space = Workspace::new(0, 0, budget.reserve(0), 0).unwrap();
        let (block, mut scratch) = space.parts();
        assert!(block.is_empty() && scratch.take(1).is_err());
    }
}
