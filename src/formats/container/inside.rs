//! A container together with the containers in its groups, as one: what `ls`, `cat`, `verify`,
//! `arrays.json` and the mount walk through.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use super::stored::ArrayDetails;
use super::{Attributes, Check, CommittedType, Container, Unreadable};
use crate::array::Array;
use crate::error::{Error, Fault, Result};

/// Number of a container among those of a file, in the order of [`Container::all`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerNumber(pub usize);

impl ContainerNumber {
    /// The file itself, or the only one of a directory.
    pub const OUTERMOST: ContainerNumber = ContainerNumber(0);
}

/// An array of a file, as its writers address it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArrayAddress<'a> {
    pub container: ContainerNumber,
    /// In that container.
    pub name: &'a str,
}

#[cfg(test)]
impl<'a> ArrayAddress<'a> {
    pub fn outermost(name: &'a str) -> ArrayAddress<'a> {
        let container = ContainerNumber::OUTERMOST;
        ArrayAddress { container, name }
    }
}

/// An array and the group of the inner container that it belongs to; empty for the outermost one.
#[derive(Clone)]
pub struct Located {
    pub container: ContainerNumber,
    pub group: Arc<str>,
    /// Of the container that it belongs to.
    pub format: &'static str,
    /// Its store is far away.
    pub is_far: bool,
    pub array: Arc<dyn Array>,
}

impl Located {
    pub fn address(&self) -> ArrayAddress<'_> {
        let (container, name) = (self.container, self.array.name());
        ArrayAddress { container, name }
    }

    /// Its path from the outermost container.
    pub fn path(&self) -> String {
        join(&self.group, self.array.name())
    }

    /// Adds to an error which array it concerns.
    pub fn locate(&self, error: Error) -> Error {
        error.of_array(&self.group, self.array.name())
    }
}

/// The path of a name in a group; either may be empty.
pub fn join(group: &str, name: &str) -> String {
    match (group, name) {
        ("", name) => name.to_owned(),
        (group, "") => group.to_owned(),
        (group, name) => format!("{group}/{name}"),
    }
}

impl Container {
    /// This container and those inside, each with the path of its group from here.
    pub fn all(self: &Arc<Self>) -> Vec<(Arc<str>, Arc<Container>)> {
        let mut all: Vec<(Arc<str>, Arc<Container>)> = vec![("".into(), Arc::clone(self))];
        let mut next = 0;
        while let Some((group, container)) = all.get(next).cloned() {
            for inner in &container.inner {
                let path = join(&group, &inner.path).into();
                all.push((path, Arc::clone(&inner.container)));
            }
            next += 1;
        }
        all
    }

    pub fn all_arrays(self: &Arc<Self>) -> Vec<Located> {
        self.located(|container| container.arrays.iter().collect())
    }

    /// The arrays of this container and of those inside, the lines of each container behind its
    /// arrays: as they are numbered.
    pub fn all_written(self: &Arc<Self>) -> Vec<Located> {
        self.located(|container| container.written().collect())
    }

    fn located(
        self: &Arc<Self>,
        arrays: impl Fn(&Container) -> Vec<&Arc<dyn Array>>,
    ) -> Vec<Located> {
        let of = |(number, (group, container)): (usize, &(Arc<str>, Arc<Container>))| {
            let located = |array: &Arc<dyn Array>| Located {
                container: ContainerNumber(number),
                group: Arc::clone(group),
                format: container.format,
                is_far: self.is_far,
                array: Arc::clone(array),
            };
            let arrays = arrays(container).into_iter();
            arrays.map(located).collect::<Vec<_>>()
        };
        self.all().iter().enumerate().flat_map(of).collect()
    }

    /// The path that a path by way of links leads to.
    pub fn resolve(&self, path: &str) -> String {
        let mut path = path.trim_matches('/').to_owned();
        // Links lead to groups, never to links; a path may still pass several.
        for _ in 0..64 {
            let on_the_way = self.links.iter().find_map(|link| {
                let rest = path.strip_prefix(&link.name)?;
                let rest = rest.strip_prefix('/')?;
                Some(join(&link.target, rest))
            });
            match on_the_way {
                Some(next) => path = next,
                None => break,
            }
        }
        path
    }

    /// Faults found while opening.
    pub fn all_faults(self: &Arc<Self>) -> Vec<Fault> {
        let of = |(group, container): &(Arc<str>, Arc<Container>)| {
            let faults = container.faults.iter().cloned();
            faults.map(|fault| fault.inside(group)).collect::<Vec<_>>()
        };
        self.all().iter().flat_map(of).collect()
    }

    /// Rules between arrays, each with the group of its container.
    pub fn all_checks(self: &Arc<Self>) -> Vec<(Arc<str>, Arc<dyn Check>)> {
        let of = |(group, container): &(Arc<str>, Arc<Container>)| {
            let checks = container.checks.iter();
            let of_group = |check: &Arc<dyn Check>| (Arc::clone(group), Arc::clone(check));
            checks.map(of_group).collect::<Vec<_>>()
        };
        self.all().iter().flat_map(of).collect()
    }

    /// Members that cannot be read, each with the group of its container.
    pub fn all_unreadable(self: &Arc<Self>) -> Vec<(Arc<str>, Unreadable)> {
        let of = |(group, container): &(Arc<str>, Arc<Container>)| {
            let unreadable = container.unreadable.iter();
            let of_group = |member: &Unreadable| (Arc::clone(group), member.clone());
            unreadable.map(of_group).collect::<Vec<_>>()
        };
        self.all().iter().flat_map(of).collect()
    }

    /// Types without data, each with the group of its container.
    pub fn all_types(self: &Arc<Self>) -> Vec<(Arc<str>, CommittedType)> {
        let of = |(group, container): &(Arc<str>, Arc<Container>)| {
            let types = container.types.iter();
            let of_group = |committed: &CommittedType| (Arc::clone(group), committed.clone());
            types.map(of_group).collect::<Vec<_>>()
        };
        self.all().iter().flat_map(of).collect()
    }

    /// Attributes of arrays, types and groups, by path.
    pub fn all_described(self: &Arc<Self>) -> BTreeMap<String, Attributes> {
        let of = |(group, container): &(Arc<str>, Arc<Container>)| {
            let described = container.described.iter();
            let named = |(name, attributes): (&String, &Attributes)| {
                (join(group, name), attributes.clone())
            };
            described.map(named).collect::<Vec<_>>()
        };
        self.all().iter().flat_map(of).collect()
    }

    /// How arrays, types, groups and what cannot be shown are stored, by path.
    pub fn all_details(self: &Arc<Self>) -> BTreeMap<String, ArrayDetails> {
        let of = |(group, container): &(Arc<str>, Arc<Container>)| {
            let details = container.details.iter();
            let named =
                |(name, details): (&String, &ArrayDetails)| (join(group, name), details.clone());
            details.map(named).collect::<Vec<_>>()
        };
        self.all().iter().flat_map(of).collect()
    }

    /// Paths of the arrays that have no space for elements.
    pub fn all_without_space(self: &Arc<Self>) -> BTreeSet<String> {
        let of = |(group, container): &(Arc<str>, Arc<Container>)| {
            let names = container.without_space.iter();
            names.map(|name| join(group, name)).collect::<Vec<_>>()
        };
        self.all().iter().flat_map(of).collect()
    }

    /// Visits this container and those inside, each with its number and the path of its group,
    /// while they are not shared.
    pub fn visit_mut(
        &mut self,
        visit: &mut dyn FnMut(ContainerNumber, &str, &mut Container) -> Result<()>,
    ) -> Result<()> {
        let mut level: Vec<(String, &mut Container)> = vec![(String::new(), self)];
        let mut number = 0;
        while !level.is_empty() {
            let mut below = Vec::new();
            for (group, container) in level {
                visit(ContainerNumber(number), &group, container)?;
                number += 1;
                for inner in &mut container.inner {
                    let container = Arc::get_mut(&mut inner.container);
                    let shared = || Error::Bug("a container is shared before it is opened".into());
                    below.push((join(&group, &inner.path), container.ok_or_else(shared)?));
                }
            }
            level = below;
        }
        Ok(())
    }

    /// Says in every fault in which container it was found.
    pub(super) fn place(&mut self, shown: &Path) {
        let faults = std::mem::take(&mut self.faults);
        self.faults = faults.into_iter().map(|f| f.container(shown)).collect();
        for inner in &mut self.inner {
            // It is not shared before it is opened.
            if let Some(container) = Arc::get_mut(&mut inner.container) {
                container.place(shown);
            }
        }
    }
}
