//! Rules between arrays, which no single block shows: what `verify` checks beside decoding every
//! block.
//!
//! A rule streams over an array in steps of one block and reports the first violation of each step,
//! so memory and output stay small. A step that cannot be decoded is passed over: the block's own
//! fault is reported where it is decoded. Used by `matrix` and `fragments`.

use std::sync::Arc;

use super::packed::BLOCK_BYTES;
use crate::array::uncached::{DecodeMemory, read_into};
use crate::array::{Array, BlockId, Piece};
use crate::container::{Check, TellFault};
use crate::error::{Error, Fault, Result};
use crate::memory::budget::Budget;
use crate::memory::fallible;

type RuleHolds = dyn Fn(&dyn Array, &Arc<Budget>, TellFault<'_>) -> Result<()> + Send + Sync;

/// A rule that an array must keep.
struct ArrayRule {
    array: Arc<dyn Array>,
    holds: Box<RuleHolds>,
}

/// The check that `holds` finds no fault in `array`.
pub(super) fn rule(
    array: &Arc<dyn Array>,
    holds: impl Fn(&dyn Array, &Arc<Budget>, TellFault<'_>) -> Result<()> + Send + Sync + 'static,
) -> Arc<dyn Check> {
    Arc::new(ArrayRule {
        array: Arc::clone(array),
        holds: Box::new(holds),
    })
}

impl Check for ArrayRule {
    fn check(&self, budget: &Arc<Budget>, report: TellFault<'_>) -> Result<()> {
        let of_array = |fault: Fault| fault.array(self.array.name());
        let checked = (self.holds)(&*self.array, budget, &mut |fault| report(of_array(fault)));
        checked.map_err(|e| e.map_fault(of_array))
    }
}

/// Every value of an array of u32 is less than `limit`, the number of `things`.
pub(super) fn all_below(
    array: &dyn Array,
    limit: u64,
    things: &str,
    budget: &Arc<Budget>,
    report: TellFault<'_>,
) -> Result<()> {
    each_step(array, budget, |step| {
        let over = step
            .values()
            .zip(step.first..)
            .find(|&(value, _)| u64::from(value) >= limit);
        if let Some((value, number)) = over {
            let fault = Fault::new(format!("value {number} is out of range"))
                .expected(format_args!("less than the {limit} {things}"))
                .found(value);
            report(step.locate(fault));
        }
        Ok(())
    })
}

/// An array has one of these numbers of elements.
pub(super) fn count_is_one_of(
    array: &dyn Array,
    counts: &[u64],
    report: TellFault<'_>,
) -> Result<()> {
    let count = count(array)?;
    if !counts.contains(&count) {
        let expected: Vec<String> = counts.iter().map(u64::to_string).collect();
        let fault = Fault::new("a wrong number of entries");
        report(fault.expected(expected.join(" or ")).found(count));
    }
    Ok(())
}

/// Entry i of `maxima` is at least every one of the values 128i.. of `ends`.
pub(super) fn bounds_runs(
    maxima: &dyn Array,
    ends: &dyn Array,
    run: u64,
    budget: &Arc<Budget>,
    report: TellFault<'_>,
) -> Result<()> {
    each_step(ends, budget, |step| {
        let doing = "cannot check an array";
        let mut ends = fallible::room_for(step.bytes.len() / 4, doing)?;
        ends.extend(step.values());
        let bytes = 4 * ends.len().div_ceil(run as usize);
        let mut bytes = fallible::zeros(bytes as u64, doing)?;
        let memory = DecodeMemory::Reserved(budget);
        read_into(maxima, 4 * (step.first / run), &mut bytes, memory)?;
        for ((bound, ends), number) in u32s(&bytes)
            .zip(ends.chunks(run as usize))
            .zip(step.first / run..)
        {
            let max = ends.iter().copied().max().unwrap_or(0);
            if bound < max {
                let fault = Fault::new(format!("entry {number} is less than an end it stands for"));
                report(fault.expected(format_args!("at least {max}")).found(bound));
                break;
            }
        }
        Ok(())
    })
}

/// Number of elements.
pub(super) fn count(array: &dyn Array) -> Result<u64> {
    Ok(array.info()?.shape.first().copied().unwrap_or(0))
}

/// One step over an array of u32.
struct CheckStep<'a> {
    /// Number of the first value.
    first: u64,
    block: Option<BlockId>,
    bytes: &'a [u8],
}

impl CheckStep<'_> {
    fn values(&self) -> impl Iterator<Item = u32> {
        u32s(self.bytes)
    }

    fn locate(&self, fault: Fault) -> Fault {
        match self.block {
            Some(id) => fault.block(id.0),
            None => fault,
        }
    }
}

fn u32s(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.as_chunks().0.iter().map(|&b| u32::from_le_bytes(b))
}

/// Goes over an array of u32 in steps that are its blocks, if it has any.
fn each_step(
    array: &dyn Array,
    budget: &Arc<Budget>,
    mut visit: impl FnMut(CheckStep<'_>) -> Result<()>,
) -> Result<()> {
    let bytes = array.info()?.bytes;
    let mut buf = Vec::new();
    let mut at = 0;
    while at < bytes {
        buf.clear();
        let len = (bytes - at).min(BLOCK_BYTES) as usize;
        fallible::lengthen(&mut buf, len, "cannot check an array")?;
        let step = read_into(array, at, &mut buf, DecodeMemory::Reserved(budget)).and_then(|()| {
            visit(CheckStep {
                first: at / 4,
                block: block_at(array, at)?,
                bytes: &buf,
            })
        });
        match step {
            Ok(()) | Err(Error::Fault(_)) => {}
            Err(other) => return Err(other.needed()),
        }
        at += BLOCK_BYTES;
    }
    Ok(())
}

fn block_at(array: &dyn Array, at: u64) -> Result<Option<BlockId>> {
    let mut pieces = Vec::new();
    array.pieces(at..at + 1, &mut pieces)?;
    Ok(pieces.first().and_then(|piece| match *piece {
        Piece::Block { id, .. } => Some(id),
        Piece::Direct { .. } => None,
    }))
}
