//! New files while they are told: the one writer of them, whatever they are for.
//!
//! A file is made when something is told of it for the first time, by a [`MakeFile`] that knows its
//! place, owner and mode: beside an old one, whose place it is going to take
//! ([`super::beside_old`]), or in a container that is new ([`super::new_container`]). Files of
//! which nothing is told are not made.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::ops::Range;
use std::sync::Arc;

use super::covered::CoveredBytes;
use super::holes::Holes;
use super::spot::Spot;
use crate::container::writable::{MemberNumber, Recipe};
use crate::disk::{Caller, Disk, DiskFile};
use crate::error::{Error, Result};
use crate::patience;
use crate::source::Source;

/// The disk begins to write so much of a new file as soon as it is there, so that little is left to
/// wait for.
const WRITEBACK: u64 = 2 << 20;

/// Bytes that are copied between two looks at who waits for them.
const COPIED_AT_ONCE: u64 = 64 << 20;

pub(super) trait MakeFile {
    /// What its maker remembers of a file beside what is told of it.
    type Known;

    fn make(&self, number: MemberNumber) -> Result<(NewFile, Self::Known)>;

    /// Asked all the time while files are told: writing much takes long.
    fn go_on(&self) -> Result<()> {
        Ok(())
    }
}

pub(super) struct NewFiles<M: MakeFile> {
    pub(super) maker: M,
    files: BTreeMap<MemberNumber, (NewFile, M::Known)>,
}

pub(super) struct NewFile {
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) owner: Caller,
    /// Where stored bytes are copied from, if there is an old file.
    old: Option<Arc<dyn Source>>,
    /// Of that.
    holes: Holes,
    /// It has had all bytes of the old one from the start.
    shares: bool,
    covered: CoveredBytes,
    /// The bytes that the disk has not begun to write.
    waiting: Range<u64>,
}

impl<M: MakeFile> NewFiles<M> {
    pub(super) fn new(maker: M) -> NewFiles<M> {
        NewFiles {
            maker,
            files: BTreeMap::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    pub(super) fn each(&self) -> impl Iterator<Item = (&NewFile, &M::Known)> {
        self.files.values().map(|(file, known)| (file, known))
    }

    /// Whether all of every file has been told.
    pub(super) fn check(&self) -> Result<()> {
        let mut files = self.files.iter();
        files.try_for_each(|(number, (file, _))| file.covered.check(*number).map(drop))
    }

    fn file(&mut self, number: MemberNumber) -> Result<&mut NewFile> {
        self.maker.go_on()?;
        if !self.files.contains_key(&number) {
            let made = self.maker.make(number)?;
            self.files.insert(number, made);
        }
        match self.files.get_mut(&number) {
            Some((file, _)) => Ok(file),
            None => Err(Error::Bug("a new file has gone".into())),
        }
    }
}

impl<M: MakeFile> Recipe for NewFiles<M> {
    fn copy(&mut self, file: MemberNumber, from: Range<u64>, to: u64) -> Result<()> {
        self.file(file)?.copy(from, to)
    }

    fn put(&mut self, file: MemberNumber, at: u64, bytes: &[u8]) -> Result<()> {
        let file = self.file(file)?;
        file.file.put_all(at, bytes, file.owner)?;
        file.written(at..at + bytes.len() as u64);
        Ok(())
    }

    fn lies(&mut self, file: MemberNumber, range: Range<u64>) -> Result<()> {
        self.file(file)?.covered.add(range);
        Ok(())
    }

    /// A hole, which reads as such.
    fn zeros(&mut self, file: MemberNumber, range: Range<u64>) -> Result<()> {
        self.file(file)?.covered.add(range);
        Ok(())
    }

    fn keep_rest(&mut self, file: MemberNumber) -> Result<()> {
        let file = self.file(file)?;
        let len = file.old()?.len();
        file.copy(0..len, 0)?;
        file.covered.keep(len);
        Ok(())
    }

    fn set_len(&mut self, file: MemberNumber, len: u64) -> Result<()> {
        let file = self.file(file)?;
        file.covered.set_len(len);
        file.file.set_len(len, file.owner)
    }
}

impl NewFile {
    pub(super) fn new(file: Arc<dyn DiskFile>, owner: Caller) -> NewFile {
        NewFile {
            file,
            owner,
            old: None,
            holes: Holes::default(),
            shares: false,
            covered: CoveredBytes::default(),
            waiting: 0..0,
        }
    }

    /// This new file beside an old one.
    pub(super) fn beside(self, old: Option<Arc<dyn Source>>) -> NewFile {
        NewFile { old, ..self }
    }

    /// Begins with all bytes of the old one, which the two share; false if they cannot.
    pub(super) fn share(&mut self, disk: &dyn Disk) -> Result<bool> {
        self.shares = disk.share(&*self.file, &**self.old()?, self.owner);
        Ok(self.shares)
    }

    fn old(&self) -> Result<&Arc<dyn Source>> {
        let old = self.old.as_ref();
        old.ok_or_else(|| Error::Bug("a new file has nothing to copy from".into()))
    }

    fn copy(&mut self, from: Range<u64>, to: u64) -> Result<()> {
        let old = Arc::clone(self.old()?);
        if self.shares && from.start == to {
            self.covered.add(from);
            return Ok(());
        }
        let place = to..to.saturating_add(from.end.saturating_sub(from.start));
        // What is a hole in the old file is one in the new one, where nothing else has been.
        let keeps_holes = !self.shares && self.covered.has_none(&place);
        let mut at = from.start;
        while at < from.end {
            patience::check()?;
            let mut part = at..from.end;
            if keeps_holes {
                part = self.holes.data(&*old, part);
            }
            at = part.start;
            if part.is_empty() {
                continue;
            }
            part.end = part.end.min(part.start.saturating_add(COPIED_AT_ONCE));
            let n = self
                .file
                .copy(&*old, part, place.start + (at - from.start), self.owner)?;
            if n == 0 {
                return Err(short());
            }
            at += n as u64;
        }
        self.written(place);
        Ok(())
    }

    fn written(&mut self, range: Range<u64>) {
        self.covered.add(range.clone());
        self.waiting = match self.waiting.end == range.start {
            true => self.waiting.start..range.end,
            false => range,
        };
        if self.waiting.end - self.waiting.start >= WRITEBACK {
            self.file.begin_writeback(self.waiting.clone());
            self.waiting.start = self.waiting.end;
        }
    }
}

/// Makes a file under a hidden name; one that was left under it goes.
pub(super) fn create_hidden(
    disk: &dyn Disk,
    spot: &Spot,
    name: &OsStr,
    mode: u32,
    owner: Caller,
) -> Result<Arc<dyn DiskFile>> {
    let place = spot.place(name);
    match disk.create(place, mode, owner) {
        Err(e) if e.is_already_there() => {
            disk.unlink(place)?;
            disk.create(place, mode, owner)
        }
        other => other,
    }
}

pub(super) fn short() -> Error {
    let cause = std::io::Error::from_raw_os_error(libc::ENOSPC);
    Error::io("cannot write a container", cause)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::disk::Place;
    use crate::disk::local::LocalDisk;
    use crate::source::Store;
    use crate::source::local::LocalStore;

    const OLD: &[u8] = b"what was there before";
    const FILE: MemberNumber = MemberNumber::ONLY;

    /// Makes one file in a directory, beside an old one.
    struct Ground(tempfile::TempDir);

    impl MakeFile for Ground {
        type Known = ();

        fn make(&self, _number: MemberNumber) -> Result<(NewFile, ())> {
            let store = Arc::new(LocalStore::open(self.0.path(), self.0.path()).unwrap());
            let id = store.stat(Path::new(""))?.id;
            let place = Place {
                directory: Path::new(""),
                id,
                name: OsStr::new("new"),
            };
            std::fs::write(self.0.path().join("old"), OLD).unwrap();
            let old = store.open(Path::new("old"))?;
            let owner = Caller::of(0, 0);
            let file = LocalDisk::new(store).create(place, 0o600, owner)?;
            Ok((NewFile::new(file, owner).beside(Some(old)), ()))
        }
    }

    fn covered(tell: impl FnOnce(&mut dyn Recipe) -> Result<()>) -> Result<Vec<u8>> {
        let mut files = NewFiles::new(Ground(tempfile::tempdir().unwrap()));
        tell(&mut files)?;
        files.check()?;
        Ok(std::fs::read(files.maker.0.path().join("new")).unwrap())
    }

    #[test]
    fn of_a_file_that_is_patched_the_rest_stays() {
        let patched = covered(|write| {
            write.keep_rest(FILE)?;
            write.put(FILE, 5, b"IS_")
        });
        assert_eq!(patched.unwrap(), b"what IS_ there before");
        let longer = covered(|write| {
            write.keep_rest(FILE)?;
            write.put(FILE, OLD.len() as u64, b", and more")?;
            write.set_len(FILE, OLD.len() as u64 + 10)
        });
        assert_eq!(longer.unwrap(), b"what was there before, and more");
    }

    #[test]
    fn zeros_behind_the_end_are_told() {
        let len = OLD.len() as u64;
        let longer = covered(|write| {
            write.keep_rest(FILE)?;
            write.zeros(FILE, len..len + 4)?;
            write.put(FILE, len + 4, b"end")?;
            write.zeros(FILE, len + 7..len + 9)?;
            write.set_len(FILE, len + 9)
        });
        assert_eq!(longer.unwrap(), [OLD, b"\0\0\0\0end\0\0"].concat());
    }

    #[test]
    fn what_is_left_out_is_refused() {
        let with_hole = covered(|write| {
            write.copy(FILE, 0..4, 0)?;
            write.put(FILE, 6, b"xy")?;
            write.set_len(FILE, 8)
        });
        assert!(matches!(with_hole, Err(Error::Bug(_))), "{with_hole:?}");
        let endless = covered(|write| write.put(FILE, 0, b"xy"));
        assert!(matches!(endless, Err(Error::Bug(_))), "{endless:?}");
        let longer = covered(|write| {
            write.keep_rest(FILE)?;
            write.set_len(FILE, OLD.len() as u64 + 1)
        });
        assert!(matches!(longer, Err(Error::Bug(_))), "{longer:?}");
    }
}
