//! Commits of a golden file, carried out beside it, and the containers before and after them.

use std::ops::Range;
use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::array::Info;
use crate::array::held::HeldArray;
use crate::array::uncached::read;
use crate::container::hdf5::Hdf5;
use crate::container::writable::{CommitWay, MemberNumber, Recipe};
use crate::container::{Format, OpenRequest, Preferences};
use crate::error::Error;
use crate::memory::budget::Budget;
use crate::source::Store;
use crate::source::local::LocalStore;

/// `packed`, of 4 by 6 integers in chunks with filters, and `plain` in one piece.
const GOLDEN: &str = "../../mount-tests/golden/hdf5-written/earliest.h5";

/// A row of the first one.
const ROW: u64 = 24;

struct Ground {
    directory: TempDir,
    store: Arc<dyn Store>,
    budget: Arc<Budget>,
    container: Container,
}

/// The bytes of a file, as a recipe changes them.
struct ToldBytes {
    old: Vec<u8>,
    new: Vec<u8>,
}

impl Recipe for ToldBytes {
    fn copy(&mut self, file: MemberNumber, from: Range<u64>, to: u64) -> Result<()> {
        let bytes = self.old[from.start as usize..from.end as usize].to_vec();
        self.put(file, to, &bytes)
    }

    fn put(&mut self, _: MemberNumber, at: u64, bytes: &[u8]) -> Result<()> {
        let range = at as usize..at as usize + bytes.len();
        self.new.resize(self.new.len().max(range.end), 0);
        self.new[range].copy_from_slice(bytes);
        Ok(())
    }

    fn keep_rest(&mut self, _: MemberNumber) -> Result<()> {
        self.new.clone_from(&self.old);
        Ok(())
    }

    fn set_len(&mut self, _: MemberNumber, len: u64) -> Result<()> {
        self.new.resize(len as usize, 0);
        Ok(())
    }
}

impl Ground {
    fn new() -> Ground {
        let directory = tempfile::tempdir().unwrap();
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join(GOLDEN);
        std::fs::copy(golden, directory.path().join("x.h5")).unwrap();
        let store = LocalStore::open(directory.path(), directory.path()).unwrap();
        let (store, budget) = (Arc::new(store) as Arc<dyn Store>, Budget::by_default());
        let request = OpenRequest {
            store: &store,
            path: Path::new("x.h5"),
            preferences: Preferences::default(),
            budget: &budget,
            left: &Arc::default(),
        };
        let container = Hdf5.open(&request).unwrap();
        Ground {
            directory,
            store,
            budget,
            container,
        }
    }

    fn array(&self, name: &str) -> &Arc<dyn Array> {
        self.container.array(name).unwrap()
    }

    /// Has a recipe tell the file `new.h5`, in which an array has this content.
    fn tell(&self, name: &str, content: &[u8], way: CommitWay) -> Arc<dyn Source> {
        self.try_to_tell(name, content, way).unwrap()
    }

    fn try_to_tell(&self, name: &str, content: &[u8], way: CommitWay) -> Result<Arc<dyn Source>> {
        let (len, bytes) = (content.len() as u64, content.to_vec());
        let info = Info {
            bytes: len,
            ..self.array(name).info().unwrap()
        };
        let change = ChangedArray {
            container: ContainerNumber::OUTERMOST,
            shown: Arc::new(HeldArray::new(name, info, bytes)),
            len,
            ranges: std::iter::once(0..len).collect(),
            visible: 0,
            done_before: None,
        };
        let mut told = ToldBytes {
            old: std::fs::read(self.directory.path().join("x.h5")).unwrap(),
            new: Vec::new(),
        };
        let writable = self.container.writable.as_ref().unwrap();
        writable.recipe(&[change], way, &self.budget, &mut told)?;
        std::fs::write(self.directory.path().join("new.h5"), told.new).unwrap();
        self.store.open(Path::new("new.h5"))
    }

    fn succeed(&self, future: &Arc<dyn Source>) -> Option<Successor> {
        let writable = self.container.writable.as_ref().unwrap();
        let succeeded = writable.succeed(&self.container, future, &self.budget);
        succeeded.unwrap()
    }

    /// Another process writes a file.
    fn spoil(&self, name: &str) {
        std::fs::write(self.directory.path().join(name), "something else").unwrap();
    }
}

fn bytes(array: &Arc<dyn Array>) -> Vec<u8> {
    read(&**array, 0..array.info().unwrap().bytes).unwrap()
}

fn is_changed(array: &Arc<dyn Array>) -> bool {
    matches!(read(&**array, 0..4), Err(Error::Changed { .. }))
}

/// That do not pack as well as what is stored.
fn noise(len: usize) -> Vec<u8> {
    (0..len as u32)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect()
}

#[test]
fn what_a_commit_leaves_is_the_same_and_goes_on_with_the_file() {
    for way in [CommitWay::Replaced, CommitWay::InPlace] {
        for (name, other) in [("packed", "plain"), ("plain", "packed")] {
            let ground = Ground::new();
            let (before, stays) = (ground.array(name), ground.array(other));
            let (old, left) = (bytes(before), bytes(stays));
            let new = noise(old.len());
            let future = ground.tell(name, &new, way);
            let Successor {
                container: after,
                changed,
                handover,
            } = ground.succeed(&future).unwrap();
            assert!(ground.succeed(&future).is_none(), "it has been told once");
            let Some([(number, array)]) = changed.as_deref() else {
                panic!("one array has changed");
            };
            for (at, (was, is)) in ground
                .container
                .arrays
                .iter()
                .zip(&after.arrays)
                .enumerate()
            {
                assert_eq!(Arc::ptr_eq(was, is), at != *number);
            }
            assert!(Arc::ptr_eq(&ground.container.details, &after.details));
            assert!(Arc::ptr_eq(after.array(name).unwrap(), array));
            assert_eq!((bytes(array), bytes(before)), (new.clone(), old.clone()));

            handover.hand_over(Arc::clone(&future));
            assert_eq!((bytes(array), bytes(before)), (new.clone(), old.clone()));
            handover.take_back();
            assert_eq!((bytes(before), bytes(stays)), (old.clone(), left.clone()));

            handover.hand_over(future);
            ground.spoil("x.h5");
            assert_eq!((bytes(array), bytes(stays)), (new, left));
            assert!(is_changed(before), "it is of the file before");
            ground.spoil("new.h5");
            assert!(is_changed(array) && is_changed(stays));
        }
    }
}

/// Chunks that move are looked at alone; rows that come are not.
#[test]
fn the_whole_file_is_read_again_only_if_more_than_places_of_chunks_changes() {
    let taken = || super::super::moved_chunks::TAKEN.get();
    for way in [CommitWay::Replaced, CommitWay::InPlace] {
        let (ground, before) = (Ground::new(), taken());
        let mut new = noise(bytes(ground.array("packed")).len());
        ground.tell("packed", &new, way);
        assert_eq!(taken(), before + 1, "{way:?}");
        new.extend(noise(ROW as usize));
        ground.tell("packed", &new, way);
        ground.tell("plain", &noise(bytes(ground.array("plain")).len()), way);
        assert_eq!(taken(), before + 1, "{way:?}");
    }
}

#[test]
fn a_container_is_made_anew_without_a_look_if_more_than_values_changes() {
    let ground = Ground::new();
    let plain = bytes(ground.array("plain"));
    let mut longer = bytes(ground.array("packed"));
    longer.extend(noise(ROW as usize));
    // What was told before does not count.
    let new = noise(longer.len() - ROW as usize);
    ground.tell("packed", &new, CommitWay::Replaced);
    let future = ground.tell("packed", &longer, CommitWay::Replaced);
    let Successor {
        container: after,
        changed: None,
        handover,
    } = ground.succeed(&future).unwrap()
    else {
        panic!("arrays are shared");
    };
    assert!(ground.succeed(&future).is_none(), "it has been told once");
    handover.hand_over(future);
    ground.spoil("x.h5");
    let found = ["packed", "plain"].map(|name| bytes(after.array(name).unwrap()));
    assert_eq!(found, [longer, plain]);
    assert!(is_changed(ground.array("packed")) && is_changed(ground.array("plain")));
}

/// Whatever the reason is for which it would be read as something else.
#[test]
fn a_chunk_that_cannot_be_read_back_is_no_commit() {
    let turned = &super::super::chunk_teller::TURNED;
    for way in [CommitWay::Replaced, CommitWay::InPlace] {
        let ground = Ground::new();
        let new = noise(bytes(ground.array("packed")).len());
        for filter in [1, 2] {
            turned.set(filter);
            let refused = ground.try_to_tell("packed", &new, way).map(drop);
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains("an encoded chunk"), "{refused}");
        }
        turned.set(0);
        ground.tell("packed", &new, way);
    }
}
