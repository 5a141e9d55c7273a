//! A container as it is with changes that are not stored, for reading through a log.
//!
//! Its changed arrays are overlays already; what follows from them is put right here: types and
//! shapes, attributes, texts, and arrays that are computed. Used by `commit::recovery`.

use std::ops::Range;
use std::sync::Arc;

use super::Container;
use super::inside::{ArrayAddress, ContainerNumber};
use super::rewrite::{ChangedArray, ComputedBytes, Rewrite};
use crate::array::direct::DirectArray;
use crate::array::{Array, BlockId, Info, Piece, Unfiltered};
use crate::error::{Fault, Result};
use crate::memory::Scratch;
use crate::memory::block::Block;
use crate::memory::budget::Budget;

/// Has a container, and those inside of it, say of itself what follows from changes of its arrays.
pub fn restate(
    container: &mut Container,
    changed: &[ChangedArray],
    budget: &Arc<Budget>,
) -> Result<()> {
    let Some(rewrite) = container.rewrite.clone() else {
        return Ok(());
    };
    container.visit_mut(&mut |number, _, container| {
        restate_one((number, container), &*rewrite, changed, budget)
    })
}

fn restate_one(
    (number, container): (ContainerNumber, &mut Container),
    rewrite: &dyn Rewrite,
    changed: &[ChangedArray],
    budget: &Arc<Budget>,
) -> Result<()> {
    let restated = rewrite.restate(number, changed, budget)?;
    if let Some(version) = restated.version {
        container.version = version;
    }
    container.attributes.extend(restated.attributes);
    for (path, attributes) in restated.groups {
        container
            .described
            .entry(path)
            .or_default()
            .extend(attributes);
    }
    for text in &mut container.texts {
        if let Some(content) = restated.texts.get(&text.name) {
            text.content = Arc::clone(content);
        }
    }
    for array in container.arrays.iter_mut().chain(&mut container.lines) {
        let Some(info) = restated.arrays.get(array.name()).cloned() else {
            continue;
        };
        let name = array.name().to_owned();
        let address = ArrayAddress {
            container: number,
            name: &name,
        };
        *array = match rewrite.computed(address, changed, budget)? {
            Some(computed) => computed_array(name, info, computed),
            None => Arc::new(RestatedArray {
                array: Arc::clone(array),
                info,
            }),
        };
    }
    Ok(())
}

/// An array that is something else than it says.
struct RestatedArray {
    array: Arc<dyn Array>,
    info: Info,
}

impl Array for RestatedArray {
    fn name(&self) -> &str {
        self.array.name()
    }

    fn info(&self) -> Result<Info> {
        Ok(self.info.clone())
    }

    fn check_structure(&self) -> Result<()> {
        self.array.check_structure()
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        self.array.pieces(range, out)
    }

    fn weight(&self) -> u64 {
        self.array.weight()
    }

    fn places_known(&self, range: &Range<u64>) -> bool {
        self.array.places_known(range)
    }

    fn zeros_ahead(&self, range: Range<u64>) -> u64 {
        self.array.zeros_ahead(range)
    }

    fn scratch(&self, block: BlockId) -> u64 {
        self.array.scratch(block)
    }

    fn decode(&self, block: BlockId, out: &mut [u8], scratch: Scratch<'_>) -> Result<()> {
        self.array.decode(block, out, scratch)
    }

    fn at_hand(&self, block: BlockId) -> Option<Arc<Block>> {
        self.array.at_hand(block)
    }

    fn read_direct(&self, at: u64, out: &mut [u8]) -> Result<()> {
        self.array.read_direct(at, out)
    }

    fn survey(&self, visit: &mut dyn FnMut(Piece)) -> Result<()> {
        self.array.survey(visit)
    }

    fn unfiltered(&self, are_counted: bool) -> Result<Unfiltered> {
        self.array.unfiltered(are_counted)
    }

    fn verify(&self, report: &mut dyn FnMut(Fault)) -> Result<()> {
        self.array.verify(report)
    }
}

/// An array that follows from others, in memory.
fn computed_array(name: String, info: Info, computed: ComputedBytes) -> Arc<dyn Array> {
    Arc::new(DirectArray::new(name, info, move |at, out: &mut [u8]| {
        let from = usize::try_from(at).unwrap_or(usize::MAX);
        let rest = computed.bytes.get(from..);
        let bytes = rest.and_then(|rest| rest.get(..out.len()));
        let shorter = || Fault::new("what was computed is shorter than what is read of it");
        out.copy_from_slice(bytes.ok_or_else(shorter)?);
        Ok(())
    }))
}
