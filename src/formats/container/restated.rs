//! A container as it is with changes that are not stored, for reading through a log.
//!
//! Its changed arrays are overlays already; what follows from them is put right here: types and
//! shapes, attributes, texts, and arrays that are computed. Used by `commit::recovery`.

use std::sync::Arc;

use super::Container;
use super::inside::{ArrayAddress, ContainerNumber};
use super::rewrite::{ChangedArray, ComputedBytes, Rewrite};
use crate::array::direct::DirectArray;
use crate::array::partly_replaced::PartlyReplaced;
use crate::array::{Array, Info};
use crate::error::{Fault, Result};
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
        let described = Arc::make_mut(&mut container.described);
        described.entry(path).or_default().extend(attributes);
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
            None => Arc::new(PartlyReplaced::new(Arc::clone(array)).with_info(info)),
        };
    }
    Ok(())
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
