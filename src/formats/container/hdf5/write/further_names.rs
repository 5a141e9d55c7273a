//! Datasets that have further names, as they are written: changes are addressed by the first name,
//! and the rules of every group in which another one lies see them by that.
//!
//! Assumes that a change has been addressed by [`FurtherNames::first`]. Used by [`super`].

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::WrittenGroup;
use crate::array::partly_replaced::PartlyReplaced;
use crate::container::Container;
use crate::container::inside::{ArrayAddress, ContainerNumber, join};
use crate::container::writable::ChangedArray;
use crate::error::Result;

/// A container, and a name in it.
type Named = (ContainerNumber, String);

type ByAddress<T> = HashMap<ContainerNumber, HashMap<String, T>>;

#[derive(Default)]
pub(super) struct FurtherNames {
    first: ByAddress<Named>,
    further: ByAddress<Vec<Named>>,
}

impl FurtherNames {
    /// Those of a container's arrays, of which `groups` can be written. An array is only read if
    /// one of its names lies in a container that is: its rules are broken as it is.
    pub(super) fn new(
        container: &mut Container,
        groups: &mut HashMap<ContainerNumber, WrittenGroup>,
    ) -> Result<FurtherNames> {
        let mut names = FurtherNames::default();
        if container.further_names.is_empty() {
            return Ok(names);
        }
        let paths = container.further_names.clone();
        let places = places(container, &paths)?;
        for (path, first) in &*paths {
            let (Some(further), Some(first)) = (places.get(path), places.get(first)) else {
                continue;
            };
            if !groups.contains_key(&further.0)
                && let Some(group) = groups.get_mut(&first.0)
            {
                group.datasets.retain(|one| one.name() != first.1);
            }
            names.add(further.clone(), first.clone());
        }
        Ok(names)
    }

    fn add(&mut self, further: Named, first: Named) {
        let (container, name) = first.clone();
        let known = self.further.entry(container).or_default();
        known.entry(name).or_default().push(further.clone());
        let (container, name) = further;
        self.first.entry(container).or_default().insert(name, first);
    }

    /// Whether an array that is addressed so has other names.
    pub(super) fn has_further(&self, array: ArrayAddress<'_>) -> bool {
        let names = self.further.get(&array.container);
        names.is_some_and(|names| names.contains_key(array.name))
    }

    /// The address by which an array is changed.
    pub(super) fn first<'a>(&'a self, array: ArrayAddress<'a>) -> ArrayAddress<'a> {
        let names = self.first.get(&array.container);
        match names.and_then(|names| names.get(array.name)) {
            Some((container, name)) => ArrayAddress {
                container: *container,
                name,
            },
            None => array,
        }
    }

    /// The changes, of each array by every name that it has.
    pub(super) fn by_each<'a>(&self, changed: &'a [ChangedArray]) -> Cow<'a, [ChangedArray]> {
        let further = changed.iter().flat_map(|change| {
            let names = self.further.get(&change.container);
            let names = names.and_then(|names| names.get(change.shown.name()));
            let by = |(container, name): &Named| ChangedArray {
                container: *container,
                shown: Arc::new(
                    PartlyReplaced::new(Arc::clone(&change.shown)).with_name(name.clone()),
                ),
                ..change.clone()
            };
            names.into_iter().flatten().map(by).collect::<Vec<_>>()
        });
        let further: Vec<_> = further.collect();
        match further.is_empty() {
            true => Cow::Borrowed(changed),
            false => Cow::Owned([changed, &further].concat()),
        }
    }
}

/// Where the arrays of these paths, and of those that they are, lie.
fn places(
    container: &mut Container,
    paths: &BTreeMap<String, String>,
) -> Result<HashMap<String, Named>> {
    let wanted: HashSet<&str> = paths
        .iter()
        .flat_map(|(path, first)| [path.as_str(), first.as_str()])
        .collect();
    let mut places = HashMap::new();
    container.visit_mut(&mut |number, group, container| {
        for array in &container.arrays {
            let path = join(group, array.name());
            if wanted.contains(path.as_str()) {
                places.insert(path, (number, array.name().to_owned()));
            }
        }
        Ok(())
    })?;
    Ok(places)
}
