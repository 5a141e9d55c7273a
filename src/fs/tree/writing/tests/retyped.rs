//! Another type for an array, on a disk that fails at its n-th call, and on one whose calls are
//! done again up to each of them.

use super::*;
use crate::commit::Preference;

const OLD: &str = "uint8";
const NEW: &str = "int8";

fn committing(
    source: &Path,
    commit: Preference,
    wrap: impl FnOnce(Arc<dyn Disk>) -> Arc<dyn Disk>,
) -> Tree {
    let settings = ContainerSettings {
        commit,
        ..ContainerSettings::default()
    };
    tree_with(source, settings, |disk| Some(wrap(disk)))
}

impl Tree {
    fn retypes(&self) -> Result<()> {
        let (name, how) = (OsStr::new("user.arrayfs.dtype"), XattrSetting::Any);
        self.changes.set_xattr(
            self.inode("one.blp/data")?,
            name,
            (NEW.as_bytes(), how),
            &|_| true,
        )
    }

    fn dtype(&self) -> String {
        let name = OsStr::new("user.arrayfs.dtype");
        let dtype = self.xattrs.xattr(self.inode("one.blp/data").unwrap(), name);
        String::from_utf8(dtype.unwrap()).unwrap()
    }
}

const WAYS: [Preference; 2] = [Preference::Replace, Preference::InPlace];

#[test]
fn a_disk_that_fails_once_leaves_one_type_or_the_other() {
    for commit in WAYS {
        for call in 1.. {
            let directory = ground();
            let failure = Failure::new(libc::EIO);
            let tree = committing(directory.path(), commit, |disk| {
                let failure = Arc::clone(&failure);
                Arc::new(FailingDisk { disk, failure })
            });
            let content = tree.content(tree.inode("one.blp/data").unwrap());
            failure.arm(call);
            let done = tree.retypes();
            let is_whole = failure.is_armed();
            let expected = tree.dtype();
            if done.is_ok() {
                assert_eq!(expected, NEW, "{commit:?} {call}");
            }
            assert_eq!(tree.content(tree.inode("one.blp/data").unwrap()), content);
            drop(tree);
            let next = tree_of(directory.path(), |disk| disk);
            assert!([OLD, NEW].contains(&&*next.dtype()), "{commit:?} {call}");
            assert_eq!(next.content(next.inode("one.blp/data").unwrap()), content);
            next.retypes().unwrap();
            assert_eq!(next.dtype(), NEW, "{commit:?} {call}");
            if is_whole {
                assert!(call > 5, "{call}");
                break;
            }
        }
    }
}

#[test]
fn after_a_crash_it_has_one_type_or_the_other() {
    for commit in WAYS {
        let directory = ground();
        let recording = Arc::new(std::sync::OnceLock::new());
        let tree = committing(directory.path(), commit, |disk| {
            let disk = Arc::new(RecordingDisk::new(disk));
            let _ = recording.set(Arc::clone(&disk));
            disk
        });
        let content = tree.content(tree.inode("one.blp/data").unwrap());
        tree.retypes().unwrap();
        let changes = recording.get().unwrap().changes();
        let mut found = Vec::new();
        for some in 0..=changes.len() {
            let again = ground();
            replay(&changes[..some], again.path()).unwrap();
            let next = tree_of(again.path(), |disk| disk);
            assert_eq!(next.content(next.inode("one.blp/data").unwrap()), content);
            found.push(next.dtype());
        }
        let turns = found.iter().position(|dtype| dtype == NEW).unwrap();
        assert!(found[..turns].iter().all(|dtype| dtype == OLD), "{found:?}");
        assert!(found[turns..].iter().all(|dtype| dtype == NEW), "{found:?}");
        assert!(turns > 0);
    }
}

/// Nobody has interrupted who sets a type, or renames a file with one over an array.
#[test]
fn a_mount_that_is_about_to_end_sets_a_type_that_takes_not_long() {
    let renames = |tree: &Tree| {
        let (name, how) = (OsStr::new("user.arrayfs.dtype"), XattrSetting::Any);
        let array = tree.inode("one.blp").unwrap();
        let (made, open) = tree
            .making
            .create(array, OsStr::new("new"), 0o644, true, NOBODY)?;
        tree.closing.release(open.handle);
        tree.changes
            .set_xattr(made.inode, name, (NEW.as_bytes(), how), &|_| true)?;
        let (from, to) = ((array, OsStr::new("new")), (array, OsStr::new("data")));
        tree.renames.rename(from, to, Renaming::Over)
    };
    for change in [Tree::retypes, renames] {
        for call in 1.. {
            let directory = ground();
            let failure = Failure::new(libc::EIO);
            let tree = Arc::new(committing(directory.path(), Preference::Replace, |disk| {
                let failure = Arc::clone(&failure);
                Arc::new(FailingDisk { disk, failure })
            }));
            let ends = Arc::clone(&tree);
            failure.arm_with(call, move || {
                ends.fs.live.hurry_for(crate::live::TO_THE_END);
                let begun = std::time::Instant::now();
                while begun.elapsed() <= crate::patience::BETWEEN_LOOKS {
                    std::thread::yield_now();
                }
            });
            let done = change(&tree);
            let is_whole = failure.is_armed();
            assert!(done.is_ok(), "call {call}: {done:?}");
            assert_eq!(tree.dtype(), NEW);
            if is_whole {
                break;
            }
        }
    }
}
