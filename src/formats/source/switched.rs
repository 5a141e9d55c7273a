//! A file that is read as it is going to be, and then as it is; or as it was, by those who know
//! that one alone.
//!
//! What is planned by a file before it is switched holds afterwards: where readers look, the bytes
//! are the same. For an array that a commit leaves alone that is so, and it goes on with the file.
//! One that the commit changes is another array from then on: whoever has the old one still is to
//! find the old file, or that it has changed, and never the new bytes by the old places. So each
//! has a source of its own that follows the file ([`SwitchedSource::following`]) until it is
//! switched by itself; a [`Handover`] does it in the right order. Used by `live`, which opens a
//! container before a commit makes its files visible, and by `container::hdf5`, whose containers
//! share what commits leave.

use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::{Fetch, PosixFile, Source, SourceIdentity, Stat};
use crate::error::Result;
use crate::sync::{Mutex, RwLock};

pub struct SwitchedSource {
    reads: RwLock<Reads>,
}

enum Reads {
    File(Arc<dyn Source>),
    /// Whatever that one reads.
    As(Arc<SwitchedSource>),
}

impl SwitchedSource {
    pub fn new(file: Arc<dyn Source>) -> SwitchedSource {
        let reads = RwLock::new(Reads::File(file));
        SwitchedSource { reads }
    }

    /// One that reads what another reads, until it is switched by itself.
    pub fn following(file: &Arc<SwitchedSource>) -> SwitchedSource {
        let reads = RwLock::new(Reads::As(Arc::clone(file)));
        SwitchedSource { reads }
    }

    pub fn switch(&self, file: Arc<dyn Source>) {
        *self.reads.write() = Reads::File(file);
    }

    fn follow(&self, file: &Arc<SwitchedSource>) {
        *self.reads.write() = Reads::As(Arc::clone(file));
    }

    /// The file that it is at this moment.
    fn now(&self) -> Arc<dyn Source> {
        // Both under the lock: one that follows is switched before the file is, and follows again
        // after that was taken back.
        match &*self.reads.read() {
            Reads::File(file) => Arc::clone(file),
            Reads::As(file) => file.now(),
        }
    }
}

impl Source for SwitchedSource {
    fn len(&self) -> u64 {
        self.now().len()
    }

    fn identity(&self) -> SourceIdentity {
        self.now().identity()
    }

    fn stat(&self) -> Result<Stat> {
        self.now().stat()
    }

    fn stat_opened(&self) -> Result<Stat> {
        self.now().stat_opened()
    }

    fn fetch(&self, ranges: &mut [Fetch<'_>]) -> Result<()> {
        self.now().fetch(ranges)
    }

    fn is_far(&self) -> bool {
        self.now().is_far()
    }

    fn kept(&self, what: &str) -> Option<Vec<u8>> {
        self.now().kept(what)
    }

    fn keep(&self, what: &str, found: &[u8]) {
        self.now().keep(what, found);
    }

    fn expect(&self, ranges: &[Range<u64>]) {
        self.now().expect(ranges);
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.now().read(offset, buf)
    }

    fn as_posix(&self) -> Option<&dyn PosixFile> {
        Some(self)
    }
}

impl PosixFile for SwitchedSource {
    fn xattr(&self, name: &OsStr) -> Result<Vec<u8>> {
        self.now().posix()?.xattr(name)
    }

    fn xattr_names(&self) -> Result<Vec<OsString>> {
        self.now().posix()?.xattr_names()
    }

    fn seek(&self, offset: u64, hole: bool) -> Result<u64> {
        self.now().posix()?.seek(offset, hole)
    }

    fn with_descriptor(&self, with: &mut dyn FnMut(BorrowedFd<'_>)) -> Result<()> {
        self.now().posix()?.with_descriptor(with)
    }
}

/// How a file passes from what is read before a commit to what is read after it.
pub struct Handover {
    file: Arc<SwitchedSource>,
    /// Of arrays that change: as they were, and as they are going to be.
    before: Vec<Arc<SwitchedSource>>,
    after: Vec<Arc<SwitchedSource>>,
    /// The file before, once it has been switched.
    was: Mutex<Option<Arc<dyn Source>>>,
}

impl Handover {
    pub fn of(file: &Arc<SwitchedSource>) -> Handover {
        Handover {
            file: Arc::clone(file),
            before: Vec::new(),
            after: Vec::new(),
            was: Mutex::default(),
        }
    }

    /// An array that changes: `before` follows the file, `after` is the file as it is going to be.
    pub fn add(&mut self, before: &Arc<SwitchedSource>, after: &Arc<SwitchedSource>) {
        self.before.push(Arc::clone(before));
        self.after.push(Arc::clone(after));
    }

    /// The file has become what it was going to be: the arrays that stay go on with it, and so do
    /// the new ones. In this order no array reads it by places that are not its own.
    pub fn hand_over(&self, file: Arc<dyn Source>) {
        let was = self.file.now();
        for array in &self.before {
            array.switch(Arc::clone(&was));
        }
        self.file.switch(file);
        for array in &self.after {
            array.follow(&self.file);
        }
        *self.was.lock() = Some(was);
    }

    /// What the commit has made is not shown, after all.
    pub fn take_back(&self) {
        if let Some(was) = self.was.lock().take() {
            for array in &self.after {
                array.switch(self.file.now());
            }
            self.file.switch(was);
            for array in &self.before {
                array.follow(&self.file);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::BytesSource;
    use super::*;

    fn bytes(of: &[u8]) -> Arc<dyn Source> {
        Arc::new(BytesSource::new(of.to_vec()))
    }

    fn read(source: &SwitchedSource) -> Vec<u8> {
        let mut out = vec![0; source.len() as usize];
        source.fetch_one(0, &mut out).unwrap();
        out
    }

    #[test]
    fn what_changes_is_of_its_own_file_and_what_stays_goes_on() {
        let file = Arc::new(SwitchedSource::new(bytes(b"old")));
        let [stays, before] = [0, 1].map(|_| Arc::new(SwitchedSource::following(&file)));
        let after = Arc::new(SwitchedSource::new(bytes(b"future")));
        let mut handover = Handover::of(&file);
        handover.add(&before, &after);
        let assert_read = |expected: [&[u8]; 3]| {
            let found = [&stays, &before, &after].map(|source| read(source));
            assert_eq!(found, expected.map(<[u8]>::to_vec));
        };
        handover.take_back();
        assert_read([b"old", b"old", b"future"]);
        handover.hand_over(bytes(b"newer"));
        assert_read([b"newer", b"old", b"newer"]);
        handover.take_back();
        assert_read([b"old", b"old", b"newer"]);
        file.switch(bytes(b"else"));
        assert_read([b"else", b"else", b"newer"]);
    }
}
