//! Which of several names of an object is its first: the hard link that is met first, from the root
//! downwards. Used by `assemble`, for what `arrays.json` says of names.

use super::ShownGroup;
use super::attributes::is_dimension_alone;
use crate::container::hdf5::index::{FileIndex, LinkTarget, NOT_COORDINATE};
use crate::container::inside::join;
use crate::container::names;

/// A link, by the numbers of its group and of itself in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LinkPlace {
    pub(super) group: usize,
    pub(super) link: usize,
}

/// First links to datasets and types, by their numbers.
pub(super) struct FirstNames {
    datasets: Vec<Option<LinkPlace>>,
    types: Vec<Option<LinkPlace>>,
}

impl FirstNames {
    pub(super) fn of(index: &FileIndex) -> FirstNames {
        let mut first = FirstNames {
            datasets: vec![None; index.datasets.len()],
            types: vec![None; index.types.len()],
        };
        for (group, entry) in index.groups.iter().enumerate() {
            for (link, entry) in entry.links.iter().enumerate() {
                if let (None, Some(slot)) = (&entry.soft, first.slot(&entry.target)) {
                    slot.get_or_insert(LinkPlace { group, link });
                }
            }
        }
        first
    }

    fn slot(&mut self, of: &LinkTarget) -> Option<&mut Option<LinkPlace>> {
        match of {
            LinkTarget::Dataset(number) => self.datasets.get_mut(*number as usize),
            LinkTarget::Type(number) => self.types.get_mut(*number as usize),
            _ => None,
        }
    }

    /// The first link to a dataset or a type.
    pub(super) fn to(&self, target: &LinkTarget) -> Option<LinkPlace> {
        match target {
            LinkTarget::Dataset(number) => *self.datasets.get(*number as usize)?,
            LinkTarget::Type(number) => *self.types.get(*number as usize)?,
            _ => None,
        }
    }
}

impl LinkPlace {
    /// Its shown path from the root.
    pub(super) fn path(self, index: &FileIndex, places: &[ShownGroup]) -> Option<String> {
        let group = places.get(self.group)?;
        index.groups.get(self.group)?.links.get(self.link)?;
        let name = of_link(index, (self.group, self.link), group.path.is_empty());
        Some(join(&group.full, &name))
    }
}

/// The shown name of a link, by the numbers of its group and of itself in it. A variable of
/// NetCDF-4 that is stored under another name has its own, unless something else is shown under
/// that.
pub(super) fn of_link(index: &FileIndex, (group, at): (usize, usize), reserved: bool) -> String {
    let links = index
        .groups
        .get(group)
        .map_or(&[][..], |group| &group.links);
    let Some(link) = links.get(at) else {
        return String::new();
    };
    let own = link.name.strip_prefix(NOT_COORDINATE);
    let own = own.filter(|own| {
        let beside = links.binary_search_by(|link| link.name[..].cmp(own));
        let is_dimension = |at: usize| {
            let dataset = index.dataset(&links[at].target);
            dataset.is_some_and(|dataset| is_dimension_alone(&dataset.attributes))
        };
        let is_variable = index.dataset(&link.target).is_some() && link.soft.is_none();
        is_variable && beside.is_ok_and(is_dimension)
    });
    names::shown_as(own.unwrap_or(&link.name), at, reserved)
}
