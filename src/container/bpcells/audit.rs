//! Rules between arrays, which no single block shows: what `verify` checks beside decoding every
//! block.
//!
//! [`audited`] puts a rule around an array; the array itself knows nothing of it. Rules stream over
//! the array in steps of one block and report the first violation of each step, so memory and
//! output stay small. A step that cannot be decoded is passed over: the block's own fault is the
//! caller's to report. Used by `matrix` and `fragments`.

use std::ops::Range;
use std::sync::Arc;

use super::packed::BLOCK_BYTES;
use crate::array::uncached::{DecodeMemory, read_into};
use crate::array::{Array, BlockId, Info, Piece};
use crate::error::{Error, Fault, Result};
use crate::memory::Scratch;
use crate::memory::budget::Budget;

type Report<'a> = &'a mut dyn FnMut(Fault);
type Rule = Box<dyn Fn(&dyn Array, Report<'_>) -> Result<()> + Send + Sync>;

/// An array with a rule that [`Array::verify`] checks.
struct Audited {
    array: Arc<dyn Array>,
    rule: Rule,
}

/// `array`, with `rule` added to what it verifies.
pub(super) fn audited(
    array: Arc<dyn Array>,
    rule: impl Fn(&dyn Array, Report<'_>) -> Result<()> + Send + Sync + 'static,
) -> Arc<dyn Array> {
    Arc::new(Audited {
        array,
        rule: Box::new(rule),
    })
}

impl Array for Audited {
    fn name(&self) -> &str {
        self.array.name()
    }

    fn info(&self) -> Result<Info> {
        self.array.info()
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        self.array.pieces(range, out)
    }

    fn scratch(&self, block: BlockId) -> u64 {
        self.array.scratch(block)
    }

    fn decode(&self, block: BlockId, out: &mut [u8], scratch: Scratch<'_>) -> Result<()> {
        self.array.decode(block, out, scratch)
    }

    fn read_direct(&self, at: u64, out: &mut [u8]) -> Result<()> {
        self.array.read_direct(at, out)
    }

    fn verify(&self, report: Report<'_>) -> Result<()> {
        self.array.verify(report)?;
        (self.rule)(self.array.as_ref(), report)
    }
}

/// Every value of an array of u32 is less than `limit`, the number of `things`.
pub(super) fn all_below(
    array: &dyn Array,
    limit: u64,
    things: &str,
    report: Report<'_>,
) -> Result<()> {
    each_step(array, |step| {
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
pub(super) fn count_is_one_of(array: &dyn Array, counts: &[u64], report: Report<'_>) -> Result<()> {
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
    report: Report<'_>,
) -> Result<()> {
    let budget = Budget::by_default();
    each_step(ends, |step| {
        let ends: Vec<u32> = step.values().collect();
        let mut bytes = vec![0; 4 * ends.len().div_ceil(run as usize)];
        let memory = DecodeMemory::Reserved(&budget);
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
struct Step<'a> {
    /// Number of the first value.
    first: u64,
    block: Option<BlockId>,
    bytes: &'a [u8],
}

impl Step<'_> {
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
fn each_step(array: &dyn Array, mut visit: impl FnMut(Step<'_>) -> Result<()>) -> Result<()> {
    let budget = Budget::by_default();
    let bytes = array.info()?.bytes;
    let mut buf = Vec::new();
    let mut at = 0;
    while at < bytes {
        buf.resize((bytes - at).min(BLOCK_BYTES) as usize, 0);
        let step = read_into(array, at, &mut buf, DecodeMemory::Reserved(&budget)).and_then(|()| {
            visit(Step {
                first: at / 4,
                block: block_at(array, at)?,
                bytes: &buf,
            })
        });
        match step {
            Ok(()) | Err(Error::Fault(_)) => {}
            Err(other) => return Err(other),
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
