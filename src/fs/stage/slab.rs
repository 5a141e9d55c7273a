//! Staged bytes in memory: slabs to which writes are appended, and the part of the budget that they
//! may take.
//!
//! Many small writes that follow each other fill one slab, so they cost little. A slab goes back as
//! a whole, when nothing of it is shown any more. The first ones are small, so that a stage with
//! little in it is small. All stages of a daemon share one [`LayerMemory`], which takes at most
//! half of the budget; it never waits. Used by [`super::layer`], and by [`super::Stage`], which
//! asks for slabs while it holds no lock that giving memory back needs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use memmap2::MmapMut;

use super::encoded_blocks::EncodedBlock;
use super::extents::InSlab;
use super::intervals::IntervalMemory;
use super::ready::{HUGE, ReadySlabs, map};
use crate::memory::budget::{Budget, Hold, Reclaim};
use crate::memory::fallible;
use crate::sync::RwLock;

pub(super) const LARGEST_SLAB: u64 = 256 << 10;
const SMALLEST_SLAB: u64 = 4 << 10;

/// Slabs of a layer that holds so much are [large pages](HUGE).
const HUGE_FROM: u64 = 16 << 20;

/// Slabs are told apart in the whole process, so that those of one layer can become another's.
static NEXT_SLAB: AtomicU64 = AtomicU64::new(0);

/// What all stages of a daemon may take of its budget.
pub struct LayerMemory {
    budget: Arc<Budget>,
    used: AtomicU64,
    /// Bytes of encoded blocks, which count for the budget alone: of what is staged they are the
    /// first to go.
    encoded: AtomicU64,
    ready: ReadySlabs,
    pub(super) intervals: IntervalMemory,
    lenders: RwLock<Vec<Weak<dyn Lender>>>,
}

/// A stage as a lender of memory: it can give slabs back.
pub(super) trait Lender: Send + Sync {
    /// Writes a part to the log if it must, and drops it; false if nothing came free. Waits for no
    /// lock that is held while memory is asked for.
    fn give_up(&self) -> bool;

    /// Drops a block that was encoded ahead; false if there is none.
    fn give_up_encoded(&self) -> bool;
}

/// Memory for bytes that are staged.
pub(super) struct LayerSlab {
    memory: SlabMemory,
    /// Bytes of it that were appended to.
    filled: usize,
    /// Bytes of it that are shown.
    live: u64,
    /// None once the layer is no part of a stage.
    charge: Option<SlabCharge>,
}

enum SlabMemory {
    Heap(Vec<u8>),
    Mapped(MmapMut),
}

pub(super) struct SlabCharge {
    _hold: Hold,
    bytes: u64,
    memory: Arc<LayerMemory>,
}

/// The slabs of a layer.
#[derive(Default)]
pub(super) struct Slabs {
    by_number: BTreeMap<u64, LayerSlab>,
    /// What is appended to.
    current: Option<u64>,
    bytes: u64,
}

impl LayerMemory {
    pub fn new(budget: Arc<Budget>) -> Arc<LayerMemory> {
        let memory = Arc::new(LayerMemory {
            intervals: IntervalMemory::new(&budget),
            budget,
            used: AtomicU64::new(0),
            encoded: AtomicU64::new(0),
            ready: ReadySlabs::default(),
            lenders: RwLock::default(),
        });
        let lender: Weak<LayerMemory> = Arc::downgrade(&memory);
        memory.budget.register(lender);
        memory
    }

    /// Bytes that all stages hold.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(super) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    pub(super) fn register(&self, lender: Weak<dyn Lender>) {
        let mut lenders = self.lenders.write();
        lenders.retain(|lender| lender.strong_count() > 0);
        lenders.push(lender);
    }

    /// A slab with room for so many bytes, or for as many as a slab has. `held`: by the layer,
    /// which grows by as much as it has.
    pub(super) fn slab(self: &Arc<Self>, least: u64, held: u64) -> Option<LayerSlab> {
        if held >= HUGE_FROM
            && let Some(slab) = self.huge_slab()
        {
            return Some(slab);
        }
        let size = least.max(held).clamp(SMALLEST_SLAB, LARGEST_SLAB);
        let size = size.next_multiple_of(SMALLEST_SLAB);
        self.claim(size)?;
        let charge = self.charge(size, None)?;
        let bytes = fallible::zeros(size, "cannot stage").ok()?;
        Some(LayerSlab::new(SlabMemory::Heap(bytes), charge))
    }

    fn huge_slab(self: &Arc<Self>) -> Option<LayerSlab> {
        self.claim(HUGE)?;
        let (mapping, hold) = self.ready.take().unzip();
        let charge = self.charge(HUGE, hold)?;
        let memory = SlabMemory::Mapped(mapping.or_else(map)?);
        Some(LayerSlab::new(memory, charge))
    }

    /// Whether so much is written that [`Self::prepare`] is worth while; says so once.
    pub fn wants_slabs(&self) -> bool {
        self.ready.are_wanted()
    }

    /// Has slabs ready for large writes. Takes a moment.
    pub fn prepare(&self) {
        let reserve = || self.budget.reserve_free(HUGE);
        let is_used = || self.used() > 0;
        if is_used() {
            self.ready.fill(reserve, is_used);
        }
    }

    /// Bytes of the half that stages may take together.
    fn claim(&self, bytes: u64) -> Option<()> {
        let half = self.budget.limit() / 2;
        let add = |used: u64| used.checked_add(bytes).filter(|&sum| sum <= half);
        let order = Ordering::Relaxed;
        self.used.fetch_update(order, order, add).ok().map(drop)
    }

    /// For what has been claimed. `hold`: if it has been taken from the budget before.
    fn charge(self: &Arc<Self>, bytes: u64, hold: Option<Hold>) -> Option<SlabCharge> {
        let Some(hold) = hold.or_else(|| self.budget.try_reserve(bytes)) else {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
            return None;
        };
        let memory = Arc::clone(self);
        Some(SlabCharge {
            _hold: hold,
            bytes,
            memory,
        })
    }
}

/// Memory of an encoded block.
pub(super) struct EncodedCharge {
    _hold: Hold,
    bytes: u64,
    memory: Arc<LayerMemory>,
}

impl LayerMemory {
    /// Keeps an encoded block, if there is memory for it.
    pub fn encoded(self: &Arc<Self>, bytes: Vec<u8>) -> Option<EncodedBlock> {
        let len = bytes.len() as u64;
        let charge = EncodedCharge {
            _hold: self.budget.try_reserve(len)?,
            bytes: len,
            memory: Arc::clone(self),
        };
        self.encoded.fetch_add(len, Ordering::Relaxed);
        Some(EncodedBlock::new(bytes, charge))
    }
}

impl Drop for EncodedCharge {
    fn drop(&mut self) {
        let encoded = &self.memory.encoded;
        encoded.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl SlabMemory {
    fn bytes(&self) -> &[u8] {
        match self {
            SlabMemory::Heap(bytes) => bytes,
            SlabMemory::Mapped(mapping) => mapping,
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            SlabMemory::Heap(bytes) => bytes,
            SlabMemory::Mapped(mapping) => mapping,
        }
    }
}

impl LayerSlab {
    fn new(memory: SlabMemory, charge: SlabCharge) -> LayerSlab {
        LayerSlab {
            memory,
            filled: 0,
            live: 0,
            charge: Some(charge),
        }
    }

    fn size(&self) -> usize {
        self.memory.bytes().len()
    }
}

impl Drop for SlabCharge {
    fn drop(&mut self) {
        let before = self.memory.used.fetch_sub(self.bytes, Ordering::Relaxed);
        // There are no writes any more.
        if before == self.bytes {
            self.memory.ready.clear();
        }
    }
}

impl Reclaim for LayerMemory {
    fn reclaimable(&self) -> u64 {
        self.used()
            .saturating_add(self.encoded.load(Ordering::Relaxed))
            .saturating_add(self.ready.bytes())
    }

    fn give_up(&self) -> bool {
        if self.ready.give_up() {
            return true;
        }
        let Some(lenders) = self.lenders.try_read() else {
            return false;
        };
        let all = || lenders.iter().filter_map(Weak::upgrade);
        all().any(|lender| lender.give_up_encoded()) || all().any(|lender| lender.give_up())
    }
}

impl Slabs {
    /// Bytes of memory that they take.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many bytes can be appended.
    pub(super) fn room(&self) -> u64 {
        let current = self.current.and_then(|number| self.by_number.get(&number));
        current.map_or(0, |slab| (slab.size() - slab.filled) as u64)
    }

    /// From now on bytes are appended to this one.
    pub(super) fn add(&mut self, slab: LayerSlab) {
        let number = NEXT_SLAB.fetch_add(1, Ordering::Relaxed);
        self.drop_if_dead(self.current);
        self.bytes += slab.size() as u64;
        self.by_number.insert(number, slab);
        self.current = Some(number);
    }

    /// Appends as many as there is room for, and says where they are.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Option<(InSlab, usize)> {
        let number = self.current?;
        let slab = self.by_number.get_mut(&number)?;
        let n = bytes.len().min(slab.size() - slab.filled);
        let place = InSlab::new(number, slab.filled)?;
        slab.memory.bytes_mut()[slab.filled..][..n].copy_from_slice(&bytes[..n]);
        slab.filled += n;
        slab.live += n as u64;
        (n > 0).then_some((place, n))
    }

    pub(super) fn get(&self, place: InSlab, len: usize) -> Option<&[u8]> {
        let at = place.at();
        let slab = self.by_number.get(&place.slab())?;
        slab.memory.bytes().get(at..at.checked_add(len)?)
    }

    pub(super) fn get_mut(&mut self, place: InSlab, len: usize) -> Option<&mut [u8]> {
        let at = place.at();
        let slab = self.by_number.get_mut(&place.slab())?;
        slab.memory.bytes_mut().get_mut(at..at.checked_add(len)?)
    }

    /// So many bytes of a slab are not shown any more.
    pub(super) fn release(&mut self, place: InSlab, len: u64) {
        if let Some(slab) = self.by_number.get_mut(&place.slab()) {
            slab.live = slab.live.saturating_sub(len);
            self.drop_if_dead(Some(place.slab()));
        }
    }

    /// The one that is appended to goes if nothing was.
    pub(super) fn drop_unused(&mut self) {
        self.drop_if_dead(self.current);
    }

    /// Their memory is not charged any more.
    pub(super) fn uncharge(&mut self) -> Vec<SlabCharge> {
        let slabs = self.by_number.values_mut();
        slabs.filter_map(|slab| slab.charge.take()).collect()
    }

    fn drop_if_dead(&mut self, number: Option<u64>) {
        let Some(number) = number else { return };
        let slab = self.by_number.get(&number);
        if slab.is_some_and(|slab| slab.live == 0)
            && let Some(slab) = self.by_number.remove(&number)
        {
            self.bytes -= slab.size() as u64;
            self.current = self.current.filter(|&current| current != number);
        }
    }

    /// Takes over those of another layer.
    pub(super) fn take_over(&mut self, others: &mut Slabs) {
        self.by_number.append(&mut others.by_number);
        self.bytes += std::mem::take(&mut others.bytes);
        self.current = others.current.take().or(self.current);
    }
}
