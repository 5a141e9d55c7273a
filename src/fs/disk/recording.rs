//! A disk for tests that writes down what is done to it, and does any beginning of that again
//! somewhere else.
//!
//! What a crash leaves behind is a beginning of what was done; recovery is tested on every one of
//! them. Used by tests of changes to the source.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::local::LocalDisk;
use super::{
    Allocation, Caller, Disk, DiskFile, NewAttributes, NewEntry, Place, Putting, Renaming, Target,
    Trial, XattrSetting,
};
use crate::error::{Error, Result};
use crate::source::local::LocalStore;
use crate::source::{FileId, Source, SpecialKind, Store};
use crate::sync::Mutex;

/// A file that is written, from its opening on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Writer(usize);

/// Something that was done, and succeeded.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    Create(PathBuf, u32, Writer),
    Open(PathBuf, Writer),
    MakeDirectory(PathBuf, u32),
    MakeFile(PathBuf, u32),
    MakeSpecial(PathBuf, SpecialKind, u32, u32),
    Symlink(PathBuf, OsString),
    Link(Of, PathBuf),
    Unlink(PathBuf),
    RemoveDirectory(PathBuf),
    Rename(PathBuf, PathBuf, Renaming),
    SetAttributes(Of, NewAttributes),
    SetXattr(Of, OsString, Vec<u8>, XattrSetting),
    RemoveXattr(Of, OsString),
    Sync(Of, bool),
    /// A file, and its name in a directory.
    SyncNamed(Of, Of),
    Put(Writer, u64, Vec<u8>, Putting),
    SetLen(Writer, u64),
    Allocate(Writer, Allocation),
    /// What was copied, as bytes.
    Copy(Writer, u64, Vec<u8>),
}

/// What was changed.
#[derive(Debug, Clone, PartialEq)]
pub enum Of {
    Named(PathBuf),
    Written(Writer),
    /// A file that is open for reading alone, by its number.
    Read(FileId),
}

#[derive(Default)]
struct Record {
    changes: Vec<Change>,
    writers: HashMap<FileId, Writer>,
    next: usize,
    /// Called for changes, until it has seen enough.
    watcher: Option<Watcher>,
}

/// Gets changes until it returns true: it has seen enough.
type Watcher = Box<dyn FnMut(&Change) -> bool + Send>;

/// Writes a change down, and calls the watcher: while nothing is locked, so it may change something
/// itself.
fn note(record: &Mutex<Record>, change: Change) {
    let mut locked = record.lock();
    locked.changes.push(change.clone());
    let watcher = locked.watcher.take();
    drop(locked);
    if let Some(mut watcher) = watcher
        && !watcher(&change)
    {
        record.lock().watcher = Some(watcher);
    }
}

pub struct RecordingDisk {
    disk: Arc<dyn Disk>,
    record: Arc<Mutex<Record>>,
    sharing: Sharing,
}

/// Whether files share their bytes, or at least do as if.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sharing {
    /// It is not tried.
    #[default]
    Unknown,
    /// They cannot, which a try shows.
    Fails,
    Works,
}

struct RecordingFile {
    file: Arc<dyn DiskFile>,
    writer: Writer,
    record: Arc<Mutex<Record>>,
}

impl RecordingDisk {
    pub fn new(disk: Arc<dyn Disk>) -> RecordingDisk {
        RecordingDisk::sharing(disk, Sharing::Unknown)
    }

    pub fn sharing(disk: Arc<dyn Disk>, sharing: Sharing) -> RecordingDisk {
        let record = Arc::default();
        RecordingDisk {
            disk,
            record,
            sharing,
        }
    }

    pub fn changes(&self) -> Vec<Change> {
        self.record.lock().changes.clone()
    }

    /// Tells `watcher` of every change from now on, until it says that this is enough.
    pub fn watch(&self, watcher: impl FnMut(&Change) -> bool + Send + 'static) {
        self.record.lock().watcher = Some(Box::new(watcher));
    }

    fn note(&self, change: Change) -> Result<()> {
        note(&self.record, change);
        Ok(())
    }

    fn opened(
        &self,
        file: Arc<dyn DiskFile>,
        change: impl FnOnce(Writer) -> Change,
    ) -> Arc<dyn DiskFile> {
        let mut record = self.record.lock();
        let writer = Writer(record.next);
        record.next += 1;
        record.writers.insert(file.source().id(), writer);
        drop(record);
        note(&self.record, change(writer));
        Arc::new(RecordingFile {
            file,
            writer,
            record: Arc::clone(&self.record),
        })
    }

    fn of(&self, target: Target<'_>) -> Of {
        match target {
            Target::Named { path, .. } => Of::Named(path.to_owned()),
            Target::Open(source) => {
                let id = source.id();
                let known = self.record.lock().writers.get(&id).copied();
                known.map_or(Of::Read(id), Of::Written)
            }
        }
    }
}

fn path_of(place: Place<'_>) -> PathBuf {
    place.directory.join(place.name)
}

impl Disk for RecordingDisk {
    fn may_share(&self, _of: &dyn Source) -> bool {
        self.sharing != Sharing::Unknown
    }

    fn share(&self, file: &dyn DiskFile, all_of: &dyn Source, caller: Caller) -> bool {
        let (mut done, len) = (0, all_of.len());
        while done < len && self.sharing == Sharing::Works {
            match file.copy(all_of, done..len, done, caller) {
                Ok(n) if n > 0 => done += n as u64,
                _ => return false,
            }
        }
        self.sharing == Sharing::Works
    }

    fn create(&self, place: Place<'_>, mode: u32, caller: Caller) -> Result<Arc<dyn DiskFile>> {
        let file = self.disk.create(place, mode, caller)?;
        Ok(self.opened(file, |writer| Change::Create(path_of(place), mode, writer)))
    }

    fn try_create(&self, place: Place<'_>, trial: Trial, caller: Caller) -> Result<()> {
        self.disk.try_create(place, trial, caller)
    }

    fn open(&self, path: &Path, id: FileId) -> Result<Arc<dyn DiskFile>> {
        let file = self.disk.open(path, id)?;
        Ok(self.opened(file, |writer| Change::Open(path.to_owned(), writer)))
    }

    fn make(&self, place: Place<'_>, what: NewEntry<'_>, caller: Caller) -> Result<()> {
        self.disk.make(place, what, caller)?;
        let path = path_of(place);
        self.note(match what {
            NewEntry::Directory { mode } => Change::MakeDirectory(path, mode),
            NewEntry::File { mode } => Change::MakeFile(path, mode),
            NewEntry::Special { kind, mode, device } => {
                Change::MakeSpecial(path, kind, mode, device)
            }
            NewEntry::Symlink { target } => Change::Symlink(path, target.to_owned()),
        })
    }

    fn link(&self, file: Target<'_>, place: Place<'_>) -> Result<()> {
        let of = self.of(file);
        self.disk.link(file, place)?;
        self.note(Change::Link(of, path_of(place)))
    }

    fn unlink(&self, place: Place<'_>) -> Result<()> {
        self.disk.unlink(place)?;
        self.note(Change::Unlink(path_of(place)))
    }

    fn remove_directory(&self, place: Place<'_>) -> Result<()> {
        self.disk.remove_directory(place)?;
        self.note(Change::RemoveDirectory(path_of(place)))
    }

    fn rename(&self, from: Place<'_>, to: Place<'_>, how: Renaming) -> Result<()> {
        self.disk.rename(from, to, how)?;
        self.note(Change::Rename(path_of(from), path_of(to), how))
    }

    fn set_attributes(&self, of: Target<'_>, to: &NewAttributes) -> Result<()> {
        self.disk.set_attributes(of, to)?;
        self.note(Change::SetAttributes(self.of(of), *to))
    }

    fn set_xattr(
        &self,
        of: Target<'_>,
        name: &OsStr,
        value: &[u8],
        how: XattrSetting,
    ) -> Result<()> {
        self.disk.set_xattr(of, name, value, how)?;
        let name = name.to_owned();
        self.note(Change::SetXattr(self.of(of), name, value.to_owned(), how))
    }

    fn remove_xattr(&self, of: Target<'_>, name: &OsStr) -> Result<()> {
        self.disk.remove_xattr(of, name)?;
        self.note(Change::RemoveXattr(self.of(of), name.to_owned()))
    }

    fn sync(&self, of: Target<'_>, data: bool) -> Result<()> {
        self.disk.sync(of, data)?;
        self.note(Change::Sync(self.of(of), data))
    }

    fn sync_named(&self, file: &dyn Source, directory: Target<'_>) -> Result<()> {
        self.disk.sync_named(file, directory)?;
        let file = self.of(Target::Open(file));
        self.note(Change::SyncNamed(file, self.of(directory)))
    }
}

impl RecordingFile {
    fn note(&self, change: Change) {
        note(&self.record, change);
    }
}

impl DiskFile for RecordingFile {
    fn source(&self) -> &dyn Source {
        self.file.source()
    }

    fn put(&self, offset: u64, bytes: &[u8], how: Putting, caller: Caller) -> Result<usize> {
        let n = self.file.put(offset, bytes, how, caller)?;
        self.note(Change::Put(self.writer, offset, bytes[..n].to_owned(), how));
        Ok(n)
    }

    fn set_len(&self, len: u64, caller: Caller) -> Result<()> {
        self.file.set_len(len, caller)?;
        self.note(Change::SetLen(self.writer, len));
        Ok(())
    }

    fn allocate(&self, what: Allocation, caller: Caller) -> Result<()> {
        self.file.allocate(what, caller)?;
        self.note(Change::Allocate(self.writer, what));
        Ok(())
    }

    fn copy(&self, from: &dyn Source, range: Range<u64>, to: u64, caller: Caller) -> Result<usize> {
        let n = self.file.copy(from, range, to, caller)?;
        let mut bytes = vec![0; n];
        self.source().read(to, &mut bytes)?;
        self.note(Change::Copy(self.writer, to, bytes));
        Ok(n)
    }
}

/// Does `changes` again in a directory that is as the recorded one was at first.
pub fn replay(changes: &[Change], directory: &Path) -> Result<()> {
    let store = Arc::new(LocalStore::open(directory, directory).unwrap());
    let disk = LocalDisk::new(Arc::clone(&store));
    let mut player = Player {
        store,
        disk,
        written: HashMap::new(),
    };
    changes.iter().try_for_each(|change| player.play(change))
}

struct Player {
    store: Arc<LocalStore>,
    disk: LocalDisk,
    written: HashMap<Writer, Arc<dyn DiskFile>>,
}

const NOBODY: Caller = Caller::of(0, 0);

impl Player {
    fn play(&mut self, change: &Change) -> Result<()> {
        match change {
            Change::Create(path, mode, writer) => {
                let file = self.at(path, |place| self.disk.create(place, *mode, NOBODY))?;
                self.written.insert(*writer, file);
                Ok(())
            }
            Change::Open(path, writer) => {
                let file = self.disk.open(path, self.id(path)?)?;
                self.written.insert(*writer, file);
                Ok(())
            }
            Change::MakeDirectory(path, mode) => {
                self.make(path, NewEntry::Directory { mode: *mode })
            }
            Change::MakeFile(path, mode) => self.make(path, NewEntry::File { mode: *mode }),
            Change::MakeSpecial(path, kind, mode, device) => {
                let (kind, mode, device) = (*kind, *mode, *device);
                self.make(path, NewEntry::Special { kind, mode, device })
            }
            Change::Symlink(path, target) => self.make(path, NewEntry::Symlink { target }),
            Change::Unlink(path) => self.at(path, |place| self.disk.unlink(place)),
            Change::RemoveDirectory(path) => {
                self.at(path, |place| self.disk.remove_directory(place))
            }
            Change::Rename(from, to, how) => self.at(from, |from| {
                self.at(to, |to| self.disk.rename(from, to, *how))
            }),
            Change::Put(writer, offset, bytes, how) => {
                let put = self.written[writer].put(*offset, bytes, *how, NOBODY);
                put.map(drop)
            }
            Change::Copy(writer, offset, bytes) => {
                let how = Putting::default();
                let put = self.written[writer].put(*offset, bytes, how, NOBODY);
                put.map(drop)
            }
            Change::SetLen(writer, len) => self.written[writer].set_len(*len, NOBODY),
            Change::Allocate(writer, what) => self.written[writer].allocate(*what, NOBODY),
            Change::Link(..)
            | Change::SetAttributes(..)
            | Change::SetXattr(..)
            | Change::RemoveXattr(..)
            | Change::Sync(..)
            | Change::SyncNamed(..) => self.play_on_target(change),
        }
    }

    fn play_on_target(&self, change: &Change) -> Result<()> {
        match change {
            Change::Link(of, path) => self.of(of, |target| {
                self.at(path, |place| self.disk.link(target, place))
            }),
            Change::SetAttributes(of, to) => {
                self.of(of, |target| self.disk.set_attributes(target, to))
            }
            Change::SetXattr(of, name, value, how) => {
                self.of(of, |target| self.disk.set_xattr(target, name, value, *how))
            }
            Change::RemoveXattr(of, name) => {
                self.of(of, |target| self.disk.remove_xattr(target, name))
            }
            Change::Sync(of, data) => self.of(of, |target| self.disk.sync(target, *data)),
            Change::SyncNamed(file, directory) => {
                self.of(file, |target| self.disk.sync(target, false))?;
                self.of(directory, |target| self.disk.sync(target, false))
            }
            _ => Ok(()),
        }
    }

    fn id(&self, path: &Path) -> Result<FileId> {
        self.store.stat(path).map(|stat| stat.id)
    }

    fn at<T>(&self, path: &Path, with: impl FnOnce(Place<'_>) -> Result<T>) -> Result<T> {
        let (directory, name) = (path.parent().unwrap(), path.file_name().unwrap());
        with(Place {
            directory,
            id: self.id(directory)?,
            name,
        })
    }

    fn make(&self, path: &Path, what: NewEntry<'_>) -> Result<()> {
        self.at(path, |place| self.disk.make(place, what, NOBODY))
    }

    fn of(&self, of: &Of, with: impl FnOnce(Target<'_>) -> Result<()>) -> Result<()> {
        match of {
            Of::Named(path) => {
                let id = self.id(path)?;
                with(Target::Named { path, id })
            }
            Of::Written(writer) => with(Target::Open(self.written[writer].source())),
            // What it was is not to be found again.
            Of::Read(_) => Err(Error::NotFound),
        }
    }
}
