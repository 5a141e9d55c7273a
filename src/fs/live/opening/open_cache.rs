//! Opened containers that are kept although they are not read: opening again costs reads, and for
//! HDF5 a request to another process. Bounded in number, so in descriptors, and in memory. Used by
//! `opening`.

use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;

use crate::cache::VersionId;
use crate::live::shown::open_container::OpenContainer;

const CONTAINERS: NonZeroUsize = NonZeroUsize::new(128).unwrap();

/// Bytes of all together. One that is heavier is kept alone.
const WEIGHT: usize = 24 << 20;

pub(crate) struct OpenCache {
    list: LruCache<VersionId, KeptContainer>,
    /// Of all in the list.
    weight: usize,
}

struct KeptContainer {
    opened: Arc<OpenContainer>,
    weight: usize,
}

impl Default for OpenCache {
    fn default() -> Self {
        OpenCache {
            list: LruCache::new(CONTAINERS),
            weight: 0,
        }
    }
}

impl OpenCache {
    /// Keeps a container, as the one used last, and returns those that go: to be dropped without a
    /// lock.
    pub(crate) fn keep(
        &mut self,
        id: VersionId,
        opened: &Arc<OpenContainer>,
    ) -> Vec<Arc<OpenContainer>> {
        let known = self.list.get(&id);
        if known.is_some_and(|kept| Arc::ptr_eq(&kept.opened, opened)) {
            return Vec::new();
        }
        let kept = KeptContainer {
            opened: Arc::clone(opened),
            weight: opened.weight(),
        };
        self.weight += kept.weight;
        let replaced = self.list.push(id, kept).map(|(_, old)| old);
        let mut gone: Vec<_> = replaced.map(|old| self.let_go(old)).into_iter().collect();
        while self.weight > WEIGHT && self.list.len() > 1 {
            let Some((_, old)) = self.list.pop_lru() else {
                break;
            };
            gone.push(self.let_go(old));
        }
        gone
    }

    /// Takes out the one used longest ago that only this list holds: to be dropped without a lock.
    pub(crate) fn take_idle(&mut self) -> Option<Arc<OpenContainer>> {
        let idle = |kept: &KeptContainer| Arc::strong_count(&kept.opened) == 1;
        let mut oldest_first = self.list.iter().rev();
        let (id, _) = oldest_first.find(|(_, kept)| idle(kept))?;
        let id = *id;
        self.drop_one(id)
    }

    pub(crate) fn drop_one(&mut self, id: VersionId) -> Option<Arc<OpenContainer>> {
        let old = self.list.pop(&id)?;
        Some(self.let_go(old))
    }

    fn let_go(&mut self, old: KeptContainer) -> Arc<OpenContainer> {
        self.weight -= old.weight;
        old.opened
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::container::{Container, FORMATS, Preferences, Recognised, Text};
    use crate::live::places::ContainerId;
    use crate::live::version::ContainerVersion;
    use crate::memory::budget::Budget;
    use crate::source::Store;
    use crate::source::local::LocalStore;

    /// An opened container with a text of this length.
    fn opened(len: usize) -> Arc<OpenContainer> {
        let directory = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> =
            Arc::new(LocalStore::open(directory.path(), directory.path()).unwrap());
        let recognised = Recognised {
            format: FORMATS[1],
            damage: None,
            preferences: Preferences::default(),
            left: Default::default(),
        };
        let found = recognised.stat(&*store, Path::new("")).unwrap();
        let version = ContainerVersion::new(VersionId(1), ContainerId(1), recognised, &found);
        let mut container = Container::new("x", "1");
        container.texts.push(Text {
            name: "t".into(),
            content: vec![0; len].into(),
        });
        let budget = Budget::keeping(0, u64::MAX);
        let opened = OpenContainer::new(&version, Path::new(""), container, &*store, &budget);
        let opened = opened.unwrap().0;
        assert!(budget.kept() == opened.weight() as u64 && budget.kept() >= len as u64);
        Arc::new(opened)
    }

    #[test]
    fn heavy_containers_push_out_those_used_longest_ago() {
        let mut kept = OpenCache::default();
        let heavy = [0, 1, 2, 3].map(|_| opened(WEIGHT / 3));
        for (id, opened) in (0..).zip(&heavy[..2]) {
            assert!(kept.keep(VersionId(id), opened).is_empty());
        }
        assert!(kept.keep(VersionId(0), &heavy[0]).is_empty(), "used again");
        let gone = kept.keep(VersionId(2), &heavy[2]);
        assert!(gone.len() == 1 && Arc::ptr_eq(&gone[0], &heavy[1]));
        let gone = kept.keep(VersionId(2), &heavy[3]);
        assert!(
            gone.len() == 1 && Arc::ptr_eq(&gone[0], &heavy[2]),
            "opened anew"
        );
        assert_eq!(kept.len(), 2);
        assert_eq!(kept.keep(VersionId(4), &opened(2 * WEIGHT)).len(), 2);
        assert!(kept.drop_one(VersionId(4)).is_some());
        assert_eq!((kept.len(), kept.weight), (0, 0));
    }

    #[test]
    fn idle_containers_are_taken_from_the_oldest_on() {
        let mut kept = OpenCache::default();
        let used = opened(10);
        kept.keep(VersionId(0), &used);
        for id in 1..3 {
            kept.keep(VersionId(id), &opened(id as usize));
        }
        let oldest = kept
            .list
            .peek(&VersionId(1))
            .map(|kept| Arc::downgrade(&kept.opened));
        let taken = kept.take_idle();
        assert!(taken.is_some_and(|taken| oldest.unwrap().as_ptr() == Arc::as_ptr(&taken)));
        assert!(kept.take_idle().is_some());
        assert!(kept.take_idle().is_none(), "the last one is in use");
        assert_eq!(kept.len(), 1);
    }

    #[test]
    fn light_containers_are_kept_by_number() {
        let mut kept = OpenCache::default();
        let light = opened(10);
        let most = CONTAINERS.get() as u64;
        assert!((0..most).all(|id| kept.keep(VersionId(id), &light).is_empty()));
        assert_eq!(kept.keep(VersionId(most), &light).len(), 1);
        assert_eq!(kept.len(), CONTAINERS.get());
    }
}
