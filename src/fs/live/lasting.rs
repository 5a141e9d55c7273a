//! What a mount knows of containers for as long as it lives.
//!
//! A version goes when the kernel forgets its container, under memory pressure at any moment; what
//! users were promised for the life of the mount does not hang on that. It is kept here, by the
//! identity of the container's files: with a change of our own it goes over to what they are then,
//! under whatever names they lie, and of a container that others have changed nothing is known.
//! Charged as a table. Used by all of `live`.

use std::collections::HashMap;
use std::sync::Arc;

use super::container::LiveContainer;
use super::version::ContainerVersion;
use crate::container::own_lengths::ArrayLengths;
use crate::memory::budget::{Budget, TableCharge};
use crate::source::Identity;
use crate::sync::{Mutex, MutexGuard};

/// Of one container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LastingFacts {
    /// With which arrays are shown, where the file says another length.
    pub(crate) own_lengths: ArrayLengths,
    /// This mount has made it, and what is put into it later may become an array.
    pub(crate) takes_later: bool,
    /// What its description said when it was packed, and it could not have.
    pub(crate) not_kept: Vec<String>,
    /// Arrays that are bytes because nothing said their type.
    pub(crate) untyped: Vec<String>,
}

impl LastingFacts {
    fn is_nothing(&self) -> bool {
        *self == LastingFacts::default()
    }

    /// Bytes that they take, with the identity by which they are found.
    fn weight(&self, of: &Identity) -> u64 {
        const ENTRY: usize = 256;
        let lengths = self.own_lengths.keys().map(|name| ENTRY + name.len());
        let lines = self
            .not_kept
            .iter()
            .chain(&self.untyped)
            .map(|line| ENTRY + line.len());
        let files = of.companions().count() * size_of::<Identity>();
        (ENTRY + files + lengths.chain(lines).sum::<usize>()) as u64
    }
}

pub(crate) struct LastingTable {
    facts: Mutex<HashMap<Identity, LastingFacts>>,
    charge: TableCharge,
}

impl LastingTable {
    pub(crate) fn new(budget: &Arc<Budget>) -> LastingTable {
        LastingTable {
            facts: Mutex::default(),
            charge: TableCharge::new(Arc::clone(budget)),
        }
    }

    /// What is known of the container of this identity.
    pub(crate) fn of(&self, identity: &Identity) -> LastingFacts {
        self.lock().get(identity).cloned().unwrap_or_default()
    }

    /// Notes what is known of it from now on.
    pub(crate) fn set(&self, identity: &Identity, facts: LastingFacts) {
        let now = match facts.is_nothing() {
            true => 0,
            false => facts.weight(identity),
        };
        let mut known = self.lock();
        let before = match now {
            0 => known.remove(identity),
            _ => known.insert(identity.clone(), facts),
        };
        drop(known);
        self.charge.add(now);
        self.charge
            .remove(before.map_or(0, |before| before.weight(identity)));
    }

    pub(crate) fn forget(&self, identity: &Identity) {
        self.set(identity, LastingFacts::default());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Identity, LastingFacts>> {
        self.facts.lock()
    }

    /// A version shows its arrays as this mount has shown them before.
    pub(crate) fn recall(&self, version: &ContainerVersion) {
        let lengths = self.of(&version.identity()).own_lengths;
        version.recognised.left.own_lengths.replace(lengths);
    }

    /// The files of a version are about to be taken for what they are now.
    pub(crate) fn note_follows(&self, version: &ContainerVersion, now: &Identity) {
        let facts = LastingFacts {
            own_lengths: version.recognised.left.own_lengths.all(),
            ..self.of(&version.identity())
        };
        self.set(now, facts);
    }

    /// What is known of a container, as it is shown.
    pub(crate) fn facts_of(&self, container: &LiveContainer) -> LastingFacts {
        let version = container.known().version.clone();
        version.map_or_else(LastingFacts::default, |version| {
            self.of(&version.identity())
        })
    }

    /// The last name of its files has gone.
    pub(crate) fn forget_of(&self, container: &LiveContainer) {
        let version = container.known().version.clone();
        if let Some(version) = version {
            self.forget(&version.identity());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::source::Store;
    use crate::source::local::LocalStore;

    #[test]
    fn what_is_known_is_charged_until_it_is_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let store = LocalStore::open(directory.path(), directory.path()).unwrap();
        let identity = |name: &str| {
            std::fs::write(directory.path().join(name), name).unwrap();
            Identity::of_file(&store.stat(Path::new(name)).unwrap(), &[])
        };
        let budget = Budget::new(16 << 20);
        let table = LastingTable::new(&budget);
        let lengths = |len| ArrayLengths::from([("a".to_owned(), len)]);
        let [one, other] = ["one", "other"].map(identity);
        for len in [7, 8] {
            let facts = LastingFacts {
                own_lengths: lengths(len),
                not_kept: vec!["x".repeat(1 << 20)],
                ..LastingFacts::default()
            };
            table.set(&one, facts);
        }
        assert!((1 << 20..2 << 20).contains(&budget.used()));
        assert_eq!(table.of(&one).own_lengths, lengths(8));
        assert_eq!(table.of(&other), LastingFacts::default());
        table.forget(&one);
        table.forget(&other);
        assert_eq!(table.of(&one), LastingFacts::default());
        assert!(budget.used() < 1 << 20);
        drop(table);
        assert_eq!(budget.used(), 0);
    }
}
