//! Whether a store is still what it was when it was opened.
//!
//! Its identity is that of the root's documents alone. Those of other nodes, and which directories
//! groups have, are looked at again now and then: never more than a twentieth of the time goes into
//! it. Chunks that were read are compared when their array is opened, at most once in a second and,
//! where they are very many, in parts. Also tells which files of its directory are the store's own.
//! Used by `live`, by two traits of `container`.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashSet};
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::members::{MemberKind, Members};
use crate::container::{OwnFiles, StillStored};
use crate::error::Result;
use crate::source::SourceIdentity;
use crate::sync::Mutex;

/// So many times as long as a look took, none follows.
const SELDOM: u32 = 20;

/// What is looked at in parts is looked at again after this time, however long the look took.
const PAUSE_MOST: Duration = Duration::from_secs(1);

/// How long a part may take, at least and at most: who opens an array waits for it.
const PART: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(1)];

/// What can tell whether chunks that were read are as they were.
pub(super) trait ReadChunks: Send + Sync {
    fn are_unchanged(&self) -> Result<bool>;
}

/// A directory of a group, and what it was like.
pub(super) struct SeenDirectory {
    pub(super) key: PathBuf,
    pub(super) identity: Option<SourceIdentity>,
    /// Of the names of directories in it.
    pub(super) names: u64,
}

pub(super) struct StoreState {
    members: Arc<dyn Members>,
    documents: Vec<(PathBuf, Option<SourceIdentity>)>,
    digest: u64,
    arrays: BTreeMap<String, Arc<dyn ReadChunks>>,
    looked: Mutex<Looked>,
    seldom: Seldom,
}

struct Looked {
    directories: Vec<SeenDirectory>,
    has_changed: bool,
}

/// What is looked at again now and then.
#[derive(Default)]
pub(super) struct Seldom {
    /// Until then nothing is looked at.
    next: Mutex<Option<Instant>>,
    /// When the last look ended.
    last: Mutex<Option<Instant>>,
}

impl Seldom {
    /// Looks, if it has been long enough; says else that nothing has changed.
    pub(super) fn when_due(&self, look: impl FnOnce() -> Result<bool>) -> Result<bool> {
        self.when_due_within(Duration::MAX, look)
    }

    /// The same for a look that can be made in parts: it is told how long it may go on, the longer
    /// the more time has passed.
    pub(super) fn in_parts(&self, look: impl FnOnce(Instant) -> Result<bool>) -> Result<bool> {
        let [least, most] = PART;
        let last = *self.last.lock();
        let allowed = last.map_or(most, |last| last.elapsed() / SELDOM);
        let allowed = allowed.clamp(least, most);
        self.when_due_within(PAUSE_MOST, || look(Instant::now() + allowed))
    }

    fn when_due_within(&self, most: Duration, look: impl FnOnce() -> Result<bool>) -> Result<bool> {
        let start = Instant::now();
        if self.next.lock().is_some_and(|next| start < next) {
            return Ok(true);
        }
        let looked = look();
        let took = start.elapsed().max(Duration::from_micros(50));
        let end = Instant::now();
        *self.next.lock() = Some(end + (took * SELDOM).min(most));
        *self.last.lock() = Some(end);
        looked
    }
}

impl StoreState {
    pub(super) fn new(
        members: &Arc<dyn Members>,
        documents: Vec<(PathBuf, Option<SourceIdentity>)>,
        directories: Vec<SeenDirectory>,
        arrays: BTreeMap<String, Arc<dyn ReadChunks>>,
    ) -> StoreState {
        let mut hasher = DefaultHasher::new();
        documents.hash(&mut hasher);
        for directory in &directories {
            (&directory.key, directory.names).hash(&mut hasher);
        }
        StoreState {
            members: Arc::clone(members),
            documents,
            digest: hasher.finish(),
            arrays,
            looked: Mutex::new(Looked {
                directories,
                has_changed: false,
            }),
            seldom: Seldom::default(),
        }
    }

    fn has_changed(&self, directories: &mut [SeenDirectory]) -> Result<bool> {
        for (key, identity) in &self.documents {
            if self.members.identity(key)? != *identity {
                return Ok(true);
            }
        }
        for directory in directories {
            let identity = self.members.directory_identity(&directory.key)?;
            if identity == directory.identity {
                continue;
            }
            // A file has come or gone that is none of the store's.
            if names_in(&*self.members, &directory.key)? != directory.names {
                return Ok(true);
            }
            directory.identity = identity;
        }
        Ok(false)
    }
}

/// Of the names of the directories in one.
pub(super) fn names_in(members: &dyn Members, key: &Path) -> Result<u64> {
    let mut names: Vec<Vec<u8>> = Vec::new();
    members.list(key, &mut |name, kind| {
        if kind == MemberKind::Directory {
            names.push(name.to_owned());
        }
    })?;
    names.sort_unstable();
    Ok(digest(&names))
}

pub(super) fn digest(names: &[Vec<u8>]) -> u64 {
    let mut hasher = DefaultHasher::new();
    names.hash(&mut hasher);
    hasher.finish()
}

impl StillStored for StoreState {
    fn documents(&self) -> u64 {
        self.digest
    }

    fn is_unchanged(&self) -> Result<bool> {
        let mut looked = self.looked.lock();
        if !looked.has_changed {
            let Looked { directories, .. } = &mut *looked;
            let unchanged = self
                .seldom
                .when_due(|| Ok(!self.has_changed(directories)?))?;
            looked.has_changed = !unchanged;
        }
        Ok(!looked.has_changed)
    }

    fn is_array_unchanged(&self, name: &str) -> Result<bool> {
        let array = self.arrays.get(name);
        array.map_or(Ok(true), |array| array.are_unchanged())
    }
}

/// The directories of nodes; all there is, in a store that is one array.
pub(super) enum StoreDirectories {
    All,
    Of(HashSet<PathBuf>),
}

impl OwnFiles for StoreDirectories {
    fn has(&self, path: &Path) -> bool {
        match self {
            StoreDirectories::All => true,
            StoreDirectories::Of(keys) => keys.contains(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_looked_at_in_parts_is_looked_at_again_after_a_second() {
        let seldom = Seldom::default();
        let looked = seldom.in_parts(|until| {
            std::thread::sleep(Duration::from_millis(200));
            Ok(until > Instant::now())
        });
        assert!(looked.unwrap(), "the first part is a long one");
        let next = seldom.next.lock().unwrap();
        assert!(next <= Instant::now() + Duration::from_secs(1));
        let unlooked = seldom.in_parts(|_| Ok(false));
        assert!(unlooked.unwrap());
    }
}
