//! A tree over one container, what is done to it, and what it may hold at any moment.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::{Arc, Weak};

use tempfile::TempDir;

use super::image::{Image, scratch};
use super::subject::{FILE, Subject, joined};
use crate::commit::Preference;
use crate::disk::failing::{FailingDisk, Failure};
use crate::disk::recording::{Change, RecordingDisk, Sharing};
use crate::disk::{Disk, NewAttributes, NewTime, Place, Putting, Renaming, Target};
use crate::error::{Error, Result};
use crate::live::ContainerSettings;
use crate::source::local::LocalStore;
use crate::source::{Store, Timestamp};
use crate::sync::Mutex;
use crate::tree::driven::{NOBODY, tree_with};
use crate::tree::{HandleId, InodeId, Tree};

/// What another process makes before it takes the container's name.
pub(super) const THEIRS: &str = "theirs";

/// Of one of the arrays.
#[derive(Debug, Clone)]
pub(super) enum Edit {
    Write(usize, u64, Vec<u8>),
    SetLen(usize, u64),
}

impl Edit {
    fn apply(&self, arrays: &mut [Vec<u8>]) {
        match self {
            Edit::Write(array, at, bytes) => {
                let content = &mut arrays[*array];
                let (at, end) = (*at as usize, *at as usize + bytes.len());
                content.resize(content.len().max(end), 0);
                content[at..end].copy_from_slice(bytes);
            }
            Edit::SetLen(array, len) => arrays[*array].resize(*len as usize, 0),
        }
    }
}

/// What was done, and after how many changes of the disk.
#[derive(Default)]
pub(super) struct Done {
    /// Each with how many changes there were when it began.
    edits: Vec<(usize, Edit)>,
    /// So many changes, then so many edits are safe.
    safe: Vec<(usize, usize)>,
    pub(super) errors: Vec<Error>,
}

/// An array that is open for writing, and its number.
pub(super) type Opened = (InodeId, HandleId, usize);

pub(super) struct Session {
    pub(super) directory: TempDir,
    pub(super) before: Image,
    pub(super) tree: Tree,
    pub(super) disk: Arc<RecordingDisk>,
    pub(super) failure: Arc<Failure>,
    pub(super) subject: &'static Subject,
    /// What each array held.
    pub(super) first: Vec<Vec<u8>>,
    pub(super) done: Mutex<Done>,
}

/// A tree over a directory, with the disk that it is changed through.
pub(super) fn tree_at(
    directory: &Path,
    commit: Preference,
    disk: impl FnOnce(Arc<dyn Disk>) -> Option<Arc<dyn Disk>>,
) -> Tree {
    let settings = ContainerSettings {
        commit,
        ..ContainerSettings::default()
    };
    tree_with(directory, settings, disk)
}

/// A golden file.
pub(super) fn sample(name: &str) -> Vec<u8> {
    let golden =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../mount-tests/golden/bloscpack/sources");
    std::fs::read(golden.join(name)).unwrap()
}

impl Session {
    pub(super) fn new(of: &str, commit: Preference, code: i32) -> Arc<Session> {
        Session::on((&FILE, of), commit, code, Sharing::Unknown)
    }

    pub(super) fn on(
        (subject, of): (&'static Subject, &str),
        commit: Preference,
        code: i32,
        sharing: Sharing,
    ) -> Arc<Session> {
        let directory = scratch();
        subject.make(of, directory.path());
        Session::at(directory, subject, commit, (code, sharing))
    }

    /// Another mount, of what a crash has left.
    pub(super) fn of_image(
        image: &Image,
        subject: &'static Subject,
        commit: Preference,
    ) -> Arc<Session> {
        let directory = scratch();
        image.store(directory.path());
        Session::at(directory, subject, commit, (libc::EIO, Sharing::Unknown))
    }

    fn at(
        directory: TempDir,
        subject: &'static Subject,
        commit: Preference,
        (code, sharing): (i32, Sharing),
    ) -> Arc<Session> {
        let before = Image::load(directory.path());
        let failure = Failure::new(code);
        let mut recording = None;
        let tree = tree_at(directory.path(), commit, |disk| {
            let failure = Arc::clone(&failure);
            let disk = Arc::new(FailingDisk { disk, failure });
            let disk = Arc::new(RecordingDisk::sharing(disk, sharing));
            recording = Some(Arc::clone(&disk));
            Some(disk)
        });
        Arc::new(Session {
            before,
            first: subject.arrays(&tree).unwrap(),
            subject,
            directory,
            tree,
            disk: recording.unwrap(),
            failure,
            done: Mutex::default(),
        })
    }

    fn changes(&self) -> usize {
        self.disk.changes().len()
    }

    fn note<T>(&self, done: Result<T>) -> Option<T> {
        done.map_err(|e| self.done.lock().errors.push(e)).ok()
    }

    fn edits(&self) -> usize {
        self.done.lock().edits.len()
    }

    fn begin(&self, edit: Edit) {
        let changes = self.changes();
        self.done.lock().edits.push((changes, edit));
    }

    fn safe(&self, edits: usize) {
        let changes = self.changes();
        self.done.lock().safe.push((changes, edits));
    }

    pub(super) fn open(&self) -> Opened {
        self.open_array(0)
    }

    pub(super) fn open_array(&self, array: usize) -> Opened {
        let inode = self.tree.inode(self.subject.arrays[array]).unwrap();
        let open = match self.note(self.tree.contents.open_for_writing(inode)) {
            Some(open) => open,
            // Told, he tries again.
            None => self.tree.contents.open_for_writing(inode).unwrap(),
        };
        (inode, open.handle, array)
    }

    pub(super) fn write(&self, to: Opened, at: u64, bytes: &[u8]) {
        self.begin(Edit::Write(to.2, at, bytes.to_owned()));
        let how = Putting::default();
        let written = self.tree.contents.write(to.0, to.1, at, bytes, how, NOBODY);
        match self.note(written) {
            Some(n) => assert_eq!(n, bytes.len()),
            None => drop(self.done.lock().edits.pop()),
        }
    }

    pub(super) fn set_len(&self, of: Opened, len: u64) {
        self.begin(Edit::SetLen(of.2, len));
        let set = self.tree.contents.set_len(of.0, Some(of.1), len, NOBODY);
        self.note(set);
    }

    /// Without a handle: it is committed at once.
    pub(super) fn truncate(&self, len: u64) {
        self.begin(Edit::SetLen(0, len));
        let edits = self.edits();
        let inode = self.tree.inode(self.subject.arrays[0]).unwrap();
        if self
            .note(self.tree.contents.set_len(inode, None, len, NOBODY))
            .is_some()
        {
            self.safe(edits);
        } else if self.tree.containers().written.all().is_empty() {
            self.done.lock().edits.pop();
        }
    }

    pub(super) fn sync(&self, of: Opened) {
        let edits = self.edits();
        if self
            .note(self.tree.closing.sync(of.0, of.1, false))
            .is_some()
        {
            self.safe(edits);
        }
    }

    /// The container keeps its time, as with `cp -p`.
    pub(super) fn keep_time(&self, of: Opened) {
        let store = LocalStore::open(self.directory.path(), self.directory.path()).unwrap();
        let first = store.stat(Path::new(self.subject.first_file));
        self.set_time(of, first.unwrap().mtime);
    }

    pub(super) fn set_time(&self, of: Opened, time: Timestamp) {
        let to = NewAttributes {
            mtime: Some(NewTime::At(time)),
            ..NewAttributes::default()
        };
        let set = self
            .tree
            .changes
            .set_attributes(of.0, Some(of.1), None, &to, NOBODY);
        self.note(set);
    }

    /// Closed once, and for good.
    pub(super) fn close(&self, of: Opened) {
        let edits = self.edits();
        let closed = self.note(self.tree.closing.close(of.1));
        // What does not agree yet is not safe before it is synced.
        let is_committed =
            self.subject.arrays.len() == 1 || self.tree.containers().written.all().is_empty();
        if closed.is_some() && is_committed {
            self.safe(edits);
        }
        let edits = self.edits();
        self.tree.closing.release(of.1);
        if closed.is_some() && self.tree.containers().written.all().is_empty() {
            self.safe(edits);
        }
    }

    /// Does something as soon as a change of the disk is the one that is waited for.
    pub(super) fn when(
        self: &Arc<Self>,
        is: fn(&Change) -> bool,
        act: impl Fn(&Session) + Send + 'static,
    ) {
        let session: Weak<Session> = Arc::downgrade(self);
        self.disk.watch(move |change| {
            let now = is(change);
            if now {
                act(&session.upgrade().unwrap());
            }
            now
        });
    }

    /// Another process puts another file in the container's place.
    pub(super) fn replace(&self, bytes: &[u8]) {
        let store = LocalStore::open(self.directory.path(), self.directory.path()).unwrap();
        let id = store.stat(Path::new("")).unwrap().id;
        let place = |name| Place {
            directory: Path::new(""),
            id,
            name: OsStr::new(name),
        };
        let disk = &*self.disk;
        let file = disk.create(place(THEIRS), 0o644, NOBODY).unwrap();
        file.put(0, bytes, Putting::default(), NOBODY).unwrap();
        disk.sync(Target::Open(file.source()), false).unwrap();
        disk.rename(
            place(THEIRS),
            place(self.subject.first_file),
            Renaming::Over,
        )
        .unwrap();
    }
}

impl Done {
    /// After so many changes: how many edits must be there, and how many may be.
    pub(super) fn bounds(&self, changes: usize) -> (usize, usize) {
        let safe = self.safe.iter().filter(|(at, _)| *at <= changes);
        let begun = self.edits.iter().filter(|(at, _)| *at < changes);
        (safe.map(|safe| safe.1).max().unwrap_or(0), begun.count())
    }

    pub(super) fn all(&self) -> (usize, usize) {
        (self.edits.len(), self.edits.len())
    }

    /// What the arrays hold after all edits.
    pub(super) fn content(&self, first: &[Vec<u8>]) -> Vec<u8> {
        let mut content = first.to_owned();
        self.edits
            .iter()
            .for_each(|(_, edit)| edit.apply(&mut content));
        joined(&content)
    }

    /// What the arrays may hold: the edits that must be there, and any of those that may be.
    pub(super) fn allowed(&self, first: &[Vec<u8>], bounds: (usize, usize)) -> BTreeSet<Vec<u8>> {
        let (safe, begun) = bounds;
        let open = begun.saturating_sub(safe);
        assert!(open < 8, "{open} edits are not safe");
        let content = |bits: u32| {
            let mut content = first.to_owned();
            for (at, (_, edit)) in self.edits[..begun.max(safe)].iter().enumerate() {
                if at < safe || bits >> (at - safe) & 1 == 1 {
                    edit.apply(&mut content);
                }
            }
            joined(&content)
        };
        (0..1 << open).map(content).collect()
    }
}
