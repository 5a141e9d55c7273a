//! A container as it is with changes that are not stored, for reading through a log.
//!
//! Its changed arrays are overlays already; what follows from them is put right here: types and
//! shapes, attributes, texts, and arrays that are computed. Used by `commit::recovery`.

use std::sync::Arc;

use super::Container;
use super::inside::{ArrayAddress, ContainerNumber};
use super::writable::{ChangedArray, WritableContainer};
use crate::array::held::HeldArray;
use crate::array::partly_replaced::PartlyReplaced;
use crate::error::Result;
use crate::memory::budget::Budget;

/// Has a container, and those inside of it, say of itself what follows from changes of its arrays.
pub fn restate(
    container: &mut Container,
    changed: &[ChangedArray],
    budget: &Arc<Budget>,
) -> Result<()> {
    let Some(writable) = container.writable.clone() else {
        return Ok(());
    };
    container.visit_mut(&mut |number, _, container| {
        restate_one((number, container), &*writable, changed, budget)
    })
}

fn restate_one(
    (number, container): (ContainerNumber, &mut Container),
    writable: &dyn WritableContainer,
    changed: &[ChangedArray],
    budget: &Arc<Budget>,
) -> Result<()> {
    let restated = writable.restate(number, changed, budget)?;
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
        *array = match writable.computed(address, changed, budget)? {
            Some(computed) => Arc::new(HeldArray::new(name, info, computed)),
            None => Arc::new(PartlyReplaced::new(Arc::clone(array)).with_info(info)),
        };
    }
    Ok(())
}
