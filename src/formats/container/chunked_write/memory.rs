//! Memory to encode in: reserved once, before anything is told, and never waited for, since staged
//! bytes take memory that only this very commit may give back.
//!
//! A space is for one thread at a time. There are as many as cores, batches and memory; cores that
//! get no batch of their own help with another one, if there is memory for that. Used by [`super`]
//! and the formats' recipes.

use std::sync::Arc;

use super::ChunkedArray;
use crate::error::{Error, Result};
use crate::memory::block::Workspace;
use crate::memory::budget::{Budget, Hold};
use crate::memory::room;
use crate::processors::processors;

/// What is encoded ahead takes no more of the budget at a time than one of so many parts.
const SPARE_PART: u64 = 16;

/// What one thread takes for a batch.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct EncodeNeeds {
    /// What is encoded.
    pub(crate) plain: u64,
    /// What it is encoded to, at most.
    pub(crate) out: u64,
    /// Beside both.
    pub(crate) scratch: u64,
}

impl EncodeNeeds {
    /// Enough for either.
    pub(crate) fn max(self, other: EncodeNeeds) -> EncodeNeeds {
        EncodeNeeds {
            plain: self.plain.max(other.plain),
            out: self.out.max(other.out),
            scratch: self.scratch.max(other.scratch),
        }
    }

    fn beside(&self) -> u64 {
        room(self.plain).saturating_add(self.scratch)
    }

    fn each(&self) -> u64 {
        self.out.saturating_add(self.beside())
    }

    fn space(&self, hold: Hold) -> Result<Workspace> {
        Workspace::new(self.out, self.beside(), hold, self.out)
    }
}

/// Spaces, one for each thread.
pub(crate) struct EncodeMemory {
    pub(crate) spaces: Vec<Workspace>,
    /// So many encode one batch together.
    pub(super) threads: usize,
    /// There is no memory to hold a batch as a whole.
    pub(super) in_parts: bool,
    /// For what is put together before it is told.
    _beside: Hold,
}

impl EncodeMemory {
    /// For one array. Where half of the budget has no room for a batch, it is encoded in parts, if
    /// that can be done.
    pub(crate) fn for_array(
        array: &impl ChunkedArray,
        batches: u64,
        budget: &Arc<Budget>,
    ) -> Result<EncodeMemory> {
        let needs = |threads| array.needs(threads);
        if needs(1)?.each() > budget.limit() / 2
            && let Some(parts) = array.needs_in_parts()?
        {
            let memory = EncodeMemory::of(at_once(parts.each(), budget), &parts, 1, 1)?;
            return Ok(EncodeMemory {
                in_parts: true,
                ..memory
            });
        }
        EncodeMemory::reserve(&needs, batches, 0, budget)
    }

    /// For so many batches, and so much beside them. `needs`: what each takes if so many threads
    /// encode it together.
    pub(crate) fn reserve(
        needs: &dyn Fn(usize) -> Result<EncodeNeeds>,
        batches: u64,
        beside: u64,
        budget: &Arc<Budget>,
    ) -> Result<EncodeMemory> {
        let cores = processors() as u64;
        let one = needs(1)?;
        let affordable = budget.limit() / 2 / one.each().max(1);
        let most = cores.min(batches).min(affordable).max(1);
        let all = |needs: &EncodeNeeds| needs.each().saturating_mul(most).saturating_add(beside);
        let helpers = (cores / most) as usize;
        if helpers > 1 {
            let needs = needs(helpers)?;
            if all(&needs) <= budget.limit() / 2
                && let Some(hold) = budget.try_reserve(all(&needs))
            {
                return EncodeMemory::of(hold, &needs, most, helpers);
            }
        }
        match budget.try_reserve(all(&one)) {
            Some(hold) => EncodeMemory::of(hold, &one, most, 1),
            None => {
                let hold = at_once(one.each().saturating_add(beside), budget);
                EncodeMemory::of(hold, &one, 1, 1)
            }
        }
    }

    fn of(mut hold: Hold, needs: &EncodeNeeds, count: u64, threads: usize) -> Result<EncodeMemory> {
        let spaces = (0..count).map(|_| needs.space(hold.split(needs.each())));
        Ok(EncodeMemory {
            spaces: spaces.collect::<Result<_>>()?,
            threads,
            in_parts: false,
            _beside: hold,
        })
    }

    /// For what one thread does.
    pub(crate) fn first(&mut self) -> Result<&mut Workspace> {
        let none = || Error::Bug("there is no memory to write with".into());
        self.spaces.first_mut().ok_or_else(none)
    }
}

/// One space, if there is so much memory that others do not lack it.
pub(super) fn spare_space(needs: &EncodeNeeds, budget: &Arc<Budget>) -> Result<Option<Workspace>> {
    if needs.each() > budget.limit() / SPARE_PART {
        return Ok(None);
    }
    let hold = budget.try_reserve(needs.each());
    hold.map(|hold| needs.space(hold)).transpose()
}

/// So many parts are worth a thread of their own that reads them.
const PARTS_LEAST: usize = 8;

/// Spaces to read parts into while others are put: two, if there are many parts and there is memory
/// for both. `out`: bytes of what is put, `lent`: what reading it takes.
pub(crate) fn spaces_in_turn(
    (out, lent): (u64, u64),
    parts: usize,
    budget: &Arc<Budget>,
) -> Result<Vec<Workspace>> {
    let each = out.saturating_add(lent);
    let space = |hold| Workspace::new(out, lent, hold, out);
    let mut spaces = vec![space(at_once(each, budget))?];
    if parts >= PARTS_LEAST
        && let Some(hold) = budget.try_reserve(each)
    {
        spaces.push(space(hold)?);
    }
    Ok(spaces)
}

/// A charge for so much that it is not waited for.
pub(crate) fn at_once(bytes: u64, budget: &Arc<Budget>) -> Hold {
    let free = budget.try_reserve(bytes);
    free.unwrap_or_else(|| budget.keep_built(bytes))
}
